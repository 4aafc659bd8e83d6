//! Whether two results are of the same thing, and in what they differ: another scenario makes metrics
//! that can't be compared, another setting is what one may want to compare.

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

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// The metrics mean different things: not compared unless it is insisted on.
    Incomparable,
    /// It may be what the metrics are compared for: said, and gone on.
    Noted,
}

/// One thing in which results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The flag of `run` that sets it, e.g. `--kube-api-qps`, or else the member of the result.
    pub what: String,
    /// What the base has, as the flag takes it; JSON where there is no flag.
    pub base: String,
    /// What the new one has.
    pub new: String,
    /// What it means.
    pub weight: Weight,
}

/// Members that say what was measured.
const INCOMPARABLE: [&str; 6] = [
    "schema_version",
    "scenario",
    "engine",
    "settings.size.pods",
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
const SAID_ELSEWHERE: [&str; 5] = ["scenario", "engine", "behaviour", "seed", "size.pods"];

/// How a flag takes what a setting holds.
#[derive(Clone, Copy)]
enum Form {
    /// As it is; null is "unlimited".
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

/// Settings by their members, the flags that set them, and how the flags are written.
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

/// A setting's member as the flag that sets it.
fn flag_of(member: &str) -> Option<(String, Form)> {
    if let Some(gate) = member.strip_prefix("controller.feature_gates.") {
        return Some((format!("--feature-gates {gate}"), Form::Plain));
    }
    if let Some(flag) = member.strip_prefix("controller_times.") {
        return Some((format!("--{flag}"), Form::Duration));
    }
    // The numbers of workers have the names of their flags.
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

/// A setting as its flag takes it; nothing where it is not of the form that it should have.
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

/// In what two results differ, apart from their seeds and metrics.
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

/// What is wrong with one side by itself: results of unlike things, a schema that this program does
/// not know. The first is returned.
pub fn problem_within(side: &str, results: &[Loaded]) -> Option<String> {
    let unknown = results.iter().find(|loaded| {
        let version = loaded.metrics.json().get("schema_version");
        version.and_then(Value::as_u64) != Some(u64::from(SCHEMA_VERSION))
    });
    if let Some(loaded) = unknown {
        let version = loaded.metrics.json().get("schema_version");
        return Some(format!(
            "{}: its schema_version is {}, this loadgen knows {SCHEMA_VERSION}",
            loaded.place,
            shown(version)
        ));
    }
    let first = results.first()?;
    for other in &results[1..] {
        let unlike = differences(&first.metrics, &other.metrics);
        // Machines may differ within one side; the sides report it.
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
    let seed = |loaded: &Loaded| loaded.metrics.json().get("seed").and_then(Value::as_u64);
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
        // What one flag sets is one thing.
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
    fn another_scenario_is_incomparable_and_another_setting_is_noted() {
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
    fn clusters_of_other_sizes_are_incomparable() {
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
    fn one_side_is_of_one_thing() {
        let one = result(json!({"seed": 1}));
        let two = result(json!({"seed": 2}));
        let other = result(json!({"behaviour": "hardened"}));
        let newer = result(json!({"schema_version": 99}));
        assert_eq!(problem_within("BASE", &[one.clone(), two.clone()]), None);
        assert_eq!(seeds(&[one.clone(), two]), [1, 2]);
        let problem = problem_within("BASE", &[one, other]).unwrap();
        let words = "BASE holds results of different things: behaviour";
        assert!(problem.contains(words), "{problem}");
        let problem = problem_within("NEW", &[newer]).unwrap();
        assert!(problem.contains("schema_version is 99"), "{problem}");
    }
}
