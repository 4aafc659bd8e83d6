//! The kinds of object the project knows, and what every one of them offers.

use super::{DecodeError, ObjectMeta};

/// A kind of Kubernetes object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `v1` `Namespace`, cluster-scoped.
    Namespace,
    /// `v1` `Node`, cluster-scoped.
    Node,
    /// `v1` `Pod`.
    Pod,
    /// `apps/v1` `ReplicaSet`.
    ReplicaSet,
    /// `v1` `ReplicationController`.
    ReplicationController,
    /// `v1` `Event`.
    Event,
}

impl Kind {
    /// Every kind, in a fixed order.
    pub const ALL: [Kind; 6] = [
        Kind::Namespace,
        Kind::Node,
        Kind::Pod,
        Kind::ReplicaSet,
        Kind::ReplicationController,
        Kind::Event,
    ];

    /// The `kind` of an object's JSON, e.g. `ReplicaSet`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Namespace => "Namespace",
            Kind::Node => "Node",
            Kind::Pod => "Pod",
            Kind::ReplicaSet => "ReplicaSet",
            Kind::ReplicationController => "ReplicationController",
            Kind::Event => "Event",
        }
    }

    /// The API group; empty for the core group.
    pub const fn group(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "apps",
            _ => "",
        }
    }

    /// The `apiVersion` of an object's JSON: `apps/v1` or `v1`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "apps/v1",
            _ => "v1",
        }
    }

    /// The resource name in URLs and messages, e.g. `replicasets`.
    pub const fn resource(self) -> &'static str {
        match self {
            Kind::Namespace => "namespaces",
            Kind::Node => "nodes",
            Kind::Pod => "pods",
            Kind::ReplicaSet => "replicasets",
            Kind::ReplicationController => "replicationcontrollers",
            Kind::Event => "events",
        }
    }

    /// The resource with its group as error messages spell it, e.g. `replicasets.apps`, `pods`.
    pub const fn group_resource(self) -> &'static str {
        match self {
            Kind::ReplicaSet => "replicasets.apps",
            other => other.resource(),
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub const fn is_namespaced(self) -> bool {
        !matches!(self, Kind::Namespace | Kind::Node)
    }
}

/// What every kind of object offers: identity, and JSON both ways.
pub trait Resource: Clone + Send + Sync + std::fmt::Debug + 'static {
    /// The kind of this type.
    const KIND: Kind;

    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// The object's metadata, to change before it is published.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Reads an object from its JSON form. `apiVersion` and `kind` may be absent; fields without
    /// a typed place are carried in `rest`.
    ///
    /// # Errors
    /// A field of a wrong type or an unreadable value, with its path.
    fn from_json(value: serde_json::Value) -> Result<Self, DecodeError>;

    /// The object's JSON form, `apiVersion` and `kind` included. Unset members are left out.
    fn to_json(&self) -> serde_json::Value;
}
