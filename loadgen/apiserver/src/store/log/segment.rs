//! Events and the segments that contain them.

use std::sync::Arc;

use crate::store::Strategy;
use crate::store::primitives::OnceLock;

/// The maximum number of events in a segment: 16 KiB of slots. A segment is dropped as a whole.
pub(crate) const SEGMENT_LEN: usize = if MODELLED { 2 } else { 512 };

/// The total size of objects at which a segment is closed: 1/64 of the limit in `History::SERVED`.
pub(super) const SEGMENT_BYTES: usize = if MODELLED { 1 } else { 1 << 20 };

/// Whether a model checker runs the code.
const MODELLED: bool = cfg!(any(feature = "loom", feature = "shuttle"));

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was removed.
    Deleted,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Entry<R> {
    pub(crate) change: Change,
    pub(crate) object: Arc<R>,
    /// The time of the commit, in monotonic nanoseconds.
    pub(crate) commit_ns: i64,
}

impl<R: Strategy> Entry<R> {
    pub(crate) fn version(&self) -> u64 {
        version_of(&*self.object)
    }
}

/// Returns the version of a stored object.
pub(crate) fn version_of<R: Strategy>(object: &R) -> u64 {
    object
        .metadata()
        .resource_version
        .number()
        .expect("the server assigns numeric versions")
}

/// Consecutive events. The slots are filled in order, each once, under the log's lock.
pub(crate) struct Segment<R> {
    /// The number of the segment in the log, counted from 0.
    pub(crate) number: u64,
    pub(crate) entries: Box<[OnceLock<Entry<R>>]>,
    /// The object before each event, if it existed. Empty unless the log keeps earlier states.
    pub(super) before: Box<[OnceLock<Arc<R>>]>,
}

impl<R> Segment<R> {
    /// Returns the object before an event; `None` if it did not exist or earlier states are not
    /// kept.
    pub(crate) fn before(&self, index: usize) -> Option<Arc<R>> {
        self.before.get(index)?.get().cloned()
    }

    pub(super) fn new(number: u64, keeps_past: bool) -> Arc<Segment<R>> {
        let entries = (0..SEGMENT_LEN).map(|_| OnceLock::new()).collect();
        let kept = if keeps_past { SEGMENT_LEN } else { 0 };
        let before = (0..kept).map(|_| OnceLock::new()).collect();
        Arc::new(Segment {
            number,
            entries,
            before,
        })
    }
}

/// A segment that gets no more events.
pub(super) struct Closed<R> {
    pub(super) segment: Arc<Segment<R>>,
    /// The number of filled slots, at least one.
    pub(super) len: usize,
    /// The approximate total size of the segment's objects; 0 if the log has no limit in bytes.
    pub(super) bytes: usize,
    /// The version of the segment's last event.
    pub(super) last_version: u64,
}
