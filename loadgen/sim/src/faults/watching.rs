//! What can go wrong with a watch: it stalls, ends, is served from the past, and loses or repeats
//! events. Events of one object keep their order, but for those that are repeated.

use std::collections::VecDeque;

use podstorm::client::WatchEvent;
use podstorm_objects::Kind;
use serde::{Deserialize, Serialize};

use super::answer::ApiFault;
use super::network::FaultId;

/// How many of the last events are kept to be sent again.
const KEPT: usize = 8;

/// The watches of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// The pods'.
    Pods,
    /// The ReplicaSets'.
    Parents,
    /// The ReplicationControllers'.
    ReplicationControllers,
    /// The objects' of any other workload.
    Others,
}

impl StreamKind {
    /// How many there are.
    pub(super) const COUNT: usize = StreamKind::ALL.len() + 1;

    /// The watch of the objects that a controller looks after.
    pub fn of(owners: Kind) -> StreamKind {
        if owners == Kind::REPLICA_SET {
            StreamKind::Parents
        } else if owners == Kind::REPLICATION_CONTROLLER {
            StreamKind::ReplicationControllers
        } else {
            StreamKind::Others
        }
    }

    /// Every watch of the controllers of this project.
    pub const ALL: [StreamKind; 3] = [
        StreamKind::Pods,
        StreamKind::Parents,
        StreamKind::ReplicationControllers,
    ];
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamEnd {
    /// The connection closes.
    Closed,
    /// 410 within the stream.
    Expired,
    /// 500 within the stream.
    InternalError,
    /// The connection closes, and the version is gone when the watch is opened again.
    ClosedAndExpired,
}

/// What is armed against one watch.
#[derive(Clone, Debug, Default)]
pub struct StreamFaults {
    /// Nothing is heard before this moment, ns.
    pub(super) held_until_ns: i64,
    /// So many of the next events are lost.
    pub(super) drop: u32,
    /// So many of the next events come twice.
    pub(super) duplicate: u32,
    /// So many of the last events come again, once.
    pub(super) replay: u32,
    /// The watch ends now.
    pub(super) end: Option<StreamEnd>,
    /// The next attempts to open it are answered so.
    pub(super) refuse_open: VecDeque<ApiFault>,
    /// The next list or initial watch is served from a state so many versions old.
    pub(super) lag: Option<u64>,
    /// For how long after that the server shows nothing newer, ns.
    pub(super) lag_ns: i64,
    /// Nothing is heard any more.
    pub(super) broken: bool,
    /// Events were lost and no list has made up for it yet.
    pub(super) incomplete: bool,
    /// The watch still sends the state at its beginning, which is whole, as a list is, or none.
    pub(super) initial: bool,
    /// Whose faults all of these are.
    pub(super) fault_ids: FaultIds,
}

/// Whose faults are armed against one watch.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultIds {
    pub(super) held: Vec<FaultId>,
    pub(super) dropped: Vec<FaultId>,
    pub(super) repeated: Vec<FaultId>,
    pub(super) ended: Vec<FaultId>,
    pub(super) refused: Vec<FaultId>,
    pub(super) lagging: Vec<FaultId>,
}

/// What an informer is to do before it listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// As always.
    Open,
    /// Not before that moment, ns.
    HeldUntil(i64),
    /// The watch ends so.
    Ended(StreamEnd),
}

impl StreamFaults {
    /// Whether nothing is armed.
    pub fn is_clear(&self) -> bool {
        self.drop == 0 && self.duplicate == 0 && self.replay == 0
    }

    /// What an informer is to do whose watch is open or (`is_open` is false) is to be opened again: then
    /// the end that is armed waits for it.
    pub(super) fn watch_state(&mut self, now_ns: i64, is_open: bool) -> WatchState {
        if self.broken {
            return WatchState::HeldUntil(i64::MAX);
        }
        if self.held_until_ns > now_ns {
            return WatchState::HeldUntil(self.held_until_ns);
        }
        match self.end.take_if(|_| is_open) {
            Some(end) => {
                if end == StreamEnd::ClosedAndExpired {
                    self.refuse_open.push_back(ApiFault::Gone);
                }
                WatchState::Ended(end)
            }
            None => WatchState::Open,
        }
    }

    /// Changes a batch of events. `kept` holds the last ones of the batches before.
    pub(super) fn alter<T: ?Sized>(
        &mut self,
        events: &mut Vec<WatchEvent<T>>,
        kept: &mut VecDeque<WatchEvent<T>>,
    ) -> AlteredEvents {
        let mut altered = AlteredEvents::default();
        let mut out = Vec::with_capacity(events.len());
        for event in events.drain(..) {
            if let WatchEvent::Bookmark {
                initial_events_end: true,
                ..
            } = event
            {
                // The state before it came in no order of versions: it is not sent again.
                kept.clear();
                self.initial = false;
            }
            let is_change = !self.initial
                && matches!(
                    event,
                    WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)
                );
            if is_change && self.drop > 0 {
                self.drop -= 1;
                self.incomplete = true;
                altered.dropped += 1;
                continue;
            }
            if is_change {
                if kept.len() == KEPT {
                    kept.pop_front();
                }
                kept.push_back(event.clone());
                if self.duplicate > 0 {
                    self.duplicate -= 1;
                    altered.repeated += 1;
                    out.push(event.clone());
                }
            }
            out.push(event);
        }
        let replay = std::mem::take(&mut self.replay) as usize;
        let from = kept.len().saturating_sub(replay);
        for event in kept.iter().skip(from) {
            altered.repeated += 1;
            out.push(event.clone());
        }
        *events = out;
        altered
    }
}

/// What was done to a batch of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlteredEvents {
    /// Events lost.
    pub dropped: u32,
    /// Events that came again.
    pub repeated: u32,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn batch(names: &[&'static str]) -> Vec<WatchEvent<&'static str>> {
        names
            .iter()
            .map(|name| WatchEvent::Modified(Arc::new(*name)))
            .collect()
    }

    fn names(events: &[WatchEvent<&'static str>]) -> Vec<&'static str> {
        let name = |event: &WatchEvent<&'static str>| match event {
            WatchEvent::Modified(name) => **name,
            _ => "?",
        };
        events.iter().map(name).collect()
    }

    #[test]
    fn events_are_dropped_doubled_and_sent_again_in_their_order() {
        let mut kept = VecDeque::new();
        let mut faults = StreamFaults {
            drop: 1,
            duplicate: 1,
            ..StreamFaults::default()
        };
        let mut events = batch(&["a", "b", "c"]);
        let altered = faults.alter(&mut events, &mut kept);
        assert_eq!(names(&events), ["b", "b", "c"]);
        assert_eq!((altered.dropped, altered.repeated), (1, 1));
        assert!(faults.incomplete);
        faults.replay = 2;
        let mut events = batch(&["d"]);
        faults.alter(&mut events, &mut kept);
        assert_eq!(names(&events), ["d", "c", "d"]);
    }

    /// Seed 9065482: an object was missing in a state that was said to be whole, and taken for deleted.
    #[test]
    fn the_state_at_the_beginning_of_a_watch_is_whole() {
        let mut kept = VecDeque::new();
        let mut faults = StreamFaults {
            drop: 1,
            initial: true,
            ..StreamFaults::default()
        };
        let mut events = batch(&["a"]);
        events.push(WatchEvent::Bookmark {
            version: 7.into(),
            initial_events_end: true,
        });
        events.extend(batch(&["b", "c"]));
        let altered = faults.alter(&mut events, &mut kept);
        assert_eq!(names(&events), ["a", "?", "c"]);
        assert_eq!(altered.dropped, 1);
    }

    #[test]
    fn a_watch_is_held_until_its_moment_and_then_ends_if_it_was_to() {
        let mut faults = StreamFaults {
            held_until_ns: 5,
            end: Some(StreamEnd::ClosedAndExpired),
            ..StreamFaults::default()
        };
        assert_eq!(faults.watch_state(4, true), WatchState::HeldUntil(5));
        assert_eq!(
            faults.watch_state(5, false),
            WatchState::Open,
            "there is none to end"
        );
        assert_eq!(
            faults.watch_state(5, true),
            WatchState::Ended(StreamEnd::ClosedAndExpired)
        );
        assert_eq!(faults.refuse_open, [ApiFault::Gone]);
        assert_eq!(faults.watch_state(5, true), WatchState::Open);
    }
}
