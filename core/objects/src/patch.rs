//! The requests of controllers other than writes of whole objects: patches, Events, deletions.

use std::sync::Arc;

use compact_str::CompactString;
use serde_json::{Value, json};

use crate::{
    Event, EventTopic, ObjectMeta, ObjectReference, OwnerReference, Regarding, ResourceVersion,
    Str, Time, Uid,
};

/// A patch of an object's owner references.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnerPatch {
    /// Adds a controller reference. The server refuses the patch if the object has another UID.
    Adopt {
        /// The reference to add.
        owner: Arc<OwnerReference>,
        /// The UID that the object must have.
        uid: Uid,
    },
    /// Removes the reference with this UID.
    Release {
        /// The UID of the reference to remove.
        owner_uid: Uid,
        /// The UID that the object must have.
        uid: Uid,
    },
}

impl OwnerPatch {
    /// Returns the body of the strategic-merge `PATCH`.
    pub fn body(&self) -> Value {
        let (uid, reference) = match self {
            OwnerPatch::Adopt { owner, uid } => (uid, owner.to_json()),
            OwnerPatch::Release { owner_uid, uid } => {
                let gone = json!({"$patch": "delete", "uid": owner_uid.to_string()});
                (uid, gone)
            }
        };
        json!({"metadata": {"ownerReferences": [reference], "uid": uid.to_string()}})
    }
}

/// A request that writes an event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventWrite {
    /// `POST` of a new event.
    Create(Event),
    /// Strategic-merge `PATCH` of an event that was written before.
    Patch(EventPatch),
}

/// A repetition of an event that was written before.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPatch {
    /// The event's namespace.
    pub namespace: Str,
    /// The event's name.
    pub name: String,
    /// How often the event has occurred.
    pub count: i32,
    /// The message of the last occurrence.
    pub message: String,
    /// The time of the last occurrence.
    pub last_timestamp: Time,
    /// The members that a patch does not change.
    pub source: EventSource,
}

/// The members of an event that a patch does not change.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSource {
    /// The object that the event is about.
    pub regarding: Arc<ObjectReference>,
    /// The type, reason and reporter of the event.
    pub topic: Arc<EventTopic>,
    /// The time of the first occurrence.
    pub first_timestamp: Time,
}

impl EventPatch {
    /// Returns the patch's JSON: `count`, `lastTimestamp`, `message`.
    pub fn body(&self) -> Value {
        json!({
            "count": self.count,
            "lastTimestamp": self.last_timestamp.to_string(),
            "message": self.message,
        })
    }

    /// Returns the whole event, with the name, the count and the first time. It is created if the
    /// server answers the patch with 404 because it has deleted the event.
    pub fn to_event(&self) -> Event {
        let EventSource {
            regarding,
            topic,
            first_timestamp,
        } = &self.source;
        Event {
            metadata: ObjectMeta {
                name: CompactString::from(self.name.as_str()),
                namespace: Str::clone(&self.namespace),
                ..ObjectMeta::default()
            },
            regarding: Some(Regarding::Object(Arc::clone(regarding))),
            topic: Arc::clone(topic),
            message: self.message.as_str().into(),
            count: self.count,
            first_timestamp: *first_timestamp,
            last_timestamp: self.last_timestamp,
            rest: crate::Rest::NONE,
        }
    }
}

/// The propagation policy: what happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The dependents lose their reference before the object is removed.
    Orphan,
    /// The object is removed immediately, its dependents later.
    Background,
    /// The dependents that block the deletion are removed first.
    Foreground,
}

impl Propagation {
    /// Returns the value in `propagationPolicy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        }
    }
}

/// The options of a deletion. The default equals an empty request body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The number of seconds in which the object may end by itself; 0 deletes it immediately, and
    /// negative values count as 1. Absent means the default of the object.
    pub grace_period_seconds: Option<i64>,
    /// What happens to the dependents; absent means the default of the kind.
    pub propagation: Option<Propagation>,
    /// The UID that the object must have.
    pub precondition_uid: Option<Uid>,
    /// The version that the object must have.
    pub precondition_rv: Option<ResourceVersion>,
    /// The older form of `propagation`: true is `Orphan`.
    pub orphan_dependents: Option<bool>,
}

/// An `autoscaling/v1` `Scale`: the number of replicas of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The object's UID.
    pub uid: Uid,
    /// The object's version.
    pub resource_version: ResourceVersion,
    /// The creation time of the object.
    pub creation_timestamp: Time,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `status.replicas`.
    pub status_replicas: i32,
    /// `status.selector`.
    pub selector: String,
}
