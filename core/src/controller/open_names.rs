//! Names under which a pod may still come to be: of creates whose outcome is unknown, in the
//! hardened behaviour. The next creates of the key use them first, so that what was under way then
//! and what is asked for now can't both be made.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;

use crate::intern::KeyId;
use crate::object::Uid;
use crate::primitives::{AtomicUsize, Mutex, Ordering, lock};

/// The open names of every key, with the UID of the owner they were for.
#[derive(Debug, Default)]
pub(super) struct OpenNames {
    by_key: Mutex<BTreeMap<KeyId, (Uid, BTreeSet<CompactString>)>>,
    /// Keys with open names: hardly ever any, and then nobody takes the lock.
    count: AtomicUsize,
}

impl OpenNames {
    fn is_empty(&self) -> bool {
        // Acquire, with the Release below; a key's own names were noted by its last sync, which the
        // queue puts before this one.
        self.count.load(Ordering::Acquire) == 0
    }

    /// A create under that name may have been committed, or may be yet.
    pub(super) fn note(&self, key: KeyId, owner: &Uid, name: &CompactString) {
        let mut by_key = lock(&self.by_key);
        let (known, names) = by_key.entry(key).or_default();
        if known != owner {
            *known = owner.clone();
            names.clear();
        }
        names.insert(name.clone());
        // Release: see `is_empty`.
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// The names of a key that nothing is known of, in order; those that `held` knows are settled.
    pub(super) fn of(
        &self,
        key: KeyId,
        owner: &Uid,
        held: impl Fn(&CompactString) -> bool,
    ) -> Vec<CompactString> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut by_key = lock(&self.by_key);
        let Some((known, names)) = by_key.get_mut(&key).filter(|(known, _)| known == owner) else {
            return Vec::new();
        };
        debug_assert_eq!(known, owner, "filtered above");
        names.retain(|name| !held(name));
        let open = names.iter().cloned().collect();
        if names.is_empty() {
            by_key.remove(&key);
        }
        // Release: see `is_empty`.
        self.count.store(by_key.len(), Ordering::Release);
        open
    }

    /// It is known what became of a create under that name.
    pub(super) fn settle(&self, key: KeyId, name: &str) {
        if self.is_empty() {
            return;
        }
        let mut by_key = lock(&self.by_key);
        if let Some((_, names)) = by_key.get_mut(&key) {
            names.remove(name);
            if names.is_empty() {
                by_key.remove(&key);
            }
        }
        // Release: see `is_empty`.
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// The parent is gone, and with it whatever may still come.
    pub(super) fn forget(&self, key: KeyId) {
        if self.is_empty() {
            return;
        }
        let mut by_key = lock(&self.by_key);
        by_key.remove(&key);
        // Release: see `is_empty`.
        self.count.store(by_key.len(), Ordering::Release);
    }
}
