//! Objects that came from files: what a run starts from instead of a generated cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::Cause;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{
    AnyObject, DecodeError, DynamicObject, Kind, Namespace, Node, Object, ObjectMeta, Pod, PodSpec,
    PodTemplate, Quantity, Rest, Sharer,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::units::count_for_people;

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
    /// An owner of pods with a type of its own, which its workload knows.
    Owner(Box<dyn TypedOwner>),
    /// One of a kind without a type of its own, such as a `v1` `ConfigMap`: stored, and an owner like any.
    Dynamic(Box<DynamicObject>),
}

/// Reads an object of one kind in the type of that kind.
pub(crate) type ReadTyped = fn(JsonValue<'_>) -> Result<InputObject, DecodeError>;

/// An owner of pods from a file, in the type of its kind.
pub trait TypedOwner: Object {
    /// A copy.
    fn copied(&self) -> Box<dyn TypedOwner>;

    /// The template of its pods, if it has one.
    fn template(&self) -> Option<&Arc<PodTemplate>>;

    /// The members of its spec that the type has no place for.
    fn spec_rest(&self) -> &Rest;

    /// Sets the defaults that the server sets. `filled` is the spec of its pods with them, where that is known.
    fn set_defaults(&mut self, filled: Option<&Arc<PodSpec>>);

    /// The rules that it breaks; where `spec_is_checked`, not those of its pods' spec.
    fn broken_rules(&self, spec_is_checked: bool) -> Vec<Cause>;

    /// Lets it share what other objects have, too.
    fn share(&mut self, _sharer: &mut Sharer) {}
}

impl Clone for Box<dyn TypedOwner> {
    fn clone(&self) -> Box<dyn TypedOwner> {
        self.copied()
    }
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

    /// The object's metadata, to be changed.
    pub(crate) fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            InputObject::Namespace(object) => &mut object.metadata,
            InputObject::Node(object) => &mut object.metadata,
            InputObject::Pod(object) => &mut object.metadata,
            InputObject::Owner(object) => object.metadata_mut(),
            InputObject::Dynamic(object) => &mut object.metadata,
        }
    }

    /// The object, to be stored.
    pub fn into_any(self) -> AnyObject {
        match self {
            InputObject::Namespace(object) => Arc::<Namespace>::from(object),
            InputObject::Node(object) => Arc::<Node>::from(object),
            InputObject::Pod(object) => Arc::<Pod>::from(object),
            InputObject::Owner(object) => Arc::<dyn TypedOwner>::from(object),
            InputObject::Dynamic(object) => Arc::<DynamicObject>::from(object),
        }
    }

    /// The object, of whatever kind.
    pub fn as_object(&self) -> &dyn Object {
        match self {
            InputObject::Namespace(object) => &**object,
            InputObject::Node(object) => &**object,
            InputObject::Pod(object) => &**object,
            InputObject::Owner(object) => &**object,
            InputObject::Dynamic(object) => &**object,
        }
    }
}

/// Amounts by the name of a resource.
pub type Requests = BTreeMap<String, Quantity>;

/// Pods of one spec.
#[derive(Clone, Debug, PartialEq)]
pub struct PodsOfSpec {
    /// Their spec.
    pub spec: Arc<PodSpec>,
    /// How many there are to be.
    pub pods: u64,
    /// How many have a place that they bring.
    pub placed: u64,
}

/// What files bring that decides the size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSize {
    /// Pods when every owner has what it asks for, with the pods that have no owner.
    pub pods: u64,
    /// Objects that own pods.
    pub owners: u64,
    /// The kinds of the workloads.
    pub workloads: BTreeSet<Kind>,
    /// Nodes.
    pub nodes: u64,
    /// Namespaces named by the objects.
    pub namespaces: u64,
    /// Pods that fit on the nodes of the input that say their capacity.
    pub places: u64,
    /// Schedulable nodes of the input that do not say their capacity.
    pub nodes_without_capacity: u64,
    /// The pods, by their specs. What these request is read when it is asked for.
    pub specs: Vec<PodsOfSpec>,
    /// How many pods of objects without a type of their own request what.
    pub requests: BTreeMap<Requests, u64>,
}

/// What came from files.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct InputCounts {
    /// Objects taken, by kind.
    pub taken: BTreeMap<String, u64>,
    /// Documents of kinds that are not simulated, by kind.
    pub ignored: BTreeMap<String, u64>,
    /// How the pods among them were.
    pub pods: InputPods,
}

/// How the pods of files were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputPods {
    /// Active and ready.
    pub ready: u64,
    /// Active and not ready: they may stay so, and fail no run.
    pub not_ready: u64,
    /// On their way out.
    pub terminating: u64,
    /// Succeeded or failed.
    pub ended: u64,
    /// Of those that were active and not ready, the ones that still were when the run ended.
    pub still_not_ready: u64,
}

impl InputPods {
    /// `4,781 ready, 2 not ready (1 of them at the end too), 219 ended`.
    pub fn in_words(&self) -> String {
        let still = match self.still_not_ready {
            0 => String::new(),
            still => format!(" ({} of them at the end too)", count_for_people(still)),
        };
        let all = [
            (self.ready, "ready", ""),
            (self.not_ready, "not ready", &*still),
            (self.terminating, "on their way out", ""),
            (self.ended, "ended", ""),
        ];
        let some = all.iter().filter(|(count, ..)| *count > 0);
        let some: Vec<String> = some
            .map(|(count, what, more)| format!("{} {what}{more}", count_for_people(*count)))
            .collect();
        some.join(", ")
    }
}
