//! K1 to K12: known peculiarities of upstream's StatefulSet controller, each reproduced.

use std::sync::{Arc, Mutex};

use podstorm::client::{Answer, Request};
use podstorm::driver::AsyncSync;
use podstorm::intern::KeyId;
use podstorm::object::{AnyObject, DynamicObject, Kind, Namespace, Node, Now, Resource as _};
use podstorm::statefulset::Controller;
use podstorm::statefulset::spec::SetSpec;
use podstorm_apiserver::{ClusterOptions, Patch};
use podstorm_faultsim::objects::named;
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::engine::observer::{NoopObserver, Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::{ApiFault, Armed, BatchPosition, Call, Effect, FaultClass};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use podstorm_tests::hazard::seconds;
use serde_json::{Value, json};

/// The namespace.
const SHOP: &str = "shop";

const SET: Kind = Kind::STATEFUL_SET;
const CLAIM: Kind = Kind::PERSISTENT_VOLUME_CLAIM;
const REVISION: Kind = Kind::CONTROLLER_REVISION;

/// The requests of the controller with the code of the answer (200 for success), and the errors of
/// its syncs.
#[derive(Debug, Default)]
struct Log {
    asked: Mutex<Vec<(Request, u16)>>,
    failures: Mutex<Vec<String>>,
}

impl Origins for Log {
    fn carries_out(&self, _: Option<Origin>) {}
}

impl Observer<Controller> for Log {
    fn sync_begins(&self, _: SyncId, _: &Controller, _: usize, _: KeyId, _: Now) {}

    fn sends(&self, _: SyncId, _: &Controller, _: &Request, _: BatchPosition, _: Now) {}

    fn answered(&self, _: SyncId, request: &Request, answer: &Answer, _: Now) {
        let code = match answer {
            Answer::Failed(error) => error.code,
            _ => 200,
        };
        let mut asked = self.asked.lock().expect("the lock is not poisoned");
        asked.push((request.clone(), code));
    }

    fn sync_ended(&self, _: SyncId, _: &Controller, sync: &AsyncSync, _: Now) {
        if let Some(failure) = sync.failure() {
            let failures = self.failures.lock();
            let mut failures = failures.expect("the lock is not poisoned");
            failures.push(failure.message.clone());
        }
    }
}

/// A cluster with only the StatefulSet controller, for the set `web`.
struct Shop {
    harness: FaultHarness,
    log: Arc<Log>,
}

impl Shop {
    fn new() -> Shop {
        let mut options = SimOptions::new(EngineKind::Virtual, 7);
        options.services.controllers = Controllers::of_kinds(Rows::installed(), &[SET]);
        let server = ClusterOptions::default();
        let mut harness = FaultHarness::new(&options, server, Arc::new(NoopObserver));
        let log = Arc::new(Log::default());
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

    /// Returns a cluster with the set and these members in its spec, after one minute.
    fn with_set(members: Value) -> Shop {
        let mut shop = Shop::new();
        shop.create_set(members);
        shop.run(60);
        shop
    }

    fn create_set(&self, members: Value) {
        let mut spec = json!({"replicas": 2, "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}}, "template": template("app:1")});
        for (name, value) in members.as_object().expect("members of a spec") {
            spec[name] = value.clone();
        }
        self.create(SET, "web", json!({"spec": spec}));
    }

    fn create(&self, kind: Kind, name: &str, mut object: Value) -> AnyObject {
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = SHOP.into();
        let api = self.harness.cluster().api(kind);
        let object = api.read(object).expect("the kind is served");
        let created = api.create(object.expect("an object of the kind"), self.harness.now());
        created.expect("the request succeeds")
    }

    fn run(&mut self, for_s: i64) {
        let end_ns = self.harness.now().mono_ns + seconds(for_s);
        assert_eq!(self.harness.advance(end_ns, || false), Stopped::AtEnd);
    }

    fn get(&self, kind: Kind, name: &str) -> Value {
        let found = self.harness.cluster().api(kind).get(SHOP, name);
        found.map_or(Value::Null, |found| found.to_json())
    }

    fn status(&self, member: &str) -> Value {
        self.get(SET, "web")["status"][member].clone()
    }

    fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let api = self.harness.cluster().api(kind);
        let patched = api.patch(SHOP, name, &merge(patch), self.harness.now());
        patched.expect("the request succeeds");
    }

    fn spec(&self, spec: Value) {
        self.patch(SET, "web", json!({"spec": spec}));
    }

    fn delete(&self, kind: Kind, name: &str) {
        let api = self.harness.cluster().api(kind);
        let deleted = api.delete(SHOP, name, &Default::default(), self.harness.now());
        deleted.expect("the request succeeds");
    }

    fn names(&self, kind: Kind) -> Vec<String> {
        let page = self.harness.cluster().api(kind).list(&Default::default());
        let items = page.expect("the kind is served").items;
        let here = items.iter().filter(|it| *it.metadata().namespace == *SHOP);
        here.map(|it| it.metadata().name.to_string()).collect()
    }

    fn image(&self, pod: &str) -> Value {
        self.get(Kind::POD, pod)["spec"]["containers"][0]["image"].clone()
    }

    /// Returns the requests since the last call.
    fn asked(&self) -> Vec<(Request, u16)> {
        let asked = self.log.asked.lock();
        std::mem::take(&mut *asked.expect("the lock is not poisoned"))
    }

    /// Returns the errors of syncs since the last call.
    fn failures(&self) -> Vec<String> {
        let failures = self.log.failures.lock();
        std::mem::take(&mut *failures.expect("the lock is not poisoned"))
    }
}

fn merge(patch: Value) -> Patch {
    let Value::Object(members) = patch else {
        panic!("an object")
    };
    Patch::Merge(members.into_iter().collect())
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// Returns a template whose pods fit on no node.
fn broken(image: &str) -> Value {
    let mut template = template(image);
    template["spec"]["schedulerName"] = "nobody".into();
    template
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Returns the names of the created or written objects of a kind, with the codes of the answers.
fn written(asked: &[(Request, u16)], kind: Kind) -> Vec<(String, u16)> {
    let named = |(request, code): &(Request, u16)| match request {
        Request::Create { object } | Request::Put { object } if object.kind() == kind => {
            Some((object.metadata().name.to_string(), *code))
        }
        _ => None,
    };
    asked.iter().filter_map(named).collect()
}

/// K1: a conflict while restoring an earlier revision is not retried in that sync, which fails
/// because of an empty name. The next sync repairs it.
#[test]
fn set_01_a_conflict_about_a_revision_is_an_empty_name() {
    let mut shop = Shop::with_set(json!({}));
    shop.spec(json!({"template": template("app:2")}));
    shop.run(120);
    shop.asked();
    shop.harness.network().arm(Armed {
        class: FaultClass::StatusConflict,
        calls: vec![Call::WriteObject],
        workload: None,
        batch: None,
        index: None,
        effect: Effect::Refuse(ApiFault::Conflict),
        times: 1,
        until_ns: i64::MAX,
    });
    shop.spec(json!({"template": template("app:1")}));
    shop.run(120);
    let codes: Vec<u16> = written(&shop.asked(), REVISION)
        .into_iter()
        .map(|(_, code)| code)
        .collect();
    assert_eq!(codes, [409, 200]);
    assert_eq!(shop.failures(), ["resource name may not be empty"]);
    assert_eq!(shop.image("web-0"), "app:1");
}

/// K2: a revision whose name is taken by one with other data gets another name, but its label keeps
/// the first hash.
#[test]
fn set_02_the_label_of_a_revision_keeps_the_first_hash() {
    let first = Shop::with_set(json!({})).names(REVISION).remove(0);
    let mut shop = Shop::new();
    shop.create(REVISION, &first, json!({"revision": 1, "data": {}}));
    shop.create_set(json!({}));
    shop.run(60);
    assert_eq!(shop.status("collisionCount"), 1);
    let second = shop.status("updateRevision");
    assert_ne!(second, *first);
    let second = shop.get(REVISION, second.as_str().expect("a name"));
    let hash = second["metadata"]["labels"]["controller.kubernetes.io/hash"].as_str();
    assert_eq!(hash, first.strip_prefix("web-"));
}

/// K3: a written status has no conditions, not even those of other clients.
#[test]
fn set_03_conditions_of_others_are_wiped() {
    let mut shop = Shop::with_set(json!({}));
    let conditions = json!([{"type": "Mine", "status": "True"}]);
    let patch = merge(json!({"status": {"conditions": conditions}}));
    let api = shop.harness.cluster().api(SET);
    let patched = api.patch_status(SHOP, "web", &patch, shop.harness.now());
    patched.expect("the request succeeds");
    shop.run(60);
    assert_eq!(shop.status("conditions")[0]["type"], "Mine");
    shop.spec(json!({"replicas": 3}));
    shop.run(60);
    assert_eq!(shop.status("conditions"), Value::Null);
}

/// K4: a claim that terminates with the earlier pod blocks the new pod silently, and the deletion
/// of the claim does not wake the set.
#[test]
fn set_04_a_stale_claim_is_waited_for_in_silence() {
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    let mut shop = Shop::with_set(json!({"volumeClaimTemplates": [claim("data")],
        "persistentVolumeClaimRetentionPolicy": policy}));
    shop.spec(json!({"replicas": 1}));
    shop.run(60);
    // No controller protects claims here, so the finalizer stays.
    let metadata = &shop.get(CLAIM, "data-web-1")["metadata"];
    assert!(metadata["deletionTimestamp"].is_string(), "{metadata}");
    shop.spec(json!({"replicas": 2}));
    shop.run(60);
    assert_eq!(shop.names(Kind::POD), ["web-0"]);
    let finalizers = json!({"metadata": {"finalizers": []}});
    shop.patch(CLAIM, "data-web-1", finalizers);
    shop.run(3600);
    assert_eq!(
        (shop.names(Kind::POD), shop.failures()),
        (vec!["web-0".to_owned()], vec![])
    );
    shop.patch(SET, "web", json!({"metadata": {"labels": {"n": "1"}}}));
    shop.run(60);
    assert_eq!(shop.names(Kind::POD), ["web-0", "web-1"]);
}

/// K5: a terminating set with an orphaned revision fails each sync, so its status is no longer
/// written.
#[test]
fn set_05_an_orphaned_revision_ends_the_status_of_a_deleted_set() {
    let mut shop = Shop::with_set(json!({}));
    shop.patch(
        SET,
        "web",
        json!({"metadata": {"finalizers": ["acme.io/hold"]}}),
    );
    shop.delete(SET, "web");
    let revision = shop.names(REVISION).remove(0);
    shop.patch(
        REVISION,
        &revision,
        json!({"metadata": {"ownerReferences": []}}),
    );
    shop.run(60);
    shop.delete(Kind::POD, "web-1");
    shop.run(60);
    assert_eq!(shop.names(Kind::POD), ["web-0"]);
    assert_eq!(shop.status("replicas"), 2);
    let failures = shop.failures();
    let why = "can't adopt ControllerRevisions: shop/web has just been deleted at";
    let failed = failures.last().expect("syncs fail");
    assert!(failed.starts_with(why), "{failures:?}");
}

/// K6: with pods of a third revision, the number of current ones can fall below zero, and the
/// server refuses the status.
#[test]
fn set_06_current_replicas_fall_below_zero() {
    let mut shop = Shop::with_set(json!({"replicas": 1, "podManagementPolicy": "Parallel"}));
    shop.spec(json!({"template": broken("app:2")}));
    shop.run(120);
    assert_eq!(shop.image("web-0"), "app:2");
    shop.asked();
    let mut good = template("app:3");
    good["spec"]["schedulerName"] = Value::Null;
    shop.spec(json!({"template": good}));
    shop.run(120);
    let mut refused = shop.asked().into_iter().filter(|(_, code)| *code == 422);
    let Some((Request::PutStatus { object }, _)) = refused.next() else {
        panic!("a status is refused");
    };
    assert_eq!(object.to_json()["status"]["currentReplicas"], -1);
    // The next sync repairs it.
    assert_eq!(
        (shop.image("web-0"), shop.status("currentReplicas")),
        (json!("app:3"), json!(1))
    );
}

/// K7: in a `Parallel` set, a claim that existed before its pod is updated twice, because the cache
/// has not seen the first write. The second write is a conflict and fails the sync.
#[test]
fn set_07_a_claim_of_a_new_pod_is_written_twice() {
    let mut shop = Shop::new();
    shop.create(CLAIM, "data-web-0", claim("data-web-0"));
    shop.run(60);
    let policy = json!({"whenScaled": "Retain", "whenDeleted": "Delete"});
    shop.create_set(json!({"replicas": 1, "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [claim("data")], "persistentVolumeClaimRetentionPolicy": policy}));
    shop.run(60);
    let name = || "data-web-0".to_owned();
    let claims = written(&shop.asked(), CLAIM);
    assert_eq!(claims, [(name(), 200), (name(), 409)]);
    let owners = &shop.get(CLAIM, "data-web-0")["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["kind"], "StatefulSet");
}

/// K8: the claims of a pod are created in an unspecified order, all before the pod.
#[test]
fn set_08_claims_come_before_their_pod() {
    let shop = Shop::with_set(json!({"replicas": 1,
        "volumeClaimTemplates": [claim("log"), claim("data")]}));
    let mut asked = shop.asked();
    let created = |(request, _): &(Request, u16)| matches!(request, Request::CreatePod { .. });
    let pod = asked.iter().position(created).expect("a pod is created");
    asked.truncate(pod);
    let mut claims = written(&asked, CLAIM);
    claims.sort();
    let claims: Vec<&str> = claims.iter().map(|(name, _)| &**name).collect();
    assert_eq!(claims, ["data-web-0", "log-web-0"]);
}

/// K9: a change of `minReadySeconds` takes effect with the event of the set. No pod wakes the set
/// for it.
#[test]
fn set_09_min_ready_seconds_change_with_the_sets_event() {
    let mut shop = Shop::with_set(json!({"replicas": 1}));
    shop.spec(json!({"minReadySeconds": 3600}));
    shop.run(60);
    assert_eq!(shop.status("availableReplicas"), 0);
    shop.spec(json!({"minReadySeconds": 0}));
    shop.run(1);
    assert_eq!(shop.status("availableReplicas"), 1);
}

/// K10: a pod whose number is too large belongs to the set, but counts only while the set is
/// terminating.
#[test]
fn set_10_a_pod_without_an_ordinal_counts_at_deletion() {
    let mut shop = Shop::with_set(json!({"replicas": 1}));
    let spec = json!({"containers": [{"name": "c", "image": "app:1"}]});
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    shop.create(Kind::POD, "web-99999999999", pod);
    shop.run(60);
    let owners = &shop.get(Kind::POD, "web-99999999999")["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["name"], "web");
    assert_eq!(shop.status("replicas"), 1);
    shop.patch(
        SET,
        "web",
        json!({"metadata": {"finalizers": ["acme.io/hold"]}}),
    );
    shop.delete(SET, "web");
    shop.run(60);
    assert_eq!(shop.status("replicas"), 2);
}

/// K11: numbers whose absence would crash upstream's process have defaults, both in the server and
/// here.
#[test]
fn set_11_no_number_is_absent() {
    let shop = Shop::new();
    shop.create_set(json!({"replicas": null}));
    let set = shop.get(SET, "web");
    let spec = &set["spec"];
    let numbers = [
        &spec["replicas"],
        &spec["revisionHistoryLimit"],
        &spec["updateStrategy"]["rollingUpdate"]["partition"],
    ];
    assert_eq!(numbers, [1, 10, 0]);
    let rolling = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {}}});
    let rolling = DynamicObject::from_json(SET, json!({"spec": rolling})).expect("a set");
    let spec = rolling.fields.get("spec").and_then(Value::as_object);
    let read = SetSpec::read(spec.expect("a spec"));
    let partition = read.strategy.rolling_update.map(|it| it.partition);
    assert_eq!(
        (read.replicas, read.history_limit, partition),
        (1, 10, Some(0))
    );
}

/// K12: a pod below the partition is never updated. A recreated one has the current revision.
#[test]
fn set_12_pods_below_the_partition_keep_their_revision() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}});
    let mut shop = Shop::with_set(json!({"updateStrategy": rolling}));
    shop.spec(json!({"template": template("app:2")}));
    shop.run(120);
    let uid = |shop: &Shop| shop.get(Kind::POD, "web-0")["metadata"]["uid"].clone();
    let before = uid(&shop);
    shop.delete(Kind::POD, "web-0");
    shop.run(120);
    assert_ne!(uid(&shop), before);
    let images = ["web-0", "web-1"].map(|pod| shop.image(pod));
    assert_eq!(images, ["app:1", "app:2"]);
}
