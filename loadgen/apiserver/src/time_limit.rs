//! The time limit of a request.
//!
//! This crate reads no clock. The sender of a request raises a flag when the request's time is
//! over. Long operations (a check against a schema, a loop over the objects of a collection) check
//! the flag as they proceed and return early. Nothing is committed afterwards.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::Exceeded;

thread_local! {
    /// The flag of the request that this thread is handling.
    static OVER: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs the work of a request whose time is over once `over` is true. Calls of this crate on this
/// thread then return within milliseconds with [`Exceeded::Time`], a 504.
pub fn within<T>(over: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    /// Removes the flag from the thread, also after a panic.
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            OVER.set(None);
        }
    }
    OVER.set(Some(over));
    let _ends = Ends;
    work()
}

/// Reports whether the time of the request is over. Takes a few instructions.
pub(crate) fn is_over() -> bool {
    OVER.with_borrow(|over| {
        // Relaxed: the flag orders nothing, and a short delay is harmless.
        over.as_ref()
            .is_some_and(|over| over.load(Ordering::Relaxed))
    })
}

/// Checks the time limit of the request.
///
/// # Errors
/// Fails if the time of the request is over.
pub fn check() -> Result<(), Exceeded> {
    match is_over() {
        true => Err(Exceeded::Time),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_own_flag() {
        let over = Arc::new(AtomicBool::new(false));
        let raised = || {
            assert_eq!(check(), Ok(()));
            over.store(true, Ordering::Relaxed);
            assert_eq!(check(), Err(Exceeded::Time));
        };
        within(Arc::clone(&over), raised);
        assert_eq!(check(), Ok(()));
        let panics = std::panic::AssertUnwindSafe(|| within(over, || panic!("a bug")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(check(), Ok(()));
    }
}
