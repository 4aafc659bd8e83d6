//! The event log of one kind: every commit, in version order, for watches to read.
//!
//! Events are in segments of [`SEGMENT_LEN`], or fewer if the objects are large. A writer takes a
//! version and appends under the log's lock. Watches read filled slots without a lock, and take the
//! lock only at the end of a segment or of the log.
//!
//! A segment is dropped once no open watch needs it and more than [`History::min_events`] remain.
//! Beyond [`History::max_events`] and [`History::max_bytes`], a segment is dropped in any case, and
//! a watch that needs it gets a 410. If bytes are limited, only the log owns segments, so a watch
//! that is not read keeps no segment alive.
//!
//! Lock order: a store's shard, then its log. While the log's lock is held, only the observer is
//! called. [`After::run`] wakes watches and frees memory after all locks are released.

mod history;
mod segment;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_objects::{AnyObject, Now, ResourceVersion};
use smallvec::SmallVec;

pub use self::history::History;
pub use self::segment::Change;
use self::segment::{Closed, SEGMENT_BYTES};
pub(crate) use self::segment::{Entry, SEGMENT_LEN, Segment};
use super::counts::{WriteEffects, WriteTotals};
use super::observe::{Commit, Observed};
use super::primitives::{AtomicU64, MutexGuard, OnceLock};
use super::{Lock, Strategy};
use crate::Waker;

/// The number in place of a segment's: the watch has expired and needs no segment.
const LOST: u64 = u64::MAX;

/// An open watch, as the log knows it.
struct Watcher {
    id: u64,
    /// The number of the segment that the watch reads; [`LOST`] if it was dropped unread.
    segment: u64,
    /// Whether the watch has read everything and waits for its waker.
    drained: bool,
    waker: Option<Waker>,
}

struct LogState<R> {
    /// The closed segments that are kept, the oldest first.
    closed: VecDeque<Closed<R>>,
    /// The number of filled slots in the closed segments.
    closed_events: usize,
    /// The size of the closed segments, in bytes.
    closed_bytes: usize,
    /// The segment that is being filled.
    tail: Arc<Segment<R>>,
    /// The number of filled slots in the tail.
    tail_len: usize,
    /// The size of the tail, in bytes.
    tail_bytes: usize,
    /// The version of the last dropped event; 0 if none was dropped.
    forgotten: u64,
    /// The version of the last event.
    last_version: u64,
    watchers: Vec<Watcher>,
    next_watcher: u64,
    /// Whether segments keep the object before each event.
    keeps_past: bool,
    totals: WriteTotals,
}

/// The event log of one kind.
pub(crate) struct Log<R> {
    /// The server's version counter. It is incremented under this log's lock: a thread that holds
    /// the lock and reads `v` knows that every event of this kind up to `v` is in the log.
    version: Arc<AtomicU64>,
    history: History,
    observed: Option<Arc<Observed>>,
    state: Lock<LogState<R>>,
}

impl<R> fmt::Debug for Log<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

/// The place in the log where a watch begins to read.
pub(crate) struct Position<R> {
    pub(crate) watcher: u64,
    pub(crate) segment: Arc<Segment<R>>,
    pub(crate) index: usize,
}

/// The data from which a past state is reconstructed.
pub(crate) struct Past<R> {
    /// The events after that state, in order.
    pub(crate) undo: Vec<Undo<R>>,
    /// The position after that state, if a watch was requested.
    pub(crate) position: Option<Position<R>>,
}

/// One event to undo.
pub(crate) struct Undo<R> {
    pub(crate) after: Arc<R>,
    /// The object before the event; absent if the event created it.
    pub(crate) before: Option<Arc<R>>,
}

/// The reason why a state or its events are not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// The server has not reached the version.
    NotYet { current: u64 },
    /// Events since the version were dropped.
    Forgotten { oldest: u64 },
}

/// How a watch continues after the events that it can read without the lock.
pub(crate) enum Advance<R> {
    /// The next segment.
    Segment(Arc<Segment<R>>),
    /// More events in the same segment.
    More,
    /// The end of the log: the watch has read everything up to this version. Its waker will be
    /// called.
    Drained { version: u64 },
    /// The next events were dropped.
    Expired { oldest: u64 },
}

impl<R: Strategy> Log<R> {
    pub(crate) fn new(
        version: Arc<AtomicU64>,
        history: History,
        keeps_past: bool,
        observed: Option<Arc<Observed>>,
    ) -> Log<R> {
        let state = LogState {
            closed: VecDeque::new(),
            closed_events: 0,
            closed_bytes: 0,
            tail: Segment::new(0, keeps_past),
            tail_len: 0,
            tail_bytes: 0,
            forgotten: 0,
            last_version: 0,
            watchers: Vec::new(),
            next_watcher: 0,
            keeps_past,
            totals: WriteTotals::default(),
        };
        Log {
            version,
            history,
            observed,
            state: Lock::new(state),
        }
    }

    /// Begins the log after a version, as if all events up to this version had been dropped.
    pub(crate) fn begin_behind(&self, version: u64, totals: WriteTotals) {
        let mut state = self.state.lock();
        state.forgotten = version;
        state.last_version = version;
        state.totals = totals;
    }

    /// Reports whether the history is limited in bytes. A watch must then keep no segment alive.
    pub(crate) fn is_bounded(&self) -> bool {
        self.history.max_bytes != usize::MAX
    }

    /// Returns the size of an object as [`History::max_bytes`] counts it. Call this before taking a
    /// lock. O(size of the object), or O(1) if bytes are not limited.
    #[inline]
    pub(crate) fn bytes_of(&self, object: &R) -> usize {
        match self.is_bounded() {
            false => 0,
            true => object.bytes(),
        }
    }

    /// Begins a commit. The caller holds the lock of the shard that the events concern.
    pub(crate) fn begin(&self) -> Append<'_, R> {
        Append {
            log: self,
            state: self.state.lock(),
            garbage: SmallVec::new(),
        }
    }

    /// Returns the totals of all commits so far.
    pub(crate) fn totals(&self) -> WriteTotals {
        self.state.lock().totals.clone()
    }

    /// Returns the server's version. Every event of this kind up to that version is in the log.
    pub(crate) fn version(&self) -> u64 {
        let _state = self.state.lock();
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the version of this kind's last event; 0 before the first.
    pub(crate) fn last_version(&self) -> u64 {
        self.state.lock().last_version
    }

    /// Opens a watch at the end of the log. Also returns the version after which the watch starts.
    pub(crate) fn open_at_end(&self, waker: Option<Waker>) -> (Position<R>, u64) {
        let mut state = self.state.lock();
        let version = self.version.load(Ordering::Relaxed);
        let (segment, index) = (state.tail.clone(), state.tail_len);
        (state.register(segment, index, waker), version)
    }

    /// Opens a watch after `version`. Fails with the oldest version that is kept.
    pub(crate) fn open_behind(
        &self,
        version: u64,
        waker: Option<Waker>,
    ) -> Result<Position<R>, u64> {
        let mut state = self.state.lock();
        if version < state.forgotten {
            return Err(state.oldest());
        }
        let (at, index) = state.behind(version);
        let segment = state.segment(at).clone();
        Ok(state.register(segment, index, waker))
    }

    /// Returns the events that must be undone to turn the current state into the state at
    /// `version`. The caller holds the locks of all shards. If `watch` is given, also opens a watch
    /// after the version, with the waker in `watch`.
    pub(crate) fn undo(
        &self,
        version: u64,
        watch: Option<Option<Waker>>,
    ) -> Result<Past<R>, Unavailable> {
        let mut state = self.state.lock();
        let current = self.version.load(Ordering::Relaxed);
        if version > current {
            return Err(Unavailable::NotYet { current });
        }
        let (at, index) = state.behind(version);
        let known = version >= state.forgotten;
        if !known || !state.keeps_past && version < state.last_version {
            let oldest = if state.keeps_past {
                state.oldest()
            } else {
                state.last_version + 1
            };
            return Err(Unavailable::Forgotten { oldest });
        }
        let mut undo = Vec::new();
        let mut first = index;
        for segment in (at..=state.closed.len()).map(|at| state.segment(at)) {
            let events = segment.entries[first..].iter().map_while(OnceLock::get);
            for (entry, index) in events.zip(first..) {
                undo.push(Undo {
                    after: entry.object.clone(),
                    before: segment.before[index].get().cloned(),
                });
            }
            first = 0;
        }
        let segment = state.segment(at).clone();
        let position = watch.map(|waker| state.register(segment, index, waker));
        Ok(Past { undo, position })
    }

    /// Returns how a watch continues that has read all events up to the version `read` and is at
    /// `index` of the segment `number`. `segment` is `None` if the segment was dropped.
    pub(crate) fn advance(
        &self,
        watcher: u64,
        read: impl FnOnce() -> u64,
        number: u64,
        segment: Option<&Segment<R>>,
        index: usize,
    ) -> Advance<R> {
        let mut state = self.state.lock();
        // The slot was filled after the watch checked it, perhaps with the rest of the segment.
        let slot = segment.and_then(|segment| segment.entries.get(index));
        if slot.is_some_and(|slot| slot.get().is_some()) {
            return Advance::More;
        }
        if number == state.tail.number {
            // Also if the tail is full, because the next commit creates the next segment.
            state.watcher(watcher).drained = true;
            return Advance::Drained {
                version: self.version.load(Ordering::Relaxed),
            };
        }
        let front = state.segment(0).number;
        // A dropped segment is no longer in the list, and the lock makes that visible.
        let is_dropped = segment.is_none() || number + 1 < front;
        if is_dropped && read() < state.forgotten {
            return Advance::Expired {
                oldest: state.oldest(),
            };
        }
        let next = if is_dropped { front } else { number + 1 };
        let at = usize::try_from(next - front).expect("segments in memory fit a usize");
        let next = state.segment(at).clone();
        state.watcher(watcher).segment = next.number;
        let mut garbage = SmallVec::new();
        state.forget(self.history, &mut garbage);
        drop(state);
        drop(garbage);
        Advance::Segment(next)
    }

    /// Closes a watch.
    pub(crate) fn close(&self, watcher: u64) {
        let mut garbage = SmallVec::new();
        let mut state = self.state.lock();
        let at = state.place_of(watcher);
        state.watchers.remove(at);
        state.forget(self.history, &mut garbage);
        drop(state);
        drop(garbage);
    }

    /// Drops all events, like a compaction. Watches that have not read the events, and watches
    /// opened from an older version, get a 410.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock();
        if state.tail_len > 0 {
            state.extend();
        }
        let garbage = std::mem::take(&mut state.closed);
        (state.closed_events, state.closed_bytes) = (0, 0);
        state.forgotten = state.last_version;
        let wakers = state.take_wakers();
        drop(state);
        drop(garbage);
        for waker in wakers {
            waker();
        }
    }
}

type Garbage<R> = SmallVec<[Arc<Segment<R>>; 1]>;

/// Pods have the most watches: those of the informer, the scheduler, the kubelets and the scenario.
type Wakers = SmallVec<[Waker; 4]>;

impl<R: Strategy> LogState<R> {
    /// Returns the segment at an index of the closed segments, or the tail for the index after
    /// them.
    fn segment(&self, at: usize) -> &Arc<Segment<R>> {
        let closed = self.closed.get(at);
        closed.map_or(&self.tail, |closed| &closed.segment)
    }

    /// Returns the segment and the index of the first event after `version`, or of the end.
    fn behind(&self, version: u64) -> (usize, usize) {
        let newer = |entry: &OnceLock<Entry<R>>| entry.get().is_none_or(|e| e.version() > version);
        // The first segment whose last event is newer, then the first newer event in this segment.
        let at = (self.closed).partition_point(|closed| closed.last_version <= version);
        let entries = &self.segment(at).entries;
        (at, entries.partition_point(|entry| !newer(entry)))
    }

    /// Returns the version of the oldest event that is kept.
    fn oldest(&self) -> u64 {
        let first = self.segment(0).entries[0].get();
        first.map_or(self.last_version + 1, Entry::version)
    }

    fn register(
        &mut self,
        segment: Arc<Segment<R>>,
        index: usize,
        waker: Option<Waker>,
    ) -> Position<R> {
        let id = self.next_watcher;
        self.next_watcher += 1;
        self.watchers.push(Watcher {
            id,
            segment: segment.number,
            drained: false,
            waker,
        });
        Position {
            watcher: id,
            segment,
            index,
        }
    }

    /// Returns the index of a watch in the list, which is sorted because ids increase.
    fn place_of(&self, id: u64) -> usize {
        let found = self.watchers.binary_search_by_key(&id, |other| other.id);
        found.expect("an open watch is registered")
    }

    fn watcher(&mut self, id: u64) -> &mut Watcher {
        let at = self.place_of(id);
        &mut self.watchers[at]
    }

    fn extend(&mut self) {
        let next = Segment::new(self.tail.number + 1, self.keeps_past);
        let closed = Closed {
            segment: std::mem::replace(&mut self.tail, next),
            len: std::mem::take(&mut self.tail_len),
            bytes: std::mem::take(&mut self.tail_bytes),
            last_version: self.last_version,
        };
        self.closed_events += closed.len;
        self.closed_bytes += closed.bytes;
        self.closed.push_back(closed);
    }

    /// Drops the segments that no longer need to be kept.
    fn forget(&mut self, history: History, garbage: &mut Garbage<R>) {
        let slowest = |watchers: &[Watcher]| watchers.iter().map(|watcher| watcher.segment).min();
        let mut slowest_now = slowest(&self.watchers);
        while let Some(front) = self.closed.front() {
            let needed = slowest_now.is_some_and(|slowest| slowest <= front.segment.number);
            let keep = if needed {
                history.max_events
            } else {
                history.min_events
            };
            let rest = self.closed_events - front.len + self.tail_len;
            let bytes = self.closed_bytes + self.tail_bytes;
            if rest < keep && bytes <= history.max_bytes {
                return;
            }
            let Some(front) = self.closed.pop_front() else {
                return;
            };
            self.forgotten = front.last_version;
            self.closed_events -= front.len;
            self.closed_bytes -= front.bytes;
            if needed {
                for watcher in &mut self.watchers {
                    if watcher.segment <= front.segment.number {
                        watcher.segment = LOST;
                    }
                }
                slowest_now = slowest(&self.watchers);
            }
            garbage.push(front.segment);
        }
    }

    #[inline]
    fn take_wakers(&mut self) -> Wakers {
        let mut wakers = SmallVec::new();
        for watcher in &mut self.watchers {
            if std::mem::take(&mut watcher.drained)
                && let Some(waker) = &watcher.waker
            {
                wakers.push(waker.clone());
            }
        }
        wakers
    }
}

/// A commit in progress. Holds the log's lock.
pub(crate) struct Append<'a, R> {
    log: &'a Log<R>,
    state: MutexGuard<'a, LogState<R>>,
    garbage: Garbage<R>,
}

impl<R: Strategy> Append<'_, R> {
    /// Assigns the next version to the object and appends its event. `old` is the object before.
    /// `bytes` is the size of the new object according to [`bytes_of`](Log::bytes_of).
    ///
    /// # Panics
    /// Panics if the object is already shared.
    pub(crate) fn push(
        &mut self,
        change: Change,
        old: Option<&Arc<R>>,
        mut object: Arc<R>,
        bytes: usize,
        effects: &WriteEffects,
        now: Now,
    ) -> Arc<R> {
        let observed = self.log.observed.as_deref();
        let _turn = observed.map(|observed| observed.turn.lock());
        // Relaxed: the locks under which the counter is incremented order it.
        let version = self.log.version.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::get_mut(&mut object)
            .expect("an object is not shared before it is committed")
            .metadata_mut()
            .resource_version = ResourceVersion::Number(version);
        let state = &mut *self.state;
        if state.tail_len == SEGMENT_LEN || state.tail_bytes >= SEGMENT_BYTES {
            state.extend();
            state.forget(self.log.history, &mut self.garbage);
        }
        let entry = Entry {
            change,
            object: object.clone(),
            commit_ns: now.mono_ns,
        };
        let slot = &state.tail.entries[state.tail_len];
        assert!(slot.set(entry).is_ok(), "a slot is filled once");
        if state.keeps_past
            && let Some(old) = old
        {
            let slot = &state.tail.before[state.tail_len];
            assert!(slot.set(old.clone()).is_ok(), "a slot is filled once");
        }
        state.tail_len += 1;
        state.tail_bytes += bytes;
        state.last_version = version;
        let was_ready = old.is_some_and(|old| old.is_ready_pod());
        let is_ready = change != Change::Deleted && object.is_ready_pod();
        state.totals.count(change, effects, was_ready, is_ready);
        if let Some(observed) = observed {
            observed.observer.committed(&Commit {
                version,
                change,
                old: old.cloned().map(|old| -> AnyObject { old }),
                new: object.clone(),
                now,
            });
        }
        object
    }

    /// Ends the commit. Once no lock is held, [run](After::run) the result.
    pub(crate) fn finish(mut self) -> After<R> {
        After {
            wakers: self.state.take_wakers(),
            garbage: self.garbage,
        }
    }
}

/// The work that remains after a commit, to be done while no lock is held.
#[must_use]
pub(crate) struct After<R> {
    wakers: Wakers,
    garbage: Garbage<R>,
}

impl<R> After<R> {
    /// Frees dropped segments and wakes drained watches.
    pub(crate) fn run(self) {
        drop(self.garbage);
        for waker in self.wakers {
            waker();
        }
    }
}

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod models;
