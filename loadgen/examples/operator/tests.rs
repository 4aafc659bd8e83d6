//! The operator's tests. Each has its own cluster; they run in parallel.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::conditions::is_deleted;
use serde_json::{Value, json};

use super::*;

/// Returns a ready site in its own cluster.
async fn with_site(replicas: i32) -> (Served, Client, Api<Site>) {
    let (served, client) = cluster().await;
    tokio::spawn(operator::run(client.clone()));
    let sites: Api<Site> = Api::default_namespaced(client.clone());
    let created = sites
        .create(&PostParams::default(), &site("shop", replicas))
        .await;
    created.expect("the server accepts the request");
    let ready = await_condition(sites.clone(), "shop", is_ready(replicas)).await;
    ready.expect("the pods become ready");
    (served, client, sites)
}

fn code<T>(answer: kube::Result<T>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        _ => 0,
    }
}

#[tokio::test]
async fn a_site_gets_its_pods() {
    let (_served, client, _) = with_site(3).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let pods = pods
        .list(&ListParams::default().labels("site=shop"))
        .await
        .unwrap();
    assert_eq!(pods.items.len(), 3);
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let owners = sets.get("shop").await.unwrap();
    let applied = owners.managed_fields()[0].manager.as_deref();
    assert_eq!(applied, Some("site-operator"));
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
    let (_served, _, sites) = with_site(1).await;
    let more = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let scale = sites
        .patch_scale("shop", &PatchParams::default(), &more)
        .await
        .unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
    await_condition(sites.clone(), "shop", is_ready(5))
        .await
        .unwrap();
    assert_eq!(
        sites.get("shop").await.unwrap().metadata.generation,
        Some(2)
    );
}

#[tokio::test]
async fn kubectl_would_print_the_columns_of_a_site() {
    let (_served, client, _) = with_site(2).await;
    let request = http::Request::get("/apis/example.com/v1/namespaces/default/sites")
        .header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())
        .unwrap();
    let table: Value = client.request(request).await.unwrap();
    let names = table["columnDefinitions"].as_array().unwrap().iter();
    let names: Vec<&Value> = names.map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Wanted", "Ready"]);
    assert_eq!(table["rows"][0]["cells"], json!(["shop", 2, 2]));
}

#[tokio::test]
async fn deleting_a_site_deletes_its_pods() {
    let (_served, client, sites) = with_site(2).await;
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let set = sets.get("shop").await.unwrap();
    assert_eq!(set.owner_references().len(), 1);
    let uid = sites.get("shop").await.unwrap().uid().unwrap();
    sites
        .delete("shop", &DeleteParams::default())
        .await
        .unwrap();
    await_condition(sites, "shop", is_deleted(&uid))
        .await
        .unwrap();
    // The garbage collector of the cluster deletes what the site owned.
    await_condition(sets, "shop", is_deleted(&set.uid().unwrap()))
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    let namespace = namespaces.get("default").await.unwrap();
    assert_eq!(namespace.annotations()[operator::COUNT], "0");
}

#[tokio::test]
async fn deleting_the_definition_deletes_sites_after_their_finalizer() {
    let (_served, client, sites) = with_site(1).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    let name = Site::crd_name();
    let uid = definitions.get(name).await.unwrap().uid().unwrap();
    definitions
        .delete(name, &DeleteParams::default())
        .await
        .unwrap();
    await_condition(definitions, name, is_deleted(&uid))
        .await
        .unwrap();
    assert_eq!(code(sites.get("shop").await), 404);
}

#[tokio::test]
async fn an_invalid_site_is_refused() {
    let (_served, client) = cluster().await;
    let sites: Api<Site> = Api::default_namespaced(client);
    let refused = sites
        .create(&PostParams::default(), &site("less", -1))
        .await;
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("spec.replicas in body should be greater than or equal to 0"),
        "{message}"
    );
    let odd = Patch::Apply(json!({"apiVersion": "example.com/v1", "kind": "Site",
        "metadata": {"name": "odd"}, "spec": {"image": 5}}));
    let refused = sites.patch("odd", &PatchParams::apply("alice"), &odd).await;
    assert_ne!(code(refused), 0);
}

#[tokio::test]
async fn many_clusters_run_in_parallel() {
    let all = (0..20).map(|number| async move {
        let replicas = number % 4 + 1;
        let (_served, client, _) = with_site(replicas).await;
        let pods: Api<Pod> = Api::default_namespaced(client);
        let pods = pods.list(&ListParams::default()).await.unwrap();
        // No cluster sees the pods of another.
        assert_eq!(i32::try_from(pods.items.len()), Ok(replicas));
    });
    futures::future::join_all(all).await;
}

#[tokio::test]
async fn applied_fields_are_protected_from_other_managers() {
    let (_served, client) = cluster().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let colour = |colour: &str| {
        Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "paint"}, "data": {"colour": colour}}))
    };
    let (alice, bob) = (PatchParams::apply("alice"), PatchParams::apply("bob"));
    let red = maps.patch("paint", &alice, &colour("red")).await.unwrap();
    assert_eq!(red.managed_fields().len(), 1);
    let refused = maps.patch("paint", &bob, &colour("blue")).await;
    assert_eq!(code(refused), 409);
    let blue = maps.patch("paint", &bob.force(), &colour("blue")).await;
    assert_eq!(blue.unwrap().data.unwrap()["colour"], "blue");
}
