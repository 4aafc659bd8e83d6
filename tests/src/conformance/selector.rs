//! Cases of `selector`: conversion of selectors, and matching.

use podstorm::object::{LabelSelector, Labels, Selector};
use serde_json::Value;

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let selector = match case.value("selector") {
        Value::Null => None,
        present => Some(LabelSelector::from_json(present).map_err(|error| error.to_string())?),
    };
    let error = case.flag("error")?;
    let labelled = case.list("labels")?;
    let matches = case.list("matches")?;

    let compiled = Selector::compile(selector.as_ref());
    expect_eq("error", &compiled.is_err(), &error)?;
    expect_eq("number of matches", &labelled.len(), &matches.len())?;
    let Ok(compiled) = compiled else {
        return expect_eq(
            "labels of a case with an invalid selector",
            &labelled.len(),
            &0,
        );
    };
    // Every selector except the one that matches nothing has an equivalent string.
    let reread = match &selector {
        None => Selector::nothing(),
        Some(_) => Selector::parse(&compiled.to_string()).map_err(|error| error.to_string())?,
    };
    for (index, (pairs, recorded)) in labelled.into_iter().zip(matches).enumerate() {
        let labels = Labels::from_json(pairs).map_err(|error| error.to_string())?;
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
            return Err(format!("labels[{index}] match without the required pairs"));
        }
    }
    Ok(())
}
