//! Kinds of which little is read: namespaces and events.

use super::{Map, ObjectMeta};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Name and labels.
    pub metadata: ObjectMeta,
    /// Whether `status.phase` is `Terminating`.
    pub terminating: bool,
    /// Every member but `metadata`, `apiVersion`, `kind`.
    pub fields: Map,
}

/// An event about an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Every member but `metadata`, `apiVersion`, `kind`: `involvedObject`, `reason`, `message`,
    /// `type`, `count`, `firstTimestamp`, `lastTimestamp`, `source`.
    pub fields: Map,
}
