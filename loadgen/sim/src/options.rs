//! What a simulated cluster is built from: which engine, what the controllers are told, how long
//! things take.

use std::collections::BTreeMap;

use podstorm::policy::{Behaviour, Policy};
use podstorm_apiserver::latency::Latency;
use schemars::JsonSchema;
use serde::Serialize;

/// Everything that a simulated cluster depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// Which engine.
    pub engine: EngineKind,
    /// Machine threads of the threads engine; 1 on the virtual one.
    pub threads: usize,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// What the controllers are told.
    pub controller: ControllerSettings,
    /// The rows of their behaviour.
    pub policy: Policy,
    /// How long things take.
    pub latency: LatencySettings,
    /// API calls of the controllers that are refused with an internal error, as a share of all.
    pub api_errors: f64,
    /// In how many phases times are recorded apart; at least 1.
    pub phases: usize,
}

impl SimOptions {
    /// Upstream's behaviour and five workers on that engine, no limit on requests, and nothing takes any
    /// time; all cores, where there are threads.
    pub fn new(engine: EngineKind, seed: u64) -> SimOptions {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        SimOptions {
            engine,
            threads: match engine {
                EngineKind::Virtual => 1,
                EngineKind::Threads => cores,
            },
            seed,
            controller: ControllerSettings {
                concurrent_replicaset_syncs: UPSTREAM_SYNCS as usize,
                concurrent_rc_syncs: UPSTREAM_SYNCS as usize,
                burst_replicas: 500,
                kube_api_qps: None,
                kube_api_burst: UPSTREAM_BURST,
                feature_gates: BTreeMap::new(),
            },
            policy: Behaviour::Upstream.policy(),
            latency: LatencySettings {
                pod_startup: Latency::ZERO,
                pod_termination: Latency::ZERO,
                api: Latency::ZERO,
                watch: Latency::ZERO,
                scheduling: Latency::ZERO,
            },
            api_errors: 0.0,
            phases: 1,
        }
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
    pub feature_gates: BTreeMap<String, bool>,
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

/// Client QPS of a stock controller-manager.
pub const UPSTREAM_QPS: f64 = 20.0;
/// Client burst of a stock controller-manager; also the default beside a QPS.
pub const UPSTREAM_BURST: u32 = 30;
/// Workers per kind of a stock controller-manager.
pub const UPSTREAM_SYNCS: u64 = 5;
