//! Syncs that are written as one straight-line `async fn`, for workloads whose syncs make a handful
//! of requests, one after the other. The driver polls the function: it is no task, has no waker and
//! needs no runtime. One allocation for each sync.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use podstorm_objects::Now;

use super::{Step, SyncState};
use crate::client::{Answer, EventIntent, Request};
use crate::intern::KeyId;
use crate::primitives::{Mutex, lock};

/// Why a sync failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyncFailure {
    /// The step that failed, in one or two words for statistics.
    pub label: &'static str,
    /// The error's text.
    pub message: String,
    /// Whether a retry can't help, so that the key waits for the next event.
    pub is_final: bool,
}

/// What is left of a sync.
type Steps = Pin<Box<dyn Future<Output = Result<(), SyncFailure>> + Send>>;

/// A sync in progress whose steps are an `async fn`.
#[derive(Default)]
pub struct AsyncSync {
    key: KeyId,
    /// Present while the sync is under way.
    steps: Option<Steps>,
    calls: Calls,
    requests: Vec<Request>,
    answer: Option<Answer>,
    events: Vec<EventIntent>,
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

/// How the steps of a sync reach what is outside: the time, the API, and Events.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<Exchange>>);

#[derive(Debug, Default)]
struct Exchange {
    now: Now,
    request: Option<Request>,
    answer: Option<Answer>,
    events: Vec<EventIntent>,
}

impl Calls {
    /// The time: when the sync began, or when the last answer came.
    pub fn now(&self) -> Now {
        lock(&self.0).now
    }

    /// Makes an API call and waits for its answer.
    pub async fn request(&self, request: Request) -> Answer {
        lock(&self.0).request = Some(request);
        poll_fn(|_| match lock(&self.0).answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Records an Event.
    pub fn event(&self, event: EventIntent) {
        lock(&self.0).events.push(event);
    }
}

impl AsyncSync {
    /// Begins the sync of a key: `steps` gets the calls and returns the steps as a future.
    pub fn begin<F>(&mut self, key: KeyId, now: Now, steps: impl FnOnce(Calls) -> F) -> Step
    where
        F: Future<Output = Result<(), SyncFailure>> + Send + 'static,
    {
        // The last sync may have been abandoned.
        *lock(&self.calls.0) = Exchange::default();
        (self.key, self.outcome, self.answer) = (key, None, None);
        self.events.clear();
        self.steps = Some(Box::pin(steps(self.calls.clone())));
        self.go_on(now)
    }

    /// Goes on after the answer to its request.
    ///
    /// # Panics
    /// There is no answer, or the sync is over.
    pub fn resume(&mut self, now: Now) -> Step {
        let answer = self.answer.take();
        let answer = answer.expect("every request is answered before the sync is resumed");
        lock(&self.calls.0).answer = Some(answer);
        self.go_on(now)
    }

    /// The key being synced.
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Why the sync failed, once it is over; `None` if it didn't.
    pub fn failure(&self) -> Option<&SyncFailure> {
        self.outcome.as_ref()
    }

    fn go_on(&mut self, now: Now) -> Step {
        lock(&self.calls.0).now = now;
        let steps = self.steps.as_mut();
        let steps = steps.expect("a sync that is over can't be resumed");
        let polled = steps.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let mut exchange = lock(&self.calls.0);
        self.events.append(&mut exchange.events);
        self.requests.clear();
        match polled {
            Poll::Ready(outcome) => {
                self.steps = None;
                self.outcome = outcome.err();
            }
            Poll::Pending => self.requests.extend(exchange.request.take()),
        }
        Step::of(&self.requests)
    }
}

impl SyncState for AsyncSync {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn answer(&mut self, index: usize, answer: Answer) {
        assert!(index < self.requests.len(), "there is no request {index}");
        let before = self.answer.replace(answer);
        assert!(before.is_none(), "request {index} is answered twice");
    }

    fn events(&mut self) -> &mut Vec<EventIntent> {
        &mut self.events
    }

    fn outcome_label(&self) -> &'static str {
        self.outcome.as_ref().map_or("ok", |failure| failure.label)
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{ApiError, Kind, ResourceVersion};

    use super::*;

    const READ: Request = Request::ReadVersion { kind: Kind::POD };

    fn at(mono_ns: i64) -> Now {
        Now {
            mono_ns,
            wall_ns: 0,
        }
    }

    async fn two_reads(calls: Calls) -> Result<(), SyncFailure> {
        for _ in 0..2 {
            if let Answer::Failed(error) = calls.request(READ).await {
                return Err(SyncFailure {
                    label: "read failed",
                    message: error.message,
                    is_final: false,
                });
            }
        }
        assert_eq!(calls.now().mono_ns, 3, "the time of the last answer");
        Ok(())
    }

    fn version() -> Answer {
        Answer::Version(ResourceVersion::from(1))
    }

    #[test]
    fn each_request_waits_for_its_answer() {
        let mut sync = AsyncSync::default();
        let key = KeyId::default();
        assert_eq!(sync.begin(key, at(1), two_reads), Step::Requests);
        assert_eq!(sync.requests().len(), 1);
        sync.answer(0, version());
        assert_eq!(sync.resume(at(2)), Step::Requests);
        sync.answer(0, version());
        assert_eq!(sync.resume(at(3)), Step::Finished);
        assert_eq!((sync.outcome_label(), sync.requests().len()), ("ok", 0));
        assert_eq!(sync.begin(key, at(1), |_| async { Ok(()) }), Step::Finished);
    }

    #[test]
    fn a_sync_that_was_abandoned_leaves_nothing_to_the_next() {
        let mut sync = AsyncSync::default();
        let key = KeyId::default();
        assert_eq!(sync.begin(key, at(1), two_reads), Step::Requests);
        sync.answer(0, version());
        assert_eq!(sync.begin(key, at(1), two_reads), Step::Requests);
        sync.answer(0, Answer::Failed(ApiError::transport("gone")));
        assert_eq!(sync.resume(at(2)), Step::Finished);
        assert_eq!(sync.outcome_label(), "read failed");
        assert_eq!(sync.failure().unwrap().to_string(), "gone");
    }

    #[test]
    #[should_panic(expected = "answered twice")]
    fn a_request_has_one_answer() {
        let mut sync = AsyncSync::default();
        let _requests = sync.begin(KeyId::default(), at(1), two_reads);
        sync.answer(0, version());
        sync.answer(0, version());
    }
}
