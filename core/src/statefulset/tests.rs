//! Tests beyond the recorded cases: lists into an empty cache, as at every start, and several
//! consecutive syncs.

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, DynamicObject, Kind, Now, Object as _, Pod, Resource as _, ResourceVersion,
};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::{Driver, Workload, sync_all};
use podstorm_runtime::informer::Informers;
use podstorm_runtime::metrics::text_of;
use podstorm_runtime::workqueue::Take;
use serde_json::{Value, json};

use super::{Controller, ControllerOptions};
use crate::cache::Delta;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

/// The image of pods that never become ready.
const BROKEN: &str = "broken";

/// A controller with its caches, and a server that fills them immediately. Pods are running and
/// ready on creation, unless their image is [`BROKEN`].
struct Lab {
    controller: Controller,
    informers: Informers,
    version: u64,
}

impl Lab {
    fn new() -> Lab {
        Lab::with(ControllerOptions::default())
    }

    fn with(options: ControllerOptions) -> Lab {
        let mut informers = Informers::new(Arc::default());
        Lab {
            controller: Controller::new(options, &mut informers),
            informers,
            version: 100,
        }
    }

    fn put(&mut self, mut object: Value) -> AnyObject {
        self.version += 1;
        object["metadata"]["namespace"] = "shop".into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = object["metadata"]["name"].clone();
        }
        if object["kind"] == "Pod" {
            let is_broken = object["spec"]["containers"][0]["image"] == BROKEN;
            object["status"] = match is_broken {
                true => json!({"phase": "Pending"}),
                false => {
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
                }
            };
            let pod = Arc::new(Pod::from_json(object).expect("a pod"));
            let change = self
                .informers
                .pods()
                .apply(Delta::Applied(Arc::clone(&pod)));
            self.controller.pod_changed(&change, NOW);
            return pod;
        }
        let kinds = [
            Kind::STATEFUL_SET,
            Kind::PERSISTENT_VOLUME_CLAIM,
            Kind::CONTROLLER_REVISION,
        ];
        let kind = kinds.into_iter().find(|kind| object["kind"] == kind.name());
        let kind = kind.expect("the controller must read the kind");
        let object: AnyObject =
            Arc::new(DynamicObject::from_json(kind, object).expect("an object"));
        self.informers
            .take(kind)
            .apply(Delta::Applied(Arc::clone(&object)), NOW);
        object
    }

    /// Syncs all waiting keys. Returns the requests and the error of the last sync.
    fn sync(&mut self) -> (Vec<String>, Option<String>) {
        let (controller, mut asked, mut error) = (self.controller.clone(), Vec::new(), None);
        let mut server = |request: &Request, _: Now| match request {
            Request::CreatePod { pod, .. } => {
                asked.push(format!("create {}", pod.metadata.name));
                let stored = self.put(pod.to_json());
                Answer::Pod(stored.downcast().expect("a pod"))
            }
            Request::DeletePod { name, .. } => {
                asked.push(format!("delete {name}"));
                if let Some(pod) = self.informers.pods().get("shop", name) {
                    let change = self.informers.pods().apply(Delta::Deleted(pod));
                    self.controller.pod_changed(&change, NOW);
                }
                Answer::Deleted(None)
            }
            Request::Create { object } | Request::Put { object } => {
                asked.push(format!("write {}", object.kind().name()));
                Answer::Object(self.put(object.to_json()))
            }
            Request::PutStatus { object } => Answer::Object(self.put(object.to_json())),
            other => panic!("unexpected request: {other:?}"),
        };
        sync_all(
            &controller,
            &mut Driver::default(),
            &mut server,
            NOW,
            |sync| {
                error = sync.failure().map(|failure| failure.message.clone());
            },
        );
        (asked, error)
    }
}

/// Builds a set `web` of this size, whose pods run this image.
fn web(replicas: i64, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Updates the image of the set. Keeps the status of the set.
fn update(lab: &mut Lab, image: &str) {
    let set = lab
        .informers
        .store::<super::CachedSet>(Kind::STATEFUL_SET, || ());
    let cached = set
        .get_named("shop", "web")
        .expect("the set must be cached");
    let mut changed = cached.object.to_json();
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
    lab.put(changed);
}

#[test]
fn pods_are_created_in_order_and_replaced_in_reverse() {
    let mut lab = Lab::new();
    lab.put(web(3, "i:1"));
    let (asked, error) = lab.sync();
    let wanted = [
        "write ControllerRevision",
        "create web-0",
        "create web-1",
        "create web-2",
    ];
    assert_eq!((asked, error), (wanted.map(str::to_owned).to_vec(), None));

    update(&mut lab, "i:2");
    let wanted = [
        "write ControllerRevision",
        "delete web-2",
        "create web-2",
        "delete web-1",
        "create web-1",
        "delete web-0",
        "create web-0",
    ];
    assert_eq!(lab.sync().0, wanted);
    update(&mut lab, "i:1");
    assert_eq!(
        lab.sync().0[..2],
        ["write ControllerRevision", "delete web-2"]
    );
    // In the settled state a sync sends no request.
    let key = lab.controller.key("shop", "web");
    lab.controller.queues()[0].add(key, 0);
    assert_eq!(lab.sync(), (Vec::new(), None));
}

/// For kubernetes#67250 and, with the gate of `maxUnavailable`, kubernetes#137409.
#[test]
fn hardened_replaces_a_broken_pod_of_an_abandoned_template() {
    let options = |replace_broken_pods, uses_max_unavailable| ControllerOptions {
        replace_broken_pods,
        uses_max_unavailable,
        ..ControllerOptions::default()
    };
    for is_hardened in [false, true] {
        let mut lab = Lab::with(options(is_hardened, false));
        lab.put(web(3, "i:1"));
        lab.sync();
        update(&mut lab, BROKEN);
        assert_eq!(lab.sync().0[1..], ["delete web-2", "create web-2"]);
        update(&mut lab, "i:1");
        let replaced: &[&str] = match is_hardened {
            true => &["write ControllerRevision", "delete web-2", "create web-2"],
            false => &["write ControllerRevision"],
        };
        assert_eq!(lab.sync().0, replaced);

        // The first revision is broken.
        let mut lab = Lab::with(options(is_hardened, true));
        let mut set = web(2, BROKEN);
        set["spec"]["podManagementPolicy"] = "Parallel".into();
        lab.put(set);
        assert_eq!(lab.sync().0[1..], ["create web-0", "create web-1"]);
        update(&mut lab, "i:1");
        let (asked, _) = lab.sync();
        let deleted = asked.iter().filter(|it| it.starts_with("delete"));
        assert_eq!(
            deleted.count(),
            if is_hardened { 2 } else { 0 },
            "{asked:?}"
        );
    }
}

#[test]
fn rolling_updates_set_the_gauges_of_max_unavailable() {
    let metrics = |uses_max_unavailable| {
        let mut lab = Lab::with(ControllerOptions {
            uses_max_unavailable,
            ..ControllerOptions::default()
        });
        let mut set = web(3, "i:1");
        set["spec"]["podManagementPolicy"] = "Parallel".into();
        set["spec"]["updateStrategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}});
        lab.put(set);
        lab.sync();
        let mut seen = vec![text_of(&lab.controller.families())];
        update(&mut lab, BROKEN);
        lab.sync();
        lab.controller.queues()[0].add(lab.controller.key("shop", "web"), 0);
        lab.sync();
        seen.push(text_of(&lab.controller.families()));
        seen
    };
    assert_eq!(metrics(false), ["", ""]);
    let labels = "{statefulset_namespace=\"shop\",statefulset_name=\"web\",pod_management_policy=\"Parallel\"}";
    for (text, unavailable) in metrics(true).iter().zip([0, 2]) {
        for line in [
            "# TYPE statefulset_controller_statefulset_max_unavailable gauge".to_owned(),
            format!("statefulset_controller_statefulset_max_unavailable{labels} 2"),
            format!(
                "statefulset_controller_statefulset_unavailable_replicas{labels} {unavailable}"
            ),
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
    }
}

#[test]
fn a_broken_pod_stays_below_the_partition_or_with_on_delete() {
    for strategy in [
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}),
        json!({"type": "OnDelete"}),
    ] {
        let mut lab = Lab::with(ControllerOptions {
            replace_broken_pods: true,
            ..ControllerOptions::default()
        });
        let mut set = web(1, BROKEN);
        set["spec"]["updateStrategy"] = strategy;
        lab.put(set);
        lab.sync();
        update(&mut lab, "i:1");
        assert_eq!(lab.sync().0, ["write ControllerRevision"]);
    }
}

#[test]
fn a_sync_costs_the_existing_pods_not_the_wanted_ones() {
    let mut lab = Lab::new();
    // One slot of memory for each wanted pod would take 17 GB.
    let mut set = web(i64::from(i32::MAX), "i:1");
    // The first pod does not become available, so the set waits for it.
    set["spec"]["minReadySeconds"] = 60.into();
    lab.put(set);
    let wanted = ["write ControllerRevision", "create web-0"];
    assert_eq!(lab.sync().0, wanted);
    update(&mut lab, "i:2");
    assert_eq!(lab.sync().0, ["write ControllerRevision"]);
}

#[test]
fn an_unusable_revision_stops_the_sync() {
    let mut lab = Lab::new();
    lab.put(web(1, "i:1"));
    lab.sync();
    update(&mut lab, "i:2");
    lab.controller.queues()[0].forget(lab.controller.key("shop", "web"));
    let revisions = lab
        .informers
        .store::<crate::revisions::Revision>(Kind::CONTROLLER_REVISION, || ());
    let (_, first) = revisions.all().remove(0);
    let mut broken = first.0.to_json();
    broken["data"]["spec"]["template"]["spec"]["containers"] = "none".into();
    lab.put(broken);
    let (asked, error) = lab.sync();
    assert_eq!(asked, ["write ControllerRevision"]);
    let error = error.expect("the current revision must fail to apply");
    assert!(error.contains("containers"), "{error}");
}

#[test]
fn pods_listed_into_an_empty_cache_count_as_added() {
    let owned = |name: &str, uid: &str| {
        json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "8",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": uid,
                "controller": true}]}})
    };
    let alone = json!({"metadata": {"namespace": "shop", "name": "x", "uid": "x", "labels": {"app": "web"}}});
    let due = |lab: &Lab| {
        let queue = &lab.controller.queues()[0];
        let Take::Key(key) = queue.try_take(0) else {
            return false;
        };
        queue.done(key, 0);
        key == lab.controller.key("shop", "web")
    };
    for (pod, wakes) in [
        (owned("web-0", "web"), true),
        (owned("web-1", "gone"), false),
        (alone, true),
    ] {
        let pod = Pod::from_json(pod).expect("a pod");
        let mut fresh = Lab::new();
        fresh.put(web(0, "i:1"));
        assert!(due(&fresh) && !due(&fresh));
        let listed = fresh
            .informers
            .pods()
            .replace(vec![Arc::new(pod)], &ResourceVersion::new("9"));
        assert!(!listed.runs.is_empty());
        fresh.controller.pods_listed(&listed, NOW);
        assert_eq!(due(&fresh), wakes);
    }
}
