//! The actions of users on Jobs and their pods, and the status that the Job controller would write.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::{DynamicObject, Kind, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PlannedJob;
use crate::action::{Action, Dependents, SubjectAction};
use crate::objects::{STUCK, controlled_by, listed, pod, pods_of, touched, with};
use crate::simulation::{Simulation, Users};

/// An action of a schedule. The first string is the name of the Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum JobAction {
    /// An action on the cluster.
    Cluster(Action),
    /// A Job is marked as finished.
    Finish {
        /// The name of the Job.
        job: String,
        /// Whether the Job failed.
        failed: bool,
        /// The age of the Job's finish time, s; negative for a time in the future.
        ago_s: i32,
    },
    /// Sets the TTL of a Job, s, or removes it.
    Ttl(String, Option<u32>),
    /// Changes an annotation of a Job.
    Touch(String),
    /// Changes a count in the status of a Job.
    WriteStatus(String),
    /// Adds or removes a finalizer that keeps a Job.
    Hold(String, bool),
    /// Deletes a Job.
    Delete(String, Dependents),
    /// Creates a Job with its pods, if it doesn't exist.
    Create(String),
    /// Deletes the pods of a Job.
    KillPods(String),
    /// Removes the owner from the pods of a Job.
    OrphanPods(String),
}

impl From<Action> for JobAction {
    fn from(action: Action) -> JobAction {
        JobAction::Cluster(action)
    }
}

impl SubjectAction for JobAction {
    fn on_cluster(&self) -> Option<&Action> {
        match self {
            JobAction::Cluster(action) => Some(action),
            _ => None,
        }
    }

    fn target(&self) -> Option<&str> {
        use JobAction::*;
        match self {
            Cluster(action) => action.owner(),
            Finish { job, .. } => Some(job),
            Ttl(name, _) | Touch(name) | WriteStatus(name) | Hold(name, _) => Some(name),
            Delete(name, _) | Create(name) | KillPods(name) | OrphanPods(name) => Some(name),
        }
    }
}

/// The users of Jobs, with the Jobs that they know.
#[derive(Debug)]
pub struct JobUsers {
    planned: Arc<[PlannedJob]>,
    touches: u64,
}

impl Users for JobUsers {
    type Planned = PlannedJob;
    type Action = JobAction;

    fn new(planned: &[PlannedJob]) -> JobUsers {
        JobUsers {
            planned: planned.into(),
            touches: 0,
        }
    }

    fn create(&mut self, simulation: &mut Simulation) {
        let planned = Arc::clone(&self.planned);
        simulation.create_with(move |simulation| {
            for job in &*planned {
                create(simulation, job);
            }
        });
    }

    fn act(&mut self, simulation: &mut Simulation, action: &JobAction) {
        use JobAction::*;
        match action {
            Finish { job, failed, ago_s } => {
                let status = ended(simulation, *failed, *ago_s);
                simulation.patch_object_status(Kind::JOB, job, status);
            }
            Ttl(name, ttl) => {
                let spec = json!({"spec": {"ttlSecondsAfterFinished": ttl}});
                simulation.patch_object(Kind::JOB, name, spec);
            }
            Touch(name) => {
                self.touches += 1;
                simulation.patch_object(Kind::JOB, name, touched(self.touches));
            }
            WriteStatus(name) => {
                self.touches += 1;
                let status = json!({"terminating": self.touches % 5});
                simulation.patch_object_status(Kind::JOB, name, status);
            }
            Hold(name, is_held) => {
                let finalizers = is_held.then_some([STUCK]);
                let held = json!({"metadata": {"finalizers": finalizers}});
                simulation.patch_object(Kind::JOB, name, held);
            }
            Delete(name, dependents) => simulation.delete_object(Kind::JOB, name, *dependents),
            Create(name) => {
                if let Some(job) = self.planned.iter().find(|it| it.name == *name) {
                    create(simulation, job);
                }
            }
            KillPods(name) => {
                for pod in pods_of(simulation.harness.cluster(), Kind::JOB, name) {
                    simulation.delete_pod(&pod.metadata.name, None);
                }
            }
            OrphanPods(name) => {
                for pod in pods_of(simulation.harness.cluster(), Kind::JOB, name) {
                    let alone = json!({"metadata": {"ownerReferences": null}});
                    simulation.patch_pod(&pod.metadata.name, alone);
                }
            }
            Cluster(action) => unreachable!("{action:?} is an action on the cluster"),
        }
    }

    /// A pending TTL would end in the quiet phase, so users remove it.
    fn put_right(&mut self, simulation: &mut Simulation) {
        for job in jobs(simulation.harness.cluster()) {
            let name = job.metadata.name.to_string();
            let finalizers = job.metadata.finalizers();
            if finalizers.iter().any(|it| **it == *STUCK) {
                self.act(simulation, &JobAction::Hold(name.clone(), false));
            }
            if !is_over(&job, simulation.harness.now().wall_ns) {
                self.act(simulation, &JobAction::Ttl(name, None));
            }
        }
    }

    fn touch(&mut self, simulation: &mut Simulation) {
        for job in jobs(simulation.harness.cluster()) {
            let name = job.metadata.name.to_string();
            self.act(simulation, &JobAction::Touch(name));
        }
    }
}

/// Returns every Job of the namespace, in name order.
pub(super) fn jobs(cluster: &Cluster) -> Vec<Arc<DynamicObject>> {
    listed(cluster, Kind::JOB)
}

/// Returns the time at which the TTL of a Job ends, ns since the Unix epoch; `None` if the Job has
/// no TTL or has not finished. Computed from the specification, independently of the controller's
/// code.
pub(super) fn expiry_ns(job: &DynamicObject) -> Option<i128> {
    let ttl = job.fields.get("spec")?["ttlSecondsAfterFinished"].as_i64()?;
    let conditions = job.fields.get("status")?["conditions"].as_array()?;
    let end = conditions.iter().find(|it| {
        ["Complete", "Failed"].contains(&it["type"].as_str().unwrap_or_default())
            && it["status"] == "True"
    })?;
    let time: Time = end["lastTransitionTime"].as_str()?.parse().ok()?;
    Some((i128::from(time.unix_seconds()?) + i128::from(ttl)) * 1_000_000_000)
}

/// Reports whether the TTL of a Job has passed at `wall_ns`, ns since the Unix epoch.
pub(super) fn is_over(job: &DynamicObject, wall_ns: i64) -> bool {
    expiry_ns(job).is_some_and(|expiry_ns| expiry_ns <= i128::from(wall_ns))
}

/// Returns the status of a Job that finished `ago_s` ago, as the Job controller writes it.
fn ended(simulation: &Simulation, failed: bool, ago_s: i32) -> Value {
    let ago_ns = i64::from(ago_s) * 1_000_000_000;
    let wall_ns = simulation.harness.now().wall_ns;
    let at = Time::from_unix_nanos(wall_ns - ago_ns).to_string();
    let begun = Time::from_unix_nanos(wall_ns - ago_ns.abs()).to_string();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at});
    let (kinds, mut status) = match failed {
        true => (["FailureTarget", "Failed"], json!({"failed": 1})),
        false => (
            ["SuccessCriteriaMet", "Complete"],
            json!({"succeeded": 1, "completionTime": at}),
        ),
    };
    status["conditions"] = kinds.into_iter().map(condition).collect();
    status["startTime"] = json!(begun);
    status
}

/// Creates a planned Job with its pods.
fn create(simulation: &Simulation, job: &PlannedJob) {
    let template = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "app", "image": "app:1"}]}});
    let object = json!({"metadata": {"name": job.name},
        "spec": {"ttlSecondsAfterFinished": job.ttl, "template": template}});
    if let Some(created) = simulation.create_object(Kind::JOB, object) {
        let owner = controlled_by(Kind::JOB, &job.name, &created.metadata().uid.to_string());
        for _ in 0..job.pods {
            let generated = json!({"metadata": {"name": null, "generateName": "task-"}});
            simulation.create_pod(with(with(pod("", &job.name), generated), owner.clone()));
        }
    }
}
