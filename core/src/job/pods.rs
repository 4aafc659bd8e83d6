//! The requests that create and delete the pods of a Job.

use std::sync::Arc;

use compact_str::{ToCompactString as _, format_compact};
use podstorm_objects::{ApiError, Kind, Pod, Str};
use podstorm_runtime::client::{Answer, EventIntent, Request};
use podstorm_runtime::driver::{SyncFailure, join_all};

use super::indexes::indexed_name_prefix;
use super::pod::{COMPLETION_INDEX, FAILURE_COUNT, IGNORED_FAILURE_COUNT};
use super::policies::FailureAction;
use super::sync::JobSync;
use super::tracking::REMOVE_FINALIZER;

/// The result of a request to delete a pod.
struct Deletion {
    /// Whether the pod is now being deleted or is gone.
    is_deleted: bool,
    /// Whether the pod was ready when its deletion was requested.
    was_ready: bool,
    error: Option<String>,
}

impl JobSync<'_> {
    /// Creates `count` pods in batches of 1, 2, 4, …; for an indexed Job, with the indexes in
    /// `indexes`.
    pub(super) async fn create_pods(
        &mut self,
        count: usize,
        indexes: &[i64],
    ) -> Result<(), SyncFailure> {
        let many = i64::try_from(count).unwrap_or(i64::MAX);
        let expectations = &self.shared.expectations;
        let now_ns = self.calls.now().mono_ns;
        expectations.set_expectations(self.key, many, 0, now_ns);
        let pods = self.new_pods(count, indexes);
        let pods = match pods {
            Ok(pods) => pods,
            Err(problem) => {
                expectations.lower(self.key, many, 0);
                // Like upstream: the first create of the slow start counts as tried.
                self.report_created(1, 1);
                return Err(SyncFailure::new("template", problem));
            }
        };
        let namespace = self.object.metadata.namespace.clone();
        let create = |at: usize| Request::CreatePod {
            namespace: namespace.clone(),
            // The pods of a Job without indexes are identical.
            pod: Arc::clone(pods.get(at).unwrap_or(&pods[0])),
            name: None,
        };
        let started = match count {
            0 => return Ok(()),
            _ => self.calls.slow_start(count, create).await,
        };
        let is_failed = |answer: &&Answer| matches!(answer, Answer::Failed(_));
        let refused = started.answers.iter().filter(is_failed).count();
        let failed = started.errors().count();
        // The other refusals mean that the namespace is being deleted. The metrics don't count
        // them.
        let tried = started.answers.len() - (refused - failed);
        self.report_created(tried, failed);
        let regarding = &self.job.reference;
        let mut never = i64::try_from(started.skipped).unwrap_or(i64::MAX);
        for answer in &started.answers {
            let created = match answer {
                Answer::Pod(pod) => &pod.metadata,
                Answer::Object(object) => object.metadata(),
                Answer::Failed(error) => {
                    if !error.has_cause("NamespaceTerminating") {
                        never += 1;
                        let event = EventIntent::failed_create(regarding, &error.message);
                        self.calls.event(event);
                    }
                    continue;
                }
                other => panic!("a create can't be answered by {other:?}"),
            };
            self.wrote(Kind::POD, &created.resource_version);
            let event = EventIntent::created_pod(regarding, &created.name);
            self.calls.event(event);
        }
        expectations.lower(self.key, never, 0);
        self.active += many - never;
        match started.first_error() {
            Some(error) => Err(SyncFailure::new("create failed", error.message.clone())),
            None => Ok(()),
        }
    }

    /// Counts the attempted and the failed creates in the metrics, by reason.
    fn report_created(&self, tried: usize, failed: usize) {
        let has_losses = self.failed > 0;
        let reason = match self.job.replaces_only_failed() {
            true if has_losses => "recreate_failed",
            _ if has_losses || self.terminating > 0 => "recreate_terminating_or_failed",
            _ => "new",
        };
        let created = &self.shared.metrics.pods_created;
        created.add([reason, "succeeded"], tried as u64);
        created.add([reason, "failed"], failed as u64);
    }

    /// Returns the pods to create: one for each index or, without indexes, one that is used for
    /// all.
    fn new_pods(&self, count: usize, indexes: &[i64]) -> Result<Vec<Arc<Pod>>, String> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let pod = self.job.pod()?;
        if !self.job.spec.is_indexed() {
            return Ok(vec![pod]);
        }
        let pods = indexes.iter().map(|index| self.indexed_pod(&pod, *index));
        pods.map(|pod| pod.map(Arc::new)).collect()
    }

    /// Builds the pod with this index from the common pod.
    fn indexed_pod(&self, pod: &Pod, index: i64) -> Result<Pod, String> {
        let job = &self.object.metadata.name;
        let mut pod = pod.clone();
        let number = Str::from(index.to_compact_string().as_str());
        let meta = &mut pod.metadata;
        meta.generate_name = Some(indexed_name_prefix(job, index).as_str().into());
        meta.labels = meta.labels.with_shared(COMPLETION_INDEX, number.clone());
        meta.annotations = meta.annotations.with_shared(COMPLETION_INDEX, number);
        for (name, count) in self.failure_counts(index) {
            meta.annotations = meta.annotations.with(name, &count.to_string());
        }
        let set = pod.set_hostname(&format_compact!("{job}-{index}"));
        set.map_err(|error| format!("spec.template.spec: {error}"))?;
        Ok(pod)
    }

    /// Returns the annotations of a new pod that count the failures of its index so far.
    fn failure_counts(&self, index: i64) -> Vec<(&'static str, i64)> {
        if self.job.spec.backoff_limit_per_index.is_none() {
            return Vec::new();
        }
        let Some(replaced) = self.indexes.delayed.get(&index) else {
            return Vec::new();
        };
        let (counted, ignored) = replaced.failures();
        let (counted, ignored) = match replaced.met {
            Some(FailureAction::Ignore) => (counted, ignored + 1),
            _ => (counted + 1, ignored),
        };
        let counts = [(FAILURE_COUNT, counted), (IGNORED_FAILURE_COUNT, ignored)];
        let is_told = |(name, count): &(&str, i64)| *name == FAILURE_COUNT || *count > 0;
        counts.into_iter().filter(is_told).collect()
    }

    /// Removes the finalizers of the pods at these positions and deletes the pods. Such pods never
    /// count as failed.
    pub(super) async fn delete_pods(&mut self, places: &[usize]) -> Result<(), SyncFailure> {
        let many = i64::try_from(places.len()).unwrap_or(i64::MAX);
        let now_ns = self.calls.now().mono_ns;
        let expectations = &self.shared.expectations;
        expectations.set_expectations(self.key, 0, many, now_ns);
        let deletions = places.iter().map(|place| self.delete_pod(*place, true));
        let deletions = join_all(deletions).await;
        self.note(&deletions)
    }

    /// Deletes all active pods but keeps their finalizers, so that the pods are counted when they
    /// have ended. Returns whether all of them are deleted.
    pub(super) async fn delete_active_pods(&mut self) -> (bool, Result<(), SyncFailure>) {
        let places = self.active_places();
        let deletions = places.iter().map(|place| self.delete_pod(*place, false));
        let deletions = join_all(deletions).await;
        let all = deletions.iter().all(|deletion| deletion.is_deleted);
        (all, self.note(&deletions))
    }

    /// Counts the deleted pods as terminating. Returns the first error.
    fn note(&mut self, deletions: &[Deletion]) -> Result<(), SyncFailure> {
        let mut outcome = Ok(());
        for deletion in deletions {
            let deleted = i64::from(deletion.is_deleted);
            self.active -= deleted;
            self.terminating += deleted;
            self.ready -= i64::from(deletion.was_ready);
            if let Some(error) = &deletion.error {
                outcome = outcome.and(Err(SyncFailure::new("delete failed", error.as_str())));
            }
        }
        outcome
    }

    async fn delete_pod(&self, place: usize, releases: bool) -> Deletion {
        let pod = &self.pods[place];
        let meta = &pod.pod.metadata;
        let regarding = &self.job.reference;
        let failed = |error: &ApiError, text: String, was_ready: bool| {
            if releases {
                self.shared.expectations.lower(self.key, 0, 1);
            }
            Deletion {
                is_deleted: error.is_not_found(),
                was_ready,
                error: (!error.is_not_found()).then_some(text),
            }
        };
        if releases && pod.is_tracked {
            let patch = self.calls.patch(Kind::POD, meta, REMOVE_FINALIZER, false);
            match patch.await {
                Ok(patched) => self.wrote(Kind::POD, &patched.metadata().resource_version),
                Err(error) => {
                    let text = format!("removing completion finalizer: {}", error.message);
                    return failed(&error, text, false);
                }
            }
        }
        let was_ready = pod.is_ready;
        let delete = Request::DeletePod {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: None,
        };
        match self.calls.send(delete).await {
            Ok(_) => {
                let event = EventIntent::deleted_pod(regarding, &meta.name);
                self.calls.event(event);
                Deletion {
                    is_deleted: true,
                    was_ready,
                    error: None,
                }
            }
            Err(error) => {
                if !error.is_not_found() {
                    let event = EventIntent::failed_delete(regarding, &error.message);
                    self.calls.event(event);
                }
                let text = format!("unable to delete pods: {}", error.message);
                failed(&error, text, was_ready)
            }
        }
    }
}
