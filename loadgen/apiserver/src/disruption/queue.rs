//! The disruption controller's queue: keys that are due, in order of arrival, and keys that are due
//! later. Times are of the wall clock, ns since the epoch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use compact_str::CompactString;
use podstorm_objects::Str;

/// The first delay of a key after a failure; it doubles with each one in a row.
///
/// Source: `DefaultTypedControllerRateLimiter` of Kubernetes' client-go.
const RETRY_MIN_NS: i64 = 5_000_000;

/// The longest delay.
const RETRY_MAX_NS: i64 = 1000 * 1_000_000_000;

/// What is to be synced, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SyncKey {
    /// A budget.
    Budget(Str, CompactString),
    /// A pod that was about to be disrupted.
    Pod(Str, CompactString),
}

/// The queue. A key is in `order` at most once, and in `later` at most once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    order: VecDeque<SyncKey>,
    queued: BTreeSet<SyncKey>,
    /// By time.
    later: BTreeSet<(i64, SyncKey)>,
    /// The same, by key.
    due: BTreeMap<SyncKey, i64>,
    /// Failures in a row.
    failures: BTreeMap<SyncKey, u32>,
}

impl Queue {
    /// Adds a key; returns whether it was not queued.
    pub(super) fn add(&mut self, key: SyncKey) -> bool {
        let is_new = self.queued.insert(key.clone());
        if is_new {
            self.order.push_back(key);
        }
        is_new
    }

    /// Adds a key later; an earlier time that it was to be added at stays. Returns whether it is now
    /// the first of them.
    pub(super) fn add_at(&mut self, key: SyncKey, due_ns: i64) -> bool {
        if self
            .due
            .get(&key)
            .is_some_and(|known_ns| *known_ns <= due_ns)
        {
            return false;
        }
        self.cancel(&key);
        self.due.insert(key.clone(), due_ns);
        self.later.insert((due_ns, key.clone()));
        self.later.first().is_some_and(|(_, first)| *first == key)
    }

    /// Adds a key no more later.
    pub(super) fn cancel(&mut self, key: &SyncKey) {
        if let Some(due_ns) = self.due.remove(key) {
            self.later.remove(&(due_ns, key.clone()));
        }
    }

    /// Takes the first key that is due.
    pub(super) fn pop(&mut self, now_ns: i64) -> Option<SyncKey> {
        while self
            .later
            .first()
            .is_some_and(|(due_ns, _)| *due_ns <= now_ns)
            && let Some((_, key)) = self.later.pop_first()
        {
            self.due.remove(&key);
            self.add(key);
        }
        let key = self.order.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    /// A key was synced, and is to be added again after that time. As upstream, a key whose time
    /// has come waits for the rate limiter too.
    pub(super) fn done(&mut self, key: SyncKey, again_after_ns: Option<i64>, now_ns: i64) {
        self.failures.remove(&key);
        if let Some(after_ns) = again_after_ns {
            let due_ns = now_ns.saturating_add(after_ns).saturating_add(RETRY_MIN_NS);
            self.add_at(key, due_ns);
        }
    }

    /// The sync of a key has failed.
    pub(super) fn retry(&mut self, key: SyncKey, now_ns: i64) {
        let failures = self.failures.entry(key.clone()).or_default();
        let factor = 1_i64.checked_shl(*failures).unwrap_or(i64::MAX);
        *failures = failures.saturating_add(1).min(32);
        let delay_ns = RETRY_MIN_NS.saturating_mul(factor).min(RETRY_MAX_NS);
        self.add_at(key, now_ns.saturating_add(delay_ns));
    }

    /// When the next key is due; long ago where one is queued.
    pub(super) fn next_due_ns(&self) -> Option<i64> {
        match self.order.is_empty() {
            false => Some(i64::MIN),
            true => self.later.first().map(|(due_ns, _)| *due_ns),
        }
    }
}
