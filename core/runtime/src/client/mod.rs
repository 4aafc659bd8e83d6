//! The layer between a sync and the API: requests and answers, retries after 429, and the event
//! recorder with its correlation. Does no I/O: a driver carries out the requests.

mod event_recorder;
mod event_sink;
mod events;
mod lru;
mod request;

pub use event_recorder::{EventRecorder, EventStamps};
pub use event_sink::{EVENT_QUEUE_MAX, EventSink, SinkStep};
pub use events::{EventIntent, EventMessage, EventType};
pub use podstorm_objects::{
    ApiError, Cause, DeleteOptions, EventPatch, EventWrite, ObjectReference, OwnerPatch,
    Propagation, Reason, Scale, WatchEvent,
};
pub use request::{Answer, DiscoveredKind, Discovery, FailedGroups, Patch, Request, Selection};
