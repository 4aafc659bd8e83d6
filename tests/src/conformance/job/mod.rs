//! Cases of the Job controller.

pub(super) mod handlers;
mod harness;
pub(super) mod orphan;
pub(super) mod pure;
pub(super) mod sync;
