//! Pending creates: the names of creates with an unknown outcome, in the hardened behaviour. A name
//! is remembered for as long as a server may work on the request. The key's next creates use these
//! names first, so the old and the new request can't both create a pod. While a pod that does not
//! count has such a name, no other pod is created in its place.

use std::collections::BTreeMap;

use compact_str::CompactString;
use podstorm_objects::Uid;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::REQUEST_DEADLINE_NS;
use podstorm_runtime::primitives::{AtomicUsize, Mutex, Ordering, lock};

/// The pending creates of every key.
#[derive(Debug, Default)]
pub(in super::super) struct PendingCreates {
    by_key: Mutex<BTreeMap<KeyId, OwnerCreates>>,
    /// The number of keys with pending creates. Almost always 0, and then the lock is not taken.
    count: AtomicUsize,
}

/// The pending creates of one owner.
#[derive(Debug, Default)]
struct OwnerCreates {
    owner: Uid,
    names: BTreeMap<CompactString, PendingCreate>,
}

/// A create with an unknown outcome.
#[derive(Clone, Copy, Debug)]
struct PendingCreate {
    /// The monotonic time in ns after which no server works on the create.
    expires_ns: i64,
    /// Whether the server's last answer was that the name is taken. In that case a foreign pod
    /// that has the name now had it before this create.
    is_taken: bool,
}

/// What the cache has under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    None,
    /// A pod of another owner, or an orphan.
    Foreign,
    /// A pod of the owner that does not count: it is terminating, has ended, or does not match.
    Uncounted,
    /// One of the owner's active pods.
    Counted,
}

/// The pending names of a key, by what the cache has under them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct PendingNames {
    /// The sorted names without a pod. New creates use them first.
    pub(super) free: Vec<CompactString>,
    /// The number of names of pods that don't count. When such a pod is gone, a late create
    /// may replace it, in addition to a pod created instead.
    pub(super) uncounted: usize,
    /// The earliest expiry of the creates counted in `uncounted`, in ns. Meaningless if there are
    /// none.
    pub(super) until_ns: i64,
}

impl PendingNames {
    /// Clears all names.
    pub(in super::super) fn clear(&mut self) {
        self.free.clear();
        self.uncounted = 0;
    }
}

impl PendingCreates {
    fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release in `publish`. The names of a key were noted by its last
        // sync, which the queue orders before this one.
        self.count.load(Ordering::Acquire) == 0
    }

    /// Publishes the number of keys with pending creates. The caller holds the lock.
    fn publish(&self, by_key: &BTreeMap<KeyId, OwnerCreates>) {
        // Release: see `is_empty`.
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// Notes a create with this name that may have been carried out or may be carried out later.
    /// `is_taken` means that the server answered that the name is taken.
    pub(super) fn note(
        &self,
        key: KeyId,
        owner: &Uid,
        name: &CompactString,
        is_taken: bool,
        now_ns: i64,
    ) {
        let mut by_key = lock(&self.by_key);
        let known = by_key.entry(key).or_default();
        if known.owner != *owner {
            *known = OwnerCreates {
                owner: owner.clone(),
                names: BTreeMap::new(),
            };
        }
        let expires_ns = now_ns.saturating_add(REQUEST_DEADLINE_NS);
        let note = PendingCreate {
            expires_ns,
            is_taken,
        };
        known.names.insert(name.clone(), note);
        self.publish(&by_key);
    }

    /// Returns the pending names of a key at `now_ns`. `holder` returns what the cache has under a
    /// name. O(pending creates of the key).
    pub(super) fn names_of(
        &self,
        key: KeyId,
        owner: &Uid,
        now_ns: i64,
        holder: impl Fn(&CompactString) -> Holder,
    ) -> PendingNames {
        let mut pending = PendingNames {
            until_ns: i64::MAX,
            ..PendingNames::default()
        };
        if self.is_empty() {
            return pending;
        }
        let mut by_key = lock(&self.by_key);
        let Some(known) = by_key.get_mut(&key).filter(|known| known.owner == *owner) else {
            return pending;
        };
        known.names.retain(|_, note| note.expires_ns > now_ns);
        for (name, note) in &known.names {
            match holder(name) {
                Holder::None => pending.free.push(name.clone()),
                Holder::Foreign if note.is_taken => {}
                Holder::Foreign | Holder::Uncounted => {
                    pending.uncounted += 1;
                    pending.until_ns = pending.until_ns.min(note.expires_ns);
                }
                Holder::Counted => {}
            }
        }
        if known.names.is_empty() {
            by_key.remove(&key);
        }
        self.publish(&by_key);
        pending
    }

    /// Forgets the pending creates of a deleted owner.
    pub(super) fn forget(&self, key: KeyId) {
        if self.is_empty() {
            return;
        }
        let mut by_key = lock(&self.by_key);
        by_key.remove(&key);
        self.publish(&by_key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = KeyId(0);

    fn names(pending: &PendingCreates, owner: &Uid, now_ns: i64) -> Vec<CompactString> {
        pending.names_of(KEY, owner, now_ns, |_| Holder::None).free
    }

    #[test]
    fn a_create_is_pending_until_no_server_works_on_it() {
        let (pending, owner) = (PendingCreates::default(), Uid::new("a"));
        pending.note(KEY, &owner, &"web-b".into(), false, 0);
        pending.note(KEY, &owner, &"web-a".into(), false, 5);
        assert_eq!(names(&pending, &owner, 5), ["web-a", "web-b"]);
        assert_eq!(names(&pending, &owner, REQUEST_DEADLINE_NS), ["web-a"]);
        assert!(names(&pending, &owner, REQUEST_DEADLINE_NS + 5).is_empty());
        assert!(pending.is_empty());
    }

    #[test]
    fn names_of_uncounted_pods_are_counted_and_not_used() {
        let (pending, owner) = (PendingCreates::default(), Uid::new("a"));
        for name in ["gone", "leaving", "staying", "stolen", "taken"] {
            pending.note(KEY, &owner, &name.into(), name == "taken", 0);
        }
        let found = pending.names_of(KEY, &owner, 1, |name| match name.as_str() {
            "gone" => Holder::None,
            "leaving" => Holder::Uncounted,
            "stolen" | "taken" => Holder::Foreign,
            _ => Holder::Counted,
        });
        let expected = PendingNames {
            free: vec!["gone".into()],
            uncounted: 2,
            until_ns: REQUEST_DEADLINE_NS,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_successor_has_no_pending_creates() {
        let (pending, owner) = (PendingCreates::default(), Uid::new("a"));
        pending.note(KEY, &owner, &"web-a".into(), false, 0);
        assert!(names(&pending, &Uid::new("b"), 1).is_empty());
        pending.note(KEY, &Uid::new("b"), &"web-c".into(), false, 1);
        assert!(names(&pending, &owner, 1).is_empty());
        pending.forget(KEY);
        assert!(pending.is_empty());
    }
}
