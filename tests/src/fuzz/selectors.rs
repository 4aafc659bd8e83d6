//! Label selectors, as strings and as JSON, compared with a literal evaluation.

use podstorm::object::{Kind, LabelSelector, Labels, ReplicaSet, Resource, Selector};
use serde_json::{Value, json};

use super::Target;

pub(super) const STRING: Target = Target {
    name: "selector-string",
    claim: "a readable selector survives a round trip and matches the labels that its text states",
    run: string,
    runs: 20_000,
};

pub(super) const JSON: Target = Target {
    name: "selector-json",
    claim: "a LabelSelector and its printed form match the labels that they state",
    run: json_form,
    runs: 6_000,
};

fn string(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let Ok(selector) = Selector::parse(&text) else {
        return false;
    };
    let printed = selector.to_string();
    let again = Selector::parse(&printed);
    assert_eq!(again.as_ref(), Ok(&selector), "printed as {printed:?}");
    let requirements = read_canonical(&printed);
    for labels in label_sets(&requirements) {
        let expected = holds(&requirements, &labels);
        assert_eq!(
            selector.matches(&labels),
            expected,
            "{printed:?} and {labels:?}"
        );
        if expected {
            for (key, value) in selector.required_pairs() {
                assert_eq!(labels.get(key), Some(value), "{printed:?} and {labels:?}");
            }
        }
    }
    true
}

fn json_form(data: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return false;
    };
    let document = json!({
        "apiVersion": Kind::REPLICA_SET.api_version(),
        "kind": Kind::REPLICA_SET.name(),
        "metadata": {"name": "a"},
        "spec": {"selector": value},
    });
    let Ok(set) = ReplicaSet::from_json(document) else {
        return false;
    };
    let written = set.spec.selector.as_deref();
    let Ok(selector) = Selector::compile(written) else {
        return false;
    };
    let Some(written) = written else {
        assert!(
            !selector.matches(&Labels::default()),
            "an absent selector selects nothing"
        );
        return true;
    };
    let requirements = literally(written);
    let printed = selector.to_string();
    let again = Selector::parse(&printed).expect("the printed form is readable");
    assert_eq!(again.to_string(), printed);
    for labels in label_sets(&requirements) {
        let expected = holds(&requirements, &labels);
        assert_eq!(
            selector.matches(&labels),
            expected,
            "{written:?} and {labels:?}"
        );
        assert_eq!(
            again.matches(&labels),
            expected,
            "{printed:?} and {labels:?}"
        );
    }
    true
}

fn holds(requirements: &[Requirement], labels: &Labels) -> bool {
    requirements.iter().all(|one| one.holds(labels))
}

/// A requirement, for literal evaluation.
#[derive(Debug)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Requirement {
    fn new(key: &str, operator: &str, values: &[&str]) -> Requirement {
        Requirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        }
    }

    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key).map(|value| &**value);
        let listed = value.is_some_and(|value| self.values.iter().any(|listed| listed == value));
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|bound| number(bound));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            ">" => value
                .and_then(number)
                .zip(bound)
                .is_some_and(|(value, bound)| value > bound),
            "<" => value
                .and_then(number)
                .zip(bound)
                .is_some_and(|(value, bound)| value < bound),
            other => panic!("there is no operator {other:?}"),
        }
    }
}

fn literally(selector: &LabelSelector) -> Vec<Requirement> {
    let pairs = selector.match_labels.pairs().iter();
    let mut all: Vec<Requirement> = pairs
        .map(|(key, value)| Requirement::new(key, "In", &[&**value]))
        .collect();
    for written in selector.match_expressions.iter() {
        let values: Vec<&str> = written.values.iter().map(|value| &**value).collect();
        all.push(Requirement::new(&written.key, &written.operator, &values));
    }
    all
}

/// Parses the canonical form, in which spaces occur only around the operators of sets.
fn read_canonical(text: &str) -> Vec<Requirement> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        parts.push(&text[from..]);
    }
    let read = |part: &str| {
        let set = |rest: &str| {
            rest.trim_end_matches(')')
                .split(',')
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        for (mark, operator) in [(" in (", "In"), (" notin (", "NotIn")] {
            if let Some((key, rest)) = part.split_once(mark) {
                let values = set(rest);
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                return Requirement::new(key, operator, &values);
            }
        }
        for (mark, operator) in [("!=", "NotIn"), ("=", "In"), (">", ">"), ("<", "<")] {
            if let Some((key, value)) = part.split_once(mark) {
                return Requirement::new(key, operator, &[value]);
            }
        }
        match part.strip_prefix('!') {
            Some(key) => Requirement::new(key, "DoesNotExist", &[]),
            None => Requirement::new(part, "Exists", &[]),
        }
    };
    parts.into_iter().map(read).collect()
}

/// Returns label sets close to the requirements: no labels; each mentioned value and one other
/// value, both without further keys and with the first values of all other keys; and many labels,
/// which different code matches.
fn label_sets(requirements: &[Requirement]) -> Vec<Labels> {
    let mut sets = vec![Labels::default()];
    let mut all: Vec<(String, String)> = Vec::new();
    for requirement in requirements.iter().take(6) {
        let mut values: Vec<String> = requirement.values.iter().take(4).cloned().collect();
        values.extend(["other".to_owned(), "7".to_owned()]);
        for value in &values {
            sets.push(Labels::from_pairs([(
                requirement.key.as_str(),
                value.as_str(),
            )]));
        }
        if all.iter().all(|(key, _)| *key != requirement.key) {
            all.push((requirement.key.clone(), values.swap_remove(0)));
        }
    }
    let pairs = |pairs: &[(String, String)]| {
        Labels::from_pairs(
            pairs
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str())),
        )
    };
    sets.push(pairs(&all));
    for at in 0..all.len() {
        let mut fewer = all.clone();
        fewer.remove(at);
        sets.push(pairs(&fewer));
    }
    let mut many = all;
    for at in 0..10 {
        let key = format!("k{at}");
        if many.iter().all(|(known, _)| *known != key) {
            many.push((key, "v".to_owned()));
        }
    }
    sets.push(pairs(&many));
    sets
}
