//! Tests of the tracker when its streams are read separately.

use podstorm_objects::{Object, ReplicaSet, Resource};
use serde_json::json;

use super::*;

fn replica_set(version: u64, ready: i32) -> ReplicaSet {
    let set = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "web-uid", "generation": 1,
            "resourceVersion": version.to_string()},
        "spec": {"replicas": 2},
        "status": {"replicas": ready, "fullyLabeledReplicas": ready, "readyReplicas": ready,
            "availableReplicas": ready, "observedGeneration": 1},
    });
    ReplicaSet::from_json(set).unwrap()
}

fn pod(name: &str, version: u64) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name,
            "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "web-uid", "controller": true}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    Arc::new(Pod::from_json(pod).unwrap())
}

fn see(tracker: &mut Tracker, set: ReplicaSet) {
    let workload = workloads::for_kind(set.kind()).unwrap();
    let set: AnyObject = Arc::new(set);
    tracker.owner_item(workload, &set, false);
}

#[test]
fn pods_count_for_an_owner_seen_after_them() {
    let times = Arc::new(PhaseTimes::new(1));
    let mut tracker = Tracker::new(true, [false].into(), times, None);
    let now = Now::default();
    for (name, version) in [("a", 2), ("b", 3), ("gone", 4)] {
        tracker.pod_item(ObjectEvent::Added(pod(name, version)), now);
    }
    tracker.pod_item(ObjectEvent::Deleted(pod("gone", 5)), now);
    tracker.all_seen(now);
    assert_eq!(tracker.desired, 0, "no owner is known");
    see(&mut tracker, replica_set(1, 0));
    see(&mut tracker, replica_set(6, 2));
    tracker.all_seen(now);
    assert_eq!(tracker.desired, 2);
    assert!(tracker.is_converged());
    assert!(tracker.strays.is_empty());
}
