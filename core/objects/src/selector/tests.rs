//! Tests of compiling and matching selectors.

use super::*;

fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|value| Str::from(*value)).collect(),
    }
}

fn compile(
    pairs: &[(&str, &str)],
    expressions: &[LabelSelectorRequirement],
) -> Result<Selector, SelectorError> {
    Selector::compile(Some(&LabelSelector {
        match_labels: Labels::from_pairs(pairs.iter().copied()),
        match_expressions: expressions.into(),
    }))
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied())
}

#[test]
fn every_match_has_the_required_pairs() {
    let expressions = [
        requirement("zone", "In", &["x", "x"]),
        requirement("tier", "In", &["a", "b"]),
        requirement("gone", "DoesNotExist", &[]),
        requirement("app", "In", &["web"]),
    ];
    let selector = compile(&[("app", "web")], &expressions).unwrap();
    let pairs: Vec<_> = selector
        .required_pairs()
        .iter()
        .map(|(k, v)| (&**k, &**v))
        .collect();
    assert_eq!(pairs, [("app", "web"), ("zone", "x")]);

    let never = compile(&[("app", "web")], &[requirement("app", "In", &["db"])]).unwrap();
    assert!(never.required_pairs().is_empty());
    assert!(!never.matches(&labels(&[("app", "web")])));
    assert!(!never.is_empty());
}

#[test]
fn invalid_requirements_are_refused() {
    for (key, operator, values) in [
        ("app", "Bogus", &[][..]),
        ("app", "in", &["web"]),
        ("app", "In", &[]),
        ("app", "NotIn", &[]),
        ("app", "Exists", &["web"]),
        ("app", "DoesNotExist", &["web"]),
        ("a b", "Exists", &[]),
        ("app", "In", &["web", "-x"]),
    ] {
        let compiled = compile(&[], &[requirement(key, operator, values)]);
        assert!(compiled.is_err(), "{key} {operator} {values:?}");
    }
    assert!(compile(&[("app", "a/b")], &[]).is_err());
    assert!(compile(&[("a/b/c", "x")], &[]).is_err());
}

#[test]
fn the_string_form_sorts_by_key_and_values() {
    let expressions = [
        requirement("x", "DoesNotExist", &[]),
        requirement("tier", "In", &["b", "a"]),
        requirement("env", "NotIn", &["dev"]),
        requirement("cpu", "Exists", &[]),
    ];
    let selector = compile(&[("app", "web")], &expressions).unwrap();
    assert_eq!(
        selector.to_string(),
        "app=web,cpu,env notin (dev),tier in (a,b),!x"
    );
    assert_eq!(Selector::nothing().to_string(), "");
    assert!(compile(&[], &[]).unwrap().is_empty() && !Selector::nothing().is_empty());
}

#[test]
fn a_plain_map_is_a_selector_of_its_pairs() {
    let selector = Selector::of_pairs(&labels(&[("app", "web"), ("tier", "a")]));
    assert!(selector.matches(&labels(&[("app", "web"), ("tier", "a"), ("z", "")])));
    assert!(!selector.matches(&labels(&[("app", "web")])));
    assert_eq!(selector.to_string(), "app=web,tier=a");
    assert!(!Selector::of_pairs(&Labels::ABSENT).matches(&labels(&[])));
    assert!(Selector::of_pairs(&labels(&[])).is_empty());
}
