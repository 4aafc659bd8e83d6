//! What the controller remembers of each Job beside its caches.

use std::collections::BTreeMap;

use podstorm_objects::Uid;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::{Mutex, lock};

use super::Remembered;

/// How many locks the Jobs share.
const SHARDS: usize = 64;

/// By key.
#[derive(Debug)]
pub(super) struct States(Box<[Mutex<BTreeMap<KeyId, Remembered>>]>);

impl Default for States {
    fn default() -> States {
        States((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl States {
    /// Reads or changes the state of a key. A state that is as new is not kept.
    pub(super) fn with<R>(&self, key: KeyId, change: impl FnOnce(&mut Remembered) -> R) -> R {
        let mut shard = lock(&self.0[key.index() % SHARDS]);
        let mut state = shard.remove(&key).unwrap_or_default();
        let result = change(&mut state);
        if state != Remembered::default() {
            shard.insert(key, state);
        }
        result
    }

    /// The pod's change was seen: nothing is awaited of it.
    pub(super) fn forget_released(&self, key: KeyId, pod: &Uid) {
        let mut shard = lock(&self.0[key.index() % SHARDS]);
        let state = shard.get_mut(&key);
        if let Some(released) = state.and_then(|state| state.released.as_mut()) {
            released.remove(pod);
        }
    }

    /// Forgets all of a key.
    pub(super) fn forget(&self, key: KeyId) {
        lock(&self.0[key.index() % SHARDS]).remove(&key);
    }
}
