//! State that a controller keeps for each key, besides its caches.
//!
//! The keys share a fixed number of locks, so that syncs of two keys seldom wait for each other. A
//! lock is held while the state of one key is read or changed. Only [`KeyStates::for_each`] walks
//! all keys, one lock after the other.

use std::collections::BTreeMap;

use crate::intern::KeyId;
use crate::primitives::{Mutex, lock};

/// The number of locks that the keys share.
const SHARDS: usize = 64;

/// The state of each key. A key without an entry has the default state.
#[derive(Debug)]
pub struct KeyStates<T>(Box<[Mutex<BTreeMap<KeyId, T>>]>);

impl<T> Default for KeyStates<T> {
    fn default() -> Self {
        KeyStates((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl<T: Default + PartialEq> KeyStates<T> {
    /// Reads or changes the state of a key. Drops the entry if its state becomes the default.
    /// O(log keys); allocates only if the key gets a new entry.
    pub fn with<R>(&self, key: KeyId, change: impl FnOnce(&mut T) -> R) -> R {
        let mut shard = self.shard(key);
        if let Some(state) = shard.get_mut(&key) {
            let result = change(state);
            if *state == T::default() {
                shard.remove(&key);
            }
            return result;
        }
        let mut state = T::default();
        let result = change(&mut state);
        if state != T::default() {
            shard.insert(key, state);
        }
        result
    }
}

impl<T> KeyStates<T> {
    /// Changes the state of a key in place. Does nothing if the key has no entry. O(log keys);
    /// allocates nothing.
    pub fn with_known(&self, key: KeyId, change: impl FnOnce(&mut T)) {
        if let Some(state) = self.shard(key).get_mut(&key) {
            change(state);
        }
    }

    /// Resets a key to the default state. O(log keys).
    pub fn forget(&self, key: KeyId) {
        self.shard(key).remove(&key);
    }

    /// Calls `visit` with each entry, in no particular order. An entry that changes meanwhile is
    /// visited either before or after the change.
    pub fn for_each(&self, mut visit: impl FnMut(KeyId, &T)) {
        for shard in &self.0 {
            for (key, state) in lock(shard).iter() {
                visit(*key, state);
            }
        }
    }

    fn shard(&self, key: KeyId) -> impl std::ops::DerefMut<Target = BTreeMap<KeyId, T>> {
        lock(&self.0[key.index() % SHARDS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_states_other_than_the_default_are_kept() {
        let keys = [KeyId(0), KeyId(1), KeyId(2)];
        let states = KeyStates::<u32>::default();
        states.with(keys[0], |state| *state += 2);
        states.with(keys[1], |state| *state = 7);
        states.with(keys[2], |state| assert_eq!(*state, 0));
        states.with_known(keys[1], |state| *state += 1);
        states.with_known(keys[2], |_| unreachable!("the key has no entry"));
        states.with(keys[0], |state| *state -= 2);
        let mut seen = Vec::new();
        states.for_each(|key, state| seen.push((key, *state)));
        assert_eq!(seen, [(keys[1], 8)]);
        states.forget(keys[1]);
        states.for_each(|_, _| unreachable!("no entry is left"));
    }
}
