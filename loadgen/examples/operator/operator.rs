//! The operator: a ConfigMap that asks for a web site gets a ReplicaSet that runs it.
//!
//! It knows nothing of podstorm: it would run in any cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Container, Namespace, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher::Config;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

/// The label of ConfigMaps that ask for a web site. `data.image` and `data.replicas` say what runs.
pub(crate) const LABEL: &str = "example.com/web";
/// What keeps such a ConfigMap until its site was counted out.
const FINALIZER: &str = "example.com/count";
/// The annotation of a namespace with the number of its sites.
pub(crate) const COUNT: &str = "example.com/sites";

#[derive(Debug)]
pub(crate) enum Problem {
    Api(kube::Error),
    Finalizer(Box<kube::runtime::finalizer::Error<Problem>>),
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Problem::Api(error) => error.fmt(f),
            Problem::Finalizer(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Problem {}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Problem {
        Problem::Api(error)
    }
}

/// Runs until its client is cut off.
pub(crate) async fn run(client: Client) {
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let sets: Api<ReplicaSet> = Api::all(client.clone());
    Controller::new(maps, Config::default().labels(LABEL))
        .owns(sets, Config::default())
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

fn retry(_: Arc<ConfigMap>, _: &Problem, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(100))
}

async fn reconcile(map: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, Problem> {
    let client = Client::clone(&client);
    let namespace = map.namespace().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    finalizer(&maps, FINALIZER, map, |event| async move {
        match event {
            Event::Apply(map) => apply(&map, client.clone(), &namespace).await?,
            Event::Cleanup(_) => {}
        }
        count(client, &namespace).await?;
        Ok(Action::await_change())
    })
    .await
    .map_err(|error| Problem::Finalizer(Box::new(error)))
}

/// Makes the ReplicaSet what the ConfigMap asks for, and writes down how many of its pods are ready.
async fn apply(map: &ConfigMap, client: Client, namespace: &str) -> Result<(), Problem> {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let name = map.name_any();
    let wanted = replica_set(map);
    let set = match sets.get_opt(&name).await? {
        None => sets.create(&PostParams::default(), &wanted).await?,
        Some(found)
            if found.spec.as_ref().map(|spec| spec.replicas)
                != wanted.spec.as_ref().map(|spec| spec.replicas) =>
        {
            let replicas = wanted.spec.and_then(|spec| spec.replicas);
            let patch = json!({"spec": {"replicas": replicas}});
            sets.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await?
        }
        Some(found) => found,
    };
    let ready = set.status.and_then(|status| status.ready_replicas);
    let ready = ready.unwrap_or(0).to_string();
    if map.annotations().get("example.com/ready") != Some(&ready) {
        let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
        let patch = json!({"metadata": {"annotations": {"example.com/ready": ready}}});
        maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    Ok(())
}

/// Writes down how many sites a namespace has.
async fn count(client: Client, namespace: &str) -> Result<(), Problem> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let all = maps
        .list_metadata(&kube::api::ListParams::default().labels(LABEL))
        .await?;
    let staying = all
        .items
        .iter()
        .filter(|map| map.metadata.deletion_timestamp.is_none());
    let patch = json!({"metadata": {"annotations": {COUNT: staying.count().to_string()}}});
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces
        .patch(namespace, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

fn replica_set(map: &ConfigMap) -> ReplicaSet {
    let data = |key: &str| map.data.as_ref().and_then(|data| data.get(key)).cloned();
    let labels = BTreeMap::from([("site".to_owned(), map.name_any())]);
    let container = Container {
        name: "web".to_owned(),
        image: data("image"),
        ..Container::default()
    };
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(map.name_any()),
            namespace: map.namespace(),
            owner_references: map.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(
                data("replicas")
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(1),
            ),
            selector: LabelSelector {
                match_labels: Some(labels.clone()),
                ..LabelSelector::default()
            },
            template: Some(PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels),
                    ..ObjectMeta::default()
                }),
                spec: Some(PodSpec {
                    containers: vec![container],
                    ..PodSpec::default()
                }),
            }),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}
