//! A bounded ring of keys. A push is one addition and one store; a pop is one load and one
//! exchange.
//!
//! The ring relies on two guarantees of the queue: a key is in the ring at most once, and its index
//! is below the capacity. A push therefore never finds the ring full.

use crate::primitives::{AtomicU64, CachePadded, Ordering, back_off, wait_for_another};

#[derive(Debug)]
pub(super) struct Ring {
    /// The position of the next pop. Positions only grow.
    head: CachePadded<AtomicU64>,
    /// The position of the next push.
    tail: CachePadded<AtomicU64>,
    /// One word per cell: the lap, counted from 1, in the upper half and the key in the lower half.
    /// A pop reads both in one load, so it never has to put a key back.
    cells: Box<[AtomicU64]>,
}

const LAP_SHIFT: u32 = u32::BITS;

impl Ring {
    /// Creates a ring with this capacity, which must be a power of two.
    pub(super) fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        Ring {
            head: CachePadded::new(AtomicU64::new(0)),
            tail: CachePadded::new(AtomicU64::new(0)),
            cells: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    fn cell(&self, position: u64) -> &AtomicU64 {
        &self.cells[position as usize & (self.cells.len() - 1)]
    }

    /// Returns the upper half of the cell at this position after the push to that position. It
    /// differs from that of the previous lap, whatever the capacity.
    #[inline]
    fn lap(&self, position: u64) -> u64 {
        ((position >> self.cells.len().trailing_zeros()) + 1) << LAP_SHIFT
    }

    /// Appends a key that is not in the ring.
    #[inline]
    pub(super) fn push(&self, key: u32) {
        // Relaxed: the cell publishes the key. The pop that freed the cell happened before, because
        // the key's own word has been exchanged since then.
        let position = self.tail.fetch_add(1, Ordering::Relaxed);
        // Release: the pop of this key sees everything that happened before the push.
        self.cell(position)
            .store(self.lap(position) | u64::from(key), Ordering::Release);
    }

    /// Takes the oldest key; `None` if the ring is empty.
    #[inline]
    pub(super) fn pop(&self) -> Option<u32> {
        let mut attempts = 0;
        loop {
            // Relaxed: the exchange or the tail detects an outdated head.
            let head = self.head.load(Ordering::Relaxed);
            // Acquire: pairs with the push's Release.
            let cell = self.cell(head).load(Ordering::Acquire);
            if (cell ^ self.lap(head)) >> LAP_SHIFT == 0 {
                // Relaxed, both: the key was read already, and its own word orders what follows.
                let won = self.head.compare_exchange(
                    head,
                    head + 1,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                if won.is_ok() {
                    return Some(cell as u32);
                }
                back_off();
                continue;
            }
            // Relaxed: a caller that must not miss a push has a fence before the pop.
            if self.tail.load(Ordering::Relaxed) == head {
                return None;
            }
            // A push has claimed this position and is about to store its key.
            wait_for_another(&mut attempts);
        }
    }

    /// Returns the number of keys in the ring.
    pub(super) fn len(&self) -> usize {
        // Relaxed, both: the count may be outdated when it returns.
        let tail = self.tail.load(Ordering::Relaxed);
        tail.saturating_sub(self.head.load(Ordering::Relaxed)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_in_order_over_many_laps() {
        for capacity in [1, 2, 8] {
            let ring = Ring::new(capacity);
            let mut next = 0;
            for waiting in (1..=capacity as u32).cycle().take(40) {
                let keys: Vec<u32> = (next..next + waiting).collect();
                keys.iter().for_each(|&key| ring.push(key));
                assert_eq!(ring.len(), keys.len());
                let taken: Vec<u32> = std::iter::from_fn(|| ring.pop()).collect();
                assert_eq!(taken, keys, "capacity {capacity}");
                next += waiting;
            }
            assert_eq!((ring.pop(), ring.len()), (None, 0));
        }
    }

    #[test]
    fn the_largest_keys_and_laps_stay_apart() {
        let ring = Ring::new(2);
        // Two positions before the lap's half of a word is full.
        let position = (1 << 33) - 4;
        ring.head.store(position, Ordering::Relaxed);
        ring.tail.store(position, Ordering::Relaxed);
        for key in [u32::MAX, 0, u32::MAX - 1, 7, u32::MAX, 1] {
            assert_eq!(ring.pop(), None);
            ring.push(key);
            assert_eq!(ring.pop(), Some(key));
        }
    }
}
