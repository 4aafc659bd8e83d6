//! What stands between a sync and the API: requests and answers, the QPS limiter, retries on 429,
//! and the event recorder with its correlation. No I/O: a driver carries requests out.

mod error;
mod limiter;
mod request;
mod watch;

pub use error::{ApiError, Cause, Reason};
pub use limiter::QpsLimiter;
pub use request::{Answer, PodPatch, Request};
pub use watch::WatchEvent;
