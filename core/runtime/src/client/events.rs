//! Events about owners: the intents that a sync records, and the API calls that result from them.
//!
//! An [`EventIntent`] goes to the recorder (`event_recorder.rs`), which returns an
//! [`EventWrite`](podstorm_objects::EventWrite) or nothing.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::ObjectReference;

/// The type of an event, as in its member `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The event reports a success.
    Normal,
    /// The event reports a failure.
    Warning,
}

impl EventType {
    /// Returns the value of the member `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// The message of an event. The full string is built only when it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventMessage {
    /// `Created pod: <name>`.
    CreatedPod(CompactString),
    /// `Deleted pod: <name>`.
    DeletedPod(CompactString),
    /// Any other message.
    Text(Box<str>),
}

impl EventMessage {
    /// Returns the message in two parts: a prefix and the rest.
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

/// An event that a sync wants to record about its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventIntent {
    /// The object that the event is about.
    pub regarding: Arc<ObjectReference>,
    /// The type of the event.
    pub kind: EventType,
    /// One machine-readable word.
    pub reason: &'static str,
    /// A human-readable sentence.
    pub message: EventMessage,
}

impl EventIntent {
    /// Returns the event that reports a created pod.
    #[inline]
    pub fn created_pod(regarding: &Arc<ObjectReference>, pod: &CompactString) -> EventIntent {
        let message = EventMessage::CreatedPod(pod.clone());
        EventIntent::new(regarding, EventType::Normal, "SuccessfulCreate", message)
    }

    /// Returns the event that reports a pod whose deletion was accepted.
    #[inline]
    pub fn deleted_pod(regarding: &Arc<ObjectReference>, pod: &CompactString) -> EventIntent {
        let message = EventMessage::DeletedPod(pod.clone());
        EventIntent::new(regarding, EventType::Normal, "SuccessfulDelete", message)
    }

    /// Returns the event that reports a failed create: `Error creating: <error>`.
    pub fn failed_create(
        regarding: &Arc<ObjectReference>,
        error: &dyn fmt::Display,
    ) -> EventIntent {
        let message = EventMessage::Text(format!("Error creating: {error}").into());
        EventIntent::new(regarding, EventType::Warning, "FailedCreate", message)
    }

    /// Returns the event that reports a failed delete: `Error deleting: <error>`.
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
