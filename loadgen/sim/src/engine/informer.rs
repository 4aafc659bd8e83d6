//! Informers: list and watch one kind as the core's reflector says, and feed a controller's cache,
//! in order. One informer of pods feeds the shared pod cache and then tells every controller; each
//! controller has an informer of its own kind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{ApiError, WatchEvent};
use podstorm::reflector::{Action, Delivery, Reflector, ReflectorOptions};
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, ClusterResource, Poll, Watch, WatchFrom, WatchOptions, errors};
use podstorm_objects::{Now, Pod, ReplicaSet, ReplicationController, ResourceVersion};

use super::pool::Pool;
use crate::executor::{Next, Part, Waker};
use crate::faults::watching::Listen;
use crate::faults::{ApiFault, CrashPoint, Line, StreamEnd, StreamKind};

/// Most events applied in one run.
const BATCH: usize = 4000;

/// What an informer does with what it hears.
pub(super) trait Listener: Send {
    /// The kind that is watched.
    type Object: ClusterResource;

    /// Which of a controller's watches this is.
    const STREAM: StreamKind;

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

/// The objects of a list, with its version.
type Listed<R> = Result<(Vec<Arc<R>>, ResourceVersion), ApiError>;

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
    /// In a disturbed run, with the last events heard.
    line: Option<Arc<Line>>,
    kept: VecDeque<WatchEvent<L::Object>>,
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
        (line, reflector): (Option<Arc<Line>>, ReflectorOptions),
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
            reflector: Reflector::new(reflector),
            random: fastrand::Rng::with_seed(seed),
            watch: None,
            synced: false,
            events: Vec::new(),
            delivered,
            line,
            kept: VecDeque::new(),
        }
    }

    fn deliver(&mut self, delivery: Delivery<L::Object>, now: Now) {
        match delivery {
            Delivery::Applied(object) => self.listener.apply(Delta::Applied(object), now),
            Delivery::Deleted(object) => self.listener.apply(Delta::Deleted(object), now),
            Delivery::Bookmark(version) => self.listener.bookmark(&version),
            Delivery::Replace(objects, version) => {
                if let Some(line) = &self.line {
                    line.listed(L::STREAM);
                }
                self.listener.replace(objects, &version, now);
                if !std::mem::replace(&mut self.synced, true) {
                    self.listener.synced();
                }
            }
        }
    }

    fn open(&mut self, version: &ResourceVersion, initial_events: bool, now: Now) {
        if let Some(error) = self.refused() {
            return self.reflector.on_watch(Err(&error), now);
        }
        let from = match version.number() {
            Some(version) if !initial_events => WatchFrom::Version(version),
            // The state since any version that is not older: a lagging server's may do.
            Some(oldest) => match self.lagging_version(now) {
                Some(version) if version < oldest => {
                    let error = errors::version_too_large(oldest, version);
                    return self.reflector.on_watch(Err(&error), now);
                }
                Some(version) => WatchFrom::InitialAsOf(version),
                None => WatchFrom::Initial,
            },
            // The newest state: a server that lags waits until it has caught up.
            None => {
                self.lagging_version(now);
                WatchFrom::Initial
            }
        };
        let opened = self.cluster.watch(from, self.options.clone());
        self.reflector.on_watch(opened.as_ref().map(|_| ()), now);
        if let (Some(line), Ok(_)) = (&self.line, &opened) {
            line.opened(L::STREAM, initial_events);
        }
        self.watch = opened.ok();
        self.kept.clear();
    }

    /// The error that a request of this informer is answered with, in a disturbed run.
    fn refused(&self) -> Option<ApiError> {
        let fault = self.line.as_ref()?.opening(L::STREAM);
        fault.map(ApiFault::error)
    }

    fn list(&mut self, version: &ResourceVersion, now: Now) {
        let delivery = match self.refused() {
            Some(error) => self.reflector.on_list(Err(&error), now),
            None => match self.list_from(version, now) {
                Ok(listed) => self.reflector.on_list(Ok(listed), now),
                Err(error) => self.reflector.on_list(Err(&error), now),
            },
        };
        if let Some(delivery) = delivery {
            self.deliver(delivery, now);
            self.listener.batch_over(now);
        }
    }

    /// The list that a server answers with: the newest state whatever version is asked for, but in
    /// a disturbed run one that lags.
    fn list_from(&self, version: &ResourceVersion, now: Now) -> Listed<L::Object> {
        match (self.lagging_version(now), version.number()) {
            // The newest state was asked for.
            (Some(_), None) if version.is_unset() => {}
            (Some(lagging), Some(oldest)) if lagging < oldest => {
                return Err(errors::version_too_large(oldest, lagging));
            }
            (Some(lagging), _) => return self.cluster.list_as_of(None, lagging),
            (None, _) => {}
        }
        Ok(self.cluster.list(None))
    }

    /// The version that the server is at which serves the next list or initial watch, if it lags.
    fn lagging_version(&self, now: Now) -> Option<u64> {
        let line = self.line.as_ref()?;
        let lag = line.take_lag(L::STREAM, now)?;
        let version = self.cluster.resource_version().saturating_sub(lag);
        line.lagged(
            L::STREAM,
            version < self.cluster.last_version::<L::Object>(),
        );
        Some(version)
    }

    /// Takes a batch of events; says whether there are more and when the next one can be seen.
    fn hear(&mut self, now: Now) -> Poll {
        let Some(watch) = &mut self.watch else {
            return Poll::default();
        };
        let mut events = std::mem::take(&mut self.events);
        let poll = watch.poll(BATCH, now, &mut events);
        if let Some(line) = &self.line {
            line.disturb(L::STREAM, &mut events, &mut self.kept);
        }
        // Relaxed: a statistic, read when the run is over.
        self.delivered
            .fetch_add(events.len() as u64, Ordering::Relaxed);
        for event in events.drain(..) {
            if matches!(event, WatchEvent::Error(_)) {
                self.watch = None;
            }
            if let Some(delivery) = self.reflector.on_event(event, now) {
                self.deliver(delivery, now);
                if let Some(line) = &self.line
                    && line.passes(CrashPoint::AfterEvent)
                {
                    break;
                }
            }
        }
        events.clear();
        self.events = events;
        self.listener.batch_over(now);
        poll
    }

    /// The watch ends.
    fn end(&mut self, end: StreamEnd, now: Now) {
        let was_open = self.watch.take().is_some();
        if let Some(line) = &self.line {
            line.ended(L::STREAM, was_open);
        }
        if !was_open {
            return;
        }
        let error = match end {
            StreamEnd::Closed | StreamEnd::ClosedAndExpired => {
                return self.reflector.on_closed(now);
            }
            StreamEnd::Expired => ApiFault::Gone.error(),
            StreamEnd::InternalError => ApiFault::InternalError.error(),
        };
        if let Some(delivery) = self.reflector.on_event(WatchEvent::Error(error), now) {
            self.deliver(delivery, now);
        }
    }
}

impl<L: Listener> Part for Informer<L> {
    fn run(&mut self, now: Now) -> Next {
        // Acquire: what the scenario wrote before it started the controller is there.
        if !self.started.load(Ordering::Acquire) {
            return Next::Idle;
        }
        if let Some(line) = &self.line {
            if let Some(until_ns) = line.stopped_until(now) {
                return Next::not_before(until_ns);
            }
            match line.listen(L::STREAM, self.watch.is_some(), now) {
                Listen::On => {}
                Listen::Not(until_ns) => return Next::not_before(until_ns),
                Listen::Ended(end) => self.end(end, now),
            }
        }
        loop {
            match self.reflector.next(now, self.random.f64()) {
                Action::Wait { until_ns } => return Next::At(until_ns),
                Action::List { version, .. } => self.list(&version, now),
                Action::Watch {
                    version,
                    initial_events,
                    ..
                } => self.open(&version, initial_events, now),
                Action::Busy => {
                    // It may have been opened just now: from the past, or to be ended at once.
                    if let Some(line) = &self.line {
                        match line.listen(L::STREAM, self.watch.is_some(), now) {
                            Listen::On => {}
                            Listen::Not(until_ns) => return Next::not_before(until_ns),
                            Listen::Ended(end) => {
                                self.end(end, now);
                                continue;
                            }
                        }
                    }
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

    const STREAM: StreamKind = StreamKind::Pods;

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

    const STREAM: StreamKind = StreamKind::Parents;

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

    const STREAM: StreamKind = StreamKind::ReplicationControllers;

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
