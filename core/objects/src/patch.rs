//! The changes that controllers ask for besides whole objects.

use std::sync::Arc;

use compact_str::CompactString;
use serde_json::{Value, json};

use crate::{
    Event, EventTopic, ObjectMeta, ObjectReference, OwnerReference, Regarding, Str, Time, Uid,
};

/// A change of a pod's owner references.
#[derive(Clone, Debug, PartialEq)]
pub enum PodPatch {
    /// Adds the controller reference; refused by the server when the UID isn't the pod's.
    Adopt {
        /// The reference to add.
        owner: Arc<OwnerReference>,
        /// The UID the pod must have.
        pod_uid: Uid,
    },
    /// Removes the reference with that UID.
    Release {
        /// UID of the reference to remove.
        owner_uid: Uid,
        /// The UID the pod must have.
        pod_uid: Uid,
    },
}

/// An API call that an intent leads to.
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
    /// How often it has happened by now.
    pub count: i32,
    /// The newest message.
    pub message: String,
    /// When it happened last.
    pub last_timestamp: Time,
    /// What the event has beside that.
    pub source: EventSource,
}

/// What an event has beside the members that a patch changes.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSource {
    /// What it is about.
    pub regarding: Arc<ObjectReference>,
    /// Type, reason and reporter.
    pub topic: Arc<EventTopic>,
    /// When it happened first.
    pub first_timestamp: Time,
}

impl EventPatch {
    /// The patch's JSON: `count`, `lastTimestamp`, `message`.
    pub fn body(&self) -> Value {
        json!({
            "count": self.count,
            "lastTimestamp": self.last_timestamp.to_string(),
            "message": self.message,
        })
    }

    /// The whole event, to create when the patch was answered with 404: the server has forgotten
    /// it. It keeps its name, its count and its first time.
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
