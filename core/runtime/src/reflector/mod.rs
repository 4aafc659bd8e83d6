//! List-and-watch as a state machine: it decides which request to make next, and how an answer or
//! an event changes the store.
//!
//! A driver calls [`Reflector::next`] and carries out the [`Action`]. It passes answers and events
//! to the `on_…` methods, and applies the [`Delivery`] values that they return to the store in that
//! order. The reflector does no I/O, reads no clock and has no locks: one driver owns it.

use std::mem;
use std::sync::Arc;

use podstorm_objects::{Now, Object, ResourceVersion};

use crate::cache::Delta;
use crate::client::{ApiError, Reason, WatchEvent};
use crate::row::Gate;

/// The first delay before jitter, in ns.
const BACKOFF_FIRST_NS: i64 = 800_000_000;

/// Upstream's maximum delay before jitter, in ns.
const BACKOFF_MAX_NS: i64 = 30_000_000_000;

/// The time in ns without a delay after which the delays start over: 2 min.
const BACKOFF_RESET_NS: i64 = 120_000_000_000;

/// The duration in ns below which a stream that ended without events counts as an error.
const SHORT_WATCH_NS: i64 = 1_000_000_000;

/// The minimum time in seconds after which the server ends a watch. A random factor of 1 to 2
/// applies.
const WATCH_TIMEOUT_SECONDS: f64 = 300.0;

/// The number of objects in a page, if the list is paged.
const PAGE_LIMIT: u32 = 500;

/// `WatchListClient`: an informer begins with a watch that first sends the existing objects, in
/// place of a list.
pub const WATCH_LIST: Gate = Gate::on("WatchListClient");

/// Options for listing and watching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReflectorOptions {
    /// Whether to receive the initial state through the watch (`WatchListClient`).
    pub streaming: bool,
    /// How long, in ns, to reopen streams that end with a 500; 0 means never.
    pub internal_error_retry_ns: i64,
    /// The maximum delay before another attempt, in ns. Jitter can double it. The first
    /// delay is 0.8 s. Upstream uses 30 s.
    pub backoff_max_ns: i64,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        ReflectorOptions {
            streaming: true,
            internal_error_retry_ns: 0,
            backoff_max_ns: BACKOFF_MAX_NS,
        }
    }
}

/// The driver's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// List all objects, then call [`Reflector::on_list`].
    List {
        /// Unset for the newest state, `0` for any state, otherwise the minimum version of the
        /// state.
        version: ResourceVersion,
        /// The maximum number of objects per page; `None` for all objects in one page.
        limit: Option<u32>,
    },
    /// Open a watch with bookmarks, call [`Reflector::on_watch`], then pass on its events.
    Watch {
        /// The version after which the events begin.
        version: ResourceVersion,
        /// Whether the server first sends the initial state, up to a bookmark
        /// (`sendInitialEvents`). If so, `version` is the minimum version of that state; unset
        /// means the newest state.
        initial_events: bool,
        /// The time after which the server should end the watch.
        timeout_seconds: u32,
    },
    /// Do nothing until this monotonic time, in ns.
    Wait {
        /// The time at which to call [`Reflector::next`] again.
        until_ns: i64,
    },
    /// Do nothing until the request in progress is answered or the next event arrives.
    Busy,
}

/// A change that the store must apply, in the order of delivery.
#[derive(Clone, Debug)]
pub enum Delivery<T: ?Sized> {
    /// An object was added, modified or deleted.
    Delta(Delta<T>),
    /// Nothing has changed up to this version.
    Bookmark(ResourceVersion),
    /// The objects are all that exist at this version.
    Replace(Vec<Arc<T>>, ResourceVersion),
}

/// Decides how to keep a store in sync with the server, for one kind of object.
#[derive(Debug)]
pub struct Reflector<T: ?Sized> {
    options: ReflectorOptions,
    phase: Phase<T>,
    /// The last version seen; unset until the first state is complete.
    last: ResourceVersion,
    /// Whether the server has reported that it does not have `last`.
    unavailable: bool,
    backoff: Backoff,
    /// When the current series of 500s began; `None` if there is none.
    internal_errors_since_ns: Option<i64>,
}

#[derive(Debug)]
enum Phase<T: ?Sized> {
    /// Begin this step now.
    Ready(CycleStep),
    /// Begin this step after a random delay, counted from `since_ns`.
    BackOff { since_ns: i64, then: CycleStep },
    /// Begin this step at `until_ns`.
    Waiting { until_ns: i64, then: CycleStep },
    /// A list was requested. `again` marks the second list of a cycle, which is the last one.
    Listing { again: bool },
    /// A watch was requested at `since_ns`.
    Opening { since_ns: i64, then: CycleStep },
    /// The watch sends the initial state.
    Collecting {
        since_ns: i64,
        events: u64,
        objects: Objects<T>,
    },
    /// The watch sends changes.
    Watching {
        since_ns: i64,
        events: u64,
        settled: bool,
    },
}

/// The objects of the initial state received so far. Servers send them sorted by namespace and
/// name, each object once, so objects are appended. The order is checked at the end, and before
/// that if an object changes.
#[derive(Debug)]
struct Objects<T: ?Sized>(Vec<Arc<T>>);

impl<T: Object + ?Sized> Objects<T> {
    fn add(&mut self, object: Arc<T>) {
        self.0.push(object);
    }

    fn remove(&mut self, object: &T) {
        self.settle();
        if let Ok(at) = self
            .0
            .binary_search_by(|held| key(&**held).cmp(&key(object)))
        {
            self.0.remove(at);
        }
    }

    /// Sorts by namespace and name. Keeps only the last of several objects with the same name.
    fn settle(&mut self) {
        if self.0.is_sorted_by(|a, b| key(&**a) < key(&**b)) {
            return;
        }
        // After the reversal, later objects come first among equals, so `dedup_by` keeps them.
        self.0.reverse();
        self.0.sort_by(|a, b| key(&**a).cmp(&key(&**b)));
        self.0.dedup_by(|a, b| key(&**a) == key(&**b));
    }

    fn take(&mut self) -> Vec<Arc<T>> {
        self.settle();
        mem::take(&mut self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CycleStep {
    /// Starts a cycle: with a list or, if `streaming` is set, a watch with the initial state.
    Initial,
    /// Lists all objects. `again` is set if the version requested first was not available.
    List { again: bool },
    /// Watches from `last`.
    Watch,
}

impl<T: Object + ?Sized> Reflector<T> {
    /// Creates a reflector that has not seen any version.
    pub fn new(options: ReflectorOptions) -> Self {
        Reflector {
            options,
            phase: Phase::Ready(CycleStep::Initial),
            last: ResourceVersion::Unset,
            unavailable: false,
            backoff: Backoff::default(),
            internal_errors_since_ns: None,
        }
    }

    /// Returns the last version seen; unset until the first state is complete.
    pub fn last_version(&self) -> &ResourceVersion {
        &self.last
    }

    /// Returns the next step. Each request is returned only once. `random` is uniformly distributed
    /// over 0..1.
    pub fn next(&mut self, now: Now, random: f64) -> Action {
        if let Phase::BackOff { since_ns, then } = self.phase {
            let until_ns = since_ns.saturating_add(self.backoff.delay_ns(
                self.options.backoff_max_ns,
                since_ns,
                random,
            ));
            self.phase = Phase::Waiting { until_ns, then };
        }
        match self.phase {
            Phase::Waiting { until_ns, .. } if until_ns > now.mono_ns => Action::Wait { until_ns },
            Phase::Waiting { then: step, .. } | Phase::Ready(step) => self.begin(step, now, random),
            _ => Action::Busy,
        }
    }

    fn begin(&mut self, step: CycleStep, now: Now, random: f64) -> Action {
        let initial_events = match step {
            CycleStep::Initial if self.options.streaming => true,
            CycleStep::Watch => false,
            CycleStep::Initial => return self.begin_list(false),
            CycleStep::List { again } => return self.begin_list(again),
        };
        self.phase = Phase::Opening {
            since_ns: now.mono_ns,
            then: step,
        };
        let newest = initial_events && self.unavailable;
        Action::Watch {
            version: if newest {
                ResourceVersion::Unset
            } else {
                self.last.clone()
            },
            initial_events,
            timeout_seconds: (WATCH_TIMEOUT_SECONDS * (1.0 + random)) as u32,
        }
    }

    fn begin_list(&mut self, again: bool) -> Action {
        self.phase = Phase::Listing { again };
        if self.unavailable {
            Action::List {
                version: ResourceVersion::Unset,
                limit: Some(PAGE_LIMIT),
            }
        } else if self.last.is_unset() {
            Action::List {
                version: ResourceVersion::new("0"),
                limit: Some(PAGE_LIMIT),
            }
        } else {
            Action::List {
                version: self.last.clone(),
                limit: None,
            }
        }
    }

    /// Handles the answer to the list in progress: all objects at a version, or an error.
    ///
    /// # Panics
    /// Panics if no list is in progress.
    pub fn on_list(
        &mut self,
        answer: Result<(Vec<Arc<T>>, ResourceVersion), &ApiError>,
        now: Now,
    ) -> Option<Delivery<T>> {
        let Phase::Listing { again } = self.phase else {
            panic!("no list is in progress")
        };
        match answer {
            Ok((objects, version)) => {
                self.unavailable = false;
                self.last = version.clone();
                self.phase = Phase::Ready(CycleStep::Watch);
                return Some(Delivery::Replace(objects, version));
            }
            Err(error) if is_expired(error) || is_too_large(error) => {
                self.unavailable = true;
                match again {
                    false => self.phase = Phase::Ready(CycleStep::List { again: true }),
                    true => self.leave(now),
                }
            }
            Err(_) => self.leave(now),
        }
        None
    }

    /// Handles the answer to the requested watch: whether the server opened or refused it.
    ///
    /// # Panics
    /// Panics if no watch was requested.
    pub fn on_watch(&mut self, answer: Result<(), &ApiError>, now: Now) {
        let Phase::Opening { since_ns, then } = self.phase else {
            panic!("no watch was requested")
        };
        match (answer, then) {
            (Ok(()), CycleStep::Watch) => self.watch(since_ns),
            (Ok(()), _) => {
                let objects = Objects(Vec::new());
                self.phase = Phase::Collecting {
                    since_ns,
                    events: 0,
                    objects,
                };
            }
            (Err(error), CycleStep::Watch) if is_retriable(error) => {
                self.back_off(CycleStep::Watch, now)
            }
            (Err(_), CycleStep::Watch) => self.leave(now),
            (Err(error), _) => self.initial_failed(error, now),
        }
    }

    /// Handles the next event of the open stream. An error event ends the stream: the driver must
    /// close it and call [`next`](Self::next).
    ///
    /// # Panics
    /// Panics if no stream is open.
    pub fn on_event(&mut self, event: WatchEvent<T>, now: Now) -> Option<Delivery<T>> {
        match &mut self.phase {
            Phase::Collecting { .. } => self.collect(event, now),
            Phase::Watching { .. } => self.follow(event, now),
            _ => panic!("no stream is open"),
        }
    }

    /// Handles the end of a stream that ended without an error event.
    ///
    /// # Panics
    /// Panics if no stream is open.
    pub fn on_closed(&mut self, now: Now) {
        let (since_ns, events, initial) = match self.phase {
            Phase::Collecting {
                since_ns, events, ..
            } => (since_ns, events, true),
            Phase::Watching {
                since_ns, events, ..
            } => (since_ns, events, false),
            _ => panic!("no stream is open"),
        };
        let short = events == 0 && now.mono_ns - since_ns < SHORT_WATCH_NS;
        match (initial, short) {
            (true, false) => self.phase = Phase::Ready(CycleStep::Initial),
            // Handled like any other error of a stream that never worked.
            (true, true) => self.phase = Phase::Ready(CycleStep::List { again: false }),
            (false, false) => self.phase = Phase::Ready(CycleStep::Watch),
            (false, true) => self.leave(now),
        }
    }

    fn collect(&mut self, event: WatchEvent<T>, now: Now) -> Option<Delivery<T>> {
        let Phase::Collecting {
            events, objects, ..
        } = &mut self.phase
        else {
            unreachable!("the caller has matched the phase")
        };
        *events += 1;
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                objects.add(object);
            }
            WatchEvent::Deleted(object) => {
                objects.remove(&object);
            }
            WatchEvent::Bookmark {
                version,
                initial_events_end: true,
            } => {
                let objects = objects.take();
                self.unavailable = false;
                self.last = version.clone();
                self.watch(now.mono_ns);
                return Some(Delivery::Replace(objects, version));
            }
            WatchEvent::Bookmark { .. } => {}
            WatchEvent::Error(error) => self.initial_failed(&error, now),
        }
        None
    }

    fn follow(&mut self, event: WatchEvent<T>, now: Now) -> Option<Delivery<T>> {
        let Phase::Watching {
            events, settled, ..
        } = &mut self.phase
        else {
            unreachable!("the caller has matched the phase")
        };
        *events += 1;
        let (delivery, version) = match event {
            WatchEvent::Added(object) => {
                let version = object.metadata().resource_version.clone();
                (Delivery::Delta(Delta::Applied(object)), version)
            }
            WatchEvent::Modified(object) => {
                *settled = true;
                let version = object.metadata().resource_version.clone();
                (Delivery::Delta(Delta::Applied(object)), version)
            }
            WatchEvent::Deleted(object) => {
                *settled = true;
                let version = object.metadata().resource_version.clone();
                (Delivery::Delta(Delta::Deleted(object)), version)
            }
            WatchEvent::Bookmark { version, .. } => {
                *settled = true;
                (Delivery::Bookmark(version.clone()), version)
            }
            WatchEvent::Error(error) => {
                self.watch_failed(&error, now);
                return None;
            }
        };
        if *settled {
            self.last = version;
        }
        Some(delivery)
    }

    fn watch(&mut self, since_ns: i64) {
        // A watch from no particular version begins with the current state, in no order of
        // versions, so it cannot be resumed from one of these events.
        let anywhere = self.last.is_unset() || self.last == ResourceVersion::new("0");
        self.phase = Phase::Watching {
            since_ns,
            events: 0,
            settled: !anywhere,
        };
    }

    /// Handles a failure of the watch with the initial state, before or after it was opened.
    fn initial_failed(&mut self, error: &ApiError, now: Now) {
        if is_retriable(error) {
            self.back_off(CycleStep::Initial, now);
        } else if is_expired(error) || is_too_large(error) {
            self.unavailable = true;
            self.phase = Phase::Ready(CycleStep::Initial);
        } else {
            self.phase = Phase::Ready(CycleStep::List { again: false });
        }
    }

    /// Handles an error of the watch for changes.
    fn watch_failed(&mut self, error: &ApiError, now: Now) {
        if is_too_many_requests(error) {
            self.back_off(CycleStep::Watch, now);
        } else if is_internal(error) && self.retries_internal_errors(now) {
            self.phase = Phase::Ready(CycleStep::Watch);
        } else {
            // An expired version is kept: a list that is not older than it may still succeed.
            self.leave(now);
        }
    }

    fn retries_internal_errors(&mut self, now: Now) -> bool {
        let since_ns = *self.internal_errors_since_ns.get_or_insert(now.mono_ns);
        let limit_ns = self.options.internal_error_retry_ns;
        let retries = limit_ns > 0 && now.mono_ns - since_ns <= limit_ns;
        if !retries {
            self.internal_errors_since_ns = None;
        }
        retries
    }

    /// Ends the cycle. The next cycle starts after a delay.
    fn leave(&mut self, now: Now) {
        self.back_off(CycleStep::Initial, now);
    }

    fn back_off(&mut self, then: CycleStep, now: Now) {
        self.phase = Phase::BackOff {
            since_ns: now.mono_ns,
            then,
        };
    }
}

fn key<T: Object + ?Sized>(object: &T) -> (&str, &str) {
    let metadata = object.metadata();
    (&metadata.namespace, &metadata.name)
}

/// Reports whether a refused request can be repeated later.
fn is_retriable(error: &ApiError) -> bool {
    is_too_many_requests(error) || (error.code == 0 && error.message.contains("connection refused"))
}

fn is_too_many_requests(error: &ApiError) -> bool {
    error.code == 429 || error.reason == Reason::TooManyRequests
}

fn is_internal(error: &ApiError) -> bool {
    error.code == 500 || error.reason == Reason::InternalError
}

/// Reports whether the error is that the requested version is too old (410).
fn is_expired(error: &ApiError) -> bool {
    error.code == 410 || error.reason == Reason::Expired
}

/// Reports whether the server has not reached the requested version yet, by the cause of the error
/// or by the message of a 504.
fn is_too_large(error: &ApiError) -> bool {
    error.has_cause("ResourceVersionTooLarge")
        || (error.reason == Reason::Timeout && error.message.contains("Too large resource version"))
}

/// The growing delays of the cycles and of the requests in them.
#[derive(Debug, Default)]
struct Backoff {
    /// The number of consecutive delays, counted up to the maximum delay.
    steps: u32,
    last_ns: Option<i64>,
}

impl Backoff {
    /// Returns the next delay: 0.8 s, doubled up to `max_ns`, times a random factor of 1 to 2.
    fn delay_ns(&mut self, max_ns: i64, now_ns: i64, random: f64) -> i64 {
        if self
            .last_ns
            .is_some_and(|last_ns| now_ns - last_ns > BACKOFF_RESET_NS)
        {
            self.steps = 0;
        }
        self.last_ns = Some(now_ns);
        let delay_ns = (BACKOFF_FIRST_NS << self.steps).min(max_ns);
        if delay_ns < max_ns {
            self.steps += 1;
        }
        delay_ns + (delay_ns as f64 * random) as i64
    }
}

#[cfg(test)]
mod tests;
