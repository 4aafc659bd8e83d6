//! Substitutes for primitives that the model checkers lack.

use std::fmt;

use super::checker::sync::Mutex;
use super::checker::sync::atomic::{AtomicBool, Ordering};

/// Like [`std::sync::OnceLock`], but the checker knows its ordering.
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
    setting: Mutex<()>,
}

impl<T> OnceLock<T> {
    /// Creates an empty cell.
    pub fn new() -> Self {
        OnceLock {
            value: std::sync::OnceLock::new(),
            is_set: AtomicBool::new(false),
            setting: Mutex::new(()),
        }
    }

    /// Like [`std::sync::OnceLock::get`].
    pub fn get(&self) -> Option<&T> {
        let is_set = self.is_set.load(Ordering::Acquire);
        is_set.then(|| self.value.get()).flatten()
    }

    /// Like [`std::sync::OnceLock::get_or_init`].
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _setting = super::lock(&self.setting);
            if self.value.get().is_none() {
                self.fill(make());
            }
        }
        self.value.get().expect("the value was set")
    }

    /// Like [`std::sync::OnceLock::set`].
    ///
    /// # Errors
    /// Returns `value` if the cell already has a value.
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
        assert!(is_new, "the value is set under the lock");
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
