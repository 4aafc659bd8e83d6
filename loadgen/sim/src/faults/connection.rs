//! The connection of one controller manager to its cluster, and the controller manager's clock. All
//! requests and watches of the controller manager pass through the connection, which injects faults
//! and can pause or kill the controller manager.
//!
//! All tasks of a controller manager share its connection and check the connection before they act.
//! Once the connection is dead, the tasks do nothing, and answers to requests in flight are lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Request, WatchEvent};
use podstorm_apiserver::Waker;
use podstorm_objects::{Kind, Now};
use serde::{Deserialize, Serialize};

use super::answer::ApiFault;
use super::network::{FaultId, InjectedOutcome, Network, OutgoingRequest};
use super::watching::{AlteredEvents, StreamEnd, StreamFaults, StreamKind, WatchState};
use crate::lock;

listed! {
    /// A point at which a controller manager can crash.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CrashPoint {
        /// Immediately.
        Now,
        /// Before a request is sent.
        BeforeRequest,
        /// After a request is sent, before it arrives.
        AfterRequest,
        /// After a request is carried out, before its answer arrives.
        AfterCommit,
        /// After an answer arrives.
        AfterAnswer,
        /// After an event is applied to the cache, before the next one.
        AfterEvent,
        /// After a key is taken from the queue.
        AfterTake,
    }
}

/// A request that reaches the server after its sync stopped waiting for the answer.
#[derive(Clone, Debug)]
pub struct OrphanedRequest {
    /// The monotonic time at which the request reaches the server, ns.
    pub due_ns: i64,
    /// The number of the controller manager that sent the request.
    pub incarnation: u32,
    /// The kind of the owners that the sending controller syncs.
    pub kind: Kind,
    /// The number of the sync that sent the request.
    pub sync: u64,
    /// Whether the sender is still alive and got another answer.
    pub answered: bool,
    /// The request.
    pub request: Request,
}

/// The connection of one controller manager.
pub struct Connection {
    network: Arc<Network>,
    incarnation: u32,
    state: Mutex<ConnectionState>,
    /// Called when the controller manager dies, and when a request is orphaned.
    waker: Waker,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct ConnectionState {
    dead: bool,
    paused_until_ns: i64,
    wall_offset_ns: i64,
    /// The armed crash: its point, and how many times the point is passed before the crash.
    crash: Option<(CrashPoint, u32)>,
    /// The fault that armed the crash.
    crash_fault_id: Option<FaultId>,
    /// The faults of each watch that was opened or has armed faults.
    streams: BTreeMap<StreamKind, StreamFaults>,
    orphaned: Vec<OrphanedRequest>,
    /// The numbers of lost events and of repeated events, in all watches.
    altered: (u64, u64),
}

impl Connection {
    /// Returns a connection over `network`. `waker` is called when the controller manager dies and
    /// when a request is orphaned.
    pub fn new(network: Arc<Network>, incarnation: u32, waker: Waker) -> Connection {
        Connection {
            network,
            incarnation,
            state: Mutex::default(),
            waker,
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        lock(&self.state)
    }

    /// Returns the number of the controller manager in the run, counted from 0.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Returns the network, which holds the faults armed against requests.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Kills the controller manager: its tasks do nothing from now on.
    pub fn die(&self) {
        self.state().dead = true;
        (self.waker)();
    }

    /// Reports whether the controller manager is dead.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Arms a crash: the controller manager dies when it reaches `point` for the `passes`-th time
    /// from now, counted from 0.
    pub fn crash_at(&self, point: CrashPoint, passes: u32) {
        let fault_id = self.network.fault_id();
        if point == CrashPoint::Now {
            self.network.note_death(fault_id);
            return self.die();
        }
        let mut state = self.state();
        (state.crash, state.crash_fault_id) = (Some((point, passes)), fault_id);
    }

    /// Records that the controller manager passes a crash point. Returns whether the controller
    /// manager is dead, killed by this pass or earlier.
    pub fn passes(&self, point: CrashPoint) -> bool {
        let mut state = self.state();
        match &mut state.crash {
            Some((armed, 0)) if *armed == point => {
                state.crash = None;
                state.dead = true;
                let fault_id = state.crash_fault_id.take();
                drop(state);
                self.network.note_death(fault_id);
                (self.waker)();
                return true;
            }
            Some((armed, passes)) if *armed == point => *passes -= 1,
            _ => {}
        }
        state.dead
    }

    /// Pauses the controller manager until `until_ns` of monotonic time.
    pub fn pause_until(&self, until_ns: i64) {
        let fault_id = self.network.fault_id();
        let mut state = self.state();
        state.paused_until_ns = until_ns;
        for stream in state.streams.values_mut() {
            stream.fault_ids.held.extend(fault_id);
        }
    }

    /// Returns the time before which no task may run, ns: `i64::MAX` if the controller manager is
    /// dead, `None` if it is neither dead nor paused.
    pub fn stopped_until(&self, now: Now) -> Option<i64> {
        let state = self.state();
        if state.dead {
            return Some(i64::MAX);
        }
        (state.paused_until_ns > now.mono_ns).then_some(state.paused_until_ns)
    }

    /// Sets the offset of the controllers' wall clock from the cluster's, ns.
    pub fn set_wall_offset(&self, offset_ns: i64) {
        self.state().wall_offset_ns = offset_ns;
    }

    /// Returns the time that the controllers' clock shows at `now`.
    pub fn clock(&self, now: Now) -> Now {
        Now {
            mono_ns: now.mono_ns,
            wall_ns: now.wall_ns.saturating_add(self.state().wall_offset_ns),
        }
    }

    /// Returns the outcome that fault injection chooses for a request that is about to be sent.
    pub fn inject(&self, sent: &OutgoingRequest<'_>, now: Now) -> InjectedOutcome {
        self.network.inject(sent, now.mono_ns)
    }

    /// Adds an orphaned request.
    pub fn orphan(&self, request: OrphanedRequest) {
        self.state().orphaned.push(request);
        (self.waker)();
    }

    /// Takes the requests orphaned since the last call.
    pub fn take_orphaned(&self) -> Vec<OrphanedRequest> {
        std::mem::take(&mut self.state().orphaned)
    }

    fn with_stream<T>(&self, kind: StreamKind, change: impl FnOnce(&mut StreamFaults) -> T) -> T {
        change(self.state().streams.entry(kind).or_default())
    }

    /// Arms a fault of a watch: calls `change` with the faults of the watch and the new fault's ID.
    fn arm(&self, kind: StreamKind, change: impl FnOnce(&mut StreamFaults, Option<FaultId>)) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| change(stream, fault_id));
    }

    /// Holds back the events of a watch until `until_ns`; a time in the past releases them.
    pub fn hold(&self, kind: StreamKind, until_ns: i64) {
        self.arm(kind, |stream, fault_id| {
            stream.held_until_ns = until_ns;
            stream.fault_ids.held.extend(fault_id);
        });
    }

    /// Holds back the events of a watch indefinitely, even after [`heal`](Connection::heal).
    pub fn break_for_good(&self, kind: StreamKind) {
        self.with_stream(kind, |stream| stream.broken = true);
    }

    /// Drops the next `count` events of a watch.
    pub fn drop_events(&self, kind: StreamKind, count: u32) {
        self.arm(kind, |stream, fault_id| {
            stream.drop += count;
            stream.fault_ids.dropped.extend(fault_id);
        });
    }

    /// Delivers the next `count` events of a watch twice.
    pub fn duplicate_events(&self, kind: StreamKind, count: u32) {
        self.arm(kind, |stream, fault_id| {
            stream.duplicate += count;
            stream.fault_ids.repeated.extend(fault_id);
        });
    }

    /// Delivers the last `count` events of a watch, at most eight, again at the end of the next
    /// batch.
    pub fn replay_events(&self, kind: StreamKind, count: u32) {
        self.arm(kind, |stream, fault_id| {
            stream.replay = count;
            stream.fault_ids.repeated.extend(fault_id);
        });
    }

    /// Ends a watch as soon as it is open and its events are not held back.
    pub fn end(&self, kind: StreamKind, end: StreamEnd) {
        self.arm(kind, |stream, fault_id| {
            stream.end = Some(end);
            stream.fault_ids.ended.extend(fault_id);
        });
    }

    /// Records that a fault ended an informer's watch. `was_open` tells whether the informer had an
    /// open watch.
    pub fn ended(&self, kind: StreamKind, was_open: bool) {
        let fault_ids =
            self.with_stream(kind, |stream| std::mem::take(&mut stream.fault_ids.ended));
        if was_open {
            self.network.notice(fault_ids);
        }
    }

    /// Fails the next `times` attempts to list or to open a watch with `fault`.
    pub fn refuse_open(&self, kind: StreamKind, fault: ApiFault, times: u32) {
        self.arm(kind, |stream, fault_id| {
            let refusals = std::iter::repeat_n(fault, times as usize);
            stream.refuse_open.extend(refusals);
            stream.fault_ids.refused.extend(fault_id);
        });
    }

    /// Serves the next list or initial watch from a state that is `versions` versions old. After
    /// that, the watch delivers no events for `for_ns`.
    pub fn lag(&self, kind: StreamKind, versions: u64, for_ns: i64) {
        self.arm(kind, |stream, fault_id| {
            stream.lag = Some(versions);
            stream.lag_ns = for_ns;
            stream.fault_ids.lagging.extend(fault_id);
        });
    }

    /// Ends the pause, resets the clock, disarms the crash, and removes the faults of watches,
    /// except those [broken for good](Connection::break_for_good). Watches that lost events expire,
    /// which forces a new list. A dead controller manager stays dead.
    pub fn heal(&self) {
        let mut state = self.state();
        state.paused_until_ns = i64::MIN;
        state.wall_offset_ns = 0;
        state.crash = None;
        for stream in state.streams.values_mut() {
            let (incomplete, broken) = (stream.incomplete, stream.broken);
            *stream = StreamFaults {
                broken,
                initial: stream.initial,
                ..StreamFaults::default()
            };
            stream.end = incomplete.then_some(StreamEnd::Expired);
        }
    }

    /// Returns the state of an informer's watch. Informers call it before they take events.
    pub fn watch_state(&self, kind: StreamKind, is_open: bool, now: Now) -> WatchState {
        self.with_stream(kind, |stream| stream.watch_state(now.mono_ns, is_open))
    }

    /// Returns the error that an informer gets when it lists or opens a watch, if one is armed.
    /// Informers call it before each attempt.
    pub fn opening(&self, kind: StreamKind) -> Option<ApiFault> {
        let (fault, fault_ids) = self.with_stream(kind, |stream| {
            let fault = stream.refuse_open.pop_front();
            (
                fault,
                fault.map(|_| std::mem::take(&mut stream.fault_ids.refused)),
            )
        });
        self.network.notice(fault_ids.unwrap_or_default());
        fault
    }

    /// Returns the lag, in versions, of the state that an informer's next list or initial watch is
    /// served from; `None` without a lag. Informers call it before they list or open an initial
    /// watch. Disarms the faults that drop or repeat events of the earlier watch.
    pub fn take_lag(&self, kind: StreamKind, now: Now) -> Option<u64> {
        self.with_stream(kind, |stream| {
            (stream.drop, stream.duplicate, stream.replay) = (0, 0, 0);
            let fault_ids = &mut stream.fault_ids;
            fault_ids.held.clear();
            fault_ids.dropped.clear();
            fault_ids.repeated.clear();
            if stream.lag.is_some() && stream.lag_ns > 0 {
                let until_ns = now.mono_ns.saturating_add(stream.lag_ns);
                stream.held_until_ns = stream.held_until_ns.max(until_ns);
                stream.fault_ids.held.clone_from(&stream.fault_ids.lagging);
            }
            stream.lag.take()
        })
    }

    /// Records that an informer has opened a watch. `initial_events` tells whether the watch begins
    /// with the current state.
    pub fn opened(&self, kind: StreamKind, initial_events: bool) {
        self.with_stream(kind, |stream| stream.initial = initial_events);
    }

    /// Records that an informer has received a complete list or initial state, which makes up for
    /// lost events.
    pub fn listed(&self, kind: StreamKind) {
        self.with_stream(kind, |stream| stream.incomplete = false);
    }

    /// Records that an informer has received a list or initial state from a lagging server. `lacks`
    /// tells whether an object of the informer's kind has changed since that state.
    pub fn lagged(&self, kind: StreamKind, lacks: bool) {
        let fault_ids =
            self.with_stream(kind, |stream| std::mem::take(&mut stream.fault_ids.lagging));
        if lacks {
            self.network.notice(fault_ids);
        }
    }

    /// Reports whether events were lost since the last complete list.
    pub fn is_incomplete(&self, kind: StreamKind) -> bool {
        self.with_stream(kind, |stream| stream.incomplete)
    }

    /// Applies the armed faults to a batch of events. `kept` holds the last events of the
    /// informer's previous batches.
    pub fn alter<T: ?Sized>(
        &self,
        kind: StreamKind,
        events: &mut Vec<WatchEvent<T>>,
        kept: &mut VecDeque<WatchEvent<T>>,
    ) -> AlteredEvents {
        let is_change = |event: &WatchEvent<T>| !matches!(event, WatchEvent::Bookmark { .. });
        let has_changes = events.iter().any(is_change);
        let (altered, noticed) = self.with_stream(kind, |stream| {
            let altered = stream.alter(events, kept);
            let fault_ids = &mut stream.fault_ids;
            let mut noticed = Vec::new();
            // The batch contains the events that were held back, if any.
            let held = std::mem::take(&mut fault_ids.held);
            noticed.extend(held.into_iter().filter(|_| has_changes));
            if altered.dropped > 0 {
                noticed.append(&mut fault_ids.dropped);
            }
            if altered.repeated > 0 {
                noticed.append(&mut fault_ids.repeated);
            }
            (altered, noticed)
        });
        self.network.notice(noticed);
        let mut state = self.state();
        state.altered.0 += u64::from(altered.dropped);
        state.altered.1 += u64::from(altered.repeated);
        drop(state);
        altered
    }

    /// Returns the numbers of lost events and of repeated events so far, in all watches.
    pub fn altered_events(&self) -> (u64, u64) {
        self.state().altered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::new(Arc::default(), 0, Arc::new(|| {}))
    }

    #[test]
    fn a_controller_dies_at_the_armed_point() {
        let connection = connection();
        connection.crash_at(CrashPoint::AfterCommit, 1);
        assert!(!connection.passes(CrashPoint::AfterAnswer));
        assert!(!connection.passes(CrashPoint::AfterCommit));
        assert!(connection.passes(CrashPoint::AfterCommit));
        assert!(connection.is_dead() && connection.passes(CrashPoint::AfterAnswer));
        assert_eq!(connection.stopped_until(Now::default()), Some(i64::MAX));
    }

    /// Seed 300009169: a watch ended before its initial state was complete, and healing did not
    /// list again.
    #[test]
    fn lost_events_count_until_the_initial_state_is_complete() {
        let (connection, now) = (connection(), Now::default());
        connection.drop_events(StreamKind::from_kind(Kind::POD), 1);
        let mut events = vec![WatchEvent::Added(Arc::new(()))];
        connection.alter(
            StreamKind::from_kind(Kind::POD),
            &mut events,
            &mut VecDeque::new(),
        );
        connection.take_lag(StreamKind::from_kind(Kind::POD), now);
        connection.opened(StreamKind::from_kind(Kind::POD), true);
        assert!(connection.is_incomplete(StreamKind::from_kind(Kind::POD)));
        connection.listed(StreamKind::from_kind(Kind::POD));
        assert!(!connection.is_incomplete(StreamKind::from_kind(Kind::POD)));
    }

    #[test]
    fn healing_forces_a_new_list_after_lost_events() {
        let connection = connection();
        connection.drop_events(StreamKind::from_kind(Kind::POD), 1);
        connection.hold(StreamKind::from_kind(Kind::REPLICA_SET), 100);
        let pod = Arc::new(());
        let mut events = vec![WatchEvent::Added(pod)];
        let mut kept = VecDeque::new();
        connection.alter(StreamKind::from_kind(Kind::POD), &mut events, &mut kept);
        assert!(events.is_empty() && connection.is_incomplete(StreamKind::from_kind(Kind::POD)));
        connection.heal();
        let state = |kind| connection.watch_state(kind, true, Now::default());
        let expired = WatchState::Ended(StreamEnd::Expired);
        assert_eq!(state(StreamKind::from_kind(Kind::POD)), expired);
        assert_eq!(
            state(StreamKind::from_kind(Kind::REPLICA_SET)),
            WatchState::Open
        );
    }

    #[test]
    fn holding_a_watch_is_noticed_only_if_events_were_held() {
        for held_back in [true, false] {
            let connection = connection();
            connection.network().set_fault_id(Some(7));
            connection.hold(StreamKind::from_kind(Kind::POD), 100);
            connection.drop_events(StreamKind::from_kind(Kind::REPLICA_SET), 1);
            let pods = held_back.then(|| WatchEvent::Added(Arc::new(())));
            let mut events: Vec<_> = pods.into_iter().collect();
            connection.alter(
                StreamKind::from_kind(Kind::POD),
                &mut events,
                &mut VecDeque::new(),
            );
            let noticed: Vec<FaultId> = connection.network().take_noticed().into_iter().collect();
            assert_eq!(noticed, if held_back { vec![7] } else { vec![] });
            // Later events were not held back. A list disarms the faults that would lose events.
            let mut events = vec![WatchEvent::Added(Arc::new(()))];
            connection.alter(
                StreamKind::from_kind(Kind::POD),
                &mut events,
                &mut VecDeque::new(),
            );
            connection.take_lag(StreamKind::from_kind(Kind::REPLICA_SET), Now::default());
            connection.alter(
                StreamKind::from_kind(Kind::REPLICA_SET),
                &mut events,
                &mut VecDeque::new(),
            );
            assert!(connection.network().take_noticed().is_empty());
        }
    }

    #[test]
    fn ended_and_lagging_watches_are_noticed_only_if_they_matter() {
        let connection = connection();
        connection.network().set_fault_id(Some(7));
        let noticed = || connection.network().take_noticed().len();
        for is_noticed in [true, false] {
            connection.end(StreamKind::from_kind(Kind::POD), StreamEnd::Closed);
            connection.ended(StreamKind::from_kind(Kind::POD), is_noticed);
            assert_eq!(noticed(), usize::from(is_noticed));
            connection.lag(StreamKind::from_kind(Kind::POD), 3, 0);
            connection.lagged(StreamKind::from_kind(Kind::POD), is_noticed);
            assert_eq!(noticed(), usize::from(is_noticed));
        }
    }
}
