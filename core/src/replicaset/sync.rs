//! The state of one sync of one key, which is a state machine: it requests API calls and receives
//! their answers. `steps.rs` has its steps.

use std::sync::Arc;

use podstorm_objects::{Kind, ReplicaSetStatus, Time};
use podstorm_runtime::claim::Claim;
use podstorm_runtime::client::{Answer, EventIntent, Request};
use podstorm_runtime::consistency::{Checked, Kinds, Stale};
use podstorm_runtime::driver::{Step, SyncState};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::slow_start::SlowStart;
use podstorm_runtime::workqueue::End;

use super::hardened::PendingNames;
use super::owners::Owner;
use super::reconcile::StatusCounts;
use super::scale::PodsToDelete;

/// A sync in progress. Each worker creates one and reuses it for every key, scratch memory
/// included. It starts in its final state; [`Controller::begin`](super::Controller::begin) begins a
/// sync.
#[derive(Debug, Default)]
pub struct ReplicaSetSync {
    pub(super) key: KeyId,
    pub(super) stage: SyncStage,
    pub(super) outcome: Outcome,
    pub(super) requests: Vec<Request>,
    pub(super) answers: Vec<Option<Answer>>,
    /// The indices of the answered requests, in the order in which the answers came.
    pub(super) answered: Vec<usize>,
    pub(super) events: Vec<EventIntent>,
    pub(super) requests_made: u32,
    /// The owner, stored while requests are in flight. The fields from here on belong to one sync.
    pub(super) owner: Option<Arc<Owner>>,
    pub(super) may_scale: bool,
    pub(super) claim: Option<Box<Claim>>,
    pub(super) counts: PodCounts,
    pub(super) to_delete: PodsToDelete,
    pub(super) slow_start: SlowStart,
    pub(super) creates_wanted: usize,
    /// The lowest slot whose name has not been looked up yet, if the controller names pods.
    pub(super) next_slot: u64,
    /// The names of creates with an unknown outcome, loaded before the pods are counted.
    pub(super) pending: PendingNames,
    /// The number of free pending names that this sync has used.
    pub(super) pending_asked: usize,
    /// The error of the creates or deletes. The sync returns it only after the status is written.
    pub(super) manage_error: Option<(SyncErrorClass, String)>,
    pub(super) new_status: Option<Box<ReplicaSetStatus>>,
    /// The result of checking the caches; hardened behaviour only.
    pub(super) checked: Option<Checked>,
    /// The kinds with a write of unknown outcome.
    pub(super) unknown: Kinds,
    /// The error for which the sync is retried without an Event or a condition.
    pub(super) silent_error: Option<(SyncErrorClass, String)>,
}

/// Counts of the owner's pods, taken at the moment of the claim.
#[derive(Debug, Default)]
pub(super) struct PodCounts {
    pub(super) status: StatusCounts,
    /// The number of pods that became ready at or before the availability cutoff. This field and
    /// the next are filled only if `minReadySeconds` is set.
    pub(super) available_at_cutoff: u32,
    /// The ready times after the cutoff, with the number of pods at each time.
    pub(super) ready_times: Vec<(Time, u32)>,
    pub(super) terminating: i32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SyncStage {
    #[default]
    Finished,
    ReadingOwnerToAdopt,
    Patching,
    Creating,
    Deleting,
    PuttingStatus,
    ReadingOwnerToRetry,
    PuttingStatusAgain,
    /// Reads versions before anything else. The owner is not known yet.
    ReadingFence,
    /// Reads versions after everything else.
    ReadingLastFence,
}

/// How a sync ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Success, or there was nothing to do.
    #[default]
    Ok,
    /// The sync failed, and its key is retried.
    Failed(SyncError),
}

/// The error of a failed sync.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyncError {
    /// The step that failed.
    pub class: SyncErrorClass,
    /// The error message.
    pub message: String,
    /// The errors of the individual pods, if several pods were claimed.
    pub details: Vec<String>,
}

/// The step in which a sync failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncErrorClass {
    /// The cache of this kind does not show the last writes yet.
    Consistency(Kind),
    /// A version that the caches must reach could not be read.
    Fence,
    /// The owner has no namespace, name or UID.
    Identity,
    /// A pod could not be adopted or released.
    Claim,
    /// A pod could not be created.
    Create,
    /// A pod could not be deleted.
    Delete,
    /// The status could not be written.
    Status,
}

impl SyncState for ReplicaSetSync {
    #[inline]
    fn requests(&self) -> &[Request] {
        ReplicaSetSync::requests(self)
    }

    #[inline]
    fn answer(&mut self, index: usize, answer: Answer) {
        ReplicaSetSync::answer(self, index, answer);
    }

    #[inline]
    fn events(&mut self) -> &mut Vec<EventIntent> {
        &mut self.events
    }

    fn outcome_label(&self) -> &'static str {
        match &self.outcome {
            Outcome::Ok => "ok",
            Outcome::Failed(error) => error.class.label(),
        }
    }

    #[inline]
    fn end(&self) -> End {
        match &self.outcome {
            Outcome::Ok => End::Forget,
            Outcome::Failed(_) if self.slow_start.successes() > 0 => End::RetryAfterProgress,
            Outcome::Failed(error) => match error.class {
                // Such a sync stops before its first request.
                SyncErrorClass::Consistency(_) => End::Postpone,
                _ => End::Retry,
            },
        }
    }
}

impl SyncErrorClass {
    /// Returns the name of the class in one or two words, for statistics.
    pub fn label(self) -> &'static str {
        match self {
            SyncErrorClass::Consistency(_) => "stale cache",
            SyncErrorClass::Fence => "fence failed",
            SyncErrorClass::Identity => "identity",
            SyncErrorClass::Claim => "claim failed",
            SyncErrorClass::Create => "create failed",
            SyncErrorClass::Delete => "delete failed",
            SyncErrorClass::Status => "status failed",
        }
    }
}

impl ReplicaSetSync {
    /// Returns the key being synced.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Returns the current batch of requests, which may be carried out concurrently.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Sets the answer to a request. Answers may come in any order. Of several failures, the first
    /// to arrive becomes the error of the sync.
    ///
    /// # Panics
    /// Panics if `index` is out of range or the request already has an answer.
    #[inline]
    pub fn answer(&mut self, index: usize, answer: Answer) {
        let place = &mut self.answers[index];
        assert!(place.is_none(), "request {index} was answered twice");
        *place = Some(answer);
        self.answered.push(index);
    }

    /// Returns the number of requests that this sync has made so far.
    pub fn requests_made(&self) -> u32 {
        self.requests_made
    }

    /// Drains the Events recorded since the last call.
    pub fn take_events(&mut self) -> std::vec::Drain<'_, EventIntent> {
        self.events.drain(..)
    }

    /// Returns how the sync ended. Meaningful only after the sync has ended.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    pub(super) fn reset(&mut self, key: KeyId) {
        if self.stage != SyncStage::Finished {
            // Needed if the last sync was abandoned; a finished sync leaves no requests or answers.
            let _step = self.finish();
        }
        self.key = key;
        self.outcome = Outcome::Ok;
        self.answered.clear();
        self.events.clear();
        self.requests_made = 0;
        self.owner = None;
        self.claim = None;
        self.counts.status = StatusCounts::default();
        self.counts.available_at_cutoff = 0;
        self.counts.ready_times.clear();
        self.counts.terminating = 0;
        self.to_delete.clear();
        self.next_slot = 0;
        self.pending.clear();
        self.pending_asked = 0;
        self.manage_error = None;
        self.new_status = None;
        self.unknown = Kinds::default();
        self.silent_error = None;
    }

    /// Takes the error with which the sync ends once its status is written; `None` if it succeeded.
    #[inline]
    pub(super) fn take_error(&mut self) -> Option<(SyncErrorClass, String)> {
        if self.manage_error.is_none() && self.silent_error.is_none() {
            return None;
        }
        let error = self.manage_error.take();
        error.or_else(|| self.silent_error.take())
    }

    pub(super) fn finish(&mut self) -> Step {
        self.stage = SyncStage::Finished;
        self.requests.clear();
        self.answers.clear();
        Step::Finished
    }

    pub(super) fn fail(&mut self, class: SyncErrorClass, message: String) -> Step {
        self.outcome = Outcome::Failed(SyncError {
            class,
            message,
            details: Vec::new(),
        });
        self.finish()
    }

    /// Fails a sync because a cache does not show the controller's own writes yet.
    #[cold]
    pub(super) fn postpone(&mut self, stale: &Stale) -> Step {
        self.fail(SyncErrorClass::Consistency(stale.kind), stale.to_string())
    }

    /// Replaces the batch of requests.
    pub(super) fn request(
        &mut self,
        stage: SyncStage,
        requests: impl IntoIterator<Item = Request>,
    ) -> Step {
        self.requests.clear();
        self.requests.extend(requests);
        self.await_answers(stage)
    }

    /// Replaces the batch with `size` equal requests. Reuses the requests of the last batch if it
    /// belongs to the same stage.
    pub(super) fn request_again(
        &mut self,
        stage: SyncStage,
        size: usize,
        request: impl FnMut() -> Request,
    ) -> Step {
        if self.stage != stage {
            self.requests.clear();
        }
        self.requests.resize_with(size, request);
        self.await_answers(stage)
    }

    /// Prepares for the answers to the requests.
    pub(super) fn await_answers(&mut self, stage: SyncStage) -> Step {
        self.stage = stage;
        self.answers.clear();
        self.answered.clear();
        self.answers.resize_with(self.requests.len(), || None);
        self.requests_made += u32::try_from(self.requests.len()).expect("batches are bounded");
        Step::Requests
    }

    /// Checks that every request has an answer.
    pub(super) fn require_answers(&self) {
        assert_eq!(
            self.answered.len(),
            self.requests.len(),
            "every request must be answered before the sync resumes"
        );
    }

    /// Takes the only answer of a batch of one request.
    pub(super) fn only_answer(&mut self) -> Answer {
        self.require_answers();
        let index = self.answered[0];
        self.answers[index]
            .take()
            .expect("an answer is taken only once")
    }
}
