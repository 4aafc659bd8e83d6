//! The counting of ended pods: a sync writes their UIDs into the status, removes their finalizers,
//! and then moves the UIDs into the counters.
//!
//! Source: `trackJobStatusAndRemoveFinalizers` in Kubernetes' `pkg/controller/job`.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm_objects::{Kind, PodPhase, Uid};
use podstorm_runtime::client::{Answer, EventType, Patch, Request};
use podstorm_runtime::driver::SyncFailure;

use super::Remembered;
use super::end::HitKind;
use super::indexes::Indexes;
use super::pod::{JobPod, TRACKING_FINALIZER};
use super::policies::FailureAction;
use super::status::Uncounted;
use super::sync::JobSync;

/// The patch that removes the tracking finalizer.
pub(super) const REMOVE_FINALIZER: Patch = Patch::RemoveFinalizer(TRACKING_FINALIZER);

impl JobSync<'_> {
    /// Counts the ended pods. Writes the status as often as this requires.
    pub(super) async fn track(&mut self) -> Result<(), SyncFailure> {
        for pod in &mut self.pods {
            pod.is_tracked &= !pod.is_released;
        }
        let stored = self.indexes.stored.count();
        let mut counted = self.counted(stored, self.indexes.stored_failed);
        self.count_released();
        let (removed, is_truncated) = self.note_ended();
        self.note_indexes();
        self.note_hit();
        let is_flushed = self.needs_flush;
        self.flush("adding uncounted pods to status").await?;
        if is_flushed {
            self.report(&mut counted);
            let failures = self.failures;
            let store = |state: &mut Remembered| state.failures = Some(failures);
            self.shared.states.with(self.key, store);
        }
        let removal = self.remove_finalizers(&removed).await;
        self.count_released();
        if let Err(failure) = removal {
            self.flush("removing uncounted pods from status").await?;
            return Err(failure);
        }
        let is_counted = !is_truncated && self.status.uncounted == Uncounted::default();
        let end = self
            .hit
            .clone()
            .filter(|_| is_counted && self.terminating == 0);
        let Some(end) = end else {
            self.flush("removing uncounted pods from status").await?;
            self.report(&mut counted);
            return Ok(());
        };
        let now = self.calls.now().wall();
        let is_complete = end.kind == HitKind::SuccessCriteriaMet;
        let kind = if is_complete { "Complete" } else { "Failed" };
        self.status.conditions.set(kind, &end.reason, now);
        if is_complete {
            self.status.completion_time = Some(now);
        }
        self.needs_flush = true;
        self.flush("removing uncounted pods from status").await?;
        self.report(&mut counted);
        let uid = self.object.metadata.uid.clone();
        self.shared
            .states
            .with(self.key, |state| state.finished.insert(uid));
        self.tell_end(is_complete, &end.reason.reason, &end.reason.message);
        Ok(())
    }

    /// Moves the pods without a finalizer from the lists of uncounted pods into the counters.
    fn count_released(&mut self) {
        let status = &mut self.status;
        if status.uncounted == Uncounted::default() {
            return;
        }
        let is_listed = |pod: &&JobPod| pod.is_tracked && (pod.in_succeeded || pod.in_failed);
        let listed = self.pods.iter().filter(is_listed);
        let tracked: BTreeSet<&Uid> = listed.map(JobPod::uid).collect();
        for (list, count) in [
            (&mut status.uncounted.succeeded, &mut status.succeeded),
            (&mut status.uncounted.failed, &mut status.failed),
        ] {
            let before = list.len();
            list.retain(|uid| tracked.contains(uid));
            let moved = before - list.len();
            if moved > 0 {
                *count += i64::try_from(moved).unwrap_or(i64::MAX);
                self.needs_flush = true;
            }
        }
    }

    /// Adds ended pods to the lists of uncounted pods. Returns the positions of the pods whose
    /// finalizers must be removed, and whether other pods must wait for the next sync.
    fn note_ended(&mut self) -> (Vec<usize>, bool) {
        let spec = self.job.spec.clone();
        let is_deleting = self.object.metadata.is_deleting();
        let fails = |kind: HitKind| kind != HitKind::SuccessCriteriaMet;
        let hit = self.hit.as_ref().map(|hit| hit.kind);
        let may_end =
            |pod: &JobPod| pod.is_tracked && (!pod.is_active() || is_deleting || hit.is_some());
        let places = self.pods.iter().enumerate().filter(|(_, pod)| may_end(pod));
        let mut places: Vec<usize> = places.map(|(place, _)| place).collect();
        if spec.is_indexed() {
            places.sort_by_key(|place| self.pods[*place].index);
        }
        let job = Arc::clone(&self.job);
        let policy = job.spec.failure_policy.as_ref();
        let mut removed = Vec::new();
        let mut new_indexes = Vec::new();
        let mut is_truncated = false;
        for place in places {
            let pod = &mut self.pods[place];
            let is_succeeded = pod.phase == PodPhase::Succeeded;
            let is_failed = pod.is_failed(spec.only_replace_failed);
            let delayed = || self.indexes.delayed.get(&pod.index);
            let is_delayed = || delayed().is_some_and(|delayed| delayed.uid() == pod.uid());
            let may_go = is_deleting || hit.is_some() || is_succeeded || is_failed && !is_delayed();
            if !may_go {
                continue;
            }
            removed.push(place);
            let has_index = !spec.is_indexed() || spec.has_index(pod.index);
            // A pod that fails because its Job fails may match a rule before it has ended.
            let met = |pod: &JobPod| match is_failed {
                true => pod.met,
                false => policy.and_then(|it| it.met(&pod.pod)).map(|it| it.action),
            };
            if is_succeeded && !pod.in_failed {
                if spec.is_indexed() {
                    let has_failed = self.indexes.failed.as_ref();
                    let has_failed = has_failed.is_some_and(|it| it.has(pod.index));
                    let is_open = !has_failed || !self.shared.options.keep_first_outcome;
                    if has_index && is_open && !self.indexes.stored.has(pod.index) {
                        new_indexes.push(pod.index);
                        self.needs_flush = true;
                    }
                } else if !pod.in_succeeded {
                    self.status.uncounted.succeeded.push(pod.uid().clone());
                    pod.in_succeeded = true;
                    self.needs_flush = true;
                }
            } else if (is_failed || hit.is_some_and(fails)) && has_index && !pod.in_failed {
                let met = met(pod);
                if let Some(action) = met {
                    self.shared.metrics.policy_met.add([action.as_str()], 1);
                }
                if met != Some(FailureAction::Ignore) {
                    self.status.uncounted.failed.push(pod.uid().clone());
                    pod.in_failed = true;
                    self.needs_flush = true;
                }
            }
            let uncounted = &self.status.uncounted;
            let held = new_indexes.len() + uncounted.succeeded.len() + uncounted.failed.len();
            if held >= self.shared.options.uncounted_max {
                is_truncated = true;
                break;
            }
        }
        let new = Indexes::of_ordered(new_indexes);
        self.indexes.succeeded = self.indexes.succeeded.union(&new);
        (removed, is_truncated)
    }

    /// Writes the succeeded and failed indexes of an indexed Job into the status.
    fn note_indexes(&mut self) {
        if !self.job.spec.is_indexed() {
            return;
        }
        let succeeded = self.indexes.succeeded.to_string();
        let failed = self.indexes.failed.as_ref().map(Indexes::to_string);
        let status = &mut self.status;
        self.needs_flush |= succeeded != status.completed_indexes;
        self.needs_flush |= failed != status.failed_indexes;
        status.succeeded = self.indexes.succeeded.count();
        status.completed_indexes = succeeded;
        status.failed_indexes = failed;
    }

    /// Adds the condition with which the Job is about to finish.
    fn note_hit(&mut self) {
        let Some(hit) = &self.hit else {
            return;
        };
        let kind = match hit.kind {
            HitKind::FailureTarget => "FailureTarget",
            HitKind::SuccessCriteriaMet => "SuccessCriteriaMet",
            HitKind::Failed => return,
        };
        let conditions = &mut self.status.conditions;
        if conditions.met(kind).is_none() {
            conditions.append(kind, &hit.reason, self.calls.now().wall());
            self.needs_flush = true;
        }
    }

    /// Removes the finalizers of the pods at these positions. Those pods are no longer tracked.
    async fn remove_finalizers(&mut self, places: &[usize]) -> Result<(), SyncFailure> {
        if places.is_empty() {
            return Ok(());
        }
        let uid = |place: &usize| self.pods[*place].uid().clone();
        self.shared.states.with(self.key, |state| {
            let released = state.released.get_or_insert_default();
            released.extend(places.iter().map(uid));
        });
        let patches = places.iter().map(|place| {
            let meta = &self.pods[*place].pod.metadata;
            Request::Patch {
                kind: Kind::POD,
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                patch: Box::new(REMOVE_FINALIZER),
                of_status: false,
            }
        });
        let answers = self.calls.batch(patches.collect::<Vec<_>>()).await;
        let mut outcome = Ok(());
        for (place, answer) in places.iter().zip(answers) {
            let uid = self.pods[*place].uid();
            match &answer {
                Answer::Failed(error) => {
                    if !error.is_not_found() || !self.stays_noted(*place) {
                        self.shared
                            .states
                            .with_known(self.key, |it| it.forget_released(uid));
                    }
                    if !error.is_not_found() {
                        let text = format!("tracking status: {}", error.message);
                        let failure = SyncFailure::new("finalizer failed", text);
                        outcome = outcome.and(Err(failure));
                        continue;
                    }
                }
                Answer::Pod(pod) => self.wrote(Kind::POD, &pod.metadata.resource_version),
                Answer::Object(pod) => self.wrote(Kind::POD, &pod.metadata().resource_version),
                other => panic!("a patch can't be answered by {other:?}"),
            }
            self.pods[*place].is_tracked = false;
        }
        outcome
    }

    /// Reports whether a pod that no longer exists on the server stays noted as released until it
    /// leaves the cache.
    fn stays_noted(&self, place: usize) -> bool {
        if !self.shared.options.count_gone_pods_once {
            return false;
        }
        let meta = &self.pods[place].pod.metadata;
        let cached = self.shared.pods.get(&meta.namespace, &meta.name);
        cached.is_some_and(|pod| pod.metadata.uid == meta.uid)
    }

    /// Writes the status if it has changed.
    async fn flush(&mut self, step: &str) -> Result<(), SyncFailure> {
        if !self.needs_flush {
            return Ok(());
        }
        let new = self.status.write(&self.object);
        let written = self.calls.put_status(new).await;
        let written = written.map_err(|error| {
            let text = format!("tracking status: {step}: {}", error.message);
            SyncFailure::new("status failed", text)
        })?;
        self.wrote(Kind::JOB, &written.metadata.resource_version);
        self.object = written;
        self.needs_flush = false;
        Ok(())
    }

    /// Returns the numbers of succeeded pods (for an indexed Job, succeeded indexes), failed pods
    /// and failed indexes in the status.
    fn counted(&self, succeeded_indexes: i64, failed_indexes: i64) -> [i64; 3] {
        let succeeded = match self.job.spec.is_indexed() {
            true => succeeded_indexes,
            false => self.status.succeeded,
        };
        [succeeded, self.status.failed, failed_indexes]
    }

    /// Counts in the metrics what a written status has beyond `before`, and updates `before`.
    fn report(&self, before: &mut [i64; 3]) {
        let indexes = &self.indexes;
        let failed_indexes = indexes.failed.as_ref().map_or(0, Indexes::count);
        let now = self.counted(indexes.succeeded.count(), failed_indexes);
        let more = |at: usize| u64::try_from(now[at] - before[at]).unwrap_or(0);
        let (metrics, spec) = (&self.shared.metrics, &self.job.spec);
        if let Some(mode) = spec.mode_label() {
            metrics.pods_finished.add([mode, "succeeded"], more(0));
            metrics.pods_finished.add([mode, "failed"], more(1));
        }
        if spec.is_indexed() {
            let scope = match spec.backoff_limit_per_index {
                Some(_) => "perIndex",
                None => "global",
            };
            metrics.indexes_finished.add(["succeeded", scope], more(0));
            metrics.indexes_finished.add(["failed", scope], more(2));
        }
        *before = now;
    }

    fn tell_end(&self, is_complete: bool, reason: &str, message: &str) {
        let result = if is_complete { "succeeded" } else { "failed" };
        let mode = self.job.spec.mode_label().unwrap_or_default();
        let labels = [mode.into(), result.into(), reason.to_owned().into()];
        self.shared.metrics.finished.series(labels).increment();
        if !is_complete {
            let reason = END_REASONS.iter().find(|known| **known == reason);
            let reason = reason.copied().unwrap_or("Failed");
            self.event(EventType::Warning, reason, message);
            return;
        }
        let completions = self.job.spec.completions;
        if completions.is_some_and(|completions| self.status.succeeded > completions) {
            let text = "Too many succeeded pods running after completion count reached";
            self.event(EventType::Warning, "TooManySucceededPods", text);
        }
        self.event(EventType::Normal, "Completed", "Job completed");
    }
}

/// The reasons for which a Job fails.
const END_REASONS: [&str; 5] = [
    "PodFailurePolicy",
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "MaxFailedIndexesExceeded",
    "FailedIndexes",
];
