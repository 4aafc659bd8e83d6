//! Cases of the controller of StatefulSets.

pub(super) mod revisions;
