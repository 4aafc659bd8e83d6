//! Cases of `selector`: conversion and matching.

use podstorm::object::{LabelSelector, LabelSelectorRequirement, Selector, Str};
use serde_json::Value;

use super::deletion_cost::labels;
use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: Value) -> Result<(), String> {
    let mut case = Fields::new(case, "case")?;
    let selector = match case.value("selector") {
        Value::Null => None,
        present => Some(decode(present)?),
    };
    let error = case.flag("error")?;
    let labelled = case.list("labels")?;
    let matches = case.list("matches")?;
    case.finish()?;

    let compiled = Selector::compile(selector.as_ref());
    expect_eq("error", &compiled.is_err(), &error)?;
    expect_eq("number of matches", &labelled.len(), &matches.len())?;
    let Ok(compiled) = compiled else {
        return expect_eq(
            "labels to match with a refused selector",
            &labelled.len(),
            &0,
        );
    };
    // Everything but "matches nothing" has a string form, which says the same.
    let reread = match &selector {
        None => Selector::nothing(),
        Some(_) => Selector::parse(&compiled.to_string()).map_err(|error| error.to_string())?,
    };
    for (index, (pairs, recorded)) in labelled.into_iter().zip(matches).enumerate() {
        let labels = labels(Fields::new(pairs, format!("labels[{index}]"))?)?;
        let matched = compiled.matches(&labels);
        expect_eq(
            &format!("matches[{index}]"),
            &Value::Bool(matched),
            &recorded,
        )?;
        expect_eq(
            "the string form's match",
            &reread.matches(&labels),
            &matched,
        )?;
        let required = compiled.required_pairs().iter();
        if matched
            && !required
                .into_iter()
                .all(|(key, value)| labels.get(key) == Some(value))
        {
            return Err(format!(
                "labels[{index}] match without the pairs said to be required"
            ));
        }
    }
    Ok(())
}

fn decode(selector: Value) -> Result<LabelSelector, String> {
    let mut selector = Fields::new(selector, "selector")?;
    let match_labels = labels(selector.object("matchLabels")?)?;
    let expressions = selector
        .list("matchExpressions")?
        .into_iter()
        .map(|expression| {
            let mut expression = Fields::new(expression, "matchExpressions[]")?;
            let values = expression.list("values")?.into_iter();
            let values =
                values.map(|value| value.as_str().map(Str::from).ok_or("a value is no string"));
            let requirement = LabelSelectorRequirement {
                key: expression.text("key")?.into(),
                operator: expression.text("operator")?.into(),
                values: values.collect::<Result<_, _>>()?,
            };
            expression.finish()?;
            Ok(requirement)
        });
    let match_expressions = expressions.collect::<Result<_, String>>()?;
    selector.finish()?;
    Ok(LabelSelector {
        match_labels,
        match_expressions,
    })
}
