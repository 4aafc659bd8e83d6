//! The decisions of a sync as pure functions and small state machines: which pods to claim, what a
//! new pod looks like, what the status says. No cache, no queue, no clock.

mod availability;
mod body;
mod status;

pub(crate) use availability::{availability_cutoff, next_check_of_times};
pub use availability::{is_available, next_availability_check};
pub use body::{NO_LABELS_ERROR, pod_body, pod_name_prefix};
pub use status::{StatusCounts, compute_status, status_is_unchanged};
