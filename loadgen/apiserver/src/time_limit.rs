//! The time that one request may take.
//!
//! This crate reads no clock. Whoever sends a request raises a flag when the request's time is over; what may take long
//! (a schema against an object, the objects of a collection one by one) looks at the flag as it goes on and ends early,
//! and nothing is committed afterwards.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::Exceeded;

thread_local! {
    /// The flag of the request that this thread works on.
    static OVER: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Works on a request whose time is over once `over` is true. Its calls of this crate, on this thread, then end with
/// [`Exceeded::Time`], 504, within milliseconds.
pub fn within<T>(over: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    /// Takes the flag off the thread, after a panic too.
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

/// Whether the time of the request is over. A few instructions.
pub(crate) fn is_over() -> bool {
    OVER.with_borrow(|over| {
        // Relaxed: the flag orders nothing; seeing it a little later does no harm.
        over.as_ref()
            .is_some_and(|over| over.load(Ordering::Relaxed))
    })
}

/// # Errors
/// The time of the request is over.
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
    fn the_flag_is_that_of_one_request() {
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
