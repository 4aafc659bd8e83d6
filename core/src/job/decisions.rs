//! The decisions of a Job's next sync about given pods, with the rules behind these decisions, for
//! explanations. They come from the code that the controller's syncs run. Sends no request to the
//! server.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Now, Pod, PodPhase, Time};
use podstorm_runtime::cache::PodFields as _;
use podstorm_runtime::claim::{ClaimDecision, claim_decision};
use podstorm_runtime::driver::Calls;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::store::Cached as _;

use super::backoff::{Failures, finish_ns, finish_time};
use super::cache::{CachedJob, CompletionMode};
use super::end::HitKind;
use super::manage::Plan;
use super::pod::{JobPod, PodFacts, terminations};
use super::policies::{FailureAction, MetRule};
use super::sync::JobSync;
use super::{Controller, ControllerOptions, Remembered};

pub use super::manage::RemovalRule;

/// The decisions of a Job's next sync, with the values on which they are based.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// `spec.completions`.
    pub completions: Option<i64>,
    /// `spec.parallelism` or its default.
    pub parallelism: i64,
    /// Whether each pod has an index.
    pub is_indexed: bool,
    /// `spec.backoffLimit` or its default.
    pub backoff_limit: i64,
    /// `spec.backoffLimitPerIndex`.
    pub backoff_limit_per_index: Option<i64>,
    /// The number of active pods.
    pub active: i64,
    /// The number of active pods that are ready.
    pub ready: i64,
    /// The number of terminating pods.
    pub terminating: i64,
    /// The number of pods that have succeeded; for an indexed Job, the number of indexes.
    pub succeeded: i64,
    /// The number of failed pods that count.
    pub failed: i64,
    /// The failed indexes in the format of the status; `None` without a back-off limit per index.
    pub failed_indexes: Option<String>,
    /// When the Job started; `None` if it has not started.
    pub start: Option<Time>,
    /// The time in ns until the deadline, not positive after it; `None` without a deadline.
    pub deadline_left_ns: Option<i64>,
    /// The reason for which the controller ignores the Job; `None` if it doesn't.
    pub skipped: Option<Skipped>,
    /// How the Job ends, if it has finished or finishes now.
    pub end: Option<End>,
    /// The change to the pods. Meaningless if the Job is skipped or has an end.
    pub step: PlannedChange,
    /// The failed pods, in the order of the input.
    pub failures: Vec<FailedPod>,
    /// The replacements of failed pods that have a back-off delay, earliest first.
    pub retries: Vec<Retry>,
}

/// The reason for which the controller ignores a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Another controller manages the Job.
    Foreign,
    /// The Job is complete or has failed.
    Finished,
    /// The completion mode is unknown.
    UnknownMode,
}

/// How a Job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Whether the Job completes. Otherwise it fails.
    pub is_success: bool,
    /// Whether the stored status already shows the end.
    pub is_told: bool,
    /// The reason of the condition.
    pub reason: String,
    /// The message of the condition.
    pub message: String,
    /// The name of the pod that matches the rule of the failure policy, if one does.
    pub pod: Option<String>,
}

/// The change that a sync makes to the pods.
#[derive(Clone, Debug)]
pub enum PlannedChange {
    /// Delete these pods, in this order.
    Delete(Vec<(Arc<Pod>, RemovalRule)>),
    /// Create pods.
    Create {
        /// The number of pods.
        count: usize,
        /// The indexes of the pods; empty if the Job is not indexed.
        indexes: Vec<i64>,
    },
    /// Create no pod until the delay of the Job, or of one of these indexes, is over.
    Wait {
        /// The remaining delay in ns.
        left_ns: i64,
        /// The first indexes without a pod, as many as the parallelism allows. Later indexes are
        /// not considered. Empty if the whole Job waits.
        indexes: Vec<i64>,
    },
    /// Leave the pods unchanged.
    Nothing,
}

/// A failed pod and what the sync knows about its failure.
#[derive(Clone, Debug)]
pub struct FailedPod {
    /// The failed pod.
    pub pod: Arc<Pod>,
    /// The pod's completion index; -1 if unknown.
    pub index: i64,
    /// The first nonzero exit code among the pod's containers; `None` if there is none.
    pub exit_code: Option<i64>,
    /// When the pod ended.
    pub finished: Time,
    /// The rule of the failure policy that the pod matches; `None` if it matches none.
    pub rule: Option<MetRule>,
    /// Whether the status has counted the pod, so that its tracking finalizer has been removed.
    pub is_counted: bool,
}

/// A replacement of failed pods after a back-off delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The completion index; `None` if the whole Job waits.
    pub index: Option<i64>,
    /// The name of the pod whose failure started the delay, if it is known.
    pub pod: Option<String>,
    /// The number of failures of the index or, if the whole Job waits, since the last success.
    pub failures: u32,
    /// The remaining delay in ns; 0 if the delay is over.
    pub left_ns: i64,
}

/// Returns the decisions of the next sync of a Job with these pods, if the caches are as new as the
/// server. Skips pods of other owners. Assumes the failure record of a controller that has run
/// since these pods were created. O(pods · log pods).
pub fn decide(job: &Arc<DynamicObject>, pods: &[Arc<Pod>], now: Now) -> Decisions {
    let controller = Controller::new(
        ControllerOptions::default(),
        &mut Informers::new(Arc::default()),
    );
    let meta = &job.metadata;
    let key = controller.key(&meta.namespace, &meta.name);
    let job = Arc::new(CachedJob::derive(Arc::clone(job), key, None, &()));
    let calls = Calls::at(now);
    let remembered = Remembered::default();
    let mut sync = JobSync::new(&controller.0, &calls, key, job, remembered);
    sync.pods = claimed(&sync.job, pods);
    sync.failures = record(&sync);
    sync.judge(now);
    let skipped = skipped(&sync.job);
    let end = sync.end_of();
    let step = match &end {
        Some(_) => Plan::Nothing,
        None => sync.plan(),
    };
    let step = match step {
        Plan::Delete(removed) => {
            let removed = removed.into_iter();
            let pod = |place: usize| Arc::clone(&sync.pods[place].pod);
            PlannedChange::Delete(removed.map(|(place, rule)| (pod(place), rule)).collect())
        }
        Plan::Create { count, indexes } => PlannedChange::Create { count, indexes },
        Plan::Wait { left_ns, indexes } => PlannedChange::Wait { left_ns, indexes },
        Plan::Nothing => PlannedChange::Nothing,
    };
    let spec = &sync.job.spec;
    Decisions {
        completions: spec.completions,
        parallelism: spec.parallelism,
        is_indexed: spec.is_indexed(),
        backoff_limit: spec.backoff_limit,
        backoff_limit_per_index: spec.backoff_limit_per_index,
        active: sync.active,
        ready: sync.ready,
        terminating: sync.terminating,
        succeeded: sync.succeeded,
        failed: sync.failed,
        failed_indexes: sync.indexes.failed.as_ref().map(ToString::to_string),
        start: sync.job.status.start_time,
        deadline_left_ns: sync.job.deadline_left_ns(sync.start_ns, now),
        skipped,
        end,
        step,
        failures: sync.failed_pods(),
        retries: sync.retries(now),
    }
}

/// Returns the pods that the Job owns or would adopt.
fn claimed(job: &CachedJob, pods: &[Arc<Pod>]) -> Vec<JobPod> {
    let Ok(selector) = &job.selector else {
        return Vec::new();
    };
    let claimed = pods.iter().filter_map(|pod| {
        let meta = &pod.metadata;
        let decision = claim_decision(&job.object.metadata, meta, selector.matches(&meta.labels));
        let adopts = match decision {
            ClaimDecision::Keep => false,
            ClaimDecision::Adopt => true,
            ClaimDecision::Ignore | ClaimDecision::Release => return None,
        };
        let mut pod = JobPod::new(Arc::clone(pod), &PodFacts::from_pod(pod, 0));
        pod.is_tracked |= adopts;
        Some(pod)
    });
    claimed.collect()
}

/// Returns the failure record that the already counted pods have left.
fn record(sync: &JobSync<'_>) -> Failures {
    let counted = || sync.pods.iter().filter(|pod| !pod.is_tracked);
    let ended = |phase: PodPhase| -> Vec<i64> {
        let ended = counted().filter(|pod| pod.phase == phase);
        ended.map(|pod| finish_ns(&pod.pod)).collect()
    };
    Failures::default().with(&ended(PodPhase::Failed), ended(PodPhase::Succeeded))
}

fn skipped(job: &CachedJob) -> Option<Skipped> {
    if job.spec.is_foreign {
        return Some(Skipped::Foreign);
    }
    if job.is_finished() {
        return Some(Skipped::Finished);
    }
    (job.spec.mode == Some(CompletionMode::Unknown)).then_some(Skipped::UnknownMode)
}

impl JobSync<'_> {
    /// Returns how the Job ends; `None` if it neither has finished nor finishes now.
    fn end_of(&self) -> Option<End> {
        let hit = self.hit.clone().or_else(|| self.completion())?;
        let conditions = &self.job.status.conditions;
        let is_success = hit.kind == HitKind::SuccessCriteriaMet;
        let interim = if is_success {
            "SuccessCriteriaMet"
        } else {
            "FailureTarget"
        };
        let is_policy = hit.reason.reason == "PodFailurePolicy";
        let mut pods = self.pods.iter().filter(|_| is_policy);
        let culprit = pods.find(|pod| pod.met == Some(FailureAction::FailJob));
        Some(End {
            is_success,
            is_told: conditions.end().is_some() || conditions.met(interim).is_some(),
            reason: hit.reason.reason,
            message: hit.reason.message,
            pod: culprit.map(|pod| pod.pod.metadata.name.to_string()),
        })
    }

    fn failed_pods(&self) -> Vec<FailedPod> {
        let only_replace_failed = self.job.spec.only_replace_failed;
        let policy = self.job.spec.failure_policy.as_ref();
        let failed = self.pods.iter();
        let failed = failed.filter(|pod| pod.is_failed(only_replace_failed));
        let failed = failed.map(|pod| {
            let containers = pod.pod.status.container_statuses.iter();
            let mut codes = containers.filter_map(|it| terminations(it).exit_code);
            FailedPod {
                pod: Arc::clone(&pod.pod),
                index: pod.index,
                exit_code: codes.find(|code| *code != 0),
                finished: finish_time(&pod.pod),
                rule: policy.and_then(|policy| policy.met(&pod.pod)),
                is_counted: !pod.is_tracked,
            }
        });
        failed.collect()
    }

    fn retries(&self, now: Now) -> Vec<Retry> {
        if self.hit.is_some() {
            return Vec::new();
        }
        if self.job.spec.backoff_limit_per_index.is_none() {
            let Failures { count, last_ns } = self.failures;
            let is_last = |pod: &&JobPod| {
                pod.phase == PodPhase::Failed && Some(finish_ns(&pod.pod)) == last_ns
            };
            let last = self.pods.iter().find(is_last);
            let retry = Retry {
                index: None,
                pod: last.map(|pod| pod.pod.metadata.name.to_string()),
                failures: count,
                left_ns: self.failures.remaining_ns(now.wall_ns),
            };
            return (count > 0).then_some(retry).into_iter().collect();
        }
        let retries = self.indexes.delayed.iter().map(|(index, pod)| {
            let (counted, ignored) = pod.failures();
            Retry {
                index: Some(*index),
                pod: Some(pod.pod.metadata.name.to_string()),
                failures: u32::try_from(counted + ignored + 1).unwrap_or(u32::MAX),
                left_ns: self.left_ns(*index, now.wall_ns),
            }
        });
        let mut retries: Vec<Retry> = retries.collect();
        retries.sort_by_key(|retry| retry.left_ns);
        retries
    }
}
