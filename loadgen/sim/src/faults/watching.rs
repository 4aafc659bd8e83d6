//! Faults of watches: a watch stalls, ends, is served from an older state, loses events or repeats
//! them. Events of one object keep their order, except repeated ones.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter, Write};

use podstorm::client::WatchEvent;
use podstorm::row::{ControllerRow, RunsIn};
use podstorm_objects::Kind;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::answer::ApiFault;
use super::network::FaultId;
use crate::rows::Rows;

/// The number of last events that are kept to be repeated.
const KEPT: usize = 8;

/// The watch of a kind. Schedules name it by the kind: `pods`, `replica-sets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKind(Kind);

impl StreamKind {
    /// The watch of a kind.
    pub const fn of(kind: Kind) -> StreamKind {
        StreamKind(kind)
    }

    /// The kind.
    pub const fn kind(self) -> Kind {
        self.0
    }

    /// Every watch of the installed controllers that run outside served clusters, that of pods first.
    pub fn all() -> Vec<StreamKind> {
        let mut all = vec![StreamKind(Kind::POD)];
        let rows = Rows::installed().iter();
        for kind in rows
            .filter(|row| row.runs_in == RunsIn::Manager && !row.served_only)
            .flat_map(ControllerRow::watched)
        {
            if !all.contains(&StreamKind(kind)) {
                all.push(StreamKind(kind));
            }
        }
        all
    }
}

impl Display for StreamKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, c) in self.0.name().char_indices() {
            if at > 0 && c.is_ascii_uppercase() {
                f.write_char('-')?;
            }
            f.write_char(c.to_ascii_lowercase())?;
        }
        f.write_char('s')
    }
}

impl Serialize for StreamKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StreamKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        // Once the controller of Deployments had a watch of ReplicaSets of its own.
        let name = match &*name {
            "deployment-replica-sets" => "replica-sets",
            name => name,
        };
        let all = StreamKind::all();
        let found = all.iter().find(|stream| stream.to_string() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(StreamKind::to_string).collect();
            D::Error::custom(format!(
                "no controller watches {name:?}; there are {}",
                names.join(", ")
            ))
        })
    }
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamEnd {
    /// The connection closes.
    Closed,
    /// The server sends 410.
    Expired,
    /// The server sends 500.
    InternalError,
    /// The connection closes, and the reopened watch gets 410.
    ClosedAndExpired,
}

/// The faults armed against one watch.
#[derive(Clone, Debug, Default)]
pub struct StreamFaults {
    /// Events are held back until this moment, ns.
    pub(super) held_until_ns: i64,
    /// The number of next events to lose.
    pub(super) drop: u32,
    /// The number of next events to deliver twice.
    pub(super) duplicate: u32,
    /// The number of last events to deliver again, once.
    pub(super) replay: u32,
    /// How the watch is to end now.
    pub(super) end: Option<StreamEnd>,
    /// The answers to the next attempts to open it.
    pub(super) refuse_open: VecDeque<ApiFault>,
    /// How many versions old the state of the next list or initial watch is.
    pub(super) lag: Option<u64>,
    /// How long the server then shows nothing newer, ns.
    pub(super) lag_ns: i64,
    /// Events are held back without a limit.
    pub(super) broken: bool,
    /// Events were lost and no list has made up for them yet.
    pub(super) incomplete: bool,
    /// The watch still delivers its initial state, which is complete like a list, so no event of it
    /// is lost.
    pub(super) initial: bool,
    /// The numbers of these faults.
    pub(super) fault_ids: FaultIds,
}

/// The numbers of the faults armed against one watch.
#[derive(Clone, Debug, Default)]
pub(super) struct FaultIds {
    pub(super) held: Vec<FaultId>,
    pub(super) dropped: Vec<FaultId>,
    pub(super) repeated: Vec<FaultId>,
    pub(super) ended: Vec<FaultId>,
    pub(super) refused: Vec<FaultId>,
    pub(super) lagging: Vec<FaultId>,
}

/// The state of a watch before an informer takes events from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Events are delivered.
    Open,
    /// Events are held back until that moment, ns.
    HeldUntil(i64),
    /// The watch has ended.
    Ended(StreamEnd),
}

impl StreamFaults {
    /// The state of the watch. An armed end waits until the watch is open.
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

    /// Alters a batch of events. `kept` holds the last events of the batches before.
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
                // The initial state came in no order of versions: it is not repeated.
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
    /// Events repeated.
    pub repeated: u32,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn batch(names: &[&'static str]) -> Vec<WatchEvent<&'static str>> {
        let modified = |name: &&'static str| WatchEvent::Modified(Arc::new(*name));
        names.iter().map(modified).collect()
    }

    fn names(events: &[WatchEvent<&'static str>]) -> Vec<&'static str> {
        let name = |event: &WatchEvent<&'static str>| match event {
            WatchEvent::Modified(name) => **name,
            _ => "?",
        };
        events.iter().map(name).collect()
    }

    #[test]
    fn a_watch_is_named_by_its_kind_in_schedules() {
        for stream in StreamKind::all() {
            let written = serde_json::to_value(stream).unwrap();
            assert_eq!(written, stream.to_string());
            let read: StreamKind = serde_json::from_value(written).unwrap();
            assert_eq!(read, stream);
        }
        let older: StreamKind = serde_json::from_str(r#""deployment-replica-sets""#).unwrap();
        assert_eq!(older, StreamKind::of(Kind::REPLICA_SET));
        let refused = serde_json::from_str::<StreamKind>(r#""secrets""#).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("there are pods, replica-sets,"),
            "{refused}"
        );
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

    /// Seed 9065482: an object was missing in a state that was said to be whole, and taken for
    /// deleted.
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
        let state = faults.watch_state(5, false);
        assert_eq!(state, WatchState::Open, "there is none to end");
        let ended = WatchState::Ended(StreamEnd::ClosedAndExpired);
        assert_eq!(faults.watch_state(5, true), ended);
        assert_eq!(faults.refuse_open, [ApiFault::Gone]);
        assert_eq!(faults.watch_state(5, true), WatchState::Open);
    }
}
