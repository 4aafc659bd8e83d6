//! Names under which a pod may still come to be: of creates whose outcome is unknown, in the
//! hardened behaviour, for as long as a server may take to carry a request out. The next creates of
//! the key use them first, so that what was under way then and what is asked for now can't both be
//! made; and while such a name is with a pod that does not count, no other is made in its place.

use std::collections::BTreeMap;

use compact_str::CompactString;
use podstorm_objects::Uid;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::REQUEST_DEADLINE_NS;
use podstorm_runtime::primitives::{AtomicUsize, Mutex, Ordering, lock};

/// The open names of every key.
#[derive(Debug, Default)]
pub(in super::super) struct PendingCreates {
    by_key: Mutex<BTreeMap<KeyId, OwnerCreates>>,
    /// Keys with open names: hardly ever any, and then nobody takes the lock.
    count: AtomicUsize,
}

/// The names of one owner's creates.
#[derive(Debug, Default)]
struct OwnerCreates {
    owner: Uid,
    names: BTreeMap<CompactString, PendingCreate>,
}

/// A name of which it is not known what became of it.
#[derive(Clone, Copy, Debug)]
struct PendingCreate {
    /// The moment at which it is settled, ns.
    expires_ns: i64,
    /// Whether the last that was heard of it is that it is taken: then a foreign pod that has it had
    /// it before.
    is_taken: bool,
}

/// Who has a name now, as the cache knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Nobody,
    /// Another's pod, or nobody's.
    Foreign,
    /// A pod of the owner that does not count: on its way out, or ended.
    Uncounted,
    /// One of the owner's active pods.
    Counted,
}

/// What is open for a key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct PendingNames {
    /// Names that nobody has, in their order: to be asked for first.
    pub(super) free: Vec<CompactString>,
    /// How many names are with pods that don't count: when such a pod goes, a late create may come in
    /// its place, beside whatever was made instead.
    pub(super) uncounted: usize,
    /// When the first of those is settled, ns; meaningless when there is none.
    pub(super) until_ns: i64,
}

impl PendingNames {
    /// Nothing is open.
    pub(in super::super) fn clear(&mut self) {
        self.free.clear();
        self.uncounted = 0;
    }
}

impl PendingCreates {
    fn is_empty(&self) -> bool {
        // Acquire, with the Release below; a key's own names were noted by its last sync, which the
        // queue puts before this one.
        self.count.load(Ordering::Acquire) == 0
    }

    /// Lets everyone see how many keys have open names. Under the lock.
    fn publish(&self, by_key: &BTreeMap<KeyId, OwnerCreates>) {
        // Release: see `is_empty`.
        self.count.store(by_key.len(), Ordering::Release);
    }

    /// A create under that name may have been carried out, or may be yet.
    /// `is_taken`: so the server said.
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

    /// What is open for a key now, `holder` being who has a name. O(open names of the key).
    pub(super) fn of(
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
                Holder::Nobody => pending.free.push(name.clone()),
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

    /// The owner is gone, and with it whatever may still come.
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
        pending.of(KEY, owner, now_ns, |_| Holder::Nobody).free
    }

    #[test]
    fn a_name_is_open_until_no_server_works_on_it_any_more() {
        let (pending, owner) = (PendingCreates::default(), Uid::new("a"));
        pending.note(KEY, &owner, &"web-b".into(), false, 0);
        pending.note(KEY, &owner, &"web-a".into(), false, 5);
        assert_eq!(names(&pending, &owner, 5), ["web-a", "web-b"]);
        assert_eq!(names(&pending, &owner, REQUEST_DEADLINE_NS), ["web-a"]);
        assert!(names(&pending, &owner, REQUEST_DEADLINE_NS + 5).is_empty());
        assert!(pending.is_empty());
    }

    #[test]
    fn names_of_pods_that_do_not_count_are_numbered_and_not_asked_for() {
        let (pending, owner) = (PendingCreates::default(), Uid::new("a"));
        for name in ["gone", "leaving", "staying", "stolen", "taken"] {
            pending.note(KEY, &owner, &name.into(), name == "taken", 0);
        }
        let found = pending.of(KEY, &owner, 1, |name| match name.as_str() {
            "gone" => Holder::Nobody,
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
    fn a_successor_has_no_open_names() {
        let (pending, owner) = (PendingCreates::default(), Uid::new("a"));
        pending.note(KEY, &owner, &"web-a".into(), false, 0);
        assert!(names(&pending, &Uid::new("b"), 1).is_empty());
        pending.note(KEY, &Uid::new("b"), &"web-c".into(), false, 1);
        assert!(names(&pending, &owner, 1).is_empty());
        pending.forget(KEY);
        assert!(pending.is_empty());
    }
}
