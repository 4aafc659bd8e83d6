//! The loop that drives syncs, without I/O: begin, requests, answers, resume, finish.
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

use podstorm_objects::{Kind, Now};

use crate::cache::{Listed, PodChange, PodFields};
use crate::client::{Answer, EventIntent, Request};
use crate::intern::{KeyId, ObjectKey};
use crate::workqueue::{RateLimitingQueue, Take};

pub use async_sync::{AsyncSync, Calls, Started, SyncFailure, join_all};

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
    /// The step of a sync with these requests; finished if there are none.
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

    /// The requests to carry out concurrently, the answered ones of a sync that goes on at each
    /// answer included.
    fn requests(&self) -> &[Request];

    /// Sets the answer of a request, in any order.
    ///
    /// # Panics
    /// There is no request with this index, or it has been answered.
    fn answer(&mut self, index: usize, answer: Answer);

    /// The Events to write. The driver takes them.
    fn events(&mut self) -> &mut Vec<EventIntent>;

    /// How the sync ended, in one or two words for statistics: `ok`, `create failed`. Meaningless
    /// before the end.
    fn outcome_label(&self) -> &'static str;
}

/// A controller of one kind of workload: what it reads, its keys, and the requests of a sync. No
/// I/O, no clock. All input comes in by these methods, and by the handlers that the workload adds to
/// the [`Informers`](crate::informer::Informers) of its controller manager; on any thread.
///
/// Several workloads share one cache of pods, which the program that runs them fills. Each workload
/// gets the changes that [concern](PodChange::concerns) owners of its
/// [`pod_owner_kind`](Workload::pod_owner_kind), after the cache has them.
pub trait Workload: Send + Sync + std::fmt::Debug + 'static {
    /// The fields that the shared cache keeps of each pod.
    type Fields: PodFields;

    /// The state of a sync.
    type Sync: SyncState;

    /// The kind of its objects, which own pods, or objects that do.
    fn kind(&self) -> Kind;

    /// The name of the object with this key.
    fn name(&self, key: KeyId) -> ObjectKey;

    /// The queue of keys to sync.
    fn queue(&self) -> &RateLimitingQueue<KeyId>;

    /// A pod changed. The cache has the change already.
    fn pod_changed(&self, change: &PodChange<Self::Fields>, now: Now);

    /// The cache was replaced by a list of pods, with these changes.
    fn pods_listed(&self, listed: &Listed<Self::Fields>, now: Now);

    /// The kinds besides its own and pods that it reads, for a workload that owns objects other than
    /// pods.
    fn other_kinds(&self) -> &[Kind] {
        &[]
    }

    /// The kind that owns the pods whose changes it hears of: its own, or that of its objects.
    fn pod_owner_kind(&self) -> Kind {
        self.kind()
    }

    /// Begins the sync of a key that was taken from the queue.
    fn begin(&self, key: KeyId, sync: &mut Self::Sync, now: Now) -> Step;

    /// Continues the sync after every request of the batch has an answer; after an answer if its
    /// state [says so](SyncState::GOES_ON_AT_EACH_ANSWER).
    ///
    /// # Panics
    /// A request of a batch has no answer, or the sync is over.
    fn resume(&self, sync: &mut Self::Sync, now: Now) -> Step;

    /// Gives the key of a finished sync back to the queue, to be forgotten or retried.
    fn finish(&self, sync: &mut Self::Sync, now: Now);
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
    /// The sync is over. Its state says how it ended; [`Workload::finish`] takes its key.
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
}

impl<S: SyncState> Driver<S> {
    /// Begins the sync of a key and drives it until it waits for answers or is over.
    #[inline]
    pub fn begin<W: Workload<Sync = S>>(
        &mut self,
        workload: &W,
        key: KeyId,
        transport: &mut impl Transport,
        now: Now,
    ) -> Progress {
        // The last sync may have been abandoned.
        self.waiting = 0;
        if S::GOES_ON_AT_EACH_ANSWER {
            (self.sent, self.is_answered) = (0, false);
        }
        let step = workload.begin(key, &mut self.sync, now);
        self.drive(workload, step, transport, now)
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

    /// Whether the sync waits for another answer; if not, the caller resumes it.
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

/// Syncs every waiting key to its end, over a transport that answers at once. `ended` is called
/// after each sync, before its key goes back to the queue. Returns the number of syncs.
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
    workload.queue().fire_due(now.mono_ns);
    while let Take::Key(key) = workload.queue().try_take(now.mono_ns) {
        let progress = driver.begin(workload, key, transport, now);
        assert_eq!(
            progress,
            Progress::Finished,
            "the transport answers at once"
        );
        ended(&mut driver.sync);
        workload.finish(&mut driver.sync, now);
        syncs += 1;
    }
    syncs
}

#[cfg(test)]
mod tests;
