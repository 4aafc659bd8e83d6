//! J1 to J9: known peculiarities of upstream's Job controller, each reproduced.

use std::sync::{Arc, Mutex};

use podstorm::client::{Answer, Patch as Asked, Request};
use podstorm::driver::AsyncSync;
use podstorm::intern::KeyId;
use podstorm::job::Controller;
use podstorm::object::{
    AnyObject, ApiError, DynamicObject, Kind, Namespace, Node, Now, Pod, PodPhase, Resource,
};
use podstorm_apiserver::{ClusterOptions, Patch};
use podstorm_faultsim::objects::named;
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::engine::observer::{NoopObserver, Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::BatchPosition;
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use podstorm_tests::hazard::seconds;
use serde_json::{Value, json};

/// The namespace.
const SHOP: &str = "shop";

/// The finalizer by which a Job keeps its pods until it has counted them.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The patches of pods that the controller requests.
#[derive(Debug, Default)]
struct Patches(Mutex<Vec<Asked>>);

impl Origins for Patches {
    fn carries_out(&self, _: Option<Origin>) {}
}

impl Observer<Controller> for Patches {
    fn sync_begins(&self, _: SyncId, _: &Controller, _: usize, _: KeyId, _: Now) {}

    fn sends(&self, _: SyncId, _: &Controller, request: &Request, _: BatchPosition, _: Now) {
        if let Request::Patch { patch, .. } = request {
            let mut all = self.0.lock().expect("the lock is not poisoned");
            all.push((**patch).clone());
        }
    }

    fn answered(&self, _: SyncId, _: &Request, _: &Answer, _: Now) {}

    fn sync_ended(&self, _: SyncId, _: &Controller, _: &AsyncSync, _: Now) {}
}

/// A cluster with the Job controller, for the Job `pi`.
struct Shop {
    harness: FaultHarness,
    patches: Arc<Patches>,
}

impl Shop {
    /// Returns a cluster without a Job.
    fn new() -> Shop {
        let mut options = SimOptions::new(EngineKind::Virtual, 7);
        options.services.controllers = Controllers::of_kinds(Rows::installed(), &[Kind::JOB]);
        let server = ClusterOptions::default();
        let mut harness = FaultHarness::new(&options, server, Arc::new(NoopObserver));
        let patches = Arc::new(Patches::default());
        harness.observe::<Controller>(Arc::clone(&patches) as _);
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
        Shop { harness, patches }
    }

    /// Returns a cluster with a Job of two pods and these members in its spec, after one minute.
    fn with_job(members: Value) -> Shop {
        let mut shop = Shop::new();
        shop.create(members).expect("the request succeeds");
        shop.run(60);
        shop
    }

    fn create(&self, members: Value) -> Result<AnyObject, ApiError> {
        let mut spec = json!({"parallelism": 2, "completions": 4, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "app:1"}]}}});
        for (name, value) in members.as_object().expect("members of a spec") {
            spec[name] = value.clone();
        }
        let job = json!({"metadata": {"name": "pi", "namespace": SHOP}, "spec": spec});
        let job = DynamicObject::from_json(Kind::JOB, job).expect("a valid object");
        let api = self.harness.cluster().api(Kind::JOB);
        api.create(Arc::new(job), self.harness.now())
    }

    /// Advances the time by a number of seconds.
    fn run(&mut self, for_s: i64) {
        let end_ns = self.harness.now().mono_ns + seconds(for_s);
        assert_eq!(self.harness.advance(end_ns, || false), Stopped::AtEnd);
    }

    fn job(&self) -> Value {
        let found = self.harness.cluster().api(Kind::JOB).get(SHOP, "pi");
        found.expect("the Job exists").to_json()
    }

    fn status(&self, member: &str) -> Value {
        self.job()["status"][member].clone()
    }

    fn patch(&self, spec: Value) {
        let patch = merge(json!({"spec": spec}));
        let api = self.harness.cluster().api(Kind::JOB);
        let patched = api.patch(SHOP, "pi", &patch, self.harness.now());
        patched.expect("the request succeeds");
    }

    /// Returns the pods that have not ended.
    fn running(&self) -> Vec<Arc<Pod>> {
        let (mut pods, _) = self.harness.cluster().list::<Pod>(Some(SHOP));
        pods.retain(|pod| !pod.status.phase.is_terminal());
        pods
    }

    fn patch_pod(&self, pod: &Pod, patch: Value) {
        let (name, now) = (&pod.metadata.name, self.harness.now());
        let cluster = self.harness.cluster();
        let patched = cluster.patch::<Pod>(SHOP, name, &merge(patch), now);
        patched.expect("the request succeeds");
    }

    fn end(&self, pod: &Pod, phase: PodPhase) {
        let at = self.harness.now().wall().to_string();
        let status = json!({"phase": phase.as_str(), "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at}]});
        let (name, now) = (&pod.metadata.name, self.harness.now());
        let patch = merge(json!({"status": status}));
        let cluster = self.harness.cluster();
        let patched = cluster.patch_status::<Pod>(SHOP, name, &patch, now);
        patched.expect("the request succeeds");
    }

    /// Returns the controller, and its key for the Job.
    fn controller(&self) -> (Arc<Controller>, KeyId) {
        let controller = self.harness.controllers::<Controller>().next();
        let controller = controller.expect("a running controller");
        let key = controller.key(SHOP, "pi");
        (controller, key)
    }

    /// Returns the condition `Suspended`, and the start time.
    fn suspended(&self) -> (Value, Value) {
        let conditions = self.status("conditions");
        let mut all = conditions.as_array().into_iter().flatten();
        let found = all.find(|it| it["type"] == "Suspended");
        let status = found.map(|it| it["status"].clone());
        (status.unwrap_or_default(), self.status("startTime"))
    }
}

fn merge(patch: Value) -> Patch {
    let Value::Object(members) = patch else {
        panic!("an object")
    };
    Patch::Merge(members.into_iter().collect())
}

/// J1: while a Job backs off after a failure, it writes that no pod is active. The server refuses
/// that if a pod is ready, so the failed pod is counted only after the delay of 10 s.
#[test]
fn job_01_no_pod_is_active_while_it_waits() {
    let mut shop = Shop::with_job(json!({}));
    shop.end(&shop.running()[0], PodPhase::Failed);
    shop.run(9);
    let said = ["active", "ready", "failed"].map(|it| shop.status(it));
    assert_eq!(said, [json!(2), json!(2), Value::Null]);
    shop.run(10);
    let said = ["active", "ready", "failed"].map(|it| shop.status(it));
    assert_eq!(said, [json!(2), json!(2), json!(1)]);
}

/// J2: each change of a terminating pod lowers the expected deletions, even below zero, which
/// counts as satisfied.
#[test]
fn job_02_awaited_deletions_fall_below_zero() {
    let mut shop = Shop::with_job(json!({}));
    let pod = shop.running().remove(0);
    let held = json!([TRACKING, "acme.io/hold"]);
    shop.patch_pod(&pod, json!({"metadata": {"finalizers": held}}));
    let (cluster, now) = (shop.harness.cluster(), shop.harness.now());
    let deleted = cluster.delete::<Pod>(SHOP, &pod.metadata.name, &Default::default(), now);
    deleted.expect("the request succeeds");
    shop.run(60);
    for number in 0..3 {
        shop.patch_pod(
            &pod,
            json!({"metadata": {"labels": {"n": number.to_string()}}}),
        );
        shop.run(1);
    }
    let (controller, key) = shop.controller();
    let counts = controller.expected(key).expect("pods were created");
    assert!(counts.del < -2, "{counts:?}");
    assert!(controller.is_settled(key, shop.harness.now().mono_ns));
}

/// J3: a pod whose finalizer the controller believes to have removed is not counted until the pod
/// changes, however long that takes.
#[test]
fn job_03_released_pods_have_no_timeout() {
    let mut shop = Shop::with_job(json!({}));
    let pod = shop.running().remove(0);
    let (controller, key) = shop.controller();
    controller.remember(key, |state| {
        state.released = Some([pod.metadata.uid.clone()].into());
    });
    shop.end(&pod, PodPhase::Succeeded);
    shop.run(3600);
    assert_eq!(shop.status("succeeded"), Value::Null);
    controller.remember(key, |state| state.released = None);
    shop.patch(json!({"parallelism": 3}));
    shop.run(60);
    assert_eq!(shop.status("succeeded"), 1);
}

/// J4: unordered index texts would crash upstream's process. The server rejects them.
#[test]
fn job_04_indexes_out_of_order_are_refused() {
    let shop = Shop::with_job(json!({"completionMode": "Indexed"}));
    let api = shop.harness.cluster().api(Kind::JOB);
    for text in ["3,1", "0-2,1", "1,"] {
        let patch = merge(json!({"status": {"completedIndexes": text}}));
        let patched = api.patch_status(SHOP, "pi", &patch, shop.harness.now());
        assert_eq!(patched.expect_err(text).code, 422, "{text}");
    }
}

/// J5: numbers whose absence would crash upstream's process are required or have a default.
#[test]
fn job_05_no_number_is_absent() {
    let shop = Shop::new();
    let members = json!({"completionMode": "Indexed", "completions": null});
    let refused = shop
        .create(members)
        .expect_err("an indexed Job needs completions");
    assert_eq!(refused.code, 422);
    let members = json!({"completions": null, "parallelism": null});
    shop.create(members).expect("the request succeeds");
    let spec = &shop.job()["spec"];
    let numbers = ["parallelism", "completions", "backoffLimit"].map(|it| spec[it].clone());
    assert_eq!(numbers, [json!(1), json!(1), json!(6)]);
}

/// J6: a pod whose finalizer another client removes before it has ended is never counted, and is
/// replaced.
#[test]
fn job_06_a_pod_without_finalizer_is_not_counted() {
    let mut shop = Shop::with_job(json!({}));
    let pod = shop.running().remove(0);
    shop.patch_pod(&pod, json!({"metadata": {"finalizers": []}}));
    shop.run(5);
    shop.end(&pod, PodPhase::Succeeded);
    shop.run(60);
    assert_eq!(shop.status("succeeded"), Value::Null);
    assert_eq!(shop.running().len(), 2);
}

/// J7: the patch that removes the finalizer names no UID, so it could strike another pod of that
/// name.
#[test]
fn job_07_the_patch_of_the_finalizer_names_no_uid() {
    let mut shop = Shop::with_job(json!({}));
    shop.end(&shop.running()[0], PodPhase::Succeeded);
    shop.run(60);
    let patches = shop.patches.0.lock().expect("the lock is not poisoned");
    let body = patches[0].strategic().expect("a strategic merge patch");
    let removed = json!({"$deleteFromPrimitiveList/finalizers": [TRACKING]});
    assert_eq!(json!(body), json!({"metadata": removed}));
}

/// J8: a resumed Job gets a new start time in the write that resumes it, and its deadline counts
/// from then.
#[test]
fn job_08_a_resumed_job_starts_again() {
    let mut shop = Shop::with_job(json!({"activeDeadlineSeconds": 100}));
    shop.patch(json!({"suspend": true}));
    shop.run(300);
    let resumed = shop.harness.now().wall().to_string();
    shop.patch(json!({"suspend": false}));
    shop.run(90);
    assert_eq!(shop.suspended(), (json!("False"), json!(resumed)));
    assert_eq!(shop.running().len(), 2);
    shop.run(30);
    assert_eq!(shop.status("conditions")[1]["reason"], "DeadlineExceeded");
}

/// J9: a Job that was never resumed has no start time, and suspending it again removes the start
/// time.
#[test]
fn job_09_a_suspended_job_has_no_start() {
    let mut shop = Shop::with_job(json!({"suspend": true}));
    assert_eq!(shop.suspended(), (json!("True"), Value::Null));
    shop.patch(json!({"suspend": false}));
    shop.run(60);
    assert_ne!(shop.suspended().1, Value::Null);
    shop.patch(json!({"suspend": true}));
    shop.run(60);
    assert_eq!(shop.suspended(), (json!("True"), Value::Null));
}
