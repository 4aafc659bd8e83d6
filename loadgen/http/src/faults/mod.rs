//! Faults of requests and watches, armed by a test: on demand, a client sees the failures of a
//! server or a network. They are armed in process with
//! [`ApiServer::faults`](crate::ApiServer::faults), and by any client through `/podstorm/faults`.
//!
//! One lock guards the table of armed faults. A request takes it only while a fault is armed that
//! may still strike; otherwise faults cost one relaxed load. Lock order: the list of open watches,
//! the table, then one watch's slot. No lock is held while a request is executed or delayed.
//!
//! `fault` defines faults, `waiting` the watches and answers that faults hold, and `document` the
//! JSON; `arming` serves the paths. A new fault needs an `Effect` in `fault`, its JSON in
//! `document`, its implementation in `requests` or `watch`, and a row in `docs/guide/apiserver.md`.

mod document;
mod fault;
#[cfg(test)]
mod tests;
mod waiting;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use podstorm_objects::ApiError;

pub use fault::{Effect, Fault, InvalidFault, Refusal, Verb};

pub(crate) use document::{read, write};
pub(crate) use fault::Asked;
pub(crate) use waiting::{Hold, HoldTime, Waiting, WatchFault, Watches};

use crate::time::Clock;
use fault::invalid;
use waiting::Held;

/// The maximum number of faults armed at the same time, including spent ones.
pub const FAULTS_MAX: usize = 1000;

/// The error of a connection that an armed fault closes before or during an answer. In process, it
/// is the error of the service and of its bodies. On a listener, the connection closes (HTTP/1.1)
/// or the stream is reset (HTTP/2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an armed fault closed the connection before the answer was complete")]
pub struct ConnectionLost;

/// The number of an armed fault. Each server counts from 1 and never reuses a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub(crate) u64);

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An armed fault with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmedFault {
    /// The fault's number.
    pub id: FaultId,
    /// The fault.
    pub fault: Fault,
    /// The number of matching requests and watches that have passed, at most [`Fault::after`].
    pub passed: u64,
    /// The number of requests and watches struck. At [`Fault::times`] the fault is spent.
    pub struck: u64,
}

impl ArmedFault {
    /// Reports whether the fault may still strike.
    pub fn is_live(&self) -> bool {
        self.struck < self.fault.times
    }
}

/// A handle to the armed faults of a server.
///
/// At most one fault strikes a request: the first armed fault that matches the request, is not
/// spent, and has let enough requests pass.
#[derive(Clone, Copy)]
pub struct Faults<'a> {
    pub(crate) armed: &'a Armed,
    pub(crate) watches: &'a Watches,
    pub(crate) clock: &'a Clock,
}

opaque_debug!(Faults<'_>);

impl Faults<'_> {
    /// Arms a fault. A watch fault immediately strikes the open watches, in the order in which they
    /// were opened. A spent fault stays listed until it is disarmed.
    ///
    /// # Errors
    /// The same as [`Fault::check`]; also an error if [`FAULTS_MAX`] faults are already armed.
    pub fn arm(&self, fault: Fault) -> Result<FaultId, InvalidFault> {
        fault.check()?;
        let now_ns = (self.clock)().mono_ns;
        // Held while the table changes, so that a concurrently opened watch is struck exactly once.
        let watches = self.watches.lock();
        let mut table = self.armed.lock();
        if table.entries.len() == FAULTS_MAX {
            let why = format!("{FAULTS_MAX} faults are armed: disarm spent ones first");
            return Err(invalid("faults", why));
        }
        table.last_id += 1;
        let id = FaultId(table.last_id);
        let armed = ArmedFault {
            id,
            fault,
            passed: 0,
            struck: 0,
        };
        table.entries.push(Entry {
            armed,
            held: Vec::new(),
        });
        let at = table.entries.len() - 1;
        for watch in watches.iter().filter_map(std::sync::Weak::upgrade) {
            table.strike_watch(at, &watch, now_ns);
        }
        self.armed.count_live(&table);
        Ok(id)
    }

    /// Disarms a fault, and releases the watches and answers that it holds. `None` if there is no
    /// fault with this number.
    pub fn disarm(&self, id: FaultId) -> Option<ArmedFault> {
        self.take(|armed| armed.id == id).pop()
    }

    /// Disarms all faults, releases the watches and answers that they hold, and returns the faults.
    pub fn disarm_all(&self) -> Vec<ArmedFault> {
        self.take(|_| true)
    }

    fn take(&self, is_wanted: impl Fn(&ArmedFault) -> bool) -> Vec<ArmedFault> {
        let taken: Vec<Entry> = {
            let mut table = self.armed.lock();
            let is_wanted = |entry: &mut Entry| is_wanted(&entry.armed);
            let taken = table.entries.extract_if(.., is_wanted).collect();
            self.armed.count_live(&table);
            taken
        };
        for held in taken.iter().flat_map(|entry| &entry.held) {
            held.hold.release();
            held.wake();
        }
        taken.into_iter().map(|entry| entry.armed).collect()
    }

    /// Returns the armed faults, including spent ones, sorted by number.
    pub fn all(&self) -> Vec<ArmedFault> {
        let table = self.armed.lock();
        let all = table.entries.iter().map(|entry| entry.armed.clone());
        all.collect()
    }

    /// Returns the number of strikes of a fault, or `None` if there is no fault with this number.
    pub fn struck(&self, id: FaultId) -> Option<u64> {
        let table = self.armed.lock();
        let found = table.entries.iter().find(|entry| entry.armed.id == id);
        found.map(|entry| entry.armed.struck)
    }
}

/// The armed faults of a server.
#[derive(Debug, Default)]
pub(crate) struct Armed {
    table: Mutex<Table>,
    /// The number of faults that may still strike. Written under the table's lock.
    live: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    /// The armed faults, sorted by number.
    entries: Vec<Entry>,
    /// The number of strikes of each effect, by [`Effect::number`]. Includes disarmed faults.
    struck: [u64; Effect::NAMES.len()],
}

#[derive(Debug)]
struct Entry {
    armed: ArmedFault,
    /// The watches and answers that the fault holds. Some of them may already be released.
    held: Vec<Held>,
}

/// The effect of a fault on a request.
#[derive(Debug)]
pub(crate) enum Struck {
    Refused(ApiError),
    RequestLost,
    /// The answer is replaced; if `None`, it is lost.
    AnswerLost(Option<ApiError>),
    Delayed(Arc<Hold>, Arc<Waiting>),
}

impl Armed {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_live(&self, table: &Table) {
        let live = table.entries.iter();
        let live = live.filter(|entry| entry.armed.is_live()).count();
        // Relaxed: see `is_armed`.
        self.live.store(live, Ordering::Relaxed);
    }

    /// Reports whether any fault may still strike.
    ///
    /// Relaxed: the table's lock orders everything else. A request that a client sends after `arm`
    /// has returned, or after the answer to arming has arrived, happens after the store, so it
    /// reads that value or a later one.
    pub(crate) fn is_armed(&self) -> bool {
        self.live.load(Ordering::Relaxed) > 0
    }

    /// Lets the first fault that matches strike the request, and counts the strike. Returns the
    /// effect, or `None` if no fault strikes.
    #[cold]
    pub(crate) fn strike(&self, now_ns: i64, asked: &Asked) -> Option<Struck> {
        let mut table = self.lock();
        let Table {
            entries, struck, ..
        } = &mut *table;
        let entry = entries.iter_mut().find_map(|entry| {
            let fault = &entry.armed.fault;
            let is_about = !fault.effect.is_of_watches() && fault.is_about(asked);
            (is_about && entry.armed.is_due()).then_some(entry)
        })?;
        let effect = entry.armed.fault.effect;
        entry.armed.struck += 1;
        struck[effect.number()] += 1;
        let outcome = match effect {
            Effect::LoseRequest => Struck::RequestLost,
            Effect::LoseAnswer(instead) => {
                Struck::AnswerLost(instead.map(|refusal| refusal.error(asked)))
            }
            Effect::DelayAnswer(time) => {
                let (hold, waiting) = (Hold::new(now_ns, Some(time)), Arc::default());
                entry.hold(&hold, &waiting);
                Struck::Delayed(hold, waiting)
            }
            Effect::Refuse(refusal) => Struck::Refused(refusal.error(asked)),
            Effect::HoldEvents(_) | Effect::EndWatch | Effect::CutWatch | Effect::ExpireWatch => {
                unreachable!("watch effects never strike other requests")
            }
        };
        self.count_live(&table);
        Some(outcome)
    }

    /// Lets the armed faults strike a watch that opens. The caller holds the lock of the list of
    /// open watches.
    pub(crate) fn watch_opens(&self, now_ns: impl FnOnce() -> i64, watch: &Arc<Waiting>) {
        if !self.is_armed() {
            return;
        }
        let now_ns = now_ns();
        let mut table = self.lock();
        for at in 0..table.entries.len() {
            if table.strike_watch(at, watch, now_ns) {
                break;
            }
        }
        self.count_live(&table);
    }

    /// Returns the name and the number of strikes of each effect.
    pub(crate) fn struck_by_effect(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Effect::NAMES.into_iter().zip(self.lock().struck)
    }

    /// Wakes the watches and answers whose holds end at this time or earlier. O(armed faults and
    /// the watches and answers that they hold).
    pub(crate) fn time_has_moved(&self, now_ns: i64) {
        let mut due = Vec::new();
        for entry in &mut self.lock().entries {
            let is_over = |held: &mut Held| held.hold.is_over(now_ns);
            due.extend(entry.held.extract_if(.., is_over));
        }
        due.iter().for_each(Held::wake);
    }
}

impl Table {
    /// Strikes a watch if the fault matches the watch and is due. Returns whether the fault struck.
    fn strike_watch(&mut self, at: usize, watch: &Arc<Waiting>, now_ns: i64) -> bool {
        let entry = &mut self.entries[at];
        let effect = entry.armed.fault.effect;
        let is_about = |asked: &Asked| entry.armed.fault.is_about(asked);
        if !effect.is_of_watches() || !watch.asked.as_ref().is_some_and(is_about) {
            return false;
        }
        if !entry.armed.is_due() {
            return false;
        }
        let (met, hold) = match effect {
            Effect::HoldEvents(time) => {
                let hold = Hold::new(now_ns, time);
                (WatchFault::Held(Arc::clone(&hold)), Some(hold))
            }
            Effect::CutWatch => (WatchFault::Cut, None),
            Effect::ExpireWatch => (WatchFault::Expire, None),
            _ => (WatchFault::End, None),
        };
        if !watch.meet(met, now_ns) {
            return false;
        }
        if let Some(hold) = hold {
            entry.hold(&hold, watch);
        }
        entry.armed.struck += 1;
        self.struck[effect.number()] += 1;
        true
    }
}

impl ArmedFault {
    /// Reports whether the fault strikes a request that matches it. If more requests must pass
    /// before, counts the request as passed.
    fn is_due(&mut self) -> bool {
        let is_due = self.passed == self.fault.after;
        if !is_due {
            self.passed += 1;
        }
        is_due && self.is_live()
    }
}

impl Entry {
    fn hold(&mut self, hold: &Arc<Hold>, waiting: &Arc<Waiting>) {
        self.held.retain(|held| held.waiting.strong_count() > 0);
        self.held.push(Held {
            hold: Arc::clone(hold),
            waiting: Arc::downgrade(waiting),
        });
    }
}
