//! The events that wake a Job: its own changes wake it immediately; changes of its pods wake it
//! after one second, together.
//!
//! Source: the event handlers in Kubernetes' `pkg/controller/job`.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Now, ObjectMeta, Pod, Selector, Time};
use podstorm_runtime::cache::{PodChange, PodRun};
use podstorm_runtime::informer::Handler;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::lock;
use podstorm_runtime::store::{Change, Keyed};

use super::cache::{CachedJob, JobSelector, selector_of};
use super::orphans::OrphanKey;
use super::pod::{PodFacts, TRACKING_FINALIZER};
use super::{SECOND_NS, Shared};

impl Handler<CachedJob> for Shared {
    fn handle(&self, change: &Change<CachedJob>, now: Now) {
        self.note_empty_selector(change);
        match (&change.old, &change.new) {
            (_, None) => {
                if let Some(last) = &change.last {
                    if let Some(old) = &change.old {
                        self.recreated_unseen(old, &last.metadata, now);
                    }
                    self.job_deleted(change.key, last, now);
                }
            }
            (None, Some(job)) => {
                if job.spec.is_foreign {
                    self.metrics.came(job.manager());
                }
                self.add_after(change.key, 0, now);
            }
            (Some(old), Some(job)) => self.job_updated(change.key, old, job, now),
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl Keyed for Shared {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queues[super::JOBS].is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.queues[super::JOBS].forget(key);
        self.expectations.delete(key);
        self.states.forget(key);
        self.written.clear(&key, None);
    }
}

impl Shared {
    fn job_updated(&self, key: KeyId, old: &CachedJob, job: &CachedJob, now: Now) {
        self.recreated_unseen(old, &job.object.metadata, now);
        if job.is_finished() {
            self.add_selector_orphans(&job.object.metadata, &job.selector, now);
            return;
        }
        if job.object.metadata.is_deleting()
            && !old.object.metadata.is_deleting()
            && self.options.retry_orphans
        {
            self.add_selector_orphans(&job.object.metadata, &job.selector, now);
        }
        let is_same = old.object.metadata.generation == job.object.metadata.generation;
        self.add_after(key, if is_same { self.options.batch_ns } else { 0 }, now);
        let deadline = job.spec.active_deadline_seconds;
        let start = job.status.start_time.and_then(Time::unix_seconds);
        let start_ns = start.map(|start| start.saturating_mul(SECOND_NS));
        if deadline != old.spec.active_deadline_seconds
            && let Some(left_ns) = job.deadline_left_ns(start_ns, now)
        {
            self.add_after(key, left_ns, now);
        }
    }

    /// Queues the pods of the cached Job as orphans if an event of the same name has another UID,
    /// which means that the cached Job was deleted. Upstream does not compare UIDs.
    fn recreated_unseen(&self, old: &CachedJob, is: &ObjectMeta, now: Now) {
        let was = &old.object.metadata;
        if self.options.retry_orphans && was.uid != is.uid {
            self.add_selector_orphans(was, &old.selector, now);
        }
    }

    fn job_deleted(&self, key: KeyId, last: &DynamicObject, now: Now) {
        let meta = &last.metadata;
        self.add_after(key, 0, now);
        self.written.clear(&key, Some(&meta.uid));
        self.states.with(key, |state| {
            state.finished.remove(&meta.uid);
            state.failures = None;
        });
        self.add_selector_orphans(meta, &selector_of(last), now);
    }

    /// Handles a change of a pod.
    pub(super) fn pod_changed(&self, change: &PodChange, now: Now) {
        // Like upstream: for a deleted pod, use its last state instead of the cached one.
        match change.deleted {
            true => self.metrics.pod_changed(Some(&change.new), None),
            false => self
                .metrics
                .pod_changed(change.old.as_deref(), Some(&change.new)),
        }
        match &change.old {
            _ if change.deleted => self.pod_deleted(&change.new, true, now),
            None => self.pod_added(&change.new, now),
            Some(old) => self.pod_updated(old, &change.new, now),
        }
    }

    /// Handles a run from a list into an empty cache, with the same result as adding its pods one
    /// by one.
    pub(super) fn pods_added(&self, run: &PodRun, now: Now) {
        for pod in &run.others {
            self.metrics.pod_changed(None, Some(pod));
            self.pod_added(pod, now);
        }
        if run.owned_pods.owner_kind() == Some(Kind::JOB.name()) {
            let pods = run.owned_pods.lock();
            let facts = pods.fields::<PodFacts>().iter();
            let waiting =
                facts.filter(|it| it.is_tracked && it.phase.is_terminal() && !it.is_deleting);
            self.metrics.tracked(waiting.count() as u64);
        }
        if run.not_deleting == 0 || run.owned_pods.is_orphans() {
            return;
        }
        if let Some((key, _)) = run.any_pod().and_then(|pod| self.resolve(&pod.metadata)) {
            let added = i64::from(run.not_deleting);
            self.expectations.creations_observed(key, added);
            self.add_after(key, self.options.batch_ns, now);
        }
    }

    fn pod_added(&self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        if meta.is_deleting() {
            self.pod_deleted(pod, false, now);
        } else if meta.controller().is_some() {
            if let Some((key, _)) = self.resolve(meta) {
                self.expectations.creation_observed(key);
                self.add_after(key, self.options.batch_ns, now);
            }
        } else {
            self.add_orphan(pod, now);
            self.wake_matching(meta, now);
        }
    }

    fn pod_updated(&self, old: &Pod, pod: &Pod, now: Now) {
        let (was, is) = (&old.metadata, &pod.metadata);
        if was.resource_version == is.resource_version {
            return;
        }
        if is.is_deleting() {
            self.pod_deleted(pod, false, now);
            return;
        }
        let is_released = !is.has_finalizer(TRACKING_FINALIZER);
        let wake = |key| {
            if is_released {
                self.states
                    .with_known(key, |it| it.forget_released(&is.uid));
            }
            self.add_after(key, self.options.batch_ns, now);
        };
        let is_moved = was.controller() != is.controller();
        if is_moved && let Some((key, _)) = self.resolve(was) {
            wake(key);
        }
        if is.controller().is_some() {
            if let Some((key, _)) = self.resolve(is) {
                wake(key);
            }
            return;
        }
        self.add_orphan(pod, now);
        if is_moved || was.labels != is.labels {
            self.wake_matching(is, now);
        }
    }

    /// Handles a deleted pod (`is_gone`) or a change of a terminating pod.
    fn pod_deleted(&self, pod: &Pod, is_gone: bool, now: Now) {
        let meta = &pod.metadata;
        let counts = |job: &CachedJob| !job.is_finished() && !self.has_lost(job, meta);
        let job = self.resolve(meta).filter(|(_, job)| counts(job));
        let Some((key, _)) = job else {
            self.add_orphan(pod, now);
            return;
        };
        // The count may go below zero, because every change of a terminating pod lowers it.
        self.expectations.lower(key, 0, 1);
        if is_gone || !meta.has_finalizer(TRACKING_FINALIZER) {
            self.states
                .with_known(key, |it| it.forget_released(&meta.uid));
        }
        self.add_after(key, self.options.batch_ns, now);
    }

    /// Wakes the Jobs that could adopt an orphan.
    fn wake_matching(&self, orphan: &ObjectMeta, now: Now) {
        if orphan.labels.is_empty() {
            return;
        }
        let namespace = &orphan.namespace;
        for (key, _) in self.jobs.matching(namespace, &orphan.labels) {
            self.add_after(key, self.options.batch_ns, now);
        }
        let all = lock(&self.select_all);
        for key in all.get(namespace).into_iter().flatten() {
            self.add_after(*key, self.options.batch_ns, now);
        }
    }

    /// Maintains the index of Jobs with an empty selector, which matches every pod.
    fn note_empty_selector(&self, change: &Change<CachedJob>) {
        let selects_all = |job: &CachedJob| job.selector.as_ref().is_ok_and(|it| it.is_empty());
        let states = [(&change.old, false), (&change.new, true)];
        for (job, is_there) in states {
            let Some(job) = job.as_ref().filter(|job| selects_all(job)) else {
                continue;
            };
            let mut all = lock(&self.select_all);
            let keys = all
                .entry(job.object.metadata.namespace.clone())
                .or_default();
            match is_there {
                true => keys.insert(change.key),
                false => keys.remove(&change.key),
            };
            if keys.is_empty() {
                all.remove(&job.object.metadata.namespace);
            }
        }
    }

    fn add_after(&self, key: KeyId, delay_ns: i64, now: Now) {
        self.queues[super::JOBS].add_after(key, delay_ns, now.mono_ns);
    }

    /// Adds a pod with the tracking finalizer to the queue of orphans, because no Job will count
    /// it.
    fn add_orphan(&self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        if meta.has_finalizer(TRACKING_FINALIZER) {
            let key = OrphanKey::Name(meta.namespace.clone(), meta.name.clone());
            self.add_orphans(key, now);
        }
    }

    /// Adds the pods of a Job that counts no more pods to the queue of orphans.
    fn add_selector_orphans(&self, meta: &ObjectMeta, selector: &JobSelector, now: Now) {
        if let Ok(selector) = selector {
            let owner = || Arc::new(Kind::JOB.controller_reference(meta));
            let owner = self.options.retry_orphans.then(owner);
            let key = OrphanKey::Selector(meta.namespace.clone(), selector.to_string(), owner);
            self.add_orphans(key, now);
        }
    }

    /// Reports whether a Job that is being deleted owns a pod that its selector does not match.
    /// Such a Job neither counts nor releases the pod, and upstream never removes the pod's
    /// finalizer.
    pub(super) fn has_lost(&self, job: &CachedJob, pod: &ObjectMeta) -> bool {
        let is_leaving = self.options.retry_orphans && job.object.metadata.is_deleting();
        let selects = |selector: &Arc<Selector>| selector.matches(&pod.labels);
        is_leaving && !job.selector.as_ref().is_ok_and(selects)
    }

    fn add_orphans(&self, key: OrphanKey, now: Now) {
        let key = self.orphan_keys.add(key);
        self.queues[super::ORPHANS].add(key, now.mono_ns);
    }
}
