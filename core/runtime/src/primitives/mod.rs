//! The one place that names synchronisation primitives: std's atomics and locks, crossbeam's bounded
//! queue and padding.
//!
//! With the feature `loom` the model checker's stand in for them, and all of their interleavings can be
//! run through (`tests/models`). With the feature `shuttle` those of a tester do that runs long schedules
//! at random (`tests/schedules`); given both, `loom` holds. With the feature `contention` they count, for each thread, what is
//! done to them (`primitives/contention.rs`). Nothing else changes.

#[cfg(feature = "contention")]
pub mod contention;
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model;

#[cfg(feature = "loom")]
use loom as checker;
#[cfg(all(feature = "shuttle", not(feature = "loom")))]
use shuttle as checker;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::atomic::{AtomicBool, AtomicU8, fence};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::{Condvar, MutexGuard};
#[cfg(not(any(feature = "contention", feature = "loom", feature = "shuttle")))]
pub use {
    crossbeam_queue::ArrayQueue,
    std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize},
    std::sync::{Mutex, RwLock},
};

#[cfg(all(
    feature = "contention",
    not(any(feature = "loom", feature = "shuttle"))
))]
pub use contention::{ArrayQueue, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Mutex, RwLock};

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use {
    checker::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    },
    checker::sync::{Condvar, Mutex, MutexGuard, RwLock},
    model::{ArrayQueue, OnceLock},
};

pub use crossbeam_utils::CachePadded;
pub use std::sync::Arc;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::OnceLock;
pub use std::sync::atomic::Ordering;

/// To be called between two sequentially consistent accesses of which both must hold their place in the
/// one order of all such accesses. It does nothing but under the model checker, which takes
/// such an access for no more than acquire and release, and only such a fence for what it is.
#[inline]
pub fn between_seq_cst() {
    #[cfg(feature = "loom")]
    fence(Ordering::SeqCst);
}

/// Loads a word, relaxed, of which an exchange by this thread follows. A plain load but under the model
/// checker, which leaves out schedules where a load goes before an exchange of the same word.
#[inline]
pub fn load_to_exchange(word: &AtomicU64) -> u64 {
    #[cfg(feature = "loom")]
    return word.fetch_add(0, Ordering::Relaxed);
    // Relaxed: the exchange fails if another value is there meanwhile.
    #[cfg(not(feature = "loom"))]
    word.load(Ordering::Relaxed)
}

/// Stores a value, relaxed, into a word that other threads exchange. A plain store but under the model
/// checker: that does not know that a successful exchange comes right behind the value it has
/// read, and so before a store that comes behind that value too, and would let this thread read the
/// exchanged value afterwards. Of its own exchanges it does know the order.
#[inline]
pub fn store_among_exchanges(word: &AtomicU64, value: u64) {
    #[cfg(feature = "loom")]
    word.swap(value, Ordering::Relaxed);
    // Relaxed: the caller orders it.
    #[cfg(not(feature = "loom"))]
    word.store(value, Ordering::Relaxed);
}

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
