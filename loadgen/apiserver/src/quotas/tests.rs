//! Quotas on a cluster.

use podstorm_objects::Pod;
use serde_json::json;

use super::*;
use crate::testing::{at, cluster, read};

fn used(cluster: &Cluster, name: &str) -> Value {
    let quota = cluster.api(builtin::QUOTA).get("default", name).unwrap();
    quota.to_json()["status"]["used"].clone()
}

fn create(cluster: &Cluster, kind: Kind, json: Value) {
    let api = cluster.api(kind);
    let object = api.read(json).unwrap().unwrap();
    api.create(object, at(0)).unwrap();
}

fn pod(name: &str, requests: Value) -> Pod {
    read(
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": requests}}]}}),
    )
}

#[test]
fn a_quota_is_charged_and_given_back() {
    let cluster = cluster();
    let requests = json!({"cpu": "500m"});
    cluster.create(pod("old", requests.clone()), at(0)).unwrap();
    create(
        &cluster,
        builtin::QUOTA,
        json!({"metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "2", "requests.cpu": "2"}}}),
    );
    assert_eq!(used(&cluster, "q"), Value::Null);
    cluster.collect_garbage(usize::MAX, at(0));
    assert_eq!(
        used(&cluster, "q"),
        json!({"pods": "1", "requests.cpu": "500m"})
    );
    cluster.create(pod("a", requests.clone()), at(0)).unwrap();
    assert_eq!(
        used(&cluster, "q"),
        json!({"pods": "2", "requests.cpu": "1"})
    );
    let refused = cluster
        .create(pod("b", requests.clone()), at(0))
        .unwrap_err();
    assert_eq!(
        refused.message,
        "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
    let silent = cluster.create(pod("b", json!({})), at(0)).unwrap_err();
    assert_eq!(
        silent.message,
        "pods \"b\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    cluster
        .delete::<Pod>("default", "old", &crate::DeleteOptions::default(), at(1))
        .unwrap();
    assert_eq!(
        used(&cluster, "q"),
        json!({"pods": "1", "requests.cpu": "500m"})
    );
    // What is not stored after all is given back.
    cluster.create(pod("a", requests), at(0)).unwrap_err();
    assert_eq!(
        used(&cluster, "q"),
        json!({"pods": "1", "requests.cpu": "500m"})
    );
}

#[test]
fn a_pod_needs_what_runs_at_once() {
    let of = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let spec = json!({"overhead": {"cpu": "1"}, "containers": [{"resources": of("1")}, {"resources": of("2")}],
        "initContainers": [{"resources": of("1"), "restartPolicy": "Always"}, {"resources": of("5")}]});
    let needed = usage::of_containers(&spec, "requests");
    assert_eq!(needed["cpu"], "7".parse().unwrap());
}

#[test]
fn no_number_of_clients_exceeds_a_quota_and_one_that_refuses_charges_no_other() {
    const CLIENTS: usize = 8;
    const EACH: usize = 20;
    let cluster = cluster();
    for (name, hard) in [("a", json!({"pods": "1000"})), ("b", json!({"pods": "50"}))] {
        let metadata = json!({"name": name, "namespace": "default"});
        let quota = json!({"metadata": metadata, "spec": {"hard": hard}});
        create(&cluster, builtin::QUOTA, quota);
    }
    cluster.collect_garbage(usize::MAX, at(0));
    let made = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (cluster, made) = (&cluster, &made);
            scope.spawn(move || {
                for number in 0..EACH {
                    let pod = pod(&format!("p-{client}-{number}"), json!({}));
                    if cluster.create(pod, at(0)).is_ok() {
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 50);
    assert_eq!(cluster.count::<Pod>(), 50);
    for name in ["a", "b"] {
        assert_eq!(used(&cluster, name), json!({"pods": "50"}), "{name}");
    }
}
