//! List and watch for tasks that are not under test (scheduler, kubelets, the scenario): a stream
//! of changes that restarts when the server ends the watch.

use std::sync::Arc;

use podstorm::client::WatchEvent;
use podstorm_apiserver::{Cluster, ClusterResource, Watch, WatchFrom, WatchOptions};
use podstorm_objects::Now;

use super::{Next, Waker};

/// The maximum number of events taken in one poll.
pub const BATCH: usize = 4000;

/// An event of a stream.
#[derive(Clone, Debug)]
pub enum ObjectEvent<R> {
    /// The stream restarts: the existing objects follow as `Added`.
    Reset,
    /// The object was created, or existed when the stream began.
    Added(Arc<R>),
    /// The object changed.
    Modified(Arc<R>),
    /// The object was deleted.
    Deleted(Arc<R>),
}

/// A stream of all objects of a kind, opened at the first poll.
pub struct ObjectStream<R: ClusterResource> {
    cluster: Arc<Cluster>,
    waker: Waker,
    watch: Option<Watch<R>>,
    events: Vec<WatchEvent<R>>,
    drained: bool,
}

impl<R: ClusterResource> std::fmt::Debug for ObjectStream<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStream")
            .field("open", &self.watch.is_some())
            .finish_non_exhaustive()
    }
}

impl<R: ClusterResource> ObjectStream<R> {
    /// Returns a stream without latency. `waker` is called when new events follow after the stream
    /// was drained.
    pub fn new(cluster: Arc<Cluster>, waker: Waker) -> Self {
        ObjectStream {
            cluster,
            waker,
            watch: None,
            events: Vec::new(),
            drained: false,
        }
    }

    /// Reports whether the last poll took every available event.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Passes up to [`BATCH`] events to `see`, in order, and returns the time of the next poll.
    #[inline]
    pub fn poll(&mut self, now: Now, mut see: impl FnMut(ObjectEvent<R>)) -> Next {
        let watch = match &mut self.watch {
            Some(watch) => watch,
            closed => {
                let options = WatchOptions {
                    waker: Some(Arc::clone(&self.waker)),
                    ..WatchOptions::default()
                };
                // A watch from the current state does not name a version, so the server can't
                // reject it.
                let Ok(watch) = self.cluster.watch::<R>(WatchFrom::Initial, options) else {
                    return Next::At(now.mono_ns + 1_000_000_000);
                };
                see(ObjectEvent::Reset);
                closed.insert(watch)
            }
        };
        let poll = watch.poll(BATCH, now, &mut self.events);
        self.drained = !poll.more;
        let mut ended = false;
        for event in self.events.drain(..) {
            match event {
                WatchEvent::Added(object) => see(ObjectEvent::Added(object)),
                WatchEvent::Modified(object) => see(ObjectEvent::Modified(object)),
                WatchEvent::Deleted(object) => see(ObjectEvent::Deleted(object)),
                WatchEvent::Bookmark { .. } => {}
                WatchEvent::Error(_) => ended = true,
            }
        }
        if ended {
            self.watch = None;
            self.drained = false;
            return Next::Again;
        }
        match poll.next_visible_ns {
            _ if poll.more => Next::Again,
            Some(at_ns) => Next::At(at_ns),
            None => Next::Idle,
        }
    }
}
