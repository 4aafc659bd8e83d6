//! Informers: list and watch one kind and feed a controller's cache, in order, in batches of up to
//! 1000. One informer of pods feeds the shared pod cache and then tells every controller; each
//! controller has an informer of its own kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use podstorm::cache::{Delta, PodCache};
use podstorm::client::WatchEvent;
use podstorm::object::{Now, Pod, ReplicaSet, ReplicationController, ResourceVersion};

use super::executor::{Next, Part, Waker};
use super::worker::Pool;
use crate::cluster::{Cluster, ClusterResource, Watch, WatchFrom, WatchOptions};
use crate::settings::Latency;

/// Most events applied in one run, as upstream's informers batch them.
const BATCH: usize = 4000;

/// Before a new list after a watch that the server ended: upstream's shortest back-off, ns.
const RELIST_NS: i64 = 800_000_000;

/// What an informer does with what it hears.
pub(super) trait Listener: Send {
    /// The kind that is watched.
    type Object: ClusterResource;

    /// One object came, changed or went.
    fn apply(&mut self, delta: Delta<Self::Object>, now: Now);

    /// These objects are all there are.
    fn replace(&mut self, objects: Vec<Arc<Self::Object>>, version: &ResourceVersion, now: Now);

    /// Nothing happened up to that version.
    fn bookmark(&mut self, version: &ResourceVersion);

    /// The first `replace` is through: the cache is full.
    fn synced(&mut self);

    /// A batch is over: wake whoever has work now.
    fn batch_over(&mut self, now: Now);
}

/// One informer.
pub(super) struct Informer<L: Listener> {
    cluster: Arc<Cluster>,
    listener: L,
    options: WatchOptions,
    /// Whether the controller runs yet; it is started by the scenario.
    started: Arc<AtomicBool>,
    watch: Option<Watch<L::Object>>,
    /// The initial state while it comes in.
    initial: Option<Vec<Arc<L::Object>>>,
    synced: bool,
    not_before_ns: i64,
    events: Vec<WatchEvent<L::Object>>,
    delivered: Arc<AtomicU64>,
}

impl<L: Listener> Informer<L> {
    /// An informer that begins once `started` is set and its waker called; counts what it hears in
    /// `delivered`.
    pub(super) fn new(
        cluster: Arc<Cluster>,
        listener: L,
        (latency, seed): (Latency, u64),
        waker: Waker,
        started: Arc<AtomicBool>,
        delivered: Arc<AtomicU64>,
    ) -> Self {
        Informer {
            cluster,
            listener,
            options: WatchOptions {
                latency,
                seed,
                waker: Some(waker),
            },
            started,
            watch: None,
            initial: None,
            synced: false,
            not_before_ns: i64::MIN,
            events: Vec::new(),
            delivered,
        }
    }

    fn hear(&mut self, event: WatchEvent<L::Object>, now: Now) {
        match (event, &mut self.initial) {
            (WatchEvent::Added(object), Some(initial)) => initial.push(object),
            (
                WatchEvent::Bookmark {
                    version,
                    initial_events_end: true,
                },
                initial,
            ) => {
                let objects = initial.take().unwrap_or_default();
                self.listener.replace(objects, &version, now);
                if !std::mem::replace(&mut self.synced, true) {
                    self.listener.synced();
                }
            }
            (WatchEvent::Bookmark { version, .. }, _) => self.listener.bookmark(&version),
            (WatchEvent::Added(object) | WatchEvent::Modified(object), _) => {
                self.listener.apply(Delta::Applied(object), now);
            }
            (WatchEvent::Deleted(object), _) => self.listener.apply(Delta::Deleted(object), now),
            (WatchEvent::Error(_), _) => {
                self.watch = None;
                self.not_before_ns = now.mono_ns.saturating_add(RELIST_NS);
            }
        }
    }
}

impl<L: Listener> Part for Informer<L> {
    fn run(&mut self, now: Now) -> Next {
        // Acquire: what the scenario wrote before it started the controller is there.
        if !self.started.load(Ordering::Acquire) {
            return Next::Idle;
        }
        if now.mono_ns < self.not_before_ns {
            return Next::At(self.not_before_ns);
        }
        let watch = match &mut self.watch {
            Some(watch) => watch,
            closed => match self.cluster.watch(WatchFrom::Initial, self.options.clone()) {
                Ok(watch) => {
                    self.initial = Some(Vec::new());
                    closed.insert(watch)
                }
                Err(_) => {
                    self.not_before_ns = now.mono_ns.saturating_add(RELIST_NS);
                    return Next::At(self.not_before_ns);
                }
            },
        };
        let mut events = std::mem::take(&mut self.events);
        let poll = watch.poll(BATCH, now, &mut events);
        // Relaxed: a statistic, read when the run is over.
        self.delivered
            .fetch_add(events.len() as u64, Ordering::Relaxed);
        for event in events.drain(..) {
            self.hear(event, now);
        }
        self.events = events;
        self.listener.batch_over(now);
        match poll.next_visible_ns {
            _ if self.watch.is_none() => Next::At(self.not_before_ns),
            _ if poll.more => Next::Again,
            Some(at_ns) => Next::At(at_ns),
            None => Next::Idle,
        }
    }
}

/// Pods: into the shared cache, then to every controller.
pub(super) struct Pods {
    pub(super) cache: Arc<PodCache>,
    pub(super) pools: Vec<Arc<Pool>>,
}

impl Listener for Pods {
    type Object = Pod;

    fn apply(&mut self, delta: Delta<Pod>, now: Now) {
        let change = self.cache.apply(delta);
        for pool in &self.pools {
            pool.controller.pod_changed(&change, now);
        }
    }

    fn replace(&mut self, objects: Vec<Arc<Pod>>, version: &ResourceVersion, now: Now) {
        for change in self.cache.replace(objects, version) {
            for pool in &self.pools {
                pool.controller.pod_changed(&change, now);
            }
        }
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.cache.bookmark(version);
    }

    fn synced(&mut self) {
        self.pools.iter().for_each(|pool| pool.informer_synced());
    }

    fn batch_over(&mut self, now: Now) {
        for pool in &self.pools {
            pool.keys_added(now);
        }
    }
}

/// ReplicaSets: to their controller.
pub(super) struct ReplicaSets(pub(super) Arc<Pool>);

impl Listener for ReplicaSets {
    type Object = ReplicaSet;

    fn apply(&mut self, delta: Delta<ReplicaSet>, now: Now) {
        self.0.controller.parent_delta(delta, now);
    }

    fn replace(&mut self, objects: Vec<Arc<ReplicaSet>>, version: &ResourceVersion, now: Now) {
        self.0.controller.parent_replace(objects, version, now);
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.0.controller.parent_bookmark(version);
    }

    fn synced(&mut self) {
        self.0.informer_synced();
    }

    fn batch_over(&mut self, now: Now) {
        self.0.keys_added(now);
    }
}

/// ReplicationControllers: to their controller, in the shape of ReplicaSets.
pub(super) struct ReplicationControllers(pub(super) Arc<Pool>);

impl Listener for ReplicationControllers {
    type Object = ReplicationController;

    fn apply(&mut self, delta: Delta<ReplicationController>, now: Now) {
        let delta = match delta {
            Delta::Applied(object) => Delta::Applied(Arc::new(object.to_replica_set())),
            Delta::Deleted(object) => Delta::Deleted(Arc::new(object.to_replica_set())),
        };
        self.0.controller.parent_delta(delta, now);
    }

    fn replace(
        &mut self,
        objects: Vec<Arc<ReplicationController>>,
        version: &ResourceVersion,
        now: Now,
    ) {
        let objects = objects
            .iter()
            .map(|object| Arc::new(object.to_replica_set()))
            .collect();
        self.0.controller.parent_replace(objects, version, now);
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.0.controller.parent_bookmark(version);
    }

    fn synced(&mut self) {
        self.0.informer_synced();
    }

    fn batch_over(&mut self, now: Now) {
        self.0.keys_added(now);
    }
}
