//! One sync of one volume.
//!
//! Source: `syncVolume` of Kubernetes' `pkg/controller/volume/persistentvolume`.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Uid};
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;

use super::bind::{set_phase, unwritten};
use super::{BOUND_BY_CONTROLLER, CLAIMS, Cached, Shared, at, text};

/// The annotation of a volume that a provisioner created.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Runs one sync of a volume.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(volume) = shared.volumes.get(key) else {
        return Ok(End::Forget);
    };
    let volume = Cached::clone(&volume);
    let reference = at(&volume, "/spec/claimRef").clone();
    let uid = reference["uid"].as_str().unwrap_or("");
    // The volume is not claimed, or it is reserved for a claim that may be created later.
    if uid.is_empty() {
        set_phase(volume, "Available", &calls).await?;
        return Ok(End::Forget);
    }
    let part = |name: &str| reference[name].as_str().unwrap_or("").to_owned();
    let (namespace, name) = (part("namespace"), part("name"));
    let claim = find(&shared, &namespace, &name, &uid.into(), &calls).await?;
    let Some(claim) = claim else {
        // From here on, the provisioner decides what happens to the volume.
        if text(&volume, "/status/phase") != "Failed" {
            set_phase(volume, "Released", &calls).await?;
        }
        return Ok(End::Forget);
    };
    let named = text(&claim, "/spec/volumeName");
    if named == &*volume.metadata.name {
        set_phase(volume, "Bound", &calls).await?;
    } else if named.is_empty() {
        let meta = &claim.metadata;
        let key = shared.claims.intern(&meta.namespace, &meta.name);
        shared.queues[CLAIMS].add(key, calls.now().mono_ns);
    } else if volume.metadata.annotations.get(PROVISIONED_BY).is_some()
        && text(&volume, "/spec/persistentVolumeReclaimPolicy") == "Delete"
    {
        // The claim is bound to another volume, so this one is not needed.
        set_phase(volume, "Released", &calls).await?;
    } else {
        release(volume, &calls).await?;
    }
    Ok(End::Forget)
}

/// Returns the claim with this name and UID; `None` if it does not exist. Reads it from the server
/// if it is not cached, because the cache may lag, and the consequences of its absence can't be
/// undone.
async fn find(
    shared: &Shared,
    namespace: &str,
    name: &str,
    uid: &Uid,
    calls: &Calls,
) -> Result<Option<Cached>, SyncFailure> {
    let is_it = |it: &Cached| it.metadata.uid == *uid;
    if let Some(claim) = shared
        .claims
        .get_named(namespace, name)
        .filter(|it| is_it(it))
    {
        return Ok(Some(Cached::clone(&claim)));
    }
    let namespace = namespace.into();
    let read = calls
        .get(Kind::PERSISTENT_VOLUME_CLAIM, &namespace, name)
        .await;
    let read = unless_gone(read).map_err(SyncFailure::at("read failed"))?;
    Ok(read.filter(is_it))
}

/// Removes the controller's writes about a claim from the volume. A reservation by a user stays.
async fn release(volume: Cached, calls: &Calls) -> Result<(), SyncFailure> {
    let mut new = DynamicObject::clone(&volume);
    let is_ours = volume
        .metadata
        .annotations
        .get(BOUND_BY_CONTROLLER)
        .is_some();
    let spec = new.fields.get_mut("spec").and_then(|it| it.as_object_mut());
    if let Some(spec) = spec {
        if is_ours {
            spec.remove("claimRef");
        } else if let Some(reference) = spec.get_mut("claimRef").and_then(|it| it.as_object_mut()) {
            reference.remove("uid");
            reference.remove("resourceVersion");
        }
    }
    if is_ours {
        let annotations = &mut new.metadata.annotations;
        *annotations = annotations.without(BOUND_BY_CONTROLLER);
    }
    let volume = calls.put(new).await.map_err(unwritten())?;
    set_phase(volume, "Available", calls).await.map(drop)
}
