//! Events and the segments that they are in.

use std::sync::Arc;

use crate::store::Strategy;
use crate::store::primitives::OnceLock;

/// Most events in a segment: 16 KiB of slots. Segments are dropped as a whole.
pub(crate) const SEGMENT_LEN: usize = if MODELLED { 2 } else { 512 };

/// A segment whose objects have that many bytes gets no more events: a 64th of what a server keeps.
pub(super) const SEGMENT_BYTES: usize = if MODELLED { 1 } else { 1 << 20 };

/// Whether a model checker runs.
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
    /// When it was committed, in monotonic time.
    pub(crate) commit_ns: i64,
}

impl<R: Strategy> Entry<R> {
    pub(crate) fn version(&self) -> u64 {
        version_of(&*self.object)
    }
}

/// The version of a stored object.
pub(crate) fn version_of<R: Strategy>(object: &R) -> u64 {
    object
        .metadata()
        .resource_version
        .number()
        .expect("the server's versions are numbers")
}

/// A run of events. Slots are filled in order, each once, under the log's lock.
pub(crate) struct Segment<R> {
    /// Counts segments from the first one of the log.
    pub(crate) number: u64,
    pub(crate) entries: Box<[OnceLock<Entry<R>>]>,
    /// For each event the object before, if there was one; empty unless older states are kept.
    pub(super) before: Box<[OnceLock<Arc<R>>]>,
}

impl<R> Segment<R> {
    /// The object before an event; `None` where there was none, or older states are not kept.
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
    /// Filled slots, at least one.
    pub(super) len: usize,
    /// Of the objects of its events, about; 0 where bytes have no limit.
    pub(super) bytes: usize,
    /// The version of its last event.
    pub(super) last_version: u64,
}
