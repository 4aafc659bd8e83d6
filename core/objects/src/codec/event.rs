//! Events.

use serde_json::{Value, json};

use super::{Writer, open};
use crate::decode::{DecodeError, Members, Path};
use crate::shape::{Shape, check};
use crate::{
    Event, EventTopic, Kind, Map, Object, ObjectMeta, ObjectReference, Regarding, Resource,
    ResourceVersion, Uid,
};

const REFERENCE: Shape = Shape::Object(&[
    ("apiVersion", Shape::Text),
    ("fieldPath", Shape::Text),
    ("kind", Shape::Text),
    ("name", Shape::Text),
    ("namespace", Shape::Text),
    ("resourceVersion", Shape::Text),
    ("uid", Shape::Text),
]);

/// The members that are carried unread.
const REST: Shape = Shape::Object(&[
    ("action", Shape::Text),
    ("eventTime", Shape::Time),
    ("related", REFERENCE),
    (
        "series",
        Shape::Object(&[("count", Shape::Int32), ("lastObservedTime", Shape::Time)]),
    ),
]);

/// The members of a reference to a known kind, all of them texts.
const REFERENCE_MEMBERS: [&str; 6] = [
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

impl Object for Event {
    fn kind(&self) -> Kind {
        Self::KIND
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn to_json(&self) -> Value {
        let topic = &*self.topic;
        let mut out = Writer::with_rest(&self.rest);
        out.put("apiVersion", Kind::EVENT.api_version());
        out.put("kind", Kind::EVENT.name());
        out.put("metadata", self.metadata.to_json());
        out.put_some(
            "involvedObject",
            self.regarding.as_ref().map(Regarding::to_json),
        );
        out.put_text("type", &topic.kind);
        out.put_text("reason", &topic.reason);
        out.put_text("message", &self.message);
        out.put_number("count", self.count.into());
        out.put_time("firstTimestamp", self.first_timestamp);
        out.put_time("lastTimestamp", self.last_timestamp);
        let mut source = Writer::new();
        source.put_text("component", &topic.component);
        source.put_text("host", &topic.host);
        out.put_map("source", source.0);
        // The two that an API server writes even when they are empty.
        out.put("reportingComponent", &*topic.reporting_component);
        out.put("reportingInstance", &*topic.reporting_instance);
        out.into_value()
    }
}

impl Resource for Event {
    const KIND: Kind = Kind::EVENT;

    fn from_json(value: Value) -> Result<Self, DecodeError> {
        let mut members = open(value, Kind::EVENT)?;
        let metadata = members
            .child("metadata", ObjectMeta::read)?
            .unwrap_or_default();
        let regarding = members.child("involvedObject", Regarding::read)?;
        let (component, host) = members.child("source", read_source)?.unwrap_or_default();
        let topic = EventTopic {
            kind: members.string("type")?,
            reason: members.string("reason")?,
            component: component.into(),
            host: host.into(),
            reporting_component: members.string("reportingComponent")?,
            reporting_instance: members.string("reportingInstance")?,
        };
        let event = Event {
            metadata,
            regarding,
            topic: topic.into(),
            message: members.text("message")?.into(),
            count: members.i32("count")?,
            first_timestamp: members.time("firstTimestamp")?,
            last_timestamp: members.time("lastTimestamp")?,
            rest: members.into_rest(),
        };
        if let Some(rest) = &event.rest {
            check(rest, &REST, &Path::ROOT)?;
        }
        Ok(event)
    }
}

/// Component and host.
fn read_source(value: Value, path: &Path<'_>) -> Result<(String, String), DecodeError> {
    let mut members = Members::new(value, path)?;
    Ok((members.text("component")?, members.text("host")?))
}

impl Regarding {
    fn read(value: Value, path: &Path<'_>) -> Result<Regarding, DecodeError> {
        let members = Members::new(value, path)?.into_map();
        check(&members, &REFERENCE, path)?;
        Ok(match ObjectReference::of_members(&members) {
            Some(object) => Regarding::Object(object.into()),
            None => Regarding::Other(members.into()),
        })
    }

    fn to_json(&self) -> Value {
        match self {
            Regarding::Object(object) => object.to_json(),
            Regarding::Other(members) => Value::Object((**members).clone()),
        }
    }
}

impl ObjectReference {
    /// The reference with exactly these members; `None` where it has no typed form.
    fn of_members(members: &Map) -> Option<ObjectReference> {
        if !members.keys().eq(REFERENCE_MEMBERS) {
            return None;
        }
        let text = |member: &str| members[member].as_str();
        let kind = Kind::TYPED
            .into_iter()
            .find(|kind| text("kind") == Some(kind.name()))?;
        if text("apiVersion") != Some(kind.api_version()) {
            return None;
        }
        Some(ObjectReference {
            kind,
            namespace: text("namespace")?.into(),
            name: text("name")?.into(),
            uid: Uid::new(text("uid")?),
            resource_version: ResourceVersion::new(text("resourceVersion")?),
        })
    }

    /// As in `involvedObject`: `apiVersion`, `kind`, `name`, `namespace`, `resourceVersion`, `uid`.
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.name(),
            "name": self.name.as_str(),
            "namespace": &*self.namespace,
            "resourceVersion": self.resource_version.to_string(),
            "uid": self.uid.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {

    use super::super::testing::{refusal, round_trip};
    use super::*;

    fn about_web() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "namespace": "shop",
            "resourceVersion": "12", "uid": "7f420cbd-206a-47ea-a64a-f37288a6840d",
        })
    }

    #[test]
    fn events_round_trip_with_unread_members() {
        assert!(REST.is_sorted() && REFERENCE.is_sorted() && REFERENCE_MEMBERS.is_sorted());
        let event: Event = round_trip(&json!({
            "metadata": {"name": "e", "namespace": "shop"},
            "involvedObject": about_web(), "reason": "SuccessfulCreate", "type": "Normal",
            "message": "Created pod: web-1", "count": 3, "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2026-01-02T03:04:00Z", "lastTimestamp": "2026-01-02T03:04:05Z",
            "reportingComponent": "c", "reportingInstance": "i", "action": "a",
            "eventTime": "2026-01-02T03:04:05.000001Z", "series": {"count": 2}, "future": [1]}));
        assert_eq!((&*event.topic.reason, event.count), ("SuccessfulCreate", 3));
        assert!(matches!(&event.regarding, Some(Regarding::Object(object))
            if object.kind == Kind::REPLICA_SET && object.name == "web"));
        let bare: Event = round_trip(&json!({"metadata": {"name": "e"}}));
        assert_eq!(bare.regarding, None);
    }

    #[test]
    fn references_without_a_typed_form_are_kept_as_they_are() {
        for (member, value) in [
            ("kind", json!("Deployment")),
            ("apiVersion", json!("extensions/v1beta1")),
            ("fieldPath", json!("spec.containers{c}")),
            ("uid", Value::Null),
            ("future", json!(1)),
        ] {
            let mut about = about_web();
            about[member] = value;
            let event: Event = round_trip(&json!({"involvedObject": about}));
            assert!(
                matches!(&event.regarding, Some(Regarding::Other(_))),
                "{member}"
            );
            assert_eq!(
                event.regarding.as_ref().map(Regarding::namespace),
                Some("shop")
            );
        }
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        for (value, problem) in [
            (
                json!({"involvedObject": {"kind": 1}}),
                "involvedObject.kind: expected a string, found the number 1",
            ),
            (
                json!({"source": {"component": 1}}),
                "source.component: expected a string, found the number 1",
            ),
            (
                json!({"count": "3"}),
                "count: expected an integer, found the string \"3\"",
            ),
            (
                json!({"series": {"count": "3"}}),
                "series.count: expected an integer, found the string \"3\"",
            ),
        ] {
            assert_eq!(refusal::<Event>(value), problem);
        }
    }
}
