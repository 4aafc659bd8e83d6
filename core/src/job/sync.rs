//! One sync of one Job. Its steps are in upstream's order, which clients can observe.
//!
//! Source: `syncJob` in Kubernetes' `pkg/controller/job`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_objects::{
    DynamicObject, Kind, Now, OwnerPatch, Pod, PodPhase, ResourceVersion, Time, Uid,
};
use podstorm_runtime::cache::PodFields as _;
use podstorm_runtime::claim::{Claim, ClaimDecision, ClaimStep, claim_decision};
use podstorm_runtime::client::{EventIntent, EventMessage, EventType, Patch};
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;
use serde_json::{Value, json};

use super::backoff::{Failures, finish_ns};
use super::cache::{CachedJob, CompletionMode};
use super::end::{Hit, HitKind};
use super::indexes::Indexes;
use super::pod::{JobPod, PodFacts, TRACKING_FINALIZER};
use super::policies::FailureAction;
use super::status::JobStatus;
use super::{Remembered, SECOND_NS, Shared};

/// A sync of one Job in progress.
pub(super) struct JobSync<'a> {
    pub(super) shared: &'a Shared,
    pub(super) calls: &'a Calls,
    pub(super) key: KeyId,
    pub(super) job: Arc<CachedJob>,
    /// The version of the Job that the next write will replace.
    pub(super) object: Arc<DynamicObject>,
    /// The status. Later steps of the sync read it, and writes send it.
    pub(super) status: JobStatus,
    /// The pods of the Job, including ended and terminating ones.
    pub(super) pods: Vec<JobPod>,
    /// The UIDs of pods whose tracking finalizer was removed earlier. These pods are counted.
    pub(super) released: BTreeSet<Uid>,
    /// The failure record, including the failures that this sync found. The first status write
    /// stores it.
    pub(super) failures: Failures,
    /// When the Job started, in ns since the Unix epoch; `None` if it has not started.
    pub(super) start_ns: Option<i64>,
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) terminating: i64,
    /// The number of pods that have succeeded; for an indexed Job, the number of indexes.
    pub(super) succeeded: i64,
    /// The number of failed pods that count.
    pub(super) failed: i64,
    pub(super) indexes: IndexesOf,
    /// The condition that finishes the Job, if there is one.
    pub(super) hit: Option<Hit>,
    /// Whether the status has changed and must be written.
    pub(super) needs_flush: bool,
    /// The action of the sync, as a metric label.
    pub(super) action: &'static str,
}

/// The succeeded and failed indexes of an indexed Job.
#[derive(Debug, Default)]
pub(super) struct IndexesOf {
    /// The succeeded indexes in the stored status.
    pub(super) stored: Indexes,
    pub(super) succeeded: Indexes,
    /// The number of failed indexes in the stored status.
    pub(super) stored_failed: i64,
    /// The failed indexes; `None` without a back-off limit per index.
    pub(super) failed: Option<Indexes>,
    /// For each index, the failed pod that keeps its finalizer until its replacement is active.
    pub(super) delayed: BTreeMap<i64, JobPod>,
}

/// Runs one sync of a Job.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let name = shared.jobs.name(key);
    if name.namespace.is_empty() || name.name.is_empty() {
        let problem = "either namespace or name is missing";
        let key = format!("{}/{}", name.namespace, name.name);
        let text = format!("invalid job key {key:?}: {problem}");
        return Err(SyncFailure::new("key", text));
    }
    let versions = [shared.pods.version().get(), shared.jobs.version().get()];
    let seen = shared.written.ensure_ready(&key, &versions);
    seen.map_err(|stale| {
        shared.metrics.skipped(stale.kind);
        SyncFailure::new("stale cache", stale.to_string())
    })?;
    let Some(job) = shared.jobs.get(key) else {
        shared.expectations.delete(key);
        shared.written.clear(&key, None);
        shared.states.with(key, |state| {
            state.released = None;
            state.failures = None;
        });
        return Ok(End::Forget);
    };
    if job.spec.is_foreign {
        return Ok(End::Forget);
    }
    let uid = &job.object.metadata.uid;
    if job.is_finished() {
        shared.written.clear(&key, Some(uid));
        shared.states.with(key, |state| {
            state.failures = None;
            state.finished.remove(uid);
        });
        return Ok(End::Forget);
    }
    let remembered = shared.states.with(key, |state| state.clone());
    if remembered.finished.contains(uid) {
        return Ok(End::Forget);
    }
    let began = calls.now();
    let mut sync = JobSync::new(&shared, &calls, key, job, remembered);
    let done = sync.steps().await;
    if let Some(mode) = sync.job.spec.mode_label() {
        let taken_ns = calls.now().mono_ns - began.mono_ns;
        let metrics = &shared.metrics;
        metrics.synced(mode, done.is_ok(), sync.action, taken_ns);
    }
    done.map(|()| End::Forget)
}

impl<'a> JobSync<'a> {
    /// Creates a sync that has not read any pods yet.
    pub(super) fn new(
        shared: &'a Shared,
        calls: &'a Calls,
        key: KeyId,
        job: Arc<CachedJob>,
        remembered: Remembered,
    ) -> JobSync<'a> {
        JobSync {
            shared,
            calls,
            key,
            object: job.object.clone(),
            status: job.status.clone(),
            pods: Vec::new(),
            released: remembered.released.unwrap_or_default(),
            failures: remembered.failures.unwrap_or_default(),
            start_ns: None,
            active: 0,
            ready: 0,
            terminating: 0,
            succeeded: 0,
            failed: 0,
            indexes: IndexesOf::default(),
            hit: None,
            needs_flush: false,
            action: "reconciling",
            job,
        }
    }

    async fn steps(&mut self) -> Result<(), SyncFailure> {
        if self.job.spec.mode == Some(CompletionMode::Unknown) {
            let text = "Skipped Job sync because completion mode is unknown";
            self.event(EventType::Warning, "UnknownCompletionMode", text);
            return Ok(());
        }
        let now = self.calls.now();
        let is_settled = self.shared.expectations.satisfied(self.key, now.mono_ns);
        self.claim_pods().await?;
        self.judge(now);
        let mut managed = Ok(());
        let mut suspension_changed = false;
        if self.hit.is_some() {
            let (all_deleted, deleted) = self.delete_active_pods().await;
            managed = deleted;
            if !all_deleted || !is_settled {
                self.hit = None;
            }
        } else {
            let manages = is_settled && !self.object.metadata.is_deleting();
            if manages {
                managed = self.manage().await;
            }
            self.hit = self.completion();
            if self.hit.is_none() && manages {
                suspension_changed = self.tell_suspension();
            }
        }
        let status = &mut self.status;
        self.needs_flush = suspension_changed
            || self.active != status.active
            || Some(self.ready) != status.ready
            || Some(self.terminating) != status.terminating;
        status.active = self.active;
        status.ready = Some(self.ready);
        status.terminating = Some(self.terminating);
        self.track().await?;
        managed
    }

    /// Counts the pods and decides whether something finishes the Job.
    pub(super) fn judge(&mut self, now: Now) {
        self.classify();
        let start = self.status.start_time.and_then(Time::unix_seconds);
        self.start_ns = start.map(|start| start.saturating_mul(SECOND_NS));
        if start.is_none() && !self.job.spec.is_suspended {
            self.status.start_time = Some(now.wall());
            self.start_ns = Some(now.wall_ns);
        }
        self.hit = self.evaluate();
        if self.job.spec.is_indexed() {
            self.evaluate_indexes();
        }
    }

    /// Finds the pods of the Job. Adopts and releases pods where necessary.
    async fn claim_pods(&mut self) -> Result<(), SyncFailure> {
        let job = Arc::clone(&self.job);
        let meta = &job.object.metadata;
        let selector = job.selector.as_ref().map_err(|error| {
            SyncFailure::new(
                "selector",
                format!("couldn't convert Job selector: {error}"),
            )
        })?;
        if meta.uid.is_empty() {
            return Err(SyncFailure::new("identity", "no owner uid provided"));
        }
        let matches = |pod: &Pod| selector.matches(&pod.metadata.labels);
        // A failure policy also reads the pods that were counted.
        let keeps_done = job.spec.failure_policy.is_some();
        let (mut pods, mut all_settled) = (Vec::new(), true);
        // The common case in a large Job: the pod has ended and was counted.
        let mark = job.selector_mark;
        let skips = |facts: &PodFacts| !keeps_done && facts.is_done() && facts.matches == mark;
        self.for_each_candidate(skips, |pod, facts| {
            if facts.matches != job.selector_mark {
                match claim_decision(meta, &pod.metadata, matches(pod)) {
                    ClaimDecision::Keep => facts.matches = job.selector_mark,
                    ClaimDecision::Ignore => return,
                    ClaimDecision::Adopt | ClaimDecision::Release => all_settled = false,
                }
            }
            if keeps_done || !facts.is_done() {
                pods.push(JobPod::new(Arc::clone(pod), facts));
            }
        });
        if all_settled {
            self.pods = pods;
            return Ok(());
        }
        let pods = self.shared.candidates(&job);
        let mut claim = Claim::new(meta, job.controller_ref.clone(), pods, matches);
        let mut adopted = BTreeSet::new();
        loop {
            match claim.step() {
                ClaimStep::ReadOwner => {
                    let read = self.calls.read(Kind::JOB, &meta.namespace, &meta.name);
                    let read = read.await;
                    claim.owner_read(read.as_ref().map(|live| live.metadata()));
                }
                ClaimStep::Patch(pod, patch) => {
                    let is_adoption = matches!(patch, OwnerPatch::Adopt { .. });
                    let member = match is_adoption {
                        true => "finalizers",
                        false => Patch::REMOVED_FINALIZERS,
                    };
                    let mut body = patch.body();
                    body["metadata"][member] = json!([TRACKING_FINALIZER]);
                    let Value::Object(body) = body else {
                        unreachable!("a metadata patch is an object");
                    };
                    let patch = Patch::Strategic(body);
                    let patched = self.calls.patch(Kind::POD, &pod.metadata, patch, false);
                    let patched = patched.await;
                    if let Ok(patched) = &patched
                        && is_adoption
                    {
                        self.wrote(Kind::POD, &patched.metadata().resource_version);
                        // Like upstream: a pod that already names the Job as an owner is not
                        // counted in this sync.
                        if !pod
                            .metadata
                            .owner_references
                            .iter()
                            .any(|it| it.uid == meta.uid)
                        {
                            adopted.insert(pod.metadata.uid.clone());
                        }
                    }
                    claim.patched(patched.as_ref().map(|_| ()));
                }
                ClaimStep::Finished => break,
            }
        }
        if let Some(error) = claim.error() {
            return Err(SyncFailure::new("claim failed", error));
        }
        let claimed = claim.into_claimed().into_iter();
        self.pods = claimed
            .map(|pod| {
                let facts = PodFacts::from_pod(&pod, 0);
                let mut pod = JobPod::new(pod, &facts);
                pod.is_tracked |= adopted.contains(pod.uid());
                pod
            })
            .collect();
        Ok(())
    }

    /// Calls `found`, with the fields that the cache stores, for the pods that the Job controls,
    /// except the skipped ones, and then for the orphans of its namespace. O(these pods).
    fn for_each_candidate(
        &self,
        skips: impl Fn(&PodFacts) -> bool,
        mut found: impl FnMut(&Arc<Pod>, &mut PodFacts),
    ) {
        let cache = &self.shared.pods;
        let namespace = &self.object.metadata.namespace;
        if let Some(owned) = cache.owned_by(namespace, &self.job.controller_ref) {
            let mut owned = owned.lock();
            let all = owned.iter_fields_mut::<PodFacts>();
            for (pod, facts) in all.filter(|(_, facts)| !skips(facts)) {
                found(pod, facts);
            }
        }
        for (pod, _) in cache.orphans(namespace).lock().iter() {
            found(pod, &mut PodFacts::from_pod(pod, 0));
        }
    }

    /// Records for each pod whether it was counted before and which action of the failure policy
    /// applies to it.
    fn look_at_pods(&mut self) {
        let spec = &self.job.spec;
        let uncounted = &self.status.uncounted;
        let known_succeeded: BTreeSet<&Uid> = uncounted.succeeded.iter().collect();
        let known_failed: BTreeSet<&Uid> = uncounted.failed.iter().collect();
        for pod in &mut self.pods {
            let uid = &pod.pod.metadata.uid;
            pod.is_released = self.released.contains(uid);
            pod.in_succeeded = known_succeeded.contains(uid);
            pod.in_failed = known_failed.contains(uid);
            if let Some(policy) = &spec.failure_policy
                && pod.is_failed(spec.only_replace_failed)
            {
                pod.met = policy.met(&pod.pod).map(|met| met.action);
            }
        }
    }

    /// Counts the pods by state and records the failures.
    fn classify(&mut self) {
        self.look_at_pods();
        let only_replace_failed = self.job.spec.only_replace_failed;
        let (mut new_succeeded, mut new_failed) = (Vec::new(), Vec::new());
        let mut ignored = 0;
        for pod in &self.pods {
            if pod.is_active() {
                self.active += 1;
                self.ready += i64::from(pod.is_ready);
                continue;
            }
            self.terminating += i64::from(pod.is_terminating());
            if !self.counts(pod) {
                continue;
            }
            // Like upstream: the success of a pod that is listed as failed counts here and nowhere
            // else.
            let is_settled = self.shared.options.keep_first_outcome && pod.in_failed;
            if pod.phase == PodPhase::Succeeded && !pod.in_succeeded && !is_settled {
                new_succeeded.push(&pod.pod);
            } else if pod.is_failed(only_replace_failed) && !pod.in_failed {
                new_failed.push(finish_ns(&pod.pod));
                ignored += i64::from(pod.met == Some(FailureAction::Ignore));
            }
        }
        let many = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let uids = |list: &[Uid]| i64::try_from(list.len()).unwrap_or(i64::MAX);
        let uncounted = &self.status.uncounted;
        self.succeeded =
            self.status.succeeded + many(new_succeeded.len()) + uids(&uncounted.succeeded);
        self.failed =
            self.status.failed + many(new_failed.len()) - ignored + uids(&uncounted.failed);
        // The last pods in the list were created last. If one of them ended after the failures, no
        // more need be read.
        let succeeded = new_succeeded.into_iter().rev();
        let succeeded = succeeded.map(|pod| finish_ns(pod));
        self.failures = self.failures.with(&new_failed, succeeded);
    }

    /// Reports whether the end of a pod counts: the pod is tracked, was not counted before, and has
    /// a valid index.
    pub(super) fn counts(&self, pod: &JobPod) -> bool {
        let spec = &self.job.spec;
        pod.is_tracked && !pod.is_released && (!spec.is_indexed() || spec.has_index(pod.index))
    }

    /// Returns the condition that completes the Job if enough pods have succeeded and none is
    /// active.
    pub(super) fn completion(&self) -> Option<Hit> {
        let is_complete = match self.job.spec.completions {
            None => self.succeeded > 0 && self.active == 0,
            Some(completions) => self.succeeded >= completions && self.active == 0,
        };
        is_complete.then(|| {
            let message = "Reached expected number of succeeded pods";
            Hit::new(HitKind::SuccessCriteriaMet, "CompletionsReached", message)
        })
    }

    /// Writes the condition `Suspended` and returns whether it changed.
    fn tell_suspension(&mut self) -> bool {
        let is_suspended = self.job.spec.is_suspended;
        let now = self.calls.now().wall();
        if !self.status.conditions.set_suspended(is_suspended, now) {
            return false;
        }
        if is_suspended {
            self.event(EventType::Normal, "Suspended", "Job suspended");
            if self.shared.options.suspending_clears_start_time {
                self.status.start_time = None;
            }
        } else {
            self.event(EventType::Normal, "Resumed", "Job resumed");
            self.status.start_time = Some(now);
        }
        true
    }

    /// Adds the key with a delay that is at least the batch period.
    pub(super) fn again_after(&self, delay_ns: i64) {
        self.add_after(delay_ns.max(self.shared.options.batch_ns));
    }

    pub(super) fn add_after(&self, delay_ns: i64) {
        let now_ns = self.calls.now().mono_ns;
        self.shared.queues[super::JOBS].add_after(self.key, delay_ns, now_ns);
    }

    /// Records the version of a write. The cache must reach it before the next sync.
    pub(super) fn wrote(&self, kind: Kind, version: &ResourceVersion) {
        if self.shared.options.waits_for_caches {
            let uid = &self.object.metadata.uid;
            self.shared.written.wrote_at(self.key, uid, kind, version);
        }
    }

    /// Records an Event about the Job.
    pub(super) fn event(&self, kind: EventType, reason: &'static str, text: &str) {
        self.calls.event(EventIntent {
            regarding: self.job.reference.clone(),
            kind,
            reason,
            message: EventMessage::Text(text.into()),
        });
    }
}
