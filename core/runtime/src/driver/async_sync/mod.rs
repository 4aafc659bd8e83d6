//! Syncs written as one `async fn`, for workloads whose syncs make a handful of requests: one after
//! the other, several concurrently, or several sequences side by side. The driver polls the
//! function, which is not a task and needs no async runtime. Costs one allocation per sync.

mod calls;
mod verbs;

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use podstorm_objects::Now;

use super::{Step, SyncState, Transport, Workload};
use crate::cache::{Listed, PodChange};
use crate::client::{Answer, EventIntent, Request};
use crate::intern::{KeyId, ObjectKey};
use crate::metrics::Family;
use crate::workqueue::{End, RateLimitingQueue};

pub use calls::{Calls, Started, join_all};
pub use verbs::unless_gone;

/// The reason why a sync failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyncFailure {
    /// The failed step, in one or two words for statistics.
    pub label: &'static str,
    /// The error message.
    pub message: String,
    /// Whether a retry can't help: the sync ends with [`End::Forget`] instead of [`End::Retry`].
    pub is_final: bool,
}

/// The steps of a sync as a future. The output, success or failure, decides how the key continues.
pub trait Steps: Future<Output = Result<End, SyncFailure>> + Send + 'static {}

impl<F: Future<Output = Result<End, SyncFailure>> + Send + 'static> Steps for F {}

/// A [`Workload`] whose sync is an `async fn`. All methods except `steps` are those of
/// [`Workload`].
pub trait AsyncWorkload: Send + Sync + fmt::Debug + 'static {
    /// Returns the name of the object behind a key of the queue with index `queue`.
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey;

    /// Returns the queues of keys to sync: at least one, and always the same.
    fn queues(&self) -> &[RateLimitingQueue<KeyId>];

    /// Handles a change of a pod. The cache already has the change.
    fn pod_changed(&self, change: &PodChange, now: Now) {
        let _ = (change, now);
    }

    /// Handles a list of pods that has replaced the content of the cache.
    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
    }

    /// Returns the current values of the workload's own metrics.
    fn families(&self) -> Vec<Family> {
        Vec::new()
    }

    /// Returns the steps of the sync of a key that was taken from the queue with index `queue`.
    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps;
}

impl<W: AsyncWorkload> Workload for W {
    type Sync = AsyncSync;

    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        AsyncWorkload::name(self, queue, key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        AsyncWorkload::queues(self)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        AsyncWorkload::pod_changed(self, change, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        AsyncWorkload::pods_listed(self, listed, now);
    }

    fn families(&self) -> Vec<Family> {
        AsyncWorkload::families(self)
    }

    fn begin(&self, queue: usize, key: KeyId, sync: &mut AsyncSync, now: Now) -> Step {
        sync.begin(key, now, |calls| self.steps(queue, key, calls))
    }

    fn resume(&self, sync: &mut AsyncSync, now: Now) -> Step {
        sync.resume(now)
    }
}

/// A sync in progress whose steps are an `async fn`. It resumes after each answer, and ends once
/// its steps have ended and every request has an answer.
#[derive(Default)]
pub struct AsyncSync {
    key: KeyId,
    /// The future; `None` unless the steps are running.
    steps: Option<Pin<Box<dyn Steps>>>,
    calls: Calls,
    /// All requests of the sync, by ticket.
    requests: Vec<Request>,
    events: Vec<EventIntent>,
    end: End,
    outcome: Option<SyncFailure>,
}

impl fmt::Debug for AsyncSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSync")
            .field("key", &self.key)
            .field("requests", &self.requests)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl AsyncSync {
    /// Begins the sync of a key. `steps` receives the calls and returns the steps.
    ///
    /// # Panics
    /// Panics if the steps wait for anything other than an answer, here or in
    /// [`resume`](AsyncSync::resume).
    pub fn begin<F: Steps>(
        &mut self,
        key: KeyId,
        now: Now,
        steps: impl FnOnce(Calls) -> F,
    ) -> Step {
        // The last sync may have been abandoned.
        self.steps = None;
        self.calls.reset();
        self.requests.clear();
        self.events.clear();
        (self.key, self.outcome) = (key, None);
        self.steps = Some(Box::pin(steps(self.calls.clone())));
        self.go_on(now)
    }

    /// Resumes the sync after one or several answers.
    ///
    /// # Panics
    /// Panics if the sync has ended.
    pub fn resume(&mut self, now: Now) -> Step {
        assert!(
            self.steps.is_some() || !self.requests.is_empty(),
            "a sync that has ended can't be resumed"
        );
        self.go_on(now)
    }

    /// Returns the failure of the sync, once it has ended; `None` if it succeeded.
    pub fn failure(&self) -> Option<&SyncFailure> {
        self.outcome.as_ref()
    }

    fn go_on(&mut self, now: Now) -> Step {
        self.calls.set_now(now);
        if let Some(steps) = &mut self.steps
            && let Poll::Ready(outcome) =
                steps.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            self.steps = None;
            (self.end, self.outcome) = match outcome {
                Ok(end) => (end, None),
                Err(failure) if failure.is_final => (End::Forget, Some(failure)),
                Err(failure) => (End::Retry, Some(failure)),
            };
        }
        let waits = self.calls.take(&mut self.requests, &mut self.events);
        if waits {
            return Step::Requests;
        }
        assert!(self.steps.is_none(), "a sync waits only for answers");
        self.requests.clear();
        Step::Finished
    }
}

/// Runs steps to their end over a transport that answers immediately, without a workload or a
/// queue. Discards the Events of the steps.
///
/// # Panics
/// Panics if the transport does not answer a request immediately, or if the steps wait for anything
/// other than an answer.
pub fn run_steps<F: Future>(
    steps: impl FnOnce(Calls) -> F,
    transport: &mut impl Transport,
    now: Now,
) -> F::Output {
    let calls = Calls::default();
    calls.set_now(now);
    let mut steps = pin!(steps(calls.clone()));
    let (mut requests, mut events) = (Vec::new(), Vec::new());
    let mut answered = 0;
    loop {
        let polled = steps.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = polled {
            return output;
        }
        calls.take(&mut requests, &mut events);
        assert!(answered < requests.len(), "a sync waits only for answers");
        while let Some(request) = requests.get(answered) {
            let answer = transport.send(answered, request, now);
            calls.answer(answered, answer.expect("the transport answers immediately"));
            answered += 1;
        }
    }
}

impl SyncState for AsyncSync {
    const GOES_ON_AT_EACH_ANSWER: bool = true;

    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn answer(&mut self, index: usize, answer: Answer) {
        self.calls.answer(index, answer);
    }

    fn events(&mut self) -> &mut Vec<EventIntent> {
        &mut self.events
    }

    fn outcome_label(&self) -> &'static str {
        self.outcome.as_ref().map_or("ok", |failure| failure.label)
    }

    fn end(&self) -> End {
        self.end
    }
}

#[cfg(test)]
mod tests;
