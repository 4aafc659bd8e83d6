//! Faults of requests and watches, armed by a test: what a client meets when a server or a network fails,
//! on demand. In process by [`ApiServer::faults`], for any client by `/podstorm/faults`.
//!
//! The table of armed faults is behind one lock. A request takes it only while something is armed that may
//! still strike; without that it costs one relaxed load. Lock order: the list of open watches, the table, then
//! one watch's slot. No lock is held while a request is carried out or held back.
//!
//! `fault` is a fault as data, `waiting` what is held back, `document` the JSON and the paths. A new fault is an `Effect` in
//! `fault`, its JSON in `document`, what it does in `requests` or `watch`, and a row in `docs/apiserver.md`.

mod document;
mod fault;
#[cfg(test)]
mod tests;
mod waiting;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use podstorm_objects::ApiError;

pub use fault::{Effect, Fault, InvalidFault, Refusal, Verb};

pub(crate) use document::serve;
pub(crate) use fault::Asked;
pub(crate) use waiting::{Waiting, WatchFault};

use crate::ApiServer;
use fault::invalid;
use waiting::{Held, Hold};

/// Most faults that are armed at once, those that are spent among them.
pub const FAULTS_MAX: usize = 1000;

/// A connection that closes before the answer has come, or in the middle of one: an armed fault has struck.
/// In process it is the error of the service and of its bodies; over a listener the connection closes (HTTP/1.1), or
/// the stream is reset (HTTP/2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection was closed before the answer was complete: an armed fault")]
pub struct ConnectionLost;

/// The number of an armed fault: 1 for the first of a server, never given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fault that was armed, and what has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArmedFault {
    /// Its number.
    pub id: FaultId,
    /// The fault.
    pub fault: Fault,
    /// The number of requests and watches that it has let pass, at most [`Fault::after`].
    pub passed: u64,
    /// The number that it has struck, at most [`Fault::times`]; then it is spent.
    pub struck: u64,
}

impl ArmedFault {
    /// Whether it may strike again.
    pub fn is_live(&self) -> bool {
        self.struck < self.fault.times
    }
}

/// The armed faults of a server.
///
/// A request meets one fault at most: of those that are about it the first armed one that has let enough pass and
/// is not spent.
#[derive(Clone, Copy, Debug)]
pub struct Faults<'a>(pub(crate) &'a ApiServer);

impl Faults<'_> {
    /// Arms a fault. One of watches strikes those that are open at once, in the order in which they were opened. It
    /// stays listed when it is spent, until it is disarmed.
    ///
    /// # Errors
    /// What [`Fault::check`] says, or [`FAULTS_MAX`] faults are armed.
    pub fn arm(&self, fault: Fault) -> Result<FaultId, InvalidFault> {
        fault.check()?;
        let now_ns = self.0.now().mono_ns;
        // Held while the table changes, so that a watch that is opened meanwhile is struck once: here or there.
        let watches = self.0.lock_watches();
        let mut table = self.0.0.faults.lock();
        if table.entries.len() == FAULTS_MAX {
            let why = format!("{FAULTS_MAX} are armed: disarm those that are spent");
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
        self.0.0.faults.count_live(&table);
        Ok(id)
    }

    /// Disarms a fault, and lets go what it holds back. `None` where there is none of that number.
    pub fn disarm(&self, id: FaultId) -> Option<ArmedFault> {
        self.take(|armed| armed.id == id).pop()
    }

    /// Disarms all faults, and lets go what they hold back; returns them.
    pub fn disarm_all(&self) -> Vec<ArmedFault> {
        self.take(|_| true)
    }

    fn take(&self, is_wanted: impl Fn(&ArmedFault) -> bool) -> Vec<ArmedFault> {
        let taken: Vec<Entry> = {
            let mut table = self.0.0.faults.lock();
            let is_wanted = |entry: &mut Entry| is_wanted(&entry.armed);
            let taken = table.entries.extract_if(.., is_wanted).collect();
            self.0.0.faults.count_live(&table);
            taken
        };
        for held in taken.iter().flat_map(|entry| &entry.held) {
            held.hold.release();
            held.wake();
        }
        taken.into_iter().map(|entry| entry.armed).collect()
    }

    /// The faults that are armed, spent ones among them, in the order of their numbers.
    pub fn all(&self) -> Vec<ArmedFault> {
        let table = self.0.0.faults.lock();
        let all = table.entries.iter().map(|entry| entry.armed.clone());
        all.collect()
    }

    /// How often a fault has struck; `None` where there is none of that number.
    pub fn struck(&self, id: FaultId) -> Option<u64> {
        let table = self.0.0.faults.lock();
        let found = table.entries.iter().find(|entry| entry.armed.id == id);
        found.map(|entry| entry.armed.struck)
    }
}

/// The faults of a server.
#[derive(Debug, Default)]
pub(crate) struct Armed {
    table: Mutex<Table>,
    /// The faults that may still strike. Written with the lock of the table held.
    live: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    /// In the order of their numbers.
    entries: Vec<Entry>,
    /// By [`Effect::number`]: how often faults have struck, disarmed ones among them.
    struck: [u64; Effect::NAMES.len()],
}

#[derive(Debug)]
struct Entry {
    armed: ArmedFault,
    /// What it holds back, and some that was let go.
    held: Vec<Held>,
}

/// What a fault makes of a request.
#[derive(Debug)]
pub(crate) enum Struck {
    Refused(ApiError),
    RequestLost,
    /// With another answer in place of the real one, or none.
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

    /// Whether some fault may strike.
    ///
    /// Relaxed: the table's lock orders everything else. A request that is sent after `arm` has returned, or after
    /// its answer has come, happens after the store, so it reads that number or a later one.
    pub(crate) fn is_armed(&self) -> bool {
        self.live.load(Ordering::Relaxed) > 0
    }

    /// Whether some fault may strike this request, and what it then does.
    #[cold]
    pub(crate) fn strike(&self, server: &ApiServer, asked: &Asked) -> Option<Struck> {
        let now_ns = server.now().mono_ns;
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
                unreachable!("these are of watches")
            }
        };
        self.count_live(&table);
        Some(outcome)
    }

    /// Lets the faults of watches strike one that opens. The caller holds the list of open watches.
    pub(crate) fn watch_opens(&self, server: &ApiServer, watch: &Arc<Waiting>) {
        if !self.is_armed() {
            return;
        }
        let now_ns = server.now().mono_ns;
        let mut table = self.lock();
        for at in 0..table.entries.len() {
            if table.strike_watch(at, watch, now_ns) {
                break;
            }
        }
        self.count_live(&table);
    }

    /// Wakes what was held back until this time. O(armed faults and what they hold).
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
    /// Lets a fault strike a watch, if it is about it; returns whether it did.
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
    /// Whether it strikes what it is about now; lets it pass where that is not its turn.
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

impl ApiServer {
    /// The faults that its clients meet.
    pub fn faults(&self) -> Faults<'_> {
        Faults(self)
    }

    /// Lets come what faults have held back until now. To be called after the clock of a server with [virtual
    /// time](crate::Builder::virtual_time) was moved otherwise than by a request.
    pub fn time_has_moved(&self) {
        self.0.faults.time_has_moved(self.now().mono_ns);
    }

    /// For each effect its name, and how often it has struck.
    pub(crate) fn struck_by_effect(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Effect::NAMES.into_iter().zip(self.0.faults.lock().struck)
    }

    /// What a fault makes of a request; nothing is armed for most.
    pub(crate) fn strike(&self, asked: impl FnOnce() -> Option<Asked>) -> Option<Struck> {
        match self.0.faults.is_armed() {
            false => None,
            true => self.0.faults.strike(self, &asked()?),
        }
    }

    /// Comes back when a hold is over, or the server goes away.
    pub(crate) async fn held_back(&self, hold: Arc<Hold>, waiting: Arc<Waiting>) {
        self.add_watch(&waiting);
        let mut look = None;
        poll_fn(|context| {
            waiting.wait(context.waker());
            match self.is_draining() {
                true => Poll::Ready(()),
                false => hold.poll_over(self, &mut look, context),
            }
        })
        .await;
    }
}
