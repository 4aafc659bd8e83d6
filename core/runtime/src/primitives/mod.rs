//! The only module that imports synchronization primitives: the atomics and locks of std, and
//! crossbeam's padding.
//!
//! With the feature `loom` they are those of the model checker, which explores all interleavings
//! (`tests/models`). With the feature `shuttle` they are those of a checker that runs long random
//! schedules (`tests/schedules`). With both, `loom` wins. With the feature `contention` they count
//! how each thread uses them (`primitives/contention.rs`). Nothing else changes.

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
    std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize},
    std::sync::{Mutex, RwLock},
};

#[cfg(all(
    feature = "contention",
    not(any(feature = "loom", feature = "shuttle"))
))]
pub use contention::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Mutex, RwLock};

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use {
    checker::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    },
    checker::sync::{Condvar, Mutex, MutexGuard, RwLock},
    model::OnceLock,
};

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
use crate::limits::BACK_OFF_PAUSES;
use crate::limits::WAITS_BEFORE_YIELDING;

pub use crossbeam_utils::CachePadded;
pub use std::sync::Arc;
/// For tables that are built from constants. Every thread would build the same table, so models
/// need no substitute for this type.
pub use std::sync::LazyLock;
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::OnceLock;
pub use std::sync::atomic::Ordering;

/// Must be called between two sequentially consistent accesses whose order in the single order of
/// all such accesses matters. It has an effect only under loom, which treats such an access as
/// only acquire and release, and models only fences as sequentially consistent.
#[inline]
pub fn between_seq_cst() {
    #[cfg(feature = "loom")]
    fence(Ordering::SeqCst);
}

/// Loads a word, relaxed, before this thread exchanges it. A plain load, except under loom, which
/// skips schedules in which a load precedes an exchange of the same word.
#[inline]
pub fn load_to_exchange(word: &AtomicU64) -> u64 {
    #[cfg(feature = "loom")]
    return word.fetch_add(0, Ordering::Relaxed);
    // Relaxed: the exchange fails if the value has changed in the meantime.
    #[cfg(not(feature = "loom"))]
    word.load(Ordering::Relaxed)
}

/// Stores a value, relaxed, into a word that other threads exchange. A plain store, except under
/// loom. Loom does not know that a successful exchange directly follows the value that it has read,
/// and therefore precedes any later store, too. It would let this thread read the exchanged value
/// after its own store. Loom does know the order of exchanges.
#[inline]
pub fn store_among_exchanges(word: &AtomicU64, value: u64) {
    #[cfg(feature = "loom")]
    word.swap(value, Ordering::Relaxed);
    // Relaxed: the caller orders it.
    #[cfg(not(feature = "loom"))]
    word.store(value, Ordering::Relaxed);
}

/// Pauses this thread after another thread has won an exchange.
///
/// The pause is long on purpose. Threads that retry immediately take the cache line from each other
/// at every step, while a thread that backs off lets the other do hundreds of steps. The thread
/// keeps its core: no other thread waits for it, and a busy machine would return the core only
/// milliseconds later.
#[cold]
pub fn back_off() {
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    checker::thread::yield_now();
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    for _ in 0..BACK_OFF_PAUSES {
        std::hint::spin_loop();
    }
}

/// Waits for a moment while another thread finishes a step. Callers start with `attempts` at 0.
/// Spins for a bounded time, and then yields the core, because the other thread may need it.
#[cold]
pub fn wait_for_another(attempts: &mut u32) {
    if *attempts < WAITS_BEFORE_YIELDING {
        *attempts += 1;
        return back_off();
    }
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    checker::thread::yield_now();
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    std::thread::yield_now();
}

/// Locks a mutex.
///
/// # Panics
/// Panics if a thread has panicked while holding the lock: the data may be inconsistent.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while holding this lock")
}
