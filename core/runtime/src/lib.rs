//! What every controller stands on: the informer cache, the work queue, expectations, the
//! read-your-writes gate, the reflector, slow start, and what stands between a sync and the API.
//!
//! Nothing here knows which workload is controlled, does I/O, starts a thread or reads a clock.

pub mod cache;
pub mod claim;
pub mod client;
pub mod consistency;
pub mod driver;
pub mod expectations;
pub mod intern;
pub mod limits;
pub mod metrics;
pub mod objects;
pub mod primitives;
pub mod reflector;
pub mod slow_start;
pub mod workqueue;
