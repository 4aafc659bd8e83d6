//! Substitutes for primitives that the model checkers don't have.
//!
//! For crossbeam's bounded queue: a ring of numbers with only the orderings that crossbeam
//! promises, a push's Release and a pop's Acquire. That crossbeam keeps this promise is taken on
//! trust.

use std::fmt;

use super::checker::sync::Mutex;
use super::checker::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use super::checker::thread;

/// As std's, but the checker knows its ordering.
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
    setting: Mutex<()>,
}

impl<T> OnceLock<T> {
    /// An empty one.
    pub fn new() -> Self {
        OnceLock {
            value: std::sync::OnceLock::new(),
            is_set: AtomicBool::new(false),
            setting: Mutex::new(()),
        }
    }

    /// As std's.
    pub fn get(&self) -> Option<&T> {
        let is_set = self.is_set.load(Ordering::Acquire);
        is_set.then(|| self.value.get()).flatten()
    }

    /// As std's.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _setting = super::lock(&self.setting);
            if self.value.get().is_none() {
                self.fill(make());
            }
        }
        self.value.get().expect("it was set")
    }

    /// As std's.
    ///
    /// # Errors
    /// There is a value already; the new one is returned.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _setting = super::lock(&self.setting);
        if self.value.get().is_some() {
            return Err(value);
        }
        self.fill(value);
        Ok(())
    }

    fn fill(&self, value: T) {
        let is_new = self.value.set(value).is_ok();
        assert!(is_new, "set under the lock");
        self.is_set.store(true, Ordering::Release);
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}

/// A bounded queue of numbers.
#[derive(Debug)]
pub struct ArrayQueue<T> {
    /// By position: a stamp in the upper half, the number in the lower. The stamp of position `p`
    /// is `p` while it can be pushed to and `p + 1` while it has a number; the stamps of the next
    /// round are higher.
    places: Box<[AtomicU64]>,
    head: AtomicU64,
    tail: AtomicU64,
    number: std::marker::PhantomData<T>,
}

const STAMP_SHIFT: u32 = u32::BITS;

impl ArrayQueue<u32> {
    /// A queue with this capacity.
    pub fn new(capacity: usize) -> Self {
        // One more, so that the stamps of a position in two rounds differ even with a capacity of
        // one.
        let places = 0..=capacity as u64;
        ArrayQueue {
            places: places.map(|at| AtomicU64::new(at << STAMP_SHIFT)).collect(),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            number: std::marker::PhantomData,
        }
    }

    fn place(&self, position: u64) -> &AtomicU64 {
        &self.places[position as usize % self.places.len()]
    }

    /// Appends a number.
    ///
    /// # Errors
    /// The queue is full; the number is returned.
    pub fn push(&self, number: u32) -> Result<(), u32> {
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            let seen = self.place(tail).load(Ordering::Acquire);
            // As in crossbeam: a place that a pop has won but not emptied yet is waited for. The
            // exchange reads the newest head.
            if seen >> STAMP_SHIFT < tail
                && tail.saturating_sub(self.head.fetch_add(0, Ordering::Relaxed))
                    >= self.places.len() as u64 - 1
            {
                return Err(number);
            }
            let next = tail + 1;
            let won = seen >> STAMP_SHIFT == tail
                && self
                    .tail
                    .compare_exchange(tail, next, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if won {
                let filled = next << STAMP_SHIFT | u64::from(number);
                self.place(tail).store(filled, Ordering::Release);
                return Ok(());
            }
            thread::yield_now();
        }
    }

    /// Takes the first number.
    pub fn pop(&self) -> Option<u32> {
        loop {
            let head = self.head.load(Ordering::Relaxed);
            let seen = self.place(head).load(Ordering::Acquire);
            if seen >> STAMP_SHIFT == head && self.tail.load(Ordering::Relaxed) == head {
                return None;
            }
            let next = head + 1;
            let won = seen >> STAMP_SHIFT == next
                && self
                    .head
                    .compare_exchange(head, next, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if won {
                let emptied = head + self.places.len() as u64;
                self.place(head)
                    .store(emptied << STAMP_SHIFT, Ordering::Release);
                return Some(seen as u32);
            }
            thread::yield_now();
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        let tail = self.tail.load(Ordering::Relaxed);
        tail.saturating_sub(self.head.load(Ordering::Relaxed)) as usize
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
