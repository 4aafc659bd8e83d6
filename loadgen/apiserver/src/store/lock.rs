//! The mutex of the cluster: one that does not ask about panics.

use std::sync::PoisonError;

use super::primitives::{Mutex, MutexGuard};

/// A mutex. A thread that panics with the lock held is a bug that ends the run anyway, so the
/// others do not stop over it.
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
