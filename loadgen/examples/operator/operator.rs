//! The operator: a `Site`, a custom resource, gets a ReplicaSet that runs it.
//!
//! It does not depend on Podstorm and would run in any cluster.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher::Config;
use kube::{Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The finalizer that keeps a site until the count is updated.
const FINALIZER: &str = "example.com/count";
/// The annotation of a namespace with the number of its sites.
pub(crate) const COUNT: &str = "example.com/sites";
/// The field manager of everything that the operator applies.
const MANAGER: &str = "site-operator";

/// A web site.
#[expect(
    clippy::duplicated_attributes,
    reason = "columns may be of the same type"
)]
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Site",
    namespaced,
    shortname = "st",
    category = "all",
    status = "SiteStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.ready"
    ),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.ready")
)]
pub(crate) struct SiteSpec {
    /// The image that its pods run.
    pub(crate) image: String,
    /// The number of its pods.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub(crate) replicas: i32,
}

fn one() -> i32 {
    1
}

/// The status of a site.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub(crate) struct SiteStatus {
    /// The number of its ready pods.
    pub(crate) ready: i32,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Finalizer(Box<kube::runtime::finalizer::Error<Problem>>),
}

/// Runs until the client is disconnected.
pub(crate) async fn run(client: Client) {
    let sites: Api<Site> = Api::all(client.clone());
    let sets: Api<ReplicaSet> = Api::all(client.clone());
    Controller::new(sites, Config::default())
        .owns(sets, Config::default())
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

fn retry(_: Arc<Site>, _: &Problem, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(100))
}

async fn reconcile(site: Arc<Site>, client: Arc<Client>) -> Result<Action, Problem> {
    let client = Client::clone(&client);
    let namespace = site.namespace().unwrap_or_default();
    let sites: Api<Site> = Api::namespaced(client.clone(), &namespace);
    finalizer(&sites, FINALIZER, site, |event| async move {
        match event {
            Event::Apply(site) => apply(&site, client.clone(), &namespace).await?,
            Event::Cleanup(_) => {}
        }
        count(client, &namespace).await?;
        Ok(Action::await_change())
    })
    .await
    .map_err(|error| Problem::Finalizer(Box::new(error)))
}

/// Applies the ReplicaSet of the site, and writes the number of its ready pods.
async fn apply(site: &Site, client: Client, namespace: &str) -> Result<(), Problem> {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let name = site.name_any();
    let labels = json!({"site": name});
    let wanted = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "ownerReferences": [site.controller_owner_ref(&())]},
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": site.spec.image}]},
            },
        },
    });
    let applies = PatchParams::apply(MANAGER).force();
    let set = sets.patch(&name, &applies, &Patch::Apply(wanted)).await?;
    let ready = set.status.and_then(|status| status.ready_replicas);
    let status = SiteStatus {
        ready: ready.unwrap_or(0),
    };
    if site.status.as_ref().map(|status| status.ready) != Some(status.ready) {
        let sites: Api<Site> = Api::namespaced(client, namespace);
        let patch = Patch::Merge(json!({"status": status}));
        sites
            .patch_status(&name, &PatchParams::default(), &patch)
            .await?;
    }
    Ok(())
}

/// Writes the number of sites of a namespace.
async fn count(client: Client, namespace: &str) -> Result<(), Problem> {
    let sites: Api<Site> = Api::namespaced(client.clone(), namespace);
    let all = sites.list_metadata(&ListParams::default()).await?;
    let staying = all
        .items
        .iter()
        .filter(|site| site.metadata.deletion_timestamp.is_none());
    let patch = json!({"metadata": {"annotations": {COUNT: staying.count().to_string()}}});
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces
        .patch(namespace, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}
