//! Keys of deleted objects. After a cooldown, a new name gets such a key. All state under keys
//! (queue, expectations, caches) therefore grows with the number of objects that exist within a
//! few minutes, not with all objects that ever existed.
//!
//! The cooldown protects an event handler that found an owner before its deletion and uses the key
//! some instructions later. It is as long as the timeout of the expectations, so a handler that is
//! even later can do no more harm than expired expectations. A key that is queued or being synced
//! is skipped.

use std::collections::{BTreeMap, BTreeSet};

use crate::intern::KeyId;
use crate::limits::EXPECTATIONS_TIMEOUT_NS;

/// The cooldown of a key, in ns: five minutes.
pub const KEY_COOLDOWN_NS: i64 = EXPECTATIONS_TIMEOUT_NS;

/// The maximum number of keys to try for a new name. Recycled keys are busy only after an outage.
const KEYS_TRIED: usize = 4;

/// The keys in cooldown, oldest first.
#[derive(Debug, Default)]
pub(super) struct Recycled {
    since_ns: BTreeMap<KeyId, i64>,
    in_order: BTreeSet<(i64, KeyId)>,
}

impl Recycled {
    /// Adds the key of a deleted object.
    pub(super) fn insert(&mut self, key: KeyId, now_ns: i64) {
        self.remove(key);
        self.since_ns.insert(key, now_ns);
        self.in_order.insert((now_ns, key));
    }

    /// Removes a key whose name has an object again.
    pub(super) fn remove(&mut self, key: KeyId) {
        if let Some(since_ns) = self.since_ns.remove(&key) {
            self.in_order.remove(&(since_ns, key));
        }
    }

    /// Takes the oldest key that has cooled down and is free; `None` if there is none among the
    /// first [`KEYS_TRIED`]. A key that is not free starts its cooldown again.
    pub(super) fn take(&mut self, now_ns: i64, is_free: impl Fn(KeyId) -> bool) -> Option<KeyId> {
        for _ in 0..KEYS_TRIED {
            let &(since_ns, key) = self.in_order.first()?;
            if now_ns.saturating_sub(since_ns) < KEY_COOLDOWN_NS {
                return None;
            }
            self.remove(key);
            if is_free(key) {
                return Some(key);
            }
            self.insert(key, now_ns);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: KeyId = KeyId(1);
    const B: KeyId = KeyId(2);

    #[test]
    fn keys_are_reused_oldest_first_after_their_cooldown() {
        let mut recycled = Recycled::default();
        recycled.insert(B, 10);
        recycled.insert(A, 20);
        assert_eq!(recycled.take(9 + KEY_COOLDOWN_NS, |_| true), None);
        assert_eq!(recycled.take(20 + KEY_COOLDOWN_NS, |_| true), Some(B));
        assert_eq!(recycled.take(20 + KEY_COOLDOWN_NS, |_| true), Some(A));
        assert_eq!(recycled.take(20 + KEY_COOLDOWN_NS, |_| true), None);
    }

    #[test]
    fn a_key_with_an_object_again_is_not_reused() {
        let mut recycled = Recycled::default();
        recycled.insert(A, 10);
        recycled.remove(A);
        assert_eq!(recycled.take(10 + KEY_COOLDOWN_NS, |_| true), None);
        recycled.insert(A, 10);
        recycled.insert(A, 15);
        assert_eq!(recycled.take(14 + KEY_COOLDOWN_NS, |_| true), None);
    }

    #[test]
    fn a_key_in_use_starts_its_cooldown_again() {
        let mut recycled = Recycled::default();
        recycled.insert(A, 0);
        recycled.insert(B, 1);
        let now_ns = 1 + KEY_COOLDOWN_NS;
        assert_eq!(recycled.take(now_ns, |key| key != A), Some(B));
        let again_ns = now_ns + KEY_COOLDOWN_NS;
        assert_eq!(recycled.take(again_ns - 1, |_| true), None);
        assert_eq!(recycled.take(again_ns, |_| true), Some(A));
    }
}
