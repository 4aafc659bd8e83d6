//! Watch events as a stream delivers them.

use std::sync::Arc;

use super::ApiError;
use crate::ResourceVersion;

/// One event of a watch.
#[derive(Clone, Debug)]
pub enum WatchEvent<T> {
    /// The object came to be (or into view).
    Added(Arc<T>),
    /// The object changed.
    Modified(Arc<T>),
    /// The object is gone; its last state carries the version of the deletion.
    Deleted(Arc<T>),
    /// Nothing but progress.
    Bookmark {
        /// Everything up to this version has been sent.
        version: ResourceVersion,
        /// Whether the events before it were the initial state, now complete.
        initial_events_end: bool,
    },
    /// The stream ends with this error, e.g. 410 Expired.
    Error(ApiError),
}
