//! The operator's tests. Each has a cluster of its own; they run side by side.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::conditions::is_deleted;

use super::*;

/// A site that is ready, in a cluster of its own.
async fn with_site(replicas: &str) -> (Served, Client, Api<ConfigMap>) {
    let (served, client) = cluster();
    tokio::spawn(operator::run(client.clone()));
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let created = maps
        .create(&PostParams::default(), &site("shop", replicas))
        .await;
    created.expect("the server takes it");
    let ready = await_condition(maps.clone(), "shop", is_ready(replicas)).await;
    ready.expect("the pods get ready");
    (served, client, maps)
}

#[tokio::test]
async fn a_site_gets_its_pods() {
    let (_served, client, _) = with_site("3").await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pods = pods
        .list(&ListParams::default().labels("site=shop"))
        .await
        .unwrap();
    assert_eq!(pods.items.len(), 3);
    let namespaces: Api<Namespace> = Api::all(client);
    let counted = |namespace: Option<&Namespace>| {
        namespace.is_some_and(|one| {
            one.annotations()
                .get(operator::COUNT)
                .is_some_and(|n| n == "1")
        })
    };
    await_condition(namespaces, "default", counted)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_site_is_scaled() {
    let (_served, _, maps) = with_site("1").await;
    let more = Patch::Merge(serde_json::json!({"data": {"replicas": "5"}}));
    maps.patch("shop", &PatchParams::default(), &more)
        .await
        .unwrap();
    await_condition(maps, "shop", is_ready("5")).await.unwrap();
}

#[tokio::test]
async fn a_site_that_goes_takes_its_pods_along() {
    let (_served, client, maps) = with_site("2").await;
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let set = sets.get("shop").await.unwrap();
    assert_eq!(set.owner_references().len(), 1);
    let uid = maps.get("shop").await.unwrap().uid().unwrap();
    maps.delete("shop", &DeleteParams::default()).await.unwrap();
    await_condition(maps, "shop", is_deleted(&uid))
        .await
        .unwrap();
    // The garbage collector of the cluster takes what the ConfigMap owned.
    await_condition(sets, "shop", is_deleted(&set.uid().unwrap()))
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = namespaces.get("default").await.unwrap();
    assert_eq!(namespace.annotations()[operator::COUNT], "0");
}

#[tokio::test]
async fn many_clusters_stand_side_by_side() {
    let all = (0..20).map(|number| async move {
        let replicas = (number % 4 + 1).to_string();
        let (_served, client, _) = with_site(&replicas).await;
        let pods: Api<Pod> = Api::default_namespaced(client);
        let pods = pods.list(&ListParams::default()).await.unwrap();
        // No cluster sees the pods of another.
        assert_eq!(pods.items.len().to_string(), replicas);
    });
    futures::future::join_all(all).await;
}

#[tokio::test]
async fn what_one_applies_another_does_not_change_by_accident() {
    let (_served, client) = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let colour = |colour: &str| {
        Patch::Apply(serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "paint"}, "data": {"colour": colour}}))
    };
    let (alice, bob) = (PatchParams::apply("alice"), PatchParams::apply("bob"));
    let red = maps.patch("paint", &alice, &colour("red")).await.unwrap();
    assert_eq!(red.managed_fields().len(), 1);
    let refused = maps.patch("paint", &bob, &colour("blue")).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 409));
    let blue = maps.patch("paint", &bob.force(), &colour("blue")).await;
    assert_eq!(blue.unwrap().data.unwrap()["colour"], "blue");
}
