//! The events of watches.

use std::sync::Arc;

use crate::{ApiError, Object, ResourceVersion};

/// One event of a watch.
#[derive(Debug)]
pub enum WatchEvent<T: ?Sized> {
    /// The object was created, or now matches the watch.
    Added(Arc<T>),
    /// The object changed.
    Modified(Arc<T>),
    /// The object was deleted. Its last state has the version of the deletion.
    Deleted(Arc<T>),
    /// A bookmark: the watch has made progress, but no object has changed.
    Bookmark {
        /// The version up to which all events have been sent.
        version: ResourceVersion,
        /// Whether the preceding events were the initial state, which is now complete.
        initial_events_end: bool,
    },
    /// The error with which the stream ends, e.g. 410 Expired.
    Error(ApiError),
}

impl<T: ?Sized> Clone for WatchEvent<T> {
    fn clone(&self) -> Self {
        match self {
            WatchEvent::Added(object) => WatchEvent::Added(object.clone()),
            WatchEvent::Modified(object) => WatchEvent::Modified(object.clone()),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(object.clone()),
            WatchEvent::Bookmark {
                version,
                initial_events_end,
            } => WatchEvent::Bookmark {
                version: version.clone(),
                initial_events_end: *initial_events_end,
            },
            WatchEvent::Error(error) => WatchEvent::Error(error.clone()),
        }
    }
}

impl<T: Object> WatchEvent<T> {
    /// Returns the event with its object's type erased.
    pub fn erased(self) -> WatchEvent<dyn Object> {
        match self {
            WatchEvent::Added(object) => WatchEvent::Added(object),
            WatchEvent::Modified(object) => WatchEvent::Modified(object),
            WatchEvent::Deleted(object) => WatchEvent::Deleted(object),
            WatchEvent::Bookmark {
                version,
                initial_events_end,
            } => WatchEvent::Bookmark {
                version,
                initial_events_end,
            },
            WatchEvent::Error(error) => WatchEvent::Error(error),
        }
    }
}
