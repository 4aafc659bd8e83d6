//! Objects from files, which replace a generated cluster as the initial state of a run.

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

/// An object from a file, of a kind that the cluster serves, validated but not yet stored. Large
/// types are boxed, so that small objects do not take the size of the largest type.
#[derive(Clone, Debug)]
pub enum InputObject {
    /// A `v1` `Namespace`.
    Namespace(Box<Namespace>),
    /// A `v1` `Node`.
    Node(Box<Node>),
    /// A `v1` `Pod`.
    Pod(Box<Pod>),
    /// An object that owns pods. The workload defines the object's type.
    Owner(Box<dyn TypedOwner>),
    /// An object of an untyped kind, such as a `v1` `ConfigMap`. It is stored and can own objects.
    Dynamic(Box<DynamicObject>),
}

/// A function that decodes objects of a kind that has its own type.
pub(crate) type ReadTyped = fn(JsonValue<'_>) -> Result<InputObject, DecodeError>;

/// An object from a file that owns pods and has its own type.
pub trait TypedOwner: Object {
    /// Returns a copy of the object.
    fn copied(&self) -> Box<dyn TypedOwner>;

    /// Returns the owner's pod template; `None` if it has no template.
    fn template(&self) -> Option<&Arc<PodTemplate>>;

    /// Returns the members of the owner's spec for which the type has no fields.
    fn spec_rest(&self) -> &Rest;

    /// Sets the defaults that the server would set. `filled` is the spec of the owner's pods with
    /// defaults, if it is already known.
    fn set_defaults(&mut self, filled: Option<&Arc<PodSpec>>);

    /// Returns the validation rules that the owner violates. If `spec_is_checked` is true, the spec
    /// of the owner's pods is known to be valid, and its rules may be skipped.
    fn broken_rules(&self, spec_is_checked: bool) -> Vec<Cause>;

    /// Shares memory with equal parts of other objects.
    fn share(&mut self, _sharer: &mut Sharer) {}
}

impl Clone for Box<dyn TypedOwner> {
    fn clone(&self) -> Box<dyn TypedOwner> {
        self.copied()
    }
}

/// Returns the namespaces that `objects` refer to but don't include, sorted by name. Dumps of
/// workloads lack their namespaces.
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
    names
        .into_iter()
        .map(|name| InputObject::Namespace(Box::new(named_namespace(&name))))
}

/// Formats an object's kind, namespace and name: `Pod shop/web-1`, `Node n1`. An object without a
/// name is shown with the prefix for its generated name.
pub(crate) fn described(object: &dyn Object) -> String {
    let (metadata, kind) = (object.metadata(), object.kind().name());
    let name = match &*metadata.name {
        "" => metadata.generate_name.as_deref().unwrap_or(""),
        name => name,
    };
    match &*metadata.namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Creates a namespace with this name.
pub(crate) fn named_namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: name.into(),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

impl InputObject {
    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        self.as_object().kind()
    }

    /// Returns the object's metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        self.as_object().metadata()
    }

    /// Returns mutable access to the object's metadata.
    pub(crate) fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            InputObject::Namespace(object) => &mut object.metadata,
            InputObject::Node(object) => &mut object.metadata,
            InputObject::Pod(object) => &mut object.metadata,
            InputObject::Owner(object) => object.metadata_mut(),
            InputObject::Dynamic(object) => &mut object.metadata,
        }
    }

    /// Converts the object to the type that the store takes.
    pub fn into_any(self) -> AnyObject {
        match self {
            InputObject::Namespace(object) => Arc::<Namespace>::from(object),
            InputObject::Node(object) => Arc::<Node>::from(object),
            InputObject::Pod(object) => Arc::<Pod>::from(object),
            InputObject::Owner(object) => Arc::<dyn TypedOwner>::from(object),
            InputObject::Dynamic(object) => Arc::<DynamicObject>::from(object),
        }
    }

    /// Returns the object as a trait object of `Object`, which all kinds implement.
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

/// Resource amounts, by resource name.
pub type Requests = BTreeMap<String, Quantity>;

/// Pods with the same spec.
#[derive(Clone, Debug, PartialEq)]
pub struct PodsOfSpec {
    /// The spec that the pods share.
    pub spec: Arc<PodSpec>,
    /// The desired number of pods with this spec.
    pub pods: u64,
    /// The number of these pods that are already bound to a node.
    pub placed: u64,
}

/// The properties of the input that determine the size of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSize {
    /// The number of desired pods of all owners, plus the number of pods without an owner.
    pub pods: u64,
    /// The number of objects that own pods.
    pub owners: u64,
    /// The kinds of the workloads.
    pub workloads: BTreeSet<Kind>,
    /// The number of nodes.
    pub nodes: u64,
    /// The number of namespaces that objects refer to.
    pub namespaces: u64,
    /// The total capacity, in pods, of the nodes that declare one.
    pub places: u64,
    /// The number of schedulable nodes that declare no capacity.
    pub nodes_without_capacity: u64,
    /// The pods grouped by spec. Their resource requests are computed from the specs when needed.
    pub specs: Vec<PodsOfSpec>,
    /// Resource requests of the pods of untyped objects, with the number of pods for each.
    pub requests: BTreeMap<Requests, u64>,
}

/// The counts of the objects that came from files.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct InputCounts {
    /// Number of objects taken, by kind.
    pub taken: BTreeMap<String, u64>,
    /// Number of documents of kinds that are not simulated, by kind.
    pub ignored: BTreeMap<String, u64>,
    /// The initial state of the pods.
    pub pods: InputPods,
}

/// The number of pods from files in each initial state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputPods {
    /// Pods that are active and ready.
    pub ready: u64,
    /// Pods that are active and not ready. They may remain not ready, which does not fail a run.
    pub not_ready: u64,
    /// Pods that are being deleted.
    pub terminating: u64,
    /// Pods that have succeeded or failed.
    pub ended: u64,
    /// Pods that were active and not ready, and still were when the run ended.
    pub still_not_ready: u64,
}

impl InputPods {
    /// Formats the counts: `4,781 ready, 2 not ready (1 of them at the end too), 219 ended`.
    pub fn in_words(&self) -> String {
        let still = match self.still_not_ready {
            0 => String::new(),
            still => format!(" ({} of them at the end too)", count_for_people(still)),
        };
        let all = [
            (self.ready, "ready", ""),
            (self.not_ready, "not ready", &*still),
            (self.terminating, "terminating", ""),
            (self.ended, "ended", ""),
        ];
        let some = all.iter().filter(|(count, ..)| *count > 0);
        let some: Vec<String> = some
            .map(|(count, what, more)| format!("{} {what}{more}", count_for_people(*count)))
            .collect();
        some.join(", ")
    }
}
