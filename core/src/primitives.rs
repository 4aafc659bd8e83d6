//! The one place that names synchronisation primitives: std's atomics and locks, crossbeam's bounded
//! queue and padding. A model checker's stand-ins are put here and nowhere else.

pub use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock};

pub use crossbeam_queue::ArrayQueue;
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
