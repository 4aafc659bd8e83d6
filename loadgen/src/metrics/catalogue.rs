//! The catalogue of metrics: every metric of a result, with its name in the JSON, its other names,
//! its unit, and whether smaller or larger values are better.
//!
//! Everything else comes from the result itself (`result/mod.rs`), through the published schema,
//! which a test keeps up to date: the description of a metric is the first sentence of the member's
//! doc comment, the unit is the suffix of the member's name. `TABLE` adds only what the result does
//! not contain.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A duration.
    Seconds,
    /// A count.
    Count,
    /// An amount of memory.
    Bytes,
    /// A rate per second.
    #[serde(rename = "per second")]
    PerSecond,
}

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller values are better.
    Less,
    /// Larger values are better.
    More,
    /// Neither: the metric describes the work, not its quality.
    Neither,
}

impl Better {
    const ALL: [Better; 3] = [Better::Less, Better::More, Better::Neither];

    /// Returns the word for this direction in lists.
    pub const fn word(self) -> &'static str {
        ["less", "more", "-"][self as usize]
    }
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// Number of values.
    Count,
    /// Arithmetic mean.
    Mean,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// Largest value.
    Max,
}

impl Statistic {
    /// Every statistic, in the order of the JSON.
    pub const ALL: [Statistic; 7] = {
        use Statistic::{Count, Max, Mean, P50, P90, P99, P999};
        [Count, Mean, P50, P90, P99, P999, Max]
    };

    /// Returns the statistic's name in the JSON.
    pub const fn name(self) -> &'static str {
        ["count", "mean", "p50", "p90", "p99", "p999", "max"][self as usize]
    }

    /// Returns the statistic with this name, in the notation of this program or of k6: `p99`,
    /// `p(99)`, `avg`. `None` for any other name.
    pub fn by_name(text: &str) -> Option<Statistic> {
        let lower = text.trim().to_ascii_lowercase();
        let name = match lower.replace(['(', ')', ' '], "").as_str() {
            "avg" | "average" => "mean".to_owned(),
            "med" | "median" => "p50".to_owned(),
            "p99.9" => "p999".to_owned(),
            "p100" => "max".to_owned(),
            other => other.to_owned(),
        };
        Statistic::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The form of a metric in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number.
    Value,
    /// A list in the JSON, whose length is the value.
    Length,
    /// An object with one member per statistic.
    Distribution,
    /// Counts by name. The value is their sum or, with `{NAME}`, one entry or the sum of the
    /// matching entries.
    Map,
    /// A member of each phase; `{NAME}` selects the phase.
    Phase,
}

/// A metric of the catalogue.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The metric's stable name: its path in the JSON, with `{}` in place of a selected name.
    pub name: &'static str,
    /// The metric's other names.
    pub aliases: Vec<&'static str>,
    /// The unit; a distribution's `count` is always a [`Unit::Count`].
    pub unit: Unit,
    /// The better direction. For a map, the direction of its sum; see [`Metric::better_of`].
    pub better: Better,
    /// The form of the metric in the JSON.
    pub shape: Shape,
    /// The description of the metric, in one line.
    pub about: String,
}

impl Metric {
    /// Returns the better direction of one entry of a map: fewer failures are better; for other
    /// entries, which are only parts of the sum, neither direction is. For any other metric,
    /// returns [`Metric::better`].
    pub fn better_of(&self, key: Option<&str>) -> Better {
        let Some(key) = key.filter(|_| self.shape == Shape::Map) else {
            return self.better;
        };
        let outcome = key.rsplit(' ').next().unwrap_or_default();
        let failed = match self.name {
            "api_calls" => !outcome.starts_with(['2', '*']),
            "syncs" => key != "ok" && !key.contains('*'),
            "events" => key.starts_with("Warning"),
            _ => false,
        };
        [Better::Neither, Better::Less][usize::from(failed)]
    }

    /// Returns the name to show in lists, with a placeholder for the entry or the phase.
    pub fn shown(&self) -> String {
        match self.shape {
            Shape::Map => format!("{}{{NAME}}", self.name),
            Shape::Phase => self.name.replace("{}", "{NAME}"),
            _ => self.name.to_owned(),
        }
    }

    /// Returns the metric with this name or alias; `None` if there is none. `{}` may be omitted.
    pub fn by_name(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| {
            metric.name == name
                || metric.name.replace("{}", "") == name
                || metric.aliases.contains(&name)
        })
    }
}

/// Every metric, in the order of lists and comparisons: its name, its better direction, and its
/// other names.
const TABLE: &str = "
convergence_seconds less convergence
pod_ready_seconds less pod_ready_latency pod_ready
rollout_seconds less rollout
finish_seconds less
queue_duration_seconds less workqueue_queue_duration_seconds queue_duration queue_wait
work_duration_seconds less workqueue_work_duration_seconds work_duration sync_work
elapsed_seconds less elapsed
excess_pods_created less excess_pods excess
outcome.violations less violations
outcome.converged more converged
pods.created - pods_created
pods.bound - pods_bound
pods.ready - pods_ready
pods.deleted - pods_deleted
pods.adopted - pods_adopted
pods.released - pods_released
pods.peak - pods_peak
wasted_work.syncs_without_requests less syncs_without_requests
wasted_work.stale_sync_skips less stale_sync_skips replicaset_controller_stale_sync_skips_total
wasted_work.deletes_not_found less deletes_not_found
wasted_work.status_conflicts less status_conflicts
wasted_work.pods_never_ready less pods_never_ready surplus_pods wasted_work.surplus_pods
finished.complete more
finished.failed -
finished.open less
finished.pods_created -
finished.pods_succeeded more
finished.pods_failed -
finished.pods_wasted less
waits.place_pods less
waits.place_seconds less
waits.place_pods_peak less
waits.places -
waits.calls -
waits.client_limit_seconds less
waits.api_seconds less
waits.worker_keys -
waits.worker_seconds less
waits.sync_seconds less
waits.sync_limited_seconds less
waits.sync_waiting_seconds less
api_calls less rest_client_requests_total
writes less
syncs less
events -
event_writer.written - events_written
event_writer.dropped less events_dropped
watch_events less
resource_version - store_resource_version
phase{}.seconds less phase
phase{}.pods_created -
phase{}.pods_deleted -
phase{}.excess_pods_created less
phase{}.pods_down_peak less
phase{}.pods_down_of_one_peak less
phase{}.nodes_held less
input.taken -
input.ignored -
host.wall_seconds less wall_seconds wall
host.load_seconds less load_seconds
host.cpu_seconds less cpu_seconds cpu
host.other_cpu_seconds - other_cpu_seconds other_cpu
host.peak_memory_bytes less peak_memory_bytes peak_memory
host.pods_per_second more pods_per_second
host.cpus - cpus
";

/// Every metric, in the order of `TABLE`.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let schema = include_str!("../../schemas/result.schema.json");
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    let rows = TABLE.lines().filter(|row| !row.is_empty());
    rows.map(|row| described(row, &schema)).collect()
});

/// Parses a row of `TABLE` and adds the description from the result's schema.
fn described(row: &'static str, schema: &Json) -> Metric {
    let mut words = row.split(' ');
    let name = words.next().unwrap_or_default();
    let word = words.next().unwrap_or_default();
    let better = Better::ALL.into_iter().find(|one| one.word() == word);
    let of_phase = name.split_once("{}.");
    let member = match of_phase {
        Some((_, member)) => member_of(member, &schema["properties"]["phases"]["items"], schema),
        None => member_of(name, schema, schema),
    };
    let about = member["description"].as_str();
    let about = about.expect("a metric is a member of the result with a doc comment");
    let about = about.replace('\n', " ");
    Metric {
        name,
        aliases: words.collect(),
        unit: match name {
            _ if name.ends_with("_per_second") => Unit::PerSecond,
            _ if name.ends_with("seconds") => Unit::Seconds,
            _ if name.ends_with("_bytes") => Unit::Bytes,
            _ => Unit::Count,
        },
        better: better.expect("every row has the better direction"),
        shape: match () {
            () if of_phase.is_some() => Shape::Phase,
            () if member["$ref"] == "#/$defs/Quantiles" => Shape::Distribution,
            () if member["type"] == "array" => Shape::Length,
            () if member["type"] == "object" => Shape::Map,
            () => Shape::Value,
        },
        about: match about.split_once(". ") {
            Some((first, _)) => first.to_owned(),
            None => about.trim_end_matches('.').to_owned(),
        },
    }
}

/// Returns the schema of the member at this path below `node`.
fn member_of<'a>(path: &str, node: &'a Json, schema: &'a Json) -> &'a Json {
    path.split('.').fold(node, |node, member| {
        // A named type is defined elsewhere in the schema; an optional type is one of several
        // alternatives.
        let node = node.get("anyOf").map_or(node, |one_of| &one_of[0]);
        let own = node["$ref"]
            .as_str()
            .and_then(|at| schema.pointer(&at[1..]));
        &own.unwrap_or(node)["properties"][member]
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_means_a_single_metric() {
        let mut seen = BTreeSet::new();
        for metric in METRICS.iter() {
            for name in metric.aliases.iter().chain([&metric.name]) {
                assert!(seen.insert(*name), "{name} twice");
                assert_eq!(Metric::by_name(name), Some(metric));
                assert_eq!(Statistic::by_name(name), None, "{name}");
            }
            assert!(!metric.about.is_empty());
        }
    }

    #[test]
    fn statistics_also_have_the_names_of_k6() {
        for statistic in Statistic::ALL {
            assert_eq!(Statistic::by_name(statistic.name()), Some(statistic));
        }
        for (text, statistic) in [
            ("p(99)", Statistic::P99),
            ("p(99.9)", Statistic::P999),
            ("med", Statistic::P50),
            ("avg", Statistic::Mean),
        ] {
            assert_eq!(Statistic::by_name(text), Some(statistic));
        }
        assert_eq!(Statistic::by_name("p95"), None);
        assert_eq!(Statistic::by_name("min"), None);
    }

    #[test]
    fn fewer_failures_are_better_and_other_entries_neutral() {
        let better = |name, key| Metric::by_name(name).unwrap().better_of(key);
        assert_eq!(better("api_calls", None), Better::Less);
        let created = better("api_calls", Some("create pods 201"));
        assert_eq!(created, Better::Neither);
        assert_eq!(better("api_calls", Some("create pods 409")), Better::Less);
        assert_eq!(better("syncs", Some("ok")), Better::Neither);
        assert_eq!(better("syncs", Some("create failed")), Better::Less);
        assert_eq!(better("events", Some("Warning FailedCreate")), Better::Less);
        assert_eq!(better("pods.created", None), Better::Neither);
        assert_eq!(better("phase{}.seconds", Some("x")), Better::Less);
    }
}
