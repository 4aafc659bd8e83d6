//! JSON of Events.

use serde_json::Value;

use super::{open, put_kind};
use crate::decode::{DecodeError, Members, Path};
use crate::json::{JsonValue, Writer};
use crate::shape::{Shape, check};
use crate::{
    Event, EventTopic, Kind, ObjectReference, Regarding, Resource, ResourceVersion, Time, Uid,
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

/// The types of the members that are carried unread.
const REST: Shape = Shape::Object(&[
    ("action", Shape::Text),
    ("eventTime", Shape::Time),
    ("related", REFERENCE),
    (
        "series",
        Shape::Object(&[("count", Shape::Int32), ("lastObservedTime", Shape::Time)]),
    ),
]);

/// The members of a reference that has a typed form, sorted by name. All of them are strings.
const REFERENCE_MEMBERS: [&str; 6] = [
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "resourceVersion",
    "uid",
];

object!(Event, |event, out| {
    let topic = &*event.topic;
    // An API server writes this even if it is empty, because it is not a pointer in Go.
    out.member("involvedObject", |out| {
        out.object(|out| {
            if let Some(regarding) = &event.regarding {
                regarding.write(out);
            }
        });
    });
    out.put_text("type", &topic.kind);
    out.put_text("reason", &topic.reason);
    out.put_text("message", &event.message);
    out.put_number("count", event.count.into());
    out.put_time_or_null("firstTimestamp", event.first_timestamp);
    out.put_time_or_null("lastTimestamp", event.last_timestamp);
    if event.rest.is_empty() || !event.rest.as_str().contains("\"eventTime\":") {
        out.put_time_or_null("eventTime", Time::UNSET);
    }
    out.member("source", |out| {
        out.object(|out| {
            out.put_text("component", &topic.component);
            out.put_text("host", &topic.host);
        });
    });
    out.put("reportingComponent", &*topic.reporting_component);
    out.put("reportingInstance", &*topic.reporting_instance);
    out.put_rest(&event.rest);
});

impl Resource for Event {
    const KIND: Kind = Kind::EVENT;

    fn read(value: JsonValue<'_>) -> Result<Self, DecodeError> {
        let (mut members, metadata) = open(value, Kind::EVENT)?;
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
            regarding: regarding
                .filter(|it| !matches!(it, Regarding::Other(rest) if rest.is_empty())),
            topic: topic.into(),
            message: members.text("message")?.into(),
            count: members.i32("count")?,
            first_timestamp: members.time("firstTimestamp")?,
            last_timestamp: members.time("lastTimestamp")?,
            rest: members.rest(),
        };
        check(value, &REST, &Path::ROOT)?;
        Ok(event)
    }
}

/// Reads `source`: the component and the host.
fn read_source<'t>(
    value: JsonValue<'t>,
    path: &Path<'_>,
) -> Result<(&'t str, &'t str), DecodeError> {
    let mut members = Members::new(value, path)?;
    Ok((members.text("component")?, members.text("host")?))
}

impl Regarding {
    fn read(value: JsonValue<'_>, path: &Path<'_>) -> Result<Regarding, DecodeError> {
        let members = Members::new(value, path)?;
        check(value, &REFERENCE, path)?;
        Ok(match ObjectReference::of_members(value) {
            Some(object) => Regarding::Object(object.into()),
            None => Regarding::Other(members.rest()),
        })
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Regarding::Object(object) => object.write(out),
            Regarding::Other(members) => out.put_rest(members),
        }
    }
}

impl ObjectReference {
    /// Returns the typed form of a reference; `None` unless its members are exactly
    /// [`REFERENCE_MEMBERS`] and its kind has a Rust type.
    fn of_members(members: JsonValue<'_>) -> Option<ObjectReference> {
        let present = members.pairs().filter(|(_, value)| !value.is_null());
        if !present.map(|(name, _)| name).eq(REFERENCE_MEMBERS) {
            return None;
        }
        let text = |member: &str| members.get(member)?.as_str();
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

    /// Returns the JSON form in `involvedObject`: `apiVersion`, `kind` and `name`, and those of
    /// `namespace`, `resourceVersion` and `uid` that are not empty.
    pub fn to_json(&self) -> Value {
        Writer::object_value(|out| self.write(out))
    }

    fn write(&self, out: &mut Writer) {
        put_kind(out, self.kind);
        out.put("name", self.name.as_str());
        out.put_text("namespace", &self.namespace);
        if !self.resource_version.is_unset() {
            out.put_shown("resourceVersion", &self.resource_version);
        }
        if !self.uid.is_empty() {
            out.put_shown("uid", &self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{refusal, round_trip, wrong_values};
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
    fn references_without_a_typed_form_are_kept_unchanged() {
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
            let namespace = event.regarding.as_ref().map(Regarding::namespace);
            assert_eq!(namespace.as_deref(), Some("shop"));
        }
    }

    #[test]
    fn wrong_types_are_refused_with_their_path() {
        let cases = r#"
{"involvedObject": {"kind": 1}} => involvedObject.kind: expected a string, found the number 1
{"source": {"component": 1}} => source.component: expected a string, found the number 1
{"count": "3"} => count: expected an integer, found the string "3"
{"series": {"count": "3"}} => series.count: expected an integer, found the string "3"
"#;
        for (value, problem) in wrong_values(cases) {
            assert_eq!(refusal::<Event>(value), problem);
        }
    }
}
