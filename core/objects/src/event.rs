//! Events, in a form small enough to keep tens of thousands of them. Events with the same type,
//! reason and source share one allocation for these members. A repetition of an event changes only
//! three plain members.

use std::borrow::Cow;
use std::sync::Arc;

use compact_str::CompactString;
use serde_json::Value;

use super::{Kind, ObjectMeta, ResourceVersion, Rest, Str, Time, Uid};

/// An event about an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// The metadata, such as name and namespace.
    pub metadata: ObjectMeta,
    /// `involvedObject`: the object that the event is about.
    pub regarding: Option<Regarding>,
    /// The type, the reason and the source of the event.
    pub topic: Arc<EventTopic>,
    /// `message`: a sentence for people.
    pub message: Box<str>,
    /// `count`: how often the event has occurred.
    pub count: i32,
    /// `firstTimestamp`: the first occurrence.
    pub first_timestamp: Time,
    /// `lastTimestamp`: the last occurrence.
    pub last_timestamp: Time,
    /// Members without a typed field.
    pub rest: Rest,
}

/// The members that events with the same type, reason and source share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTopic {
    /// `type`: `Normal` or `Warning`.
    pub kind: Str,
    /// `reason`: one machine-readable word.
    pub reason: Str,
    /// `source.component`.
    pub component: Str,
    /// `source.host`.
    pub host: Str,
    /// `reportingComponent`.
    pub reporting_component: Str,
    /// `reportingInstance`.
    pub reporting_instance: Str,
}

/// A reference to the object that an event is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Regarding {
    /// An object of a known kind, with exactly the members of a full reference.
    Object(Arc<ObjectReference>),
    /// Any other reference, unchanged. Reading creates this variant only for a reference that
    /// [`Regarding::Object`] can't hold.
    Other(Rest),
}

impl Regarding {
    /// Returns the namespace in the reference; empty if there is none.
    pub fn namespace(&self) -> Cow<'_, str> {
        match self {
            Regarding::Object(object) => Cow::Borrowed(&object.namespace),
            Regarding::Other(members) => match members.get("namespace") {
                Some(Value::String(namespace)) => Cow::Owned(namespace),
                _ => Cow::Borrowed(""),
            },
        }
    }
}

/// A reference to an object of a known kind, at the version in the controller's cache. All events
/// of a sync share one reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReference {
    /// The kind of the object, which implies the API version.
    pub kind: Kind,
    /// The namespace of the object.
    pub namespace: Str,
    /// The name of the object.
    pub name: CompactString,
    /// The UID of the object.
    pub uid: Uid,
    /// The version of the object that the sync used.
    pub resource_version: ResourceVersion,
}

impl ObjectReference {
    /// Creates a reference to the object of this kind with this metadata.
    pub fn new(kind: Kind, metadata: &ObjectMeta) -> ObjectReference {
        ObjectReference {
            kind,
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
        }
    }
}
