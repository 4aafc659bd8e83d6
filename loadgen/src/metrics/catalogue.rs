//! Every metric of a result: its name in the JSON, the names that users expect, its unit, and
//! whether less or more is better.

use schemars::JsonSchema;
use serde::Serialize;

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A duration.
    Seconds,
    /// A number of things.
    Count,
    /// An amount of memory.
    Bytes,
    /// A number of things per second.
    #[serde(rename = "per second")]
    PerSecond,
}

/// Which way of two figures is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
    /// Neither: it describes the work, not how well it was done.
    Neither,
}

impl Better {
    /// The word for it in a list.
    pub const fn word(self) -> &'static str {
        match self {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "-",
        }
    }
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// How many values.
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
    /// Largest.
    Max,
}

impl Statistic {
    /// Every statistic, in the order of the JSON.
    pub const ALL: [Statistic; 7] = [
        Statistic::Count,
        Statistic::Mean,
        Statistic::P50,
        Statistic::P90,
        Statistic::P99,
        Statistic::P999,
        Statistic::Max,
    ];

    /// Its name in the JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Statistic::Count => "count",
            Statistic::Mean => "mean",
            Statistic::P50 => "p50",
            Statistic::P90 => "p90",
            Statistic::P99 => "p99",
            Statistic::P999 => "p999",
            Statistic::Max => "max",
        }
    }

    /// The statistic of that name, in this program's spelling or k6's: `p99`, `p(99)`, `avg`.
    pub fn by_name(text: &str) -> Option<Statistic> {
        let lower = text.trim().to_ascii_lowercase();
        let compact: String = lower
            .chars()
            .filter(|c| !matches!(c, '(' | ')' | ' '))
            .collect();
        match compact.as_str() {
            "count" => Some(Statistic::Count),
            "mean" | "avg" | "average" => Some(Statistic::Mean),
            "p50" | "med" | "median" => Some(Statistic::P50),
            "p90" => Some(Statistic::P90),
            "p99" => Some(Statistic::P99),
            "p999" | "p99.9" => Some(Statistic::P999),
            "max" | "p100" => Some(Statistic::Max),
            _ => None,
        }
    }
}

/// How a metric lies in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One number.
    Value,
    /// One number that is the length of a list.
    Length,
    /// An object of statistics.
    Distribution,
    /// Counts by name; alone their sum, with `{NAME}` one of them or the sum over a pattern.
    Map,
    /// A member of each phase, chosen with `{NAME}`.
    Phase,
}

/// One metric of a result.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its stable name: the path in the JSON, with `{}` where a name is chosen.
    pub name: &'static str,
    /// Further names it goes by.
    pub aliases: &'static [&'static str],
    /// What it is counted in; a distribution's `count` is a [`Unit::Count`] always.
    pub unit: Unit,
    /// Which way is better; for a map of its sum, see [`Metric::better_of`].
    pub better: Better,
    /// How it lies in the JSON.
    pub shape: Shape,
    /// How to read it, in one line.
    pub about: &'static str,
}

impl Metric {
    /// Which way is better for one entry of a map: failures should be few, the rest is how the sum
    /// divides. For any other metric what [`Metric::better`] says.
    pub fn better_of(&self, key: Option<&str>) -> Better {
        let Some(key) = key.filter(|_| self.shape == Shape::Map) else {
            return self.better;
        };
        let failed = match self.name {
            "api_calls" => key
                .rsplit(' ')
                .next()
                .is_some_and(|outcome| !outcome.starts_with(['2', '*'])),
            "syncs" => key != "ok" && !key.contains('*'),
            "events" => key.starts_with("Warning") || key == "dropped",
            _ => false,
        };
        if failed {
            Better::Less
        } else {
            Better::Neither
        }
    }

    /// How the name is written where an entry or phase is to be chosen, for lists.
    pub fn shown(&self) -> String {
        match self.shape {
            Shape::Map => format!("{}{{NAME}}", self.name),
            Shape::Phase => self.name.replace("{}", "{NAME}"),
            _ => self.name.to_owned(),
        }
    }

    /// The metric of that name or alias; `{}` may be left out.
    pub fn by_name(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| {
            metric.name == name
                || metric.name.replace("{}", "") == name
                || metric.aliases.contains(&name)
        })
    }
}

const fn seconds(
    name: &'static str,
    aliases: &'static [&'static str],
    shape: Shape,
    about: &'static str,
) -> Metric {
    Metric {
        name,
        aliases,
        unit: Unit::Seconds,
        better: Better::Less,
        shape,
        about,
    }
}

const fn number(
    name: &'static str,
    aliases: &'static [&'static str],
    better: Better,
    shape: Shape,
    about: &'static str,
) -> Metric {
    Metric {
        name,
        aliases,
        unit: Unit::Count,
        better,
        shape,
        about,
    }
}

use Better::{Less, Neither};
use Shape::{Distribution, Length, Map, Phase, Value};

/// Every metric, in the order in which they are listed and compared.
pub static METRICS: [Metric; 37] = [
    seconds(
        "convergence_seconds",
        &["convergence"],
        Distribution,
        "from a ReplicaSet's new spec to its having converged",
    ),
    seconds(
        "pod_ready_seconds",
        &["pod_ready_latency", "pod_ready"],
        Distribution,
        "from a pod's creation to its being ready",
    ),
    seconds(
        "queue_duration_seconds",
        &[
            "workqueue_queue_duration_seconds",
            "queue_duration",
            "queue_wait",
        ],
        Distribution,
        "how long a key waits in the work queue",
    ),
    seconds(
        "work_duration_seconds",
        &[
            "workqueue_work_duration_seconds",
            "work_duration",
            "sync_work",
        ],
        Distribution,
        "how long a sync takes",
    ),
    seconds(
        "elapsed_seconds",
        &["elapsed"],
        Value,
        "engine time from start to end (simulated on the virtual engine)",
    ),
    number(
        "excess_pods_created",
        &["excess_pods", "excess"],
        Less,
        Value,
        "pods created above the largest desired count since the version read",
    ),
    number(
        "outcome.violations",
        &["violations"],
        Less,
        Length,
        "invariants broken",
    ),
    number(
        "outcome.converged",
        &["converged"],
        Better::More,
        Value,
        "1 where every ReplicaSet had its pods and an exact status at the end, else 0",
    ),
    number(
        "pods.created",
        &["pods_created"],
        Neither,
        Value,
        "pods created, by whomever",
    ),
    number("pods.bound", &["pods_bound"], Neither, Value, "pods bound"),
    number(
        "pods.ready",
        &["pods_ready"],
        Neither,
        Value,
        "pods that became ready",
    ),
    number(
        "pods.deleted",
        &["pods_deleted"],
        Neither,
        Value,
        "pods finally removed",
    ),
    number(
        "pods.adopted",
        &["pods_adopted"],
        Neither,
        Value,
        "pods adopted by a ReplicaSet",
    ),
    number(
        "pods.released",
        &["pods_released"],
        Neither,
        Value,
        "pods released by a ReplicaSet",
    ),
    number(
        "pods.peak",
        &["pods_peak"],
        Neither,
        Value,
        "most pods that existed at once",
    ),
    number(
        "wasted_work.syncs_without_requests",
        &["syncs_without_requests"],
        Less,
        Value,
        "syncs that asked for no API call",
    ),
    number(
        "wasted_work.stale_sync_skips",
        &[
            "stale_sync_skips",
            "replicaset_controller_stale_sync_skips_total",
        ],
        Less,
        Value,
        "syncs refused by the read-your-writes gate",
    ),
    number(
        "wasted_work.deletes_not_found",
        &["deletes_not_found"],
        Less,
        Value,
        "deletes answered 404",
    ),
    number(
        "wasted_work.status_conflicts",
        &["status_conflicts"],
        Less,
        Value,
        "status writes answered 409",
    ),
    number(
        "wasted_work.pods_never_ready",
        &[
            "pods_never_ready",
            "surplus_pods",
            "wasted_work.surplus_pods",
        ],
        Less,
        Value,
        "pods that went before they were ever ready",
    ),
    number(
        "api_calls",
        &["rest_client_requests_total"],
        Less,
        Map,
        "API calls by verb, resource and outcome: api_calls{create pods 201}",
    ),
    number(
        "writes",
        &[],
        Less,
        Map,
        "writes the server committed, by verb and resource: writes{update pods}",
    ),
    number("syncs", &[], Less, Map, "syncs by outcome: syncs{ok}"),
    number(
        "events",
        &[],
        Neither,
        Map,
        "Events by type and reason: events{Warning FailedCreate}",
    ),
    number(
        "watch_events",
        &[],
        Less,
        Value,
        "watch events delivered to the controller's caches",
    ),
    number(
        "resource_version",
        &["store_resource_version"],
        Neither,
        Value,
        "the server's last resource version",
    ),
    seconds(
        "phase{}.seconds",
        &["phase"],
        Phase,
        "time of a phase: phase{scale to 100 %}.seconds",
    ),
    number(
        "phase{}.pods_created",
        &[],
        Neither,
        Phase,
        "pods created during a phase",
    ),
    number(
        "phase{}.pods_deleted",
        &[],
        Neither,
        Phase,
        "pods removed during a phase",
    ),
    number(
        "phase{}.excess_pods_created",
        &[],
        Less,
        Phase,
        "of excess_pods_created, those of a phase",
    ),
    number(
        "input.taken",
        &[],
        Neither,
        Map,
        "objects taken from files, by kind",
    ),
    number(
        "input.ignored",
        &[],
        Neither,
        Map,
        "documents of kinds that are not simulated, by kind",
    ),
    seconds(
        "host.wall_seconds",
        &["wall_seconds", "wall"],
        Value,
        "real time",
    ),
    seconds(
        "host.cpu_seconds",
        &["cpu_seconds", "cpu"],
        Value,
        "processor time of the process",
    ),
    Metric {
        name: "host.peak_memory_bytes",
        aliases: &["peak_memory_bytes", "peak_memory"],
        unit: Unit::Bytes,
        better: Less,
        shape: Value,
        about: "most memory resident",
    },
    Metric {
        name: "host.pods_per_second",
        aliases: &["pods_per_second"],
        unit: Unit::PerSecond,
        better: Better::More,
        shape: Value,
        about: "pod creations and final deletions per second of real time",
    },
    number(
        "host.cpus",
        &["cpus"],
        Neither,
        Value,
        "processors available",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_means_two_metrics() {
        let mut seen = BTreeSet::new();
        for metric in &METRICS {
            for name in metric.aliases.iter().chain([&metric.name]) {
                assert!(seen.insert(*name), "{name} twice");
                assert_eq!(Metric::by_name(name), Some(metric));
                assert_eq!(Statistic::by_name(name), None, "{name}");
            }
            assert!(!metric.about.is_empty());
        }
    }

    #[test]
    fn statistics_have_the_names_of_k6_too() {
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
    fn failures_should_be_few_and_the_rest_is_how_a_sum_divides() {
        let better = |name, key| Metric::by_name(name).unwrap().better_of(key);
        assert_eq!(better("api_calls", None), Better::Less);
        assert_eq!(
            better("api_calls", Some("create pods 201")),
            Better::Neither
        );
        assert_eq!(better("api_calls", Some("create pods 409")), Better::Less);
        assert_eq!(better("syncs", Some("ok")), Better::Neither);
        assert_eq!(better("syncs", Some("create failed")), Better::Less);
        assert_eq!(better("events", Some("Warning FailedCreate")), Better::Less);
        assert_eq!(better("pods.created", None), Better::Neither);
        assert_eq!(better("phase{}.seconds", Some("x")), Better::Less);
    }
}
