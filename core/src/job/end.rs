//! The conditions that finish a Job.
//!
//! Source: `syncJob` in Kubernetes' `pkg/controller/job`.

use std::cell::LazyCell;

use podstorm_objects::PodPhase;

use super::indexes::Indexes;
use super::pod::restarts;
use super::policies::FailureAction;
use super::status::Reason;
use super::sync::JobSync;

/// The condition that finishes a Job, with its reason.
#[derive(Clone, Debug)]
pub(super) struct Hit {
    pub(super) kind: HitKind,
    pub(super) reason: Reason,
}

/// The interim condition of a Job that is about to finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HitKind {
    /// The Job becomes `Complete`.
    SuccessCriteriaMet,
    /// The Job becomes `Failed`.
    FailureTarget,
    /// The Job becomes `Failed` and already has the condition `FailureTarget`.
    Failed,
}

impl Hit {
    pub(super) fn new(kind: HitKind, reason: &str, message: &str) -> Hit {
        Hit {
            kind,
            reason: Reason {
                reason: reason.to_owned(),
                message: message.to_owned(),
            },
        }
    }
}

fn failure(reason: &str, message: &str) -> Option<Hit> {
    Some(Hit::new(HitKind::FailureTarget, reason, message))
}

impl JobSync<'_> {
    /// Returns the condition that finishes the Job, without regard to its indexes; `None` if there
    /// is none.
    pub(super) fn evaluate(&self) -> Option<Hit> {
        let conditions = &self.status.conditions;
        if let Some(reason) = conditions.met("SuccessCriteriaMet") {
            let kind = HitKind::SuccessCriteriaMet;
            return Some(Hit { kind, reason });
        }
        if let Some(reason) = conditions.met("FailureTarget") {
            let kind = HitKind::Failed;
            return Some(Hit { kind, reason });
        }
        let spec = &self.job.spec;
        if let Some(policy) = &spec.failure_policy
            && let mut pods = self.pods.iter()
            && let Some(pod) = pods.find(|pod| pod.met == Some(FailureAction::FailJob))
            && let Some(met) = policy.met(&pod.pod)
        {
            return failure("PodFailurePolicy", &met.message);
        }
        if self.failed > spec.backoff_limit || self.restarted_too_often() {
            let message = "Job has reached the specified backoff limit";
            return failure("BackoffLimitExceeded", message);
        }
        if !spec.is_suspended {
            let now = self.calls.now();
            let left = self.job.deadline_left_ns(self.start_ns, now);
            match left {
                Some(left_ns) if left_ns <= 0 => {
                    let message = "Job was active longer than specified deadline";
                    return failure("DeadlineExceeded", message);
                }
                Some(left_ns) => self.add_after(left_ns),
                None => {}
            }
        }
        None
    }

    /// Finds the succeeded and failed indexes and evaluates the conditions that depend on them.
    pub(super) fn evaluate_indexes(&mut self) {
        let spec = self.job.spec.clone();
        let completions = spec.indexes();
        let done = self.pods.iter().filter(|pod| {
            pod.is_tracked && pod.phase == PodPhase::Succeeded && spec.has_index(pod.index)
        });
        let mut done = Indexes::of_unordered(done.map(|pod| pod.index));
        let stored = Indexes::parse(&self.status.completed_indexes, completions);
        let has_limits = spec.backoff_limit_per_index.is_some();
        let stored_failed = match has_limits {
            true => self.stored_failed_indexes(),
            false => Indexes::default(),
        };
        let keeps_first = has_limits && self.shared.options.keep_first_outcome;
        if keeps_first {
            done = done.without(&stored_failed);
        }
        let succeeded = stored.union(&done);
        self.succeeded = succeeded.count();
        self.indexes.stored = stored;
        if has_limits {
            self.indexes.stored_failed = stored_failed.count();
            let mut failed = self.newly_failed_indexes();
            if keeps_first {
                failed = failed.without(&succeeded);
            }
            let failed = stored_failed.union(&failed);
            if self.hit.is_none() {
                let (failures, successes) = (failed.count(), succeeded.count());
                if spec.max_failed_indexes.is_some_and(|most| failures > most) {
                    let message = "Job has exceeded the specified maximal number of failed indexes";
                    self.hit = failure("MaxFailedIndexesExceeded", message);
                } else if failures > 0 && failures + successes >= completions {
                    self.hit = failure("FailedIndexes", "Job has failed indexes");
                }
            }
            self.delay_pods(&succeeded, &failed);
            self.indexes.failed = Some(failed);
        }
        if self.hit.is_none()
            && let Some(policy) = &spec.success_policy
            && let Some(message) = policy.met(&succeeded, completions)
        {
            let kind = HitKind::SuccessCriteriaMet;
            self.hit = Some(Hit::new(kind, "SuccessPolicy", &message));
        }
        self.indexes.succeeded = succeeded;
    }

    fn stored_failed_indexes(&self) -> Indexes {
        let stored = self.status.failed_indexes.as_deref().unwrap_or_default();
        Indexes::parse(stored, self.job.spec.indexes())
    }

    /// Returns the indexes that fail for good because of a pod that is not counted yet.
    fn newly_failed_indexes(&self) -> Indexes {
        let spec = &self.job.spec;
        let limit = spec.backoff_limit_per_index.unwrap_or(i64::MAX);
        let failed = self.pods.iter().filter(|pod| {
            pod.is_tracked
                && spec.has_index(pod.index)
                && pod.is_failed(spec.only_replace_failed)
                && match pod.met {
                    Some(FailureAction::FailIndex) => true,
                    Some(FailureAction::Ignore) => false,
                    _ => pod.failures().0 >= limit,
                }
        });
        Indexes::of_unordered(failed.map(|pod| pod.index))
    }

    /// Chooses the failed pods that keep their finalizers. The replacements of these pods get the
    /// number of failures from them.
    fn delay_pods(&mut self, succeeded: &Indexes, failed: &Indexes) {
        let spec = &self.job.spec;
        let active = self.pods.iter();
        let active = active.filter(|pod| pod.is_active() && spec.has_index(pod.index));
        let active = LazyCell::new(|| Indexes::of_unordered(active.map(|pod| pod.index)));
        for pod in &self.pods {
            // The common case: the pod has not failed.
            if !pod.is_failed(spec.only_replace_failed) || !self.counts(pod) {
                continue;
            }
            let index = pod.index;
            if succeeded.has(index) || failed.has(index) || active.has(index) {
                continue;
            }
            let kept = self.indexes.delayed.entry(index);
            let kept = kept.or_insert_with(|| pod.clone());
            if pod.is_later_than(kept) {
                *kept = pod.clone();
            }
        }
    }

    /// Reports whether the containers of pods with `restartPolicy: OnFailure` have restarted too
    /// often.
    fn restarted_too_often(&self) -> bool {
        let spec = &self.job.spec;
        if !spec.restarts_in_place {
            return false;
        }
        let alive = self
            .pods
            .iter()
            .filter(|pod| matches!(pod.phase, PodPhase::Running | PodPhase::Pending));
        let count: i64 = alive.map(|pod| restarts(&pod.pod)).sum();
        match spec.backoff_limit {
            0 => count > 0,
            limit => count >= limit,
        }
    }
}
