//! Kinds with few typed fields: namespaces.

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
