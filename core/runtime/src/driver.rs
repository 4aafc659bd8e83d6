//! The loop that drives syncs, without I/O: begin, requests, answers, resume, finish.
//!
//! A [`Workload`] says what to ask for, a [`Transport`] carries it out, a [`Driver`] stands between
//! them. A transport may answer at once, as an embedded server or a script does, or later, as
//! whatever travels does; then its owner gives the answer to [`Driver::answer`] and calls
//! [`Driver::poll`].
//!
//! ```text
//! queue ─key─▶ begin ─requests─▶ Transport::send ─┬─ answer at once ─────────┐
//!                ▲                                └─ none: Driver::answer ───┤
//!                └───────────────── resume ◀── every request is answered ◀───┘
//! ```

use podstorm_objects::{AnyObject, Kind, Now, Object, ResourceVersion};

use crate::cache::{Delta, Listed, PodChange, PodFields};
use crate::client::{Answer, EventIntent, Request};
use crate::intern::{KeyId, ObjectKey};
use crate::workqueue::{RateLimitingQueue, Take};

/// What a sync wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// Carry out [`SyncState::requests`], all at once, give each its [`SyncState::answer`], then
    /// [`Workload::resume`].
    Requests,
    /// The sync is over.
    Finished,
}

impl Step {
    /// What a sync wants that asks for these, if for any.
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
    /// The requests to carry out, concurrently.
    fn requests(&self) -> &[Request];

    /// Gives a request its answer, in any order.
    ///
    /// # Panics
    /// When there is no request of that index, or it has been answered.
    fn answer(&mut self, index: usize, answer: Answer);

    /// The Events that it wants written, to be taken.
    fn events(&mut self) -> &mut Vec<EventIntent>;

    /// How it ended, in a word or two for statistics: `ok`, `create failed`. Meaningless before.
    fn outcome_label(&self) -> &'static str;
}

/// A controller of one kind of workload: what it watches, keys, and what a sync of a key asks for.
/// No I/O, no clock; everything comes in by these methods, on any thread.
///
/// Several share one cache of pods, which whoever runs them fills; each is told of the changes that
/// [concern](PodChange::concerns) owners of its kind, after the cache has them.
pub trait Workload: Send + Sync + std::fmt::Debug + 'static {
    /// What the shared cache keeps of each pod.
    type Fields: PodFields;

    /// A sync of it in progress.
    type Sync: SyncState;

    /// The kind of the objects that it looks after, which own pods.
    fn kind(&self) -> Kind;

    /// The name that its objects' keys stand for.
    fn name(&self, key: KeyId) -> ObjectKey;

    /// The keys that are to be synced.
    fn queue(&self) -> &RateLimitingQueue<KeyId>;

    /// An object of its kind came, changed or went.
    fn object_changed(&self, delta: Delta<dyn Object>, now: Now);

    /// These objects of its kind are all there are, as of that version.
    fn objects_listed(&self, objects: Vec<AnyObject>, version: &ResourceVersion, now: Now);

    /// No object of its kind changed up to that version. Of use to those alone that compare what they
    /// wrote with what they have heard, as [`ConsistencyStore`](crate::consistency::ConsistencyStore) does.
    fn bookmark(&self, version: &ResourceVersion) {
        let _ = version;
    }

    /// A pod changed; the cache has it.
    fn pod_changed(&self, change: &PodChange<Self::Fields>, now: Now);

    /// The cache was replaced by a list of pods, with this effect.
    fn pods_listed(&self, listed: &Listed<Self::Fields>, now: Now);

    /// Begins the sync of a key that was taken from the queue.
    fn begin(&self, key: KeyId, sync: &mut Self::Sync, now: Now) -> Step;

    /// Goes on after every request of the batch has its answer.
    ///
    /// # Panics
    /// When a request has no answer, or the sync is over.
    fn resume(&self, sync: &mut Self::Sync, now: Now) -> Step;

    /// Takes the key of a finished sync out of the queue's hands, to be forgotten or retried.
    fn finish(&self, sync: &mut Self::Sync, now: Now);
}

/// Carries requests out.
pub trait Transport {
    /// Sends a request, the one of that index in its batch. `None`: the answer comes later, by
    /// [`Driver::answer`].
    fn send(&mut self, index: usize, request: &Request, now: Now) -> Option<Answer>;
}

impl<F: FnMut(&Request, Now) -> Answer> Transport for F {
    #[inline]
    fn send(&mut self, _: usize, request: &Request, now: Now) -> Option<Answer> {
        Some(self(request, now))
    }
}

/// Whether a sync goes on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// Answers are awaited.
    Waiting,
    /// The sync is over; its state says how, and [`Workload::finish`] takes its key.
    Finished,
}

/// One worker: drives one sync at a time.
#[derive(Debug, Default)]
pub struct Driver<S> {
    /// The sync.
    pub sync: S,
    /// Requests that wait for their answers.
    waiting: usize,
}

impl<S: SyncState> Driver<S> {
    /// Begins the sync of a key and drives it as far as it goes by itself.
    #[inline]
    pub fn begin<W: Workload<Sync = S>>(
        &mut self,
        workload: &W,
        key: KeyId,
        transport: &mut impl Transport,
        now: Now,
    ) -> Progress {
        let step = workload.begin(key, &mut self.sync, now);
        self.drive(workload, step, transport, now)
    }

    /// Gives a request that was sent its answer.
    ///
    /// # Panics
    /// When it has been answered.
    pub fn answer(&mut self, index: usize, answer: Answer) {
        self.sync.answer(index, answer);
        self.waiting -= 1;
    }

    /// Goes on if every answer is there.
    pub fn poll<W: Workload<Sync = S>>(
        &mut self,
        workload: &W,
        transport: &mut impl Transport,
        now: Now,
    ) -> Progress {
        if self.waiting > 0 {
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
            for index in 0..self.sync.requests().len() {
                match transport.send(index, &self.sync.requests()[index], now) {
                    Some(answer) => self.sync.answer(index, answer),
                    None => self.waiting += 1,
                }
            }
            if self.waiting > 0 {
                return Progress::Waiting;
            }
            step = workload.resume(&mut self.sync, now);
        }
        Progress::Finished
    }
}

/// Syncs every key that waits, to its end, over a transport that answers at once; `ended` hears of each
/// sync before its key is taken back. How many there were.
///
/// # Panics
/// When the transport leaves a request without its answer.
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
mod tests {
    use podstorm_objects::{ApiError, Pod};

    use super::*;

    /// Asks for two batches of two requests.
    #[derive(Debug)]
    struct Twice(RateLimitingQueue<KeyId>);

    #[derive(Debug, Default)]
    struct State {
        requests: Vec<Request>,
        answered: Vec<usize>,
        events: Vec<EventIntent>,
        batches: usize,
    }

    impl SyncState for State {
        fn requests(&self) -> &[Request] {
            &self.requests
        }

        fn answer(&mut self, index: usize, _: Answer) {
            self.answered.push(index);
        }

        fn events(&mut self) -> &mut Vec<EventIntent> {
            &mut self.events
        }

        fn outcome_label(&self) -> &'static str {
            "ok"
        }
    }

    impl Workload for Twice {
        type Fields = ();
        type Sync = State;

        fn kind(&self) -> Kind {
            Kind::REPLICA_SET
        }

        fn name(&self, _: KeyId) -> ObjectKey {
            ObjectKey {
                namespace: "ns".into(),
                name: "a".into(),
            }
        }

        fn object_changed(&self, _: Delta<dyn Object>, _: Now) {}
        fn objects_listed(&self, _: Vec<AnyObject>, _: &ResourceVersion, _: Now) {}
        fn bookmark(&self, _: &ResourceVersion) {}
        fn pod_changed(&self, _: &PodChange<()>, _: Now) {}
        fn pods_listed(&self, _: &Listed<()>, _: Now) {}

        fn queue(&self) -> &RateLimitingQueue<KeyId> {
            &self.0
        }

        fn begin(&self, _: KeyId, sync: &mut State, _: Now) -> Step {
            let read = Request::ReadVersion { kind: Kind::POD };
            *sync = State {
                requests: vec![read.clone(), read],
                ..State::default()
            };
            Step::Requests
        }

        fn resume(&self, sync: &mut State, _: Now) -> Step {
            assert_eq!(sync.answered.len(), 2, "both are answered");
            sync.answered.clear();
            sync.batches += 1;
            match sync.batches {
                2 => Step::Finished,
                _ => Step::Requests,
            }
        }

        fn finish(&self, sync: &mut State, now: Now) {
            assert_eq!(sync.batches, 2);
            self.0.done(KeyId::default(), now.mono_ns);
        }
    }

    fn answer() -> Answer {
        Answer::Failed(ApiError::transport("no route"))
    }

    #[test]
    fn a_transport_that_answers_at_once_brings_a_sync_to_its_end() {
        let (workload, now) = (Twice(RateLimitingQueue::new()), Now::default());
        workload.0.add(KeyId::default(), 0);
        let mut sent = 0;
        let mut transport = |_: &Request, _: Now| {
            sent += 1;
            Answer::Pod(Pod::default().into())
        };
        let mut driver = Driver::default();
        let mut ended = 0;
        let syncs = sync_all(&workload, &mut driver, &mut transport, now, |_| ended += 1);
        assert_eq!((syncs, ended, sent), (1, 1, 4));
        assert_eq!(workload.0.len(), 0);
    }

    #[test]
    fn answers_that_come_later_are_waited_for() {
        struct Slow(Vec<usize>);
        impl Transport for Slow {
            fn send(&mut self, index: usize, _: &Request, _: Now) -> Option<Answer> {
                self.0.push(index);
                (index == 0).then(answer)
            }
        }
        let (workload, now) = (Twice(RateLimitingQueue::new()), Now::default());
        let (mut driver, mut slow) = (Driver::default(), Slow(Vec::new()));
        let begun = driver.begin(&workload, KeyId::default(), &mut slow, now);
        assert_eq!(begun, Progress::Waiting);
        assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Waiting);
        driver.answer(1, answer());
        assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Waiting);
        driver.answer(1, answer());
        assert_eq!(driver.poll(&workload, &mut slow, now), Progress::Finished);
        assert_eq!(slow.0, [0, 1, 0, 1]);
    }
}
