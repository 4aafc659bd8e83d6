//! The steps of a sync, in upstream's order, which clients can observe: the read-your-writes check,
//! the owner, the expectations, the claim, the scaling. The expectations are checked before any pod
//! is read, so the cache contains every event that they have counted. `status.rs` has the status.

use std::sync::Arc;

use podstorm_objects::{Kind, Now, ObjectMeta, OwnerReference};
use podstorm_runtime::claim::{Claim, ClaimStep};
use podstorm_runtime::client::{Answer, ApiError, EventIntent, Request};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::slow_start::SlowStart;

use super::Controller;
use super::Step;
use super::hardened::CreateFailure;
use super::owners::Owner;
use super::sync::{Outcome, ReplicaSetSync, SyncError, SyncErrorClass, SyncStage};

impl Controller {
    /// Begins the sync of a key from the queue. A [`Driver`](podstorm_runtime::driver::Driver)
    /// returns the key.
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

    /// Ends a step. Runs the end of a finished sync; stores the owner in a sync that waits for
    /// answers.
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
                let error = super::reconcile::NO_LABELS_ERROR.to_owned();
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

    /// Notes that a failed write of unknown outcome may have been committed.
    pub(super) fn note_failure(&self, error: &ApiError, kind: Kind, sync: &mut ReplicaSetSync) {
        if error.outcome_is_unknown() {
            sync.unknown.insert(kind);
        }
    }

    /// Records the version of a pod that this controller wrote, for the controller that the
    /// server's version of the pod names.
    pub(super) fn record_pod_write(&self, meta: &ObjectMeta) {
        if let Some(controller) = meta.controller() {
            let owner = self.owners.intern(&meta.namespace, &controller.name);
            let (uid, version) = (&controller.uid, &meta.resource_version);
            self.guard.records.wrote_at(owner, uid, Kind::POD, version);
        }
    }
}

/// Returns the answer to this request. All requests have one.
fn answer_of(answers: &[Option<Answer>], index: usize) -> &Answer {
    answers[index]
        .as_ref()
        .expect("every request has an answer")
}
