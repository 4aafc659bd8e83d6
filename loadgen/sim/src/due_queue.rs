//! A queue of items with due times.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Items ordered by due time; items with the same due time stay in insertion order. `push` and
/// `pop_due` are O(log n).
#[derive(Debug)]
pub struct DueQueue<T> {
    heap: BinaryHeap<Reverse<Due<T>>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Due<T> {
    due_ns: i64,
    number: u64,
    item: T,
}

impl<T> Due<T> {
    fn key(&self) -> (i64, u64) {
        (self.due_ns, self.number)
    }
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Default for DueQueue<T> {
    fn default() -> Self {
        DueQueue {
            heap: BinaryHeap::new(),
            arrivals: 0,
        }
    }
}

impl<T> DueQueue<T> {
    /// Adds an item that is due at `due_ns`.
    #[inline]
    pub fn push(&mut self, due_ns: i64, item: T) {
        self.arrivals += 1;
        let number = self.arrivals;
        self.heap.push(Reverse(Due {
            due_ns,
            number,
            item,
        }));
    }

    /// Returns the due time of the first item; `None` if the queue is empty.
    #[inline]
    pub fn next_due_ns(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse(first)| first.due_ns)
    }

    /// Removes and returns the first item; `None` if it is not due yet or there is none.
    #[inline]
    pub fn pop_due(&mut self, now_ns: i64) -> Option<T> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(first)| first.item)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Removes all items and returns them in order with their due times.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (i64, T)> + use<T> {
        let sorted = std::mem::take(&mut self.heap).into_sorted_vec();
        // The items are wrapped in `Reverse`, so the first one is sorted last.
        let in_order = sorted.into_iter().rev();
        in_order.map(|Reverse(due)| (due.due_ns, due.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_items_are_popped_in_insertion_order() {
        let mut queue = DueQueue::default();
        for (due_ns, item) in [(5, 'b'), (9, 'd'), (5, 'c'), (1, 'a')] {
            queue.push(due_ns, item);
        }
        assert_eq!(queue.pop_due(0), None);
        let due: String = std::iter::from_fn(|| queue.pop_due(5)).collect();
        assert_eq!(due, "abc");
        assert_eq!((queue.len(), queue.next_due_ns()), (1, Some(9)));
        queue.push(7, 'e');
        let rest: Vec<(i64, char)> = queue.take_all().collect();
        assert_eq!(rest, [(7, 'e'), (9, 'd')]);
    }
}
