//! Finds entries of a list: linearly while there are few, as in most objects, otherwise by hash.
//! Checking a list of n entries takes O(n) time, even if a client chose the entries.

use std::hash::Hash;

use crate::hash_state;
use ahash::RandomState;
use hashbrown::HashMap;

/// The maximum number of entries that are compared one by one.
const FEW: usize = 16;

/// Entries in order, and the first position of each.
#[derive(Clone, Debug)]
pub struct Places<T> {
    all: Vec<T>,
    /// Empty while there are few entries. Never iterated.
    first: HashMap<T, usize, RandomState>,
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places {
            all: Vec::new(),
            first: HashMap::with_hasher(hash_state()),
        }
    }
}

impl<T: Clone + Eq + Hash> Places<T> {
    /// Returns the position of the first entry that equals `entry`; `None` if there is none.
    pub fn position(&self, entry: &T) -> Option<usize> {
        match self.all.len() <= FEW {
            true => self.all.iter().position(|other| other == entry),
            false => self.first.get(entry).copied(),
        }
    }

    /// Reports whether an entry equals `entry`.
    pub fn contains(&self, entry: &T) -> bool {
        self.position(entry).is_some()
    }

    /// Adds an entry, possibly a duplicate. O(1), like the other methods.
    pub fn push(&mut self, entry: T) {
        self.all.push(entry);
        let unhashed = match self.all.len() {
            ..=FEW => return,
            count if count == FEW + 1 => 0,
            count => count - 1,
        };
        for (at, entry) in self.all.iter().enumerate().skip(unhashed) {
            self.first.entry(entry.clone()).or_insert(at);
        }
    }

    /// Returns all entries, in order.
    pub fn all(&self) -> &[T] {
        &self.all
    }

    /// Reports whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl<T: Clone + Eq + Hash> FromIterator<T> for Places<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Places<T> {
        let mut seen = Places::default();
        entries.into_iter().for_each(|entry| seen.push(entry));
        seen
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::Hasher;

    use super::*;

    #[test]
    fn entries_are_found_at_their_first_position() {
        for count in [1, FEW - 1, FEW, FEW + 1, FEW + 2, 100] {
            let entries: Vec<usize> = (0..count).map(|number| number % 30).collect();
            let seen: Places<usize> = entries.iter().copied().collect();
            for wanted in 0..=30 {
                let place = entries.iter().position(|entry| *entry == wanted);
                assert_eq!(seen.position(&wanted), place, "{wanted} of {count}");
            }
        }
    }

    thread_local! {
        static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    #[derive(Clone)]
    struct Counted(usize);

    impl PartialEq for Counted {
        fn eq(&self, other: &Counted) -> bool {
            COMPARED.set(COMPARED.get() + 1);
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn ten_times_the_entries_take_ten_times_the_comparisons() {
        let compared = |count: usize| {
            COMPARED.set(0);
            let mut seen = Places::default();
            for number in 0..count {
                assert!(!seen.contains(&Counted(number)));
                seen.push(Counted(number));
            }
            COMPARED.get()
        };
        let (few, many) = (compared(1_000), compared(10_000));
        assert!(many <= few * 10 + 1_000, "{few} and {many}");
    }
}
