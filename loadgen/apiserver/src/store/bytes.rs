//! The approximate size of objects in bytes, which the event log compares with its limit.
//!
//! Parts that an object shares with others count in full, so the size is the maximum that a past
//! event can keep alive.

use podstorm_objects::{
    DynamicObject, Event, Map, Namespace, Node, ObjectMeta, Pod, PodTemplate, Regarding,
    ReplicaSet, ReplicationController,
};
use serde_json::Value;

/// An object that knows its size.
pub trait Footprint {
    /// Returns the approximate size in memory, in bytes. Shared parts count in full. O(size of the
    /// fields that clients set); a string counts by its length.
    fn bytes(&self) -> usize;
}

/// The fixed cost of a [`Map`] member: a `String`, a `Value`, and a share of the node. The heap
/// data of the name and the value are added to this.
const MEMBER: usize = 24 + size_of::<Value>() + 16;

impl Footprint for DynamicObject {
    fn bytes(&self) -> usize {
        size_of::<Self>() + of_metadata(&self.metadata) + of_map(&self.fields)
    }
}

impl Footprint for Namespace {
    fn bytes(&self) -> usize {
        size_of::<Self>() + of_metadata(&self.metadata) + of_map(&self.fields)
    }
}

impl Footprint for Node {
    fn bytes(&self) -> usize {
        let own = of_map(&self.spec) + of_map(&self.status);
        size_of::<Self>() + of_metadata(&self.metadata) + own
    }
}

impl Footprint for Pod {
    fn bytes(&self) -> usize {
        let status = &self.status;
        let conditions = status.conditions.iter();
        let conditions: usize = conditions.map(|it| it.rest.as_str().len()).sum();
        let init = status.init_container_statuses.as_deref();
        let containers = init.into_iter().flatten().chain(&status.container_statuses);
        let containers = containers.map(|container| {
            let details = container.details.as_deref();
            size_of_val(container)
                + details.map_or(0, |it| size_of_val(it) + it.rest.as_str().len())
        });
        size_of::<Self>()
            + of_metadata(&self.metadata)
            + self.spec.bytes()
            + status.rest.as_str().len()
            + conditions
            + containers.sum::<usize>()
    }
}

impl Footprint for ReplicaSet {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + of_metadata(&self.metadata)
            + of_template(&self.spec.template)
            + self.spec.rest.as_str().len()
            + self.status.rest.as_str().len()
    }
}

impl Footprint for ReplicationController {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + of_metadata(&self.metadata)
            + self.template.as_deref().map_or(0, of_template)
            + self.spec_rest.as_str().len()
            + self.status.rest.as_str().len()
    }
}

impl Footprint for Event {
    fn bytes(&self) -> usize {
        let regarding = match &self.regarding {
            Some(Regarding::Other(members)) => members.as_str().len(),
            _ => 0,
        };
        size_of::<Self>()
            + of_metadata(&self.metadata)
            + self.message.len()
            + self.rest.as_str().len()
            + regarding
    }
}

fn of_template(template: &PodTemplate) -> usize {
    size_of_val(template) + of_metadata(&template.metadata) + template.spec.bytes()
}

/// Returns the size of the heap data of metadata.
fn of_metadata(metadata: &ObjectMeta) -> usize {
    let pairs = metadata.labels.pairs().iter();
    let pairs = pairs.chain(metadata.annotations.pairs());
    let pairs = pairs.map(|(key, value)| key.len() + value.len() + 64);
    let finalizers = metadata.finalizers().iter();
    let finalizers = finalizers.map(|finalizer| finalizer.len() + 32);
    let owners = metadata.owner_references.iter();
    let owners = owners.map(|owner| size_of_val(&**owner) + owner.name.len());
    metadata.rest.as_str().len()
        + pairs.sum::<usize>()
        + finalizers.sum::<usize>()
        + owners.sum::<usize>()
}

fn of_map(map: &Map) -> usize {
    let members = map.iter();
    members
        .map(|(name, value)| MEMBER + name.len() + of_value(value))
        .sum()
}

/// Returns the size of the heap data of a value. Recurses as deep as objects may be nested.
fn of_value(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => {
            let items = items.iter();
            items.map(|item| size_of::<Value>() + of_value(item)).sum()
        }
        Value::Object(members) => of_map(members),
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Kind, Object, Resource};
    use serde_json::json;

    use super::*;

    /// Puts a long string in each place where clients can put one.
    #[test]
    fn a_long_text_counts_in_every_place() {
        const LONG: usize = 100_000;
        let long = "x".repeat(LONG);
        let template = |it: &str| {
            json!({"metadata": {"annotations": {"a": it}},
            "spec": {"containers": [{"name": "c", "args": [it]}]}})
        };
        let metadata = json!({"name": "a", "namespace": "b", "annotations": {"a": long},
            "managedFields": [{"manager": long}], "finalizers": [long]});
        let pod = json!({"metadata": metadata, "spec": template(&long)["spec"],
            "status": {"message": long, "conditions": [{"type": "Ready", "message": long}],
                "containerStatuses": [{"name": "c", "state": {"waiting": {"message": long}}}]}});
        let set = json!({"metadata": metadata, "spec": {"template": template(&long), "x": long},
            "status": {"x": long}});
        let event = json!({"metadata": metadata, "message": long, "x": long,
            "involvedObject": {"fieldPath": long}});
        let other = json!({"metadata": metadata, "spec": {"x": [long, {"y": long}]}});
        let service = Kind::define(podstorm_objects::ResourceType {
            kind: "Widget",
            resource: "widgets",
            ..podstorm_objects::ResourceType::DEFAULT
        });
        let texts = |json: &Value| json.to_string().len() / LONG * LONG;
        let of = |wanted: usize, object: &dyn Object, bytes: usize| {
            let kind = object.kind();
            assert!(bytes >= wanted, "{kind:?}: {bytes} of {wanted}");
            assert!(bytes < wanted + LONG / 2, "{kind:?}: {bytes} of {wanted}");
        };
        macro_rules! check {
            ($type:ident, $json:expr) => {
                let object = $type::from_json($json.clone()).unwrap();
                of(texts(&object.to_json()), &object, object.bytes());
            };
        }
        check!(Pod, pod);
        check!(ReplicaSet, set);
        check!(ReplicationController, set);
        check!(Event, event);
        check!(Node, other);
        check!(Namespace, other);
        let object = DynamicObject::from_json(service, other.clone()).unwrap();
        of(texts(&other), &object, object.bytes());
        let numbers = json!({"metadata": {}, "data": vec![1; 1000]});
        let object = DynamicObject::from_json(service, numbers).unwrap();
        assert!(object.bytes() >= 1000 * size_of::<Value>());
    }
}
