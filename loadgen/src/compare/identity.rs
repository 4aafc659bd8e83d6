//! Whether two results are of the same thing, and in what they differ: another scenario makes figures
//! that can't be compared, another setting is what one may want to compare.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::load::Loaded;
use crate::figures::Figures;
use crate::result::SCHEMA_VERSION;

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The figures mean different things: not compared unless it is insisted on.
    Incomparable,
    /// It may be what the figures are compared for: said, and gone on.
    Noted,
}

/// One thing in which results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The member of the result, e.g. `settings.controller.kube_api_qps`.
    pub what: String,
    /// What the base has; JSON.
    pub base: String,
    /// What the new one has.
    pub new: String,
    /// What it means.
    pub weight: Weight,
}

/// Members that say what was measured.
const INCOMPARABLE: [&str; 5] = [
    "schema_version",
    "scenario",
    "engine",
    "input.taken",
    "input.ignored",
];

/// Members that say how it was done.
const NOTED: [&str; 6] = [
    "version",
    "behaviour",
    "host.cpus",
    "host.cpu_model",
    "host.platform",
    "host.allocator",
];

/// Settings that are members of the result as well, or, like the seed, looked at apart.
const SAID_ELSEWHERE: [&str; 4] = ["scenario", "engine", "behaviour", "seed"];

/// In what two results differ, apart from their seeds and figures.
pub fn differences(base: &Figures, new: &Figures) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut add = |what: &str, base: Option<&Value>, new: Option<&Value>, weight| {
        if base != new {
            all.push(Difference {
                what: what.to_owned(),
                base: shown(base),
                new: shown(new),
                weight,
            });
        }
    };
    let (base, new) = (base.json(), new.json());
    for what in INCOMPARABLE {
        add(what, at(base, what), at(new, what), Weight::Incomparable);
    }
    for what in NOTED {
        add(what, at(base, what), at(new, what), Weight::Noted);
    }
    let (base, new) = (settings(base), settings(new));
    let mut names: Vec<&String> = base.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let what = format!("settings.{name}");
        add(&what, base.get(name), new.get(name), Weight::Noted);
    }
    all
}

/// What is wrong with one side by itself: results of unlike things, a schema that this program does
/// not know. The first is returned.
pub fn problem_within(side: &str, results: &[Loaded]) -> Option<String> {
    let unknown = results.iter().find(|loaded| {
        let version = loaded.figures.json().get("schema_version");
        version.and_then(Value::as_u64) != Some(u64::from(SCHEMA_VERSION))
    });
    if let Some(loaded) = unknown {
        let version = loaded.figures.json().get("schema_version");
        return Some(format!(
            "{}: its schema_version is {}, this loadgen knows {SCHEMA_VERSION}",
            loaded.place,
            shown(version)
        ));
    }
    let first = results.first()?;
    for other in &results[1..] {
        let unlike = differences(&first.figures, &other.figures);
        // Machines may differ within one side; that is said of the sides.
        let unlike = unlike.iter().find(|one| !one.what.starts_with("host."));
        if let Some(difference) = unlike {
            return Some(format!(
                "{side} holds results of different things: {} of {} is {}, of {} it is {}",
                difference.what, first.place, difference.base, other.place, difference.new
            ));
        }
    }
    None
}

/// The seeds of results, in their order.
pub fn seeds(results: &[Loaded]) -> Vec<u64> {
    let seed = |loaded: &Loaded| loaded.figures.json().get("seed").and_then(Value::as_u64);
    results.iter().filter_map(seed).collect()
}

fn at<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(json, |value, name| value.get(name))
}

/// Every setting by its path.
fn settings(json: &Value) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    if let Some(Value::Object(members)) = json.get("settings") {
        for (name, value) in members {
            if !SAID_ELSEWHERE.contains(&name.as_str()) {
                flatten(name, value, &mut flat);
            }
        }
    }
    flat
}

fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                flatten(&format!("{path}.{name}"), value, into);
            }
        }
        value => {
            into.insert(path.to_owned(), value.clone());
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::load::testing::result;
    use super::*;

    #[test]
    fn another_scenario_is_incomparable_and_another_setting_is_noted() {
        let base = result(json!({}));
        let new = result(json!({
            "scenario": "churn", "behaviour": "hardened", "seed": 5,
            "settings": {"controller": {"kube_api_qps": 20.0}, "burst_pods": 1},
        }));
        let all = differences(&base.figures, &new.figures);
        let said: Vec<(&str, &str, &str, Weight)> = all
            .iter()
            .map(|d| (d.what.as_str(), d.base.as_str(), d.new.as_str(), d.weight))
            .collect();
        assert_eq!(
            said,
            [
                ("scenario", "up-down", "churn", Weight::Incomparable),
                ("behaviour", "upstream", "hardened", Weight::Noted),
                ("settings.burst_pods", "absent", "1", Weight::Noted),
                (
                    "settings.controller.kube_api_qps",
                    "null",
                    "20.0",
                    Weight::Noted
                ),
            ]
        );
    }

    #[test]
    fn one_side_is_of_one_thing() {
        let one = result(json!({"seed": 1}));
        let two = result(json!({"seed": 2}));
        let other = result(json!({"behaviour": "hardened"}));
        let newer = result(json!({"schema_version": 99}));
        assert_eq!(problem_within("BASE", &[one.clone(), two.clone()]), None);
        assert_eq!(seeds(&[one.clone(), two]), [1, 2]);
        let problem = problem_within("BASE", &[one, other]).unwrap();
        assert!(
            problem.contains("BASE holds results of different things: behaviour"),
            "{problem}"
        );
        let problem = problem_within("NEW", &[newer]).unwrap();
        assert!(problem.contains("schema_version is 99"), "{problem}");
    }
}
