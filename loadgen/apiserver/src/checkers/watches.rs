//! Checks watches against the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Object, WatchEvent};

use super::history::{same, shown};
use super::{History as Committed, Violation, Violations};
use crate::{Change, ClusterResource, Commit, History, WatchFrom};

/// A watch and the events that it has delivered.
#[derive(Clone, Debug)]
pub(crate) struct RecordedWatch<R> {
    /// The requested starting point.
    pub(crate) from: WatchFrom,
    /// The version of the server when the watch was opened.
    pub(crate) opened_at: u64,
    /// All events, in order.
    pub(crate) events: Vec<WatchEvent<R>>,
    /// The version of the server when the watch was last polled.
    pub(crate) polled_at: u64,
    /// The version up to which all events must have been delivered: the server's version when the
    /// watch was last drained without a delayed event, or 0.
    pub(crate) drained_at: u64,
}

/// The part of the history that the server may have dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// The minimum and maximum number of events that the server keeps.
    pub(crate) history: History,
    /// The server's versions at the compactions of each kind.
    pub(crate) compactions: BTreeMap<Kind, Vec<u64>>,
}

impl Window {
    /// Records a compaction.
    pub(crate) fn compacted(&mut self, kind: Kind, version: u64) {
        self.compactions.entry(kind).or_default().push(version);
    }
}

impl<R: ClusterResource> RecordedWatch<R> {
    /// Creates a recorded watch without events.
    pub(crate) fn new(from: WatchFrom, opened_at: u64) -> RecordedWatch<R> {
        RecordedWatch {
            from,
            opened_at,
            events: Vec::new(),
            polled_at: opened_at,
            drained_at: 0,
        }
    }
}

impl Committed {
    /// Checks a watch of all objects of a kind: see [`check_watch_of`].
    ///
    /// [`check_watch_of`]: Committed::check_watch_of
    pub(crate) fn check_watch<R: ClusterResource>(
        &self,
        watch: &RecordedWatch<R>,
        window: &Window,
    ) -> Vec<Violation> {
        self.check_watch_of(watch, window, |_| true)
    }

    /// Checks a watch of the objects that `selects` accepts. If requested, it begins with the state
    /// at one version and marks the end of that state once. All later events follow in order, and
    /// none is missing, repeated or changed. An object that becomes selected is added. An object
    /// that is no longer selected is deleted, in its last selected state with the version of the
    /// change. A bookmark's version is at most the server's, and all events up to that version have
    /// been delivered. An error ends the watch; a 410 is valid only if the history does not reach
    /// back.
    pub(crate) fn check_watch_of<R: ClusterResource>(
        &self,
        watch: &RecordedWatch<R>,
        window: &Window,
        selects: impl Fn(&R) -> bool,
    ) -> Vec<Violation> {
        let mut broken = Violations::default();
        let Some((start, rest)) = self.check_initial(watch, &selects, &mut broken) else {
            return broken.0;
        };
        let mut expected = self.expected(start, &selects).peekable();
        // All events up to this version have been delivered.
        let mut last = start;
        for (position, event) in rest.iter().enumerate() {
            let delivered = match event {
                WatchEvent::Added(object) => (Change::Added, object),
                WatchEvent::Modified(object) => (Change::Modified, object),
                WatchEvent::Deleted(object) => (Change::Deleted, object),
                WatchEvent::Bookmark {
                    version,
                    initial_events_end,
                } => {
                    let version = version.number().unwrap_or(0);
                    broken.unless(!initial_events_end, "one end of the initial state", || {
                        format!("there is another one at {version}")
                    });
                    broken.unless(version >= last, "bookmark", || {
                        format!("{version} comes after {last}")
                    });
                    let server = watch.polled_at.max(start);
                    broken.unless(version <= server, "bookmark", || {
                        format!("{version} is ahead of the server, which is at {server}")
                    });
                    if let Some(hidden) = expected.next_if(|it| it.version <= version) {
                        let hidden = hidden.version;
                        broken.add(
                            "bookmark",
                            format!("{version} passes the event at {hidden}"),
                        );
                        return broken.0;
                    }
                    last = last.max(version);
                    continue;
                }
                WatchEvent::Error(error) => {
                    broken.unless(position + 1 == rest.len(), "error ends the watch", || {
                        format!("{} events follow", rest.len() - position - 1)
                    });
                    self.check_error::<R>(error, last, (watch, window), &mut broken);
                    return broken.0;
                }
            };
            let Some(wanted) = expected.next() else {
                let found = shown(&**delivered.1);
                broken.add("events", format!("{found} is not an event after {last}"));
                return broken.0;
            };
            if !wanted.is(delivered.0, delivered.1) {
                let (change, found) = (delivered.0, shown(&**delivered.1));
                let what = format!("after {last}: found {change:?} {found} instead of {wanted}");
                broken.add("events", what);
                return broken.0;
            }
            last = wanted.version;
        }
        if let Some(missing) = expected.next_if(|it| it.version <= watch.drained_at) {
            let drained = watch.drained_at;
            broken.add("events", format!("drained at {drained} without {missing}"));
        }
        broken.0
    }

    /// Checks the refusal to open a watch from `version`, or to list its state, by a server at
    /// version `opened_at`.
    pub(crate) fn check_refusal<R: ClusterResource>(
        &self,
        version: u64,
        opened_at: u64,
        error: &ApiError,
        window: &Window,
    ) -> Vec<Violation> {
        let mut broken = Violations::default();
        match error.code {
            410 => {
                let least = window.history.min_events;
                self.check_expired::<R>(version, opened_at, (least, window), &mut broken);
            }
            504 => broken.unless(version > opened_at, "too new", || {
                format!("{version} was refused although the server was at {opened_at}")
            }),
            code => broken.add(
                "refusal",
                format!("unexpected code {code}: {}", error.message),
            ),
        }
        broken.0
    }

    /// Checks the initial state of a watch. Returns the version of the state and the events that
    /// follow it; `None` if they can't be determined.
    fn check_initial<'a, R: ClusterResource>(
        &self,
        watch: &'a RecordedWatch<R>,
        selects: &impl Fn(&R) -> bool,
        broken: &mut Violations,
    ) -> Option<(u64, &'a [WatchEvent<R>])> {
        let least = match watch.from {
            WatchFrom::Version(version) => return Some((version, &watch.events)),
            WatchFrom::Initial => watch.opened_at,
            WatchFrom::InitialAsOf(version) => version,
        };
        let mut state: Vec<Arc<R>> = Vec::new();
        for (position, event) in watch.events.iter().enumerate() {
            match event {
                WatchEvent::Added(object) => state.push(object.clone()),
                WatchEvent::Bookmark {
                    version,
                    initial_events_end: true,
                } => {
                    let version = version.number().unwrap_or(0);
                    let fits = match watch.from {
                        WatchFrom::InitialAsOf(asked) => version == asked,
                        _ => (least..=watch.polled_at).contains(&version),
                    };
                    broken.unless(fits, "initial state", || {
                        format!("{version} was returned for a request of {least}")
                    });
                    let is_selected =
                        |object: &dyn Object| object.downcast_ref::<R>().is_some_and(selects);
                    self.compare_state("initial state", &state, version, is_selected, broken);
                    return broken
                        .0
                        .is_empty()
                        .then(|| (version, &watch.events[position + 1..]));
                }
                _ => {
                    let what = "another event comes before the end of the initial state";
                    broken.add("initial state", what.into());
                    return None;
                }
            }
        }
        // The stream ended before the initial state was complete.
        broken.unless(
            watch.drained_at == 0,
            "one end of the initial state",
            || "the end is missing".into(),
        );
        None
    }

    /// Returns the events that a watch must deliver after `start`.
    fn expected<'a, R: ClusterResource>(
        &'a self,
        start: u64,
        selects: &'a impl Fn(&R) -> bool,
    ) -> impl Iterator<Item = Expected<'a, R>> {
        self.since(R::KIND, start)
            .filter_map(|record| Expected::from_commit(record, selects))
    }

    fn check_error<R: ClusterResource>(
        &self,
        error: &ApiError,
        last: u64,
        (watch, window): (&RecordedWatch<R>, &Window),
        broken: &mut Violations,
    ) {
        if error.code != 410 {
            let (code, message) = (error.code, &error.message);
            broken.add("error ends the watch", format!("with {code}: {message}"));
            return;
        }
        let most = window.history.max_events;
        self.check_expired::<R>(last, watch.polled_at, (most, window), broken);
    }

    /// Checks that a server at version `server` may have dropped the events after `version`: it
    /// had more events than it keeps, or the first of them was compacted.
    fn check_expired<R: ClusterResource>(
        &self,
        version: u64,
        server: u64,
        (kept, window): (usize, &Window),
        broken: &mut Violations,
    ) {
        let behind = || {
            self.since(R::KIND, version)
                .take_while(|record| record.version <= server)
        };
        let count = behind().count();
        let first = behind().next().map(|record| record.version);
        let compactions = window.compactions.get(&R::KIND);
        let compacted = compactions.into_iter().flatten();
        let was_compacted = first.is_some_and(|first| compacted.into_iter().any(|&at| at >= first));
        broken.unless(count > kept || was_compacted, "expired", || {
            format!("{version} was refused at {server} after only {count} events")
        });
    }
}

/// An event that a watch must deliver.
struct Expected<'a, R> {
    version: u64,
    change: Change,
    object: &'a R,
    /// Whether the object is no longer selected. The event then has the previous state of the
    /// object, with the version of the change.
    left: bool,
}

impl<R: ClusterResource> std::fmt::Display for Expected<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let object = shown(self.object);
        write!(
            f,
            "{:?} {object}, the event at {}",
            self.change, self.version
        )
    }
}

impl<'a, R: ClusterResource> Expected<'a, R> {
    fn from_commit(record: &'a Commit, selects: &impl Fn(&R) -> bool) -> Option<Expected<'a, R>> {
        let new = record.new.downcast_ref::<R>()?;
        let old = record.old.as_ref().and_then(|old| old.downcast_ref::<R>());
        let was_in = old.is_some_and(selects);
        let is_in = record.change != Change::Deleted && selects(new);
        let gone = record.change == Change::Deleted;
        let (change, object) = match (was_in, is_in) {
            (false, false) => return None,
            (false, true) => (Change::Added, new),
            (true, true) => (Change::Modified, new),
            (true, false) if gone => (Change::Deleted, new),
            (true, false) => (Change::Deleted, old?),
        };
        Some(Expected {
            version: record.version,
            change,
            object,
            left: was_in && !is_in && !gone,
        })
    }

    fn is(&self, change: Change, object: &Arc<R>) -> bool {
        let number = object.metadata().resource_version.number();
        if change != self.change || number != Some(self.version) {
            return false;
        }
        if !self.left {
            return same(&**object, self.object);
        }
        let mut before = self.object.clone();
        before.metadata_mut().resource_version = object.metadata().resource_version.clone();
        before == **object
    }
}
