//! Everything that a run depends on: what flags and scenario ask for, with defaults filled in, and checked.
//! A result holds it, so that the run can be repeated.

pub mod memory;
pub mod resolve;

use std::sync::Arc;

use podstorm::policy::Behaviour;
pub use podstorm_apiserver::latency::Latency;
use podstorm_sim::options::SimOptions;
use podstorm_sim::services::Services;

pub use crate::size::ClusterSize;
pub use podstorm_sim::options::{ControllerSettings, EngineKind, LatencySettings};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::scenario::Scenario;
use crate::values::Limit;

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
    /// The flags of the controller.
    pub controller: ControllerSettings,
    /// The behaviour of the controller: upstream's or the hardened one.
    #[serde(serialize_with = "behaviour_name")]
    #[schemars(with = "String")]
    pub behaviour: Behaviour,
    /// How long things take in the simulated cluster.
    pub latency: LatencySettings,
    /// Whether pods of files that can't start do, and new pods of their workloads.
    pub start_stuck_pods: bool,
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
    /// Whether real Deployments take the place of ReplicaSets that are parts of some.
    pub deployments: bool,
    /// `maxSurge` of the generated Deployments: `25%`, or `1` for a number of pods.
    pub max_surge: Limit,
    /// `maxUnavailable` of the generated Deployments: `25%`, or `1` for a number of pods.
    pub max_unavailable: Limit,
    /// `progressDeadlineSeconds` of the generated Deployments.
    pub progress_deadline_seconds: i32,
}

impl Settings {
    /// Whether Deployments are created in the run.
    pub fn creates_deployments(&self) -> bool {
        self.deployments || self.scenario.creates_deployments()
    }

    /// What of it the simulated cluster is built from.
    pub fn sim_options(&self) -> SimOptions {
        SimOptions {
            engine: self.engine,
            threads: self.threads,
            seed: self.seed,
            controller: self.controller.clone(),
            policy: self.behaviour.policy(),
            latency: self.latency.clone(),
            api_errors: self.api_errors,
            phases: self.scenario.phases.len(),
            time_scale: 1.0,
            keeps_past: false,
            forbids_privileged: false,
            services: Services::default(),
        }
    }
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
