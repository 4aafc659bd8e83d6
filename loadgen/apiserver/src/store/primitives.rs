//! The atomics and locks of the event log and its watches: those of std or, with the feature `loom`
//! or `shuttle`, those of a model checker. `log/models.rs` checks the interleavings.

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(crate) use podstorm_runtime::primitives::{AtomicU64, Mutex, MutexGuard, OnceLock};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, atomic::AtomicU64};
