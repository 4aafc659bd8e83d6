//! Events and the segments that contain them.

use std::sync::Arc;

use crate::store::Strategy;
use crate::store::primitives::OnceLock;

/// The maximum number of events in a segment: 16 KiB of slots. A segment is dropped as a whole.
pub(crate) const SEGMENT_LEN: usize = if MODELLED { 2 } else { 512 };

/// The size of its objects at which a segment gets no more events: a 64th of what a server keeps.
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

/// A run of events. Slots are filled in order, each once, under the log's lock.
pub(crate) struct Segment<R> {
    /// The position among all segments of the log, counted from 0.
    pub(crate) number: u64,
    pub(crate) entries: Box<[OnceLock<Entry<R>>]>,
    /// The previous object of each event, if it had one. Empty unless older states are kept.
    pub(super) before: Box<[OnceLock<Arc<R>>]>,
}

impl<R> Segment<R> {
    /// Returns the previous object of an event; `None` if it had none or older states are not kept.
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

/// A full segment.
pub(super) struct Closed<R> {
    pub(super) segment: Arc<Segment<R>>,
    /// The number of filled slots, at least one.
    pub(super) len: usize,
    /// The approximate size of its events' objects; 0 if bytes have no limit.
    pub(super) bytes: usize,
    /// The version of its last event.
    pub(super) last_version: u64,
}
