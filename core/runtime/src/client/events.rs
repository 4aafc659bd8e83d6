//! Events about parents: what a sync wants to say, and the API calls it may lead to.
//!
//! An [`EventIntent`] goes to the recorder (`event_recorder.rs`), an [`EventWrite`] comes out of
//! it, or nothing.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use serde_json::{Value, json};

use podstorm_objects::{Event, EventTopic, ObjectMeta, ObjectReference, Regarding, Str, Time};

/// `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something went as it should.
    Normal,
    /// Something did not.
    Warning,
}

impl EventType {
    /// The text in the event.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// The message of an event; its text is made only when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// `Created pod: <name>`.
    CreatedPod(CompactString),
    /// `Deleted pod: <name>`.
    DeletedPod(CompactString),
    /// Any text.
    Text(Box<str>),
}

impl EventMessage {
    /// The text in two parts.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            EventMessage::CreatedPod(name) => ("Created pod: ", name),
            EventMessage::DeletedPod(name) => ("Deleted pod: ", name),
            EventMessage::Text(text) => ("", text),
        }
    }
}

impl fmt::Display for EventMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, rest) = self.parts();
        f.write_str(start)?;
        f.write_str(rest)
    }
}

/// Something a sync wants to say about its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIntent {
    /// What it is about.
    pub regarding: Arc<ObjectReference>,
    /// Whether it is good news.
    pub kind: EventType,
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: EventMessage,
}

impl EventIntent {
    /// A pod was created.
    #[inline]
    pub fn created_pod(regarding: &Arc<ObjectReference>, pod: &CompactString) -> EventIntent {
        let message = EventMessage::CreatedPod(pod.clone());
        EventIntent::new(regarding, EventType::Normal, "SuccessfulCreate", message)
    }

    /// A pod's deletion was accepted.
    #[inline]
    pub fn deleted_pod(regarding: &Arc<ObjectReference>, pod: &CompactString) -> EventIntent {
        let message = EventMessage::DeletedPod(pod.clone());
        EventIntent::new(regarding, EventType::Normal, "SuccessfulDelete", message)
    }

    /// A pod could not be created: `Error creating: <error>`.
    pub fn failed_create(
        regarding: &Arc<ObjectReference>,
        error: &dyn fmt::Display,
    ) -> EventIntent {
        let message = EventMessage::Text(format!("Error creating: {error}").into());
        EventIntent::new(regarding, EventType::Warning, "FailedCreate", message)
    }

    /// A pod could not be deleted: `Error deleting: <error>`.
    pub fn failed_delete(
        regarding: &Arc<ObjectReference>,
        error: &dyn fmt::Display,
    ) -> EventIntent {
        let message = EventMessage::Text(format!("Error deleting: {error}").into());
        EventIntent::new(regarding, EventType::Warning, "FailedDelete", message)
    }

    fn new(
        regarding: &Arc<ObjectReference>,
        kind: EventType,
        reason: &'static str,
        message: EventMessage,
    ) -> EventIntent {
        EventIntent {
            regarding: Arc::clone(regarding),
            kind,
            reason,
            message,
        }
    }
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
    pub(super) source: Source,
}

/// What an event has beside the members that a patch changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    pub(super) regarding: Arc<ObjectReference>,
    pub(super) topic: Arc<EventTopic>,
    pub(super) first_timestamp: Time,
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
        let Source {
            regarding,
            topic,
            first_timestamp,
        } = &self.source;
        Event {
            metadata: ObjectMeta {
                name: CompactString::from(self.name.as_str()),
                namespace: Arc::clone(&self.namespace).into(),
                ..ObjectMeta::default()
            },
            regarding: Some(Regarding::Object(Arc::clone(regarding))),
            topic: Arc::clone(topic),
            message: self.message.as_str().into(),
            count: self.count,
            first_timestamp: *first_timestamp,
            last_timestamp: self.last_timestamp,
            rest: None,
        }
    }
}
