//! The end of a sync: computes the status, writes it, tries a second time if the first write fails,
//! and schedules the next availability check.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Now, ReplicaSet};
use podstorm_runtime::client::{Answer, ApiError, Request};

use super::Controller;
use super::Step;
use super::adapter::{as_replica_set, of_kind};
use super::owners::Owner;
use super::reconcile::{
    StatusCounts, availability_cutoff, compute_status, is_available, next_check_of_times,
    status_is_unchanged,
};
use super::sync::{ReplicaSetSync, SyncErrorClass, SyncStage};

impl Controller {
    pub(super) fn update_status(
        &self,
        owner: &Arc<Owner>,
        sync: &mut ReplicaSetSync,
        now: Now,
    ) -> Step {
        let object = &owner.object;
        let min_ready_seconds = object.spec.min_ready_seconds;
        let mut counts = sync.counts.status;
        counts.available = if min_ready_seconds == 0 {
            counts.ready
        } else {
            let waiting = sync.counts.ready_times.iter();
            let since = waiting
                .filter(|(time, _)| is_available(*time, min_ready_seconds, now.wall_ns))
                .map(|(_, pods)| pods);
            let available = sync.counts.available_at_cutoff + since.sum::<u32>();
            i32::try_from(available).expect("a ReplicaSet's pods fit 31 bits")
        };
        let terminating = (self.options.gates.terminating_replicas
            && self.options.kind == Kind::REPLICA_SET)
            .then_some(sync.counts.terminating);
        let status = if is_same_status(object, counts, terminating)
            && sync.manage_error.is_none()
            && object.status.conditions.is_empty()
        {
            None
        } else {
            let error = sync.manage_error.as_ref().map(|(_, error)| error.as_str());
            let status = compute_status(object, counts, terminating, error, now.wall());
            (!status_is_unchanged(object, &status)).then_some(status)
        };
        let Some(mut status) = status else {
            return self.status_written(owner, sync, object, now);
        };
        status.observed_generation = object.metadata.generation;
        let mut updated = ReplicaSet::clone(object);
        updated.status = status.clone();
        sync.new_status = Some(Box::new(status));
        sync.request(
            SyncStage::PuttingStatus,
            [Request::PutStatus {
                object: of_kind(self.options.kind, updated),
            }],
        )
    }

    pub(super) fn status_written(
        &self,
        owner: &Owner,
        sync: &mut ReplicaSetSync,
        updated: &ReplicaSet,
        now: Now,
    ) -> Step {
        if self.guard.rules.keeps_records {
            let uid = &owner.object.metadata.uid;
            self.guard.records.wrote_at(
                sync.key,
                uid,
                self.options.kind,
                &updated.metadata.resource_version,
            );
        }
        if let Some((class, message)) = sync.take_error() {
            return sync.fail(class, message);
        }
        let min_ready_seconds = updated.spec.min_ready_seconds;
        if min_ready_seconds > 0
            && updated.status.ready_replicas != updated.status.available_replicas
        {
            if owner.object.spec.min_ready_seconds != min_ready_seconds {
                let cutoff = availability_cutoff(min_ready_seconds, now.wall_ns);
                self.recount_available(owner, sync, cutoff);
            }
            let times = sync.counts.ready_times.iter().map(|(time, _)| *time);
            let delay =
                next_check_of_times(times, min_ready_seconds, now.wall_ns).unwrap_or(i64::MAX);
            let longest = i64::from(min_ready_seconds) * 1_000_000_000;
            let delay = self.hardened.availability_check(delay, longest);
            self.queue.add_after(sync.key, delay, now.mono_ns);
        }
        sync.finish()
    }

    /// Continues the status write after an answer.
    pub(super) fn status_answered(
        &self,
        owner: &Arc<Owner>,
        sync: &mut ReplicaSetSync,
        now: Now,
    ) -> Step {
        let stage = sync.stage;
        match (stage, sync.only_answer()) {
            (SyncStage::ReadingOwnerToRetry, Answer::Object(live)) => {
                self.retry_status(owner, replica_set_of(&live), sync, now)
            }
            (_, Answer::Object(updated)) => {
                self.status_written(owner, sync, &replica_set_of(&updated), now)
            }
            (SyncStage::PuttingStatus, answer) => {
                self.note_failure(&failure(answer), self.options.kind, sync);
                let request = Request::Get {
                    kind: self.options.kind,
                    namespace: owner.namespace.clone(),
                    name: owner.object.metadata.name.clone(),
                };
                sync.request(SyncStage::ReadingOwnerToRetry, [request])
            }
            (_, answer) => {
                let error = failure(answer);
                if stage == SyncStage::PuttingStatusAgain {
                    self.note_failure(&error, self.options.kind, sync);
                }
                sync.fail(SyncErrorClass::Status, error.message)
            }
        }
    }

    /// Writes the same status once more, onto the server's current object.
    fn retry_status(
        &self,
        owner: &Arc<Owner>,
        live: Arc<ReplicaSet>,
        sync: &mut ReplicaSetSync,
        now: Now,
    ) -> Step {
        if let Some(step) = self.keep_status(owner, &live, sync, now) {
            return step;
        }
        let status = *sync.new_status.take().expect("the status is being written");
        // Upstream checks neither the UID nor the generation.
        let mut object = ReplicaSet::clone(&live);
        object.status = status;
        sync.request(
            SyncStage::PuttingStatusAgain,
            [Request::PutStatus {
                object: of_kind(self.options.kind, object),
            }],
        )
    }
}

fn is_same_status(object: &ReplicaSet, counts: StatusCounts, terminating: Option<i32>) -> bool {
    let status = &object.status;
    status.replicas == counts.replicas
        && status.fully_labeled_replicas == counts.fully_labeled
        && status.ready_replicas == counts.ready
        && status.available_replicas == counts.available
        && status.terminating_replicas == terminating
        && status.observed_generation == object.metadata.generation
}

fn replica_set_of(answer: &AnyObject) -> Arc<ReplicaSet> {
    as_replica_set(answer).expect("the answer has the kind of the request")
}

fn failure(answer: Answer) -> ApiError {
    match answer {
        Answer::Failed(error) => error,
        other => panic!("expected a failure or the owner, not {other:?}"),
    }
}

#[cfg(test)]
mod tests;
