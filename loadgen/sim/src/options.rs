//! Options of a simulated cluster: engine, seed, controllers, policy, latencies.

use std::borrow::Cow;
use std::collections::BTreeMap;

use podstorm::controller::Setup;
use podstorm::limits::BURST_REPLICAS;
use podstorm::policy::{Behaviour, Policy};
use podstorm::row::{ControllerRow, WorkersFlag};
use podstorm_apiserver::latency::Latency;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::rows::Rows;
use crate::services::Services;

/// The options of a simulated cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOptions {
    /// The engine that runs the cluster.
    pub engine: EngineKind,
    /// The number of threads of the threads engine; 1 for the virtual engine.
    pub threads: usize,
    /// The seed for all randomness.
    pub seed: u64,
    /// The settings of the controllers.
    pub controller: ControllerSettings,
    /// The policy rows that select the controllers' behaviour.
    pub policy: Policy,
    /// The latencies.
    pub latency: LatencySettings,
    /// The fraction of the controllers' API calls that fail with an internal error, 0 to 1.
    pub api_errors: f64,
    /// The number of phases of a run whose durations are recorded separately; at least 1.
    pub phases: usize,
    /// The speed of the threads engine's clock as a multiple of real time.
    pub time_scale: f64,
    /// Whether the API server [keeps older states](podstorm_apiserver::ClusterOptions::keeps_past).
    pub keeps_past: bool,
    /// Whether the API server [forbids privileged
    /// containers](podstorm_apiserver::ClusterOptions::forbids_privileged).
    pub forbids_privileged: bool,
    /// Whether the controllers continue from the state that earlier controllers left behind. Set by
    /// [`Harness::resuming`](crate::engine::Harness::resuming).
    pub goes_on: bool,
    /// The controllers that run, and the settings that apply only to a
    /// [served](crate::engine::Harness::serving) cluster.
    pub services: Services,
}

impl SimOptions {
    /// Upstream's behaviour and worker counts, the default controllers, no client limit and no
    /// latency. The threads engine gets all cores.
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
                workers: WorkerCounts::default(),
                burst_replicas: BURST_REPLICAS as u32,
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
            goes_on: false,
            services: Services::default(),
        }
    }
}

impl SimOptions {
    /// Returns the setup from which the controllers are built.
    pub fn setup(&self) -> Setup {
        Setup {
            policy: self.policy,
            burst_replicas: self.controller.burst_replicas as usize,
            feature_gates: self.controller.feature_gates.clone(),
            numbers: self.services.numbers.clone(),
            identity: self.services.identity.clone(),
            goes_on: self.goes_on,
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
    /// Returns the name of the engine in flags and results.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Virtual => "virtual",
            EngineKind::Threads => "threads",
        }
    }
}

/// The settings of the controllers, whose members have upstream's names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ControllerSettings {
    /// The number of workers of each controller.
    #[serde(flatten)]
    pub workers: WorkerCounts,
    /// The maximum number of creates or deletes in one sync.
    pub burst_replicas: u32,
    /// `--kube-api-qps`; unlimited if absent.
    pub kube_api_qps: Option<f64>,
    /// `--kube-api-burst`.
    pub kube_api_burst: u32,
    /// The feature gates that are set, by their upstream names.
    pub feature_gates: BTreeMap<String, bool>,
}

/// The number of workers for each controller whose row leaves this number to a flag. Serialized
/// under the flag's name (`concurrent_replicaset_syncs`); a count that is not set has the row's
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts(BTreeMap<&'static str, usize>);

impl WorkerCounts {
    /// Returns the number of workers of a controller, at least 1.
    pub fn get(&self, row: &ControllerRow) -> usize {
        row.workers.map_or(1, |workers| self.by(workers))
    }

    /// Returns the number of workers that a flag sets, or its default.
    pub fn by(&self, workers: WorkersFlag) -> usize {
        let set = self.0.get(workers.flag).copied();
        set.unwrap_or(workers.default).max(1)
    }

    /// Sets the number of workers for a flag.
    pub fn set(&mut self, workers: WorkersFlag, count: usize) {
        self.0.insert(workers.flag, count);
    }

    /// Returns the same number of workers for every controller.
    pub fn all(rows: &Rows, count: usize) -> WorkerCounts {
        let flags = rows.worker_flags();
        WorkerCounts(flags.map(|(_, workers)| (workers.flag, count)).collect())
    }
}

/// Returns the name of a flag's member in results.
fn member(workers: WorkersFlag) -> String {
    workers.flag.replace('-', "_")
}

impl Serialize for WorkerCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let flags = Rows::installed().worker_flags();
        to.collect_map(flags.map(|(_, workers)| (member(workers), self.by(workers))))
    }
}

impl JsonSchema for WorkerCounts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkerCounts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        for (row, workers) in Rows::installed().worker_flags() {
            let mut schema = generator.subschema_for::<usize>();
            let text = format!("`--{}`: the workers for {}.", workers.flag, row.purpose);
            schema.insert("description".to_owned(), text.into());
            properties.insert(member(workers), schema.into());
        }
        let required: Vec<String> = properties.keys().cloned().collect();
        json_schema!({"type": "object", "properties": properties, "required": required})
    }
}

/// The latencies of a simulated cluster.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencySettings {
    /// The time from a pod's binding to its readiness.
    pub pod_startup: Latency,
    /// The time from a pod's deletion request to its removal, limited by the grace period.
    pub pod_termination: Latency,
    /// The round trip of one API call by a controller.
    pub api: Latency,
    /// The time from a commit to its delivery by a watch.
    pub watch: Latency,
    /// The time from a pod's creation to its binding.
    pub scheduling: Latency,
}

/// The client QPS of a stock kube-controller-manager.
pub const UPSTREAM_QPS: f64 = 20.0;
/// The client burst of a stock kube-controller-manager; also the default if only a QPS is set.
pub const UPSTREAM_BURST: u32 = 30;
