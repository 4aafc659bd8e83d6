//! Tests of concurrent writers.

use std::collections::BTreeMap;
use std::sync::mpsc;

use podstorm_objects::WatchEvent;
use podstorm_objects::{Pod, PodPhase};
use serde_json::json;

use super::super::testing::*;
use super::super::{Cluster, DeleteOptions, WatchFrom, WatchOptions};
use super::*;

const THREADS: usize = 4;
const PODS: usize = 300;

fn live_and_die(cluster: &Cluster, thread: usize) {
    for number in 0..PODS {
        let name = format!("p-{thread}-{number}");
        let bound = bound_pod(cluster, &name, json!({}));
        set_phase(cluster, &bound, PodPhase::Succeeded);
        let options = DeleteOptions::default();
        assert!(
            cluster
                .delete::<Pod>("default", &name, &options, at(0))
                .unwrap()
                .removed
        );
    }
}

#[test]
fn concurrent_writers_make_one_history_and_lose_no_wake_up() {
    let cluster = cluster();
    let (wake, woken) = mpsc::channel();
    let waker: Waker = Arc::new(move || {
        // The watch is closed once it has delivered everything.
        let _ = wake.send(());
    });
    let options = WatchOptions {
        waker: Some(waker),
        ..WatchOptions::default()
    };
    let mut watch = cluster.watch::<Pod>(WatchFrom::Initial, options).unwrap();
    let mut out = Vec::new();
    // Created, bound, ended, marked, removed.
    let all = 1 + THREADS * PODS * 5;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cluster = &cluster;
            scope.spawn(move || live_and_die(cluster, thread));
        }
        while out.len() < all {
            if !watch.poll(64, at(0), &mut out).more && out.len() < all {
                woken.recv().expect("the watch holds the waker");
            }
        }
    });
    let mut last = 0;
    let mut states: BTreeMap<String, u32> = BTreeMap::new();
    for event in &out[1..] {
        let (pod, step) = match event {
            WatchEvent::Added(pod) => (pod, 0),
            WatchEvent::Modified(pod) => (pod, 1),
            WatchEvent::Deleted(pod) => (pod, 4),
            other => panic!("{other:?}"),
        };
        let version = pod.metadata.resource_version.number().unwrap();
        assert!(version > last);
        last = version;
        let state = states.entry(pod.metadata.name.to_string()).or_default();
        assert!(step == *state || (step == 1 && (1..4).contains(state)));
        *state += 1;
    }
    assert!(states.values().all(|&state| state == 5));
    assert_eq!(cluster.count::<Pod>(), 0);
    assert_eq!(cluster.resource_version(), last);
}

#[test]
fn of_concurrent_writers_with_one_version_exactly_one_succeeds() {
    let cluster = cluster();
    let mut pod = bound_pod(&cluster, "a", json!({}));
    for round in 0..200 {
        let write = |thread: usize| {
            let mut new = Pod::clone(&pod);
            let value = format!("{round}-{thread}");
            new.metadata.annotations = new.metadata.annotations.with("k", &value);
            match cluster.update(new, at(0)) {
                Ok(_) => 1,
                Err(error) => {
                    assert_eq!(error.code, 409);
                    0
                }
            }
        };
        let write = &write;
        let won: usize = std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || write(thread));
            let threads: Vec<_> = (0..3).map(spawn).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(won, 1);
        pod = cluster.get("default", "a").unwrap();
    }
}
