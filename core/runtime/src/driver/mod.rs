//! The loop that drives syncs, without I/O: begin, requests, answers, resume, end.
//!
//! A [`Workload`] decides which requests to make, a [`Transport`] carries them out, and a
//! [`Driver`] connects the two. A transport may answer immediately, like an embedded server or a
//! script, or later, like a network client. In the second case its owner passes the answer to
//! [`Driver::answer`] and calls [`Driver::poll`].
//!
//! ```text
//! queue ─key─▶ begin ─requests─▶ Transport::send ─┬─ immediate answer ───────┐
//!                ▲                                └─ none: Driver::answer ───┤
//!                └───────────────── resume ◀── every request is answered ◀───┘
//! ```
//!
//! A sync with several sequences of requests side by side is resumed after each answer instead: see
//! [`SyncState::GOES_ON_AT_EACH_ANSWER`].

mod async_sync;

use std::mem;

use podstorm_objects::Now;

use crate::cache::{Listed, PodChange};
use crate::client::{Answer, EventIntent, Request};
use crate::intern::{KeyId, ObjectKey};
use crate::metrics::Family;
use crate::workqueue::{End, RateLimitingQueue, Take};

pub use async_sync::{
    AsyncSync, AsyncWorkload, Calls, Started, Steps, SyncFailure, join_all, run_steps, unless_gone,
};

/// The next step of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Carry out the new requests in [`SyncState::requests`] concurrently, pass each answer to
    /// [`SyncState::answer`], then call [`Workload::resume`].
    Requests,
    /// The sync has ended.
    Finished,
}

impl Step {
    /// Returns the step of a sync with these requests: `Finished` if there are none.
    pub fn from_requests(requests: &[Request]) -> Step {
        if requests.is_empty() {
            Step::Finished
        } else {
            Step::Requests
        }
    }
}

/// A sync in progress, as a driver sees it. A worker creates one and reuses it for every key, with
/// its scratch memory.
pub trait SyncState: Default + Send {
    /// Whether the sync is resumed after each answer instead of after the last one of its batch, so
    /// that sequences of requests side by side don't wait for each other. Requests keep their
    /// indices until the sync ends; new requests follow them.
    const GOES_ON_AT_EACH_ANSWER: bool = false;

    /// Returns the requests that may be carried out concurrently. Includes the answered ones if the
    /// sync is resumed after each answer.
    fn requests(&self) -> &[Request];

    /// Sets the answer to a request. Answers may come in any order.
    ///
    /// # Panics
    /// Panics if there is no request with this index or it already has an answer.
    fn answer(&mut self, index: usize, answer: Answer);

    /// Returns the Events to write. The driver drains them.
    fn events(&mut self) -> &mut Vec<EventIntent>;

    /// Returns how the sync ended, in one or two words for statistics, e.g. `ok` or `create
    /// failed`. Meaningless before the end.
    fn outcome_label(&self) -> &'static str;

    /// Returns what the end of the sync means for its key. Meaningless before the end.
    fn end(&self) -> End;
}

/// A controller of one kind of workload: its keys, and the requests of a sync. It does no I/O and
/// reads no clock. All input enters through these methods, and through the handlers that the
/// workload adds to the [`Informers`](crate::informer::Informers) of its controller manager, on any
/// thread.
///
/// Several workloads share one cache of pods, which the program that runs them fills. Each workload
/// receives the changes of the [pods in its row](crate::row::ControllerRow::pods), after the cache
/// has applied them.
pub trait Workload: Send + Sync + std::fmt::Debug + 'static {
    /// The state of a sync.
    type Sync: SyncState;

    /// Returns the name of the object behind a key of the queue with index `queue`.
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey;

    /// Returns the queues of keys to sync: at least one, and always the same. Each queue has its
    /// own keys, workers and timer. Other methods identify a queue by its index here. The first is
    /// the queue for the workload's objects.
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

    /// Begins the sync of a key that was taken from the queue with index `queue`.
    fn begin(&self, queue: usize, key: KeyId, sync: &mut Self::Sync, now: Now) -> Step;

    /// Returns the current values of the workload's own metrics. Its queues have separate metrics.
    fn families(&self) -> Vec<Family> {
        Vec::new()
    }

    /// Resumes the sync once every request of the batch has an answer, or after each answer if
    /// [`SyncState::GOES_ON_AT_EACH_ANSWER`] is set.
    ///
    /// # Panics
    /// Panics if a request of a batch has no answer or the sync has ended.
    fn resume(&self, sync: &mut Self::Sync, now: Now) -> Step;
}

/// Carries out the requests of syncs.
pub trait Transport {
    /// Sends the request with this index in [`SyncState::requests`]. Returns the answer; `None` if
    /// it will come later, through [`Driver::answer`].
    fn send(&mut self, index: usize, request: &Request, now: Now) -> Option<Answer>;
}

impl<F: FnMut(&Request, Now) -> Answer> Transport for F {
    #[inline]
    fn send(&mut self, _: usize, request: &Request, now: Now) -> Option<Answer> {
        Some(self(request, now))
    }
}

/// The progress of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The sync waits for answers.
    Waiting,
    /// The sync has ended. Its state has the outcome, and [`Driver::finish`] gives its key back.
    Finished,
}

/// One worker, which drives one sync at a time.
#[derive(Debug, Default)]
pub struct Driver<S> {
    /// The sync that the worker drives.
    pub sync: S,
    /// The number of sent requests without an answer.
    waiting: usize,
    /// The number of requests sent so far. This field and the next, whether an answer came since
    /// the sync was last resumed, are for syncs that are resumed after each answer.
    sent: usize,
    is_answered: bool,
    /// The index of the queue from which the key was taken.
    queue: usize,
    key: KeyId,
}

impl<S: SyncState> Driver<S> {
    /// Begins the sync of a key that was taken from the workload's queue with index `queue`, and
    /// drives the sync until it waits for answers or ends.
    #[inline]
    pub fn begin<W: Workload<Sync = S>>(
        &mut self,
        workload: &W,
        queue: usize,
        key: KeyId,
        transport: &mut impl Transport,
        now: Now,
    ) -> Progress {
        // The last sync may have been abandoned.
        self.waiting = 0;
        if S::GOES_ON_AT_EACH_ANSWER {
            (self.sent, self.is_answered) = (0, false);
        }
        (self.queue, self.key) = (queue, key);
        let step = workload.begin(queue, key, &mut self.sync, now);
        self.drive(workload, step, transport, now)
    }

    /// Gives the key of an ended sync back to its queue, with the end of the sync.
    #[inline]
    pub fn finish<W: Workload<Sync = S>>(&self, workload: &W, now: Now) {
        workload.queues()[self.queue].finish(self.key, self.sync.end(), now.mono_ns);
    }

    /// Sets the answer to a sent request.
    ///
    /// # Panics
    /// Panics if the request already has an answer.
    pub fn answer(&mut self, index: usize, answer: Answer) {
        self.sync.answer(index, answer);
        self.waiting -= 1;
        self.is_answered |= S::GOES_ON_AT_EACH_ANSWER;
    }

    /// Reports whether the sync must wait for another answer. If not, the caller must resume it.
    #[inline]
    fn must_wait(&mut self) -> bool {
        match S::GOES_ON_AT_EACH_ANSWER {
            true => !mem::take(&mut self.is_answered),
            false => self.waiting > 0,
        }
    }

    /// Resumes the sync if every request has an answer or, for a sync that is resumed after each
    /// answer, if a new answer has arrived.
    pub fn poll<W: Workload<Sync = S>>(
        &mut self,
        workload: &W,
        transport: &mut impl Transport,
        now: Now,
    ) -> Progress {
        if self.must_wait() {
            return Progress::Waiting;
        }
        let step = workload.resume(&mut self.sync, now);
        self.drive(workload, step, transport, now)
    }

    #[inline]
    fn drive<W: Workload<Sync = S>>(
        &mut self,
        workload: &W,
        mut step: Step,
        transport: &mut impl Transport,
        now: Now,
    ) -> Progress {
        while step == Step::Requests {
            let last = self.sync.requests().len();
            let first = match S::GOES_ON_AT_EACH_ANSWER {
                true => mem::replace(&mut self.sent, last),
                false => 0,
            };
            for index in first..last {
                match transport.send(index, &self.sync.requests()[index], now) {
                    Some(answer) => {
                        self.sync.answer(index, answer);
                        self.is_answered |= S::GOES_ON_AT_EACH_ANSWER;
                    }
                    None => self.waiting += 1,
                }
            }
            if self.must_wait() {
                return Progress::Waiting;
            }
            step = workload.resume(&mut self.sync, now);
        }
        Progress::Finished
    }
}

/// Syncs every waiting key of every queue, over a transport that answers immediately. Keys of an
/// earlier queue come first. Calls `ended` after each sync, before the key goes back to its queue.
/// Returns the number of syncs.
///
/// # Panics
/// Panics if the transport does not answer a request immediately.
pub fn sync_all<W: Workload>(
    workload: &W,
    driver: &mut Driver<W::Sync>,
    transport: &mut impl Transport,
    now: Now,
    mut ended: impl FnMut(&mut W::Sync),
) -> usize {
    let mut syncs = 0;
    for queue in workload.queues() {
        queue.fire_due(now.mono_ns);
    }
    let take = |(at, queue): (usize, &RateLimitingQueue<KeyId>)| match queue.try_take(now.mono_ns) {
        Take::Key(key) => Some((at, key)),
        Take::Empty | Take::ShutDown => None,
    };
    while let Some((queue, key)) = workload.queues().iter().enumerate().find_map(take) {
        let progress = driver.begin(workload, queue, key, transport, now);
        assert_eq!(
            progress,
            Progress::Finished,
            "the transport answers immediately"
        );
        ended(&mut driver.sync);
        driver.finish(workload, now);
        syncs += 1;
    }
    syncs
}

#[cfg(test)]
mod tests;
