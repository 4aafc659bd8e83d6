//! Objects that came from files: what a run starts from instead of a generated cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm_objects::{
    AnyObject, DynamicObject, Kind, Namespace, Node, Object, ObjectMeta, Pod, ReplicaSet,
    ReplicationController,
};

/// An object of a kind that the cluster serves, as a file had it, checked but not yet stored. Large kinds are
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
    /// One of a kind without a type of its own, such as a `v1` `ConfigMap`: stored, and an owner like any.
    Dynamic(Box<DynamicObject>),
}

/// The namespaces that objects are in and that are not among them, by name: a dump of workloads lacks them.
pub fn missing_namespaces(objects: &[InputObject]) -> impl Iterator<Item = InputObject> + use<> {
    let mut names = BTreeSet::new();
    for object in objects {
        if object.kind().is_namespaced() {
            names.insert(object.metadata().namespace.to_string());
        }
    }
    for object in objects {
        if let InputObject::Namespace(namespace) = object {
            names.remove(namespace.metadata.name.as_str());
        }
    }
    names.into_iter().map(|name| {
        let metadata = ObjectMeta {
            name: name.into(),
            ..ObjectMeta::default()
        };
        InputObject::Namespace(Box::new(Namespace {
            metadata,
            ..Namespace::default()
        }))
    })
}

impl InputObject {
    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        self.as_object().kind()
    }

    /// The object's metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        self.as_object().metadata()
    }

    /// The object, to be stored.
    pub fn into_any(self) -> AnyObject {
        match self {
            InputObject::Namespace(object) => Arc::<Namespace>::from(object),
            InputObject::Node(object) => Arc::<Node>::from(object),
            InputObject::Pod(object) => Arc::<Pod>::from(object),
            InputObject::ReplicaSet(object) => Arc::<ReplicaSet>::from(object),
            InputObject::ReplicationController(object) => {
                Arc::<ReplicationController>::from(object)
            }
            InputObject::Dynamic(object) => Arc::<DynamicObject>::from(object),
        }
    }

    /// The object, of whatever kind.
    pub fn as_object(&self) -> &dyn Object {
        match self {
            InputObject::Namespace(object) => &**object,
            InputObject::Node(object) => &**object,
            InputObject::Pod(object) => &**object,
            InputObject::ReplicaSet(object) => &**object,
            InputObject::ReplicationController(object) => &**object,
            InputObject::Dynamic(object) => &**object,
        }
    }
}
