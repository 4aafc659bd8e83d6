//! Everything that a run depends on: what flags and scenario ask for, with defaults filled in, and checked.
//! A result holds it, so that the run can be repeated.
//!
//! A new setting is a field of `scenario::settings`, its resolved form here and in `resolve`, its way back to a flag in
//! `cli::effective` and in the table `FLAGS` of `compare::identity`, and a member of the simulation's options if the simulation
//! needs it. Then publish both schemas: `loadgen schema scenario > loadgen/schemas/scenario.schema.json`, and the same with
//! `result`. A flag for the generated objects of a workload is a `Flag` in the workload's folder; a feature gate, a number
//! of workers or another number of a controller is in the controller's row.

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
    /// Times of controllers that are set, by the names of their flags, ns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub controller_times: BTreeMap<&'static str, i64>,
    /// The behaviour of the controller: upstream's or the hardened one.
    #[serde(serialize_with = "behaviour_name")]
    #[schemars(with = "String")]
    pub behaviour: Behaviour,
    /// How long things take in the simulated cluster.
    pub latency: LatencySettings,
    /// How long after their start pods end whose restart policy is not `Always`, ns; absent where they run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_run_time_ns: Option<i64>,
    /// The share of these pods that fails.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pod_failures: f64,
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
    /// `minReadySeconds` of the generated workloads.
    pub min_ready_seconds: i32,
    /// What the flags of workloads say.
    #[serde(flatten)]
    pub workloads: FlagValues,
}

impl Settings {
    /// Whether the scenario creates such objects, by a step or in place of their parts.
    pub(crate) fn creates(&self, workload: Workload) -> bool {
        let is_on = |makes: workloads::Makes| makes.switch.is_on(&self.workloads);
        self.scenario.creates(workload.kind()) || workload.makes().is_some_and(is_on)
    }

    /// Whether a run has such objects even where no file brings them.
    pub(crate) fn generates(&self, workload: Workload) -> bool {
        workload.is_in_every_run() || self.creates(workload)
    }

    /// The workloads of a run: those that are generated, and those of files.
    pub(crate) fn workloads_of(&self, objects: &[InputObject]) -> impl Iterator<Item = Workload> {
        let is_there = |workload: &Workload| {
            self.generates(*workload) || objects.iter().any(|it| it.kind() == workload.kind())
        };
        workloads::ALL.into_iter().filter(is_there)
    }

    /// What makes the objects of the generated cluster.
    pub(crate) fn objects(&self) -> Objects {
        let template = template_of(&self.scenario);
        // Nothing asks for the labels of nodes where all pods are the usual ones.
        let labels_nodes = template.is_some() || !self.scenario.generates_cluster();
        let mut objects = Objects::new(self.size.clone(), template);
        objects.labels_nodes = labels_nodes;
        objects.min_ready_seconds = self.min_ready_seconds;
        objects.values = self.workloads.clone();
        objects
    }

    /// Which pods end by themselves, if any do.
    pub(crate) fn finishing(&self) -> Option<Finishing> {
        self.pod_run_time_ns.map(|run_ns| Finishing {
            run_ns,
            failing_ppm: ppm(self.pod_failures),
            ..Finishing::default()
        })
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
            goes_on: false,
            services: Services {
                numbers: self.controller_times.clone(),
                ..Services::default()
            },
        }
    }
}

/// The template of a scenario's generated pods, where it has one of its own.
fn template_of(scenario: &Scenario) -> Option<Arc<PodTemplate>> {
    let template = scenario.pod_template.as_ref();
    template.and_then(|template| pod_template(template).ok())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// A share as parts of a million.
pub(crate) fn ppm(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * f64::from(PPM)).round() as u32
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
