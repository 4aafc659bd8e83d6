//! The steps of a sync, in upstream's order, which clients can observe: the read-your-writes check,
//! the owner, the expectations, the claim, the scaling, the status. The expectations are checked
//! before any pod is read, so the cache contains every event that they have counted.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Now, ObjectMeta, OwnerReference, ReplicaSet};
use podstorm_runtime::claim::{Claim, ClaimStep};
use podstorm_runtime::client::{Answer, ApiError, EventIntent, Request};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::slow_start::SlowStart;

use super::adapter::{as_replica_set, of_kind};
use super::hardened::CreateFailure;
use super::owners::Owner;
use super::reconcile::{
    NO_LABELS_ERROR, StatusCounts, availability_cutoff, compute_status, is_available,
    next_check_of_times, status_is_unchanged,
};
use super::sync::{Outcome, ReplicaSetSync, SyncError, SyncErrorClass, SyncStage};
use super::{Controller, Step};

impl Controller {
    /// Begins the sync of a key that was taken from the queue. A
    /// [`Driver`](podstorm_runtime::driver::Driver) gives the key back.
    pub fn begin(&self, key: KeyId, sync: &mut ReplicaSetSync, now: Now) -> Step {
        sync.reset(key);
        let rules = &self.guard.rules;
        if rules.every_write {
            if let Some(step) = self.stop_at_fence(sync) {
                return step;
            }
        } else if rules.keeps_records {
            let versions = [self.pods().version().get(), self.owners.version().get()];
            if let Err(stale) = self.guard.check_records(&key, &versions) {
                return sync.postpone(&stale);
            }
        }
        self.begin_after_gate(sync, now)
    }

    /// Begins a sync after the read-your-writes check has passed.
    ///
    /// Always inlined: the hardened behaviour is a second caller, and without inlining every idle
    /// sync would pay for a call.
    #[inline(always)]
    pub(super) fn begin_after_gate(&self, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let key = sync.key;
        let Some(owner) = self.owners.get(key) else {
            if self.guard.rules.keeps_records {
                self.guard.records.clear(&key, None);
            }
            self.expectations.delete(key);
            return sync.finish();
        };
        let step = self.begin_with(&owner, sync, now);
        self.conclude_step(step, owner, sync, now)
    }

    /// Ends a step. If the sync has finished, runs its end; if it waits for answers, stores the
    /// owner in it.
    #[inline]
    fn conclude_step(
        &self,
        mut step: Step,
        owner: Arc<Owner>,
        sync: &mut ReplicaSetSync,
        now: Now,
    ) -> Step {
        if step == Step::Finished {
            step = self.before_end(sync, now);
        }
        if step == Step::Requests {
            sync.owner = Some(owner);
        }
        step
    }

    /// Always inlined, like `begin_after_gate`.
    #[inline(always)]
    fn begin_with(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        // Read before any pod, so the cache contains the events that the expectations have counted.
        let satisfied = self.expectations.satisfied(sync.key, now.mono_ns);
        let Ok(selector) = &owner.selector else {
            // A retry would not help. An update of the owner adds the key again.
            return sync.finish();
        };
        let meta = &owner.object.metadata;
        for (member, empty) in [
            ("namespace", meta.namespace.is_empty()),
            ("name", meta.name.is_empty()),
            ("uid", meta.uid.is_empty()),
        ] {
            if empty {
                let message = format!("no owner {member} provided");
                return sync.fail(SyncErrorClass::Identity, message);
            }
        }
        sync.may_scale = satisfied && !meta.is_deleting();
        self.before_count(owner, sync, now);
        let to_claim = self.count_pods(owner, selector, sync, now);
        if let Some(stopped) = self.after_count(sync) {
            return stopped;
        }
        if let Some(pods) = to_claim {
            let claim = Claim::new(
                &owner.object.metadata,
                owner.controller_ref.clone(),
                pods,
                |pod| selector.matches(&pod.metadata.labels),
            );
            sync.claim = Some(Box::new(claim));
            return self.continue_claim(owner, sync, now);
        }
        self.scale(owner, sync, now)
    }

    /// Continues a sync once every request of its batch has an answer.
    ///
    /// # Panics
    /// Panics if a request has no answer or the sync is over.
    pub fn resume(&self, sync: &mut ReplicaSetSync, now: Now) -> Step {
        if sync.stage == SyncStage::ReadingFence {
            return self.begin_after_fence(sync, now);
        }
        let owner = sync.owner.take();
        let owner = owner.expect("a finished sync can't be resumed");
        let step = self.resume_with(&owner, sync, now);
        self.conclude_step(step, owner, sync, now)
    }

    #[inline(never)]
    fn begin_after_fence(&self, sync: &mut ReplicaSetSync, now: Now) -> Step {
        match self.fence_read(sync) {
            Some(stopped) => stopped,
            None => self.begin_after_gate(sync, now),
        }
    }

    fn resume_with(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        match sync.stage {
            SyncStage::Finished | SyncStage::ReadingFence => {
                panic!("a finished sync can't be resumed")
            }
            SyncStage::ReadingLastFence => self.last_fence_read(&owner.controller_ref.uid, sync),
            SyncStage::ReadingOwnerToAdopt => {
                let answer = sync.only_answer();
                let claim = sync.claim.as_mut().expect("a claim is in progress");
                match &answer {
                    Answer::Object(live) => claim.owner_read(Ok(live.metadata())),
                    Answer::Failed(error) => claim.owner_read(Err(error)),
                    other => panic!("a read of the owner can't be answered by {other:?}"),
                }
                self.continue_claim(owner, sync, now)
            }
            SyncStage::Patching => {
                let answer = sync.only_answer();
                match &answer {
                    Answer::Pod(pod) => self.patched(owner, pod, sync.key, now),
                    Answer::Failed(error) => {
                        self.patch_refused(error, sync, now);
                        self.note_failure(error, Kind::POD, sync);
                    }
                    _ => {}
                }
                let claim = sync.claim.as_mut().expect("a claim is in progress");
                match &answer {
                    Answer::Failed(error) => claim.patched(Err(error)),
                    _ => claim.patched(Ok(())),
                }
                self.continue_claim(owner, sync, now)
            }
            SyncStage::Creating => self.created(owner, sync, now),
            SyncStage::Deleting => self.deleted(owner, sync, now),
            SyncStage::PuttingStatus
            | SyncStage::ReadingOwnerToRetry
            | SyncStage::PuttingStatusAgain => self.status_answered(owner, sync, now),
        }
    }

    /// Returns the maximum number of creates or deletes in one sync.
    pub(super) fn burst(&self) -> i64 {
        i64::try_from(self.options.burst_replicas).unwrap_or(i64::MAX)
    }

    fn continue_claim(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let claim = sync.claim.as_mut().expect("a claim is in progress");
        match claim.step() {
            ClaimStep::ReadOwner => {
                let request = Request::Get {
                    kind: self.options.kind,
                    namespace: owner.namespace.clone(),
                    name: owner.object.metadata.name.clone(),
                };
                sync.request(SyncStage::ReadingOwnerToAdopt, [request])
            }
            ClaimStep::Patch(pod, patch) => {
                let request = Request::PatchOwners {
                    kind: Kind::POD,
                    namespace: pod.metadata.namespace.clone(),
                    name: pod.metadata.name.clone(),
                    patch,
                };
                sync.request(SyncStage::Patching, [request])
            }
            ClaimStep::Finished => {
                let claim = sync.claim.take().expect("a claim is in progress");
                if let Some(message) = claim.error() {
                    let details = claim.errors().to_vec();
                    let class = SyncErrorClass::Claim;
                    sync.outcome = Outcome::Failed(SyncError {
                        class,
                        message,
                        details,
                    });
                    return sync.finish();
                }
                self.count_claimed(owner, claim.claimed(), sync, now);
                self.scale(owner, sync, now)
            }
        }
    }

    /// Creates missing pods or deletes surplus pods if this sync may.
    fn scale(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let missing = i64::from(owner.object.replicas()) - i64::from(sync.counts.status.replicas);
        if !sync.may_scale || missing == 0 {
            return self.update_status(owner, sync, now);
        }
        if missing > 0 {
            let wanted = self.creatable(missing, sync, now).min(self.burst());
            if wanted == 0 {
                return self.update_status(owner, sync, now);
            }
            self.expectations
                .expect_creations(sync.key, wanted, now.mono_ns);
            sync.creates_wanted = usize::try_from(wanted).expect("positive here");
            sync.slow_start = SlowStart::new(sync.creates_wanted, 1);
            if owner.object.spec.template.metadata.labels.is_empty() {
                // Refused locally: no call and no Event.
                let error = NO_LABELS_ERROR.to_owned();
                return self.finish_creates(owner, sync, Some(error), now);
            }
            return self.create_batch(owner, sync, now);
        }
        let names = sync.to_delete.names().iter().cloned();
        self.expectations
            .expect_deletions(sync.key, names, now.mono_ns);
        let ReplicaSetSync {
            requests,
            to_delete,
            ..
        } = sync;
        requests.clear();
        requests.extend(to_delete.names().iter().map(|name| Request::DeletePod {
            namespace: owner.namespace.clone(),
            name: name.clone(),
            uid: None,
        }));
        for (request, chosen_uid) in requests.iter_mut().zip(to_delete.uids()) {
            if let Request::DeletePod { uid, .. } = request {
                *uid = Some(chosen_uid.clone());
            }
        }
        sync.await_answers(SyncStage::Deleting)
    }

    fn create_batch(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        if self.must_end_burst(owner) {
            let missing = sync.creates_wanted - sync.slow_start.successes();
            let missing = i64::try_from(missing).expect("bursts are bounded");
            self.expectations.creations_observed(sync.key, missing);
            return sync.finish();
        }
        match sync.slow_start.next_batch() {
            None => self.finish_creates(owner, sync, None, now),
            Some(size) if self.hardened.names_pods() => self.request_named_pods(owner, sync, size),
            Some(size) => {
                let (namespace, pod) = (&owner.namespace, owner.pod_from_template());
                sync.request_again(SyncStage::Creating, size, || Request::CreatePod {
                    namespace: namespace.clone(),
                    pod: pod.clone(),
                    name: None,
                })
            }
        }
    }

    /// Not inlined: a separate function keeps its loop in registers.
    #[inline(never)]
    fn created(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let regarding = owner.reference(self.options.kind);
        sync.require_answers();
        self.record_creations(owner, sync);
        let mut first_error: Option<String> = None;
        let ReplicaSetSync {
            key,
            requests,
            answers,
            answered,
            slow_start,
            events,
            unknown,
            silent_error,
            ..
        } = sync;
        let by_name = self.hardened.names_pods();
        for index in answered {
            let answer = answer_of(answers, *index);
            if by_name {
                self.note_outcome(owner, *key, &requests[*index], answer, now);
            }
            match answer {
                Answer::Pod(pod) => {
                    slow_start.on_result(true);
                    events.push(EventIntent::created_pod(regarding, &pod.metadata.name));
                }
                Answer::Failed(error) => {
                    let failure = self.hardened.create_failure(error);
                    slow_start.on_result(failure == CreateFailure::CountsAsCreated);
                    match failure {
                        CreateFailure::CountsAsCreated => continue,
                        CreateFailure::Silent | CreateFailure::NameTaken => {
                            let silent = || (SyncErrorClass::Create, error.message.clone());
                            silent_error.get_or_insert_with(silent);
                        }
                        CreateFailure::Reported => {
                            events.push(EventIntent::failed_create(regarding, error));
                            first_error.get_or_insert_with(|| error.message.clone());
                        }
                    }
                    if failure == CreateFailure::NameTaken || error.outcome_is_unknown() {
                        unknown.insert(Kind::POD);
                    }
                }
                other => panic!("a create can't be answered by {other:?}"),
            }
        }
        if first_error.is_some() || sync.silent_error.is_some() {
            return self.finish_creates(owner, sync, first_error, now);
        }
        self.create_batch(owner, sync, now)
    }

    /// Records the newest version of the created pods. Skips pods that came back with a controller
    /// reference other than the one they were sent with.
    fn record_creations(&self, owner: &Owner, sync: &ReplicaSetSync) {
        if !self.guard.rules.keeps_records {
            return;
        }
        let (namespace, uid) = (&owner.object.metadata.namespace, &owner.controller_ref.uid);
        let is_owner = |reference: &Arc<OwnerReference>| *reference == owner.controller_ref;
        // With every write recorded, the fact that this sync wrote the pod is enough.
        let every = self.guard.rules.every_write;
        let records = &self.guard.records;
        let mut newest = 0;
        for index in &sync.answered {
            let Answer::Pod(pod) = answer_of(&sync.answers, *index) else {
                continue;
            };
            let (meta, version) = (&pod.metadata, &pod.metadata.resource_version);
            let is_ours =
                || meta.namespace == *namespace && meta.controller().is_some_and(is_owner);
            if !every && !is_ours() {
                self.record_pod_write(meta);
            } else if let Some(number) = version.number() {
                newest = newest.max(number);
            } else {
                records.wrote_at(sync.key, uid, Kind::POD, version);
            }
        }
        if newest > 0 {
            records.wrote_at(sync.key, uid, Kind::POD, &newest.into());
        }
    }

    fn finish_creates(
        &self,
        owner: &Arc<Owner>,
        sync: &mut ReplicaSetSync,
        error: Option<String>,
        now: Now,
    ) -> Step {
        let lost = sync.creates_wanted - sync.slow_start.successes();
        if lost > 0 {
            // Creates that failed or were skipped will never be observed.
            let lost = i64::try_from(lost).expect("bursts are bounded");
            self.expectations.creations_observed(sync.key, lost);
        }
        sync.manage_error = error.map(|error| (SyncErrorClass::Create, error));
        self.update_status(owner, sync, now)
    }

    /// Not inlined: a separate function keeps its loop in registers.
    #[inline(never)]
    fn deleted(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let regarding = owner.reference(self.options.kind);
        sync.require_answers();
        let mut first_error: Option<String> = None;
        let ReplicaSetSync {
            key,
            answers,
            answered,
            to_delete,
            events,
            unknown,
            silent_error,
            ..
        } = sync;
        for index in answered {
            let name = &to_delete.names()[*index];
            match answer_of(answers, *index) {
                Answer::Failed(error) if self.hardened.is_gone(error) => {
                    self.expectations.deletion_observed(*key, name);
                    unknown.insert(Kind::POD);
                    let silent = || (SyncErrorClass::Delete, error.message.clone());
                    silent_error.get_or_insert_with(silent);
                }
                Answer::Failed(error) => {
                    self.expectations.deletion_observed(*key, name);
                    if error.outcome_is_unknown() {
                        unknown.insert(Kind::POD);
                    }
                    if !error.is_not_found() {
                        events.push(EventIntent::failed_delete(regarding, error));
                        let message = || format!("unable to delete pods: {}", error.message);
                        first_error.get_or_insert_with(message);
                    }
                }
                _ => events.push(EventIntent::deleted_pod(regarding, name)),
            }
        }
        self.deletes_answered(owner, sync);
        sync.manage_error = first_error.map(|error| (SyncErrorClass::Delete, error));
        self.update_status(owner, sync, now)
    }

    /// Computes the status and writes it if it has changed.
    fn update_status(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
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

    /// Ends a sync whose status needs no more writes, and schedules the next check of availability.
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
    fn status_answered(&self, owner: &Arc<Owner>, sync: &mut ReplicaSetSync, now: Now) -> Step {
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
    /// Notes that a failed write of unknown outcome may have been committed.
    pub(super) fn note_failure(&self, error: &ApiError, kind: Kind, sync: &mut ReplicaSetSync) {
        if error.outcome_is_unknown() {
            sync.unknown.insert(kind);
        }
    }

    /// Records the version of a pod that this controller wrote, under the key of the controller
    /// that the returned pod names.
    pub(super) fn record_pod_write(&self, meta: &ObjectMeta) {
        if let Some(controller) = meta.controller() {
            let owner = self.owners.intern(&meta.namespace, &controller.name);
            let (uid, version) = (&controller.uid, &meta.resource_version);
            self.guard.records.wrote_at(owner, uid, Kind::POD, version);
        }
    }
}

/// Returns the answer to the request with this index. All requests must have one.
fn answer_of(answers: &[Option<Answer>], index: usize) -> &Answer {
    answers[index]
        .as_ref()
        .expect("every request has an answer")
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
mod tests {
    use podstorm_objects::Uid;
    use podstorm_runtime::client::{ApiError, Reason};
    use podstorm_runtime::driver::Progress;

    use super::super::harness::{Fault, Harness, LOST};
    use super::Outcome;
    use crate::policy::Behaviour::{Hardened, Upstream};

    /// Runs a sync whose object changes just before the sync writes its status.
    fn overtaken(
        harness: &mut Harness,
        change: impl FnOnce(&mut podstorm_objects::ReplicaSet),
    ) -> Outcome {
        assert_eq!(harness.begin(), Progress::Waiting);
        let next = harness.answer_and_resume();
        assert_eq!(
            next,
            Progress::Waiting,
            "the sync writes the status after the pod"
        );
        harness.server.change_owner(change);
        harness.answer();
        harness.resume_to_end();
        harness.driver.sync.outcome().clone()
    }

    #[test]
    fn a_status_is_not_written_onto_a_successor() {
        for behaviour in [Upstream, Hardened] {
            let mut harness = Harness::new(behaviour, 1);
            let outcome = overtaken(&mut harness, |owner| {
                owner.metadata.uid = Uid::from_u128(0xb);
                owner.status.replicas = 77;
            });
            // Upstream writes the status onto the new object: no pods, and its generation observed.
            assert_eq!(outcome == Outcome::Ok, behaviour == Upstream);
            let theirs = harness.server.owner.status.replicas == 77;
            assert_eq!(theirs, behaviour == Hardened);
            harness.deliver();
            harness.sync();
            harness.deliver();
            assert_eq!(harness.sync(), Outcome::Ok);
        }
    }

    #[test]
    fn a_status_is_not_written_onto_another_generation() {
        for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
            let mut harness = Harness::new(behaviour, 1);
            overtaken(&mut harness, |owner| owner.metadata.generation += 1);
            assert_eq!(harness.server.calls("put"), puts, "{behaviour:?}");
        }
    }

    #[test]
    fn an_unrelated_conflict_is_retried_with_the_same_status() {
        let mut harness = Harness::new(Hardened, 1);
        let before = harness.server.calls("put");
        let outcome = overtaken(&mut harness, |owner| {
            owner.metadata.labels = podstorm_objects::Labels::from_pairs([("a", "b")]);
        });
        assert_eq!(outcome, Outcome::Ok);
        assert_eq!(harness.server.calls("put") - before, 2);
    }

    #[test]
    fn a_status_with_a_lost_answer_is_not_written_again() {
        for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
            let mut harness = Harness::new(behaviour, 1);
            harness.server.fault("put", 0, LOST);
            assert_eq!(harness.sync(), Outcome::Ok);
            assert_eq!(harness.server.calls("put"), puts, "{behaviour:?}");
            assert_eq!(harness.server.calls("read"), 0);
        }
    }

    #[test]
    fn an_unreadable_object_fails_the_sync() {
        let mut harness = Harness::new(Hardened, 1);
        let refuse = |code, reason| Fault::Refuse(ApiError::status(code, reason, "no"));
        harness
            .server
            .fault("put", 0, refuse(409, Reason::Conflict));
        harness
            .server
            .fault("get", 0, refuse(404, Reason::NotFound));
        assert_ne!(harness.sync(), Outcome::Ok);
        assert_eq!(harness.server.calls("read"), 0);
    }
}
