//! The actions of users on Jobs and their pods, and the ends of pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm::job::{Controller, pod::TRACKING_FINALIZER};
use podstorm_apiserver::Cluster;
use podstorm_objects::{DynamicObject, Kind, Namespace, Pod, PodPhase, RestartPolicy};
use podstorm_sim::engine::fault_harness::FaultHarness;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PlannedJob;
use super::status::{ENDS, Read, has_succeeded, index_of, is_tracked, owner_of, restarts_of};
use crate::action::{Action, Dependents, SubjectAction};
use crate::objects::{NAMESPACE, listed, members, nth_pod, pods_of, touched};
use crate::simulation::{Simulation, Users};

/// The label by which a Job selects its pods.
const SELECTING: &str = "batch.kubernetes.io/controller-uid";

/// The name of the annotation and of the label with a pod's index.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// An action of a schedule. The first string is the name of the Job; the number for a pod is its
/// index among the Job's pods, in name order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum JobAction {
    /// An action on the cluster or on pods.
    Cluster(Action),
    /// Pods of a Job end.
    End {
        /// The name of the Job.
        job: String,
        /// The percentage of the Job's pods that have not ended, 1 to 100.
        percent: u32,
        /// The exit code of the containers; 0 is success.
        code: u32,
    },
    /// Sets `parallelism` of a Job.
    Parallelism(String, u32),
    /// Sets `parallelism` and `completions` of a Job to the same number.
    Resize(String, u32),
    /// Suspends or resumes a Job.
    Suspend(String, bool),
    /// Sets or removes `activeDeadlineSeconds` of a Job.
    Deadline(String, Option<u32>),
    /// Sets `backoffLimit` of a Job.
    BackoffLimit(String, u32),
    /// Changes an annotation of a Job.
    Touch(String),
    /// Changes a count in the status of a Job.
    WriteStatus(String),
    /// Deletes a Job.
    Delete(String, Dependents),
    /// Creates a Job, if it doesn't exist.
    Create(String),
    /// Creates a pod without an owner that the Job selects.
    Orphan {
        /// The name of the Job.
        job: String,
        /// Whether the pod has the tracking finalizer.
        tracked: bool,
    },
    /// Removes the tracking finalizer of a pod of a Job.
    Strip(String, u32),
    /// Deletes a pod of a Job, whether or not the pod has ended.
    Remove(String, u32),
    /// Removes from a pod of a Job the label by which the Job selects the pod.
    Lose(String, u32),
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
            End { job, .. } | Orphan { job, .. } => Some(job),
            Parallelism(name, _) | Resize(name, _) | Suspend(name, _) => Some(name),
            Deadline(name, _) | BackoffLimit(name, _) | Touch(name) => Some(name),
            WriteStatus(name) | Delete(name, _) | Create(name) => Some(name),
            Strip(name, _) | Remove(name, _) | Lose(name, _) => Some(name),
        }
    }
}

/// Returns a planned Job as JSON, in the form that users write.
pub(super) fn object(job: &PlannedJob) -> Value {
    let limit = match job.per_index {
        true => "backoffLimitPerIndex",
        false => "backoffLimit",
    };
    let rule = |(code, action): &(u32, String)| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    let rules = |rules: Vec<Value>| (!rules.is_empty()).then(|| json!({"rules": rules}));
    let success = job
        .success_count
        .map(|count| json!({"succeededCount": count}));
    let mut spec = json!({
        "parallelism": job.parallelism,
        "completions": job.completions,
        "completionMode": if job.indexed { "Indexed" } else { "NonIndexed" },
        "maxFailedIndexes": job.max_failed_indexes,
        "podReplacementPolicy": if job.replaces_failed { "Failed" } else { "TerminatingOrFailed" },
        "podFailurePolicy": rules(job.failure_policy.iter().map(rule).collect()),
        "successPolicy": rules(success.into_iter().collect()),
        "activeDeadlineSeconds": job.deadline_s,
        "suspend": job.suspended,
        "template": {"spec": {"restartPolicy": if job.restarts { "OnFailure" } else { "Never" },
            "containers": [{"name": "app", "image": "app:1"}]}},
    });
    spec[limit] = json!(job.backoff_limit);
    let spec = members(spec).into_iter();
    let spec: serde_json::Map<_, _> = spec.filter(|(_, value)| !value.is_null()).collect();
    json!({"metadata": {"name": job.name, "namespace": NAMESPACE}, "spec": spec})
}

/// The users of Jobs, with the Jobs that they know.
#[derive(Debug)]
pub struct JobUsers {
    planned: Arc<[PlannedJob]>,
    touches: u64,
    /// Whether the faults have ended. From then on, Jobs get no deadline, because it would pass in
    /// the quiet phase.
    is_over: Arc<AtomicBool>,
}

impl Users for JobUsers {
    type Planned = PlannedJob;
    type Action = JobAction;

    fn new(planned: &[PlannedJob]) -> JobUsers {
        JobUsers {
            planned: planned.into(),
            touches: 0,
            is_over: Arc::default(),
        }
    }

    fn create(&mut self, simulation: &mut Simulation) {
        let (planned, is_over) = (Arc::clone(&self.planned), Arc::clone(&self.is_over));
        simulation.create_with(move |simulation| {
            for job in &*planned {
                let mut job = job.clone();
                // Relaxed: a simulation runs on one thread.
                if is_over.load(Ordering::Relaxed) {
                    job.deadline_s = None;
                }
                simulation.create_object(Kind::JOB, object(&job));
            }
        });
    }

    fn act(&mut self, simulation: &mut Simulation, action: &JobAction) {
        use JobAction::*;
        let spec = |name: &str, spec: Value| {
            simulation.patch_object(Kind::JOB, name, json!({"spec": spec}));
        };
        match action {
            End { job, percent, code } => end(simulation, job, *percent, *code),
            Parallelism(name, count) => spec(name, json!({"parallelism": count})),
            Resize(name, count) => {
                spec(name, json!({"parallelism": count, "completions": count}));
            }
            Suspend(name, is_on) => spec(name, json!({"suspend": is_on})),
            Deadline(name, seconds) => spec(name, json!({"activeDeadlineSeconds": seconds})),
            BackoffLimit(name, limit) => spec(name, json!({"backoffLimit": limit})),
            Touch(name) => {
                self.touches += 1;
                simulation.patch_object(Kind::JOB, name, touched(self.touches));
            }
            WriteStatus(name) => {
                self.touches += 1;
                let status = json!({"terminating": self.touches % 5});
                simulation.patch_object_status(Kind::JOB, name, status);
            }
            Delete(name, dependents) => simulation.delete_object(Kind::JOB, name, *dependents),
            Create(name) => {
                if let Some(job) = self.planned.iter().find(|it| it.name == *name) {
                    simulation.create_object(Kind::JOB, object(job));
                }
            }
            Orphan { job, tracked } => orphan(simulation, job, *tracked),
            Strip(name, nth) => {
                if let Some(pod) = nth_pod(simulation.harness.cluster(), Kind::JOB, name, *nth) {
                    strip(simulation, &pod);
                }
            }
            Remove(name, nth) => {
                if let Some(pod) = nth_pod(simulation.harness.cluster(), Kind::JOB, name, *nth) {
                    simulation.delete_pod(&pod.metadata.name, None);
                }
            }
            Lose(name, nth) => {
                if let Some(pod) = nth_pod(simulation.harness.cluster(), Kind::JOB, name, *nth) {
                    let lost = json!({"metadata": {"labels": {SELECTING: "lost"}}});
                    simulation.patch_pod(&pod.metadata.name, lost);
                }
            }
            Cluster(action) => unreachable!("{action:?} is an action on the cluster"),
        }
    }

    fn put_right(&mut self, simulation: &mut Simulation) {
        self.is_over.store(true, Ordering::Relaxed);
        for job in jobs(simulation.harness.cluster()) {
            let name = job.metadata.name.to_string();
            self.act(simulation, &JobAction::Deadline(name, None));
        }
    }

    /// Users resume a Job that can't finish because the server requires a start time, which a
    /// suspended Job may not have. They release stranded pods, and delete hopeless Jobs. If a Job
    /// no longer has an index that has succeeded, they set its parallelism to its completions: only
    /// then does the server accept a lower `succeeded`.
    fn help(&mut self, simulation: &mut Simulation) -> bool {
        let mut hopeless = jobs(simulation.harness.cluster());
        hopeless.retain(|job| is_hopeless(&Read::from_object(job), simulation));
        let mut smaller = jobs(simulation.harness.cluster());
        smaller.retain(|job| {
            let job = Read::from_object(job);
            let differs = job.number("completions") != Some(job.parallelism());
            job.is_indexed() && differs && job.count("succeeded") > job.succeeded()
        });
        for job in &smaller {
            let completions = Read::from_object(job).number("completions").unwrap_or(0);
            let completions = u32::try_from(completions).unwrap_or(0);
            let name = job.metadata.name.to_string();
            self.act(simulation, &JobAction::Parallelism(name, completions));
        }
        for job in &hopeless {
            let name = job.metadata.name.to_string();
            self.act(simulation, &JobAction::Delete(name, Dependents::Background));
        }
        let pods = stranded(&simulation.harness);
        pods.iter().for_each(|pod| strip(simulation, pod));
        let mut waits = jobs(simulation.harness.cluster());
        waits.retain(|job| {
            let job = Read::from_object(job);
            let has_criteria = ENDS[..2].iter().any(|kind| job.condition(kind).is_some());
            let ends = has_criteria || job.must_end();
            ends && job.is_suspended() && !job.has_finished() && job.start_ns().is_none()
        });
        for job in &waits {
            let resume = JobAction::Suspend(job.metadata.name.to_string(), false);
            self.act(simulation, &resume);
        }
        ![pods.len(), waits.len(), hopeless.len(), smaller.len()]
            .iter()
            .any(|count| *count > 0)
    }

    fn touch(&mut self, simulation: &mut Simulation) {
        self.help(simulation);
        for job in jobs(simulation.harness.cluster()) {
            let name = job.metadata.name.to_string();
            self.act(simulation, &JobAction::Touch(name));
        }
    }
}

/// Returns the pods that keep the tracking finalizer permanently, as with upstream's controller.
/// There are four cases. The Job was deleted, and a request to release the pod failed. The Job no
/// longer selects the pod, or was recreated before the controller saw the deletion, and the pod is
/// terminating or the Job has finished. The pod is terminating and has no node; Kubernetes' pod
/// garbage collector, which does not run here, would end it. The Job waits to replace the pod in a
/// terminating namespace.
fn stranded(harness: &FaultHarness) -> Vec<Arc<Pod>> {
    let cluster = harness.cluster();
    let all = jobs(cluster);
    let namespace = cluster.get::<Namespace>("", NAMESPACE);
    let is_terminating = namespace.is_ok_and(|it| it.metadata.is_deleting());
    let mut controllers = harness.controllers::<Controller>();
    let frees_orphans = controllers.any(|it| it.options().retry_orphans);
    let (mut pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    pods.retain(|pod| {
        let Some(owner) = pod.metadata.controller().filter(|_| is_tracked(pod)) else {
            return false;
        };
        let of_name = all.iter().find(|job| job.metadata.name == owner.name);
        let Some(job) = of_name else {
            return !frees_orphans;
        };
        let read = Read::from_object(job);
        let per_index = read.number("backoffLimitPerIndex").is_some();
        // The hardened controller releases the pods that such a Job has lost. A recreated Job has
        // not lost any.
        let is_freed = frees_orphans && owner.uid == job.metadata.uid;
        let is_lost = !(selects(job, pod) || is_freed);
        let goes = pod.metadata.is_deleting();
        is_lost && (goes || read.has_finished())
            || goes && pod.node_name.is_none()
            || is_terminating && per_index
    });
    pods
}

/// Reports whether a Job selects a pod.
pub(super) fn selects(job: &DynamicObject, pod: &Pod) -> bool {
    let uid = job.metadata.uid.to_string();
    let selecting = pod.metadata.labels.get(SELECTING);
    selecting.is_some_and(|text| **text == *uid)
}

/// Reports whether a Job can never make progress with upstream's controller. The server rejects the
/// Job's status, either permanently because an index has pods with both outcomes, or until a start
/// time that was written with a clock that was ahead.
fn is_hopeless(job: &Read<'_>, simulation: &Simulation) -> bool {
    let now_ns = simulation.harness.now().wall_ns;
    let (pods, _) = simulation.harness.cluster().list::<Pod>(Some(NAMESPACE));
    let uid = &job.job.metadata.uid;
    let own = || {
        let own = pods.iter().filter(|pod| owner_of(pod) == Some(uid));
        own.filter(|pod| is_tracked(pod) && pod.status.phase.is_terminal())
    };
    let with = |list: &str, has_succeeded_too: bool| {
        let of_phase = own().filter(|pod| has_succeeded(pod) == has_succeeded_too);
        let indexes = of_phase.map(|pod| index_of(pod));
        let all: BTreeSet<i64> = indexes.chain(job.indexes(list)).collect();
        all
    };
    let completed = with("completedIndexes", true);
    let overlaps = !completed.is_disjoint(&with("failedIndexes", false));
    let per_index = job.number("backoffLimitPerIndex").is_some();
    job.start_ns().is_some_and(|start_ns| start_ns > now_ns) || per_index && overlaps
}

/// Returns every Job of the namespace, in name order.
pub(super) fn jobs(cluster: &Cluster) -> Vec<Arc<DynamicObject>> {
    listed(cluster, Kind::JOB)
}

/// A user removes the tracking finalizer of a pod.
fn strip(simulation: &Simulation, pod: &Pod) {
    let others = pod.metadata.finalizers().iter().map(|name| &**name);
    let others: Vec<_> = others.filter(|it| *it != TRACKING_FINALIZER).collect();
    let stripped = json!({"metadata": {"finalizers": others}});
    simulation.patch_pod(&pod.metadata.name, stripped);
}

/// Ends the containers of pods with an exit code, also those of terminating pods. The pods end,
/// too, unless the containers are restarted.
fn end(simulation: &Simulation, job: &str, percent: u32, code: u32) {
    let mut pods = pods_of(simulation.harness.cluster(), Kind::JOB, job);
    pods.retain(|pod| !pod.status.phase.is_terminal());
    pods.truncate((pods.len() * percent as usize).div_ceil(100));
    let at = simulation.harness.now().wall().to_string();
    let terminated = json!({"exitCode": code, "finishedAt": at, "startedAt": at});
    let status = |pod: &Pod| {
        json!({
            "phase": if code == 0 { "Succeeded" } else { "Failed" },
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at}],
            "containerStatuses": [{"name": "app", "image": "app:1", "imageID": "", "ready": false,
                "restartCount": restarts_of(pod), "state": {"terminated": terminated}}],
        })
    };
    for pod in pods {
        let restarts = code != 0 && pod.spec.restart_policy == RestartPolicy::OnFailure;
        if restarts && pod.status.phase != PodPhase::Running {
            continue;
        }
        let status = match restarts && !pod.metadata.is_deleting() {
            true => {
                json!({"containerStatuses": [{"name": "app", "image": "app:1",
                "imageID": "", "ready": true, "restartCount": restarts_of(&pod) + 1,
                "state": {"running": {"startedAt": at}}, "lastState": {"terminated": terminated}}]})
            }
            false => status(&pod),
        };
        simulation.patch_pod_status(&pod.metadata.name, status);
    }
}

/// Creates a pod without an owner that the Job selects.
fn orphan(simulation: &Simulation, name: &str, tracked: bool) {
    let all = jobs(simulation.harness.cluster());
    let Some(job) = all.iter().find(|job| *job.metadata.name == *name) else {
        return;
    };
    let mut pod = crate::objects::pod("", name);
    let meta = &mut pod["metadata"];
    meta["name"] = Value::Null;
    meta["generateName"] = json!("bare-");
    let uid = job.metadata.uid.to_string();
    meta["labels"] = json!({SELECTING: uid, INDEX: "0"});
    meta["annotations"] = json!({INDEX: "0"});
    if tracked {
        meta["finalizers"] = json!([TRACKING_FINALIZER]);
    }
    pod["spec"]["restartPolicy"] = json!("Never");
    simulation.create_pod(pod);
}
