//! Delayed keys: a heap ordered by due time that tracks the position of each key.

/// The number of children per node. With four, the heap is half as deep as with two, and the
/// children of a node share one or two cache lines.
const ARITY: usize = 4;

/// The entry in `positions` of a key that is not in the heap.
const NOWHERE: u32 = u32::MAX;

/// A min-heap by due time with at most one entry per key. Keys are dense indices. Keys with equal
/// due times come out in the order of their insertion.
#[derive(Debug, Default)]
pub(super) struct DelayHeap {
    entries: Vec<Entry>,
    /// The index in `entries` of each key; `NOWHERE` for a key that is not in the heap.
    positions: Vec<u32>,
    /// The number of entries inserted so far.
    inserted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    due_ns: i64,
    sequence: u64,
    key: u32,
}

impl Entry {
    /// Returns the sort key: due time, then insertion order. A single number compares without a
    /// branch.
    #[inline]
    fn order(self) -> i128 {
        (i128::from(self.due_ns) << 64) | i128::from(self.sequence)
    }
}

impl DelayHeap {
    /// Returns the number of keys in the heap.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the earliest due time; `None` if the heap is empty.
    pub(super) fn next_due_ns(&self) -> Option<i64> {
        self.entries.first().map(|entry| entry.due_ns)
    }

    /// Returns the due time of a key; `None` if the key is not in the heap.
    pub(super) fn due_ns(&self, key: u32) -> Option<i64> {
        let position = *self.positions.get(key as usize)?;
        (position != NOWHERE).then(|| self.entries[position as usize].due_ns)
    }

    /// Inserts a key. If the key is already in the heap, the earlier due time stays. O(log n), and
    /// O(1) on average for random times.
    pub(super) fn insert(&mut self, key: u32, due_ns: i64) {
        let index = key as usize;
        if index >= self.positions.len() {
            self.positions
                .resize((index + 1).next_power_of_two(), NOWHERE);
        }
        let position = self.positions[index];
        if position == NOWHERE {
            let entry = Entry {
                due_ns,
                sequence: self.inserted,
                key,
            };
            self.inserted += 1;
            self.entries.push(entry);
            self.sift_up(self.entries.len() - 1, entry);
        } else {
            let position = position as usize;
            let known = self.entries[position];
            if due_ns < known.due_ns {
                self.sift_up(position, Entry { due_ns, ..known });
            }
        }
    }

    /// Removes and returns the key that is due first; `None` if no key is due by now.
    pub(super) fn pop_due(&mut self, now_ns: i64) -> Option<u32> {
        let first = *self.entries.first()?;
        if first.due_ns > now_ns {
            return None;
        }
        self.positions[first.key as usize] = NOWHERE;
        let last = self.entries.pop().expect("the heap is not empty");
        if !self.entries.is_empty() {
            self.sift_down(last);
        }
        Some(first.key)
    }

    /// Removes all keys but keeps the memory.
    pub(super) fn clear(&mut self) {
        for entry in self.entries.drain(..) {
            self.positions[entry.key as usize] = NOWHERE;
        }
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        // There are fewer than 2^32 entries: one per key.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most one entry per 32-bit key"
        )]
        let position = at as u32;
        self.positions[entry.key as usize] = position;
    }

    /// Moves an entry from the hole at `at` up to its position.
    #[inline]
    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.entries[parent].order() <= entry.order() {
                break;
            }
            self.put(at, self.entries[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    /// Moves an entry from the hole at the root down to its position.
    fn sift_down(&mut self, entry: Entry) {
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let end = self.entries.len().min(first + ARITY);
            let children = self.entries.get(first..end).unwrap_or_default();
            let (mut least, mut order) = (at, entry.order());
            for (child, place) in children.iter().zip(first..) {
                if child.order() < order {
                    (least, order) = (place, child.order());
                }
            }
            if least == at {
                break;
            }
            self.put(at, self.entries[least]);
            at = least;
        }
        self.put(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
        /// Of two due times of one key the earlier stays. Keys with equal times come out in
        /// insertion order.
        #[test]
        fn keys_come_out_in_order_of_their_due_times(
            inserts in prop::collection::vec((0..40u32, 0..100i64), 0..120),
            now_ns in 0..100i64,
        ) {
            let mut heap = DelayHeap::default();
            let mut model = BTreeMap::<u32, (i64, usize)>::new();
            for (at, &(key, due_ns)) in inserts.iter().enumerate() {
                heap.insert(key, due_ns);
                let known = model.entry(key).or_insert((due_ns, at));
                known.0 = known.0.min(due_ns);
            }
            let first = model.values().map(|time| time.0).min();
            prop_assert_eq!(heap.next_due_ns(), first);
            let mut due: Vec<_> = model.iter().filter(|(_, time)| time.0 <= now_ns).collect();
            due.sort_by_key(|(_, time)| **time);
            let expected: Vec<u32> = due.iter().map(|(key, _)| **key).collect();
            let popped: Vec<u32> = std::iter::from_fn(|| heap.pop_due(now_ns)).collect();
            prop_assert_eq!(popped, expected);
            prop_assert_eq!(heap.entries.len(), model.len() - due.len());
            heap.clear();
            prop_assert!(heap.positions.iter().all(|&position| position == NOWHERE));
        }
    }
}
