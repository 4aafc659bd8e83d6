//! H1 to H11: known peculiarities of upstream's Deployment controller, each reproduced.

use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::deployment::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use podstorm::deployment::{Controller, scale_plan};
use podstorm::driver::AsyncSync;
use podstorm::intern::KeyId;
use podstorm::object::{
    Deployment, DynamicObject, Kind, Namespace, Node, Now, Pod, ReplicaSet, Resource,
};
use podstorm_apiserver::{Cluster, ClusterOptions, DeleteOptions, Patch, Propagation};
use podstorm_faultsim::objects::named;
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::engine::observer::{NoopObserver, Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::{ApiFault, Armed, BatchPosition, Call, Effect};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use podstorm_tests::hazard::seconds;
use serde_json::{Value, json};

/// The namespace.
const SHOP: &str = "shop";

/// The work of the controller.
#[derive(Debug, Default)]
struct Log(Mutex<Work>);

#[derive(Clone, Debug, Default)]
struct Work {
    syncs: usize,
    /// The failed syncs, by their step.
    failures: Vec<String>,
    /// Each call with the code of its answer; 0 for success.
    calls: Vec<(Call, u16)>,
}

impl Log {
    fn work(&self) -> MutexGuard<'_, Work> {
        let work = self.0.lock();
        work.expect("the lock is not poisoned")
    }
}

impl Origins for Log {
    fn carries_out(&self, _: Option<Origin>) {}
}

impl Observer<Controller> for Log {
    fn sync_begins(&self, _: SyncId, _: &Controller, _: usize, _: KeyId, _: Now) {
        self.work().syncs += 1;
    }

    fn sends(&self, _: SyncId, _: &Controller, _: &Request, _: BatchPosition, _: Now) {}

    fn answered(&self, _: SyncId, request: &Request, answer: &Answer, _: Now) {
        let code = match answer {
            Answer::Failed(error) => error.code,
            _ => 0,
        };
        self.work().calls.push((Call::from_request(request), code));
    }

    fn sync_ended(&self, _: SyncId, _: &Controller, state: &AsyncSync, _: Now) {
        let failed = state.failure().map(|it| it.label.to_owned());
        self.work().failures.extend(failed);
    }
}

/// A cluster with the controllers of Deployments and ReplicaSets.
struct Shop {
    harness: FaultHarness,
    log: Arc<Log>,
}

impl Shop {
    fn new() -> Shop {
        let mut options = SimOptions::new(EngineKind::Virtual, 7);
        let kinds = [Kind::REPLICA_SET, Kind::DEPLOYMENT];
        options.services.controllers = Controllers::of_kinds(Rows::installed(), &kinds);
        let (server, log) = (ClusterOptions::default(), Arc::new(Log::default()));
        let mut harness = FaultHarness::new(&options, server, Arc::new(NoopObserver));
        harness.observe::<Controller>(Arc::clone(&log) as _);
        let now = harness.now();
        let namespace = Namespace {
            metadata: named(SHOP),
            ..Namespace::default()
        };
        let created = harness.cluster().create(namespace, now);
        created.expect("the request succeeds");
        let node = json!({"metadata": {"name": "n"}, "status": {
            "allocatable": {"pods": "1000"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let node = Node::from_json(node).expect("a valid object");
        let created = harness.cluster().create(node, now);
        created.expect("the request succeeds");
        harness.start_manager();
        Shop { harness, log }
    }

    /// Returns a cluster with the Deployment `web` of three pods and these members in its spec,
    /// completely rolled out.
    fn with_web(spec: Value) -> Shop {
        let mut shop = Shop::new();
        shop.create("web", spec);
        shop.run(60);
        assert_eq!(shop.sizes("web"), [3]);
        shop
    }

    fn cluster(&self) -> &Cluster {
        self.harness.cluster()
    }

    fn create(&self, name: &str, spec: Value) {
        let mut object = json!({"metadata": {"name": name, "namespace": SHOP}, "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "app:1"}]}},
        }});
        for (name, value) in spec.as_object().expect("a valid object") {
            object["spec"][name] = value.clone();
        }
        let object = DynamicObject::from_json(Kind::DEPLOYMENT, object).expect("a valid object");
        let api = self.cluster().api(Kind::DEPLOYMENT);
        api.create(Arc::new(object), self.harness.now())
            .expect("the request succeeds");
    }

    /// Advances the time by a number of seconds.
    fn run(&mut self, for_s: i64) {
        let end_ns = self.harness.now().mono_ns + seconds(for_s);
        assert_eq!(self.harness.advance(end_ns, || false), Stopped::AtEnd);
    }

    fn patch(&self, patch: Value) {
        let patch = merge(patch);
        let api = self.cluster().api(Kind::DEPLOYMENT);
        api.patch(SHOP, "web", &patch, self.harness.now())
            .expect("the request succeeds");
    }

    fn set_image(&self, image: &str) {
        let containers = json!([{"name": "c", "image": image}]);
        self.patch(json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    }

    fn patch_set(&self, set: &ReplicaSet, patch: Value) {
        let (name, now) = (&set.metadata.name, self.harness.now());
        let patched = self
            .cluster()
            .patch::<ReplicaSet>(SHOP, name, &merge(patch), now);
        patched.expect("the request succeeds");
    }

    fn annotate_set(&self, set: &ReplicaSet, name: &str, value: &str) {
        self.patch_set(set, json!({"metadata": {"annotations": {name: value}}}));
    }

    fn deployment(&self, name: &str) -> Arc<Deployment> {
        let found = self.cluster().api(Kind::DEPLOYMENT).get(SHOP, name);
        Deployment::from_object(&found.expect("the Deployment exists")).expect("a Deployment")
    }

    /// Returns the ReplicaSets of a Deployment, the oldest revision first.
    fn sets(&self, name: &str) -> Vec<Arc<ReplicaSet>> {
        let uid = &self.deployment(name).metadata.uid;
        let (mut sets, _) = self.cluster().list::<ReplicaSet>(Some(SHOP));
        sets.retain(|set| set.metadata.controller().is_some_and(|it| it.uid == *uid));
        sets.sort_by_key(|set| {
            let revision = set.metadata.annotations.get(REVISION);
            revision.and_then(|text| text.parse::<i64>().ok())
        });
        sets
    }

    /// Returns an annotation of the first ReplicaSet of `web`.
    fn annotation(&self, name: &str) -> Option<String> {
        let set = self.sets("web").remove(0);
        set.metadata.annotations.get(name).map(ToString::to_string)
    }

    fn sizes(&self, name: &str) -> Vec<i32> {
        self.sets(name).iter().map(|set| set.replicas()).collect()
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.cluster().list::<Pod>(Some(SHOP)).0
    }

    /// Returns the work of the controller since the last call.
    fn work(&self) -> Work {
        std::mem::take(&mut *self.log.work())
    }
}

fn merge(patch: Value) -> Patch {
    let Value::Object(members) = patch else {
        panic!("an object")
    };
    Patch::Merge(members.into_iter().collect())
}

/// H1: if a pod becomes unready long after the rollout, the Deployment is synced again and again,
/// as fast as the queue's rate limit allows, and nothing is written.
#[test]
fn deployment_01_busy_requeue() {
    let mut shop = Shop::with_web(json!({"progressDeadlineSeconds": 10}));
    shop.run(60);
    let name = shop.pods()[0].metadata.name.to_string();
    let ready = |shop: &Shop, status: &str| {
        let conditions = json!([{"type": "Ready", "status": status}]);
        let patch = merge(json!({"status": {"conditions": conditions}}));
        let (cluster, now) = (shop.cluster(), shop.harness.now());
        cluster
            .patch_status::<Pod>(SHOP, &name, &patch, now)
            .unwrap();
    };
    ready(&shop, "False");
    shop.run(1);
    shop.work();
    shop.run(60);
    let busy = shop.work();
    assert!((400..=800).contains(&busy.syncs), "{} syncs", busy.syncs);
    assert_eq!(busy.calls, []);
    ready(&shop, "True");
    shop.run(5);
    shop.work();
    shop.run(60);
    assert_eq!(shop.work().syncs, 0);
}

/// H2: a failed scale-down of an old ReplicaSet does not fail the sync, so it is not retried. The
/// next event retries it.
#[test]
fn deployment_02_swallowed_errors() {
    let mut shop = Shop::with_web(json!({}));
    shop.work();
    // The first write of a rollout creates a ReplicaSet of one pod. The second scales down the old
    // one, when that pod is available.
    shop.set_image("app:2");
    shop.harness.advance(i64::MAX, || {
        let work = shop.log.work();
        work.calls.iter().any(|it| it.0 == Call::WriteObject)
    });
    let refuse = Effect::Refuse(ApiFault::InternalError);
    shop.harness
        .network()
        .arm(Armed::new(&[Call::WriteObject], refuse, 1));
    shop.run(120);
    let work = shop.work();
    assert!(work.calls.contains(&(Call::WriteObject, 500)), "{work:?}");
    let failed = |label: &str| work.failures.iter().any(|it| it == label);
    assert!(!failed("ReplicaSet write failed"), "{work:?}");
    assert_eq!(shop.sizes("web"), [0, 3]);
}

/// H3: the only active ReplicaSet has the right size, but its annotation has another desired size:
/// every sync scales, and no rollout begins until the Deployment's size changes.
#[test]
fn deployment_03_stuck_scaling() {
    let mut shop = Shop::with_web(json!({}));
    shop.annotate_set(&shop.sets("web")[0], DESIRED_REPLICAS, "2");
    shop.run(5);
    shop.set_image("app:2");
    shop.run(600);
    assert_eq!(shop.sizes("web"), [3]);
    shop.patch(json!({"spec": {"replicas": 4}}));
    shop.run(120);
    assert_eq!(shop.sizes("web"), [0, 4]);
}

/// H4: with `Recreate` and two active ReplicaSets, nothing is scaled, and no rollout begins.
#[test]
fn deployment_04_stuck_recreation() {
    let mut shop = Shop::with_web(json!({"strategy": {"type": "Recreate"}}));
    shop.set_image("app:2");
    shop.run(120);
    assert_eq!(shop.sizes("web"), [0, 3]);
    let sets = shop.sets("web");
    shop.annotate_set(&sets[1], DESIRED_REPLICAS, "9");
    shop.patch_set(&sets[0], json!({"spec": {"replicas": 2}}));
    shop.set_image("app:3");
    shop.run(600);
    assert_eq!(shop.sizes("web"), [2, 3]);
    let amounts = json!({"maxSurge": 1, "maxUnavailable": 0});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": amounts});
    shop.patch(json!({"spec": {"strategy": rolling}}));
    shop.run(300);
    assert_eq!(shop.sizes("web"), [0, 0, 3]);
}

/// H5: proportional shares of ReplicaSets with tens of thousands of pods overflow 32 bits.
#[test]
fn deployment_05_shares_wrap() {
    let set = |name: &str, replicas: i32| {
        let annotations = json!({MAX_REPLICAS: "110000", DESIRED_REPLICAS: "110000"});
        let metadata = json!({"name": name, "annotations": annotations});
        let set = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        Arc::new(ReplicaSet::from_json(set).unwrap())
    };
    let strategy = json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let deployment = json!({"spec": {"replicas": 132_000, "strategy": strategy}});
    let deployment = Deployment::from_json(deployment).unwrap();
    let plan = scale_plan(
        &deployment,
        Some(&set("new", 50_000)),
        &[set("old", 60_000)],
    );
    let sizes: Vec<i32> = plan.sizes.iter().map(|(_, size)| *size).collect();
    // 50,000 * 132,000 exceeds 32 bits by 2,305,032,704, which is -1,989,934,592; divided by
    // 110,000 that is -18,090.
    assert_eq!(sizes[1], -18_090);
    assert_eq!(sizes[0] + sizes[1], 132_000);
}

/// H6: a sync that creates a ReplicaSet writes the status twice, the second time with a version
/// that it knows to be outdated.
#[test]
fn deployment_06_duplicate_writes() {
    let shop = Shop::with_web(json!({}));
    let work = shop.work();
    let statuses: Vec<u16> = (work.calls.iter())
        .filter(|(call, _)| *call == Call::PutStatus)
        .map(|(_, code)| *code)
        .collect();
    assert_eq!(statuses[..2], [0, 409]);
    assert_eq!(work.failures, ["status failed"]);
}

/// H7: of two Deployments with one selector, the first adopts an orphan, and the other leaves it
/// alone.
#[test]
fn deployment_07_overlapping_selectors() {
    let mut shop = Shop::with_web(json!({}));
    shop.create("api", json!({}));
    shop.run(60);
    let labels = json!({"app": "web", "is": "stray"});
    let stray = json!({"metadata": {"name": "stray", "namespace": SHOP, "labels": labels}, "spec": {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "app:0"}]}},
    }});
    let stray = ReplicaSet::from_json(stray).unwrap();
    shop.cluster().create(stray, shop.harness.now()).unwrap();
    shop.run(120);
    let owned = ["web", "api"].map(|name| {
        let sets = shop.sets(name);
        assert!(sets.iter().any(|set| set.replicas() == 3));
        sets.iter().any(|set| *set.metadata.name == *"stray")
    });
    assert_eq!(owned.iter().filter(|owns| **owns).count(), 1);
    let status = shop.deployment("api").status.clone();
    assert_eq!((status.replicas, status.updated_replicas), (3, 3));
}

/// H8: a terminating ReplicaSet with the right template is still the new one. No other is created
/// until it is gone.
#[test]
fn deployment_08_new_replicaset_is_terminating() {
    let mut shop = Shop::with_web(json!({}));
    let old = shop.sets("web").remove(0);
    let stuck = |shop: &Shop, finalizers: Value| {
        let patch = merge(json!({"metadata": {"finalizers": finalizers}}));
        for pod in shop.pods() {
            let (name, now) = (&pod.metadata.name, shop.harness.now());
            shop.cluster()
                .patch::<Pod>(SHOP, name, &patch, now)
                .unwrap();
        }
    };
    stuck(&shop, json!(["podstorm.example/stuck"]));
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        ..DeleteOptions::default()
    };
    let name = old.metadata.name.to_string();
    let deleted = shop
        .cluster()
        .delete::<ReplicaSet>(SHOP, &name, &options, shop.harness.now());
    deleted.unwrap();
    shop.run(120);
    let sets = shop.sets("web");
    assert_eq!(sets.len(), 1);
    assert!(sets[0].metadata.is_deleting() && sets[0].metadata.uid == old.metadata.uid);
    stuck(&shop, Value::Null);
    shop.run(120);
    let sets = shop.sets("web");
    assert_eq!((sets.len(), sets[0].replicas()), (1, 3));
    assert!(sets[0].metadata.uid != old.metadata.uid);
}

/// H9: the controller's own annotations on a Deployment are not copied to ReplicaSets.
#[test]
fn deployment_09_own_annotations() {
    let mut shop = Shop::with_web(json!({}));
    let annotations = json!({MAX_REPLICAS: "99", "team": "blue"});
    shop.patch(json!({"metadata": {"annotations": annotations}}));
    shop.run(60);
    assert_eq!(shop.annotation("team").as_deref(), Some("blue"));
    assert_eq!(shop.annotation(MAX_REPLICAS).as_deref(), Some("4"));
}

/// H10: a key whose sync has failed sixteen times in a row is dropped until the next event.
#[test]
fn deployment_10_dropped_key() {
    let mut shop = Shop::with_web(json!({"progressDeadlineSeconds": i32::MAX}));
    shop.work();
    let refuse = Effect::Refuse(ApiFault::InternalError);
    shop.harness
        .network()
        .arm(Armed::new(&[Call::WriteObject], refuse, 1_000));
    shop.set_image("app:2");
    shop.run(600);
    let work = shop.work();
    assert_eq!(work.failures, ["create failed"; 16]);
    shop.harness.network().heal();
    shop.run(3_600);
    assert_eq!(shop.work().syncs, 0);
    assert_eq!(shop.sizes("web"), [3]);
    shop.patch(json!({"metadata": {"annotations": {"touched": "1"}}}));
    shop.run(120);
    assert_eq!(shop.sizes("web"), [0, 3]);
}

/// H11: the annotations of a ReplicaSet with an invalid revision are not updated until something
/// else is written to it.
#[test]
fn deployment_11_unreadable_revision() {
    let mut shop = Shop::with_web(json!({}));
    shop.annotate_set(&shop.sets("web")[0], REVISION, "first");
    shop.run(5);
    shop.patch(json!({"metadata": {"annotations": {"team": "blue"}}}));
    shop.run(60);
    assert_eq!(shop.annotation("team"), None);
    shop.patch(json!({"spec": {"minReadySeconds": 1}}));
    shop.run(60);
    assert_eq!(shop.annotation("team").as_deref(), Some("blue"));
}
