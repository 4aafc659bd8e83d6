//! The steps of a sync. Their order is upstream's and is observable: the read-your-writes gate, the
//! parent, the expectations (before any pod is read, so that what they counted is in the cache),
//! claim, scale; `status.rs` has the rest.

use std::sync::Arc;

use podstorm_objects::{Kind, Now, ObjectMeta, OwnerReference};
use podstorm_runtime::claim::{Claim, ClaimStep};
use podstorm_runtime::client::{Answer, ApiError, EventIntent, Request};
use podstorm_runtime::consistency::Stale;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::slow_start::SlowStart;

use super::Controller;
use super::Step;
use super::hardened::CreateFailure;
use super::parents::Parent;
use super::sync::{Outcome, State, Sync, SyncError, SyncErrorClass};

impl Controller {
    /// Begins the sync of a key taken from the queue. End it with [`Controller::finish`].
    pub fn begin(&self, key: KeyId, sync: &mut Sync, now: Now) -> Step {
        sync.reset(key);
        if self.hardened.records_every_write() {
            if let Some(step) = self.stop_at_fence(sync) {
                return step;
            }
        } else if self.keeps_records {
            let stores = [self.pods().version().get(), self.parents.version().get()];
            if let Err(stale) = self.consistency.ensure_ready(&key, &stores) {
                return self.put_off(&stale, sync);
            }
        }
        self.begin_behind_gate(sync, now)
    }

    /// The caches lack what they must have.
    #[cold]
    pub(super) fn put_off(&self, stale: &Stale, sync: &mut Sync) -> Step {
        let skips = if stale.kind == Kind::POD {
            &self.metrics.stale_sync_skips_pods
        } else {
            &self.metrics.stale_sync_skips_replicasets
        };
        skips.increment();
        sync.fail(SyncErrorClass::Consistency(stale.kind), stale.to_string())
    }

    /// The caches are as new as they must be.
    ///
    /// Inlined by force: the other caller, the hardened behaviour's, costs every idle sync a call.
    #[inline(always)]
    pub(super) fn begin_behind_gate(&self, sync: &mut Sync, now: Now) -> Step {
        let key = sync.key;
        let Some(parent) = self.parents.get(key) else {
            if self.keeps_records {
                self.consistency.clear(&key, None);
            }
            self.expectations.delete(key);
            return sync.finish();
        };
        let step = self.begin_of(&parent, sync, now);
        self.hand_over(step, parent, sync, now)
    }

    /// What the sync asks for next, if it isn't over; keeps the parent until it is resumed.
    #[inline]
    fn hand_over(&self, mut step: Step, parent: Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        if step == Step::Finished {
            step = self.before_end(sync, now);
        }
        if step == Step::Requests {
            sync.parent = Some(parent);
        }
        step
    }

    /// Inlined by force, as the above.
    #[inline(always)]
    fn begin_of(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        // Before any pod is read: what the expectations have counted is then in the cache.
        let satisfied = self.expectations.satisfied(sync.key, now.mono_ns);
        let Ok(selector) = &parent.selector else {
            // Nothing that a retry would mend; an update of the parent brings the key back.
            return sync.finish();
        };
        let meta = &parent.object.metadata;
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
        self.before_count(parent, sync, now);
        let to_claim = self.take_census(parent, selector, sync, now);
        if let Some(stopped) = self.after_count(sync) {
            return stopped;
        }
        if let Some(pods) = to_claim {
            let claim = Claim::new(&parent.object.metadata, parent.owner.clone(), pods, |pod| {
                selector.matches(&pod.metadata.labels)
            });
            sync.claim = Some(Box::new(claim));
            return self.claim_on(parent, sync, now);
        }
        self.scale(parent, sync, now)
    }

    /// Goes on after every request of the batch has its answer.
    ///
    /// # Panics
    /// When a request has no answer, or the sync is over.
    pub fn resume(&self, sync: &mut Sync, now: Now) -> Step {
        if sync.state == State::ReadingFence {
            return self.begin_after_fence(sync, now);
        }
        let parent = sync.parent.take();
        let parent = parent.expect("a sync that is over can't be resumed");
        let step = self.resume_of(&parent, sync, now);
        self.hand_over(step, parent, sync, now)
    }

    #[inline(never)]
    fn begin_after_fence(&self, sync: &mut Sync, now: Now) -> Step {
        match self.fence_read(sync) {
            Some(stopped) => stopped,
            None => self.begin_behind_gate(sync, now),
        }
    }

    fn resume_of(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        match sync.state {
            State::Finished | State::ReadingFence => {
                panic!("a sync that is over can't be resumed")
            }
            State::ReadingLastFence => self.last_fence_read(&parent.owner.uid, sync),
            State::ReadingParentToAdopt => {
                let answer = sync.only_answer();
                let claim = sync.claim.as_mut().expect("a claim is under way");
                match &answer {
                    Answer::Object(live) => claim.parent_read(Ok(live.metadata())),
                    Answer::Failed(error) => claim.parent_read(Err(error)),
                    other => panic!("a read of the parent can't be answered by {other:?}"),
                }
                self.claim_on(parent, sync, now)
            }
            State::Patching => {
                let answer = sync.only_answer();
                match &answer {
                    Answer::Pod(pod) => self.patched(parent, pod, sync.key, now),
                    Answer::Failed(error) => {
                        self.patch_refused(error, sync, now);
                        self.note_failure(error, Kind::POD, sync);
                    }
                    _ => {}
                }
                let claim = sync.claim.as_mut().expect("a claim is under way");
                match &answer {
                    Answer::Failed(error) => claim.patched(Err(error)),
                    _ => claim.patched(Ok(())),
                }
                self.claim_on(parent, sync, now)
            }
            State::Creating => self.created(parent, sync, now),
            State::Deleting => self.deleted(parent, sync, now),
            State::PuttingStatus | State::ReadingParentToRetry | State::PuttingStatusAgain => {
                self.status_answered(parent, sync, now)
            }
        }
    }

    /// Most creates or deletes in one sync.
    pub(super) fn burst(&self) -> i64 {
        i64::try_from(self.options.burst_replicas).unwrap_or(i64::MAX)
    }

    fn claim_on(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        let claim = sync.claim.as_mut().expect("a claim is under way");
        match claim.step() {
            ClaimStep::ReadParent => {
                let request = Request::Get {
                    kind: self.options.kind,
                    namespace: parent.namespace.clone(),
                    name: parent.object.metadata.name.clone(),
                };
                sync.ask(State::ReadingParentToAdopt, [request])
            }
            ClaimStep::Patch(pod, patch) => {
                let request = Request::PatchPod {
                    namespace: pod.metadata.namespace.clone(),
                    name: pod.metadata.name.clone(),
                    patch,
                };
                sync.ask(State::Patching, [request])
            }
            ClaimStep::Finished => {
                let claim = sync.claim.take().expect("a claim is under way");
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
                self.count_claimed(parent, claim.claimed(), sync, now);
                self.scale(parent, sync, now)
            }
        }
    }

    /// Creates what is missing or deletes what is too much, if it may.
    fn scale(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        let missing = i64::from(parent.object.replicas()) - i64::from(sync.census.counts.replicas);
        if !sync.may_scale || missing == 0 {
            return self.update_status(parent, sync, now);
        }
        if missing > 0 {
            let wanted = self.creatable(missing, sync, now).min(self.burst());
            if wanted == 0 {
                return self.update_status(parent, sync, now);
            }
            self.expectations
                .expect_creations(sync.key, wanted, now.mono_ns);
            sync.creates_wanted = usize::try_from(wanted).expect("positive here");
            sync.slow_start = SlowStart::new(sync.creates_wanted, 1);
            if parent.object.spec.template.metadata.labels.is_empty() {
                // Refused here, without a call and without an Event.
                let error = super::reconcile::NO_LABELS_ERROR.to_owned();
                return self.creates_ended(parent, sync, Some(error), now);
            }
            return self.create_batch(parent, sync, now);
        }
        let names = sync.victims.names().iter().cloned();
        self.expectations
            .expect_deletions(sync.key, names, now.mono_ns);
        let Sync {
            requests, victims, ..
        } = sync;
        requests.clear();
        requests.extend(victims.names().iter().map(|name| Request::DeletePod {
            namespace: parent.namespace.clone(),
            name: name.clone(),
            uid: None,
        }));
        for (request, victim) in requests.iter_mut().zip(victims.uids()) {
            if let Request::DeletePod { uid, .. } = request {
                *uid = Some(victim.clone());
            }
        }
        sync.asked(State::Deleting)
    }

    fn create_batch(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        if self.burst_ends(parent) {
            let missing = sync.creates_wanted - sync.slow_start.successes();
            let missing = i64::try_from(missing).expect("bursts are bounded");
            self.expectations.creations_observed(sync.key, missing);
            return sync.finish();
        }
        match sync.slow_start.next_batch() {
            None => self.creates_ended(parent, sync, None, now),
            Some(size) if self.hardened.names_pods() => self.ask_for_named_pods(parent, sync, size),
            Some(size) => {
                let (namespace, body) = (&parent.namespace, parent.body());
                sync.ask_again(State::Creating, size, || Request::CreatePod {
                    namespace: namespace.clone(),
                    body: body.clone(),
                    name: None,
                })
            }
        }
    }

    /// Not inlined: a function of its own keeps its loop in registers.
    #[inline(never)]
    fn created(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        let regarding = parent.reference(self.options.kind);
        sync.require_answers();
        self.record_creations(parent, sync);
        let mut first_error: Option<String> = None;
        let Sync {
            key,
            requests,
            answers,
            answered,
            slow_start,
            events,
            unknown,
            quiet_error,
            ..
        } = sync;
        let by_name = self.hardened.names_pods();
        for index in answered {
            let answer = answer_of(answers, *index);
            if by_name {
                self.note_outcome(parent, *key, &requests[*index], answer, now);
            }
            match answer {
                Answer::Pod(pod) => {
                    slow_start.on_result(true);
                    events.push(EventIntent::created_pod(regarding, &pod.metadata.name));
                }
                Answer::Failed(error) => {
                    let failure = self.hardened.create_failure(error);
                    slow_start.on_result(failure == CreateFailure::Made);
                    match failure {
                        CreateFailure::Made => continue,
                        CreateFailure::Quiet | CreateFailure::Taken => {
                            let quiet = || (SyncErrorClass::Create, error.message.clone());
                            quiet_error.get_or_insert_with(quiet);
                        }
                        CreateFailure::Loud => {
                            events.push(EventIntent::failed_create(regarding, error));
                            first_error.get_or_insert_with(|| error.message.clone());
                        }
                    }
                    if failure == CreateFailure::Taken || error.outcome_is_unknown() {
                        unknown.insert(Kind::POD);
                    }
                }
                other => panic!("a create can't be answered by {other:?}"),
            }
        }
        if first_error.is_some() || sync.quiet_error.is_some() {
            return self.creates_ended(parent, sync, first_error, now);
        }
        self.create_batch(parent, sync, now)
    }

    /// Remembers the versions of the pods that were created: the newest of those that came back with the
    /// reference they were sent with, as they all do.
    fn record_creations(&self, parent: &Parent, sync: &Sync) {
        if !self.keeps_records {
            return;
        }
        let (namespace, uid) = (&parent.object.metadata.namespace, &parent.owner.uid);
        let is_owner = |owner: &Arc<OwnerReference>| *owner == parent.owner;
        // For the barrier it is enough that this sync wrote them.
        let every = self.hardened.records_every_write();
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
                self.consistency.wrote_at(sync.key, uid, Kind::POD, version);
            }
        }
        if newest > 0 {
            self.consistency
                .wrote_at(sync.key, uid, Kind::POD, &newest.into());
        }
    }

    fn creates_ended(
        &self,
        parent: &Arc<Parent>,
        sync: &mut Sync,
        error: Option<String>,
        now: Now,
    ) -> Step {
        let lost = sync.creates_wanted - sync.slow_start.successes();
        if lost > 0 {
            // Failed and never attempted ones will not be observed.
            let lost = i64::try_from(lost).expect("bursts are bounded");
            self.expectations.creations_observed(sync.key, lost);
        }
        sync.manage_error = error.map(|error| (SyncErrorClass::Create, error));
        self.update_status(parent, sync, now)
    }

    /// Not inlined: a function of its own keeps its loop in registers.
    #[inline(never)]
    fn deleted(&self, parent: &Arc<Parent>, sync: &mut Sync, now: Now) -> Step {
        let regarding = parent.reference(self.options.kind);
        sync.require_answers();
        let mut first_error: Option<String> = None;
        let Sync {
            key,
            answers,
            answered,
            victims,
            events,
            unknown,
            quiet_error,
            ..
        } = sync;
        for index in answered {
            let name = &victims.names()[*index];
            match answer_of(answers, *index) {
                Answer::Failed(error) if self.hardened.is_gone(error) => {
                    self.expectations.deletion_observed(*key, name);
                    unknown.insert(Kind::POD);
                    let quiet = || (SyncErrorClass::Delete, error.message.clone());
                    quiet_error.get_or_insert_with(quiet);
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
        self.deletes_answered(parent, sync);
        sync.manage_error = first_error.map(|error| (SyncErrorClass::Delete, error));
        self.update_status(parent, sync, now)
    }

    /// Notes whether a write that failed may have been committed nevertheless.
    pub(super) fn note_failure(&self, error: &ApiError, kind: Kind, sync: &mut Sync) {
        if error.outcome_is_unknown() {
            sync.unknown.insert(kind);
        }
    }

    /// Remembers the version of a pod we wrote, for its controller as the server has it now.
    pub(super) fn record_pod_write(&self, meta: &ObjectMeta) {
        if let Some(controller) = meta.controller() {
            let owner = self.parents.intern(&meta.namespace, &controller.name);
            self.consistency
                .wrote_at(owner, &controller.uid, Kind::POD, &meta.resource_version);
        }
    }
}

/// The answer of that request, all of which are there.
fn answer_of(answers: &[Option<Answer>], index: usize) -> &Answer {
    answers[index].as_ref().expect("it has been answered")
}
