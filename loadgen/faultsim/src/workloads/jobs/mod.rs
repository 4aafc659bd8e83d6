//! Jobs under faults. A seed draws one to three Jobs; users end their pods with success or failure,
//! as kubelets would, and change, suspend, delete and recreate Jobs.
//!
//! # Invariants
//!
//! B1 to B8 are about one commit of the Job controller. *Seen* means in the controller's caches
//! when the sync began. A pod is *tracked* while it has the tracking finalizer, and *listed* once
//! its UID has been in `status.uncountedTerminatedPods`.
//!
//! * **B1** `succeeded` and `failed` never decrease. An exception is `succeeded` of an indexed Job
//!   whose number of indexes decreases.
//! * **B2** Each pod is counted once: a counter and its list together grow by the new UIDs in the
//!   list, no UID is listed twice, and a UID leaves the list only when its pod is no longer
//!   tracked. `succeeded` of an indexed Job is the number of its completed indexes.
//! * **B3** A pod that is listed as succeeded has succeeded. A pod that is listed as failed has
//!   failed or is being deleted. A completed index has a pod that has succeeded.
//! * **B4** A sync removes the tracking finalizer of an ended pod only if the pod is listed, its
//!   index is completed, a policy ignores it, or the same sync deletes it.
//! * **B5** A condition that ends a Job stays, and a finished Job is no longer written.
//! * **B6** A Job ends for a valid reason: it has all its completions or more failures than its
//!   limit, its deadline has passed, or one of its policies is satisfied.
//! * **B7** No pod is created for a Job that was seen suspended, finished or terminating.
//! * **B8** No pod is created beyond the parallelism, the remaining completions, or one pod for
//!   each index. Runs with faults that explain additional pods are excluded.
//! * **L1** Within a limit after the end of faults, each Job either has finished and has neither
//!   active nor tracked pods, or has the pods that it should have. Its status equals a recount of
//!   all pods, its lists of uncounted pods are empty, no ended or orphaned pod is tracked, and the
//!   controller's state does not contain a pod whose finalizer it has removed.
//! * **L2** After that, nothing is written for ten minutes.
//! * **L6** No livelock, as for all workloads.
//!
//! B2 and the recount do not hold if upstream's controller counts a pod twice, which happens if
//! caches go back in time or two controllers run concurrently. The recount excludes deviations that
//! hazards of the controller's specification explain.

mod at_rest;
mod bugs;
mod checker;
mod circumstances;
mod draw;
#[cfg(test)]
mod planted_tests;
mod status;
#[cfg(test)]
mod tests;
pub mod users;

use std::sync::Arc;

use podstorm::driver::Workload as _;
use podstorm::job::{Controller, Jobs};
use podstorm::policy::Behaviour;
use podstorm_apiserver::Cluster;
use podstorm_objects::{AnyObject, DynamicObject, Kind, Pod};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::faults::{Call, FaultClass, StreamKind};
use serde::{Deserialize, Serialize};

use crate::bug::Bug;
use crate::dice::{Dice, Odds};
use crate::invariants::Checker;
use crate::plan::How;
use crate::simulation::{Beside, Ending, OwnerPlan, PodOwners};
use crate::subject::{Schedule, Subject, check_within};
use checker::JobJudge;
use circumstances::Circumstances;
use status::Read;
use users::{JobAction, JobUsers};

const SECOND: i64 = 1_000_000_000;

/// A planned Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedJob {
    /// The name of the Job.
    pub name: String,
    /// The Job's `parallelism`.
    pub parallelism: u32,
    /// The Job's `completions`; if absent, one success is sufficient and ends the Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completions: Option<u32>,
    /// Whether the Job's pods have indexes.
    #[serde(default)]
    pub indexed: bool,
    /// The Job's `backoffLimit`, or its `backoffLimitPerIndex` with `per_index`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<u32>,
    /// Whether `backoff_limit` applies to each index.
    #[serde(default)]
    pub per_index: bool,
    /// The Job's `maxFailedIndexes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failed_indexes: Option<u32>,
    /// Whether the Job's `podReplacementPolicy` is `Failed`.
    #[serde(default)]
    pub replaces_failed: bool,
    /// The exit codes that the `podFailurePolicy` names, with the action for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_policy: Vec<(u32, String)>,
    /// The `succeededCount` of the `successPolicy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_count: Option<u32>,
    /// The Job's `activeDeadlineSeconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<u32>,
    /// Whether the `restartPolicy` of the Job's pods is `OnFailure` instead of `Never`.
    #[serde(default)]
    pub restarts: bool,
    /// Whether the Job is suspended initially.
    #[serde(default)]
    pub suspended: bool,
}

/// Jobs as the owners of pods.
#[derive(Clone, Copy, Debug)]
struct JobOwners;

impl PodOwners for JobOwners {
    fn kinds(&self) -> &'static [Kind] {
        &[Kind::JOB]
    }

    fn object(&self, name: &str, plan: &OwnerPlan) -> AnyObject {
        let planned = PlannedJob {
            name: name.to_owned(),
            parallelism: u32::try_from(plan.replicas).unwrap_or(0),
            ..PlannedJob::default()
        };
        let job = DynamicObject::from_json(Kind::JOB, users::object(&planned));
        Arc::new(job.expect("the Job is valid"))
    }

    fn missing(&self, harness: &FaultHarness) -> Option<String> {
        at_rest::behind(harness)
    }

    fn keep(&self, cluster: &Cluster, pod: &Pod) -> bool {
        let mut jobs = users::jobs(cluster).into_iter();
        let owner = status::owner_of(pod);
        let job = jobs.find(|job| Some(&job.metadata.uid) == owner);
        job.is_some_and(|job| at_rest::awaits_replacement(&Read::from_object(&job), pod, cluster))
    }

    fn expect(&self, harness: &FaultHarness) -> bool {
        let now_ns = harness.now().mono_ns;
        let jobs = users::jobs(harness.cluster());
        harness.controllers::<Controller>().any(|controller| {
            let mut keys = jobs.iter().map(|job| {
                let meta = &job.metadata;
                controller.key(&meta.namespace, &meta.name)
            });
            keys.any(|key| !controller.is_settled(key, now_ns))
        })
    }

    fn have_delayed(&self, harness: &FaultHarness) -> bool {
        let mut controllers = harness.controllers::<Controller>();
        controllers.any(|controller| controller.queues().iter().any(|it| it.delayed() > 0))
    }
}

impl Subject for Jobs {
    type Planned = PlannedJob;
    type Action = JobAction;
    type Drawing = ();
    type Users = JobUsers;
    type Watcher = Beside<JobJudge>;

    const OWNERS: &'static dyn PodOwners = &JobOwners;

    const BUGS: &'static [Bug] = &bugs::BUGS;

    const ODDS: Odds = Odds {
        stream: "jobs",
        without_faults: 15,
        of_one_class: 20,
        classes: 6,
        steps_max: 40,
        calls: &[
            Call::PutStatus,
            Call::PutStatus,
            Call::PatchPod,
            Call::PatchPod,
            Call::CreatePod,
            Call::DeletePod,
            Call::GetOwner,
        ],
        writes: &[
            Call::PutStatus,
            Call::PatchPod,
            Call::CreatePod,
            Call::DeletePod,
        ],
        resent: &[Call::CreatePod, Call::DeletePod, Call::PatchPod],
    };

    fn name(planned: &PlannedJob) -> &str {
        &planned.name
    }

    fn draw_objects(dice: &mut Dice) -> Vec<PlannedJob> {
        dice.jobs()
    }

    fn draw_burst(dice: &mut Dice) -> u32 {
        dice.one(&[500, 500, 500, 1, 2, 5])
    }

    fn drawing(_: &[PlannedJob]) {}

    fn draw_user(dice: &mut Dice, objects: &[PlannedJob], (): &mut ()) -> Vec<(u32, JobAction)> {
        let job = dice.one(objects);
        dice.job_action(&job)
    }

    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[PlannedJob],
        (): &mut (),
    ) -> Option<Vec<(u32, JobAction)>> {
        let job = dice.one(objects);
        dice.own_fault_of_job(class, &job)
    }

    fn draw_target(dice: &mut Dice, objects: &[PlannedJob]) -> String {
        dice.one(objects).name
    }

    fn draw_stream(dice: &mut Dice, (): &()) -> StreamKind {
        StreamKind::from_kind(dice.one(&[Kind::JOB, Kind::POD, Kind::POD]))
    }

    fn check_object(planned: &PlannedJob) -> Result<(), String> {
        check_within("parallelism", planned.parallelism, 0, 1_000)?;
        check_within("completions", planned.completions.unwrap_or(0), 0, 1_000)
    }

    fn check_action(action: &JobAction) -> Result<(), String> {
        match action {
            JobAction::Parallelism(_, count) | JobAction::Resize(_, count) => {
                check_within("parallelism", *count, 0, 1_000)
            }
            JobAction::End { percent, .. } => check_within("percent", *percent, 1, 100),
            _ => Ok(()),
        }
    }

    fn kinds(_: &Schedule<Jobs>) -> Vec<Kind> {
        vec![Kind::JOB]
    }

    fn watcher(schedule: &Schedule<Jobs>, how: How) -> Arc<Beside<JobJudge>> {
        let circumstances = Circumstances::from_schedule(schedule, how.behaviour);
        let checker = Checker::new(&schedule.cluster, how);
        Beside::new(checker, JobJudge::new(circumstances))
    }

    fn ending(_: Behaviour) -> Ending {
        Ending {
            // The longest wait after failures, and the expiry of two expectations.
            converges_within_ns: 2 * Ending::EXPECTATIONS_RUN_OUT_NS + 900 * SECOND,
            touches_ns: &[90 * SECOND, Ending::EXPECTATIONS_RUN_OUT_NS],
            touches_always: false,
            helped_within_ns: 900 * SECOND,
            settles_ns: 120 * SECOND,
            ..Ending::DEFAULT
        }
    }
}
