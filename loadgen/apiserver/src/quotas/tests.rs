//! Tests of quotas in a cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use podstorm_objects::{Pod, PodPhase};
use serde_json::json;

use super::*;
use crate::testing::{at, bound_pod, cluster, cluster_with, forced, read, refused, set_phase};
use crate::{Change, ClusterOptions, Commit, CommitObserver};

fn used(cluster: &Cluster, name: &str) -> Value {
    let quota = cluster.api(builtin::QUOTA).get("default", name).unwrap();
    quota.to_json()["status"]["used"].clone()
}

fn create(cluster: &Cluster, kind: Kind, json: Value) {
    let api = cluster.api(kind);
    let object = api.read(json).unwrap().unwrap();
    api.create(object, at(0)).unwrap();
}

fn create_quota(cluster: &Cluster, name: &str, hard: Value) {
    let metadata = json!({"name": name, "namespace": "default"});
    let quota = json!({"metadata": metadata, "spec": {"hard": hard}});
    create(cluster, builtin::QUOTA, quota);
}

fn pod(name: &str, requests: Value) -> Pod {
    read(
        json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": requests}}]}}),
    )
}

#[test]
fn a_quota_is_charged_and_released() {
    let cluster = cluster();
    let requests = json!({"cpu": "500m"});
    cluster.create(pod("old", requests.clone()), at(0)).unwrap();
    let of = |pods: &str, cpu: &str| json!({"pods": pods, "requests.cpu": cpu});
    create_quota(&cluster, "q", of("2", "2"));
    assert_eq!(used(&cluster, "q"), Value::Null);
    cluster.collect_garbage(usize::MAX, at(0));
    assert_eq!(used(&cluster, "q"), of("1", "500m"));
    cluster.create(pod("a", requests.clone()), at(0)).unwrap();
    assert_eq!(used(&cluster, "q"), of("2", "1"));
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
    assert_eq!(used(&cluster, "q"), of("1", "500m"));
    // The charge for an object that is not stored is released.
    cluster.create(pod("a", requests), at(0)).unwrap_err();
    assert_eq!(used(&cluster, "q"), of("1", "500m"));
}

#[test]
fn a_pods_usage_sums_the_containers_that_run_together() {
    let of = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let spec = json!({"overhead": {"cpu": "1"}, "containers": [{"resources": of("1")}, {"resources": of("2")}],
        "initContainers": [{"resources": of("1"), "restartPolicy": "Always"}, {"resources": of("5")}]});
    let needed = usage::of_containers(&spec, "requests");
    assert_eq!(needed["cpu"], "7".parse().unwrap());
}

#[test]
fn concurrent_clients_stay_in_quota_and_refusals_charge_nothing() {
    const CLIENTS: usize = 8;
    const EACH: usize = 20;
    let cluster = cluster();
    create_quota(&cluster, "a", json!({"pods": "1000"}));
    create_quota(&cluster, "b", json!({"pods": "50"}));
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

/// Counts the pods as they are committed, and records the maximum.
#[derive(Default)]
struct Most {
    pods: AtomicU64,
    most: AtomicU64,
}

impl CommitObserver for Most {
    fn committed(&self, commit: &Commit) {
        if commit.new.kind() != Kind::POD {
            return;
        }
        match commit.change {
            Change::Added => {
                let pods = self.pods.fetch_add(1, Ordering::Relaxed) + 1;
                self.most.fetch_max(pods, Ordering::Relaxed);
            }
            Change::Deleted => {
                self.pods.fetch_sub(1, Ordering::Relaxed);
            }
            Change::Modified => {}
        }
    }
}

#[test]
fn creates_among_deletions_never_exceed_the_limit() {
    const LIMIT: u64 = 5;
    let most = Arc::new(Most::default());
    let cluster = cluster_with(ClusterOptions {
        observer: Some(most.clone()),
        ..ClusterOptions::default()
    });
    let limited = cluster.set_pod_quota("default", Some(LIMIT), at(0));
    limited.unwrap();
    cluster.collect_garbage(usize::MAX, at(0));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                for _ in 0..300 {
                    let name = format!("p{}", rng.u32(..8));
                    if rng.bool() {
                        let _refused = cluster.create(pod(&name, json!({})), at(0));
                    } else {
                        let _gone = cluster.delete::<Pod>("default", &name, &forced(), at(0));
                    }
                }
            });
        }
    });
    let pods = cluster.count::<Pod>().to_string();
    assert_eq!(used(&cluster, POD_QUOTA), json!({"pods": pods}));
    assert_eq!(most.most.load(Ordering::Relaxed), LIMIT);
}

#[test]
fn ended_and_removed_pods_make_room_and_terminating_ones_do_not() {
    let cluster = cluster();
    let limited = cluster.set_pod_quota("default", Some(3), at(0));
    limited.unwrap();
    let uses = |pods: &str| assert_eq!(used(&cluster, POD_QUOTA), json!({"pods": pods}));
    let delete = |name: &str, options: &DeleteOptions| {
        let deleted = cluster.delete::<Pod>("default", name, options, at(0));
        deleted.unwrap();
    };
    let a = bound_pod(&cluster, "a", json!({}));
    bound_pod(&cluster, "b", json!({}));
    cluster.create(pod("c", json!({})), at(0)).unwrap();
    uses("3");
    set_phase(&cluster, &a, PodPhase::Failed);
    uses("2");
    delete("b", &DeleteOptions::default());
    uses("2");
    delete("b", &forced());
    uses("1");
    // The pod had ended, so it was no longer counted.
    delete("a", &forced());
    uses("1");
    delete("c", &forced());
    uses("0");
}

#[test]
fn a_lower_limit_keeps_existing_pods_and_none_deletes_the_quota() {
    let cluster = cluster();
    let limit = |pods: Option<u64>| cluster.set_pod_quota("default", pods, at(0));
    let create = |name: &str| cluster.create(pod(name, json!({})), at(0));
    limit(Some(3)).unwrap();
    for name in ["a", "b", "c"] {
        create(name).unwrap();
    }
    limit(Some(1)).unwrap();
    assert_eq!(refused(create("d")), "403 Forbidden");
    assert_eq!(used(&cluster, POD_QUOTA), json!({"pods": "3"}));
    assert_eq!(cluster.count::<Pod>(), 3);
    limit(None).unwrap();
    create("d").unwrap();
    limit(None).unwrap();
    let elsewhere = cluster.set_pod_quota("nowhere", Some(1), at(0));
    assert_eq!(refused(elsewhere), "404 NotFound");
}

#[test]
fn usage_left_to_a_client_is_charged_but_not_released() {
    let cluster = cluster_with(ClusterOptions {
        leaves_quotas: true,
        ..ClusterOptions::default()
    });
    let api = cluster.api(builtin::QUOTA);
    create_quota(&cluster, "q", json!({"pods": "2"}));
    cluster.collect_garbage(usize::MAX, at(0));
    let made = |name: &str| cluster.create(pod(name, json!({})), at(0));
    made("a").expect("without a status the quota limits nothing");
    assert_eq!(used(&cluster, "q"), Value::Null);

    // A controller in another process has counted.
    let counted = |used: &str| {
        let mut quota = api.get("default", "q").unwrap().to_json();
        quota["status"] = json!({"hard": {"pods": "2"}, "used": {"pods": used}});
        api.update_status(api.read(quota).unwrap().unwrap(), at(0))
            .unwrap();
    };
    counted("1");
    made("a").expect_err("the name is taken");
    assert_eq!(used(&cluster, "q"), json!({"pods": "2"}), "as upstream");
    counted("1");
    let b = made("b").unwrap();
    assert_eq!(refused(made("c")), "403 Forbidden");
    set_phase(&cluster, &b, PodPhase::Failed);
    cluster
        .delete::<Pod>("default", "a", &forced(), at(0))
        .unwrap();
    assert_eq!(used(&cluster, "q"), json!({"pods": "2"}));
    assert_eq!(refused(made("c")), "403 Forbidden");
    counted("0");
    made("c").expect("there is room");
    assert_eq!(used(&cluster, "q"), json!({"pods": "1"}));
}

fn service(ports: usize, kind: &str) -> Value {
    let port = |number: usize| json!({"name": format!("p{number}"), "port": 80 + number});
    let ports: Vec<Value> = (0..ports).map(port).collect();
    json!({"metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": kind, "ports": ports}})
}

fn services() -> Cluster {
    let cluster = cluster();
    create_quota(&cluster, "q", used_by_services("2"));
    let kind = crate::kind_named("Service").unwrap();
    create(&cluster, kind, service(1, "NodePort"));
    cluster.collect_garbage(usize::MAX, at(0));
    cluster
}

fn used_by_services(node_ports: &str) -> Value {
    json!({"services": "1", "services.nodeports": node_ports})
}

#[test]
fn a_change_is_charged_for_increases_and_released_for_decreases() {
    let cluster = services();
    let api = cluster.api(crate::kind_named("Service").unwrap());
    let update = |json: Value, dry_run: bool| {
        let api = api.dry_run(dry_run);
        api.update(api.read(json).unwrap().unwrap(), at(0))
    };
    for dry_run in [true, false] {
        let refused = update(service(4, "NodePort"), dry_run).unwrap_err();
        let wanted = "services \"s\" is forbidden: exceeded quota: q, requested: \
                      services.nodeports=3, used: services.nodeports=1, limited: \
                      services.nodeports=2";
        assert_eq!((refused.code, refused.message.as_str()), (403, wanted));
        assert_eq!(used(&cluster, "q"), used_by_services("1"));
    }
    update(service(2, "NodePort"), true).unwrap();
    assert_eq!(used(&cluster, "q"), used_by_services("1"));
    update(service(2, "NodePort"), false).unwrap();
    assert_eq!(used(&cluster, "q"), used_by_services("2"));
    update(service(1, "ClusterIP"), false).unwrap();
    assert_eq!(used(&cluster, "q"), used_by_services("0"));
}

#[test]
fn concurrent_writers_charge_a_change_once() {
    const EACH: usize = 30;
    let cluster = services();
    let kind = crate::kind_named("Service").unwrap();
    std::thread::scope(|scope| {
        for client in 0..4 {
            let cluster = &cluster;
            scope.spawn(move || {
                let api = cluster.api(kind);
                for round in 0..EACH {
                    let json = service(1 + (client + round) % 3, "NodePort");
                    let object = api.read(json).unwrap().unwrap();
                    // Three ports exceed the quota.
                    let _refused = api.update(object, at(0));
                }
            });
        }
    });
    let stored = cluster.api(kind).get("default", "s").unwrap().to_json();
    let ports = stored["spec"]["ports"].as_array().unwrap().len();
    assert!(ports <= 2, "{ports}");
    assert_eq!(used(&cluster, "q"), used_by_services(&ports.to_string()));
}

#[test]
fn growth_of_a_claim_is_charged() {
    let kind = crate::kind_named("PersistentVolumeClaim").unwrap();
    let of = |storage: &str| {
        let claim = json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        usage::usage_of(kind, &claim)
    };
    assert!(usage::changes(kind));
    let more = usage::increase(&of("1Gi"), &of("3Gi"));
    assert_eq!(
        more,
        [("requests.storage".to_owned(), "2Gi".parse().unwrap())].into()
    );
    assert!(usage::increase(&of("3Gi"), &of("1Gi")).is_empty());
}

#[test]
fn a_resize_of_a_pod_is_charged_and_released() {
    let cluster = cluster();
    let cpus = |cpu: &str| json!({"requests.cpu": cpu});
    create_quota(&cluster, "q", cpus("2"));
    cluster
        .create(pod("p", json!({"cpu": "1"})), at(0))
        .unwrap();
    cluster.collect_garbage(usize::MAX, at(0));
    let resize = |cpu: &str| {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
        let Value::Object(patch) = json!({"spec": {"containers": [container]}}) else {
            unreachable!()
        };
        let part = crate::PodPart::Resources;
        let patch = crate::Patch::Strategic(patch);
        let api = cluster.api(Kind::POD);
        api.patch_part("default", "p", part, &patch, at(0))
    };
    assert_eq!(used(&cluster, "q"), cpus("1"));
    assert_eq!(resize("3").unwrap_err().code, 403);
    assert_eq!(used(&cluster, "q"), cpus("1"));
    resize("2").unwrap();
    assert_eq!(used(&cluster, "q"), cpus("2"));
    resize("500m").unwrap();
    assert_eq!(used(&cluster, "q"), cpus("500m"));
}
