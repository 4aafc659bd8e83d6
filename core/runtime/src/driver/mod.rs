//! The loop that drives syncs, without I/O: begin, requests, answers, resume, end.
//!
//! A [`Workload`] decides which requests to make, a [`Transport`] carries them out, and a
//! [`Driver`] connects the two. A transport may answer at once, as an embedded server or a script
//! does, or later, as a network client does. In the second case its owner passes the answer to
//! [`Driver::answer`] and calls [`Driver::poll`].
//!
//! ```text
//! queue ─key─▶ begin ─requests─▶ Transport::send ─┬─ answer at once ─────────┐
//!                ▲                                └─ none: Driver::answer ───┤
//!                └───────────────── resume ◀── every request is answered ◀───┘
//! ```
//!
//! A sync of several sequences side by side is resumed at each answer instead: see
//! [`SyncState::GOES_ON_AT_EACH_ANSWER`].

mod async_sync;

use std::mem;

use podstorm_objects::Now;

use crate::cache::{Listed, PodChange};
use crate::client::{Answer, EventIntent, Request};
use crate::intern::{KeyId, ObjectKey};
use crate::metrics::Family;
use crate::workqueue::{End, RateLimitingQueue, Take};

pub use async_sync::{AsyncSync, Calls, Started, SyncFailure, join_all, run_steps, unless_gone};

/// What a sync needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Carry out those of [`SyncState::requests`] that are new, concurrently, pass each
    /// [`SyncState::answer`], then call [`Workload::resume`].
    Requests,
    /// The sync is over.
    Finished,
}

impl Step {
    /// Returns the step of a sync with these requests; finished if there are none.
    pub fn of(requests: &[Request]) -> Step {
        if requests.is_empty() {
            Step::Finished
        } else {
            Step::Requests
        }
    }
}

/// A sync in progress, as a driver sees it. Made once and reused, with its scratch memory, for
/// every key.
pub trait SyncState: Default + Send {
    /// Whether the sync is resumed at each answer instead of after the last one of its batch, so
    /// that sequences of requests side by side don't wait for each other. Its requests keep their
    /// indices until it is over; new ones follow them.
    const GOES_ON_AT_EACH_ANSWER: bool = false;

    /// Returns the requests to carry out concurrently, the answered ones of a sync that goes on at
    /// each answer included.
    fn requests(&self) -> &[Request];

    /// Sets the answer of a request, in any order.
    ///
    /// # Panics
    /// There is no request with this index, or it has been answered.
    fn answer(&mut self, index: usize, answer: Answer);

    /// Returns the Events to write. The driver takes them.
    fn events(&mut self) -> &mut Vec<EventIntent>;

    /// How the sync ended, in one or two words for statistics: `ok`, `create failed`. Meaningless
    /// before the end.
    fn outcome_label(&self) -> &'static str;

    /// How the sync ended, for its key. Meaningless before the end.
    fn end(&self) -> End;
}

/// A controller of one kind of workload: its keys, and the requests of a sync. No
/// I/O, no clock. All input comes in by these methods, and by the handlers that the workload adds to
/// the [`Informers`](crate::informer::Informers) of its controller manager; on any thread.
///
/// Several workloads share one cache of pods, which the program that runs them fills. Each workload
/// gets the changes of the [pods of its row](crate::row::ControllerRow::pods), after the cache has
/// them.
pub trait Workload: Send + Sync + std::fmt::Debug + 'static {
    /// The state of a sync.
    type Sync: SyncState;

    /// Returns the name of what this key of its queue `queue` stands for.
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey;

    /// Its queues of keys to sync, at least one, always the same. Each has keys, workers and a timer of
    /// its own; other methods name a queue by its place here. The first is that of its objects.
    fn queues(&self) -> &[RateLimitingQueue<KeyId>];

    /// A pod changed. The cache has the change already.
    fn pod_changed(&self, change: &PodChange, now: Now) {
        let _ = (change, now);
    }

    /// The cache was replaced by a list of pods, with these changes.
    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
    }

    /// Begins the sync of a key that was taken from its queue `queue`.
    fn begin(&self, queue: usize, key: KeyId, sync: &mut Self::Sync, now: Now) -> Step;

    /// Its own metrics as they are now; its queues have theirs.
    fn families(&self) -> Vec<Family> {
        Vec::new()
    }

    /// Continues the sync after every request of the batch has an answer; after an answer if its
    /// state [says so](SyncState::GOES_ON_AT_EACH_ANSWER).
    ///
    /// # Panics
    /// A request of a batch has no answer, or the sync is over.
    fn resume(&self, sync: &mut Self::Sync, now: Now) -> Step;
}

/// Carries requests out.
pub trait Transport {
    /// Sends the request with this index in [`SyncState::requests`]. `None`: the answer comes later,
    /// by [`Driver::answer`].
    fn send(&mut self, index: usize, request: &Request, now: Now) -> Option<Answer>;
}

impl<F: FnMut(&Request, Now) -> Answer> Transport for F {
    #[inline]
    fn send(&mut self, _: usize, request: &Request, now: Now) -> Option<Answer> {
        Some(self(request, now))
    }
}

/// How far a sync has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The sync waits for answers.
    Waiting,
    /// The sync is over. Its state says how it ended; [`Driver::finish`] gives its key back.
    Finished,
}

/// One worker: drives one sync at a time.
#[derive(Debug, Default)]
pub struct Driver<S> {
    /// The sync.
    pub sync: S,
    /// The number of requests without an answer.
    waiting: usize,
    /// Of a sync that goes on at each answer: the number of requests that were sent, and whether
    /// one was answered since the sync last went on.
    sent: usize,
    is_answered: bool,
    /// The place of the queue from which its key was taken.
    queue: usize,
    key: KeyId,
}

impl<S: SyncState> Driver<S> {
    /// Begins the sync of a key that was taken from the workload's queue `queue`, and drives it until
    /// it waits for answers or is over.
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

    /// Gives the key of a sync that is over back to its queue, as the sync has ended.
    #[inline]
    pub fn finish<W: Workload<Sync = S>>(&self, workload: &W, now: Now) {
        workload.queues()[self.queue].finish(self.key, self.sync.end(), now.mono_ns);
    }

    /// Sets the answer of a request that was sent.
    ///
    /// # Panics
    /// The request has been answered.
    pub fn answer(&mut self, index: usize, answer: Answer) {
        self.sync.answer(index, answer);
        self.waiting -= 1;
        self.is_answered |= S::GOES_ON_AT_EACH_ANSWER;
    }

    /// Reports whether the sync waits for another answer; if not, the caller resumes it.
    #[inline]
    fn must_wait(&mut self) -> bool {
        match S::GOES_ON_AT_EACH_ANSWER {
            true => !mem::take(&mut self.is_answered),
            false => self.waiting > 0,
        }
    }

    /// Continues the sync if every request has an answer; if any has got one since, where the sync
    /// goes on at each.
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

/// Syncs every waiting key of every queue to its end, over a transport that answers at once. Keys of
/// an earlier queue come first. `ended` is called after each sync, before its key goes back to its
/// queue. Returns the number of syncs.
///
/// # Panics
/// The transport does not answer a request at once.
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
            "the transport answers at once"
        );
        ended(&mut driver.sync);
        driver.finish(workload, now);
        syncs += 1;
    }
    syncs
}

#[cfg(test)]
mod tests;
