//! The version that a store has reached: the resource version of the last change that it applied.

use podstorm_objects::ResourceVersion;

use crate::primitives::{AtomicU64, Mutex, Ordering, lock};

/// The version that a store has reached. Every sync reads it; the informer writes it.
#[derive(Debug, Default)]
pub struct StoreVersion {
    /// The version if it is a nonzero number; 0 if it is in `text`.
    number: AtomicU64,
    /// The version if it is unset or not a 64-bit number.
    text: Mutex<ResourceVersion>,
    /// The number of times that the store went back to an older list.
    rewinds: AtomicU64,
}

impl StoreVersion {
    /// Sets the version that the store has reached.
    pub fn set(&self, version: &ResourceVersion) {
        match version.number() {
            // Release: a thread that reads this version must find the objects stored before it.
            Some(number) => self.number.store(number, Ordering::Release),
            None => {
                let mut text = lock(&self.text);
                *text = version.clone();
                // Release: pairs with the Acquire in `get`, so that a thread that reads 0 sees the
                // text. The store is under the lock, so that no reader sees the text before the 0.
                self.number.store(0, Ordering::Release);
            }
        }
    }

    /// Must be called before the objects of a list are put into the store. If the list is older
    /// than the store, or can't be compared with it, the version goes back before any object
    /// changes. A thread that reads [`rewinds`](Self::rewinds), then a version, then objects, and
    /// then finds
    /// `rewinds` unchanged has therefore seen objects of that version or later.
    pub fn before_list(&self, list: &ResourceVersion) {
        let reached = self.get();
        let follows = match (reached.number(), list.number()) {
            (Some(reached), Some(list)) => reached <= list,
            _ => reached.is_unset(),
        };
        if !follows {
            self.set(list);
            // Release: a thread that sees the new count finds the older version. The locks of the
            // objects order the count before any object of the list.
            self.rewinds.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns how often the store went back to an older list; see
    /// [`before_list`](Self::before_list).
    pub fn rewinds(&self) -> u64 {
        // Acquire: pairs with the Release in `before_list`.
        self.rewinds.load(Ordering::Acquire)
    }

    /// Returns the version reached; unset before the first change.
    pub fn get(&self) -> ResourceVersion {
        // Acquire: pairs with the Release in `set`.
        match self.number.load(Ordering::Acquire) {
            0 => lock(&self.text).clone(),
            number => ResourceVersion::Number(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_list_takes_the_version_back_before_its_objects() {
        let version = StoreVersion::default();
        for (list, rewinds, before) in [
            ("5", 0, ""),
            ("9", 0, "5"),
            ("9", 0, "9"),
            ("8", 1, "8"),
            ("x", 2, "x"),
            ("10", 3, "10"),
        ] {
            version.before_list(&ResourceVersion::new(list));
            assert_eq!(version.rewinds(), rewinds, "{list}");
            assert_eq!(version.get().to_string(), before, "{list}");
            version.set(&ResourceVersion::new(list));
        }
    }

    #[test]
    fn numbers_and_texts_read_back_as_written() {
        let version = StoreVersion::default();
        assert!(version.get().is_unset());
        for text in ["17", "x9", "", "99999999999999999999999"] {
            version.set(&ResourceVersion::new(text));
            assert_eq!(version.get().to_string(), text);
        }
    }
}
