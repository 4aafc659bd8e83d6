//! Tests of sharing: equal parts become one, different parts stay apart.

use serde_json::json;

use super::*;
use crate::{Object, Resource};

fn pod(name: &str, image: &str) -> Pod {
    Pod::from_json(json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "u", "controller": true}]},
        "spec": {"containers": [{"name": "c", "image": image}], "nodeName": "n1"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}],
            "containerStatuses": [{"name": "c"}]}
    }))
    .unwrap()
}

#[test]
fn equal_parts_of_pods_become_one() {
    let mut sharer = Sharer::default();
    let (mut a, mut b, mut c) = (pod("a", "x"), pod("b", "x"), pod("c", "y"));
    let before = [a.clone(), b.clone(), c.clone()];
    for pod in [&mut a, &mut b, &mut c] {
        sharer.share_pod(pod);
    }
    assert_eq!([a.clone(), b.clone(), c.clone()], before);
    assert!(Arc::ptr_eq(&a.spec, &b.spec));
    assert!(!Arc::ptr_eq(&a.spec, &c.spec));
    assert!(a.metadata.labels.is_same(&c.metadata.labels));
    assert!(Arc::ptr_eq(
        &a.metadata.owner_references[0],
        &c.metadata.owner_references[0]
    ));
    assert!(Str::ptr_eq(&a.metadata.namespace, &c.metadata.namespace));
    assert!(Str::ptr_eq(
        a.node_name.as_ref().unwrap(),
        c.node_name.as_ref().unwrap()
    ));
    let rest = |pod: &Pod| pod.status.conditions.get(0).unwrap().rest;
    assert!(rest(&a).is_same(&rest(&c)));
}

#[test]
fn pods_on_different_nodes_share_their_common_parts() {
    let running = |name: &str, last: u8| {
        let address = |net: u8| format!("10.{net}.0.{last}");
        Pod::from_json(json!({
            "metadata": {"name": name},
            "status": {"qosClass": "Burstable",
                "hostIP": "fd00::1", "hostIPs": [{"ip": "fd00::1"}],
                "podIP": address(64), "podIPs": [{"ip": address(64)}],
                "startTime": format!("2026-01-02T03:04:{last}Z"),
                "containerStatuses": [{"name": "c", "image": "x", "imageID": "sha256:1",
                    "containerID": format!("containerd://{last:064x}"),
                    "state": {"running": {"startedAt": format!("2026-01-02T03:05:{last}Z")}}}]}
        }))
        .unwrap()
    };
    let mut sharer = Sharer::default();
    let (mut a, mut b) = (running("a", 10), running("b", 20));
    let before = [a.to_json(), b.to_json()];
    sharer.share_pod(&mut a);
    sharer.share_pod(&mut b);
    assert_eq!([a.to_json(), b.to_json()], before);
    assert!(a.status.rest.is_same(&b.status.rest));
    let details = |pod: &Pod| pod.status.container_statuses[0].details.clone().unwrap();
    assert!(details(&a).rest.is_same(&details(&b).rest));
    assert_ne!(details(&a), details(&b));
    let host = |pod: &mut Pod| {
        let start = Arc::make_mut(pod.status.started.as_mut().unwrap());
        start.host_ip.text_mut().unwrap().clone()
    };
    assert!(Str::ptr_eq(&host(&mut a), &host(&mut b)));
}

#[test]
fn a_template_and_its_pods_share_the_spec() {
    let mut sharer = Sharer::default();
    let read = || {
        ReplicaSet::from_json(json!({"metadata": {"name": "web", "uid": "u"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "x"}]}}}}))
        .unwrap()
    };
    let (mut pod, mut one, mut two) = (pod("a", "x"), read(), read());
    sharer.share_pod(&mut pod);
    sharer.share_replica_set(&mut one);
    sharer.share_replica_set(&mut two);
    assert_eq!(one, read());
    assert!(Arc::ptr_eq(&pod.spec, &one.spec.template.spec));
    assert!(Arc::ptr_eq(&one.spec.template, &two.spec.template));
    assert!(Arc::ptr_eq(
        one.spec.selector.as_ref().unwrap(),
        two.spec.selector.as_ref().unwrap()
    ));
}

#[test]
fn unused_parts_are_forgotten() {
    let mut sharer = Sharer::default();
    let mut kept = pod("a", "x");
    sharer.share_pod(&mut kept);
    sharer.share_pod(&mut pod("b", "y"));
    assert_eq!(sharer.specs.len(), 2);
    sharer.shrink();
    assert_eq!(sharer.specs.len(), 1);
    drop(kept);
    sharer.shrink();
    assert_eq!(
        sharer.specs.len() + sharer.labels.len() + sharer.owners.len(),
        0
    );
    assert_eq!(sharer.texts.len(), 0);
}
