//! Watches: streams of the events of one kind, in version order. Each watch has its own latency.

mod any;

use std::fmt;
use std::sync::{Arc, Weak};
use std::vec::IntoIter;

use podstorm_objects::{Now, ResourceVersion, WatchEvent};

pub use self::any::{AnyWatch, Seen};
use crate::latency::Latency;
use crate::latency::LatencySampler;
use crate::store::log::{Advance, Change, Entry, Log, Position, SEGMENT_LEN, Segment};
use crate::{Strategy, Waker, errors};

/// The starting point of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// Every event after this version. 410 if the history does not reach back to it.
    Version(u64),
    /// The current state as `Added` events, sorted by namespace and name, then a bookmark that
    /// marks its end, then every later event.
    Initial,
    /// Like `Initial`, with the state at this version, as a server whose cache lags would serve it.
    /// 410 if the history does not reach back to the version; 504 if the server has not reached it.
    InitialAsOf(u64),
}

/// Options of a watch.
#[derive(Clone)]
pub struct WatchOptions {
    /// The time from a commit until its event is visible in this watch. The initial state is
    /// visible immediately.
    pub latency: Latency,
    /// The seed of the sequence of latencies.
    pub seed: u64,
    /// Called after a commit if the watch was drained. Called by the writer's thread, while it
    /// holds no lock of the cluster.
    pub waker: Option<Waker>,
    /// The period of automatic bookmarks, in nanoseconds. A poll at the time that
    /// [`Poll::next_visible_ns`] names delivers a bookmark, as long as objects of any kind are
    /// written. After a period without a write, bookmarks pause until the watch has an event or is
    /// polled, so that a run without activity ends.
    pub bookmark_every: Option<i64>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            latency: Latency::ZERO,
            seed: 0,
            waker: None,
            bookmark_every: None,
        }
    }
}

impl fmt::Debug for WatchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchOptions")
            .field("latency", &self.latency)
            .field("seed", &self.seed)
            .field("waker", &self.waker.is_some())
            .field("bookmark_every", &self.bookmark_every)
            .finish()
    }
}

/// The outcome of a [`Watch::poll`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// `max` events were delivered and there may be more: poll again. The waker is not called.
    pub more: bool,
    /// The monotonic time at which the next event becomes visible or a bookmark is due: poll again
    /// at that time. Before then, the waker is called only if the watch is drained. If this is
    /// absent and `more` is false, the watch is drained, and its waker will be called.
    pub next_visible_ns: Option<i64>,
}

impl Poll {
    const MORE: Poll = Poll {
        more: true,
        next_visible_ns: None,
    };

    #[inline]
    fn until(next_visible_ns: Option<i64>) -> Poll {
        Poll {
            more: false,
            next_visible_ns,
        }
    }
}

/// An open watch. Dropping the watch closes it.
pub struct Watch<R: Strategy> {
    log: Arc<Log<R>>,
    watcher: u64,
    /// The current segment, which is freed once the log has dropped it and no watch holds it.
    segment: Weak<Segment<R>>,
    /// The current segment during a poll; also between polls, unless the watch `lets_go`.
    held: Option<Arc<Segment<R>>>,
    /// Whether the watch releases the segment between polls because the history is limited in
    /// bytes. Otherwise the watch holds the segment, which is cheaper.
    lets_go: bool,
    /// The number of the current segment.
    number: u64,
    /// The index of the next slot in the current segment.
    index: usize,
    /// Events up to this version are skipped.
    after: u64,
    /// The version of the last event read, not counting events in `held`.
    read: u64,
    initial: Option<Initial<R>>,
    sampler: LatencySampler,
    /// The time at which the event at `index` becomes visible; absent until it is drawn.
    head_visible_ns: Option<i64>,
    /// The time at which the last delivered event became visible.
    last_visible_ns: i64,
    /// The time before which nothing becomes visible.
    hold_until_ns: i64,
    bookmark_wanted: bool,
    /// The timer of automatic bookmarks; absent if the watch has none.
    bookmark_timer: Option<BookmarkTimer>,
    ended: bool,
}

/// The timer of automatic bookmarks.
struct BookmarkTimer {
    every_ns: i64,
    /// The time of the next bookmark; absent while bookmarks pause.
    due_ns: Option<i64>,
    /// The server's version when it was last checked.
    seen: u64,
    /// Whether `seen` has grown since the last bookmark was due.
    moved: bool,
    /// The version of the last bookmark.
    last_sent: u64,
}

/// Access to the object before an event, which is looked up on demand.
pub(crate) struct Before<'a, R>(Option<(&'a Segment<R>, usize)>);

impl<R> Before<'_, R> {
    /// Returns the object before the event; `None` if there was none or past states are not kept.
    pub(crate) fn get(self) -> Option<Arc<R>> {
        let (segment, index) = self.0?;
        segment.before(index)
    }
}

/// The part of the initial state that has not been delivered.
struct Initial<R> {
    objects: IntoIter<Arc<R>>,
    version: u64,
}

impl<R: Strategy> fmt::Debug for Watch<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("segment", &self.number)
            .field("index", &self.index)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<R: Strategy> Watch<R> {
    /// Creates a watch at a position. If `initial` is given, this state, at version `after`, is
    /// delivered first.
    pub(crate) fn new(
        log: Arc<Log<R>>,
        position: Position<R>,
        after: u64,
        initial: Option<Vec<Arc<R>>>,
        options: &WatchOptions,
    ) -> Watch<R> {
        let initial = initial.map(|objects| Initial {
            objects: objects.into_iter(),
            version: after,
        });
        Watch {
            watcher: position.watcher,
            segment: Arc::downgrade(&position.segment),
            number: position.segment.number,
            held: (!log.is_bounded()).then_some(position.segment),
            lets_go: log.is_bounded(),
            log,
            index: position.index,
            after,
            read: after,
            initial,
            sampler: LatencySampler::new(options.latency, options.seed),
            head_visible_ns: None,
            last_visible_ns: i64::MIN,
            hold_until_ns: i64::MIN,
            bookmark_wanted: false,
            bookmark_timer: options.bookmark_every.map(|every_ns| BookmarkTimer {
                every_ns: every_ns.max(1),
                due_ns: None,
                seen: after,
                moved: true,
                last_sent: after,
            }),
            ended: false,
        }
    }

    /// Appends up to `max` events that are visible at `now` to `out`, in version order. O(delivered
    /// events). Takes a lock once per segment and once at the end of the log.
    ///
    /// After an `Error` event the watch has ended and delivers nothing more.
    #[inline]
    pub fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<R>>) -> Poll {
        self.poll_each(max, now, &mut |event, _| out.push(event))
    }

    /// Like [`poll`](Watch::poll), but calls `out` with every event and with access to the object
    /// before it.
    pub(crate) fn poll_each(
        &mut self,
        max: usize,
        now: Now,
        out: &mut impl FnMut(WatchEvent<R>, Before<'_, R>),
    ) -> Poll {
        if now.mono_ns < self.hold_until_ns && !self.ended {
            return Poll::until(Some(self.hold_until_ns).filter(|&ns| ns != i64::MAX));
        }
        let mut left = max;
        if self.deliver_initial(&mut left, out) || self.ended {
            return Poll {
                more: !self.ended,
                next_visible_ns: None,
            };
        }
        if self.held.is_none() {
            self.held = self.segment.upgrade();
        }
        let poll = self.read_on(left, now, out);
        if self.lets_go {
            self.read = self.last_read();
            self.held = None;
        }
        poll
    }

    /// Returns the version of the last event read.
    fn last_read(&self) -> u64 {
        let held = self.held.as_deref();
        let last = held.and_then(|segment| segment.entries[..self.index].last()?.get());
        last.map_or(self.read, |last| last.version().max(self.read))
    }

    /// Delivers events from the held segment and from the following ones, and then holds the last.
    #[inline]
    fn read_on(
        &mut self,
        mut left: usize,
        now: Now,
        out: &mut impl FnMut(WatchEvent<R>, Before<'_, R>),
    ) -> Poll {
        loop {
            if let Some(segment) = &self.held
                && self.index < SEGMENT_LEN
                && let Some(entry) = segment.entries[self.index].get()
            {
                if self.after > 0 && entry.version() <= self.after {
                    self.index += 1;
                    continue;
                }
                if left == 0 {
                    return Poll::MORE;
                }
                if !self.sampler.is_zero() {
                    let visible_ns = *self.head_visible_ns.get_or_insert_with(|| {
                        let delayed_ns = entry.commit_ns.saturating_add(self.sampler.draw_ns());
                        delayed_ns.max(self.last_visible_ns)
                    });
                    if visible_ns > now.mono_ns {
                        let before = entry.version() - 1;
                        let due_ns = self.deliver_bookmark(before, now, out);
                        return Poll::until(Some(due_ns.unwrap_or(visible_ns).min(visible_ns)));
                    }
                    self.last_visible_ns = visible_ns;
                    self.head_visible_ns = None;
                }
                out(event(entry), Before(Some((segment, self.index))));
                self.index += 1;
                left -= 1;
                continue;
            }
            let read = || self.last_read();
            let held = self.held.as_deref();
            let (watcher, number) = (self.watcher, self.number);
            match self.log.advance(watcher, read, number, held, self.index) {
                Advance::More => {}
                Advance::Segment(next) => {
                    self.read = self.last_read();
                    self.segment = Arc::downgrade(&next);
                    self.number = next.number;
                    self.index = 0;
                    self.held = Some(next);
                }
                Advance::Drained { version } => {
                    let next_visible_ns = self.deliver_bookmark(version, now, out);
                    return Poll::until(next_visible_ns);
                }
                Advance::Expired { oldest } => {
                    let error = errors::expired(self.last_read(), oldest);
                    out(WatchEvent::Error(error), Before(None));
                    self.ended = true;
                    return Poll::default();
                }
            }
        }
    }

    /// Requests a bookmark after the events that are visible at the next [`poll`](Watch::poll).
    pub fn request_bookmark(&mut self) {
        self.bookmark_wanted = true;
    }

    /// Holds back events, bookmarks and the initial state until `ns` in monotonic time; then all
    /// become visible together. `i64::MAX` holds them back until the next call, `i64::MIN` releases
    /// them. No waker is called, so after an early release the caller must poll.
    pub fn delay_until(&mut self, ns: i64) {
        self.hold_until_ns = ns;
    }

    /// Changes the latency, including that of events in transit. Their order does not change.
    pub fn set_latency(&mut self, latency: Latency) {
        self.sampler.set_latency(latency);
        self.head_visible_ns = None;
    }

    /// Reports whether the watch ended with an error.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Delivers the initial state. Returns whether `left` was used up before the end of the state.
    fn deliver_initial(
        &mut self,
        left: &mut usize,
        out: &mut impl FnMut(WatchEvent<R>, Before<'_, R>),
    ) -> bool {
        let Some(initial) = &mut self.initial else {
            return false;
        };
        for object in initial.objects.by_ref().take(*left) {
            out(WatchEvent::Added(object), Before(None));
            *left -= 1;
        }
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let version = ResourceVersion::Number(initial.version);
        let end = WatchEvent::Bookmark {
            version,
            initial_events_end: true,
        };
        out(end, Before(None));
        self.initial = None;
        false
    }

    /// Delivers a bookmark after all events up to `version`, if one was requested or is due.
    /// Returns the time of the next bookmark; `None` if none is scheduled.
    #[inline]
    fn deliver_bookmark(
        &mut self,
        version: u64,
        now: Now,
        out: &mut impl FnMut(WatchEvent<R>, Before<'_, R>),
    ) -> Option<i64> {
        if !self.bookmark_wanted && self.bookmark_timer.is_none() {
            return None;
        }
        self.deliver_due_bookmark(version, now, out)
    }

    #[cold]
    fn deliver_due_bookmark(
        &mut self,
        version: u64,
        now: Now,
        out: &mut impl FnMut(WatchEvent<R>, Before<'_, R>),
    ) -> Option<i64> {
        let read = self.last_read();
        let version = version.max(read);
        let mut wanted = std::mem::take(&mut self.bookmark_wanted);
        if let Some(bookmark_timer) = &mut self.bookmark_timer {
            // No bookmark if the last event or bookmark already contained the version.
            wanted |=
                bookmark_timer.is_due(version, now) && version > read.max(bookmark_timer.last_sent);
            bookmark_timer.last_sent = if wanted {
                version
            } else {
                bookmark_timer.last_sent
            };
        }
        if wanted {
            let bookmark = WatchEvent::Bookmark {
                version: ResourceVersion::Number(version),
                initial_events_end: false,
            };
            out(bookmark, Before(None));
        }
        self.bookmark_timer
            .as_ref()
            .and_then(|bookmark_timer| bookmark_timer.due_ns)
    }
}

impl BookmarkTimer {
    /// Records the server's version. Returns whether a bookmark is due.
    fn is_due(&mut self, version: u64, now: Now) -> bool {
        self.moved |= version > self.seen;
        self.seen = self.seen.max(version);
        let due = self.due_ns.is_some_and(|due_ns| due_ns <= now.mono_ns);
        if self.due_ns.is_none() && self.moved || due {
            // Pauses after a period without a write.
            let moved = std::mem::take(&mut self.moved);
            self.due_ns = moved.then(|| now.mono_ns.saturating_add(self.every_ns));
        }
        due
    }
}

fn event<R>(entry: &Entry<R>) -> WatchEvent<R> {
    let object = entry.object.clone();
    match entry.change {
        Change::Added => WatchEvent::Added(object),
        Change::Modified => WatchEvent::Modified(object),
        Change::Deleted => WatchEvent::Deleted(object),
    }
}

impl<R: Strategy> Drop for Watch<R> {
    fn drop(&mut self) {
        self.log.close(self.watcher);
    }
}

#[cfg(test)]
mod tests;
