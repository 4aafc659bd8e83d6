//! Executes requests on the in-process cluster, as an API server does over a network.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm::client::{self, Answer, ApiError, DiscoveredKind, Discovery, Request, Selection};
use podstorm_apiserver::{
    Cluster, DeleteOptions, Deletion, ListOptions, Patch, ScaleUpdate, Selectors, errors, verbs,
};
use podstorm_http::{ApiServer, Application};
use podstorm_objects::{Kind, Map, Namespace, Now, Object, Pod, ResourceVersion};
use serde_json::Value;

use super::{ApiCalls, Client, RequestInfo};

/// The patch types that custom resources accept.
const PATCHES_OF_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Client {
    /// Carries a request out immediately, and counts it in `calls`.
    pub fn carry_out(&self, request: &Request, calls: &mut ApiCalls, now: Now) -> Answer {
        let answer = answer(self, request, now).unwrap_or_else(Answer::Failed);
        let code = match (&answer, request) {
            (Answer::Failed(error), _) => error.code,
            (_, Request::CreatePod { .. } | Request::Create { .. }) => 201,
            _ => 200,
        };
        calls.count(RequestInfo::from_request(request), code);
        answer
    }

    /// Returns the HTTP server for requests that the cluster itself does not handle. The first such
    /// request creates it.
    fn http(&self) -> &ApiServer {
        self.http.get_or_init(|| {
            // Each request has its own time, so the server needs no clock.
            let server = ApiServer::builder(Arc::clone(&self.cluster));
            server.clock(Arc::new(Now::default)).build()
        })
    }
}

fn answer(client: &Client, request: &Request, now: Now) -> Result<Answer, ApiError> {
    let cluster = &*client.cluster;
    Ok(match request {
        Request::CreatePod {
            namespace,
            pod,
            name,
        } => Answer::Pod(cluster.create_pod(namespace, pod, name.as_ref(), now)?),
        Request::DeletePod {
            namespace,
            name,
            uid,
        } => {
            let options = DeleteOptions {
                precondition_uid: uid.clone(),
                ..DeleteOptions::default()
            };
            let deleted = cluster.delete::<Pod>(namespace, name, &options, now)?;
            Answer::Deleted(Some(deleted.object.metadata.resource_version.clone()))
        }
        Request::PatchOwners {
            kind,
            namespace,
            name,
            patch,
        } => {
            if *kind == Kind::POD {
                let patched = cluster.patch_pod_owner(namespace, name, patch, now)?;
                return Ok(Answer::Pod(patched));
            }
            let body = Patch::Strategic(members_of(patch.body()));
            Answer::Object(cluster.api(*kind).patch(namespace, name, &body, now)?)
        }
        Request::Get {
            kind,
            namespace,
            name,
        } => Answer::Object(cluster.api(*kind).get(namespace, name)?),
        Request::List {
            kind,
            namespace,
            selection,
        } => {
            let selectors = selectors(*kind, selection)?;
            let page = cluster.api(*kind).list(&ListOptions {
                namespace: in_namespace(namespace),
                select: Some(&|object| selectors.matches(object)),
                ..ListOptions::default()
            })?;
            Answer::List {
                items: page.items,
                version: page.resource_version,
            }
        }
        Request::Create { object } => {
            Answer::Object(cluster.api(object.kind()).create(object.clone(), now)?)
        }
        Request::Put { object } => {
            Answer::Object(cluster.api(object.kind()).update(object.clone(), now)?)
        }
        Request::PutStatus { object } => {
            let api = cluster.api(object.kind());
            Answer::Object(api.update_status(object.clone(), now)?)
        }
        Request::Patch {
            kind,
            namespace,
            name,
            patch,
            of_status,
        } => {
            let patch = match &**patch {
                client::Patch::Apply {
                    object,
                    manager,
                    force,
                } => {
                    let application = Application {
                        kind: *kind,
                        namespace,
                        name,
                        of_status: *of_status,
                        config: object,
                        manager,
                        force: *force,
                    };
                    return client.http().apply(&application, now).map(Answer::Object);
                }
                client::Patch::Strategic(_) | client::Patch::RemoveFinalizer(_)
                    if kind.row().custom.is_some() =>
                {
                    return Err(errors::unsupported(PATCHES_OF_CUSTOM));
                }
                client::Patch::RemoveFinalizer(finalizer) if *kind == Kind::POD && !of_status => {
                    let patched = cluster.remove_pod_finalizer(namespace, name, finalizer, now)?;
                    return Ok(Answer::Pod(patched));
                }
                patch @ (client::Patch::Strategic(_) | client::Patch::RemoveFinalizer(_)) => {
                    let body = patch.strategic().expect("both types have a strategic body");
                    Patch::Strategic(body.into_owned())
                }
                client::Patch::Merge(members) => Patch::Merge(members.clone()),
                client::Patch::Json(operations) => Patch::json(operations)?,
            };
            let api = cluster.api(*kind);
            Answer::Object(match of_status {
                true => api.patch_status(namespace, name, &patch, now)?,
                false => api.patch(namespace, name, &patch, now)?,
            })
        }
        Request::GetScale {
            kind,
            namespace,
            name,
        } => Answer::Scale(Box::new(cluster.api(*kind).scale(namespace, name)?)),
        Request::GetOwnerScale { namespace, owner } => {
            Answer::Scale(Box::new(cluster.owner_scale(namespace, owner)?))
        }
        Request::PutScale {
            kind,
            namespace,
            name,
            scale,
        } => {
            let version = &scale.resource_version;
            let update = ScaleUpdate {
                replicas: scale.replicas,
                uid: Some(scale.uid.clone()).filter(|uid| !uid.is_empty()),
                resource_version: Some(version.clone()).filter(|version| !version.is_unset()),
            };
            let api = cluster.api(*kind);
            Answer::Scale(Box::new(api.update_scale(namespace, name, &update, now)?))
        }
        Request::Finalize { namespace } => {
            let finalized = cluster.finalize(Namespace::clone(namespace), false, now)?;
            Answer::Object(finalized)
        }
        Request::Delete {
            kind,
            namespace,
            name,
            options,
        } => {
            let options = options.as_deref().cloned().unwrap_or_default();
            let deleted = cluster.api(*kind).delete(namespace, name, &options, now)?;
            Answer::Deleted(version_of(&deleted))
        }
        Request::DeleteCollection {
            kind,
            namespace,
            selection,
            options,
        } => {
            let selectors = selectors(*kind, selection)?;
            let select = |object: &dyn Object| selectors.matches(object);
            let options = options.as_deref().cloned().unwrap_or_default();
            let namespace = in_namespace(namespace);
            cluster
                .api(*kind)
                .delete_collection(namespace, &select, &options, now)?;
            Answer::Deleted(None)
        }
        Request::ReadVersion { kind } => Answer::Version(cluster.api(*kind).last_version()?.into()),
        Request::Discover => Answer::Discovered(Box::new(discovery(cluster))),
        Request::Raw { path } => Answer::Raw(client.http().read(path, now)?),
    })
}

fn discovery(cluster: &Cluster) -> Discovery {
    let kinds = cluster.kinds().into_iter();
    let kinds = kinds.map(|kind| DiscoveredKind {
        kind,
        verbs: verbs(kind)
            .iter()
            .copied()
            .map(CompactString::from)
            .collect(),
    });
    Discovery {
        kinds: kinds.collect(),
        ..Discovery::default()
    }
}

fn in_namespace(namespace: &str) -> Option<&str> {
    Some(namespace).filter(|namespace| !namespace.is_empty())
}

fn selectors(kind: Kind, selection: &Selection) -> Result<Selectors, ApiError> {
    Selectors::parse(kind, &selection.labels, &selection.fields)
}

/// Returns the object's version after a deletion, if the answer contains the object.
fn version_of(deleted: &Deletion<dyn Object>) -> Option<ResourceVersion> {
    let object = &deleted.object;
    let is_told = !deleted.removed || object.kind().row().returns_deleted;
    is_told.then(|| object.metadata().resource_version.clone())
}

fn members_of(body: Value) -> Map {
    match body {
        Value::Object(members) => members,
        other => panic!("the patch must be a JSON object: {other}"),
    }
}
