//! The task that expires Events: each Event is deleted a fixed time after its last write, as
//! upstream's `--event-ttl` specifies.
//!
//! Source: `EventRESTStorage` and the TTL of its keys in Kubernetes' `pkg/registry/core/event`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_apiserver::{Cluster, DeleteOptions};
use podstorm_objects::{Event, Now, ObjectMeta, ResourceVersion, Str};

use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};

/// The maximum number of Events deleted in one run of the task.
const BATCH: usize = 1000;

/// The namespace and name of an Event.
type Key = (Str, CompactString);

/// Deletes a cluster's Events a fixed time after their last write. A write costs O(log n) in the
/// number of existing Events; Events that are not due cost nothing.
#[derive(Debug)]
pub(super) struct EventExpiryTask {
    cluster: Arc<Cluster>,
    events: ObjectStream<Event>,
    ttl_ns: i64,
    /// The monotonic time at which each Event is due, and the Event's version.
    due: BTreeMap<Key, (i64, ResourceVersion)>,
    /// The due time and the key of each entry of `due`, in this order.
    order: BTreeSet<(i64, Key)>,
    /// Whether the stream is delivering its initial state. Those Events may have been written long
    /// before.
    begins: bool,
}

impl EventExpiryTask {
    pub(super) fn new(cluster: Arc<Cluster>, ttl_ns: i64, waker: Waker) -> EventExpiryTask {
        EventExpiryTask {
            events: ObjectStream::new(Arc::clone(&cluster), waker),
            cluster,
            ttl_ns,
            due: BTreeMap::new(),
            order: BTreeSet::new(),
            begins: true,
        }
    }

    fn forget(&mut self, key: &Key) {
        if let Some((at_ns, _)) = self.due.remove(key) {
            self.order.remove(&(at_ns, key.clone()));
        }
    }

    /// Schedules the deletion of an Event whose last write was `age_ns` ago.
    fn place(&mut self, metadata: &ObjectMeta, age_ns: i64, now: Now) {
        let key = (metadata.namespace.clone(), metadata.name.clone());
        self.forget(&key);
        let at_ns = now.mono_ns.saturating_add(self.ttl_ns - age_ns);
        self.order.insert((at_ns, key.clone()));
        self.due
            .insert(key, (at_ns, metadata.resource_version.clone()));
    }

    /// Processes pending changes. Returns when the task must run again for more changes.
    fn hear(&mut self, now: Now) -> Next {
        let mut heard = Vec::new();
        let next = self.events.poll(now, |event| heard.push(event));
        for event in heard {
            match event {
                ObjectEvent::Reset => {
                    self.due.clear();
                    self.order.clear();
                    self.begins = true;
                }
                ObjectEvent::Added(event) => {
                    let age_ns = if self.begins { age_ns(&event, now) } else { 0 };
                    self.place(&event.metadata, age_ns.min(self.ttl_ns), now);
                }
                ObjectEvent::Modified(event) => self.place(&event.metadata, 0, now),
                ObjectEvent::Deleted(event) => {
                    let metadata = &event.metadata;
                    self.forget(&(metadata.namespace.clone(), metadata.name.clone()));
                }
            }
        }
        self.begins &= !self.events.is_drained();
        next
    }
}

/// Returns the time since the last write of a restored Event, according to its timestamps; 0 if it
/// has none.
fn age_ns(event: &Event, now: Now) -> i64 {
    let times = [event.last_timestamp, event.metadata.creation_timestamp];
    let last_ns = times
        .into_iter()
        .filter_map(podstorm_objects::Time::unix_nanos)
        .max();
    last_ns.map_or(0, |last_ns| now.wall_ns.saturating_sub(last_ns).max(0))
}

impl Task for EventExpiryTask {
    fn run(&mut self, now: Now) -> Next {
        let next = self.hear(now);
        for _ in 0..BATCH {
            match self.order.first() {
                Some((at_ns, _)) if *at_ns <= now.mono_ns => {}
                Some((at_ns, _)) => return next.or(Next::At(*at_ns)),
                None => return next,
            }
            let Some((_, key)) = self.order.pop_first() else {
                return next;
            };
            let Some((_, version)) = self.due.remove(&key) else {
                continue;
            };
            let options = DeleteOptions {
                precondition_rv: Some(version),
                ..DeleteOptions::default()
            };
            // Fails if the Event was written or deleted in the meantime. A watch event follows.
            let _ = self.cluster.delete::<Event>(&key.0, &key.1, &options, now);
        }
        Next::Again
    }
}
