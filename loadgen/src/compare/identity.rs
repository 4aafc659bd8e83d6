//! Determines whether two results can be compared, and how they differ. The metrics of different
//! scenarios can't be compared; a different setting may be the very reason for the comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::load::Loaded;
use crate::metrics::MetricValues;
use crate::result::SCHEMA_VERSION;
use crate::settings::Latency;
use crate::units::{NS_PER_SECOND, duration_text, latency_text};
use crate::values::Percent;
use crate::workloads::flags;

/// The consequence of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The metrics have different meanings: comparing them requires `--force`.
    Incomparable,
    /// The difference may be the reason for the comparison, so it is only reported.
    Noted,
}

/// A difference between two results, other than in their metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The flag of `run` for the setting, such as `--kube-api-qps`; without a flag, the name of the
    /// member in the result.
    pub what: String,
    /// The value in the base, in the syntax of the flag; as JSON if there is no flag.
    pub base: String,
    /// The value in the new result, in the same syntax.
    pub new: String,
    /// The consequence of the difference.
    pub weight: Weight,
}

/// Members of a result that define what was measured.
const INCOMPARABLE: [&str; 6] = [
    "schema_version",
    "scenario",
    "engine",
    "settings.size.pods",
    "input.taken",
    "input.ignored",
];

/// Members of a result that define how it was measured.
const NOTED: [&str; 6] = [
    "version",
    "behaviour",
    "host.cpus",
    "host.cpu_model",
    "host.platform",
    "host.allocator",
];

/// Settings that are not compared here, because they are also members of the result or, like the
/// seed, are handled separately.
const SAID_ELSEWHERE: [&str; 5] = ["scenario", "engine", "behaviour", "seed", "size.pods"];

/// The syntax of a flag's value.
#[derive(Clone, Copy)]
enum Form {
    /// Taken unchanged; null means "unlimited".
    Plain,
    /// Nanoseconds.
    Duration,
    /// Seconds.
    Seconds,
    /// A distribution of nanoseconds.
    Latency,
    /// A fraction.
    Share,
    /// A number per second.
    Rate,
}

/// The flags that set the members of the settings, with the syntax of their values.
const FLAGS: &str = "
threads --threads plain
size.pods --pods plain
size.nodes --nodes plain
size.zones --zones plain
size.node_cpu --node-cpu plain
size.node_memory --node-memory plain
size.namespaces --namespaces plain
size.pods_per_node --pods-per-node plain
controller.burst_replicas --burst-replicas plain
controller.kube_api_qps --kube-api-qps plain
controller.kube_api_burst --kube-api-burst plain
latency.pod_startup --pod-startup-latency latency
latency.pod_termination --pod-termination-latency latency
latency.api --api-latency latency
latency.watch --watch-latency latency
latency.scheduling --scheduling-latency latency
duration_ns --duration duration
time_limit_ns --time-limit duration
start_stuck_pods --start-stuck-pods plain
api_errors --api-errors share
pod_run_time_ns --pod-run-time duration
pod_failures --pod-failures share
churn_pods_per_second --churn-rate rate
burst_pods --burst plain
min_ready_seconds --min-ready-seconds seconds
size.pods_asked --pods plain
";

/// Returns the flag that sets a member of the settings, and the syntax of its value; `None` if no
/// flag does.
fn flag_of(member: &str) -> Option<(String, Form)> {
    if let Some(gate) = member.strip_prefix("controller.feature_gates.") {
        return Some((format!("--feature-gates {gate}"), Form::Plain));
    }
    if let Some(flag) = member.strip_prefix("controller_times.") {
        return Some((format!("--{flag}"), Form::Duration));
    }
    // The members for numbers of workers are named after their flags.
    if let Some(name) = member.strip_prefix("controller.concurrent_") {
        return Some((
            format!("--concurrent-{}", name.replace('_', "-")),
            Form::Plain,
        ));
    }
    if let Some((flag, is_time)) = flags::of_member(member.trim_start_matches("size.")) {
        let form = if is_time { Form::Seconds } else { Form::Plain };
        return Some((format!("--{flag}"), form));
    }
    let mut rows = FLAGS
        .lines()
        .filter_map(|row| row.strip_prefix(member)?.strip_prefix(' '));
    let (flag, form) = rows.next()?.split_once(' ')?;
    let form = match form {
        "latency" => Form::Latency,
        "duration" => Form::Duration,
        "seconds" => Form::Seconds,
        "share" => Form::Share,
        "rate" => Form::Rate,
        _ => Form::Plain,
    };
    Some((flag.to_owned(), form))
}

/// Formats a setting in the syntax of its flag; `None` if the value does not have the expected
/// type.
fn as_flag(form: Form, value: &Value) -> Option<String> {
    match form {
        Form::Plain if value.is_null() => Some("unlimited".to_owned()),
        Form::Plain => Some(shown(Some(value))),
        Form::Duration => value.as_i64().map(duration_text),
        Form::Seconds => Some(duration_text(value.as_i64()?.checked_mul(NS_PER_SECOND)?)),
        Form::Share => value.as_f64().map(|share| Percent(share).to_string()),
        Form::Rate => value.as_f64().map(|rate| format!("{rate}/s")),
        Form::Latency => Latency::deserialize(value).ok().map(latency_text),
    }
}

/// Returns the differences between two results, except for seeds and metrics.
pub fn differences(base: &MetricValues, new: &MetricValues) -> Vec<Difference> {
    let mut all = Vec::new();
    let mut add = |what: &str, base: Option<&Value>, new: Option<&Value>, weight| {
        if base == new {
            return;
        }
        let flag = what.strip_prefix("settings.").and_then(flag_of);
        let text = |value: Option<&Value>| {
            let form = flag.as_ref().map(|(_, form)| *form);
            let written = value
                .zip(form)
                .and_then(|(value, form)| as_flag(form, value));
            written.unwrap_or_else(|| shown(value))
        };
        all.push(Difference {
            base: text(base),
            new: text(new),
            what: flag.map_or_else(|| what.to_owned(), |(name, _)| name),
            weight,
        });
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

/// Returns the first problem within one side: results that can't be compared with each other, or a
/// schema version that this program does not know. `None` if there is no problem.
pub fn problem_within(side: &str, results: &[Loaded]) -> Option<String> {
    let unknown = results.iter().find(|loaded| {
        let version = loaded.metrics.json().get("schema_version");
        version.and_then(Value::as_u64) != Some(u64::from(SCHEMA_VERSION))
    });
    if let Some(loaded) = unknown {
        let version = loaded.metrics.json().get("schema_version");
        return Some(format!(
            "{}: its schema_version is {}, but this loadgen knows {SCHEMA_VERSION}",
            loaded.place,
            shown(version)
        ));
    }
    let first = results.first()?;
    for other in &results[1..] {
        let unlike = differences(&first.metrics, &other.metrics);
        // The results of one side may come from different machines; the comparison reports this.
        let unlike = unlike.iter().find(|one| !one.what.starts_with("host."));
        if let Some(difference) = unlike {
            return Some(format!(
                "{side} contains results that are not comparable: {} of {} is {}, of {} it is {}",
                difference.what, first.place, difference.base, other.place, difference.new
            ));
        }
    }
    None
}

/// Returns the seeds of the results, sorted.
pub fn seeds(results: &[Loaded]) -> Vec<u64> {
    let seed = |loaded: &Loaded| loaded.metrics.json().get("seed").and_then(Value::as_u64);
    results.iter().filter_map(seed).collect()
}

fn at<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(json, |value, name| value.get(name))
}

/// Returns every setting of a result, by its path.
fn settings(json: &Value) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    if let Some(Value::Object(members)) = json.get("settings") {
        for (name, value) in members {
            flatten(name, value, &mut flat);
        }
    }
    flat
}

fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    if SAID_ELSEWHERE.contains(&path) {
        return;
    }
    match value {
        // Several members that one flag sets together count as one setting.
        Value::Object(members) if flag_of(path).is_none() => {
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

    use super::super::tests::result;
    use super::*;

    #[test]
    fn other_scenarios_are_incomparable_and_settings_are_noted() {
        let base = result(json!({}));
        let new = result(json!({
            "scenario": "churn", "behaviour": "hardened", "seed": 5,
            "settings": {
                "controller": {"kube_api_qps": 20.0, "feature_gates": {"PodDeletionCost": false}},
                "burst_pods": 1, "duration_ns": 90_000_000_000_u64, "api_errors": 0.02,
                "latency": {"api": {"lognormal": {"p50": 3_000_000, "p99": 40_000_000}}},
                "size": {"nodes": 7}, "of_tomorrow": {"x": 1},
            },
        }));
        let all = differences(&base.metrics, &new.metrics);
        let said: Vec<(&str, &str, &str, Weight)> = all
            .iter()
            .map(|d| (d.what.as_str(), d.base.as_str(), d.new.as_str(), d.weight))
            .collect();
        assert_eq!(
            said,
            [
                ("scenario", "up-down", "churn", Weight::Incomparable),
                ("behaviour", "upstream", "hardened", Weight::Noted),
                ("--api-errors", "absent", "2%", Weight::Noted),
                ("--burst", "absent", "1", Weight::Noted),
                (
                    "--feature-gates PodDeletionCost",
                    "absent",
                    "false",
                    Weight::Noted
                ),
                ("--kube-api-qps", "unlimited", "20.0", Weight::Noted),
                ("--duration", "absent", "1m30s", Weight::Noted),
                ("--api-latency", "absent", "p50=3ms,p99=40ms", Weight::Noted),
                ("settings.of_tomorrow.x", "absent", "1", Weight::Noted),
                ("--nodes", "absent", "7", Weight::Noted),
            ]
        );
    }

    #[test]
    fn clusters_of_different_sizes_are_incomparable() {
        let of = |pods: u64| result(json!({"settings": {"size": {"pods": pods}}}));
        let all = differences(&of(5_000).metrics, &of(100_000).metrics);
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!(one.what, "--pods");
        assert_eq!(one.weight, Weight::Incomparable);
        assert_eq!((one.base.as_str(), one.new.as_str()), ("5000", "100000"));
        let problem = problem_within("BASE", &[of(5), of(6)]).unwrap();
        assert!(problem.contains("--pods"));
    }

    #[test]
    fn every_setting_of_a_result_is_named_by_its_flag() {
        let settings = crate::settings::Settings::of_flags("", 2).unwrap();
        let json = json!({"settings": settings});
        for (member, value) in super::settings(&json) {
            let (flag, form) = flag_of(&member).unwrap_or_else(|| panic!("{member} has no flag"));
            assert!(as_flag(form, &value).is_some(), "{flag}: {value}");
        }
    }

    #[test]
    fn results_within_a_side_must_be_comparable() {
        let one = result(json!({"seed": 1}));
        let two = result(json!({"seed": 2}));
        let other = result(json!({"behaviour": "hardened"}));
        let newer = result(json!({"schema_version": 99}));
        assert_eq!(problem_within("BASE", &[one.clone(), two.clone()]), None);
        assert_eq!(seeds(&[one.clone(), two]), [1, 2]);
        let problem = problem_within("BASE", &[one, other]).unwrap();
        let words = "BASE contains results that are not comparable: behaviour";
        assert!(problem.contains(words), "{problem}");
        let problem = problem_within("NEW", &[newer]).unwrap();
        assert!(problem.contains("schema_version is 99"), "{problem}");
    }
}
