//! Looks up values by name in a result, of a run that has just ended or from a file.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::catalogue::{METRICS, Metric, Shape, Statistic};
use super::name::{MetricName, proposal};

/// The maximum number of entries or phases that a note lists.
const NAMES_LISTED: usize = 8;

/// The metrics of one result.
#[derive(Clone, Debug)]
pub struct MetricValues {
    /// The result, as `--json` writes it.
    json: Value,
}

/// The value that a name refers to in one result.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The value; `None` if the result has no such value.
    pub value: Option<f64>,
    /// Why there is no value, or a remark about it; empty without remarks.
    pub note: String,
}

impl Found {
    fn value(value: f64) -> Found {
        Found {
            value: Some(value),
            note: String::new(),
        }
    }

    fn nothing(note: impl Into<String>) -> Found {
        Found {
            value: None,
            note: note.into(),
        }
    }
}

impl MetricValues {
    /// Returns the metrics of a run.
    pub fn from_result(result: &impl Serialize) -> MetricValues {
        let json = serde_json::to_value(result).expect("the keys of a result are strings");
        MetricValues { json }
    }

    /// Returns the metrics of a result that `--json` wrote.
    pub fn from_json(json: Value) -> MetricValues {
        MetricValues { json }
    }

    /// Returns the result itself, as JSON.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Finds the value of a metric. An entry that is missing from a map counts as zero, because
    /// maps list only what occurred.
    pub fn find(&self, name: &MetricName) -> Found {
        let metric = name.metric;
        match metric.shape {
            Shape::Phase => self.phase(metric, name.key.as_deref().unwrap_or_default()),
            Shape::Map => self.entry(metric, name.key.as_deref()),
            Shape::Value | Shape::Length => match self.at(metric.name).and_then(number) {
                Some(value) => Found::value(value),
                None if name.is_of_host() => Found::nothing(
                    "the result has no metrics of the machine (a virtual run has them with \
                     --host-metrics)",
                ),
                None => Found::nothing(format!("the result has no {}", metric.name)),
            },
            Shape::Distribution => self.statistic(metric, name.statistic),
        }
    }

    fn statistic(&self, metric: &Metric, statistic: Option<Statistic>) -> Found {
        let member = |statistic: Statistic| {
            let distribution = self.at(metric.name)?;
            distribution.get(statistic.name()).and_then(number)
        };
        let nothing = || Found::nothing(format!("the result has no {}", metric.name));
        let Some(count) = member(Statistic::Count) else {
            return nothing();
        };
        match statistic {
            Some(Statistic::Count) => Found::value(count),
            _ if count == 0.0 => Found::nothing("nothing was measured"),
            statistic => statistic
                .and_then(member)
                .map_or_else(nothing, Found::value),
        }
    }

    fn entry(&self, metric: &Metric, key: Option<&str>) -> Found {
        let Some(entries) = self.at(metric.name).and_then(Value::as_object) else {
            return Found::nothing(format!("the result has no {}", metric.name));
        };
        let sum = |wanted: &dyn Fn(&str) -> bool| -> (usize, f64) {
            let some = entries.iter().filter(|(name, _)| wanted(name));
            // Start at 0, because the sum of an empty iterator of floats is -0.
            let add = |(count, sum), value| (count + 1, sum + value);
            some.filter_map(|(_, value)| number(value))
                .fold((0, 0.0), add)
        };
        let Some(key) = key else {
            return Found::value(sum(&|_| true).1);
        };
        if let Some(value) = entries.get(key).and_then(number) {
            return Found::value(value);
        }
        let (matched, total) = sum(&|name| matches(key, name));
        let mut found = Found::value(total);
        if matched == 0 {
            let names = entries.keys().map(String::as_str);
            found.note = format!(
                "no {} are called {key:?}{}",
                metric.name,
                proposal(key, names)
            );
        }
        found
    }

    fn phase(&self, metric: &Metric, key: &str) -> Found {
        let phases = self.phases();
        match phases.iter().find(|(name, _)| name == key) {
            Some((_, phase)) => {
                let value = phase.get(phase_member(metric)).and_then(number);
                value.map_or_else(
                    || Found::nothing("the phase has no such member"),
                    Found::value,
                )
            }
            None => {
                let names: Vec<&str> = phases.iter().map(|(name, _)| name.as_str()).collect();
                let listed = names.iter().take(NAMES_LISTED).copied().collect::<Vec<_>>();
                Found::nothing(format!(
                    "there is no phase {key:?}; there are {}{}",
                    listed.join(", "),
                    if names.len() > listed.len() {
                        ", …"
                    } else {
                        ""
                    }
                ))
            }
        }
    }

    /// Returns the phases with unique names: the second `a` is `a #2`.
    fn phases(&self) -> Vec<(String, &Value)> {
        let phases = self.json.get("phases").and_then(Value::as_array);
        let phases = phases.into_iter().flatten();
        let names = phases
            .clone()
            .map(|phase| phase.get("name").and_then(Value::as_str).unwrap_or(""));
        told_apart(names).into_iter().zip(phases).collect()
    }

    /// Returns the names of all values in the result, in the order of the catalogue: each
    /// statistic, each map's sum and entries, each phase.
    pub fn names(&self) -> impl Iterator<Item = MetricName> {
        let names = METRICS.iter().flat_map(move |metric| self.names_of(metric));
        names.filter(move |name| self.find(name).value.is_some())
    }

    /// Returns the names of the values that any of the results has, in the order of the catalogue.
    pub fn names_of_all<'a>(all: impl IntoIterator<Item = &'a MetricValues>) -> Vec<MetricName> {
        let mut names: Vec<MetricName> = Vec::new();
        let mut seen = BTreeSet::new();
        for one in all {
            names.extend(one.names().filter(|name| seen.insert(name.to_string())));
        }
        // The sort is stable: entries and phases keep the order in which they occurred.
        names.sort_by_key(|name| METRICS.iter().position(|metric| metric == name.metric));
        names
    }

    fn names_of(&self, metric: &'static Metric) -> Vec<MetricName> {
        let known = |key: Option<&str>, statistic| MetricName::known(metric, key, statistic);
        match metric.shape {
            Shape::Value | Shape::Length => vec![known(None, None)],
            Shape::Distribution => Statistic::ALL
                .into_iter()
                .map(|statistic| known(None, Some(statistic)))
                .collect(),
            Shape::Map => {
                let entries = self.at(metric.name).and_then(Value::as_object);
                let keys = entries.into_iter().flat_map(|entries| entries.keys());
                let entries = keys.map(|key| known(Some(key), None));
                std::iter::once(known(None, None)).chain(entries).collect()
            }
            Shape::Phase => {
                let phases = self.phases();
                phases
                    .iter()
                    .map(|(name, _)| known(Some(name), None))
                    .collect()
            }
        }
    }

    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.')
            .try_fold(&self.json, |value, member| value.get(member))
    }
}

/// Returns names that are unique as names of phases: the second `a` becomes `a #2`.
pub(crate) fn told_apart<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    for base in names {
        let mut name = base.to_owned();
        let mut number = 1;
        while named.contains(&name) {
            number += 1;
            name = format!("{base} #{number}");
        }
        named.push(name);
    }
    named
}

/// Returns the member of a phase that a metric stands for: `seconds` for `phase{}.seconds`.
fn phase_member(metric: &Metric) -> &'static str {
    metric.name.rsplit('.').next().unwrap_or_default()
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
        Value::Array(items) => Some(items.len() as f64),
        value => value.as_f64(),
    }
}

/// Reports whether a name matches a pattern, in which `*` matches any string.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metrics() -> MetricValues {
        MetricValues::from_json(json!({
            "pods": {"created": 7},
            "outcome": {"converged": true, "violations": ["a", "b"]},
            "api_calls": {"create pods 201": 5, "create pods 409": 2, "delete pods 200": 3},
            "convergence_seconds": {"count": 2, "p99": 0.5},
            "pod_ready_seconds": {"count": 0, "p99": 0.0},
            "phases": [
                {"name": "up", "seconds": 1.5},
                {"name": "up", "seconds": 2.5},
            ],
        }))
    }

    fn found(text: &str) -> Found {
        metrics().find(&MetricName::parse(text).unwrap())
    }

    #[test]
    fn values_are_found_by_name() {
        for (text, value) in [
            ("pods.created", 7.0),
            ("converged", 1.0),
            ("violations", 2.0),
            ("api_calls", 10.0),
            ("api_calls{create pods 409}", 2.0),
            ("api_calls{create pods *}", 7.0),
            ("api_calls{* 20*}", 8.0),
            ("convergence p99", 0.5),
            ("convergence count", 2.0),
            ("phase{up}.seconds", 1.5),
            ("phase{up #2}", 2.5),
            ("pod_ready count", 0.0),
        ] {
            assert_eq!(found(text).value, Some(value), "{text}");
            assert_eq!(found(text).note, "", "{text}");
        }
    }

    #[test]
    fn missing_values_are_reported() {
        for (text, words) in [
            ("pod_ready p99", "nothing was measured"),
            ("elapsed", "has no elapsed_seconds"),
            ("wall", "--host-metrics"),
            ("phase{down}", "there are up, up #2"),
            ("queue_wait p99", "has no queue_duration_seconds"),
        ] {
            let found = found(text);
            assert_eq!(found.value, None, "{text}");
            assert!(found.note.contains(words), "{text}: {}", found.note);
        }
    }

    #[test]
    fn missing_entries_are_zero_with_a_note() {
        let Found { value, note } = found("api_calls{craete pods 201}");
        assert_eq!(value, Some(0.0));
        assert!(note.contains("did you mean create pods 201"), "{note}");
    }

    #[test]
    fn a_pattern_matches_names() {
        for (pattern, name, yes) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c", false),
            ("*", "", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
    }

    #[test]
    fn all_metrics_have_unique_names() {
        let metrics = metrics();
        let names: Vec<String> = metrics.names().map(|name| name.to_string()).collect();
        for name in [
            "convergence_seconds count",
            "convergence_seconds p99",
            "api_calls",
            "api_calls{create pods 201}",
            "phase{up #2}.seconds",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        for name in metrics.names() {
            assert_eq!(MetricName::parse(&name.to_string()).unwrap(), name);
        }
    }
}
