//! The time of the cluster: its clock, and virtual time.

use std::sync::Arc;

use podstorm_objects::Now;

/// A clock: returns the current time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// The maximum advance per request in seconds: one year.
pub(crate) const ADVANCE_MAX_SECONDS: f64 = 31_536_000.0;

/// The virtual time of a cluster, which passes only when it is advanced. Both methods may block for
/// a long time, and are called on threads where they delay no other request.
pub trait VirtualTime: Send + Sync {
    /// Advances the time by `by_ns` nanoseconds. Returns the new time after everything that is due
    /// until then has happened.
    fn advance(&self, by_ns: i64) -> Now;

    /// Completes everything that is due now. Called after every mutating request.
    fn rest(&self);
}
