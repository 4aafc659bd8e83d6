//! One controller's connection to its cluster, and its clock: what its requests and watches pass,
//! and where it can be stopped, paused or killed.
//!
//! A line is shared by all parts of one controller. Tasks ask it before they act; a dead line's
//! parts do nothing any more, and what they had under way is answered to nobody.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Request, WatchEvent};
use podstorm_apiserver::Waker;
use podstorm_objects::{Kind, Now};
use serde::{Deserialize, Serialize};

use super::answer::ApiFault;
use super::network::{FaultId, InjectedOutcome, Network, OutgoingRequest};
use super::watching::{AlteredEvents, StreamEnd, StreamFaults, StreamKind, WatchState};

/// Where a controller dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrashPoint {
    /// At once, whatever it does.
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

impl CrashPoint {
    /// Every point.
    pub const ALL: [CrashPoint; 7] = [
        CrashPoint::Now,
        CrashPoint::BeforeRequest,
        CrashPoint::AfterRequest,
        CrashPoint::AfterCommit,
        CrashPoint::AfterAnswer,
        CrashPoint::AfterEvent,
        CrashPoint::AfterTake,
    ];
}

/// A request that nobody waits for any more and that reaches the server all the same.
#[derive(Clone, Debug)]
pub struct OrphanedRequest {
    /// When it reaches the server, ns.
    pub due_ns: i64,
    /// Who sent it.
    pub incarnation: u32,
    /// What its controller looks after.
    pub kind: Kind,
    /// Its sync's number.
    pub sync: u64,
    /// Whether whoever sent it is still alive.
    pub answered: bool,
    /// What it asks for.
    pub request: Request,
}

/// One controller's connection.
pub struct Connection {
    network: Arc<Network>,
    incarnation: u32,
    state: Mutex<ConnectionState>,
    /// Called when the line dies, and when a request has gone astray.
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
    /// Where to die, and how often to pass there before.
    crash: Option<(CrashPoint, u32)>,
    /// Whose crash that is.
    crash_fault_id: Option<FaultId>,
    pods: StreamFaults,
    parents: StreamFaults,
    replication_controllers: StreamFaults,
    others: StreamFaults,
    orphaned: Vec<OrphanedRequest>,
    dropped: [u64; StreamKind::COUNT],
    repeated: [u64; StreamKind::COUNT],
}

impl ConnectionState {
    fn streams(&mut self) -> [&mut StreamFaults; StreamKind::COUNT] {
        [
            &mut self.pods,
            &mut self.parents,
            &mut self.replication_controllers,
            &mut self.others,
        ]
    }
}

impl Connection {
    /// A line on that network; `told` is called when something has to be looked after: the line is
    /// dead, or a request has gone astray.
    pub fn new(network: Arc<Network>, incarnation: u32, waker: Waker) -> Connection {
        Connection {
            network,
            incarnation,
            state: Mutex::default(),
            waker,
        }
    }

    fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }

    /// Counts the controllers of a run, from 0.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// What is armed against requests.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The controller dies: none of its parts does anything any more.
    pub fn die(&self) {
        self.state().dead = true;
        (self.waker)();
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// The controller dies when it is about to pass that point for the `passes`-th time from now,
    /// counting from 0.
    pub fn crash_at(&self, point: CrashPoint, passes: u32) {
        let fault_id = self.network.fault_id();
        if point == CrashPoint::Now {
            self.network.note_death(fault_id);
            return self.die();
        }
        let mut state = self.state();
        (state.crash, state.crash_fault_id) = (Some((point, passes)), fault_id);
    }

    /// Whether a crash is armed.
    pub fn will_crash(&self) -> bool {
        self.state().crash.is_some()
    }

    /// The controller passes a point; whether it is dead there.
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

    /// Nothing of the controller runs before that moment, ns.
    pub fn pause_until(&self, until_ns: i64) {
        let fault_id = self.network.fault_id();
        let mut guard = self.state();
        let state = &mut *guard;
        state.paused_until_ns = until_ns;
        for stream in state.streams() {
            stream.fault_ids.held.extend(fault_id);
        }
    }

    /// For a part about to run: until when it must not, `i64::MAX` when never again.
    pub fn stopped_until(&self, now: Now) -> Option<i64> {
        let state = self.state();
        if state.dead {
            return Some(i64::MAX);
        }
        (state.paused_until_ns > now.mono_ns).then_some(state.paused_until_ns)
    }

    /// The controller's wall clock is so far off, ns.
    pub fn set_wall_offset(&self, offset_ns: i64) {
        self.state().wall_offset_ns = offset_ns;
    }

    /// The present as the controller's clock has it.
    pub fn clock(&self, now: Now) -> Now {
        Now {
            mono_ns: now.mono_ns,
            wall_ns: now.wall_ns.saturating_add(self.state().wall_offset_ns),
        }
    }

    /// What becomes of a request about to be sent.
    pub fn inject(&self, sent: &OutgoingRequest<'_>, now: Now) -> InjectedOutcome {
        self.network.inject(sent, now.mono_ns)
    }

    /// A request that goes on alone.
    pub fn orphan(&self, orphan: OrphanedRequest) {
        self.state().orphaned.push(orphan);
        (self.waker)();
    }

    /// The requests that went astray since the last call.
    pub fn take_orphaned(&self) -> Vec<OrphanedRequest> {
        std::mem::take(&mut self.state().orphaned)
    }

    /// Changes what is armed against a watch.
    fn with_stream<T>(&self, kind: StreamKind, change: impl FnOnce(&mut StreamFaults) -> T) -> T {
        let mut state = self.state();
        match kind {
            StreamKind::Pods => change(&mut state.pods),
            StreamKind::Parents => change(&mut state.parents),
            StreamKind::ReplicationControllers => change(&mut state.replication_controllers),
            StreamKind::Others => change(&mut state.others),
        }
    }

    /// Nothing is heard on a watch before that moment, ns; a moment in the past releases it.
    pub fn hold(&self, kind: StreamKind, until_ns: i64) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream.held_until_ns = until_ns;
            stream.fault_ids.held.extend(fault_id);
        });
    }

    /// Nothing is heard on a watch any more, whatever is healed.
    pub fn break_for_good(&self, kind: StreamKind) {
        self.with_stream(kind, |stream| stream.broken = true);
    }

    /// The next events of a watch are lost.
    pub fn drop_events(&self, kind: StreamKind, count: u32) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream.drop += count;
            stream.fault_ids.dropped.extend(fault_id);
        });
    }

    /// The next events of a watch come twice.
    pub fn duplicate_events(&self, kind: StreamKind, count: u32) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream.duplicate += count;
            stream.fault_ids.repeated.extend(fault_id);
        });
    }

    /// The last events of a watch, eight at most, come again after the next ones.
    pub fn replay_events(&self, kind: StreamKind, count: u32) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream.replay = count;
            stream.fault_ids.repeated.extend(fault_id);
        });
    }

    /// A watch ends.
    pub fn end(&self, kind: StreamKind, end: StreamEnd) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream.end = Some(end);
            stream.fault_ids.ended.extend(fault_id);
        });
    }

    /// The watch that was to end has done so, if it was open.
    pub fn ended(&self, kind: StreamKind, was_open: bool) {
        let fault_ids =
            self.with_stream(kind, |stream| std::mem::take(&mut stream.fault_ids.ended));
        if was_open {
            self.network.notice(fault_ids);
        }
    }

    /// The next attempts to open a watch or to list are answered so.
    pub fn refuse_open(&self, kind: StreamKind, fault: ApiFault, times: u32) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream
                .refuse_open
                .extend(std::iter::repeat_n(fault, times as usize));
            stream.fault_ids.refused.extend(fault_id);
        });
    }

    /// The next list, or initial watch, is served from a state so many versions old.
    pub fn lag(&self, kind: StreamKind, versions: u64) {
        self.lag_for(kind, versions, 0);
    }

    /// As [`lag`](Connection::lag), and the server that serves it shows nothing newer for so long, ns.
    pub fn lag_for(&self, kind: StreamKind, versions: u64, for_ns: i64) {
        let fault_id = self.network.fault_id();
        self.with_stream(kind, |stream| {
            stream.lag = Some(versions);
            stream.lag_ns = for_ns;
            stream.fault_ids.lagging.extend(fault_id);
        });
    }

    /// Nothing goes wrong with the watches and the clock any more; what was lost is made up for by
    /// a new list. What has been killed stays so.
    pub fn heal(&self) {
        let mut guard = self.state();
        let state = &mut *guard;
        state.paused_until_ns = i64::MIN;
        state.wall_offset_ns = 0;
        state.crash = None;
        for stream in state.streams() {
            let (incomplete, broken) = (stream.incomplete, stream.broken);
            *stream = StreamFaults {
                broken,
                initial: stream.initial,
                ..StreamFaults::default()
            };
            stream.end = incomplete.then_some(StreamEnd::Expired);
        }
    }

    /// For an informer about to listen.
    pub fn watch_state(&self, kind: StreamKind, is_open: bool, now: Now) -> WatchState {
        self.with_stream(kind, |stream| stream.watch_state(now.mono_ns, is_open))
    }

    /// For an informer about to open a watch or to list: the error it gets instead, if any.
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

    /// For an informer about to list or to watch from the start: how old the state is that it gets.
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

    /// For an informer whose watch is open: whether it begins with the state that is.
    pub fn opened(&self, kind: StreamKind, initial_events: bool) {
        self.with_stream(kind, |stream| stream.initial = initial_events);
    }

    /// A list, or the state that a watch begins with, is here as a whole: it makes up for what was lost.
    pub fn listed(&self, kind: StreamKind) {
        self.with_stream(kind, |stream| stream.incomplete = false);
    }

    /// The list or initial state that was served by a server that lags is here; whether it lacks
    /// something.
    pub fn lagged(&self, kind: StreamKind, lacks: bool) {
        let fault_ids =
            self.with_stream(kind, |stream| std::mem::take(&mut stream.fault_ids.lagging));
        if lacks {
            self.network.notice(fault_ids);
        }
    }

    /// Whether events were lost that no list has made up for.
    pub fn is_incomplete(&self, kind: StreamKind) -> bool {
        self.with_stream(kind, |stream| stream.incomplete)
    }

    /// Changes a batch of events that an informer has heard; `kept` is the informer's memory for
    /// them.
    pub fn alter<T: ?Sized>(
        &self,
        kind: StreamKind,
        events: &mut Vec<WatchEvent<T>>,
        kept: &mut VecDeque<WatchEvent<T>>,
    ) -> AlteredEvents {
        let is_change = |event: &WatchEvent<T>| !matches!(event, WatchEvent::Bookmark { .. });
        let heard = events.iter().any(is_change);
        let (altered, noticed) = self.with_stream(kind, |stream| {
            let altered = stream.alter(events, kept);
            let fault_ids = &mut stream.fault_ids;
            let mut noticed = Vec::new();
            // Held back until now, or nothing was.
            let held = std::mem::take(&mut fault_ids.held);
            noticed.extend(held.into_iter().filter(|_| heard));
            if altered.dropped > 0 {
                noticed.append(&mut fault_ids.dropped);
            }
            if altered.repeated > 0 {
                noticed.append(&mut fault_ids.repeated);
            }
            (altered, noticed)
        });
        self.network.notice(noticed);
        if altered != AlteredEvents::default() {
            let mut state = self.state();
            state.dropped[kind as usize] += u64::from(altered.dropped);
            state.repeated[kind as usize] += u64::from(altered.repeated);
        }
        altered
    }

    /// Events lost and events repeated so far, of all watches.
    pub fn altered_events(&self) -> (u64, u64) {
        let state = self.state();
        (state.dropped.iter().sum(), state.repeated.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        Connection::new(Arc::default(), 0, Arc::new(|| {}))
    }

    #[test]
    fn a_controller_dies_at_the_point_it_was_told_to() {
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
        connection.drop_events(StreamKind::Pods, 1);
        let mut events = vec![WatchEvent::Added(Arc::new(()))];
        connection.alter(StreamKind::Pods, &mut events, &mut VecDeque::new());
        connection.take_lag(StreamKind::Pods, now);
        connection.opened(StreamKind::Pods, true);
        assert!(connection.is_incomplete(StreamKind::Pods));
        connection.listed(StreamKind::Pods);
        assert!(!connection.is_incomplete(StreamKind::Pods));
    }

    #[test]
    fn healing_lists_anew_where_events_were_lost() {
        let connection = connection();
        connection.drop_events(StreamKind::Pods, 1);
        connection.hold(StreamKind::Parents, 100);
        let pod = Arc::new(());
        let mut events = vec![WatchEvent::Added(pod)];
        let mut kept = VecDeque::new();
        connection.alter(StreamKind::Pods, &mut events, &mut kept);
        assert!(events.is_empty() && connection.is_incomplete(StreamKind::Pods));
        connection.heal();
        let now = Now::default();
        assert_eq!(
            connection.watch_state(StreamKind::Pods, true, now),
            WatchState::Ended(StreamEnd::Expired)
        );
        assert_eq!(
            connection.watch_state(StreamKind::Parents, true, now),
            WatchState::Open
        );
    }

    #[test]
    fn a_held_watch_is_noticed_only_where_something_was_held_back() {
        for held_back in [true, false] {
            let connection = connection();
            connection.network().set_fault_id(Some(7));
            connection.hold(StreamKind::Pods, 100);
            connection.drop_events(StreamKind::Parents, 1);
            let pods = held_back.then(|| WatchEvent::Added(Arc::new(())));
            let mut events: Vec<_> = pods.into_iter().collect();
            connection.alter(StreamKind::Pods, &mut events, &mut VecDeque::new());
            let noticed: Vec<FaultId> = connection.network().take_noticed().into_iter().collect();
            assert_eq!(noticed, if held_back { vec![7] } else { vec![] });
            // What comes later was not held back, and a list makes up for what would be lost.
            let mut events = vec![WatchEvent::Added(Arc::new(()))];
            connection.alter(StreamKind::Pods, &mut events, &mut VecDeque::new());
            connection.take_lag(StreamKind::Parents, Now::default());
            connection.alter(StreamKind::Parents, &mut events, &mut VecDeque::new());
            assert!(connection.network().take_noticed().is_empty());
        }
    }

    #[test]
    fn a_watch_that_ends_is_noticed_where_it_was_open_and_a_lag_where_something_is_missing() {
        let connection = connection();
        connection.network().set_fault_id(Some(7));
        for is_noticed in [true, false] {
            connection.end(StreamKind::Pods, StreamEnd::Closed);
            connection.ended(StreamKind::Pods, is_noticed);
            assert_eq!(
                connection.network().take_noticed().len(),
                usize::from(is_noticed)
            );
            connection.lag(StreamKind::Pods, 3);
            connection.lagged(StreamKind::Pods, is_noticed);
            assert_eq!(
                connection.network().take_noticed().len(),
                usize::from(is_noticed)
            );
        }
    }
}
