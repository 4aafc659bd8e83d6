//! The time of the cluster: what tells it, and what moves it where it stands still otherwise.

use std::sync::Arc;

use podstorm_objects::Now;

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// Maximum advance per request in seconds: one year.
pub(crate) const ADVANCE_MAX_SECONDS: f64 = 31_536_000.0;

/// The virtual time of a cluster, which passes only when it is advanced. Both methods may block for
/// long and are called where that delays no request.
pub trait VirtualTime: Send + Sync {
    /// Advances the time by a number of ns. Returns the new time after everything due until then
    /// has happened.
    fn advance(&self, by_ns: i64) -> Now;

    /// Completes everything that is due now. Called after every mutating request.
    fn rest(&self);
}
