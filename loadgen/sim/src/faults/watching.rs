//! Watch faults: a watch stalls, ends, serves an older state, or loses or repeats events. Events of
//! one object keep their order, except for repeated events.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};

use podstorm::client::WatchEvent;
use podstorm::row::{ControllerRow, RunsIn};
use podstorm_objects::Kind;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::answer::ApiFault;
use super::network::FaultId;
use crate::rows::Rows;

/// The number of recent events of a watch that are kept for repetition.
const KEPT: usize = 8;

/// The watch of a kind. Schedules name a watch after its kind: `pods`, `replica-sets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKind(Kind);

impl StreamKind {
    /// Returns the watch of a kind.
    pub const fn from_kind(kind: Kind) -> StreamKind {
        StreamKind(kind)
    }

    /// Returns the kind of the watched objects.
    pub const fn kind(self) -> Kind {
        self.0
    }

    /// Returns every watch of the installed controllers that also run outside served clusters. The
    /// watch of pods comes first.
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
        write!(f, "{}s", hyphenated(self.0))
    }
}

/// Returns the name of a kind in lower case with hyphens: `replica-set`.
pub fn hyphenated(kind: Kind) -> String {
    let mut name = String::new();
    for c in kind.name().chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

impl Serialize for StreamKind {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StreamKind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        // Old schedules name a separate watch of ReplicaSets for the Deployment controller.
        let name = match &*name {
            "deployment-replica-sets" => "replica-sets",
            name => name,
        };
        let all = StreamKind::all();
        let found = all.iter().find(|stream| stream.to_string() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(StreamKind::to_string).collect();
            D::Error::custom(format!(
                "no controller watches {name:?}; expected one of {}",
                names.join(", ")
            ))
        })
    }
}

/// The way in which a watch ends.
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
    /// The monotonic time until which events are held back, ns.
    pub(super) held_until_ns: i64,
    /// The number of upcoming events to drop.
    pub(super) drop: u32,
    /// The number of upcoming events to deliver twice.
    pub(super) duplicate: u32,
    /// The number of recent events to deliver again with the next batch.
    pub(super) replay: u32,
    /// The armed end of the watch, if any.
    pub(super) end: Option<StreamEnd>,
    /// The answers to the next attempts to open the watch.
    pub(super) refuse_open: VecDeque<ApiFault>,
    /// The lag of the next list or initial watch, in versions.
    pub(super) lag: Option<u64>,
    /// The time for which the watch delivers no events after that list or initial state, ns.
    pub(super) lag_ns: i64,
    /// Whether events are held back indefinitely.
    pub(super) broken: bool,
    /// Reports whether events were lost since the last complete list.
    pub(super) incomplete: bool,
    /// Whether the watch is still delivering its initial state. Like a list, the initial state is
    /// complete, so none of its events is lost.
    pub(super) initial: bool,
    /// The IDs of the armed faults.
    pub(super) fault_ids: FaultIds,
}

/// The IDs of the faults armed against one watch.
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
    /// Events are held back until the given time, ns.
    HeldUntil(i64),
    /// The watch has ended.
    Ended(StreamEnd),
}

impl StreamFaults {
    /// Returns the state of the watch. An armed end waits until the watch is open, and is disarmed
    /// when it is returned.
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

    /// Applies the armed faults to a batch of events. `kept` holds the last events of the previous
    /// batches, and is updated.
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
                // The initial state is not in version order, so it is not repeated.
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

/// The changes that faults made to a batch of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlteredEvents {
    /// The number of lost events.
    pub dropped: u32,
    /// The number of repeated events.
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
    fn schedules_name_a_watch_after_its_kind() {
        for stream in StreamKind::all() {
            let written = serde_json::to_value(stream).unwrap();
            assert_eq!(written, stream.to_string());
            let read: StreamKind = serde_json::from_value(written).unwrap();
            assert_eq!(read, stream);
        }
        let older: StreamKind = serde_json::from_str(r#""deployment-replica-sets""#).unwrap();
        assert_eq!(older, StreamKind::from_kind(Kind::REPLICA_SET));
        let refused = serde_json::from_str::<StreamKind>(r#""secrets""#).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("expected one of pods, replica-sets,"),
            "{refused}"
        );
    }

    #[test]
    fn events_are_dropped_repeated_and_replayed_in_order() {
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

    /// Seed 9065482: an initial state lacked an object, which the informer then treated as deleted.
    #[test]
    fn the_initial_state_of_a_watch_is_complete() {
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
    fn an_armed_end_waits_until_the_watch_is_released_and_open() {
        let mut faults = StreamFaults {
            held_until_ns: 5,
            end: Some(StreamEnd::ClosedAndExpired),
            ..StreamFaults::default()
        };
        assert_eq!(faults.watch_state(4, true), WatchState::HeldUntil(5));
        let state = faults.watch_state(5, false);
        assert_eq!(state, WatchState::Open, "no watch is open");
        let ended = WatchState::Ended(StreamEnd::ClosedAndExpired);
        assert_eq!(faults.watch_state(5, true), ended);
        assert_eq!(faults.refuse_open, [ApiFault::Gone]);
        assert_eq!(faults.watch_state(5, true), WatchState::Open);
    }
}
