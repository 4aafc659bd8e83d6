//! Tests of observers of commits.

use std::sync::Mutex;

use podstorm_objects::{Pod, ReplicaSet};
use serde_json::json;

use super::*;
use crate::testing::*;
use crate::{Cluster, ClusterOptions, DeleteOptions};

/// An observer that records the commits.
#[derive(Default)]
struct EventLog {
    lines: Mutex<Vec<String>>,
    versions: Mutex<Vec<u64>>,
}

impl CommitObserver for EventLog {
    fn committed(&self, commit: &Commit) {
        let (new, old) = (
            commit.new.metadata(),
            commit.old.as_deref().map(Object::metadata),
        );
        assert_eq!(new.resource_version.number(), Some(commit.version));
        assert_eq!(commit.old.is_none(), commit.change == Change::Added);
        if let (Some(before), Some(old)) = (&commit.old, old) {
            assert_eq!(before.kind(), commit.new.kind());
            assert_eq!(old.uid, new.uid);
            assert!(!Arc::ptr_eq(before, &commit.new));
        }
        let old = old.map_or_else(|| "-".into(), |old| old.resource_version.to_string());
        self.lines.lock().unwrap().push(format!(
            "{:?} {} {} {old} {}",
            commit.change,
            commit.new.kind().name(),
            new.name,
            commit.now.mono_ns / 1_000_000_000
        ));
        self.versions.lock().unwrap().push(commit.version);
    }
}

fn observed() -> (Cluster, Arc<EventLog>) {
    let log = Arc::new(EventLog::default());
    let options = ClusterOptions {
        seed: 1,
        observer: Some(log.clone()),
        ..ClusterOptions::default()
    };
    (cluster_with(options), log)
}

#[test]
fn an_observer_sees_every_event_with_the_old_and_the_new_object() {
    let (cluster, log) = observed();
    cluster.create(replica_set("a", json!({})), at(1)).unwrap();
    bound_pod(&cluster, "p", json!({}));
    let forced = forced();
    cluster
        .delete::<Pod>("default", "p", &forced, at(2))
        .unwrap();
    cluster
        .delete::<ReplicaSet>("default", "a", &DeleteOptions::default(), at(3))
        .unwrap();
    let wanted = [
        "Added Namespace default - 0",
        "Added Namespace other - 0",
        "Added ReplicaSet a - 1",
        "Added Pod p - 0",
        "Modified Pod p 4 0",
        "Modified Pod p 5 2",
        "Deleted Pod p 6 2",
        "Deleted ReplicaSet a 3 3",
    ];
    assert_eq!(*log.lines.lock().unwrap(), wanted);
}

#[test]
fn refused_writes_and_writes_without_changes_are_not_observed() {
    let (cluster, log) = observed();
    cluster.create(replica_set("a", json!({})), at(1)).unwrap();
    let seen = log.lines.lock().unwrap().len();
    cluster.update(replica_set("a", json!({})), at(2)).unwrap();
    let taken = cluster.create(replica_set("a", json!({})), at(2));
    assert_eq!(refused(taken), "409 AlreadyExists");
    assert_eq!(log.lines.lock().unwrap().len(), seen);
}

#[test]
fn commits_of_all_kinds_are_observed_in_the_order_of_versions() {
    let (cluster, log) = observed();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                for number in 0..200 {
                    let name = format!("o-{thread}-{number}");
                    cluster.create(pod(&name, json!({})), at(0)).unwrap();
                    cluster
                        .create(replica_set(&name, json!({})), at(0))
                        .unwrap();
                }
            });
        }
    });
    let versions = log.versions.lock().unwrap();
    let wanted: Vec<u64> = (1..=cluster.resource_version()).collect();
    assert_eq!(*versions, wanted);
}
