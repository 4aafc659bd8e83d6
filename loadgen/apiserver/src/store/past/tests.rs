//! Tests of past states.

use podstorm_objects::Pod;
use serde_json::json;

use super::*;
use crate::testing::*;
use crate::{ClusterOptions, DeleteOptions, History, WatchFrom, WatchOptions};

fn remembering(history: History) -> Cluster {
    cluster_with(ClusterOptions {
        seed: 1,
        keeps_past: true,
        history,
        ..ClusterOptions::default()
    })
}

/// Makes random writes and records every state. The last write is at `resource_version`.
fn lived(cluster: &Cluster, steps: usize) -> Vec<(u64, Vec<Arc<Pod>>)> {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut states = vec![(cluster.resource_version(), cluster.list::<Pod>(None).0)];
    for step in 0..steps {
        let name = format!("p{}", rng.u32(..12));
        let other = rng.bool();
        let namespace = if other { "other" } else { "default" };
        let metadata = json!({"metadata": {"namespace": namespace}});
        match rng.u32(..4) {
            // Refusals are expected: the name may be taken or the pod missing.
            0 => drop(cluster.create(pod(&name, metadata), at(0))),
            1 => drop(cluster.delete::<Pod>(namespace, &name, &forced(), at(0))),
            2 => drop(cluster.create(replica_set(&format!("r{step}"), json!({})), at(0))),
            _ => {
                if let Ok(found) = cluster.get::<Pod>(namespace, &name) {
                    let mut new = Pod::clone(&found);
                    let value = step.to_string();
                    new.metadata.annotations = new.metadata.annotations.with("k", &value);
                    cluster.update(new, at(0)).unwrap();
                }
            }
        }
        states.push((cluster.resource_version(), cluster.list::<Pod>(None).0));
    }
    states
}

#[test]
fn an_older_state_equals_what_was_listed_at_its_version() {
    let cluster = remembering(History::default());
    for (version, wanted) in lived(&cluster, 3000) {
        let (found, answered) = cluster.list_as_of::<Pod>(None, version).unwrap();
        assert_eq!(answered.number(), Some(version));
        assert_eq!(found, wanted, "at {version}");
        let (found, _) = cluster.list_as_of::<Pod>(Some("other"), version).unwrap();
        let other = |pod: &&Arc<Pod>| &*pod.metadata.namespace == "other";
        assert!(wanted.iter().filter(other).eq(&found), "at {version}");
    }
}

#[test]
fn versions_in_the_middle_of_a_request_have_a_state() {
    let cluster = remembering(History::default());
    bound_pod(&cluster, "a", json!({}));
    cluster
        .delete::<Pod>("default", "a", &forced(), at(1))
        .unwrap();
    let marked = cluster.resource_version() - 1;
    let (found, _) = cluster.list_as_of::<Pod>(None, marked).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].metadata.is_deleting());
    let (found, _) = cluster.list_as_of::<Pod>(None, marked + 1).unwrap();
    assert!(found.is_empty());
}

#[test]
fn a_watch_from_the_past_gets_that_state_then_every_later_event() {
    let cluster = remembering(History::default());
    cluster.create(pod("a", json!({})), at(0)).unwrap();
    let past = cluster.resource_version();
    cluster.create(replica_set("r", json!({})), at(0)).unwrap();
    cluster.create(pod("b", json!({})), at(0)).unwrap();
    cluster
        .delete::<Pod>("default", "a", &DeleteOptions::default(), at(0))
        .unwrap();
    let from = WatchFrom::InitialAsOf(past);
    let mut watch = cluster.watch::<Pod>(from, WatchOptions::default()).unwrap();
    cluster.create(pod("c", json!({})), at(0)).unwrap();
    let wanted = [
        format!("ADDED a {past}"),
        format!("SYNCED {past}"),
        format!("ADDED b {}", past + 2),
        format!("MODIFIED a {}", past + 3),
        format!("DELETED a {}", past + 4),
        format!("ADDED c {}", past + 5),
    ];
    assert_eq!(drain(&mut watch), wanted);
}

#[test]
fn forgotten_and_future_versions_are_refused() {
    let history = History {
        min_events: 600,
        max_events: 10_000,
        ..History::default()
    };
    let cluster = remembering(history);
    let start = cluster.resource_version();
    for number in 0..3000 {
        let name = format!("p{number}");
        cluster.create(pod(&name, json!({})), at(0)).unwrap();
    }
    let now = cluster.resource_version();
    let list = |version| cluster.list_as_of::<Pod>(None, version);
    assert_eq!(refused(list(start)), "410 Expired");
    assert_eq!(list(now - 600).unwrap().0.len(), 2400);
    let early = list(now + 1).unwrap_err();
    assert_eq!(early.code, 504);
    assert!(early.has_cause("ResourceVersionTooLarge"));
    let watch = |version| {
        let from = WatchFrom::InitialAsOf(version);
        cluster.watch::<Pod>(from, WatchOptions::default())
    };
    assert_eq!(refused(watch(start)), "410 Expired");
    assert_eq!(refused(watch(now + 1)), "504 Timeout");
    cluster.compact::<Pod>();
    assert_eq!(refused(list(now - 1)), "410 Expired");
    let present = list(now).unwrap().0;
    assert_eq!(present.len(), 3000, "the current state is never forgotten");
}

#[test]
fn without_keeps_past_only_the_current_state_is_available() {
    let cluster = cluster();
    cluster.create(pod("a", json!({})), at(0)).unwrap();
    let last = cluster.resource_version();
    cluster.create(replica_set("r", json!({})), at(0)).unwrap();
    // No pod has changed since.
    assert_eq!(cluster.list_as_of::<Pod>(None, last).unwrap().0.len(), 1);
    let result = cluster.list_as_of::<Pod>(None, last - 1);
    assert_eq!(refused(result), "410 Expired");
}
