//! What the recorded cases don't hold: lists into an empty cache, as at every start.

use std::sync::Arc;

use podstorm_objects::{AnyObject, DynamicObject, Kind, Now, Pod, Resource, ResourceVersion};
use podstorm_runtime::driver::Workload;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::Take;
use serde_json::{Value, json};

use super::pod::TRACKING_FINALIZER;
use super::{Controller, ControllerOptions, JOBS, ORPHANS, OrphanKey};
use crate::cache::Delta;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

fn pod(name: &str, owner: Option<&str>) -> Arc<Pod> {
    let owners = owner.map(|uid| {
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": uid,
            "controller": true}])
    });
    let pod = json!({"metadata": {"namespace": "shop", "name": name, "uid": name,
        "resourceVersion": "8", "finalizers": [TRACKING_FINALIZER],
        "ownerReferences": owners.unwrap_or(Value::Null)}});
    Arc::new(Pod::from_json(pod).expect("a pod"))
}

/// The key that is next in a queue, if one is due.
fn next(controller: &Controller, queue: usize, now_ns: i64) -> Option<KeyId> {
    let queue = &controller.queues()[queue];
    queue.fire_due(now_ns);
    match queue.try_take(now_ns) {
        Take::Key(key) => {
            queue.done(key, now_ns);
            Some(key)
        }
        _ => None,
    }
}

/// A controller whose cache has the Job `pi`, and nothing in its queues.
fn controller(informers: &mut Informers) -> (Controller, KeyId) {
    let controller = Controller::new(ControllerOptions::default(), informers);
    let job = json!({"metadata": {"namespace": "shop", "name": "pi", "uid": "a",
        "resourceVersion": "7"}, "spec": {"selector": {"matchLabels": {"app": "pi"}}}});
    let job: AnyObject = Arc::new(DynamicObject::from_json(Kind::JOB, job).expect("a Job"));
    informers.take(Kind::JOB).apply(Delta::Applied(job), NOW);
    let key = controller.key("shop", "pi");
    assert_eq!(next(&controller, JOBS, 0), Some(key));
    (controller, key)
}

#[test]
fn the_pods_of_a_list_into_an_empty_cache_are_handled_as_added() {
    let mut informers = Informers::new(Arc::default());
    let (controller, key) = controller(&mut informers);
    controller.expect(key, 2, 0, 0);
    let pods = vec![
        pod("alone", None),
        pod("pi-1", Some("a")),
        pod("pi-2", Some("a")),
        pod("pi-3", Some("gone")),
    ];
    let listed = informers.pods().replace(pods, &ResourceVersion::new("9"));
    assert!(!listed.runs.is_empty());
    controller.pods_listed(&listed, NOW);
    assert!(controller.is_settled(key, 0), "both creations are observed");
    assert_eq!(next(&controller, JOBS, 1_000_000_000), Some(key));
    let orphan = next(&controller, ORPHANS, 0).and_then(|key| controller.orphans_of(key));
    let expected = OrphanKey::Name("shop".into(), "alone".into());
    assert_eq!(orphan, Some(expected));
    assert_eq!(next(&controller, ORPHANS, 0), None);
}
