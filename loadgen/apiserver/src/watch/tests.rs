//! Tests of the delivery of watches and its timing.

use std::sync::atomic::{AtomicU32, Ordering};

use podstorm_objects::Pod;
use serde_json::json;

use super::*;
use crate::testing::*;
use crate::{Cluster, ClusterOptions, History};

fn create(cluster: &Cluster, names: std::ops::Range<usize>, seconds: i64) {
    for name in names {
        cluster
            .create(pod(&format!("p{name:05}"), json!({})), at(seconds))
            .unwrap();
    }
}

fn open(cluster: &Cluster, from: WatchFrom) -> Watch<Pod> {
    cluster.watch(from, WatchOptions::default()).unwrap()
}

/// Creates a cluster whose history keeps this many events.
fn keeping(min_events: usize, max_events: usize) -> Cluster {
    cluster_with(ClusterOptions {
        history: History {
            min_events,
            max_events,
            ..History::default()
        },
        ..ClusterOptions::default()
    })
}

#[test]
fn a_slot_filled_between_the_check_and_the_lock_is_not_lost() {
    let cluster = cluster();
    create(&cluster, 0..5, 0);
    let mut watch = watch::<Pod>(&cluster);
    create(&cluster, 5..SEGMENT_LEN + 9, 0);
    // As if the slot had been empty when the watch checked it.
    let held = watch.held.as_deref();
    let (watcher, number, index) = (watch.watcher, watch.number, watch.index);
    let advance = (watch.log).advance(watcher, || watch.read, number, held, index);
    assert!(matches!(advance, Advance::More));
    assert_eq!(drain(&mut watch).len(), SEGMENT_LEN + 4);
}

#[test]
fn an_initial_watch_gets_the_state_a_bookmark_then_later_events() {
    let cluster = cluster();
    create(&cluster, 0..2, 0);
    let version = cluster.resource_version();
    let mut watch = open(&cluster, WatchFrom::Initial);
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
fn small_polls_deliver_the_same_events_as_a_large_one() {
    let cluster = cluster();
    create(&cluster, 0..5, 0);
    let mut small = open(&cluster, WatchFrom::Initial);
    let mut large = open(&cluster, WatchFrom::Initial);
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
fn a_watch_may_be_drained_at_any_slot_of_a_segment() {
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
    assert_eq!(
        called(),
        0,
        "the watch was not polled yet, so it is not drained"
    );
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
        ..WatchOptions::default()
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
        let is_new = out.len() > delivered;
        assert!(is_new || steps == 0, "the announced event is visible");
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
    assert!(steps > 1, "the events are spread over time");
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
fn requested_bookmarks_carry_the_progress_of_the_watch() {
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
        "not past hidden events"
    );
}

#[test]
fn history_reaches_back_exactly_to_its_minimum() {
    let cluster = keeping(1000, 1_000_000);
    let start = cluster.resource_version();
    create(&cluster, 0..3000, 0);
    let end = cluster.resource_version();
    let open = |version| cluster.watch::<Pod>(WatchFrom::Version(version), WatchOptions::default());
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
fn an_open_watch_keeps_unread_events_up_to_the_limit() {
    let cluster = keeping(100, 2000);
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
fn compaction_expires_old_versions_but_not_open_watches() {
    let cluster = cluster();
    let mut kept = watch::<Pod>(&cluster);
    let start = cluster.resource_version();
    create(&cluster, 0..5, 0);
    assert_eq!(drain(&mut kept).len(), 5);
    cluster.compact::<Pod>();
    let from = WatchFrom::Version(start);
    let result = cluster.watch::<Pod>(from, WatchOptions::default());
    assert_eq!(refused(result), "410 Expired");
    create(&cluster, 5..6, 0);
    assert_eq!(drain(&mut kept).len(), 1);
    let from = WatchFrom::Version(cluster.resource_version() - 1);
    let mut late = open(&cluster, from);
    assert_eq!(drain(&mut late).len(), 1);
}

/// Returns everything that is visible at this second, and the time at which to poll again.
fn seen_at(watch: &mut Watch<Pod>, seconds: i64) -> (Vec<String>, Option<i64>) {
    let mut out = Vec::new();
    let poll = watch.poll(100, at(seconds), &mut out);
    assert!(!poll.more);
    let next = poll.next_visible_ns.map(|ns| ns / 1_000_000_000);
    (out.iter().map(word).collect(), next)
}

const SECOND: i64 = 1_000_000_000;

#[test]
fn bookmarks_come_periodically_while_the_server_advances() {
    let cluster = cluster();
    let options = WatchOptions {
        bookmark_every: Some(60 * SECOND),
        ..WatchOptions::default()
    };
    let start = cluster.resource_version();
    let from = WatchFrom::Version(start);
    let mut watch = cluster.watch::<Pod>(from, options).unwrap();
    let none = Vec::<String>::new();
    assert_eq!(seen_at(&mut watch, 0), (none.clone(), Some(60)));
    create(&cluster, 0..1, 10);
    let added = format!("ADDED p00000 {}", start + 1);
    assert_eq!(seen_at(&mut watch, 10), (vec![added], Some(60)));
    // The event already has the last version.
    assert_eq!(seen_at(&mut watch, 60), (none.clone(), Some(120)));
    // A write of another kind advances the server's version.
    cluster.create(replica_set("a", json!({})), at(70)).unwrap();
    assert_eq!(seen_at(&mut watch, 70), (none.clone(), Some(120)));
    let bookmark = format!("BOOKMARK {}", start + 2);
    assert_eq!(seen_at(&mut watch, 120), (vec![bookmark], Some(180)));
    // After a period without a write, no time is scheduled.
    assert_eq!(seen_at(&mut watch, 180), (none.clone(), None));
    assert_eq!(seen_at(&mut watch, 500), (none, None));
    create(&cluster, 1..2, 600);
    let added = format!("ADDED p00001 {}", start + 3);
    assert_eq!(seen_at(&mut watch, 600), (vec![added], Some(660)));
}

#[test]
fn automatic_bookmarks_do_not_pass_hidden_events() {
    let cluster = cluster();
    let options = WatchOptions {
        latency: Latency::Constant(100 * SECOND),
        bookmark_every: Some(60 * SECOND),
        ..WatchOptions::default()
    };
    let start = cluster.resource_version();
    let from = WatchFrom::Version(start);
    let mut watch = cluster.watch::<Pod>(from, options).unwrap();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    create(&cluster, 0..1, 0);
    assert_eq!(seen_at(&mut watch, 0), (Vec::new(), Some(60)));
    let bookmark = format!("BOOKMARK {}", start + 1);
    assert_eq!(seen_at(&mut watch, 60), (vec![bookmark], Some(100)));
    let added = format!("ADDED p00000 {}", start + 2);
    assert_eq!(seen_at(&mut watch, 100).0, [added]);
}

#[test]
fn a_held_watch_delivers_nothing_and_then_everything() {
    let cluster = cluster();
    create(&cluster, 0..1, 0);
    let mut watch = open(&cluster, WatchFrom::Initial);
    watch.delay_until(50 * SECOND);
    watch.request_bookmark();
    assert_eq!(seen_at(&mut watch, 0), (Vec::new(), Some(50)));
    create(&cluster, 1..4, 20);
    assert_eq!(seen_at(&mut watch, 49), (Vec::new(), Some(50)));
    assert_eq!(
        seen_at(&mut watch, 50).0.len(),
        6,
        "two, then three, then one"
    );
    watch.delay_until(i64::MAX);
    create(&cluster, 4..5, 60);
    assert_eq!(seen_at(&mut watch, 1_000_000), (Vec::new(), None));
    watch.delay_until(i64::MIN);
    assert_eq!(seen_at(&mut watch, 60).0.len(), 1);
}

#[test]
fn changing_the_latency_of_an_open_watch_keeps_the_order() {
    let cluster = cluster();
    let options = WatchOptions {
        latency: Latency::Constant(30 * SECOND),
        ..WatchOptions::default()
    };
    let from = WatchFrom::Version(cluster.resource_version());
    let mut watch = cluster.watch::<Pod>(from, options).unwrap();
    create(&cluster, 0..1, 0);
    assert_eq!(seen_at(&mut watch, 0), (Vec::new(), Some(30)));
    watch.set_latency(Latency::Constant(300 * SECOND));
    create(&cluster, 1..2, 10);
    assert_eq!(seen_at(&mut watch, 30), (Vec::new(), Some(300)));
    watch.set_latency(Latency::ZERO);
    assert_eq!(seen_at(&mut watch, 40).0.len(), 2);
    watch.set_latency(Latency::Constant(5 * SECOND));
    create(&cluster, 2..3, 41);
    assert_eq!(seen_at(&mut watch, 42), (Vec::new(), Some(46)));
}

#[test]
fn events_beyond_max_bytes_are_dropped_even_if_unread() {
    const BYTES: usize = 4 << 20;
    let history = History {
        max_bytes: BYTES,
        ..History::default()
    };
    let cluster = cluster_with(ClusterOptions {
        keeps_past: true,
        history,
        ..ClusterOptions::default()
    });
    create(&cluster, 0..2, 0);
    let (unread, mut read) = (watch::<Pod>(&cluster), watch::<Pod>(&cluster));
    let mut unread = [unread, watch::<Pod>(&cluster)];
    let mut firsts = Vec::new();
    for number in 0..400 {
        let mut pod = Pod::clone(&cluster.get("default", "p00000").unwrap());
        let text = format!("{number}{}", "x".repeat(100_000));
        pod.metadata.annotations = pod.metadata.annotations.with("large", &text);
        let updated = cluster.update(pod, at(0)).unwrap();
        firsts.push(Arc::downgrade(&updated));
        drop(updated);
        assert_eq!(
            drain(&mut read).len(),
            1,
            "a watch that is read misses nothing"
        );
    }
    let kept = firsts.iter().filter(|it| it.strong_count() > 0).count();
    // One more segment may stay, and so may the object before the first event.
    assert!((20..=60).contains(&kept), "{kept} of 400 versions are kept");
    for watch in &mut unread {
        let events = drain(watch);
        assert_eq!(events.len(), 1);
        assert!(events[0].starts_with("ERROR"), "{events:?}");
        assert!(watch.is_ended());
    }
    let last = cluster.resource_version();
    assert!(cluster.list_as_of::<Pod>(None, last - 10).is_ok());
    assert_eq!(
        refused(cluster.list_as_of::<Pod>(None, last - 100)),
        "410 Expired"
    );
}

#[test]
fn a_drained_watch_survives_a_compaction() {
    let history = History {
        max_bytes: 1 << 30,
        ..History::default()
    };
    let cluster = cluster_with(ClusterOptions {
        history,
        ..ClusterOptions::default()
    });
    create(&cluster, 0..3, 0);
    let (mut read, mut behind) = (watch::<Pod>(&cluster), watch::<Pod>(&cluster));
    create(&cluster, 3..4, 0);
    assert_eq!(drain(&mut read).len(), 1);
    cluster.compact::<Pod>();
    create(&cluster, 4..5, 0);
    assert_eq!(
        drain(&mut read),
        [format!("ADDED p00004 {}", cluster.resource_version())]
    );
    assert!(drain(&mut behind).last().unwrap().starts_with("ERROR"));
}

#[test]
fn a_watch_that_lost_its_events_keeps_no_later_ones() {
    let cluster = keeping(SEGMENT_LEN, 4 * SEGMENT_LEN);
    let mut lost = watch::<Pod>(&cluster);
    create(&cluster, 0..5 * SEGMENT_LEN, 0);
    let early = cluster.resource_version() - 2 * SEGMENT_LEN as u64;
    // Beyond four segments the events of the watch are dropped. Then one segment is enough.
    create(&cluster, 5 * SEGMENT_LEN..6 * SEGMENT_LEN + 1, 0);
    let from = cluster.watch::<Pod>(WatchFrom::Version(early), WatchOptions::default());
    assert_eq!(refused(from), "410 Expired");
    assert!(drain(&mut lost).last().unwrap().starts_with("ERROR"));
}
