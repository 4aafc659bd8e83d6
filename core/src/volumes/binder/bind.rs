//! The writes that bind a volume and a claim, in upstream's order: the volume, its phase, the
//! claim, the claim's status. A write that would change nothing is skipped.

use podstorm_objects::{ApiError, DynamicObject};
use podstorm_runtime::driver::{Calls, SyncFailure};
use serde_json::{Value, json};

use super::{BIND_COMPLETED, BOUND_BY_CONTROLLER, Cached, at, text};

/// Binds a volume and a claim.
pub(super) async fn bind(volume: Cached, claim: Cached, calls: &Calls) -> Result<(), SyncFailure> {
    let volume = reserve(volume, &claim, calls).await?;
    let volume = set_phase(volume, "Bound", calls).await?;
    let claim = complete(claim, &volume, calls).await?;
    set_bound(claim, &volume, calls).await
}

/// Writes the reference to the claim into the volume.
async fn reserve(
    volume: Cached,
    claim: &DynamicObject,
    calls: &Calls,
) -> Result<Cached, SyncFailure> {
    let meta = &claim.metadata;
    let before = at(&volume, "/spec/claimRef");
    if before["uid"].as_str() == Some(&*meta.uid.to_string()) {
        return Ok(volume);
    }
    let mut new = DynamicObject::clone(&volume);
    if before.is_null() {
        let annotations = &mut new.metadata.annotations;
        *annotations = annotations.with(BOUND_BY_CONTROLLER, "yes");
    }
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": &*meta.namespace, "name": &*meta.name, "uid": meta.uid.to_string(),
        "resourceVersion": meta.resource_version.to_string()});
    set(&mut new, "spec", "claimRef", reference);
    calls.put(new).await.map_err(unwritten())
}

/// Writes the name of the volume and the completion of the binding into the claim.
async fn complete(
    claim: Cached,
    volume: &DynamicObject,
    calls: &Calls,
) -> Result<Cached, SyncFailure> {
    let name = &*volume.metadata.name;
    let is_named = text(&claim, "/spec/volumeName") == name;
    let annotations = &claim.metadata.annotations;
    if is_named && annotations.get(BIND_COMPLETED).is_some() {
        return Ok(claim);
    }
    let mut annotations = annotations.with(BIND_COMPLETED, "yes");
    let mut new = DynamicObject::clone(&claim);
    if !is_named {
        annotations = annotations.with(BOUND_BY_CONTROLLER, "yes");
        set(&mut new, "spec", "volumeName", name.into());
    }
    new.metadata.annotations = annotations;
    calls.put(new).await.map_err(unwritten())
}

async fn set_bound(
    claim: Cached,
    volume: &DynamicObject,
    calls: &Calls,
) -> Result<(), SyncFailure> {
    let mut new = DynamicObject::clone(&claim);
    for (member, value) in [
        ("phase", "Bound".into()),
        ("accessModes", at(volume, "/spec/accessModes").clone()),
        ("capacity", at(volume, "/spec/capacity").clone()),
    ] {
        set(&mut new, "status", member, value);
    }
    match new.fields.get("status") == claim.fields.get("status") {
        true => Ok(()),
        false => calls.put_status(new).await.map(drop).map_err(unwritten()),
    }
}

/// Sets the phase of a volume or a claim. Returns the object as stored.
pub(super) async fn set_phase(
    object: Cached,
    phase: &str,
    calls: &Calls,
) -> Result<Cached, SyncFailure> {
    if text(&object, "/status/phase") == phase {
        return Ok(object);
    }
    let mut new = DynamicObject::clone(&object);
    set(&mut new, "status", "phase", phase.into());
    if object.kind().resource() == "persistentvolumes" {
        let since = calls.now().wall().to_string();
        set(&mut new, "status", "lastPhaseTransitionTime", since.into());
    }
    calls.put_status(new).await.map_err(unwritten())
}

/// Sets a member of the spec or of the status.
pub(super) fn set(object: &mut DynamicObject, part: &str, member: &str, value: Value) {
    let part = object.fields.entry(part).or_insert_with(|| json!({}));
    if let Value::Object(part) = part {
        part.insert(member.to_owned(), value);
    }
}

/// Returns a function that converts the error of a failed write to a failure.
pub(super) fn unwritten() -> impl Fn(ApiError) -> SyncFailure {
    SyncFailure::at("write failed")
}
