//! The resolved settings: everything that a run depends on, from flags and scenario, with defaults
//! filled in, and validated. A result contains its settings, so that the run can be repeated.
//!
//! A new setting needs a field in `scenario::settings`, its resolved form here and in `resolve`,
//! its conversion to a flag in `cli::effective` and in the table `FLAGS` of `compare::identity`,
//! and a member of the simulation's options if the simulation uses it. Then regenerate both
//! schemas: `loadgen schema scenario > loadgen/schemas/scenario.schema.json`, and the same with
//! `result`. A flag for the generated objects of a workload is a `Flag` in the workload's folder; a
//! feature gate, a number of workers or another number of a controller is in the controller's row.

pub mod memory;
pub mod resolve;

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::policy::Behaviour;
pub use podstorm_apiserver::latency::Latency;
use podstorm_objects::PodTemplate;
use podstorm_sim::nodes::{Finishing, PPM};
use podstorm_sim::options::SimOptions;
use podstorm_sim::services::Services;

pub use crate::workloads::flags::FlagValues;
pub use crate::workloads::{ClusterSize, WorkloadCounts};
pub use podstorm_sim::options::{ControllerSettings, EngineKind, LatencySettings};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::input::InputObject;
use crate::scenario::{Scenario, pod_template};
use crate::workloads::objects::Objects;
use crate::workloads::{self, Workload};

/// The settings of one run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Settings {
    /// The scenario: by name if it is built in, in full if it came from a file.
    #[serde(serialize_with = "scenario_name_or_all")]
    #[schemars(with = "NameOrScenario")]
    pub scenario: Arc<Scenario>,
    /// The engine.
    pub engine: EngineKind,
    /// The seed of all random choices.
    pub seed: u64,
    /// Number of OS threads of the threads engine; 1 on the virtual engine.
    pub threads: usize,
    /// The size of the generated cluster.
    pub size: ClusterSize,
    /// The flags of the controllers.
    pub controller: ControllerSettings,
    /// The times of controllers that were set, by flag name, ns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controller_times: BTreeMap<&'static str, i64>,
    /// The behaviour of the controllers: upstream or hardened.
    #[serde(serialize_with = "behaviour_name")]
    #[schemars(with = "String")]
    pub behaviour: Behaviour,
    /// Latencies of the simulated cluster.
    pub latency: LatencySettings,
    /// How long after their start those pods end whose restart policy is not `Always`, ns; absent
    /// if they keep running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_run_time_ns: Option<i64>,
    /// The share of these pods that fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pod_failures: f64,
    /// Whether stuck pods from files, and new pods of their workloads, are started.
    pub start_stuck_pods: bool,
    /// Duration of the scenario's steady part, ns; ignored by scenarios that have none.
    pub duration_ns: i64,
    /// The time after which the run fails if the scenario's condition isn't met, ns.
    pub time_limit_ns: i64,
    /// The share of the controllers' API calls that fail with an internal error.
    pub api_errors: f64,
    /// Number of pods per second that the scenario `churn` deletes from outside.
    pub churn_pods_per_second: f64,
    /// Number of pods that the scenario `burst` suddenly adds and removes.
    pub burst_pods: u32,
    /// `minReadySeconds` of the generated workloads.
    pub min_ready_seconds: i32,
    /// The values of the workloads' flags.
    #[serde(flatten)]
    pub workloads: FlagValues,
}

impl Settings {
    /// Reports whether the scenario creates objects of this workload itself, either in a step of
    /// its own or in place of the objects that the workload owns.
    pub(crate) fn creates(&self, workload: Workload) -> bool {
        let is_on = |makes: workloads::Makes| makes.switch.is_on(&self.workloads);
        self.scenario.creates(workload.kind()) || workload.makes().is_some_and(is_on)
    }

    /// Reports whether a run has objects of this workload even if no file contains any.
    pub(crate) fn generates(&self, workload: Workload) -> bool {
        workload.is_in_every_run() || self.creates(workload)
    }

    /// Returns the workloads of a run: those that it generates, and those in files.
    pub(crate) fn workloads_of(&self, objects: &[InputObject]) -> impl Iterator<Item = Workload> {
        let is_there = |workload: &Workload| {
            self.generates(*workload) || objects.iter().any(|it| it.kind() == workload.kind())
        };
        workloads::ALL.into_iter().filter(is_there)
    }

    /// Returns the generator for the cluster's objects.
    pub(crate) fn objects(&self) -> Objects {
        let template = template_of(&self.scenario);
        // The labels of nodes are not needed if all pods have the default template.
        let labels_nodes = template.is_some() || !self.scenario.generates_cluster();
        let mut objects = Objects::new(self.size.clone(), template);
        objects.labels_nodes = labels_nodes;
        objects.min_ready_seconds = self.min_ready_seconds;
        objects.values = self.workloads.clone();
        objects
    }

    /// Returns which pods end by themselves; `None` if no pods do.
    pub(crate) fn finishing(&self) -> Option<Finishing> {
        self.pod_run_time_ns.map(|run_ns| Finishing {
            run_ns,
            failing_ppm: ppm(self.pod_failures),
            ..Finishing::default()
        })
    }

    /// Returns the options for the simulated cluster.
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
            goes_on: false,
            services: Services {
                numbers: self.controller_times.clone(),
                ..Services::default()
            },
        }
    }
}

/// Returns the template for a scenario's generated pods; `None` if the scenario defines none.
fn template_of(scenario: &Scenario) -> Option<Arc<PodTemplate>> {
    let template = scenario.pod_template.as_ref();
    template.and_then(|template| pod_template(template).ok())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// Converts a fraction to parts per million.
pub(crate) fn ppm(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(PPM)).round() as u32
}

/// The serialized form of a scenario.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "exists for its schema")]
enum NameOrScenario {
    /// The name of a built-in scenario.
    Name(String),
    /// A scenario from a file.
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

/// Serializes a behaviour by its name, because the core does not depend on serde.
fn behaviour_name<S: Serializer>(behaviour: &Behaviour, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(behaviour.as_str())
}
