//! Tests of namespace syncs whose requests the client carries out on a real cluster.

use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::controller::ControllerType;
use podstorm::driver::run_steps;
use podstorm::namespace::{Namespaces, Outcome, Stopped, sync};
use podstorm_apiserver::{Cluster, ClusterOptions, DeleteOptions};
use podstorm_objects::{
    DynamicObject, Kind, Namespace, Now, Object, Pod, ReplicaSet, Resource, ResourceType, Str,
};
use serde_json::{Value, json};

use super::assemble;
use super::client::{ApiCalls, Client};
use super::services_tests::web;
use crate::clock::RealClock;
use crate::options::{EngineKind, SimOptions};

fn at(seconds: i64) -> Now {
    let ns = seconds * 1_000_000_000;
    Now {
        mono_ns: ns,
        wall_ns: 1_700_000_000_000_000_000 + ns,
    }
}

/// Returns a cluster whose namespace `shop` is being deleted. `fill` runs before the deletion.
fn deleting(fill: impl FnOnce(&Cluster)) -> Arc<Cluster> {
    let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
    let shop = Namespace::from_json(json!({"metadata": {"name": "shop"}})).unwrap();
    cluster.create(shop, at(0)).unwrap();
    fill(&cluster);
    let options = DeleteOptions::default();
    let deleted = cluster.delete::<Namespace>("", "shop", &options, at(0));
    deleted.unwrap();
    cluster
}

fn sync_at(cluster: &Arc<Cluster>, seconds: i64) -> Result<Outcome, Stopped> {
    let client = Client::new(Arc::clone(cluster), None);
    let mut calls = ApiCalls::default();
    let mut transport = |request: &Request, now: Now| client.carry_out(request, &mut calls, now);
    let steps = async |calls| sync("shop", &calls).await;
    run_steps(steps, &mut transport, at(seconds))
}

fn is_there(cluster: &Cluster) -> bool {
    cluster.get::<Namespace>("", "shop").is_ok()
}

fn condition(cluster: &Cluster, kind: &str) -> (String, String) {
    let namespace = cluster.get::<Namespace>("", "shop").unwrap().to_json();
    let conditions = &namespace["status"]["conditions"];
    let mut all = conditions.as_array().unwrap().iter();
    let found = all.find(|condition| condition["type"] == kind).unwrap();
    let text = |member: &str| found[member].as_str().unwrap().to_owned();
    (text("status"), text("message"))
}

fn create_pod(cluster: &Cluster, name: &str) {
    let pod = json!({"metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.create(Pod::from_json(pod).unwrap(), at(0)).unwrap();
    cluster.bind("shop", name, &Str::from("n1"), at(0)).unwrap();
}

#[test]
fn an_empty_namespace_is_removed_with_its_finalizer() {
    let cluster = deleting(|_| {});
    assert!(
        is_there(&cluster),
        "only this controller removes the namespace"
    );
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Done));
    assert!(!is_there(&cluster));
    assert_eq!(
        sync_at(&cluster, 5),
        Ok(Outcome::Done),
        "the namespace is removed"
    );
}

#[test]
fn a_namespace_deletes_its_objects_of_all_kinds() {
    let kind = Kind::define(ResourceType {
        group: "example.com",
        api_version: "example.com/v1",
        kind: "Widget",
        resource: "widgets",
        ..ResourceType::DEFAULT
    });
    let cluster = deleting(|cluster| {
        cluster.serve_kind(kind).unwrap();
        for kind in [kind, podstorm_apiserver::kind_named("ConfigMap").unwrap()] {
            for (namespace, name) in [("shop", "a"), ("shop", "b")] {
                let mut object = DynamicObject::new(kind);
                object.metadata.namespace = namespace.into();
                object.metadata.name = name.into();
                let created = cluster.api(kind).create(Arc::new(object), at(0));
                created.unwrap();
            }
        }
        cluster.create(web(), at(0)).unwrap();
    });
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Done));
    assert!(!is_there(&cluster));
    for kind in cluster.kinds() {
        let left = cluster.api(kind).list(&Default::default()).unwrap().items;
        assert_eq!(left.len(), 0, "{kind:?}");
    }
}

#[test]
fn pods_are_deleted_first_and_get_half_their_grace() {
    let cluster = deleting(|cluster| {
        create_pod(cluster, "slow");
        cluster.create(web(), at(0)).unwrap();
    });
    let outcome = sync_at(&cluster, 5).unwrap();
    assert_eq!(outcome, Outcome::Remaining(30));
    assert_eq!(outcome.again_after_seconds(), Some(16));
    assert!(cluster.get::<ReplicaSet>("shop", "web").is_ok());
    let (status, _) = condition(&cluster, "NamespaceContentRemaining");
    assert_eq!(status, "False", "upstream counts no pods here");
    let forced = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    let ended = cluster.delete::<Pod>("shop", "slow", &forced, at(6));
    ended.unwrap();
    assert_eq!(sync_at(&cluster, 21), Ok(Outcome::Done));
    assert!(!is_there(&cluster));
}

#[test]
fn a_pod_beyond_its_grace_is_an_error() {
    let cluster = deleting(|cluster| create_pod(cluster, "stuck"));
    sync_at(&cluster, 5).unwrap();
    let stopped = sync_at(&cluster, 31).unwrap_err();
    let text = "for gvr: /v1, Resource=pods";
    assert!(stopped.0[0].ends_with(text), "{stopped:?}");
    let (status, message) = condition(&cluster, "NamespaceDeletionContentFailure");
    assert_eq!(status, "True");
    assert!(message.starts_with("Failed to delete all resource types, 1 remaining"));
}

#[test]
fn objects_with_finalizers_are_counted() {
    let cluster = deleting(|cluster| {
        let mut held = web();
        held.metadata.finalizers =
            Pod::from_json(json!({"metadata": {"name": "p", "finalizers": ["x.io/a"]}}))
                .unwrap()
                .metadata
                .finalizers;
        cluster.create(held, at(0)).unwrap();
    });
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Remaining(15)));
    let (_, message) = condition(&cluster, "NamespaceContentRemaining");
    let text = "Some resources are remaining: replicasets.apps has 1 resource instances";
    assert_eq!(message, text);
    let before = cluster.resource_version();
    assert_eq!(sync_at(&cluster, 13), Ok(Outcome::Remaining(15)));
    let after = cluster.resource_version();
    assert_eq!(after, before, "the conditions are unchanged");
}

#[test]
fn another_finalizer_keeps_the_namespace() {
    let cluster = deleting(|cluster| {
        let mut namespace = Namespace::clone(&cluster.get("", "shop").unwrap());
        let finalizers: Value = json!({"finalizers": ["x.io/c", "kubernetes", "x.io/b"]});
        namespace.fields.insert("spec".into(), finalizers);
        cluster.finalize(namespace, false, at(0)).unwrap();
    });
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Done));
    let kept = cluster.get::<Namespace>("", "shop").unwrap();
    assert_eq!(kept.finalizers(), ["x.io/b", "x.io/c"]);
}

#[test]
fn the_clusters_manager_has_the_flags_number_of_workers() {
    let flag = Namespaces::ROW
        .workers
        .expect("the queue has a flag for its workers");
    let tasks = |workers: Option<usize>| {
        let mut options = SimOptions::new(EngineKind::Virtual, 1);
        if let Some(workers) = workers {
            options.controller.workers.set(flag, workers);
        }
        let (builder, _) = assemble(options, RealClock::start(), None, None, None);
        builder.installed.len()
    };
    assert_eq!(tasks(Some(7)) - tasks(Some(1)), 6);
    assert_eq!(tasks(None), tasks(Some(10)), "upstream's default");
}

#[test]
fn discovery_lists_the_verbs_of_each_kind() {
    let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
    let client = Client::new(cluster, None);
    let answer = client.carry_out(&Request::Discover, &mut ApiCalls::default(), at(0));
    let Answer::Discovered(discovery) = answer else {
        panic!("{answer:?}");
    };
    let without: Vec<Kind> = discovery
        .kinds
        .iter()
        .filter(|found| !found.has("deletecollection"))
        .map(|found| found.kind)
        .collect();
    assert_eq!(without, [Kind::NAMESPACE]);
    assert!(discovery.kinds.iter().all(|found| found.has("delete")));
}
