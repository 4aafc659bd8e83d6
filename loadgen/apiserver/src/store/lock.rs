//! A mutex that ignores poisoning.

use std::sync::PoisonError;

use super::primitives::{Mutex, MutexGuard};

/// A mutex that ignores poisoning: a panic while the lock is held is a bug, which ends the run even
/// so.
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
