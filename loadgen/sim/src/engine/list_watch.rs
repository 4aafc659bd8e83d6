//! Lists and watches one kind, as the runtime's reflector decides, and passes the changes to a
//! listener in order. Changes of pods go to the shared pod cache and then to every controller;
//! changes of another kind go to its informer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{ApiError, WatchEvent};
use podstorm::informer::AnyInformer;
use podstorm::reflector::{Action, Delivery, Reflector, ReflectorOptions};
use podstorm_apiserver::{Cluster, Poll, WatchFrom, WatchOptions, errors};
use podstorm_objects::{AnyObject, Kind, Now, Object, Pod, ResourceVersion};

use super::Runners;
use super::sources::{self, KindSource, PodSource, Source};
use crate::executor::{Next, Task};
use crate::faults::watching::WatchState;
use crate::faults::{ApiFault, Connection, CrashPoint, StreamEnd, StreamKind};

/// The maximum number of events applied in one run of the task.
const BATCH: usize = 4000;

/// Handles listed and watched objects.
pub(super) trait Listener: Send {
    /// The source of lists and watches.
    type Source: Source;

    /// Returns the stream under which fault injection handles this watch.
    fn stream(&self) -> StreamKind;

    /// Applies one addition, change or deletion of an object.
    fn apply(&mut self, delta: Delta<Watched<Self>>, now: Now);

    /// Replaces all objects with those of a list.
    fn replace(&mut self, objects: Vec<Arc<Watched<Self>>>, version: &ResourceVersion, now: Now);

    /// Records that there are no further changes up to this version.
    fn bookmark(&mut self, version: &ResourceVersion);

    /// Returns the controllers that receive the objects.
    fn readers(&self) -> &Runners;

    /// Called after the first `replace`, when the cache is filled.
    fn synced(&self) {
        self.readers()
            .iter()
            .for_each(|reader| reader.informer_synced());
    }

    /// Called after each list and each batch of events: wakes the workers.
    fn batch_over(&self, now: Now) {
        self.readers()
            .iter()
            .for_each(|reader| reader.keys_added(now));
    }
}

/// The type of a listener's objects.
type Watched<L> = <<L as Listener>::Source as Source>::Object;

/// The task that lists and watches one kind.
pub(super) struct ListWatch<L: Listener> {
    cluster: Arc<Cluster>,
    source: L::Source,
    listener: L,
    options: WatchOptions,
    /// Whether the scenario has started the controllers.
    started: Arc<AtomicBool>,
    reflector: Reflector<Watched<L>>,
    random: fastrand::Rng,
    watch: Option<<L::Source as Source>::Watch>,
    synced: bool,
    events: Vec<WatchEvent<Watched<L>>>,
    delivered: Arc<AtomicU64>,
    /// The connection, if the run has fault injection or an observer.
    connection: Option<Arc<Connection>>,
    /// The last events, which fault injection may repeat.
    kept: VecDeque<WatchEvent<Watched<L>>>,
}

impl<L: Listener> ListWatch<L> {
    /// Returns a list and watch that begins once `started` is set and its waker is called. It
    /// counts events in `delivered`.
    pub(super) fn new(
        cluster: Arc<Cluster>,
        source: L::Source,
        listener: L,
        options: WatchOptions,
        started: Arc<AtomicBool>,
        delivered: Arc<AtomicU64>,
        reflector: ReflectorOptions,
    ) -> Self {
        ListWatch {
            cluster,
            source,
            listener,
            started,
            reflector: Reflector::new(reflector),
            random: fastrand::Rng::with_seed(options.seed),
            options,
            watch: None,
            synced: false,
            events: Vec::new(),
            delivered,
            connection: None,
            kept: VecDeque::new(),
        }
    }

    /// Subjects it to the faults of a connection, if there is one.
    pub(super) fn over(self, connection: Option<Arc<Connection>>) -> Self {
        ListWatch { connection, ..self }
    }

    fn deliver(&mut self, delivery: Delivery<Watched<L>>, now: Now) {
        match delivery {
            Delivery::Delta(delta) => self.listener.apply(delta, now),
            Delivery::Bookmark(version) => self.listener.bookmark(&version),
            Delivery::Replace(objects, version) => {
                if let Some(connection) = &self.connection {
                    connection.listed(self.listener.stream());
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
            // Any state at or after the version is valid, also from a lagging server.
            Some(oldest) => match self.lagging_version(now) {
                Some(version) if version < oldest => {
                    let error = errors::version_too_large(oldest, version);
                    return self.reflector.on_watch(Err(&error), now);
                }
                Some(version) => WatchFrom::InitialAsOf(version),
                None => WatchFrom::Initial,
            },
            // The newest state is requested, so a lagging server waits until it has caught up.
            None => {
                self.lagging_version(now);
                WatchFrom::Initial
            }
        };
        let opened = self.source.watch(from, self.options.clone());
        self.reflector.on_watch(opened.as_ref().map(|_| ()), now);
        if let (Some(connection), Ok(_)) = (&self.connection, &opened) {
            connection.opened(self.listener.stream(), initial_events);
        }
        self.watch = opened.ok();
        self.kept.clear();
    }

    /// Returns the error with which fault injection fails the next list or watch request; `None` if
    /// it does not fail.
    fn refused(&self) -> Option<ApiError> {
        let fault = self.connection.as_ref()?.opening(self.listener.stream());
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

    /// Lists the newest state, whichever version is requested. Fault injection may make the server
    /// lag behind.
    fn list_from(&self, version: &ResourceVersion, now: Now) -> sources::Listed<Watched<L>> {
        match (self.lagging_version(now), version.number()) {
            // The newest state is requested.
            (Some(_), None) if version.is_unset() => {}
            (Some(lagging), Some(oldest)) if lagging < oldest => {
                return Err(errors::version_too_large(oldest, lagging));
            }
            (Some(lagging), _) => return self.source.list_as_of(lagging),
            (None, _) => {}
        }
        self.source.list()
    }

    /// Returns the version of the lagging server from which the next list or initial watch is
    /// served; `None` if the server does not lag.
    fn lagging_version(&self, now: Now) -> Option<u64> {
        let connection = self.connection.as_ref()?;
        let lag = connection.take_lag(self.listener.stream(), now)?;
        let version = self.cluster.resource_version().saturating_sub(lag);
        connection.lagged(self.listener.stream(), version < self.source.last_version());
        Some(version)
    }

    /// Takes and delivers a batch of events. Returns whether there are more, and when the next one
    /// becomes visible.
    fn take_events(&mut self, now: Now) -> Poll {
        let Some(watch) = &mut self.watch else {
            return Poll::default();
        };
        let mut events = std::mem::take(&mut self.events);
        let poll = L::Source::poll(watch, BATCH, now, &mut events);
        if let Some(connection) = &self.connection {
            connection.alter(self.listener.stream(), &mut events, &mut self.kept);
        }
        // Relaxed: a statistic, read after the run.
        self.delivered
            .fetch_add(events.len() as u64, Ordering::Relaxed);
        for event in events.drain(..) {
            let is_last = matches!(event, WatchEvent::Error(_));
            if is_last {
                self.watch = None;
            }
            if let Some(delivery) = self.reflector.on_event(event, now) {
                self.deliver(delivery, now);
                if let Some(connection) = &self.connection
                    && connection.passes(CrashPoint::AfterEvent)
                {
                    break;
                }
            }
            // Fault injection may have added repeated events after the last one.
            if is_last {
                break;
            }
        }
        events.clear();
        self.events = events;
        self.listener.batch_over(now);
        poll
    }

    /// Ends the watch as the armed fault requires.
    fn end(&mut self, end: StreamEnd, now: Now) {
        let was_open = self.watch.take().is_some();
        if let Some(connection) = &self.connection {
            connection.ended(self.listener.stream(), was_open);
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

impl<L: Listener> ListWatch<L> {
    /// Applies fault injection to the watch. Returns false if the watch has ended. If its events
    /// are held back, the error is the time at which the task must run again.
    fn check_faults(&mut self, now: Now) -> Result<bool, Next> {
        let Some(connection) = &self.connection else {
            return Ok(true);
        };
        match connection.watch_state(self.listener.stream(), self.watch.is_some(), now) {
            WatchState::Open => Ok(true),
            WatchState::HeldUntil(until_ns) => Err(Next::not_before(until_ns)),
            WatchState::Ended(end) => {
                self.end(end, now);
                Ok(false)
            }
        }
    }

    fn step(&mut self, now: Now) -> Result<(), Next> {
        match self.reflector.next(now, self.random.f64()) {
            Action::Wait { until_ns } => Err(Next::At(until_ns)),
            Action::List { version, .. } => {
                self.list(&version, now);
                Ok(())
            }
            Action::Watch {
                version,
                initial_events,
                ..
            } => {
                self.open(&version, initial_events, now);
                Ok(())
            }
            Action::Busy => {
                // The watch may have been opened in this run, and may have to end immediately.
                if !self.check_faults(now)? {
                    return Ok(());
                }
                let poll = self.take_events(now);
                Err(match poll.next_visible_ns {
                    _ if poll.more || self.watch.is_none() => Next::Again,
                    Some(at_ns) => Next::At(at_ns),
                    None => Next::Idle,
                })
            }
        }
    }
}

impl<L: Listener> Task for ListWatch<L> {
    fn run(&mut self, now: Now) -> Next {
        // Acquire: the scenario's writes before the start of the controllers are visible.
        if !self.started.load(Ordering::Acquire) {
            return Next::Idle;
        }
        let stopped = self
            .connection
            .as_ref()
            .and_then(|it| it.stopped_until(now));
        if let Some(until_ns) = stopped {
            return Next::not_before(until_ns);
        }
        if let Err(next) = self.check_faults(now) {
            return next;
        }
        loop {
            if let Err(next) = self.step(now) {
                return next;
            }
        }
    }
}

/// Passes pods to the shared cache, then to every affected controller.
pub(super) struct Pods {
    pub(super) cache: Arc<PodCache>,
    pub(super) readers: Runners,
}

impl Listener for Pods {
    type Source = PodSource;

    fn stream(&self) -> StreamKind {
        StreamKind::from_kind(Kind::POD)
    }

    fn apply(&mut self, delta: Delta<Pod>, now: Now) {
        let change = self.cache.apply(delta);
        for reader in &self.readers {
            reader.pod_changed(&change, now);
        }
    }

    fn replace(&mut self, objects: Vec<Arc<Pod>>, version: &ResourceVersion, now: Now) {
        let listed = self.cache.replace(objects, version);
        for reader in &self.readers {
            reader.pods_listed(&listed, now);
        }
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.cache.bookmark(version);
    }

    fn readers(&self) -> &Runners {
        &self.readers
    }
}

/// Passes the objects of another kind to the kind's informer, which notifies its readers.
pub(super) struct Objects {
    pub(super) informer: Arc<dyn AnyInformer>,
    /// The controllers that read the kind.
    pub(super) readers: Runners,
}

impl Listener for Objects {
    type Source = KindSource;

    fn stream(&self) -> StreamKind {
        StreamKind::from_kind(self.informer.kind())
    }

    fn apply(&mut self, delta: Delta<dyn Object>, now: Now) {
        self.informer.apply(delta, now);
    }

    fn replace(&mut self, objects: Vec<AnyObject>, version: &ResourceVersion, now: Now) {
        self.informer.replace(objects, version, now);
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.informer.bookmark(version);
    }

    fn readers(&self) -> &Runners {
        &self.readers
    }
}
