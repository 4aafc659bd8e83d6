//! Streams held against the history.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Object, WatchEvent};

use super::history::{Record, same, shown};
use super::{History as Committed, Violation, Violations};
use crate::{Change, ClusterResource, History, WatchFrom};

/// What one watch delivered.
#[derive(Clone, Debug)]
pub struct RecordedWatch<R> {
    /// Where it was asked to begin.
    pub from: WatchFrom,
    /// The version of the server when it was opened.
    pub opened_at: u64,
    /// Everything it delivered, in order.
    pub events: Vec<WatchEvent<R>>,
    /// The version of the server when it was last polled.
    pub polled_at: u64,
    /// A version up to which it must have delivered everything: that of the server when it was
    /// last found drained with nothing of it hidden by a delay. 0 demands nothing.
    pub drained_at: u64,
}

/// What the server may have forgotten.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The least and the most that it was told to keep.
    pub history: History,
    /// The versions of the server at which each kind was compacted.
    pub compactions: BTreeMap<Kind, Vec<u64>>,
}

impl Window {
    /// Takes note of a compaction.
    pub fn compacted(&mut self, kind: Kind, version: u64) {
        self.compactions.entry(kind).or_default().push(version);
    }
}

impl<R: ClusterResource> RecordedWatch<R> {
    /// A watch that has delivered nothing yet.
    pub fn new(from: WatchFrom, opened_at: u64) -> RecordedWatch<R> {
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
    /// What is wrong with a watch of all objects of a kind: see [`check_watch_of`].
    ///
    /// [`check_watch_of`]: Committed::check_watch_of
    pub fn check_watch<R: ClusterResource>(
        &self,
        watch: &RecordedWatch<R>,
        window: &Window,
    ) -> Vec<Violation> {
        self.check_watch_of(watch, window, |_| true)
    }

    /// What is wrong with a watch of the objects that `selects` holds for. It begins with the
    /// state of one version, if it was asked to, and says once that this is complete; then every
    /// later event follows, in order, none left out, none twice and none changed; an object that
    /// comes into view is added and one that goes out of view is deleted, in its last state in
    /// view with the version at which it went. A bookmark is at no version whose events were not
    /// all delivered, and none that the server has not come to. An error ends the watch, and 410
    /// only where the history does not reach back.
    pub fn check_watch_of<R: ClusterResource>(
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
        // The version up to which all is known to be delivered.
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
                        format!("another one at {version}")
                    });
                    broken.unless(version >= last, "bookmark", || {
                        format!("{version} is behind {last}")
                    });
                    let server = watch.polled_at.max(start);
                    broken.unless(version <= server, "bookmark", || {
                        format!("{version} is before the server, which is at {server}")
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
                broken.add("events", format!("{found} is no event behind {last}"));
                return broken.0;
            };
            if !wanted.is(delivered.0, delivered.1) {
                let (change, found) = (delivered.0, shown(&**delivered.1));
                let what = format!("behind {last} came {change:?} {found} instead of {wanted}");
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

    /// What is wrong with having refused to open a watch from `version` (or to list its state)
    /// when the server was at `opened_at`.
    pub fn check_refusal<R: ClusterResource>(
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
                format!("{version} was refused, the server was at {opened_at}")
            }),
            code => broken.add("refusal", format!("{code} is none: {}", error.message)),
        }
        broken.0
    }

    /// The initial state of a watch: the version behind which it goes on, and what follows.
    /// Nothing where that is not known.
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
                        format!("{version} was answered, {least} asked for")
                    });
                    self.compare_selected(&state, version, selects, broken);
                    return broken
                        .0
                        .is_empty()
                        .then(|| (version, &watch.events[position + 1..]));
                }
                _ => {
                    let what = "something else comes before the end of the initial state";
                    broken.add("initial state", what.into());
                    return None;
                }
            }
        }
        // Not delivered to its end.
        broken.unless(
            watch.drained_at == 0,
            "one end of the initial state",
            || "there is none".into(),
        );
        None
    }

    fn compare_selected<R: ClusterResource>(
        &self,
        items: &[Arc<R>],
        version: u64,
        selects: &impl Fn(&R) -> bool,
        broken: &mut Violations,
    ) {
        let wanted = self.state_at(R::KIND, version);
        let wanted = wanted
            .into_iter()
            .filter(|object| object.downcast_ref::<R>().is_some_and(selects));
        let mut found = items.iter();
        for wanted in wanted {
            let found = found.next().map(|item| -> &dyn Object { &**item });
            if !found.is_some_and(|found| same(found, &**wanted)) {
                let found = found.map_or("nothing".into(), shown);
                let wanted = shown(&**wanted);
                let what = format!("as of {version}, {found} is in the place of {wanted}");
                broken.add("initial state", what);
                return;
            }
        }
        if let Some(more) = found.next() {
            let more = shown(&**more);
            broken.add(
                "initial state",
                format!("as of {version} there was no {more}"),
            );
        }
    }

    /// What a watch must deliver behind `start`.
    fn expected<'a, R: ClusterResource>(
        &'a self,
        start: u64,
        selects: &'a impl Fn(&R) -> bool,
    ) -> impl Iterator<Item = Expected<'a, R>> {
        self.since(R::KIND, start)
            .filter_map(|record| Expected::of(record, selects))
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

    /// That the server, at `server`, may have forgotten what comes behind `version`: so many
    /// events that it need not have kept the first one, or a compaction after it.
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
            format!("{version} was refused at {server} with {count} events since")
        });
    }
}

/// An event that a watch must deliver.
struct Expected<'a, R> {
    version: u64,
    change: Change,
    object: &'a R,
    /// Whether the object is in the state before, with the version of this event.
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
    fn of(record: &'a Record, selects: &impl Fn(&R) -> bool) -> Option<Expected<'a, R>> {
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
