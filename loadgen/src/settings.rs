//! Everything a run depends on, with nothing left to defaults elsewhere: what the flags and the
//! scenario file say, resolved and checked. Embedded in the result so that a run can be repeated.

pub mod gates;
pub mod memory;
pub mod resolve;
pub mod size;

use std::sync::Arc;

use podstorm::policy::Behaviour;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::scenario::Scenario;

/// The settings of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Settings {
    /// The scenario: its name where it is built in, all of it where it came from a file.
    #[serde(serialize_with = "scenario_name_or_all")]
    #[schemars(with = "NameOrScenario")]
    pub scenario: Arc<Scenario>,
    /// Which engine runs it.
    pub engine: EngineKind,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Machine threads of the threads engine; 1 on the virtual one.
    pub threads: usize,
    /// The size of the generated cluster.
    pub size: ClusterSize,
    /// What the controller is told.
    pub controller: ControllerSettings,
    /// Whose behaviour the controller has.
    #[serde(serialize_with = "behaviour_name")]
    #[schemars(with = "String")]
    pub behaviour: Behaviour,
    /// How long things take in the simulated cluster.
    pub latency: LatencySettings,
    /// How long the scenario's steady part lasts, ns; scenarios without one ignore it.
    pub duration_ns: i64,
    /// The run fails when the scenario's condition isn't met by then, ns.
    pub time_limit_ns: i64,
    /// API calls of the controller that are refused with an internal error, as a share of all.
    pub api_errors: f64,
    /// `churn`: pods deleted from outside per second.
    pub churn_pods_per_second: f64,
    /// `burst`: pods added and removed at once.
    pub burst_pods: u32,
    /// `minReadySeconds` of the generated ReplicaSets.
    pub min_ready_seconds: i32,
}

/// How a scenario is written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is there for its schema")]
enum NameOrScenario {
    /// Of a built-in one.
    Name(String),
    /// From a file.
    Scenario(Box<Scenario>),
}

fn scenario_name_or_all<S: Serializer>(
    scenario: &Arc<Scenario>,
    out: S,
) -> Result<S::Ok, S::Error> {
    if scenario.path.is_some() {
        scenario.serialize(out)
    } else {
        out.serialize_str(&scenario.name)
    }
}

/// The core knows nothing of serialisation.
fn behaviour_name<S: Serializer>(behaviour: &Behaviour, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(behaviour.as_str())
}

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// Deterministic, virtual time, one thread.
    Virtual,
    /// Real time, all cores.
    Threads,
}

impl EngineKind {
    /// The name as flags and results spell it.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Virtual => "virtual",
            EngineKind::Threads => "threads",
        }
    }
}

/// Sizes, all decided: pods = the sum over ReplicaSets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClusterSize {
    /// Pods at 100 %.
    pub pods: u64,
    /// ReplicaSets; pods are divided over them as evenly as can be.
    pub replicasets: u64,
    /// Nodes.
    pub nodes: u64,
    /// Namespaces; ReplicaSet i lives in namespace i modulo this.
    pub namespaces: u64,
    /// How many pods fit on a node.
    pub pods_per_node: u32,
    /// Groups of ReplicaSets: how many there are in each, and pods of each of them. Empty where they
    /// are as equal as can be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<(u64, i32)>,
    /// Where there are groups, the pods that were asked for: `pods` is what whole ReplicaSets of the
    /// groups' sizes make of that number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_asked: Option<u64>,
}

/// What the controller is told, under upstream's names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ControllerSettings {
    /// `--concurrent-replicaset-syncs`.
    pub concurrent_replicaset_syncs: usize,
    /// `--concurrent-rc-syncs`.
    pub concurrent_rc_syncs: usize,
    /// Most creates or deletes in one sync.
    pub burst_replicas: u32,
    /// `--kube-api-qps`; absent is unlimited.
    pub kube_api_qps: Option<f64>,
    /// `--kube-api-burst`.
    pub kube_api_burst: u32,
    /// Feature gates by upstream's names, every known one listed.
    pub feature_gates: std::collections::BTreeMap<String, bool>,
}

impl ControllerSettings {
    /// Whether a feature gate is on; one that is not listed is.
    pub fn gate(&self, name: &str) -> bool {
        self.feature_gates.get(name).copied().unwrap_or(true)
    }
}

/// How long things take.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencySettings {
    /// From bound to ready.
    pub pod_startup: Latency,
    /// From deletion asked to gone; no more than the grace period.
    pub pod_termination: Latency,
    /// One API call of the controller, there and back.
    pub api: Latency,
    /// From commit to the watcher.
    pub watch: Latency,
    /// From created to bound.
    pub scheduling: Latency,
}

/// A distribution of durations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Latency {
    /// Always the same.
    Constant(i64),
    /// Evenly between the two.
    Uniform(i64, i64),
    /// Log-normal with this median and 99th percentile.
    Lognormal {
        /// Median.
        p50: i64,
        /// 99th percentile.
        p99: i64,
    },
}

impl Latency {
    /// No time at all.
    pub const ZERO: Latency = Latency::Constant(0);

    /// Whether every draw is zero.
    pub fn is_zero(&self) -> bool {
        matches!(self, Latency::Constant(0) | Latency::Uniform(0, 0))
    }
}
