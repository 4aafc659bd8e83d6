//! What the event log and its watches are made of: std's atomics and locks, or, with the features `loom`
//! and `shuttle`, those of a checker, as podstorm has them. `log/models.rs` runs through their
//! interleavings.

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub(crate) use podstorm_runtime::primitives::{AtomicU64, Mutex, MutexGuard, OnceLock};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, atomic::AtomicU64};
