//! Watches: streams of one kind's events in version order, each with its own delay.

use std::fmt;
use std::sync::Arc;
use std::vec::IntoIter;

use podstorm::client::WatchEvent;
use podstorm::object::{Now, ResourceVersion};

use super::errors;
use super::log::{Beyond, Change, Entry, Log, Position, SEGMENT_LEN, Segment};
use super::{ClusterResource, Waker};
use crate::latency::LatencySampler;
use crate::settings::Latency;

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// Behind this version: every later event. 410 when the history does not reach back to it.
    Version(u64),
    /// The current state as synthetic `Added` events, sorted by namespace and name, then a
    /// bookmark that says so, then every later event.
    Initial,
    /// As `Initial`, with the state as of that version, as a server answers whose cache lags. 410
    /// when the history does not reach back to it, 504 when the server has not come to it.
    InitialAsOf(u64),
}

/// How a watch behaves.
#[derive(Clone)]
pub struct WatchOptions {
    /// From commit to being visible in this watch. The initial state is visible at once.
    pub latency: Latency,
    /// Seed of the latency's draws.
    pub seed: u64,
    /// Called after a commit when the watch had been read to its end. Called by the writer's
    /// thread, with no lock of the cluster held.
    pub waker: Option<Waker>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            latency: Latency::ZERO,
            seed: 0,
            waker: None,
        }
    }
}

impl fmt::Debug for WatchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchOptions")
            .field("latency", &self.latency)
            .field("seed", &self.seed)
            .field("waker", &self.waker.is_some())
            .finish()
    }
}

/// How a [`Watch::poll`] ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    /// `max` events were delivered and there may be more: poll again, no waker will be called.
    pub more: bool,
    /// When the next event becomes visible, on the monotonic line: poll again then, no waker will
    /// be called. Absent with `more` false, the watch is drained: its waker will be called.
    pub next_visible_ns: Option<i64>,
}

/// An open watch. Dropping it closes it.
pub struct Watch<R: ClusterResource> {
    log: Arc<Log<R>>,
    watcher: u64,
    segment: Arc<Segment<R>>,
    /// The next slot of `segment`.
    index: usize,
    /// Events up to this version are not for this watch.
    after: u64,
    initial: Option<Initial<R>>,
    sampler: LatencySampler,
    /// When the event at `index` becomes visible, once drawn.
    head_visible_ns: Option<i64>,
    /// When the last delivered event became visible.
    last_visible_ns: i64,
    bookmark_wanted: bool,
    ended: bool,
}

/// The initial state still to be delivered.
struct Initial<R> {
    objects: IntoIter<Arc<R>>,
    version: u64,
}

impl<R: ClusterResource> fmt::Debug for Watch<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("kind", &R::KIND)
            .field("segment", &self.segment.number)
            .field("index", &self.index)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<R: ClusterResource> Watch<R> {
    /// A watch at a position; `initial` is the state to deliver first, with its version.
    pub(super) fn new(
        log: Arc<Log<R>>,
        position: Position<R>,
        after: u64,
        initial: Option<Vec<Arc<R>>>,
        options: &WatchOptions,
    ) -> Watch<R> {
        let initial = initial.map(|objects| Initial {
            objects: objects.into_iter(),
            version: after,
        });
        Watch {
            log,
            watcher: position.watcher,
            segment: position.segment,
            index: position.index,
            after,
            initial,
            sampler: LatencySampler::new(options.latency, options.seed),
            head_visible_ns: None,
            last_visible_ns: i64::MIN,
            bookmark_wanted: false,
            ended: false,
        }
    }

    /// Appends up to `max` events that are visible at `now` to `out`, in version order. O(events
    /// delivered); takes a lock once per 512 events and when there is nothing more.
    ///
    /// After an `Error` event the watch has ended and delivers nothing more.
    pub fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<R>>) -> Poll {
        let mut left = max;
        if self.deliver_initial(&mut left, out) || self.ended {
            return Poll {
                more: !self.ended,
                next_visible_ns: None,
            };
        }
        loop {
            if self.index < SEGMENT_LEN
                && let Some(entry) = self.segment.entries[self.index].get()
            {
                if self.after > 0 && entry.version() <= self.after {
                    self.index += 1;
                    continue;
                }
                if left == 0 {
                    return Poll {
                        more: true,
                        next_visible_ns: None,
                    };
                }
                if !self.sampler.is_zero() {
                    let visible_ns = *self.head_visible_ns.get_or_insert_with(|| {
                        let delayed_ns = entry.commit_ns.saturating_add(self.sampler.draw_ns());
                        delayed_ns.max(self.last_visible_ns)
                    });
                    if visible_ns > now.mono_ns {
                        let before = entry.version() - 1;
                        self.deliver_bookmark(before, out);
                        return Poll {
                            more: false,
                            next_visible_ns: Some(visible_ns),
                        };
                    }
                    self.last_visible_ns = visible_ns;
                    self.head_visible_ns = None;
                }
                out.push(event(entry));
                self.index += 1;
                left -= 1;
                continue;
            }
            match self.log.beyond(self.watcher, &self.segment, self.index) {
                Beyond::More => {}
                Beyond::Segment(next) => {
                    self.segment = next;
                    self.index = 0;
                }
                Beyond::Drained { version } => {
                    self.deliver_bookmark(version, out);
                    return Poll {
                        more: false,
                        next_visible_ns: None,
                    };
                }
                Beyond::Expired { wanted, oldest } => {
                    out.push(WatchEvent::Error(errors::expired(
                        wanted.max(self.after),
                        oldest,
                    )));
                    self.ended = true;
                    return Poll::default();
                }
            }
        }
    }

    /// Asks for a bookmark behind the events that are visible at the next [`poll`](Watch::poll).
    pub fn request_bookmark(&mut self) {
        self.bookmark_wanted = true;
    }

    /// Whether the watch ended with an error.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Delivers initial state; answers whether `left` was used up before its end.
    fn deliver_initial(&mut self, left: &mut usize, out: &mut Vec<WatchEvent<R>>) -> bool {
        let Some(initial) = &mut self.initial else {
            return false;
        };
        let before = out.len();
        out.extend(initial.objects.by_ref().take(*left).map(WatchEvent::Added));
        *left -= out.len() - before;
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let version = ResourceVersion::Number(initial.version);
        out.push(WatchEvent::Bookmark {
            version,
            initial_events_end: true,
        });
        self.initial = None;
        false
    }

    fn deliver_bookmark(&mut self, version: u64, out: &mut Vec<WatchEvent<R>>) {
        if std::mem::take(&mut self.bookmark_wanted) {
            let version = ResourceVersion::Number(version.max(self.after));
            out.push(WatchEvent::Bookmark {
                version,
                initial_events_end: false,
            });
        }
    }
}

fn event<R>(entry: &Entry<R>) -> WatchEvent<R> {
    let object = entry.object.clone();
    match entry.change {
        Change::Added => WatchEvent::Added(object),
        Change::Modified => WatchEvent::Modified(object),
        Change::Deleted => WatchEvent::Deleted(object),
    }
}

impl<R: ClusterResource> Drop for Watch<R> {
    fn drop(&mut self) {
        self.log.close(self.watcher);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use podstorm::object::Pod;
    use serde_json::json;

    use super::super::testing::*;
    use super::super::{Cluster, ClusterOptions, DeleteOptions, History};
    use super::*;

    fn create(cluster: &Cluster, names: std::ops::Range<usize>, seconds: i64) {
        for name in names {
            cluster
                .create(pod(&format!("p{name:05}"), json!({})), at(seconds))
                .unwrap();
        }
    }

    #[test]
    fn a_watch_from_a_version_gets_every_later_event_in_order() {
        let cluster = cluster();
        create(&cluster, 0..3, 0);
        let from = cluster.resource_version() - 1;
        let options = WatchOptions::default();
        let mut watch = cluster
            .watch::<Pod>(WatchFrom::Version(from), options)
            .unwrap();
        cluster
            .delete::<Pod>("default", "p00000", &DeleteOptions::default(), at(0))
            .unwrap();
        let v = from + 1;
        assert_eq!(
            drain(&mut watch),
            [
                format!("ADDED p00002 {v}"),
                format!("MODIFIED p00000 {}", v + 1),
                format!("DELETED p00000 {}", v + 2)
            ]
        );
        assert!(drain(&mut watch).is_empty());
    }

    #[test]
    fn a_watch_that_was_overtaken_between_looking_and_locking_loses_nothing() {
        let cluster = cluster();
        create(&cluster, 0..5, 0);
        let mut watch = watch::<Pod>(&cluster);
        create(&cluster, 5..SEGMENT_LEN + 9, 0);
        // As if its slot had been empty a moment ago.
        let beyond = watch.log.beyond(watch.watcher, &watch.segment, watch.index);
        assert!(matches!(beyond, Beyond::More));
        assert_eq!(drain(&mut watch).len(), SEGMENT_LEN + 4);
    }

    #[test]
    fn an_initial_watch_gets_the_state_a_bookmark_and_what_follows() {
        let cluster = cluster();
        create(&cluster, 0..2, 0);
        let version = cluster.resource_version();
        let options = WatchOptions::default();
        let mut watch = cluster.watch::<Pod>(WatchFrom::Initial, options).unwrap();
        create(&cluster, 2..3, 0);
        let all = drain(&mut watch);
        let wanted = [
            format!("ADDED p00000 {}", version - 1),
            format!("ADDED p00001 {version}"),
            format!("SYNCED {version}"),
            format!("ADDED p00002 {}", version + 1),
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn small_polls_deliver_the_same_as_one_large() {
        let cluster = cluster();
        create(&cluster, 0..5, 0);
        let open = || {
            cluster
                .watch::<Pod>(WatchFrom::Initial, WatchOptions::default())
                .unwrap()
        };
        let (mut small, mut large) = (open(), open());
        create(&cluster, 5..1500, 0);
        let mut out = Vec::new();
        let mut polls = 0;
        while small.poll(7, at(0), &mut out).more {
            polls += 1;
            assert_eq!(out.len(), 7 * polls);
        }
        let versions = |events: &[WatchEvent<Pod>]| -> Vec<_> {
            let version = |event: &WatchEvent<Pod>| match event {
                WatchEvent::Added(pod) => pod.metadata.resource_version.clone(),
                WatchEvent::Bookmark { version, .. } => version.clone(),
                other => panic!("{other:?}"),
            };
            events.iter().map(version).collect()
        };
        let all = events(&mut large);
        assert_eq!(all.len(), 1501);
        assert_eq!(versions(&out), versions(&all));
    }

    #[test]
    fn a_watch_may_be_drained_at_any_place_of_a_segment() {
        let cluster = cluster();
        let mut watch = watch::<Pod>(&cluster);
        for (begin, end) in [(0, 511), (511, 512), (512, 513), (513, 1024), (1024, 1536)] {
            create(&cluster, begin..end, 0);
            assert_eq!(drain(&mut watch).len(), end - begin);
            assert!(drain(&mut watch).is_empty());
        }
    }

    #[test]
    fn the_waker_is_called_once_per_drained_watch() {
        let cluster = cluster();
        let calls = Arc::new(AtomicU32::new(0));
        let counter = calls.clone();
        let waker: Waker = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let options = WatchOptions {
            waker: Some(waker),
            ..WatchOptions::default()
        };
        let mut watch = cluster.watch::<Pod>(WatchFrom::Initial, options).unwrap();
        let called = || calls.load(Ordering::Relaxed);
        create(&cluster, 0..1, 0);
        assert_eq!(called(), 0, "not polled yet, so not drained");
        drain(&mut watch);
        create(&cluster, 1..3, 0);
        assert_eq!(called(), 1);
        drain(&mut watch);
        create(&cluster, 3..4, 0);
        assert_eq!(called(), 2);
    }

    #[test]
    fn events_become_visible_after_their_delay_and_in_order() {
        let cluster = cluster();
        let latency = Latency::Uniform(1_000_000_000, 9_000_000_000);
        let options = WatchOptions {
            latency,
            seed: 3,
            waker: None,
        };
        let from = WatchFrom::Version(cluster.resource_version());
        let mut watch = cluster.watch::<Pod>(from, options).unwrap();
        create(&cluster, 0..20, 5);
        let mut out = Vec::new();
        let mut now = at(5);
        let (mut delivered, mut steps) = (0, 0);
        loop {
            let poll = watch.poll(100, now, &mut out);
            assert!(!poll.more);
            assert!(
                out.len() > delivered || steps == 0,
                "what was announced is visible"
            );
            delivered = out.len();
            let Some(next) = poll.next_visible_ns else {
                break;
            };
            assert!(next > now.mono_ns);
            assert!(next <= at(14).mono_ns);
            now.mono_ns = next;
            steps += 1;
        }
        assert_eq!(out.len(), 20);
        assert!(steps > 1, "not all at once");
        let names: Vec<_> = out
            .iter()
            .map(|event| match event {
                WatchEvent::Added(pod) => pod.metadata.name.clone(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(names.is_sorted());
    }

    #[test]
    fn bookmarks_on_request_say_how_far_the_watch_has_come() {
        let cluster = cluster();
        let mut watch = watch::<Pod>(&cluster);
        create(&cluster, 0..1, 0);
        cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let version = cluster.resource_version();
        watch.request_bookmark();
        let wanted = [
            format!("ADDED p00000 {}", version - 1),
            format!("BOOKMARK {version}"),
        ];
        assert_eq!(drain(&mut watch), wanted);

        let delayed = WatchOptions {
            latency: Latency::Constant(10),
            ..WatchOptions::default()
        };
        let mut watch = cluster
            .watch::<Pod>(WatchFrom::Version(version), delayed)
            .unwrap();
        create(&cluster, 1..2, 0);
        watch.request_bookmark();
        assert_eq!(
            drain(&mut watch),
            [format!("BOOKMARK {version}")],
            "not past what is hidden"
        );
    }

    #[test]
    fn history_reaches_back_to_its_minimum_and_no_further() {
        let history = History {
            min_events: 1000,
            max_events: 1_000_000,
        };
        let cluster = cluster_with(ClusterOptions {
            history,
            ..ClusterOptions::default()
        });
        let start = cluster.resource_version();
        create(&cluster, 0..3000, 0);
        let end = cluster.resource_version();
        let open =
            |version| cluster.watch::<Pod>(WatchFrom::Version(version), WatchOptions::default());
        for back in [0, 1, 500, 999] {
            let mut watch = open(end - back).unwrap();
            let back = usize::try_from(back).unwrap();
            assert_eq!(drain(&mut watch).len(), back);
        }
        let error = open(start).unwrap_err();
        assert_eq!(error.code, 410);
        let (version, oldest) = error.message["too old resource version: ".len()..]
            .split_once(' ')
            .expect("two numbers");
        assert_eq!(version, start.to_string());
        let oldest: u64 = oldest.trim_matches(['(', ')']).parse().unwrap();
        assert!(open(oldest - 1).is_ok());
        assert!(open(oldest - 2).is_err());
    }

    #[test]
    fn an_open_watch_keeps_what_it_needs_up_to_the_bound() {
        let history = History {
            min_events: 100,
            max_events: 2000,
        };
        let cluster = cluster_with(ClusterOptions {
            history,
            ..ClusterOptions::default()
        });
        let (mut kept, mut lost) = (watch::<Pod>(&cluster), watch::<Pod>(&cluster));
        create(&cluster, 0..2000, 0);
        assert_eq!(drain(&mut kept).len(), 2000);
        create(&cluster, 2000..5000, 0);
        let events = drain(&mut lost);
        assert_eq!(events.last().map(String::as_str), Some("ERROR 410"));
        assert!(lost.is_ended());
        assert!(drain(&mut lost).is_empty());
    }

    #[test]
    fn compaction_expires_old_versions_and_leaves_open_watches_alone() {
        let cluster = cluster();
        let mut open = watch::<Pod>(&cluster);
        let start = cluster.resource_version();
        create(&cluster, 0..5, 0);
        assert_eq!(drain(&mut open).len(), 5);
        cluster.compact::<Pod>();
        let from = WatchFrom::Version(start);
        let result = cluster.watch::<Pod>(from, WatchOptions::default());
        assert_eq!(refused(result), "410 Expired");
        create(&cluster, 5..6, 0);
        assert_eq!(drain(&mut open).len(), 1);
        let from = WatchFrom::Version(cluster.resource_version() - 1);
        let mut late = cluster.watch::<Pod>(from, WatchOptions::default()).unwrap();
        assert_eq!(drain(&mut late).len(), 1);
    }
}
