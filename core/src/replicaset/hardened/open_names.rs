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
pub(in super::super) struct OpenNames {
    by_key: Mutex<BTreeMap<KeyId, OfOwner>>,
    /// Keys with open names: hardly ever any, and then nobody takes the lock.
    count: AtomicUsize,
}

/// The names of one owner's creates.
#[derive(Debug, Default)]
struct OfOwner {
    owner: Uid,
    names: BTreeMap<CompactString, Name>,
}

/// A name of which it is not known what became of it.
#[derive(Clone, Copy, Debug)]
struct Name {
    /// The moment at which it is settled, ns.
    settled_ns: i64,
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
pub(in super::super) struct Open {
    /// Names that nobody has, in their order: to be asked for first.
    pub(super) free: Vec<CompactString>,
    /// How many names are with pods that don't count: when such a pod goes, a late create may come in
    /// its place, beside whatever was made instead.
    pub(super) uncounted: usize,
    /// When the first of those is settled, ns; meaningless when there is none.
    pub(super) until_ns: i64,
}

impl Open {
    /// Nothing is open.
    pub(in super::super) fn clear(&mut self) {
        self.free.clear();
        self.uncounted = 0;
    }
}

impl OpenNames {
    fn is_empty(&self) -> bool {
        // Acquire, with the Release below; a key's own names were noted by its last sync, which the
        // queue puts before this one.
        self.count.load(Ordering::Acquire) == 0
    }

    /// Lets everyone see how many keys have open names. Under the lock.
    fn publish(&self, by_key: &BTreeMap<KeyId, OfOwner>) {
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
            *known = OfOwner {
                owner: owner.clone(),
                names: BTreeMap::new(),
            };
        }
        let settled_ns = now_ns.saturating_add(REQUEST_DEADLINE_NS);
        let note = Name {
            settled_ns,
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
    ) -> Open {
        let mut open = Open {
            until_ns: i64::MAX,
            ..Open::default()
        };
        if self.is_empty() {
            return open;
        }
        let mut by_key = lock(&self.by_key);
        let Some(known) = by_key.get_mut(&key).filter(|known| known.owner == *owner) else {
            return open;
        };
        known.names.retain(|_, note| note.settled_ns > now_ns);
        for (name, note) in &known.names {
            match holder(name) {
                Holder::Nobody => open.free.push(name.clone()),
                Holder::Foreign if note.is_taken => {}
                Holder::Foreign | Holder::Uncounted => {
                    open.uncounted += 1;
                    open.until_ns = open.until_ns.min(note.settled_ns);
                }
                Holder::Counted => {}
            }
        }
        if known.names.is_empty() {
            by_key.remove(&key);
        }
        self.publish(&by_key);
        open
    }

    /// The parent is gone, and with it whatever may still come.
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

    fn names(open: &OpenNames, owner: &Uid, now_ns: i64) -> Vec<CompactString> {
        open.of(KEY, owner, now_ns, |_| Holder::Nobody).free
    }

    #[test]
    fn a_name_is_open_until_no_server_works_on_it_any_more() {
        let (open, owner) = (OpenNames::default(), Uid::new("a"));
        open.note(KEY, &owner, &"web-b".into(), false, 0);
        open.note(KEY, &owner, &"web-a".into(), false, 5);
        assert_eq!(names(&open, &owner, 5), ["web-a", "web-b"]);
        assert_eq!(names(&open, &owner, REQUEST_DEADLINE_NS), ["web-a"]);
        assert!(names(&open, &owner, REQUEST_DEADLINE_NS + 5).is_empty());
        assert!(open.is_empty());
    }

    #[test]
    fn names_of_pods_that_do_not_count_are_numbered_and_not_asked_for() {
        let (open, owner) = (OpenNames::default(), Uid::new("a"));
        for name in ["gone", "leaving", "staying", "stolen", "taken"] {
            open.note(KEY, &owner, &name.into(), name == "taken", 0);
        }
        let found = open.of(KEY, &owner, 1, |name| match name.as_str() {
            "gone" => Holder::Nobody,
            "leaving" => Holder::Uncounted,
            "stolen" | "taken" => Holder::Foreign,
            _ => Holder::Counted,
        });
        let expected = Open {
            free: vec!["gone".into()],
            uncounted: 2,
            until_ns: REQUEST_DEADLINE_NS,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_successor_has_no_open_names() {
        let (open, owner) = (OpenNames::default(), Uid::new("a"));
        open.note(KEY, &owner, &"web-a".into(), false, 0);
        assert!(names(&open, &Uid::new("b"), 1).is_empty());
        open.note(KEY, &Uid::new("b"), &"web-c".into(), false, 1);
        assert!(names(&open, &owner, 1).is_empty());
        open.forget(KEY);
        assert!(open.is_empty());
    }
}
