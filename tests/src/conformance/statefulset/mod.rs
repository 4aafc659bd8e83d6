//! Cases of the controller of StatefulSets.

pub(super) mod handlers;
mod harness;
pub(super) mod pure;
pub(super) mod revisions;
pub(super) mod sync;
