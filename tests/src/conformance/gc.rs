//! Cases of `gc`: one decision of the garbage collector, or one event in its graph.
//!
//! The collector of the embedded API server acts within the store and sends no requests, so the
//! cases compare its effects. In one cluster, the collector handles the item or event; a second
//! cluster gets the recorded requests. The objects of both clusters must be equal, and must be
//! equal again after the collector has handled everything that it or the recording has queued.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::object::{AnyObject, Kind, Now, Pod, ReplicaSet, Str, Uid};
use podstorm_apiserver::{
    Cluster, ClusterOptions, DeleteOptions, GarbageItem, ListOptions, Patch, Propagation,
};
use serde_json::{Map, Value, json};

use super::{Fields, expect_eq, expect_same_json};

/// The time of every operation: within the grace period of terminating objects.
const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 1_780_315_200_000_000_000,
};

/// The maximum number of queue items that a case may take.
const ITEMS_MAX: usize = 1000;

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let category = case.text("category")?;
    let observed = case.list("observed")?;
    let mut out = case.object("out")?;
    // Ignore retries, because the collector's own requests can't fail.
    out.text("error")?;
    out.flag("requeue")?;
    match case.take("event") {
        Some(event) => run_event(&observed, event, &mut out)?,
        None => run_item(&category, &observed, case, &mut out)?,
    }
    out.finish()
}

fn run_event(observed: &[Value], event: Value, out: &mut Fields) -> Result<(), String> {
    let mut event = Fields::new(event, "event")?;
    let (kind, object) = (event.text("type")?, event.value("object"));
    let old = event.take("old");
    event.finish()?;
    let happen = |cluster: &Cluster| {
        if let Some(old) = old.clone() {
            replay(cluster, old)?;
        }
        cluster.discard_garbage();
        match kind.as_str() {
            "add" => import(cluster, object.clone()),
            "update" => replay(cluster, object.clone()),
            "delete" => remove(cluster, &object),
            other => Err(format!("unknown event {other:?}")),
        }
    };
    let (ours, recorded) = (load(observed)?, load(observed)?);
    happen(&ours)?;
    happen(&recorded)?;
    recorded.discard_garbage();
    let known = observed
        .iter()
        .chain([&object])
        .cloned()
        .collect::<Vec<_>>();
    queue(&recorded, &known, out)?;
    settle(&ours)?;
    settle(&recorded)?;
    expect_eq("objects", &state(&ours), &state(&recorded))?;
    let events = list(&ours, Kind::EVENT).into_iter().map(|event| {
        let event = event.to_json();
        json!({"type": event["type"], "reason": event["reason"], "message": event["message"]})
    });
    let recorded = out.list("events")?.into();
    expect_same_json("events", events.collect::<Vec<_>>().into(), recorded)
}

fn run_item(
    category: &str,
    observed: &[Value],
    case: &mut Fields,
    out: &mut Fields,
) -> Result<(), String> {
    let (item, live) = (case.text("item")?, case.list("live")?);
    let mut answers = case.object("answers")?.rest();
    let mut after_delete = case.list("liveAfterDelete")?;
    let (ours, recorded) = (load(&live)?, load(&live)?);
    ours.discard_garbage();
    recorded.discard_garbage();
    let known: Vec<Value> = observed.iter().chain(&live).cloned().collect();
    let (kind, namespace, name) = find(&ours, &known, &item)?;
    ours.queue_garbage(match category {
        "orphan" => GarbageItem::Orphan(kind, namespace, name),
        _ => GarbageItem::Object(kind, namespace, name),
    });
    for request in out.list("requests")? {
        send(&recorded, &request, &mut answers)?;
        if request["method"] == "DELETE" {
            for object in std::mem::take(&mut after_delete) {
                replay(&recorded, object)?;
            }
        }
    }
    ours.collect_garbage(1, NOW);
    if state(&ours) != state(&recorded) {
        // The deletion may conflict with the collector's own patch; then the collector retries the
        // deletion.
        ours.collect_garbage(1, NOW);
    }
    expect_eq("objects", &state(&ours), &state(&recorded))?;
    for change in out.list("graphChanges")? {
        let uid = change
            .as_str()
            .and_then(|text| text.strip_prefix("virtualDelete "));
        let uid = uid.ok_or_else(|| format!("unknown change {change}"))?;
        recorded.queue_garbage(GarbageItem::DependentsOf(Uid::new(uid)));
    }
    queue(&recorded, &known, out)?;
    settle(&ours)?;
    settle(&recorded)?;
    expect_eq("objects at the end", &state(&ours), &state(&recorded))
}

/// Queues the items that the recording queues.
fn queue(cluster: &Cluster, known: &[Value], out: &mut Fields) -> Result<(), String> {
    for (list, is_orphan) in [("attemptToDelete", false), ("attemptToOrphan", true)] {
        for item in out.list(list)? {
            let text = item.as_str().unwrap_or_default().to_owned();
            let parts: Vec<&str> = text.splitn(3, '/').collect();
            let &[kind, namespace, name] = &parts[..] else {
                return Err(format!("{list}: unknown item {item}"));
            };
            let found = kind_named(cluster, kind)?;
            let (namespace, name): (Str, Str) = (namespace.into(), name.into());
            if is_orphan {
                cluster.queue_garbage(GarbageItem::Orphan(found, namespace, name));
                continue;
            }
            // The collector never saw the owner. It queues the dependents once it finds the owner
            // absent.
            if cluster.api(found).get(&namespace, &name).is_err() {
                let references = known
                    .iter()
                    .flat_map(|object| object["metadata"]["ownerReferences"].as_array())
                    .flatten();
                for named in references.filter(|it| it["kind"] == kind && it["name"] == *name) {
                    let uid = named["uid"].as_str().unwrap_or_default();
                    cluster.queue_garbage(GarbageItem::DependentsOf(Uid::new(uid)));
                }
            }
            cluster.queue_garbage(GarbageItem::Object(found, namespace, name));
        }
    }
    Ok(())
}

fn settle(cluster: &Cluster) -> Result<(), String> {
    match cluster.collect_garbage(ITEMS_MAX, NOW) {
        ITEMS_MAX => Err("the collector does not finish".to_owned()),
        _ => Ok(()),
    }
}

/// Returns a cluster with these objects and an empty queue.
fn load(objects: &[Value]) -> Result<Cluster, String> {
    let cluster = Cluster::new(ClusterOptions {
        records_gc_events: true,
        ..ClusterOptions::default()
    });
    cluster.set_holds_all_owners();
    for name in ["default", "ns", "ns2"] {
        import(
            &cluster,
            json!({"kind": "Namespace", "metadata": {"name": name}}),
        )?;
    }
    for object in objects {
        import(&cluster, object.clone())?;
    }
    cluster.discard_garbage();
    Ok(cluster)
}

/// Decodes an object and gives it a spec that makes it valid.
fn read(cluster: &Cluster, mut value: Value) -> Result<AnyObject, String> {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let labels = json!({"app": "a"});
    let workload = json!({"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod}});
    match kind.as_str() {
        "Pod" => value["spec"] = pod,
        "ReplicaSet" => value["spec"] = workload,
        _ => {}
    }
    forget_controllers(&mut value);
    let api = cluster.api(kind_named(cluster, &kind)?);
    let read = api.read(value).map_err(|error| error.message)?;
    read.map_err(|error| error.to_string())
}

/// Removes the `controller` flags of owner references. The collector ignores them, and some cases
/// have two controllers, which the API server rejects.
fn forget_controllers(object: &mut Value) {
    let owners = object["metadata"].get_mut("ownerReferences");
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(owner) = owner.as_object_mut() {
            owner.remove("controller");
        }
    }
}

fn import(cluster: &Cluster, value: Value) -> Result<(), String> {
    let object = read(cluster, value)?;
    let imported = cluster.api(object.kind()).import(object, NOW);
    imported.map(drop).map_err(|error| error.message)
}

/// Replaces an object by this state.
fn replay(cluster: &Cluster, value: Value) -> Result<(), String> {
    fn put<R: podstorm_apiserver::ClusterResource>(
        cluster: &Cluster,
        object: AnyObject,
    ) -> Result<(), String> {
        let object = object
            .downcast::<R>()
            .ok_or("the object has another kind")?;
        let put = cluster.replay(Arc::unwrap_or_clone(object), NOW);
        put.map(drop).map_err(|error| error.message)
    }
    let object = read(cluster, value)?;
    match object.kind().name() {
        "Pod" => put::<Pod>(cluster, object),
        "ReplicaSet" => put::<ReplicaSet>(cluster, object),
        other => Err(format!("no case changes a {other}")),
    }
}

fn remove(cluster: &Cluster, value: &Value) -> Result<(), String> {
    let text = |member: &str| value["metadata"][member].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let removed = match value["kind"].as_str() {
        Some("Pod") => cluster.replay_removal::<Pod>(namespace, name, NOW),
        Some("ReplicaSet") => cluster.replay_removal::<ReplicaSet>(namespace, name, NOW),
        other => return Err(format!("no case removes a {other:?}")),
    };
    removed.map_err(|error| error.message)
}

fn kind_named(cluster: &Cluster, name: &str) -> Result<Kind, String> {
    let mut kinds = cluster.kinds().into_iter();
    let found = kinds.find(|kind| kind.name() == name);
    found.ok_or_else(|| format!("no such kind: {name}"))
}

/// Returns the kind and the key of the object with a UID, or of an owner whose reference has the
/// UID.
fn find(cluster: &Cluster, known: &[Value], uid: &str) -> Result<(Kind, Str, Str), String> {
    for object in known {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let named = owners.map(|owner| (&owner["uid"], &owner["kind"], &owner["name"]));
        let own = (&metadata["uid"], &object["kind"], &metadata["name"]);
        let mut named = [own].into_iter().chain(named);
        if let Some((_, kind, name)) = named.find(|it| *it.0 == uid) {
            let kind = kind_named(cluster, kind.as_str().unwrap_or_default())?;
            let name = name.as_str().unwrap_or_default();
            return Ok((kind, namespace.into(), name.into()));
        }
    }
    Err(format!("no object with the UID {uid}"))
}

/// Sends a recorded request, unless the script makes it fail.
fn send(
    cluster: &Cluster,
    request: &Value,
    answers: &mut Map<String, Value>,
) -> Result<(), String> {
    let text = |member: &str| request[member].as_str().unwrap_or_default();
    let (method, path) = (text("method"), text("path"));
    let scripted = answers
        .get_mut(&format!("{method} {path}"))
        .and_then(Value::as_array_mut);
    if let Some(scripted) = scripted {
        let answer = match scripted.len() {
            1 => scripted[0].clone(),
            _ => scripted.remove(0),
        };
        if answer["code"] == 404 {
            // The object was deleted in the meantime. All cases with such an answer are about a
            // pod.
            let (namespace, name) = in_namespace(path);
            let gone = cluster.replay_removal::<Pod>(namespace, name, NOW);
            return gone.map_err(|error| error.message);
        }
        if !answer["code"].is_null() {
            return Ok(());
        }
    }
    if method == "GET" {
        return Ok(());
    }
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let (namespace, resource, name) = match segments[..] {
        ["api", _, "namespaces", namespace, resource, name]
        | ["apis", _, _, "namespaces", namespace, resource, name] => (namespace, resource, name),
        ["api", _, resource, name] => ("", resource, name),
        _ => return Err(format!("unknown path {path}")),
    };
    let mut kinds = cluster.kinds().into_iter();
    let kind = kinds.find(|kind| kind.resource() == resource);
    let api = cluster.api(kind.ok_or_else(|| format!("unknown path {path}"))?);
    let mut body = request["body"].clone();
    // A missing object causes a 404, as it does in the recording.
    match method {
        "DELETE" => {
            let options = DeleteOptions {
                propagation: match body["propagationPolicy"].as_str() {
                    Some("Orphan") => Some(Propagation::Orphan),
                    Some("Foreground") => Some(Propagation::Foreground),
                    Some("Background") => Some(Propagation::Background),
                    _ => None,
                },
                precondition_uid: body["preconditions"]["uid"].as_str().map(Uid::new),
                ..DeleteOptions::default()
            };
            drop(api.delete(namespace, name, &options, NOW));
        }
        "PATCH" => {
            // The versions in this cluster differ from the recorded ones.
            if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                metadata.remove("resourceVersion");
            }
            forget_controllers(&mut body);
            let body = body.as_object().cloned().unwrap_or_default();
            let patch = match text("contentType").starts_with("application/merge") {
                true => Patch::Merge(body),
                false => Patch::Strategic(body),
            };
            drop(api.patch(namespace, name, &patch, NOW));
        }
        other => return Err(format!("unknown method {other}")),
    }
    Ok(())
}

/// Returns the namespace and the name in the path of a namespaced object.
fn in_namespace(path: &str) -> (&str, &str) {
    let mut segments = path.rsplit('/');
    let name = segments.next().unwrap_or_default();
    (segments.nth(1).unwrap_or_default(), name)
}

fn list(cluster: &Cluster, kind: Kind) -> Vec<AnyObject> {
    let page = cluster.api(kind).list(&ListOptions::default());
    page.map(|page| page.items).unwrap_or_default()
}

/// Returns the parts that the collector may change, of all objects except namespaces and Events, by
/// kind and key.
fn state(cluster: &Cluster) -> BTreeMap<String, Value> {
    let is_compared = |kind: &Kind| ![Kind::NAMESPACE, Kind::EVENT].contains(kind);
    let kinds = cluster.kinds().into_iter().filter(is_compared);
    let objects = kinds.flat_map(|kind| list(cluster, kind));
    let seen = |object: AnyObject| {
        let metadata = object.metadata();
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        let stored = object.to_json();
        let of = |member: &str| stored["metadata"][member].clone();
        let seen = json!({"uid": of("uid"), "owners": of("ownerReferences"),
            "finalizers": of("finalizers"), "deleting": metadata.is_deleting()});
        (format!("{}/{namespace}/{name}", object.kind().name()), seen)
    };
    objects.map(seen).collect()
}
