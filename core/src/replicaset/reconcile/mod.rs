//! The decisions of a sync as pure functions: the pod from the template, the status and the
//! availability. They use no cache, queue or clock.

mod availability;
mod pod_from_template;
mod status;

pub(crate) use availability::{availability_cutoff, next_check_of_times};
pub use availability::{is_available, next_availability_check};
pub use pod_from_template::{NO_LABELS_ERROR, pod_from_template, pod_name_prefix, pod_of};
pub use status::{StatusCounts, compute_status, status_is_unchanged};
