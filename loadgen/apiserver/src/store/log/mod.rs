//! The event log of one kind: every committed write in version order, for watches to read.
//!
//! Events lie in segments of [`SEGMENT_LEN`]. A writer appends under the log's lock, which is the
//! place where versions are assigned; watches read filled slots without any lock and come to the
//! lock only at the end of a segment or of the log. Whole segments are forgotten once no open
//! watch needs them and more than [`History::min_events`] remain, or advance
//! [`History::max_events`] in any case; whoever needed them is answered 410.
//!
//! Lock order: a store's shard, then its log. Nothing but the observer is called while
//! the log's lock is held; what a commit leaves to do (waking, freeing) is done by [`After::run`]
//! when all locks are free.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_objects::{AnyObject, Now, ResourceVersion};
use smallvec::SmallVec;

use super::counts::{WriteEffects, WriteTotals};
use super::observe::{Commit, Observed};
use super::primitives::{AtomicU64, MutexGuard, OnceLock};
use super::{Lock, Strategy};
use crate::Waker;

/// Events in a segment: 16 KiB of slots. A segment is what is forgotten at once.
pub(crate) const SEGMENT_LEN: usize = if MODELLED { 2 } else { 512 };

/// Whether a checker runs through the interleavings.
const MODELLED: bool = cfg!(any(feature = "loom", feature = "shuttle"));

/// How much of the past a log keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Kept for watches that are opened later, at least (rounded up to whole segments).
    pub min_events: usize,
    /// Kept for the slowest open watch, at most (rounded up to whole segments). An event keeps a
    /// version of its object alive: at about 600 bytes per pod, two million are 1.2 GB.
    pub max_events: usize,
}

impl Default for History {
    fn default() -> Self {
        History {
            min_events: 4096,
            max_events: 2_000_000,
        }
    }
}

impl History {
    /// What is kept of Events, which hardly anybody watches: less.
    pub(crate) fn for_events(self) -> History {
        History {
            min_events: self.min_events.min(SEGMENT_LEN),
            ..self
        }
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It came to be.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Entry<R> {
    pub(crate) change: Change,
    pub(crate) object: Arc<R>,
    /// When it was committed, on the monotonic line.
    pub(crate) commit_ns: i64,
}

impl<R: Strategy> Entry<R> {
    pub(crate) fn version(&self) -> u64 {
        version_of(&*self.object)
    }
}

/// The version of a stored object.
pub(crate) fn version_of<R: Strategy>(object: &R) -> u64 {
    object
        .metadata()
        .resource_version
        .number()
        .expect("the server's versions are numbers")
}

/// A run of events. Slots are filled in order, each once, under the log's lock.
pub(crate) struct Segment<R> {
    /// Counts segments from the first one of the log.
    pub(crate) number: u64,
    pub(crate) entries: Box<[OnceLock<Entry<R>>]>,
    /// Of each event the object before, where there was one; empty unless the past is kept.
    before: Box<[OnceLock<Arc<R>>]>,
}

impl<R> Segment<R> {
    fn new(number: u64, keeps_past: bool) -> Arc<Segment<R>> {
        let entries = (0..SEGMENT_LEN).map(|_| OnceLock::new()).collect();
        let kept = if keeps_past { SEGMENT_LEN } else { 0 };
        let before = (0..kept).map(|_| OnceLock::new()).collect();
        Arc::new(Segment {
            number,
            entries,
            before,
        })
    }
}

/// What the log knows of an open watch.
struct Watcher {
    id: u64,
    /// The segment it reads.
    segment: u64,
    /// It has read everything and waits to be woken.
    drained: bool,
    waker: Option<Waker>,
}

struct LogState<R> {
    /// From the oldest kept to the one being filled; never empty.
    segments: VecDeque<Arc<Segment<R>>>,
    /// Filled slots of the last segment.
    tail_len: usize,
    /// The version of the last event that was forgotten, 0 when none was.
    forgotten: u64,
    /// The version of the last event.
    last_version: u64,
    watchers: Vec<Watcher>,
    next_watcher: u64,
    /// Whether segments hold the objects before.
    keeps_past: bool,
    totals: WriteTotals,
}

/// The event log of one kind.
pub(crate) struct Log<R> {
    /// The server's one version counter; advanced under this log's lock, so that whoever holds
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

/// Where a watch begins to read.
pub(crate) struct Position<R> {
    pub(crate) watcher: u64,
    pub(crate) segment: Arc<Segment<R>>,
    pub(crate) index: usize,
}

/// The way back to an older state.
pub(crate) struct Past<R> {
    /// The events since, in order.
    pub(crate) undo: Vec<Undo<R>>,
    /// Behind that state, for a watch.
    pub(crate) position: Option<Position<R>>,
}

/// One event, to be undone.
pub(crate) struct Undo<R> {
    pub(crate) after: Arc<R>,
    /// Absent when the event made the object.
    pub(crate) before: Option<Arc<R>>,
}

/// Why a state is not at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// It is to come.
    NotYet { current: u64 },
    /// What led from it to the present was forgotten.
    Forgotten { oldest: u64 },
}

/// What a watch finds at the end of what it could read without the lock.
pub(crate) enum Advance<R> {
    /// The next segment.
    Segment(Arc<Segment<R>>),
    /// More in the same segment.
    More,
    /// Nothing; everything up to this version was read. The watch's waker will be called.
    Drained { version: u64 },
    /// What it needs was forgotten.
    Expired { wanted: u64, oldest: u64 },
}

impl<R: Strategy> Log<R> {
    pub(crate) fn new(
        version: Arc<AtomicU64>,
        history: History,
        keeps_past: bool,
        observed: Option<Arc<Observed>>,
    ) -> Log<R> {
        let state = LogState {
            segments: VecDeque::from([Segment::new(0, keeps_past)]),
            tail_len: 0,
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

    /// Begins to append. The caller holds the lock of the shard that the events concern.
    pub(crate) fn begin(&self) -> Append<'_, R> {
        Append {
            log: self,
            state: self.state.lock(),
            garbage: SmallVec::new(),
        }
    }

    /// What was committed so far.
    pub(crate) fn totals(&self) -> WriteTotals {
        self.state.lock().totals.clone()
    }

    /// The server's version, with every event of this kind up to it in the log.
    pub(crate) fn version(&self) -> u64 {
        let _state = self.state.lock();
        self.version.load(Ordering::Relaxed)
    }

    /// The version of this kind's last event, 0 before the first.
    pub(crate) fn last_version(&self) -> u64 {
        self.state.lock().last_version
    }

    /// Opens a watch at the end; answers the version it starts behind.
    pub(crate) fn open_at_end(&self, waker: Option<Waker>) -> (Position<R>, u64) {
        let mut state = self.state.lock();
        let version = self.version.load(Ordering::Relaxed);
        let index = state.tail_len;
        let segment = state.tail().clone();
        (state.register(segment, index, waker), version)
    }

    /// Opens a watch behind `version`. `Err` holds the oldest version still kept.
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
        let segment = state.segments[at].clone();
        Ok(state.register(segment, index, waker))
    }

    /// What to undo of the present state to have that of `version`. The caller holds the locks
    /// of all shards. `watch` opens one behind the version too, with that waker.
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
        for segment in state.segments.range(at..) {
            let events = segment.entries[first..].iter().map_while(OnceLock::get);
            for (entry, index) in events.zip(first..) {
                undo.push(Undo {
                    after: entry.object.clone(),
                    before: segment.before[index].get().cloned(),
                });
            }
            first = 0;
        }
        let segment = state.segments[at].clone();
        let position = watch.map(|waker| state.register(segment, index, waker));
        Ok(Past { undo, position })
    }

    /// Goes on from the end of what a watch has read of `segment`.
    pub(crate) fn advance(&self, watcher: u64, segment: &Segment<R>, index: usize) -> Advance<R> {
        let mut state = self.state.lock();
        // Filled since the watch looked, perhaps together with all the rest of the segment.
        let slot = segment.entries.get(index);
        if slot.is_some_and(|slot| slot.get().is_some()) {
            return Advance::More;
        }
        if segment.number == state.tail().number {
            // A full tail too: the next segment is made by the next commit.
            state.watcher(watcher).drained = true;
            return Advance::Drained {
                version: self.version.load(Ordering::Relaxed),
            };
        }
        let front = state.segments[0].number;
        let next = segment.number + 1;
        if next < front {
            let read = segment.entries[..index].last().and_then(OnceLock::get);
            let wanted = read.map_or(0, Entry::version);
            return Advance::Expired {
                wanted,
                oldest: state.oldest(),
            };
        }
        let at = usize::try_from(next - front).expect("segments in memory fit a usize");
        let next = state.segments[at].clone();
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
        state.watchers.retain(|other| other.id != watcher);
        state.forget(self.history, &mut garbage);
        drop(state);
        drop(garbage);
    }

    /// Forgets every event there is, as a compaction does: watches that have not read them and
    /// watches opened behind an older version are answered 410.
    pub(crate) fn compact(&self) {
        let mut state = self.state.lock();
        if state.tail_len > 0 {
            state.extend();
        }
        let last = state.segments.len() - 1;
        let keep = state.segments.split_off(last);
        let garbage = std::mem::replace(&mut state.segments, keep);
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

/// Pods have the most watches: the controllers' informer, scheduler, kubelets and scenario.
type Wakers = SmallVec<[Waker; 4]>;

impl<R: Strategy> LogState<R> {
    fn tail(&self) -> &Arc<Segment<R>> {
        self.segments.back().expect("a log has a segment")
    }

    /// The segment and the place in it of the first event newer than `version`, or the end.
    fn behind(&self, version: u64) -> (usize, usize) {
        let newer = |entry: &OnceLock<Entry<R>>| entry.get().is_none_or(|e| e.version() > version);
        // The first segment whose last event is newer, and the first newer event within.
        let at = self
            .segments
            .partition_point(|segment| !newer(&segment.entries[SEGMENT_LEN - 1]))
            .min(self.segments.len() - 1);
        let entries = &self.segments[at].entries;
        (at, entries.partition_point(|entry| !newer(entry)))
    }

    /// The version of the oldest event kept.
    fn oldest(&self) -> u64 {
        let first = self.segments[0].entries[0].get();
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

    fn watcher(&mut self, id: u64) -> &mut Watcher {
        self.watchers
            .iter_mut()
            .find(|other| other.id == id)
            .expect("an open watch is registered")
    }

    fn extend(&mut self) {
        let number = self.tail().number + 1;
        self.segments
            .push_back(Segment::new(number, self.keeps_past));
        self.tail_len = 0;
    }

    /// Takes out the segments that need not be kept.
    fn forget(&mut self, history: History, garbage: &mut Garbage<R>) {
        let slowest = self.watchers.iter().map(|watcher| watcher.segment).min();
        while self.segments.len() > 1 {
            let rest = (self.segments.len() - 2) * SEGMENT_LEN + self.tail_len;
            let needed = slowest.is_some_and(|slowest| slowest <= self.segments[0].number);
            let keep = if needed {
                history.max_events
            } else {
                history.min_events
            };
            if rest < keep {
                return;
            }
            let front = self.segments.pop_front().expect("more than one");
            let last = front.entries.iter().rev().find_map(OnceLock::get);
            self.forgotten = last.map_or(self.forgotten, Entry::version);
            garbage.push(front);
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

/// A commit under way: holds the log's lock.
pub(crate) struct Append<'a, R> {
    log: &'a Log<R>,
    state: MutexGuard<'a, LogState<R>>,
    garbage: Garbage<R>,
}

impl<R: Strategy> Append<'_, R> {
    /// Gives the object the next version and appends its event. `old` is the object before.
    ///
    /// # Panics
    /// When the object is shared already.
    pub(crate) fn push(
        &mut self,
        change: Change,
        old: Option<&Arc<R>>,
        mut object: Arc<R>,
        effects: &WriteEffects,
        now: Now,
    ) -> Arc<R> {
        let observed = self.log.observed.as_deref();
        let _turn = observed.map(|observed| observed.turn.lock());
        // Relaxed: the counter's order is that of the locks under which it advances.
        let version = self.log.version.fetch_add(1, Ordering::Relaxed) + 1;
        Arc::get_mut(&mut object)
            .expect("an object is not shared before it is committed")
            .metadata_mut()
            .resource_version = ResourceVersion::Number(version);
        let state = &mut *self.state;
        if state.tail_len == SEGMENT_LEN {
            state.extend();
            state.forget(self.log.history, &mut self.garbage);
        }
        let entry = Entry {
            change,
            object: object.clone(),
            commit_ns: now.mono_ns,
        };
        let slot = &state.tail().entries[state.tail_len];
        assert!(slot.set(entry).is_ok(), "a slot is filled once");
        if state.keeps_past
            && let Some(old) = old
        {
            let slot = &state.tail().before[state.tail_len];
            assert!(slot.set(old.clone()).is_ok(), "a slot is filled once");
        }
        state.tail_len += 1;
        state.last_version = version;
        state.totals.count(change, effects);
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

    /// Ends the commit; the answer is to be [run](After::run) when no lock is held.
    pub(crate) fn finish(mut self) -> After<R> {
        After {
            wakers: self.state.take_wakers(),
            garbage: self.garbage,
        }
    }
}

/// What a commit leaves to do when no lock is held any more.
#[must_use]
pub(crate) struct After<R> {
    wakers: Wakers,
    garbage: Garbage<R>,
}

impl<R> After<R> {
    /// Frees what was forgotten and wakes the watches that had read everything.
    pub(crate) fn run(self) {
        drop(self.garbage);
        for waker in self.wakers {
            waker();
        }
    }
}

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod models;
