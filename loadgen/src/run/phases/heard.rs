//! The objects of one kind of workload, observed through a watch that restarts by itself when the
//! server ends it. A restarted watch repeats all existing objects. An object that was removed in
//! between remains known, as unconverged, so a run never misses the loss of one.

use std::sync::Arc;

use podstorm::client::WatchEvent;
use podstorm_apiserver::{AnyWatch, Cluster, WatchFrom, WatchOptions};
use podstorm_objects::{AnyObject, Now, Object};
use podstorm_sim::executor::stream::BATCH;
use podstorm_sim::executor::{Next, Waker};

use crate::units::NS_PER_SECOND;
use crate::workloads::Workload;

/// A watch for the objects of a workload kind. It is opened at the first poll.
pub(super) struct Heard {
    pub(super) workload: Workload,
    cluster: Arc<Cluster>,
    waker: Waker,
    watch: Option<AnyWatch>,
    events: Vec<WatchEvent<dyn Object>>,
    drained: bool,
}

impl Heard {
    /// Creates the watch. `waker` is called when there are new events after the watch was drained.
    pub(super) fn new(workload: Workload, cluster: Arc<Cluster>, waker: Waker) -> Heard {
        Heard {
            workload,
            cluster,
            waker,
            watch: None,
            events: Vec::new(),
            drained: false,
        }
    }

    /// Reports whether the last poll has taken all available events.
    pub(super) fn is_drained(&self) -> bool {
        self.drained
    }

    /// Passes up to [`BATCH`] objects to `see`, in order, each with whether it was deleted. Returns
    /// when to poll again.
    pub(super) fn poll(&mut self, now: Now, mut see: impl FnMut(&AnyObject, bool)) -> Next {
        if self.watch.is_none() {
            let options = WatchOptions {
                waker: Some(Arc::clone(&self.waker)),
                ..WatchOptions::default()
            };
            let api = self.cluster.api(self.workload.kind());
            self.watch = api.watch(WatchFrom::Initial, options).ok();
        }
        let Some(watch) = &mut self.watch else {
            return Next::At(now.mono_ns + NS_PER_SECOND);
        };
        let poll = watch.poll(BATCH, now, &mut self.events);
        self.drained = !poll.more;
        for event in self.events.drain(..) {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => see(&object, false),
                WatchEvent::Deleted(object) => see(&object, true),
                WatchEvent::Bookmark { .. } => {}
                // The watch restarts at the next poll.
                WatchEvent::Error(_) => (self.watch, self.drained) = (None, false),
            }
        }
        match poll.next_visible_ns {
            _ if !self.drained => Next::Again,
            Some(at_ns) => Next::At(at_ns),
            None => Next::Idle,
        }
    }
}
