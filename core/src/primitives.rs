//! The one place that names synchronisation primitives: std's atomics and locks, crossbeam's bounded
//! queue and padding. A model checker's stand-ins are put here and nowhere else.
//!
//! With the feature `contention` the atomics, locks and queues count, for each thread, what is done
//! to them; see `primitives/contention.rs`. Nothing else changes.

#[cfg(feature = "contention")]
pub mod contention;

pub use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
pub use std::sync::{Arc, Condvar, MutexGuard, OnceLock};

#[cfg(not(feature = "contention"))]
pub use crossbeam_queue::ArrayQueue;
#[cfg(not(feature = "contention"))]
pub use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
#[cfg(not(feature = "contention"))]
pub use std::sync::{Mutex, RwLock};

#[cfg(feature = "contention")]
pub use contention::{ArrayQueue, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Mutex, RwLock};

pub use crossbeam_utils::CachePadded;

/// Locks a mutex.
///
/// # Panics
/// When a thread panicked while it held the lock: what it guards may be half changed.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while it holds this lock")
}
