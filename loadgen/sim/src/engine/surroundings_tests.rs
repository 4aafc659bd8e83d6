//! Tests of the surroundings of pods in a served cluster on virtual time, end to end: endpoints and
//! addresses of Services, claims and volumes.

use std::sync::Arc;

use podstorm_apiserver::DeleteOptions;
use podstorm_objects::{DynamicObject, Kind, Object as _, Pod, Resource};
use serde_json::{Value, json};

use super::Harness;
use super::services_tests::furnished;
use crate::options::{EngineKind, SimOptions};
use crate::provisioner::PROVISIONER;
use crate::rows::Rows;
use crate::services::Controllers;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn harness(numbers: &[(&'static str, i64)]) -> Harness {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.services.controllers = Controllers::all(Rows::installed());
    options.services.numbers = numbers.iter().copied().collect();
    furnished(&options).started()
}

fn create(harness: &Harness, kind: Kind, json: Value) {
    let api = harness.cluster().api(kind);
    let object = api.read(json).unwrap().unwrap();
    api.create(object, harness.now()).unwrap();
}

fn get(harness: &Harness, kind: Kind, name: &str) -> Option<Value> {
    let namespace = if kind.is_namespaced() { "shop" } else { "" };
    let found = harness.cluster().api(kind).get(namespace, name);
    found.ok().map(|object| object.to_json())
}

fn delete(harness: &Harness, kind: Kind, name: &str) {
    let namespace = if kind.is_namespaced() { "shop" } else { "" };
    let api = harness.cluster().api(kind);
    let options = DeleteOptions::default();
    api.delete(namespace, name, &options, harness.now())
        .unwrap();
}

fn list(harness: &Harness, kind: Kind) -> Vec<Value> {
    let options = podstorm_apiserver::ListOptions::default();
    let all = harness.cluster().api(kind).list(&options).unwrap().items;
    all.iter().map(|object| object.to_json()).collect()
}

fn create_pod(harness: &Harness, name: &str, spec: Value) {
    let mut pod = json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}});
    for (member, value) in spec.as_object().unwrap() {
        pod["spec"][member] = value.clone();
    }
    let pod = Pod::from_json(pod).unwrap();
    harness.cluster().create(pod, harness.now()).unwrap();
}

fn service(kind: &str) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"type": kind,
        "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
}

#[test]
fn the_endpoints_of_a_service_follow_its_pods() {
    let harness = harness(&[]);
    create(&harness, Kind::SERVICE, service("ClusterIP"));
    for name in ["a", "b"] {
        create_pod(&harness, name, json!({}));
    }
    harness.advance(5 * SECOND);
    let ready = |harness: &Harness| {
        let slices = list(harness, Kind::ENDPOINT_SLICE);
        assert_eq!(slices.len(), 1, "{slices:?}");
        let endpoints = slices[0]["endpoints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_ready = |it: &&Value| it["conditions"]["ready"] == true;
        let older = get(harness, Kind::ENDPOINTS, "web").expect("the endpoints exist");
        let addresses = older["subsets"][0]["addresses"]
            .as_array()
            .map_or(0, Vec::len);
        assert_eq!(addresses, endpoints.len());
        endpoints.iter().filter(is_ready).count()
    };
    assert_eq!(ready(&harness), 2);
    let options = DeleteOptions::default();
    let cluster = harness.cluster();
    cluster
        .delete::<Pod>("shop", "a", &options, harness.now())
        .unwrap();
    harness.advance(5 * SECOND);
    assert_eq!(ready(&harness), 1);
    delete(&harness, Kind::SERVICE, "web");
    harness.advance(SECOND);
    assert_eq!(list(&harness, Kind::ENDPOINT_SLICE).len(), 0);
    assert_eq!(get(&harness, Kind::ENDPOINTS, "web"), None);
}

#[test]
fn load_balancers_get_addresses_until_they_run_out() {
    let harness = harness(&[("load-balancer-addresses", 1)]);
    create(&harness, Kind::SERVICE, service("LoadBalancer"));
    let mut second = service("LoadBalancer");
    second["metadata"]["name"] = "second".into();
    create(&harness, Kind::SERVICE, second);
    harness.advance(SECOND);
    let ingress =
        |name: &str| get(&harness, Kind::SERVICE, name).unwrap()["status"]["loadBalancer"].clone();
    let one = json!({"ingress": [{"ip": "198.51.100.1", "ipMode": "VIP"}]});
    let has_one = |name: &str| ingress(name) == one;
    assert!(
        has_one("web") != has_one("second"),
        "{} {}",
        ingress("web"),
        ingress("second")
    );
    let (holder, other) = if has_one("web") {
        ("web", "second")
    } else {
        ("second", "web")
    };
    delete(&harness, Kind::SERVICE, holder);
    harness.advance(1_000 * SECOND);
    assert_eq!(
        get(&harness, Kind::SERVICE, holder),
        None,
        "the finalizer is removed"
    );
    assert!(has_one(other), "a retry gets the freed address");
    // A Service that is no longer a load balancer returns its address.
    let stored = harness
        .cluster()
        .api(Kind::SERVICE)
        .get("shop", other)
        .unwrap();
    let mut plain = stored.downcast_ref::<DynamicObject>().unwrap().clone();
    plain.fields["spec"]["type"] = "ClusterIP".into();
    let spec = plain.fields["spec"].as_object_mut().unwrap();
    spec.remove("allocateLoadBalancerNodePorts");
    spec.remove("externalTrafficPolicy");
    let api = harness.cluster().api(Kind::SERVICE);
    api.update(Arc::new(plain), harness.now()).unwrap();
    harness.advance(SECOND);
    assert_eq!(ingress(other), json!({}));
    let held = get(&harness, Kind::SERVICE, other).unwrap()["metadata"]
        .get("finalizers")
        .cloned();
    assert_eq!(held, None);
}

#[test]
fn load_balancers_wait_if_no_addresses_are_configured() {
    let harness = harness(&[]);
    create(&harness, Kind::SERVICE, service("LoadBalancer"));
    harness.advance(10 * SECOND);
    let service = get(&harness, Kind::SERVICE, "web").unwrap();
    assert_eq!(service["status"]["loadBalancer"], json!({}));
    assert_eq!(service["metadata"].get("finalizers"), None);
}

fn claim(name: &str, class: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {"storageClassName": class,
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn class(name: &str, policy: &str) -> Value {
    json!({"metadata": {"name": name}, "provisioner": PROVISIONER, "reclaimPolicy": policy})
}

#[test]
fn a_claim_is_bound_after_a_delay_and_its_volume_reclaimed() {
    for (policy, left) in [("Delete", None), ("Retain", Some("Released"))] {
        let harness = harness(&[("volume-latency", 300 * MS)]);
        create(&harness, Kind::STORAGE_CLASS, class("fast", policy));
        create(
            &harness,
            Kind::PERSISTENT_VOLUME_CLAIM,
            claim("data", "fast"),
        );
        let phase = || {
            get(&harness, Kind::PERSISTENT_VOLUME_CLAIM, "data")
                .map(|it| it["status"]["phase"].clone())
        };
        harness.advance(299 * MS);
        assert_eq!(phase(), Some("Pending".into()));
        harness.advance(MS);
        assert_eq!(phase(), Some("Bound".into()));
        let volumes = list(&harness, Kind::PERSISTENT_VOLUME);
        assert_eq!(volumes.len(), 1);
        assert_eq!(volumes[0]["spec"]["capacity"]["storage"], "1Gi");
        assert_eq!(volumes[0]["status"]["phase"], "Bound");

        // The claim is in use until the pod is removed, and the volume is bound until the claim is
        // removed.
        let volume = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]);
        create_pod(&harness, "a", json!({"volumes": volume}));
        harness.advance(5 * SECOND);
        delete(&harness, Kind::PERSISTENT_VOLUME_CLAIM, "data");
        let name = volumes[0]["metadata"]["name"].as_str().unwrap();
        delete(&harness, Kind::PERSISTENT_VOLUME, name);
        harness.advance(5 * SECOND);
        assert_eq!(phase(), Some("Bound".into()));
        assert!(get(&harness, Kind::PERSISTENT_VOLUME, name).is_some());
        let options = DeleteOptions::default();
        let cluster = harness.cluster();
        cluster
            .delete::<Pod>("shop", "a", &options, harness.now())
            .unwrap();
        harness.advance(5 * SECOND);
        assert_eq!(phase(), None);
        assert_eq!(
            get(&harness, Kind::PERSISTENT_VOLUME, name),
            None,
            "the claim was deleted earlier"
        );

        create(
            &harness,
            Kind::PERSISTENT_VOLUME_CLAIM,
            claim("data", "fast"),
        );
        harness.advance(5 * SECOND);
        delete(&harness, Kind::PERSISTENT_VOLUME_CLAIM, "data");
        harness.advance(5 * SECOND);
        let volumes = list(&harness, Kind::PERSISTENT_VOLUME);
        let phases: Vec<_> = volumes
            .iter()
            .map(|it| it["status"]["phase"].as_str().unwrap())
            .collect();
        assert_eq!(phases, Vec::from_iter(left), "{policy}");
    }
}

#[test]
fn a_pod_waits_for_claims_and_selects_the_node_of_late_ones() {
    let harness = harness(&[("volume-latency", 300 * MS)]);
    create(&harness, Kind::STORAGE_CLASS, class("fast", "Delete"));
    let mut late = class("late", "Delete");
    late["volumeBindingMode"] = "WaitForFirstConsumer".into();
    create(&harness, Kind::STORAGE_CLASS, late);
    let claimed = |names: [&str; 2]| {
        let volume = |name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        json!({"volumes": names.map(volume)})
    };
    create_pod(&harness, "a", claimed(["data", "later"]));
    harness.advance(5 * SECOND);
    let why = || {
        let pod = harness.cluster().get::<Pod>("shop", "a").unwrap().to_json();
        let node = pod["spec"].get("nodeName").cloned();
        (node, pod["status"]["conditions"][0]["message"].clone())
    };
    let nowhere = |why: &str| {
        let preemption =
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
        (
            None,
            Value::from(format!("0/1 nodes are available: {why}. {preemption}")),
        )
    };
    assert_eq!(why(), nowhere("persistentvolumeclaim \"data\" not found"));
    create(
        &harness,
        Kind::PERSISTENT_VOLUME_CLAIM,
        claim("later", "late"),
    );
    create(
        &harness,
        Kind::PERSISTENT_VOLUME_CLAIM,
        claim("data", "fast"),
    );
    harness.advance(100 * MS);
    assert_eq!(
        why(),
        nowhere("pod has unbound immediate PersistentVolumeClaims")
    );
    let later = || get(&harness, Kind::PERSISTENT_VOLUME_CLAIM, "later").unwrap();
    assert_eq!(later()["status"]["phase"], "Pending");
    harness.advance(250 * MS);
    let selected = &later()["metadata"]["annotations"]["volume.kubernetes.io/selected-node"];
    assert_eq!(*selected, "n1", "the other claim is bound");
    harness.advance(SECOND);
    assert_eq!(later()["status"]["phase"], "Bound");
    assert_eq!(why().0, Some("n1".into()));
}

/// Adds a node in a zone. `n1` is in no zone.
fn add_node(harness: &Harness, name: &str, zone: &str) {
    let node = json!({"metadata": {"name": name, "labels": {"zone": zone}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "10"}}});
    let node = podstorm_objects::Node::from_json(node).unwrap();
    harness.cluster().import(node, harness.now()).unwrap();
}

fn in_zone(zone: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "zone", "operator": "In", "values": [zone]}]}]}})
}

fn disk(name: &str, class: &str, zone: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"storageClassName": class, "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
        "nodeAffinity": in_zone(zone), "local": {"path": "/disk"}}})
}

fn create_user(harness: &Harness, name: &str, claim: &str) {
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]);
    create_pod(harness, name, json!({"volumes": volumes}));
}

/// Returns the node of a pod, or the reason why it is not scheduled.
fn place(harness: &Harness, name: &str) -> String {
    let pod = harness.cluster().get::<Pod>("shop", name).unwrap();
    let message = || {
        let pod = pod.to_json();
        let message = pod["status"]["conditions"][0]["message"].as_str();
        message.unwrap_or("").split(". ").next().unwrap().to_owned()
    };
    let node = pod.node_name.as_ref().map(ToString::to_string);
    node.unwrap_or_else(message)
}

#[test]
fn a_pod_goes_to_a_node_that_can_mount_its_volume() {
    let harness = harness(&[]);
    add_node(&harness, "n2", "b");
    create(
        &harness,
        Kind::PERSISTENT_VOLUME,
        disk("near", "manual", "b"),
    );
    create(
        &harness,
        Kind::PERSISTENT_VOLUME_CLAIM,
        claim("near", "manual"),
    );
    create_user(&harness, "p", "near");
    harness.advance(5 * SECOND);
    assert_eq!(place(&harness, "p"), "n2");
    create(
        &harness,
        Kind::PERSISTENT_VOLUME,
        disk("far", "manual", "c"),
    );
    create(
        &harness,
        Kind::PERSISTENT_VOLUME_CLAIM,
        claim("far", "manual"),
    );
    create_user(&harness, "q", "far");
    harness.advance(5 * SECOND);
    let why = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity";
    assert_eq!(place(&harness, "q"), why);
    add_node(&harness, "n3", "c");
    harness.advance(5 * SECOND);
    assert_eq!(place(&harness, "q"), "n3");
}

#[test]
fn a_late_claim_gets_a_volume_at_its_pods_node() {
    let harness = harness(&[]);
    add_node(&harness, "n2", "b");
    let local = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"});
    create(&harness, Kind::STORAGE_CLASS, local);
    create(
        &harness,
        Kind::PERSISTENT_VOLUME,
        disk("elsewhere", "local", "c"),
    );
    create(
        &harness,
        Kind::PERSISTENT_VOLUME,
        disk("here", "local", "b"),
    );
    for name in ["one", "two"] {
        create(
            &harness,
            Kind::PERSISTENT_VOLUME_CLAIM,
            claim(name, "local"),
        );
    }
    create_user(&harness, "p", "one");
    harness.advance(5 * SECOND);
    assert_eq!(place(&harness, "p"), "n2");
    let volume = |claim: &str| {
        let claim = get(&harness, Kind::PERSISTENT_VOLUME_CLAIM, claim).unwrap();
        claim["spec"].get("volumeName").cloned()
    };
    assert_eq!(
        volume("one"),
        Some("here".into()),
        "the choice is not the first node by name"
    );
    create_user(&harness, "q", "two");
    harness.advance(5 * SECOND);
    let why = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind";
    assert_eq!(place(&harness, "q"), why);
    create(
        &harness,
        Kind::PERSISTENT_VOLUME,
        disk("more", "local", "b"),
    );
    harness.advance(5 * SECOND);
    assert_eq!(place(&harness, "q"), "n2");
    assert_eq!(volume("two"), Some("more".into()));
}

#[test]
fn provisioned_volumes_respect_topology_and_the_first_pod() {
    let harness = harness(&[]);
    for (name, zone) in [("n2", "b"), ("n3", "c")] {
        add_node(&harness, name, zone);
    }
    let mut zonal = class("zonal", "Delete");
    zonal["volumeBindingMode"] = "WaitForFirstConsumer".into();
    zonal["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": "zone", "values": ["x", "c"]}]}]);
    create(&harness, Kind::STORAGE_CLASS, zonal);
    create(
        &harness,
        Kind::PERSISTENT_VOLUME_CLAIM,
        claim("data", "zonal"),
    );
    create_user(&harness, "p", "data");
    harness.advance(5 * SECOND);
    assert_eq!(place(&harness, "p"), "n3");
    let volumes = list(&harness, Kind::PERSISTENT_VOLUME);
    assert_eq!(volumes[0]["spec"]["nodeAffinity"], in_zone("c"));
}
