//! Known deviations from recorded cases, each with its reason: `vectors/deviations.json`, and
//! `kubectl/deviations.json` for recorded commands.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;

/// The lists of deviations.
const LISTS: [&str; 2] = [
    include_str!("../../vectors/deviations.json"),
    include_str!("../../kubectl/deviations.json"),
];

/// The reasons, by subject and id of the case.
type Reasons = BTreeMap<(String, String), String>;

/// Returns the reason why a case deviates from its recording; `None` if the case must agree with
/// it.
pub fn reason(subject: &str, id: &str) -> Option<&'static str> {
    static REASONS: OnceLock<Reasons> = OnceLock::new();
    let reasons = REASONS.get_or_init(|| {
        let lists = LISTS.map(|list| read(list).expect("the committed list is well formed"));
        lists.into_iter().flatten().collect()
    });
    let key = (subject.to_owned(), id.to_owned());
    reasons.get(&key).map(String::as_str)
}

/// Parses a list of groups, each with a subject, a reason and ids.
fn read(text: &str) -> Result<Reasons, String> {
    let groups: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut reasons = Reasons::new();
    for group in groups.as_array().ok_or("not a list")? {
        let text = |member: &str| {
            let text = group[member].as_str().filter(|text| !text.is_empty());
            text.ok_or_else(|| format!("a group lacks {member}: {group}"))
        };
        let (subject, reason) = (text("subject")?, text("reason")?);
        let ids = group["ids"].as_array().ok_or("a group lacks ids")?;
        for id in ids {
            let id = id.as_str().ok_or_else(|| format!("{id} is not an id"))?;
            let key = (subject.to_owned(), id.to_owned());
            if reasons.insert(key, reason.to_owned()).is_some() {
                return Err(format!("{subject} {id} is listed twice"));
            }
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_deviating_case_has_one_reason() {
        let good = r#"[{"subject": "a", "reason": "why", "ids": ["1", "2"]}]"#;
        assert_eq!(read(good).unwrap().len(), 2);
        for (text, problem) in [
            (good.replace("\"2\"", "\"1\""), "listed twice"),
            (good.replace("why", ""), "lacks reason"),
            (good.replace("\"2\"", "2"), "2 is not an id"),
            ("{}".to_owned(), "not a list"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
        assert!(reason("active", "a-0001").is_none());
    }
}
