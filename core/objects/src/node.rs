//! Nodes, with the fields that the scheduler and the kubelets read.

use super::{Map, ObjectMeta};

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The metadata, such as name and labels.
    pub metadata: ObjectMeta,
    /// `spec` as JSON.
    pub spec: Map,
    /// `status` as JSON.
    pub status: Map,
    /// The number of pods that fit: `status.allocatable.pods`, or else `status.capacity.pods`;
    /// absent if neither is set.
    pub pods_allocatable: Option<u32>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
}
