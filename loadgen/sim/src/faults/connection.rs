//! The connection of one controller manager to its cluster, and its clock. Requests and watches
//! pass the connection; here they meet faults, and here the manager can be paused or killed.
//!
//! All tasks of a controller manager share its connection, and ask it before they act. When it is
//! dead the tasks do nothing any more, and the answers to their requests in flight are lost.

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
    /// A point at which a controller manager dies.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum CrashPoint {
        /// At once.
        Now,
        /// Before a request is sent.
        BeforeRequest,
        /// After a request was sent, before it arrives.
        AfterRequest,
        /// After a request was carried out, before its answer is back.
        AfterCommit,
        /// After an answer came back.
        AfterAnswer,
        /// After an event was applied to the cache, and before the next.
        AfterEvent,
        /// After a key was taken from the queue.
        AfterTake,
    }
}

/// A request that reaches the server although no sync waits for its answer.
#[derive(Clone, Debug)]
pub struct OrphanedRequest {
    /// When it reaches the server, ns.
    pub due_ns: i64,
    /// The controller manager that sent it.
    pub incarnation: u32,
    /// The kind of the owners that its controller syncs.
    pub kind: Kind,
    /// The number of its sync.
    pub sync: u64,
    /// Whether its sender is still alive and has another answer.
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
    /// Where to die, and how often to pass that point before.
    crash: Option<(CrashPoint, u32)>,
    /// The fault that armed the crash.
    crash_fault_id: Option<FaultId>,
    /// Of those watches that were opened, or are to be struck.
    streams: BTreeMap<StreamKind, StreamFaults>,
    orphaned: Vec<OrphanedRequest>,
    /// Events lost and events repeated, in all streams.
    altered: (u64, u64),
}

impl Connection {
    /// A connection over that network. `waker` is called when the controller manager dies, and when
    /// a request is orphaned.
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

    /// The number of the controller manager in the run, from 0.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// The faults armed against requests.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Kills the controller manager: its tasks do nothing any more.
    pub fn die(&self) {
        self.state().dead = true;
        (self.waker)();
    }

    /// Whether the controller manager is dead.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Kills the controller manager when it is about to pass that point for the `passes`-th time
    /// from now, counting from 0.
    pub fn crash_at(&self, point: CrashPoint, passes: u32) {
        let fault_id = self.network.fault_id();
        if point == CrashPoint::Now {
            self.network.note_death(fault_id);
            return self.die();
        }
        let mut state = self.state();
        (state.crash, state.crash_fault_id) = (Some((point, passes)), fault_id);
    }

    /// Records that the controller manager passes a point; returns whether it is dead there.
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

    /// Pauses the controller manager until that moment, ns.
    pub fn pause_until(&self, until_ns: i64) {
        let fault_id = self.network.fault_id();
        let mut state = self.state();
        state.paused_until_ns = until_ns;
        for stream in state.streams.values_mut() {
            stream.fault_ids.held.extend(fault_id);
        }
    }

    /// Until when a task must not run, ns: `i64::MAX` when the controller manager is dead.
    pub fn stopped_until(&self, now: Now) -> Option<i64> {
        let state = self.state();
        if state.dead {
            return Some(i64::MAX);
        }
        (state.paused_until_ns > now.mono_ns).then_some(state.paused_until_ns)
    }

    /// Sets how far the controllers' wall clock is off, ns.
    pub fn set_wall_offset(&self, offset_ns: i64) {
        self.state().wall_offset_ns = offset_ns;
    }

    /// The current time on the controllers' clock.
    pub fn clock(&self, now: Now) -> Now {
        Now {
            mono_ns: now.mono_ns,
            wall_ns: now.wall_ns.saturating_add(self.state().wall_offset_ns),
        }
    }

    /// What fault injection makes of a request about to be sent.
    pub fn inject(&self, sent: &OutgoingRequest<'_>, now: Now) -> InjectedOutcome {
        self.network.inject(sent, now.mono_ns)
    }

    /// Adds an orphaned request.
    pub fn orphan(&self, request: OrphanedRequest) {
        self.state().orphaned.push(request);
        (self.waker)();
    }

    /// Takes the requests that were orphaned since the last call.
    pub fn take_orphaned(&self) -> Vec<OrphanedRequest> {
        std::mem::take(&mut self.state().orphaned)
    }

    fn with_stream<T>(&self, kind: StreamKind, change: impl FnOnce(&mut StreamFaults) -> T) -> T {
        change(self.state().streams.entry(kind).or_default())
    }

    /// Arms a fault of a watch; `change` also gets the number of the fault.
    fn arm(&self, kind: StreamKind, change: impl FnOnce(&mut StreamFaults, Option<FaultId>)) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| change(stream, fault_id));
    }

    /// Holds the events of a watch back until that moment, ns; a moment in the past releases them.
    pub fn hold(&self, kind: StreamKind, until_ns: i64) {
        self.arm(kind, |stream, fault_id| {
            stream.held_until_ns = until_ns;
            stream.fault_ids.held.extend(fault_id);
        });
    }

    /// Holds the events of a watch back without a limit; [`heal`](Connection::heal) does not change that.
    pub fn break_for_good(&self, kind: StreamKind) {
        self.with_stream(kind, |stream| stream.broken = true);
    }

    /// Loses the next events of a watch.
    pub fn drop_events(&self, kind: StreamKind, count: u32) {
        self.arm(kind, |stream, fault_id| {
            stream.drop += count;
            stream.fault_ids.dropped.extend(fault_id);
        });
    }

    /// Delivers the next events of a watch twice.
    pub fn duplicate_events(&self, kind: StreamKind, count: u32) {
        self.arm(kind, |stream, fault_id| {
            stream.duplicate += count;
            stream.fault_ids.repeated.extend(fault_id);
        });
    }

    /// Delivers the last events of a watch, eight at most, again after the next ones.
    pub fn replay_events(&self, kind: StreamKind, count: u32) {
        self.arm(kind, |stream, fault_id| {
            stream.replay = count;
            stream.fault_ids.repeated.extend(fault_id);
        });
    }

    /// Ends a watch.
    pub fn end(&self, kind: StreamKind, end: StreamEnd) {
        self.arm(kind, |stream, fault_id| {
            stream.end = Some(end);
            stream.fault_ids.ended.extend(fault_id);
        });
    }

    /// Called by an informer whose watch was ended by a fault; `was_open` says whether there was
    /// one.
    pub fn ended(&self, kind: StreamKind, was_open: bool) {
        let fault_ids =
            self.with_stream(kind, |stream| std::mem::take(&mut stream.fault_ids.ended));
        if was_open {
            self.network.notice(fault_ids);
        }
    }

    /// Answers the next attempts to open a watch, or to list, with that fault.
    pub fn refuse_open(&self, kind: StreamKind, fault: ApiFault, times: u32) {
        self.arm(kind, |stream, fault_id| {
            let refusals = std::iter::repeat_n(fault, times as usize);
            stream.refuse_open.extend(refusals);
            stream.fault_ids.refused.extend(fault_id);
        });
    }

    /// Serves the next list, or initial watch, from a state that is `versions` versions old; the server
    /// shows nothing newer for `for_ns`.
    pub fn lag(&self, kind: StreamKind, versions: u64, for_ns: i64) {
        self.arm(kind, |stream, fault_id| {
            stream.lag = Some(versions);
            stream.lag_ns = for_ns;
            stream.fault_ids.lagging.extend(fault_id);
        });
    }

    /// Removes the faults of watches and clock; a new list makes up for lost events. A dead
    /// controller manager stays dead.
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

    /// Called by an informer before it takes events: the state of its watch.
    pub fn watch_state(&self, kind: StreamKind, is_open: bool, now: Now) -> WatchState {
        self.with_stream(kind, |stream| stream.watch_state(now.mono_ns, is_open))
    }

    /// Called by an informer before it opens a watch or lists: the error that it gets instead, if
    /// any.
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

    /// Called by an informer before it lists or opens an initial watch: how many versions old the
    /// state is that it gets.
    pub fn take_lag(&self, kind: StreamKind, now: Now) -> Option<u64> {
        self.with_stream(kind, |stream| {
            (stream.drop, stream.duplicate, stream.replay) = (0, 0, 0);
            let fault_ids = &mut stream.fault_ids;
            for forgotten in [
                &mut fault_ids.held,
                &mut fault_ids.dropped,
                &mut fault_ids.repeated,
            ] {
                forgotten.clear();
            }
            if stream.lag.is_some() && stream.lag_ns > 0 {
                let until_ns = now.mono_ns.saturating_add(stream.lag_ns);
                stream.held_until_ns = stream.held_until_ns.max(until_ns);
                stream.fault_ids.held.clone_from(&stream.fault_ids.lagging);
            }
            stream.lag.take()
        })
    }

    /// Called by an informer whose watch is open; `initial_events` says whether the watch begins
    /// with the state.
    pub fn opened(&self, kind: StreamKind, initial_events: bool) {
        self.with_stream(kind, |stream| stream.initial = initial_events);
    }

    /// Called by an informer that has a complete list or initial state: it makes up for lost
    /// events.
    pub fn listed(&self, kind: StreamKind) {
        self.with_stream(kind, |stream| stream.incomplete = false);
    }

    /// Called by an informer that has a list or initial state of a server that lags; `lacks` says
    /// whether an object of the informer's kind has changed since.
    pub fn lagged(&self, kind: StreamKind, lacks: bool) {
        let fault_ids =
            self.with_stream(kind, |stream| std::mem::take(&mut stream.fault_ids.lagging));
        if lacks {
            self.network.notice(fault_ids);
        }
    }

    /// Whether events were lost and no list has made up for them.
    pub fn is_incomplete(&self, kind: StreamKind) -> bool {
        self.with_stream(kind, |stream| stream.incomplete)
    }

    /// Alters a batch of events as armed; `kept` holds the last events of the informer.
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
            // These events were held back, if there are any.
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

    /// The numbers of events lost and events repeated so far, in all watches.
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

    /// Seed 300009169, whole: such a watch ended, and healing did not list again.
    #[test]
    fn a_watch_that_has_only_begun_makes_up_for_nothing() {
        let (connection, now) = (connection(), Now::default());
        connection.drop_events(StreamKind::of(Kind::POD), 1);
        let mut events = vec![WatchEvent::Added(Arc::new(()))];
        connection.alter(StreamKind::of(Kind::POD), &mut events, &mut VecDeque::new());
        connection.take_lag(StreamKind::of(Kind::POD), now);
        connection.opened(StreamKind::of(Kind::POD), true);
        assert!(connection.is_incomplete(StreamKind::of(Kind::POD)));
        connection.listed(StreamKind::of(Kind::POD));
        assert!(!connection.is_incomplete(StreamKind::of(Kind::POD)));
    }

    #[test]
    fn healing_lists_anew_where_events_were_lost() {
        let connection = connection();
        connection.drop_events(StreamKind::of(Kind::POD), 1);
        connection.hold(StreamKind::of(Kind::REPLICA_SET), 100);
        let pod = Arc::new(());
        let mut events = vec![WatchEvent::Added(pod)];
        let mut kept = VecDeque::new();
        connection.alter(StreamKind::of(Kind::POD), &mut events, &mut kept);
        assert!(events.is_empty() && connection.is_incomplete(StreamKind::of(Kind::POD)));
        connection.heal();
        let state = |kind| connection.watch_state(kind, true, Now::default());
        let expired = WatchState::Ended(StreamEnd::Expired);
        assert_eq!(state(StreamKind::of(Kind::POD)), expired);
        assert_eq!(state(StreamKind::of(Kind::REPLICA_SET)), WatchState::Open);
    }

    #[test]
    fn a_held_watch_is_noticed_only_where_something_was_held_back() {
        for held_back in [true, false] {
            let connection = connection();
            connection.network().set_fault_id(Some(7));
            connection.hold(StreamKind::of(Kind::POD), 100);
            connection.drop_events(StreamKind::of(Kind::REPLICA_SET), 1);
            let pods = held_back.then(|| WatchEvent::Added(Arc::new(())));
            let mut events: Vec<_> = pods.into_iter().collect();
            connection.alter(StreamKind::of(Kind::POD), &mut events, &mut VecDeque::new());
            let noticed: Vec<FaultId> = connection.network().take_noticed().into_iter().collect();
            assert_eq!(noticed, if held_back { vec![7] } else { vec![] });
            // What comes later was not held back, and a list makes up for what would be lost.
            let mut events = vec![WatchEvent::Added(Arc::new(()))];
            connection.alter(StreamKind::of(Kind::POD), &mut events, &mut VecDeque::new());
            connection.take_lag(StreamKind::of(Kind::REPLICA_SET), Now::default());
            connection.alter(
                StreamKind::of(Kind::REPLICA_SET),
                &mut events,
                &mut VecDeque::new(),
            );
            assert!(connection.network().take_noticed().is_empty());
        }
    }

    #[test]
    fn a_watch_that_ends_is_noticed_where_it_was_open_and_a_lag_where_something_is_missing() {
        let connection = connection();
        connection.network().set_fault_id(Some(7));
        let noticed = || connection.network().take_noticed().len();
        for is_noticed in [true, false] {
            connection.end(StreamKind::of(Kind::POD), StreamEnd::Closed);
            connection.ended(StreamKind::of(Kind::POD), is_noticed);
            assert_eq!(noticed(), usize::from(is_noticed));
            connection.lag(StreamKind::of(Kind::POD), 3, 0);
            connection.lagged(StreamKind::of(Kind::POD), is_noticed);
            assert_eq!(noticed(), usize::from(is_noticed));
        }
    }
}
