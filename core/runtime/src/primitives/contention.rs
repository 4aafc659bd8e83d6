//! Primitives that count how each thread uses them: how often it took a lock, how often another
//! thread held that lock, and how often it exchanged a word and failed. Otherwise they are the std
//! primitives.
//!
//! Loads, stores and reference counts are not counted.

use std::cell::Cell;
use std::ops::{AddAssign, Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{
    LockResult, MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};

/// The operations that one thread has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// The number of locks taken, for reading or writing.
    pub locks: u64,
    /// The number of these locks that another thread held, so that this thread had to wait.
    pub locks_contended: u64,
    /// The number of atomic read-modify-write operations: exchanges, additions, swaps.
    pub exchanges: u64,
    /// The number of compare-exchanges that found an unexpected value and changed nothing.
    pub exchanges_failed: u64,
}

impl AddAssign for LockCounts {
    fn add_assign(&mut self, other: LockCounts) {
        self.locks += other.locks;
        self.locks_contended += other.locks_contended;
        self.exchanges += other.exchanges;
        self.exchanges_failed += other.exchanges_failed;
    }
}

thread_local! {
    /// The counts of each thread, thread-local so that counting causes no contention.
    static COUNTS: Cell<LockCounts> = const { Cell::new(LockCounts {
        locks: 0,
        locks_contended: 0,
        exchanges: 0,
        exchanges_failed: 0,
    }) };
}

/// Returns the counts of this thread since the last call, and resets them.
pub fn take() -> LockCounts {
    COUNTS.take()
}

#[inline]
fn count(change: impl FnOnce(&mut LockCounts)) {
    // The counts of a thread that is ending no longer exist.
    let _ = COUNTS.try_with(|cell| {
        let mut counts = cell.get();
        change(&mut counts);
        cell.set(counts);
    });
}

/// Counts an attempt to lock, and waits if another thread holds the lock.
fn taken<G>(tried: TryLockResult<G>, wait: impl FnOnce() -> LockResult<G>) -> LockResult<G> {
    let contended = matches!(tried, Err(TryLockError::WouldBlock));
    count(|counts| {
        counts.locks += 1;
        counts.locks_contended += u64::from(contended);
    });
    match tried {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        Err(TryLockError::WouldBlock) => wait(),
    }
}

/// `std::sync::Mutex` with counted operations.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Like [`std::sync::Mutex::lock`], but counted.
    ///
    /// # Errors
    /// Fails if a thread has panicked while holding the lock.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        taken(self.0.try_lock(), || self.0.lock())
    }

    /// Like [`std::sync::Mutex::into_inner`].
    ///
    /// # Errors
    /// Fails if a thread has panicked while holding the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }

    /// Like [`std::sync::Mutex::get_mut`], which takes no lock.
    ///
    /// # Errors
    /// Fails if a thread has panicked while holding the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

/// `std::sync::RwLock` with counted operations.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Like [`std::sync::RwLock::read`], but counted.
    ///
    /// # Errors
    /// Fails if a thread has panicked while holding the lock.
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        taken(self.0.try_read(), || self.0.read())
    }

    /// Like [`std::sync::RwLock::write`], but counted.
    ///
    /// # Errors
    /// Fails if a thread has panicked while holding the lock.
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        taken(self.0.try_write(), || self.0.write())
    }
}

/// An std atomic whose read-modify-write operations are counted. All other methods are those of
/// std.
macro_rules! counted_atomic {
    ($name:ident, $value:ty, $doc:literal) => {
        #[doc = $doc]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// Creates an atomic with this value.
            pub const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }

            /// Like the std method.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            counted_atomic!(@step $value: swap fetch_add fetch_sub fetch_and fetch_or fetch_max);
            counted_atomic!(@exchange $value: compare_exchange compare_exchange_weak);
        }

        impl Deref for $name {
            type Target = std::sync::atomic::$name;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl DerefMut for $name {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }
    };
    (@step $value:ty: $($method:ident)*) => {
        $(
            /// Like the std method.
            #[inline]
            pub fn $method(&self, value: $value, ordering: Ordering) -> $value {
                count(|counts| counts.exchanges += 1);
                self.0.$method(value, ordering)
            }
        )*
    };
    (@exchange $value:ty: $($method:ident)*) => {
        $(
            /// Like the std method.
            ///
            /// # Errors
            /// Returns the value that was found if it is not the expected one.
            #[inline]
            pub fn $method(
                &self,
                expected: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let result = self.0.$method(expected, new, success, failure);
                count(|counts| {
                    counts.exchanges += 1;
                    counts.exchanges_failed += u64::from(result.is_err());
                });
                result
            }
        )*
    };
}

counted_atomic!(AtomicI64, i64, "`std::sync::atomic::AtomicI64`, counted.");
counted_atomic!(AtomicU32, u32, "`std::sync::atomic::AtomicU32`, counted.");
counted_atomic!(AtomicU64, u64, "`std::sync::atomic::AtomicU64`, counted.");
counted_atomic!(
    AtomicUsize,
    usize,
    "`std::sync::atomic::AtomicUsize`, counted."
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expectations::Expectations;
    use crate::workqueue::WorkQueue;

    #[test]
    fn a_threads_operations_are_counted_and_taken() {
        let (mutex, word) = (Mutex::new(1), AtomicU32::new(0));
        take();
        *mutex.lock().unwrap() += 1;
        word.fetch_add(2, Ordering::Relaxed);
        let late = word.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        assert_eq!(late, Err(2));
        let counts = take();
        assert_eq!((counts.locks, counts.locks_contended), (1, 0));
        assert_eq!((counts.exchanges, counts.exchanges_failed), (2, 1));
        assert_eq!(take(), LockCounts::default());
    }

    #[test]
    fn waiting_for_a_held_lock_is_counted() {
        let mutex = Mutex::new(0);
        let guard = mutex.lock().unwrap();
        let counts = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                *mutex.lock().unwrap() += 1;
                take()
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            drop(guard);
            waiting.join().unwrap()
        });
        assert_eq!((counts.locks, *mutex.lock().unwrap()), (1, 1));
        assert_eq!(counts.locks_contended, 1);
    }

    #[test]
    fn a_queue_cycle_and_an_observed_deletion_take_no_lock() {
        let queue = WorkQueue::<u32>::new();
        let expectations = Expectations::<u32, u32>::new();
        expectations.expect_deletions(0, 0..10, 0);
        queue.add(3, 0);
        take();
        expectations.deletion_observed(0, &4);
        let counts = take();
        assert_eq!((counts.locks, counts.exchanges), (0, 1));
        queue.try_take(1);
        queue.done(3, 2);
        queue.add(3, 3);
        let counts = take();
        assert_eq!(counts.locks, 0);
        // From the ring, to running, to idle, to queued, to the ring.
        assert_eq!((counts.exchanges, counts.exchanges_failed), (5, 0));
    }
}
