//! A kind that the compiled server does not know is served like any other, by its row alone.

#![expect(
    clippy::unwrap_used,
    reason = "a refusal of the cluster fails the test"
)]

use std::sync::Arc;

use podstorm_apiserver::{
    Api, Change, Cluster, ClusterOptions, DeleteOptions, ListOptions, Patch, Propagation,
    WatchFrom, WatchOptions, kind_named,
};
use podstorm_objects::{
    AnyObject, ApiError, Cause, DynamicObject, Kind, Namespace, Now, OwnerReference, Pod, Resource,
    ResourceType, Rules, Shape, WatchEvent,
};
use serde_json::{Value, json};

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 1_800_000_000_000_000_000,
};

/// The row of widgets. A widget has a size, by default 1, which must be positive.
const WIDGETS: ResourceType = ResourceType {
    group: "example.com",
    api_version: "example.com/v1",
    kind: "Widget",
    resource: "widgets",
    has_status: true,
    has_generation: true,
    rules: Rules {
        shape: Shape::Object(&[("spec", Shape::Object(&[("size", Shape::Int32)]))]),
        default: |widget| {
            let spec = widget.fields.entry("spec").or_insert_with(|| json!({}));
            if let Some(spec) = spec.as_object_mut() {
                spec.entry("size").or_insert(json!(1));
            }
        },
        validate: |widget, _| {
            let size = widget.fields["spec"]["size"].as_i64();
            if size.is_some_and(|size| size > 0) {
                return Vec::new();
            }
            vec![Cause {
                reason: "FieldValueInvalid".into(),
                message: "must be positive".into(),
                field: "spec.size".into(),
            }]
        },
        ..Rules::NONE
    },
    ..ResourceType::DEFAULT
};

fn served() -> (Cluster, Kind) {
    let cluster = Cluster::new(ClusterOptions::default());
    let namespace = Namespace::from_json(json!({"metadata": {"name": "shop"}})).unwrap();
    cluster.create(namespace, NOW).unwrap();
    let kind = Kind::define(WIDGETS);
    cluster.serve_kind(kind).unwrap();
    (cluster, kind)
}

fn widget(kind: Kind, name: &str, more: Value) -> AnyObject {
    let mut object = DynamicObject::new(kind);
    object.metadata.namespace = "shop".into();
    object.metadata.name = name.into();
    if let Value::Object(more) = more {
        object.fields.extend(more);
    }
    Arc::new(object)
}

fn refused<T>(answer: Result<T, ApiError>) -> String {
    match answer {
        Ok(_) => "ok".into(),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

fn names(api: Api<'_>) -> Vec<String> {
    let page = api.list(&ListOptions::default()).unwrap();
    let name = |object: &AnyObject| object.metadata().name.to_string();
    page.items.iter().map(name).collect()
}

#[test]
fn objects_are_created_read_listed_updated_patched_and_deleted() {
    let (cluster, kind) = served();
    let api = cluster.api(kind);
    let status = json!({"status": {"ready": true}});
    let created = api.create(widget(kind, "a", status.clone()), NOW).unwrap();
    let json = created.to_json();
    assert_eq!(json["apiVersion"], "example.com/v1");
    assert_eq!(json["spec"]["size"], 1, "by default");
    assert_eq!(json.get("status"), None, "only /status writes the status");
    assert_eq!(json["metadata"]["generation"], 1);
    assert!(!created.metadata().uid.is_empty());
    let taken = api.create(widget(kind, "a", json!({})), NOW);
    let wanted = "409 widgets.example.com \"a\" already exists";
    assert_eq!(refused(taken), wanted);
    let small = api.create(widget(kind, "b", json!({"spec": {"size": 0}})), NOW);
    let wanted = "422 Widget.example.com \"b\" is invalid: spec.size: must be positive";
    assert_eq!(refused(small), wanted);
    let misnamed = refused(api.create(widget(kind, "B!", json!({})), NOW));
    let wanted = "422 Widget.example.com \"B!\" is invalid:";
    assert!(misnamed.starts_with(wanted), "{misnamed}");
    assert_eq!(
        refused(api.create(Arc::new(Pod::default()), NOW)),
        "400 the object provided is a Pod, expected a Widget"
    );

    let larger = json!({"spec": {"size": 3}, "status": {"ready": true}});
    let updated = api.update(widget(kind, "a", larger), NOW).unwrap();
    let updated = updated.to_json();
    assert_eq!(updated["spec"]["size"], 3);
    assert_eq!(updated.get("status"), None);
    assert_eq!(updated["metadata"]["generation"], 2);
    let ready = api.update_status(widget(kind, "a", status), NOW).unwrap();
    let ready = ready.to_json();
    assert_eq!(ready["spec"]["size"], 3);
    assert_eq!(ready["status"]["ready"], true);
    assert_eq!(ready["metadata"]["generation"], 2);

    let Value::Object(document) = json!({"spec": {"size": 5}, "metadata": {"labels": {"a": "b"}}})
    else {
        unreachable!()
    };
    let patched = api
        .patch("shop", "a", &Patch::Merge(document), NOW)
        .unwrap();
    assert_eq!(patched.to_json()["spec"]["size"], 5);
    assert_eq!(*api.get("shop", "a").unwrap(), *patched);
    assert_eq!(names(api), ["a"]);
    let wrong = api.read(json!({"spec": {"size": "large"}})).unwrap();
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "spec.size: expected an integer, found the string \"large\""
    );

    let deleted = api
        .delete("shop", "a", &DeleteOptions::default(), NOW)
        .unwrap();
    assert!(deleted.removed);
    assert_eq!(
        refused(api.get("shop", "a")),
        "404 widgets.example.com \"a\" not found"
    );
    let writes = cluster.write_counts().writes;
    assert_eq!(writes["create widgets"], 1);
    assert_eq!(writes["patch widgets"], 1);
}

#[test]
fn a_watch_delivers_every_change() {
    let (cluster, kind) = served();
    let api = cluster.api(kind);
    api.create(widget(kind, "a", json!({})), NOW).unwrap();
    let mut watch = api
        .watch(WatchFrom::Initial, WatchOptions::default())
        .unwrap();
    api.update(widget(kind, "a", json!({"spec": {"size": 2}})), NOW)
        .unwrap();
    api.delete("shop", "a", &DeleteOptions::default(), NOW)
        .unwrap();
    let mut events = Vec::new();
    watch.poll(10, NOW, &mut events);
    let size = |object: &AnyObject| object.to_json()["spec"]["size"].clone();
    let told = events.iter().map(|event| match event {
        WatchEvent::Added(object) => (Some(Change::Added), size(object)),
        WatchEvent::Modified(object) => (Some(Change::Modified), size(object)),
        WatchEvent::Deleted(object) => (Some(Change::Deleted), size(object)),
        _ => (None, Value::Null),
    });
    let wanted = [
        (Some(Change::Added), json!(1)),
        (None, Value::Null),
        (Some(Change::Modified), json!(2)),
        (Some(Change::Deleted), json!(2)),
    ];
    assert_eq!(told.collect::<Vec<_>>(), wanted);
}

/// Returns a pod with the owners of an object.
fn pod(name: &str, owners: DynamicObject) -> Pod {
    let mut pod = Pod::from_json(json!({"metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}}))
    .unwrap();
    pod.metadata.owner_references = owners.metadata.owner_references;
    pod
}

fn owned_by(kind: Kind, name: &str, owner: &AnyObject) -> DynamicObject {
    let mut object = DynamicObject::new(kind);
    object.metadata.namespace = "shop".into();
    object.metadata.name = name.into();
    let reference = OwnerReference {
        api_version: owner.kind().api_version().into(),
        kind: owner.kind().name().into(),
        name: owner.metadata().name.as_str().into(),
        uid: owner.metadata().uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    object.metadata.owner_references.push(Arc::new(reference));
    object
}

fn collect(cluster: &Cluster) {
    while cluster.collect_garbage(100, NOW) > 0 {}
}

fn delete(api: Api<'_>, name: &str, propagation: Propagation) {
    let options = DeleteOptions {
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    api.delete("shop", name, &options, NOW).unwrap();
}

#[test]
fn dependents_are_deleted_or_orphaned_with_any_policy() {
    for (propagation, left) in [
        (Propagation::Background, &[] as &[&str]),
        (Propagation::Foreground, &[]),
        (Propagation::Orphan, &["part"]),
    ] {
        let (cluster, kind) = served();
        let api = cluster.api(kind);
        let owner = api.create(widget(kind, "whole", json!({})), NOW).unwrap();
        api.create(Arc::new(owned_by(kind, "part", &owner)), NOW)
            .unwrap();
        delete(api, "whole", propagation);
        collect(&cluster);
        assert_eq!(names(api), left, "{propagation:?}");
        if let Ok(part) = api.get("shop", "part") {
            assert!(part.metadata().owner_references.is_empty());
        }
    }
}

#[test]
fn pods_and_widgets_are_collected_with_their_owners() {
    let (cluster, kind) = served();
    let api = cluster.api(kind);
    let owner = api.create(widget(kind, "whole", json!({})), NOW).unwrap();
    let pod = pod("p", owned_by(kind, "", &owner));
    let pod: AnyObject = cluster.create(pod, NOW).unwrap();
    api.create(Arc::new(owned_by(kind, "part", &pod)), NOW)
        .unwrap();
    delete(api, "whole", Propagation::Background);
    collect(&cluster);
    assert_eq!(cluster.count::<Pod>(), 0);
    assert_eq!(names(api), [""; 0]);
    // An owner that never existed counts as deleted too.
    api.create(Arc::new(owned_by(kind, "late", &owner)), NOW)
        .unwrap();
    collect(&cluster);
    assert_eq!(names(api), [""; 0]);
}

/// An export of some kinds may contain pods whose owners are of other kinds.
#[test]
fn an_owner_of_a_kind_without_objects_counts_as_existing() {
    let (cluster, kind) = served();
    let map = kind_named("ConfigMap").unwrap();
    for (name, owners) in [("of-a-widget", kind), ("of-a-map", map)] {
        let mut owner = DynamicObject::new(owners);
        owner.metadata.name = "elsewhere".into();
        owner.metadata.uid = "22222222-2222-2222-2222-222222222222".into();
        let owner: AnyObject = Arc::new(owner);
        let pod = pod(name, owned_by(owners, "", &owner));
        cluster.import(pod, NOW).unwrap();
    }
    collect(&cluster);
    assert_eq!(cluster.count::<Pod>(), 2);
}

#[test]
fn a_quota_counts_widgets() {
    let (cluster, kind) = served();
    let api = cluster.api(kind);
    api.create(widget(kind, "a", json!({})), NOW).unwrap();
    let quotas = cluster.api(kind_named("ResourceQuota").unwrap());
    let quota = json!({"metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"count/widgets.example.com": "2"}}});
    let quota = quotas.read(quota).unwrap().unwrap();
    quotas.create(quota, NOW).unwrap();
    api.create(widget(kind, "b", json!({})), NOW).unwrap();
    assert_eq!(
        refused(api.create(widget(kind, "c", json!({})), NOW)),
        "403 widgets.example.com \"c\" is forbidden: exceeded quota: q, \
         requested: count/widgets.example.com=1, used: count/widgets.example.com=2, limited: \
         count/widgets.example.com=2"
    );
    api.delete("shop", "a", &DeleteOptions::default(), NOW)
        .unwrap();
    api.create(widget(kind, "c", json!({})), NOW).unwrap();
    let status = quotas.get("shop", "q").unwrap().to_json()["status"].clone();
    let two = json!({"count/widgets.example.com": "2"});
    assert_eq!(status, json!({"hard": two, "used": two}));
}

#[test]
fn a_kind_is_served_once_added_and_cannot_be_added_twice() {
    let (cluster, kind) = served();
    let again = cluster.serve_kind(Kind::define(WIDGETS));
    assert_eq!(refused(again), "409 widgets.example.com is already served");
    let pods = cluster.serve_kind(Kind::POD);
    assert_eq!(refused(pods), "409 pods is already served");
    assert!(cluster.kinds().contains(&kind));
    let other = Kind::define(ResourceType {
        resource: "gadgets",
        kind: "Gadget",
        has_status: false,
        ..WIDGETS
    });
    let unknown = "404 the server could not find the requested resource";
    assert_eq!(refused(cluster.api(other).get("shop", "a")), unknown);
    cluster.serve_kind(other).unwrap();
    let gadget = widget(other, "g", json!({"spec": {"size": 1}}));
    let gadgets = cluster.api(other);
    gadgets.create(gadget.clone(), NOW).unwrap();
    assert_eq!(refused(gadgets.update_status(gadget, NOW)), unknown);
    let none = widget(kind, "none", json!({}));
    let missing = refused(cluster.api(kind).update_status(none, NOW));
    assert_eq!(missing, "404 widgets.example.com \"none\" not found");
}

#[test]
fn kinds_with_a_rust_type_are_served_the_same_way() {
    let (cluster, _) = served();
    let api = cluster.api(Kind::POD);
    let value = json!({"metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "x"}]}});
    let pod = api.read(value).unwrap().unwrap();
    let created = api.create(pod, NOW).unwrap();
    let typed = cluster.get::<Pod>("shop", "p").unwrap();
    assert!(Arc::ptr_eq(&created.downcast::<Pod>().unwrap(), &typed));
    let wrong = api.read(json!({"spec": {"containers": 3}}));
    assert!(wrong.unwrap().is_err());
}
