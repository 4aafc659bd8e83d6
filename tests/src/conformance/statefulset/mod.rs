//! Cases of the StatefulSet controller.

pub(super) mod handlers;
mod harness;
pub(super) mod pure;
pub(super) mod revisions;
pub(super) mod sync;
