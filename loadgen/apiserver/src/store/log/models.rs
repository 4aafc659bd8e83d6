//! Models of the event log: a watch gets either all events in order or a 410, and a drained watch
//! is woken.
//!
//! `cargo test -p podstorm-apiserver --features loom --lib log::models` tries all interleavings of
//! a few threads. With `--features shuttle` it tries random interleavings of more threads;
//! `SCHEDULES` sets how many. In these models a segment holds two events.

use podstorm_objects::{Namespace, WatchEvent};

use super::segment::version_of;
use super::*;
use crate::store::counts::Verb;
use crate::{Watch, WatchOptions};

use checker::sync::Condvar;
use checker::thread;
#[cfg(feature = "loom")]
use loom as checker;
#[cfg(not(feature = "loom"))]
use shuttle as checker;

/// Runs a model in all schedules with at most this many preemptions.
#[cfg(feature = "loom")]
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

/// Runs a model in random schedules.
#[cfg(not(feature = "loom"))]
fn check(_preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let given = std::env::var("SCHEDULES").ok();
    let schedules = given.map_or(400, |given| {
        given.parse().expect("SCHEDULES must be a number")
    });
    let model = Arc::new(model);
    let again = model.clone();
    let config = || {
        let mut config = shuttle::Config::new();
        config.silence_warnings = true;
        config.stack_size = 1 << 19;
        config
    };
    let random = RandomScheduler::new_from_seed(1, schedules);
    shuttle::Runner::new(random, config()).run(move || model());
    let few_switches = PctScheduler::new_from_seed(1, 3, schedules);
    shuttle::Runner::new(few_switches, config()).run(move || again());
}

const KEEP_ALL: History = History {
    min_events: 100,
    max_events: 100,
    max_bytes: usize::MAX,
};

fn log(version: &Arc<AtomicU64>, history: History) -> Arc<Log<Namespace>> {
    Arc::new(Log::new(version.clone(), history, false, None))
}

fn counter() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(0))
}

/// Commits an event.
fn commit(log: &Log<Namespace>) {
    let now = Now {
        mono_ns: 0,
        wall_ns: 0,
    };
    let object = Arc::new(Namespace::default());
    let bytes = log.bytes_of(&object);
    let mut append = log.begin();
    append.push(
        Change::Added,
        None,
        object,
        bytes,
        &WriteEffects::for_verb(Verb::Create),
        now,
    );
    append.finish().run();
}

/// A watch and the events that it has delivered.
struct Reader {
    watch: Watch<Namespace>,
    after: u64,
    versions: Vec<u64>,
    expired: bool,
}

impl Reader {
    /// Opens a watch after a version; `None` if its events were dropped.
    fn open(log: &Arc<Log<Namespace>>, after: u64, waker: Option<Waker>) -> Option<Reader> {
        let position = log.open_behind(after, waker).ok()?;
        let options = WatchOptions::default();
        Some(Reader {
            watch: Watch::new(log.clone(), position, after, None, &options),
            after,
            versions: Vec::new(),
            expired: false,
        })
    }

    /// Reads to the end. Returns the version of the bookmark at the end.
    fn read(&mut self) -> Option<u64> {
        let now = Now {
            mono_ns: 0,
            wall_ns: 0,
        };
        let (mut events, mut bookmark) = (Vec::new(), None);
        self.watch.request_bookmark();
        while self.watch.poll(1, now, &mut events).more {}
        for event in events {
            assert!(!self.expired, "an event after the end");
            match event {
                WatchEvent::Added(object) => self.versions.push(version_of(&*object)),
                WatchEvent::Bookmark { version, .. } => bookmark = version.number(),
                WatchEvent::Error(_) => self.expired = true,
                other => panic!("no thread wrote {other:?}"),
            }
        }
        bookmark
    }

    /// Checks that the events have no gap and, unless the watch got a 410, reach `last`.
    fn assert_gap_free(&self, last: u64) {
        let count = self.versions.len() as u64;
        let expected: Vec<u64> = (1..=count).map(|at| self.after + at).collect();
        assert_eq!(self.versions, expected, "a gap or a repeated event");
        assert!(
            self.expired || self.after + count == last,
            "lost {last} without a 410"
        );
    }
}

#[test]
fn a_watch_concurrent_with_a_writer_gets_every_event_in_order() {
    check(3, || {
        let log = log(&counter(), KEEP_ALL);
        let mut reader = Reader::open(&log, 0, None).unwrap();
        let writer = {
            let log = log.clone();
            thread::spawn(move || (0..3).for_each(|_| commit(&log)))
        };
        reader.read();
        reader.read();
        writer.join().unwrap();
        reader.read();
        assert!(!reader.expired);
        reader.assert_gap_free(3);
    });
}

#[test]
fn a_compaction_leaves_no_gap_without_a_410() {
    check(3, || {
        let log = log(&counter(), KEEP_ALL);
        commit(&log);
        let mut reader = Reader::open(&log, 0, None).unwrap();
        let writer = {
            let log = log.clone();
            thread::spawn(move || (0..3).for_each(|_| commit(&log)))
        };
        let compactor = {
            let log = log.clone();
            thread::spawn(move || log.compact())
        };
        reader.read();
        writer.join().unwrap();
        compactor.join().unwrap();
        reader.read();
        reader.assert_gap_free(4);
    });
}

#[test]
fn a_watch_opened_during_a_compaction_starts_exactly_or_fails() {
    check(3, || {
        let log = log(&counter(), KEEP_ALL);
        commit(&log);
        commit(&log);
        let writer = {
            let log = log.clone();
            thread::spawn(move || {
                commit(&log);
                log.compact();
                commit(&log);
            })
        };
        let opened = Reader::open(&log, 1, None);
        writer.join().unwrap();
        match opened {
            Some(mut reader) => {
                reader.read();
                reader.assert_gap_free(4);
            }
            None => assert!(Reader::open(&log, 1, None).is_none(), "a 410 is permanent"),
        }
        let mut later = Reader::open(&log, 3, None).expect("later events are kept");
        later.read();
        assert!(!later.expired);
        later.assert_gap_free(4);
    });
}

/// An open watch keeps the events that it has not read, up to the limits on events and on bytes.
/// (Here every event fills a segment.) Beyond a limit, the watch gets a 410, even if its segment is
/// freed while it reads.
#[test]
fn events_wait_for_a_slow_watch_up_to_the_limit() {
    for (max_events, max_bytes, may_expire) in [
        (100, usize::MAX, false),
        (2, usize::MAX, true),
        (100, 1, true),
    ] {
        check(3, move || {
            let history = History {
                min_events: 0,
                max_events,
                max_bytes,
            };
            let log = log(&counter(), history);
            let mut reader = Reader::open(&log, 0, None).unwrap();
            let writer = {
                let log = log.clone();
                thread::spawn(move || (0..5).for_each(|_| commit(&log)))
            };
            reader.read();
            writer.join().unwrap();
            reader.read();
            assert!(may_expire || !reader.expired);
            reader.assert_gap_free(5);
        });
    }
}

/// A reader that parks whenever it has read everything still reads all events: no wake-up is lost
/// between the reader's last check and the write.
#[test]
fn a_drained_watch_is_woken() {
    check(3, || {
        let log = log(&counter(), KEEP_ALL);
        let bell = Arc::new((checker::sync::Mutex::new(false), Condvar::new()));
        let ring = bell.clone();
        let waker: Waker = Arc::new(move || {
            *ring.0.lock().unwrap() = true;
            ring.1.notify_one();
        });
        let mut reader = Reader::open(&log, 0, Some(waker)).unwrap();
        let writer = {
            let log = log.clone();
            thread::spawn(move || (0..3).for_each(|_| commit(&log)))
        };
        loop {
            reader.read();
            if reader.versions.len() == 3 {
                break;
            }
            let mut rung = bell.0.lock().unwrap();
            while !*rung {
                rung = bell.1.wait(rung).unwrap();
            }
            *rung = false;
        }
        writer.join().unwrap();
        reader.assert_gap_free(3);
    });
}

/// A bookmark contains the server's version, which includes other kinds. Every event of this kind
/// up to that version has been delivered before.
#[test]
fn a_bookmark_comes_after_every_event_up_to_it() {
    check(3, || {
        let version = counter();
        let (log, other) = (log(&version, KEEP_ALL), log(&version, KEEP_ALL));
        let mut reader = Reader::open(&log, 0, None).unwrap();
        let written = Arc::new(AtomicU64::new(0));
        let writer = {
            let (log, written) = (log.clone(), written.clone());
            thread::spawn(move || {
                commit(&log);
                // Relaxed: read after the thread has been joined.
                written.store(log.last_version(), Ordering::Relaxed);
            })
        };
        let of_another_kind = thread::spawn(move || commit(&other));
        let bookmark = reader.read().expect("the reader requested it");
        let before = reader.versions.len();
        writer.join().unwrap();
        of_another_kind.join().unwrap();
        let event = written.load(Ordering::Relaxed);
        assert!(
            bookmark < event || before == 1,
            "bookmark {bookmark} hides event {event}"
        );
        assert_eq!(reader.read(), Some(2));
        assert_eq!(reader.versions, [event]);
    });
}

/// Too large to try all schedules: writers, a compactor, and readers of different speeds.
#[cfg(not(feature = "loom"))]
#[test]
fn readers_of_any_speed_concurrent_with_writers_and_compactions() {
    check(0, || {
        let version = counter();
        let history = History {
            min_events: 2,
            max_events: 6,
            ..KEEP_ALL
        };
        let log = log(&version, history);
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let log = log.clone();
                thread::spawn(move || (0..5).for_each(|_| commit(&log)))
            })
            .collect();
        let compactor = {
            let log = log.clone();
            thread::spawn(move || (0..2).for_each(|_| log.compact()))
        };
        let readers: Vec<_> = (0..3)
            .map(|pace| {
                let (log, version) = (log.clone(), version.clone());
                thread::spawn(move || {
                    // Relaxed: any version is valid here.
                    let after = version.load(Ordering::Relaxed);
                    let mut reader = Reader::open(&log, after, None)?;
                    for _ in 0..pace {
                        reader.read();
                    }
                    Some(reader)
                })
            })
            .collect();
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        compactor.join().unwrap();
        for reader in readers {
            if let Some(mut reader) = reader.join().unwrap() {
                reader.read();
                reader.assert_gap_free(15);
            }
        }
    });
}
