//! The options of a simulated cluster: engine, settings of the controllers, latencies.

use std::collections::BTreeMap;

use podstorm::policy::{Behaviour, Policy};
use podstorm_apiserver::latency::Latency;
use schemars::JsonSchema;
use serde::Serialize;

use crate::services::Services;

/// The options of a simulated cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// The engine that runs it.
    pub engine: EngineKind,
    /// Threads of the machine for the threads engine; 1 for the virtual engine.
    pub threads: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// The settings of the controllers.
    pub controller: ControllerSettings,
    /// The rows of the controllers' behaviour.
    pub policy: Policy,
    /// The latencies.
    pub latency: LatencySettings,
    /// The share of the controllers' API calls that are refused with an internal error, 0 to 1.
    pub api_errors: f64,
    /// The number of phases whose durations are recorded separately; at least 1.
    pub phases: usize,
    /// How many times as fast as the computer's the clock of the threads engine runs.
    pub time_scale: f64,
    /// Whether the API server [keeps older states](podstorm_apiserver::ClusterOptions::keeps_past).
    pub keeps_past: bool,
    /// Whether the API server [forbids privileged
    /// containers](podstorm_apiserver::ClusterOptions::forbids_privileged).
    pub forbids_privileged: bool,
    /// Which controllers run, and those that only a [served](crate::engine::Harness::serving)
    /// cluster has.
    pub services: Services,
}

impl SimOptions {
    /// Upstream's behaviour with five workers for each kind, no client limit and no latency. The
    /// threads engine gets all cores.
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
                concurrent_deployment_syncs: UPSTREAM_SYNCS as usize,
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
            time_scale: 1.0,
            keeps_past: false,
            forbids_privileged: false,
            services: Services::default(),
        }
    }
}

/// The engine that runs a simulated cluster.
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

/// The settings of the controllers, under upstream's names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ControllerSettings {
    /// `--concurrent-replicaset-syncs`.
    pub concurrent_replicaset_syncs: usize,
    /// `--concurrent-rc-syncs`.
    pub concurrent_rc_syncs: usize,
    /// `--concurrent-deployment-syncs`.
    pub concurrent_deployment_syncs: usize,
    /// Most creates or deletes in one sync.
    pub burst_replicas: u32,
    /// `--kube-api-qps`; absent is unlimited.
    pub kube_api_qps: Option<f64>,
    /// `--kube-api-burst`.
    pub kube_api_burst: u32,
    /// Feature gates by upstream's names.
    pub feature_gates: BTreeMap<String, bool>,
}

impl ControllerSettings {
    /// Whether a feature gate is on; a gate that is not listed is on.
    pub fn gate(&self, name: &str) -> bool {
        self.feature_gates.get(name).copied().unwrap_or(true)
    }
}

/// The latencies of a simulated cluster.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencySettings {
    /// From bound to ready.
    pub pod_startup: Latency,
    /// From the deletion request to the removal; at most the grace period.
    pub pod_termination: Latency,
    /// One API call of the controller: the round trip.
    pub api: Latency,
    /// From commit to delivery by a watch.
    pub watch: Latency,
    /// From creation to binding.
    pub scheduling: Latency,
}

/// Client QPS of a stock controller-manager.
pub const UPSTREAM_QPS: f64 = 20.0;
/// Client burst of a stock controller-manager; also the default where only a QPS is given.
pub const UPSTREAM_BURST: u32 = 30;
/// Workers per kind of a stock controller-manager.
pub const UPSTREAM_SYNCS: u64 = 5;
