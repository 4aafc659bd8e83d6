//! Tests beyond the recorded cases: when a namespace is due, and the kinds that the server reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{
    AnyObject, ApiError, Kind, Namespace, Now, Pod, Reason, Resource, ResourceType,
};
use podstorm_runtime::client::{
    Answer, DiscoveredKind, Discovery, FailedGroups, Request, Selection,
};
use podstorm_runtime::driver::{Driver, SyncState as _, Workload, sync_all};
use podstorm_runtime::informer::{AnyInformer, Informers};
use serde_json::{Value, json};

use super::{Controller, FIRST_AFTER_NS, Namespaces, SECOND_NS, SOON_NS};
use crate::cache::Delta;
use crate::controller::ControllerType as _;

/// The time of the namespace's deletion, in s since the Unix epoch. The monotonic clock starts
/// then.
const DELETED: i64 = 1_800_000_000;

fn at(mono_ns: i64) -> Now {
    Now {
        mono_ns,
        wall_ns: DELETED * SECOND_NS + mono_ns,
    }
}

/// Builds the namespace `n`, which is being deleted unless `patch` changes that.
fn namespace(patch: &Value) -> Namespace {
    let mut value = json!({
        "metadata": {"name": "n", "uid": "first", "resourceVersion": "7",
            "deletionTimestamp": at(0).wall().to_string()},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Terminating"},
    });
    for (member, over) in patch.as_object().expect("members") {
        value["metadata"][member] = over.clone();
    }
    Namespace::from_json(value).expect("a readable namespace")
}

fn pod(patch: &Value) -> AnyObject {
    let mut value = json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"},
        "spec": {"containers": []}});
    for (member, over) in patch.as_object().expect("members") {
        value[member] = over.clone();
    }
    Arc::new(Pod::from_json(value).expect("a readable pod"))
}

fn found(kind: Kind, verbs: &[&str]) -> DiscoveredKind {
    DiscoveredKind {
        kind,
        verbs: verbs.iter().map(|verb| (*verb).into()).collect(),
    }
}

/// A controller, and a server that has one namespace and its content.
struct World {
    controller: Controller,
    namespaces: Arc<dyn AnyInformer>,
    driver: Driver<<Controller as Workload>::Sync>,
    live: Option<Namespace>,
    discovery: Result<Discovery, ApiError>,
    /// The objects that deletions do not remove.
    content: BTreeMap<Kind, Vec<AnyObject>>,
    requests: Vec<String>,
    outcomes: Vec<&'static str>,
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let all = ["list", "delete", "deletecollection"];
        World {
            controller: Controller::new(&mut informers),
            namespaces: informers.take(Kind::NAMESPACE),
            driver: Driver::default(),
            live: Some(namespace(&json!({}))),
            discovery: Ok(Discovery {
                kinds: vec![found(Kind::REPLICA_SET, &all), found(Kind::POD, &all)],
                ..Discovery::default()
            }),
            content: BTreeMap::new(),
            requests: Vec::new(),
            outcomes: Vec::new(),
        }
    }

    fn hold(mut self, object: AnyObject) -> World {
        self.content.entry(object.kind()).or_default().push(object);
        self
    }

    /// Delivers the namespace to the cache.
    fn comes(&self, namespace: &Namespace, now_ns: i64) {
        let namespace = Arc::new(namespace.clone());
        self.namespaces.apply(Delta::Applied(namespace), at(now_ns));
    }

    /// Syncs the keys that are due. Returns the requests.
    fn sync(&mut self, now_ns: i64) -> Vec<String> {
        let World {
            driver,
            live,
            discovery,
            content,
            requests,
            outcomes,
            ..
        } = self;
        let mut server = |request: &Request, _: Now| {
            requests.push(words(request));
            answer(request, live, discovery, content)
        };
        let ended = |sync: &mut <Controller as Workload>::Sync| outcomes.push(sync.outcome_label());
        sync_all(&self.controller, driver, &mut server, at(now_ns), ended);
        std::mem::take(&mut self.requests)
    }

    fn next_due(&self) -> Option<i64> {
        self.controller.queue().next_due()
    }

    /// Returns the reason and the message of a condition.
    fn condition(&self, kind: &str) -> (String, String) {
        let live = self.live.as_ref().expect("the condition must exist");
        let conditions = live.fields["status"]["conditions"].as_array();
        let mut conditions = conditions.expect("the conditions must be written").iter();
        let found = conditions.find(|condition| condition["type"] == kind);
        let text = |member: &str| found.map_or("", |it| it[member].as_str().unwrap_or_default());
        (text("reason").to_owned(), text("message").to_owned())
    }
}

fn words(request: &Request) -> String {
    let of = |verb: &str, kind: &Kind| format!("{verb} {}", kind.resource());
    match request {
        Request::Get { kind, .. } => of("get", kind),
        Request::Discover => "discover".to_owned(),
        Request::List { kind, .. } => of("list", kind),
        Request::DeleteCollection { kind, .. } => of("deletecollection", kind),
        Request::Delete { kind, name, .. } => format!("{} {name}", of("delete", kind)),
        Request::PutStatus { object } => of("status", &object.kind()),
        Request::Finalize { .. } => "finalize".to_owned(),
        other => panic!("unexpected request: {other:?}"),
    }
}

fn answer(
    request: &Request,
    live: &mut Option<Namespace>,
    discovery: &Result<Discovery, ApiError>,
    content: &BTreeMap<Kind, Vec<AnyObject>>,
) -> Answer {
    match request {
        Request::Get { .. } => match live {
            Some(live) => Answer::Object(Arc::new(live.clone())),
            None => Answer::Failed(ApiError::status(404, Reason::NotFound, "not found")),
        },
        Request::Discover => match discovery {
            Ok(discovery) => Answer::Discovered(Box::new(discovery.clone())),
            Err(error) => Answer::Failed(error.clone()),
        },
        Request::List {
            kind,
            namespace,
            selection,
        } => {
            assert_eq!((&**namespace, selection), ("n", &Selection::default()));
            Answer::List {
                items: content.get(kind).cloned().unwrap_or_default(),
                version: 9.into(),
            }
        }
        Request::PutStatus { object } => {
            *live = object.downcast_ref::<Namespace>().cloned();
            Answer::Object(object.clone())
        }
        Request::Finalize { namespace } => {
            *live = None;
            Answer::Object(namespace.clone())
        }
        Request::Delete { namespace, .. } | Request::DeleteCollection { namespace, .. } => {
            assert_eq!(&**namespace, "n");
            Answer::Deleted(None)
        }
        other => panic!("unexpected request: {other:?}"),
    }
}

#[test]
fn an_empty_namespace_is_finalized_after_listing_every_kind() {
    let mut world = World::new();
    world.comes(&namespace(&json!({"deletionTimestamp": null})), 0);
    assert_eq!(world.next_due(), None, "the namespace is not being deleted");
    world.comes(&namespace(&json!({})), 0);
    assert_eq!(world.next_due(), Some(FIRST_AFTER_NS));
    // Pods come first, whatever order the server has.
    let asked = [
        "get namespaces",
        "discover",
        "list pods",
        "deletecollection pods",
        "list pods",
        "deletecollection replicasets",
        "list replicasets",
        "status namespaces",
        "finalize",
    ];
    assert_eq!(world.sync(FIRST_AFTER_NS), asked);
    assert_eq!(world.next_due(), None);
    let key = world.controller.key("n");
    world.controller.queue().add(key, FIRST_AFTER_NS);
    assert_eq!(world.sync(FIRST_AFTER_NS), ["get namespaces"]);
    assert_eq!(world.outcomes, ["ok", "ok"]);
    let gone = Arc::new(namespace(&json!({})));
    world.namespaces.apply(Delta::Deleted(gone), at(SECOND_NS));
    world.controller.queue().add(key, FIRST_AFTER_NS);
    assert!(
        world.sync(FIRST_AFTER_NS).is_empty(),
        "the cache has the namespace"
    );
}

#[test]
fn remaining_objects_are_checked_after_half_the_estimate() {
    let mut world = World::new().hold(pod(
        &json!({"spec": {"containers": [], "terminationGracePeriodSeconds": 30}}),
    ));
    let live = namespace(&json!({}));
    world.comes(&live, 0);
    let key = world.controller.key("n");
    world.controller.queue().add_rate_limited(key, 0);
    world.sync(FIRST_AFTER_NS);
    assert_eq!(world.controller.queue().num_requeues(key), 0);
    assert_eq!(world.next_due(), Some(FIRST_AFTER_NS + 16 * SECOND_NS));
    // After its grace period a remaining pod is an error, and the key is retried after 5 ms, 10 ms,
    // …
    world.sync(31 * SECOND_NS);
    assert_eq!(world.outcomes, ["ok", "failed"]);
    assert_eq!(world.next_due(), Some(31 * SECOND_NS + 5_000_000));
    world.sync(32 * SECOND_NS);
    assert_eq!(world.next_due(), Some(32 * SECOND_NS + 10_000_000));
    let (reason, message) = world.condition("NamespaceDeletionContentFailure");
    assert_eq!(reason, "ContentDeletionFailed");
    let ends = message.ends_with("namespace: n for gvr: /v1, Resource=pods");
    assert!(ends, "{message}");
}

#[test]
fn cluster_scoped_and_undeletable_kinds_are_ignored() {
    let mut world = World::new();
    // The objects of this kind are deleted one by one.
    let single = Kind::define(ResourceType {
        group: "x.io",
        api_version: "x.io/v1",
        kind: "Widget",
        resource: "widgets",
        ..ResourceType::DEFAULT
    });
    world.discovery = Ok(Discovery {
        kinds: vec![
            found(Kind::NODE, &["delete", "deletecollection", "list"]),
            found(Kind::REPLICA_SET, &["create", "list"]),
            found(single, &["delete", "list"]),
        ],
        ..Discovery::default()
    });
    let mut widget = podstorm_objects::DynamicObject::new(single);
    (widget.metadata.name, widget.metadata.namespace) = ("w".into(), "n".into());
    let finalizers = json!({"metadata": {"name": "w", "finalizers": ["x.io/a"]}});
    let held = podstorm_objects::DynamicObject::from_json(single, finalizers);
    widget.metadata.finalizers = held.expect("a widget").metadata.finalizers;
    world = world.hold(Arc::new(widget));
    world.comes(&namespace(&json!({})), 0);
    let asked = [
        "get namespaces",
        "discover",
        "list widgets",
        "delete widgets w",
        "list widgets",
        "status namespaces",
    ];
    assert_eq!(world.sync(FIRST_AFTER_NS), asked);
    let (_, message) = world.condition("NamespaceContentRemaining");
    let text = "Some resources are remaining: widgets.x.io has 1 resource instances";
    assert_eq!(message, text);
    assert_eq!(world.next_due(), Some(FIRST_AFTER_NS + 8 * SECOND_NS));
}

#[test]
fn partial_discovery_deletes_the_rest_and_is_an_error() {
    let mut world = World::new();
    let failed = "unable to retrieve the complete list of server APIs: a.io/v1: busy";
    let busy = ApiError::status(503, Reason::Other("ServiceUnavailable".into()), "busy");
    for (discovery, asked, kind, message) in [
        (
            Ok(Discovery {
                kinds: vec![found(Kind::REPLICA_SET, &["delete", "deletecollection"])],
                failed: Some(FailedGroups {
                    count: 1,
                    message: failed.to_owned(),
                }),
                malformed: None,
            }),
            &["deletecollection replicasets", "list replicasets"][..],
            "NamespaceDeletionDiscoveryFailure",
            format!("Discovery failed for some groups, 1 failing: {failed}"),
        ),
        (
            Ok(Discovery {
                kinds: vec![found(Kind::REPLICA_SET, &["delete", "deletecollection"])],
                failed: None,
                malformed: Some("unexpected GroupVersion string: a/b/c".to_owned()),
            }),
            &[],
            "NamespaceDeletionGroupVersionParsingFailure",
            "unexpected GroupVersion string: a/b/c".to_owned(),
        ),
        (
            Err(busy),
            &[],
            "NamespaceDeletionDiscoveryFailure",
            "busy".to_owned(),
        ),
    ] {
        world.discovery = discovery;
        world.comes(&namespace(&json!({})), 0);
        let mut expected = vec!["get namespaces", "discover"];
        expected.extend(asked);
        expected.push("status namespaces");
        assert_eq!(world.sync(60 * SECOND_NS), expected);
        assert_eq!(world.outcomes.pop(), Some("failed"));
        assert_eq!(world.condition(kind).1, message);
    }
}

#[test]
fn several_errors_are_joined_into_one_text() {
    let one = super::Stopped(vec!["a".to_owned()]);
    assert_eq!(one.to_string(), "a");
    let two = super::Stopped(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(two.to_string(), "[a, b]");
}

#[test]
fn a_hastened_namespace_waits_only_for_removals() {
    let mut world = World::new().hold(pod(&json!({})));
    world.controller.hasten();
    world.comes(&namespace(&json!({})), 0);
    assert_eq!(world.sync(0).len(), 6, "at once");
    // Requests that were admitted before the deletion may still arrive.
    assert_eq!(world.next_due(), Some(SOON_NS));
    world.sync(SECOND_NS);
    assert_eq!(world.next_due(), None);
    let now = at(7 * SECOND_NS);
    assert!(world.controller.removed("n", now), "the timer is reset");
    assert!(!world.controller.removed("n", now));
    world.content.clear();
    let ended = world.sync(now.mono_ns + SOON_NS);
    assert_eq!(ended.last().map(String::as_str), Some("finalize"));
    assert_eq!(world.next_due(), None);
}

/// The row names the requests.
#[test]
fn the_row_names_the_requests() {
    let row = Namespaces::ROW;
    for (verb, kind, subresource) in [
        ("get", Kind::NAMESPACE, ""),
        ("update", Kind::NAMESPACE, "status"),
        ("update", Kind::NAMESPACE, "finalize"),
        ("list", Kind::EVENT, ""),
        ("delete", Kind::EVENT, ""),
        ("deletecollection", Kind::EVENT, ""),
    ] {
        assert!(row.may_send(verb, kind, subresource), "{verb}");
    }
    assert!(!row.may_send("create", Kind::EVENT, ""));
    assert!(!row.may_send("update", Kind::NAMESPACE, ""));
}
