//! Informers: list and watch one kind as the core's reflector says, and feed a controller's cache,
//! in order. One informer of pods feeds the shared pod cache and then tells every controller; each
//! controller has an informer of its own kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use podstorm::cache::{Delta, PodCache};
use podstorm::client::WatchEvent;
use podstorm::object::{Now, Pod, ReplicaSet, ReplicationController, ResourceVersion};
use podstorm::reflector::{Action, Delivery, Reflector, ReflectorOptions};

use super::executor::{Next, Part, Waker};
use super::worker::Pool;
use crate::cluster::{Cluster, ClusterResource, Poll, Watch, WatchFrom, WatchOptions};
use crate::settings::Latency;

/// Most events applied in one run.
const BATCH: usize = 4000;

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
    reflector: Reflector<L::Object>,
    random: fastrand::Rng,
    watch: Option<Watch<L::Object>>,
    synced: bool,
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
                ..WatchOptions::default()
            },
            started,
            reflector: Reflector::new(ReflectorOptions::default()),
            random: fastrand::Rng::with_seed(seed),
            watch: None,
            synced: false,
            events: Vec::new(),
            delivered,
        }
    }

    fn deliver(&mut self, delivery: Delivery<L::Object>, now: Now) {
        match delivery {
            Delivery::Applied(object) => self.listener.apply(Delta::Applied(object), now),
            Delivery::Deleted(object) => self.listener.apply(Delta::Deleted(object), now),
            Delivery::Bookmark(version) => self.listener.bookmark(&version),
            Delivery::Replace(objects, version) => {
                self.listener.replace(objects, &version, now);
                if !std::mem::replace(&mut self.synced, true) {
                    self.listener.synced();
                }
            }
        }
    }

    fn open(&mut self, version: &ResourceVersion, initial_events: bool, now: Now) {
        let from = match version.number() {
            Some(version) if !initial_events => WatchFrom::Version(version),
            _ => WatchFrom::Initial,
        };
        let opened = self.cluster.watch(from, self.options.clone());
        self.reflector.on_watch(opened.as_ref().map(|_| ()), now);
        self.watch = opened.ok();
    }

    /// Takes a batch of events; says whether there are more and when the next one can be seen.
    fn hear(&mut self, now: Now) -> Poll {
        let Some(watch) = &mut self.watch else {
            return Poll::default();
        };
        let mut events = std::mem::take(&mut self.events);
        let poll = watch.poll(BATCH, now, &mut events);
        // Relaxed: a statistic, read when the run is over.
        self.delivered
            .fetch_add(events.len() as u64, Ordering::Relaxed);
        for event in events.drain(..) {
            if matches!(event, WatchEvent::Error(_)) {
                self.watch = None;
            }
            if let Some(delivery) = self.reflector.on_event(event, now) {
                self.deliver(delivery, now);
            }
        }
        self.events = events;
        self.listener.batch_over(now);
        poll
    }
}

impl<L: Listener> Part for Informer<L> {
    fn run(&mut self, now: Now) -> Next {
        // Acquire: what the scenario wrote before it started the controller is there.
        if !self.started.load(Ordering::Acquire) {
            return Next::Idle;
        }
        loop {
            match self.reflector.next(now, self.random.f64()) {
                Action::Wait { until_ns } => return Next::At(until_ns),
                Action::List { .. } => {
                    // The embedded server lists its newest state whatever version is asked for.
                    let listed = self.cluster.list(None);
                    if let Some(delivery) = self.reflector.on_list(Ok(listed), now) {
                        self.deliver(delivery, now);
                        self.listener.batch_over(now);
                    }
                }
                Action::Watch {
                    version,
                    initial_events,
                    ..
                } => self.open(&version, initial_events, now),
                Action::Busy => {
                    let poll = self.hear(now);
                    return match poll.next_visible_ns {
                        _ if poll.more || self.watch.is_none() => Next::Again,
                        Some(at_ns) => Next::At(at_ns),
                        None => Next::Idle,
                    };
                }
            }
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
        let listed = self.cache.replace(objects, version);
        for pool in &self.pools {
            pool.controller.pods_listed(&listed, now);
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
