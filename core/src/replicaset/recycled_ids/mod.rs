//! Recycled keys of owners that are gone. After a cooldown a key is given to the next owner with a
//! new name. So everything that is stored by key (queue, expectations, caches) grows with the
//! owners that are alive within a few minutes, not with all owners that ever existed.
//!
//! The cooldown protects an event handler that found a pod's owner before the owner went and has
//! yet to use the key, some instructions later. After the cooldown, which is as long as the
//! expectations' timeout, such a handler can do no more harm than expired expectations. A key that
//! is queued or being synced is skipped.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_objects::{Now, ObjectMeta};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::EXPECTATIONS_TIMEOUT_NS;
use podstorm_runtime::primitives::{Mutex, lock};

use super::Controller;

/// The cooldown of a key, ns: five minutes.
pub(super) const KEY_COOLDOWN_NS: i64 = EXPECTATIONS_TIMEOUT_NS;

/// How many keys are tried for one new name. Keys are in use only after an outage.
const KEYS_TRIED: usize = 4;

/// The keys in cooldown, oldest first.
#[derive(Debug, Default)]
pub(super) struct RecycledIds {
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    since_ns: BTreeMap<KeyId, i64>,
    in_order: BTreeSet<(i64, KeyId)>,
}

impl RecycledIds {
    /// Adds the key of an owner that is gone.
    pub(super) fn insert(&self, key: KeyId, now_ns: i64) {
        let mut keys = lock(&self.keys);
        keys.remove(key);
        keys.since_ns.insert(key, now_ns);
        keys.in_order.insert((now_ns, key));
    }

    /// Removes a key that has an owner again.
    pub(super) fn remove(&self, key: KeyId) {
        lock(&self.keys).remove(key);
    }

    /// Takes the oldest key that has cooled down and is free. A key that is not free starts its
    /// cooldown again.
    fn take(&self, now_ns: i64, is_free: impl Fn(KeyId) -> bool) -> Option<KeyId> {
        let mut keys = lock(&self.keys);
        for _ in 0..KEYS_TRIED {
            let &(since_ns, key) = keys.in_order.first()?;
            if now_ns.saturating_sub(since_ns) < KEY_COOLDOWN_NS {
                return None;
            }
            keys.remove(key);
            if is_free(key) {
                return Some(key);
            }
            keys.since_ns.insert(key, now_ns);
            keys.in_order.insert((now_ns, key));
        }
        None
    }
}

impl Keys {
    fn remove(&mut self, key: KeyId) {
        if let Some(since_ns) = self.since_ns.remove(&key) {
            self.in_order.remove(&(since_ns, key));
        }
    }
}

impl Controller {
    /// Gives a recycled key to an owner with a new name, if there is one. Must be called before the
    /// store gets the owner, by the thread that applies the owner's events.
    pub(super) fn reuse_key(&self, owner: &ObjectMeta, now: Now) {
        let (namespace, name) = (&*owner.namespace, &*owner.name);
        if self.owners.find(namespace, name).is_some() {
            return;
        }
        let is_free = |key| self.owners.get(key).is_none() && self.queue.is_idle(key);
        if let Some(key) = self.recycled_ids.take(now.mono_ns, is_free) {
            self.queue.forget(key);
            self.expectations.delete(key);
            self.consistency.clear(&key, None);
            self.hardened.forget(key);
            self.owners.rename(key, namespace, name);
        }
    }
}

#[cfg(test)]
mod tests;
