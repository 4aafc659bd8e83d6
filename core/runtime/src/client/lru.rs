//! A bounded map that drops the least recently used entry, for keys that are already hashes.
//!
//! Entries are in a slab and linked in order of use; a table finds the slot of a key. Once the map
//! is full, slots are reused in place, so a full map allocates nothing.

use hashbrown::HashTable;

/// The index that marks the end of the list.
const NONE: u32 = u32::MAX;

/// A map of at most `capacity` values by 128-bit hash. When it is full, a new value replaces the
/// least recently used one.
#[derive(Debug)]
pub(super) struct Lru<V> {
    capacity: usize,
    table: HashTable<u32>,
    slots: Vec<LruSlot<V>>,
    newest: u32,
    oldest: u32,
}

#[derive(Debug)]
struct LruSlot<V> {
    key: u128,
    value: V,
    newer: u32,
    older: u32,
}

impl<V> Lru<V> {
    /// Creates an empty map.
    ///
    /// # Panics
    /// Panics if `capacity` is 0 or does not fit into 32 bits.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0 && u32::try_from(capacity).is_ok_and(|n| n < NONE));
        Lru {
            capacity,
            table: HashTable::new(),
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Returns the value of `key`, which becomes the most recently used. Creates the value with
    /// `make` if it does not exist. O(1).
    pub(super) fn touch(&mut self, key: u128, make: impl FnOnce() -> V) -> &mut V {
        let slots = &self.slots;
        let found = self
            .table
            .find(hash(key), |&at| slots[at as usize].key == key)
            .copied();
        let at = match found {
            Some(at) if at == self.newest => return &mut self.slots[at as usize].value,
            Some(at) => {
                self.unlink(at);
                at
            }
            None => self.place(key, make()),
        };
        self.link_newest(at);
        &mut self.slots[at as usize].value
    }

    /// Stores a new key in a slot that is not linked yet: a new slot or, if the map is full, that
    /// of the oldest key.
    fn place(&mut self, key: u128, value: V) -> u32 {
        let slot = LruSlot {
            key,
            value,
            newer: NONE,
            older: NONE,
        };
        let at = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            u32::try_from(self.slots.len() - 1).expect("the capacity fits into 32 bits")
        } else {
            let at = self.oldest;
            let old = self.slots[at as usize].key;
            self.unlink(at);
            let entry = self.table.find_entry(hash(old), |&other| other == at);
            entry.expect("the table has every slot").remove();
            self.slots[at as usize] = slot;
            at
        };
        let slots = &self.slots;
        self.table
            .insert_unique(hash(key), at, |&at| hash(slots[at as usize].key));
        at
    }

    fn unlink(&mut self, at: u32) {
        let LruSlot { newer, older, .. } = self.slots[at as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = self.newest;
        self.slots[at as usize].newer = NONE;
        self.slots[at as usize].older = older;
        match older {
            NONE => self.oldest = at,
            older => self.slots[older as usize].newer = at,
        }
        self.newest = at;
    }
}

/// Returns half of the key as its hash in the table. The key itself is already a hash.
fn hash(key: u128) -> u64 {
    (key >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_plain_list() {
        let mut lru = Lru::new(8);
        let mut list: Vec<(u128, usize)> = Vec::new();
        let mut state = 1u64;
        for step in 0..5_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = u128::from(state >> 60) << 64;
            let ours = *lru.touch(key, || step);
            let value = match list.iter().position(|(other, _)| *other == key) {
                Some(at) => list.remove(at).1,
                None => step,
            };
            list.push((key, value));
            if list.len() > 8 {
                list.remove(0);
            }
            assert_eq!(ours, value, "step {step}");
        }
    }
}
