//! At least one request of every kind, with the server's response and the effect of the request.
//! The tests that each transport carries all requests use these samples.

use std::sync::Arc;

use podstorm::client::{
    Answer, DeleteOptions, OwnerPatch, Patch, Propagation, Request, Scale, Selection,
};
use podstorm::object::{
    AnyObject, DynamicObject, Kind, Map, Namespace, Now, ObjectMeta, OwnerReference, Pod, Resource,
};
use podstorm_apiserver::{Cluster, kind_named};
use serde_json::{Value, json};

mod changes;

pub use changes::{changes, state};

/// The number of kinds of requests.
pub const SORTS: usize = 18;

const NAMESPACE: &str = "shop";

/// A finalizer that pods in the samples have.
const FINALIZER: &str = "example.com/held";

/// Returns the number of a request's kind, which is less than [`SORTS`]. A new kind of request does
/// not compile without a number, and a test requires a sample of each kind.
pub fn sort(request: &Request) -> usize {
    match request {
        Request::CreatePod { .. } => 0,
        Request::DeletePod { .. } => 1,
        Request::PatchOwners { .. } => 2,
        Request::Get { .. } => 3,
        Request::List { .. } => 4,
        Request::Create { .. } => 5,
        Request::Put { .. } => 6,
        Request::PutStatus { .. } => 7,
        Request::Patch { .. } => 8,
        Request::GetScale { .. } => 9,
        Request::PutScale { .. } => 10,
        Request::Finalize { .. } => 11,
        Request::Delete { .. } => 12,
        Request::DeleteCollection { .. } => 13,
        Request::ReadVersion { .. } => 14,
        Request::Raw { .. } => 15,
        Request::Discover => 16,
        Request::GetOwnerScale { .. } => 17,
    }
}

/// A request, with the server's response and the effect of the request.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The request.
    pub request: Request,
    /// The verb, the resource and the subresource of the request.
    pub info: &'static str,
    /// The response, as [`words`] formats it.
    pub answer: &'static str,
    /// The changes in the [`state`], as [`changes`] formats them.
    pub effect: &'static [&'static str],
}

/// Formats a response.
pub fn words(answer: &Answer) -> String {
    match answer {
        Answer::Pod(pod) => format!("pod {}", pod.metadata.name),
        Answer::Object(object) => {
            format!("{} {}", object.kind().name(), object.metadata().name)
        }
        Answer::List { items, version } => {
            assert!(!version.is_unset());
            let names = items.iter().map(|item| item.metadata().name.as_str());
            format!("list {}", names.collect::<Vec<_>>().join(" "))
        }
        Answer::Scale(scale) => format!("scale {} {}", scale.replicas, scale.selector),
        Answer::Deleted(_) => "deleted".to_owned(),
        Answer::Version(version) => {
            assert!(version.number().is_some());
            "version".to_owned()
        }
        Answer::Discovered(discovery) => {
            let complete = discovery.failed.is_none() && discovery.malformed.is_none();
            assert!(complete, "{discovery:?}");
            let asked = [Kind::POD, Kind::NAMESPACE, config_maps()].map(|kind| {
                let mut kinds = discovery.kinds.iter();
                let found = kinds.find(|found| found.kind == kind && found.has("delete"));
                found.map_or("-", |found| found.kind.resource())
            });
            format!("discovered {}", asked.join(" "))
        }
        Answer::Raw(value) => value.to_string(),
        Answer::Failed(error) => format!("{} {}", error.code, error.reason),
    }
}

fn config_maps() -> Kind {
    kind_named("ConfigMap").expect("the kind is built in")
}

fn config_map(name: &str, labels: Value) -> AnyObject {
    let value = json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "data": {"a": "1"},
    });
    let object = DynamicObject::from_json(config_maps(), value);
    Arc::new(object.expect("the test's ConfigMap is valid"))
}

fn deployment(name: &str) -> AnyObject {
    let value = json!({
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }},
    });
    let object = DynamicObject::from_json(Kind::DEPLOYMENT, value);
    Arc::new(object.expect("the test's Deployment is valid"))
}

fn owner_scale(kind: Kind, name: &str) -> Request {
    let meta = ObjectMeta {
        name: name.into(),
        ..ObjectMeta::default()
    };
    Request::GetOwnerScale {
        namespace: NAMESPACE.into(),
        owner: Arc::new(kind.controller_reference(&meta)),
    }
}

fn pod(name: Option<&str>, labels: Value) -> Pod {
    let mut value = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    });
    if let Some(name) = name {
        value["metadata"]["name"] = name.into();
        value["metadata"]["namespace"] = NAMESPACE.into();
    }
    Pod::from_json(value).expect("the test's pod is valid")
}

fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        other => panic!("expected an object: {other}"),
    }
}

/// Creates the objects to which the samples refer.
///
/// # Panics
/// Panics if the cluster rejects an object.
pub fn furnish(cluster: &Cluster, now: Now) {
    let made = "the server accepts the object";
    for name in [NAMESPACE, "kept"] {
        let namespace = Namespace::from_json(json!({"metadata": {"name": name}}));
        cluster.create(namespace.expect(made), now).expect(made);
    }
    let other = json!({});
    for (name, labels) in [
        ("delete", other.clone()),
        ("orphan", other.clone()),
        ("listed-1", json!({"group": "listed"})),
        ("listed-2", json!({"group": "listed"})),
    ] {
        cluster.create(pod(Some(name), labels), now).expect(made);
    }
    let mut held = pod(Some("held"), other.clone());
    held.metadata.add_finalizer(FINALIZER);
    cluster.create(held, now).expect(made);
    let maps = cluster.api(config_maps());
    for name in [
        "apply",
        "delete",
        "forced",
        "json",
        "merge",
        "orphan",
        "put",
        "strategic",
    ] {
        maps.create(config_map(name, other.clone()), now)
            .expect(made);
    }
    for name in ["many-1", "many-2"] {
        maps.create(config_map(name, json!({"group": "many"})), now)
            .expect(made);
    }
    let deployments = cluster.api(Kind::DEPLOYMENT);
    for name in ["owner", "patch", "scale", "status", "stale"] {
        deployments.create(deployment(name), now).expect(made);
    }
}

/// Returns the samples. They are independent of each other and can be executed in any order.
///
/// # Panics
/// Panics if the cluster was not [furnished](furnish).
pub fn samples(cluster: &Cluster) -> Vec<Sample> {
    let mut all = of_pods(cluster);
    all.extend(of_objects(cluster));
    all.extend(patches());
    all.extend(refused(cluster));
    all
}

fn read(cluster: &Cluster, kind: Kind, name: &str) -> AnyObject {
    let object = cluster.api(kind).get(NAMESPACE, name);
    object.expect("the cluster is furnished")
}

/// Reads an object and sets one of its members.
fn with(cluster: &Cluster, kind: Kind, name: &str, member: &str, value: Value) -> AnyObject {
    let object = read(cluster, kind, name);
    let object = object.downcast_ref::<DynamicObject>();
    let mut object = object.expect("the kind has no Rust type").clone();
    object.fields.insert(member.to_owned(), value);
    Arc::new(object)
}

fn of_pods(cluster: &Cluster) -> Vec<Sample> {
    let owner = read(cluster, Kind::DEPLOYMENT, "owner");
    let owner: OwnerReference = Kind::DEPLOYMENT.controller_reference(owner.metadata());
    let adopt = |kind: Kind| Request::PatchOwners {
        kind,
        namespace: NAMESPACE.into(),
        name: "orphan".into(),
        patch: OwnerPatch::Adopt {
            owner: Arc::new(owner.clone()),
            uid: read(cluster, kind, "orphan").metadata().uid.clone(),
        },
    };
    vec![
        Sample {
            request: Request::CreatePod {
                namespace: NAMESPACE.into(),
                pod: Arc::new(pod(None, json!({"group": "made"}))),
                name: Some("made".into()),
            },
            info: "create pods",
            answer: "pod made",
            effect: &["+Pod shop/made"],
        },
        Sample {
            request: Request::DeletePod {
                namespace: NAMESPACE.into(),
                name: "delete".into(),
                uid: Some(read(cluster, Kind::POD, "delete").metadata().uid.clone()),
            },
            info: "delete pods",
            answer: "deleted",
            effect: &["-Pod shop/delete"],
        },
        Sample {
            request: adopt(Kind::POD),
            info: "patch pods",
            answer: "pod orphan",
            effect: &["~Pod shop/orphan /metadata/ownerReferences/0/name=\"owner\""],
        },
        Sample {
            request: adopt(config_maps()),
            info: "patch configmaps",
            answer: "ConfigMap orphan",
            effect: &["~ConfigMap shop/orphan /metadata/ownerReferences/0/name=\"owner\""],
        },
        Sample {
            request: Request::List {
                kind: Kind::POD,
                namespace: NAMESPACE.into(),
                selection: Selection {
                    labels: "group=listed".into(),
                    fields: "metadata.name!=listed-1".into(),
                },
            },
            info: "list pods",
            answer: "list listed-2",
            effect: &[],
        },
        Sample {
            request: Request::ReadVersion { kind: Kind::POD },
            info: "list pods",
            answer: "version",
            effect: &[],
        },
    ]
}

fn of_objects(cluster: &Cluster) -> Vec<Sample> {
    let kept = cluster.get::<Namespace>("", "kept");
    let mut kept = Namespace::clone(&kept.expect("the cluster is furnished"));
    kept.fields.insert("spec".to_owned(), json!({}));
    let scale = cluster.api(Kind::DEPLOYMENT).scale(NAMESPACE, "scale");
    let scale = Scale {
        replicas: 5,
        ..scale.expect("the cluster is furnished")
    };
    let status = json!({"replicas": 2, "observedGeneration": 1});
    vec![
        Sample {
            request: Request::Get {
                kind: config_maps(),
                namespace: NAMESPACE.into(),
                name: "json".into(),
            },
            info: "get configmaps",
            answer: "ConfigMap json",
            effect: &[],
        },
        Sample {
            request: Request::Create {
                object: config_map("made", json!({})),
            },
            info: "create configmaps",
            answer: "ConfigMap made",
            effect: &["+ConfigMap shop/made"],
        },
        Sample {
            request: Request::Put {
                object: with(cluster, config_maps(), "put", "data", json!({"a": "2"})),
            },
            info: "update configmaps",
            answer: "ConfigMap put",
            effect: &["~ConfigMap shop/put /data/a=\"2\""],
        },
        Sample {
            request: Request::PutStatus {
                object: with(cluster, Kind::DEPLOYMENT, "status", "status", status),
            },
            info: "update deployments/status",
            answer: "Deployment status",
            effect: &[
                "~Deployment shop/status /status/observedGeneration=1",
                "~Deployment shop/status /status/replicas=2",
            ],
        },
        Sample {
            request: Request::GetScale {
                kind: Kind::DEPLOYMENT,
                namespace: NAMESPACE.into(),
                name: "status".into(),
            },
            info: "get deployments/scale",
            answer: "scale 2 app=status",
            effect: &[],
        },
        Sample {
            request: owner_scale(Kind::DEPLOYMENT, "status"),
            info: "get /scale",
            answer: "scale 2 app=status",
            effect: &[],
        },
        Sample {
            request: Request::PutScale {
                kind: Kind::DEPLOYMENT,
                namespace: NAMESPACE.into(),
                name: "scale".into(),
                scale: Box::new(scale),
            },
            info: "update deployments/scale",
            answer: "scale 5 app=scale",
            effect: &["~Deployment shop/scale /spec/replicas=5"],
        },
        Sample {
            request: Request::Finalize {
                namespace: Arc::new(kept),
            },
            info: "update namespaces/finalize",
            answer: "Namespace kept",
            effect: &["~Namespace /kept /spec/finalizers/0 removed"],
        },
        Sample {
            request: Request::Delete {
                kind: config_maps(),
                namespace: NAMESPACE.into(),
                name: "delete".into(),
                options: Some(Box::new(DeleteOptions {
                    propagation: Some(Propagation::Background),
                    precondition_uid: Some(
                        read(cluster, config_maps(), "delete")
                            .metadata()
                            .uid
                            .clone(),
                    ),
                    ..DeleteOptions::default()
                })),
            },
            info: "delete configmaps",
            answer: "deleted",
            effect: &["-ConfigMap shop/delete"],
        },
        Sample {
            request: Request::DeleteCollection {
                kind: config_maps(),
                namespace: NAMESPACE.into(),
                selection: Selection {
                    labels: "group=many".into(),
                    ..Selection::default()
                },
                options: None,
            },
            info: "deletecollection configmaps",
            answer: "deleted",
            effect: &["-ConfigMap shop/many-1", "-ConfigMap shop/many-2"],
        },
        Sample {
            request: Request::Discover,
            info: "get /",
            answer: "discovered pods namespaces configmaps",
            effect: &[],
        },
        Sample {
            request: Request::Raw {
                path: "/apis/policy?pretty=true".into(),
            },
            info: "get /",
            answer: concat!(
                r#"{"apiVersion":"v1","kind":"APIGroup","name":"policy","#,
                r#""preferredVersion":{"groupVersion":"policy/v1","version":"v1"},"#,
                r#""versions":[{"groupVersion":"policy/v1","version":"v1"}]}"#,
            ),
            effect: &[],
        },
    ]
}

fn patch(kind: Kind, name: &str, patch: Patch, of_status: bool) -> Request {
    Request::Patch {
        kind,
        namespace: NAMESPACE.into(),
        name: name.into(),
        patch: Box::new(patch),
        of_status,
    }
}

/// Returns a request for a server-side apply of a ConfigMap.
fn apply(name: &str, manager: &str, force: bool) -> Request {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2"}});
    let apply = Patch::Apply {
        object: members(object),
        manager: manager.into(),
        force,
    };
    patch(config_maps(), name, apply, false)
}

fn patches() -> Vec<Sample> {
    let data = || members(json!({"data": {"a": null, "b": "2"}}));
    let operations = json!({"op": "replace", "path": "/data/a", "value": "2"});
    vec![
        Sample {
            request: patch(config_maps(), "merge", Patch::Merge(data()), false),
            info: "patch configmaps",
            answer: "ConfigMap merge",
            effect: &[
                "~ConfigMap shop/merge /data/a removed",
                "~ConfigMap shop/merge /data/b=\"2\"",
            ],
        },
        Sample {
            request: patch(config_maps(), "strategic", Patch::Strategic(data()), false),
            info: "patch configmaps",
            answer: "ConfigMap strategic",
            effect: &[
                "~ConfigMap shop/strategic /data/a removed",
                "~ConfigMap shop/strategic /data/b=\"2\"",
            ],
        },
        Sample {
            request: patch(Kind::POD, "held", Patch::RemoveFinalizer(FINALIZER), false),
            info: "patch pods",
            answer: "pod held",
            effect: &["~Pod shop/held /metadata/finalizers/0 removed"],
        },
        Sample {
            request: patch(
                config_maps(),
                "json",
                Patch::Json(vec![members(operations)]),
                false,
            ),
            info: "patch configmaps",
            answer: "ConfigMap json",
            effect: &["~ConfigMap shop/json /data/a=\"2\""],
        },
        Sample {
            request: patch(
                Kind::DEPLOYMENT,
                "patch",
                Patch::Merge(members(json!({"status": {"replicas": 3}}))),
                true,
            ),
            info: "patch deployments/status",
            answer: "Deployment patch",
            effect: &["~Deployment shop/patch /status/replicas=3"],
        },
        Sample {
            request: apply("applied", "me", false),
            info: "patch configmaps",
            answer: "ConfigMap applied",
            effect: &["+ConfigMap shop/applied"],
        },
        Sample {
            request: apply("forced", "me", true),
            info: "patch configmaps",
            answer: "ConfigMap forced",
            effect: &["~ConfigMap shop/forced /data/a=\"2\""],
        },
    ]
}

/// Returns requests that a server rejects, each for a different reason.
fn refused(cluster: &Cluster) -> Vec<Sample> {
    let stale = read(cluster, Kind::DEPLOYMENT, "stale");
    let stale = stale.downcast_ref::<DynamicObject>();
    let mut stale = stale.expect("the kind has no Rust type").clone();
    stale.metadata.resource_version = 1.into();
    let sample = |request, info, answer| Sample {
        request,
        info,
        answer,
        effect: &[],
    };
    vec![
        sample(
            Request::Put {
                object: Arc::new(stale),
            },
            "update deployments",
            "409 Conflict",
        ),
        // The field belongs to the manager that wrote it before the first apply.
        sample(
            apply("apply", "other", false),
            "patch configmaps",
            "409 Conflict",
        ),
        sample(
            patch(config_maps(), "merge", Patch::Merge(Map::new()), true),
            "patch configmaps/status",
            "404 NotFound",
        ),
        sample(
            Request::GetScale {
                kind: config_maps(),
                namespace: NAMESPACE.into(),
                name: "merge".into(),
            },
            "get configmaps/scale",
            "404 NotFound",
        ),
        sample(
            owner_scale(Kind::DEPLOYMENT, "missing"),
            "get /scale",
            "404 NotFound",
        ),
        sample(
            owner_scale(config_maps(), "merge"),
            "get /scale",
            "405 MethodNotAllowed",
        ),
        sample(
            Request::List {
                kind: config_maps(),
                namespace: "".into(),
                selection: Selection {
                    fields: "data.a=1".into(),
                    ..Selection::default()
                },
            },
            "list configmaps",
            "400 BadRequest",
        ),
        sample(
            Request::Raw {
                path: "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods".into(),
            },
            "get /",
            "404 NotFound",
        ),
    ]
}
