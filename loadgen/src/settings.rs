//! Everything a run depends on, with nothing left to defaults elsewhere: what the flags and the
//! scenario file say, resolved and checked. Embedded in the result so that a run can be repeated.

pub mod gates;
pub mod memory;
pub mod resolve;
pub mod size;

use podstorm::policy::Behaviour;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// The settings of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Settings {
    /// The scenario's name.
    pub scenario: ScenarioName,
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
    /// `churn`: pods deleted from outside per second.
    pub churn_pods_per_second: f64,
    /// `burst`: pods added and removed at once.
    pub burst_pods: u32,
    /// `minReadySeconds` of the generated ReplicaSets.
    pub min_ready_seconds: i32,
}

/// The core knows nothing of serialisation.
fn behaviour_name<S: Serializer>(behaviour: &Behaviour, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(behaviour.as_str())
}

/// A built-in scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScenarioName {
    /// 0 -> 100 % -> 50 % -> 0.
    UpDown,
    /// 0 -> 100 %.
    ScaleUp,
    /// Starts at 100 %, scales every ReplicaSet to half.
    ScaleDown,
    /// `burst_pods` more and fewer, on one ReplicaSet and spread over many.
    Burst,
    /// Pods are deleted from outside at a steady rate and re-created.
    Churn,
    /// Bare pods exist, then ReplicaSets that match them.
    Adoption,
    /// The controller starts over pods that exist.
    ColdStart,
    /// The controller's pod watch stalls for longer than expectations last; then answers are lost.
    StaleWatch,
    /// Objects from files (`-f`) and nothing else: settles and reports.
    Manifests,
}

impl ScenarioName {
    /// Every built-in scenario, in the order they are listed.
    pub const ALL: [ScenarioName; 9] = [
        ScenarioName::UpDown,
        ScenarioName::ScaleUp,
        ScenarioName::ScaleDown,
        ScenarioName::Burst,
        ScenarioName::Churn,
        ScenarioName::Adoption,
        ScenarioName::ColdStart,
        ScenarioName::StaleWatch,
        ScenarioName::Manifests,
    ];

    /// The name as flags and results spell it, e.g. `up-down`.
    pub const fn name(self) -> &'static str {
        match self {
            ScenarioName::UpDown => "up-down",
            ScenarioName::ScaleUp => "scale-up",
            ScenarioName::ScaleDown => "scale-down",
            ScenarioName::Burst => "burst",
            ScenarioName::Churn => "churn",
            ScenarioName::Adoption => "adoption",
            ScenarioName::ColdStart => "cold-start",
            ScenarioName::StaleWatch => "stale-watch",
            ScenarioName::Manifests => "manifests",
        }
    }

    /// The question the scenario answers, in one line.
    pub const fn question(self) -> &'static str {
        match self {
            ScenarioName::UpDown => {
                "How fast is a whole life: 0 -> 100 % -> 50 % -> 0 of the pods? (default)"
            }
            ScenarioName::ScaleUp => "How long until all pods of an empty cluster are ready?",
            ScenarioName::ScaleDown => "How long does choosing and deleting half the pods take?",
            ScenarioName::Burst => {
                "What does a sudden +/- 500 cost, on one ReplicaSet and spread over many?"
            }
            ScenarioName::Churn => {
                "Does the controller keep up while pods are deleted at a steady rate?"
            }
            ScenarioName::Adoption => {
                "How fast are pods without an owner taken over by ReplicaSets that match them?"
            }
            ScenarioName::ColdStart => {
                "How long after a restart over existing pods until the controller is right again?"
            }
            ScenarioName::StaleWatch => {
                "Does the controller create pods twice when its pod watch stalls? (simulated time)"
            }
            ScenarioName::Manifests => {
                "What becomes of the objects in my files (-f), a dump of a real cluster included?"
            }
        }
    }

    /// Whether something goes wrong in it between the controller and its cluster, which takes virtual
    /// time.
    pub const fn is_disturbed(self) -> bool {
        matches!(self, ScenarioName::StaleWatch)
    }

    /// The scenario of that name.
    pub fn by_name(name: &str) -> Option<ScenarioName> {
        ScenarioName::ALL
            .into_iter()
            .find(|scenario| scenario.name() == name)
    }
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
