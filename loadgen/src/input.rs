//! Objects that came from files: what a run starts from instead of a generated cluster.

use podstorm_objects::{
    Kind, Namespace, Node, ObjectMeta, Pod, ReplicaSet, ReplicationController, Resource,
};

/// An object of a simulated kind, as a file had it, checked but not yet stored. Large kinds are
/// boxed so that a million of them don't all take the size of the largest.
#[derive(Clone, Debug)]
pub enum InputObject {
    /// A `v1` `Namespace`.
    Namespace(Box<Namespace>),
    /// A `v1` `Node`.
    Node(Box<Node>),
    /// A `v1` `Pod`.
    Pod(Box<Pod>),
    /// An `apps/v1` `ReplicaSet`.
    ReplicaSet(Box<ReplicaSet>),
    /// A `v1` `ReplicationController`.
    ReplicationController(Box<ReplicationController>),
}

impl InputObject {
    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        match self {
            InputObject::Namespace(_) => Kind::Namespace,
            InputObject::Node(_) => Kind::Node,
            InputObject::Pod(_) => Kind::Pod,
            InputObject::ReplicaSet(_) => Kind::ReplicaSet,
            InputObject::ReplicationController(_) => Kind::ReplicationController,
        }
    }

    /// The object's metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            InputObject::Namespace(object) => object.metadata(),
            InputObject::Node(object) => object.metadata(),
            InputObject::Pod(object) => object.metadata(),
            InputObject::ReplicaSet(object) => object.metadata(),
            InputObject::ReplicationController(object) => object.metadata(),
        }
    }
}
