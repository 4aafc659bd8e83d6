//! The controllers of volumes and claims: they bind each PersistentVolumeClaim to a
//! PersistentVolume, and protect both from deletion while they are in use.
//!
//! `binder`: upstream's `persistentvolume-binder-controller` without the plug-ins compiled into it.
//! The external provisioner that a class names creates and deletes the volumes.
//! `claim_protection` and `volume_protection`: the finalizers. `ephemeral`: the claims of generic
//! ephemeral volumes.
//!
//! Source: Kubernetes' `pkg/controller/volume/{ephemeral,persistentvolume,pvcprotection,pvprotection}`.

mod binder;
mod claim_protection;
mod ephemeral;
mod volume_protection;

use std::sync::Arc;

use podstorm_objects::DynamicObject;
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use serde_json::Value;

pub use binder::{
    BOUND_BY_CONTROLLER, Binder, NO_PROVISIONER, PersistentVolumeBinder, best_volume,
};
pub use claim_protection::{ClaimProtection, PersistentVolumeClaimProtection};
pub use ephemeral::{EphemeralVolumes, PodVolumes, owner_problem};
pub use volume_protection::{PersistentVolumeProtection, VolumeProtection};

/// A volume, claim or class as the caches store it.
type Cached = Arc<DynamicObject>;

/// Returns the member of a volume or claim at a path such as `/spec/volumeName`; null if absent.
fn at<'o>(object: &'o DynamicObject, path: &str) -> &'o Value {
    let (member, rest) = match path[1..].split_once('/') {
        Some((member, _)) => (member, &path[1 + member.len()..]),
        None => (&path[1..], ""),
    };
    let member = object.fields.get(member);
    member
        .and_then(|it| it.pointer(rest))
        .unwrap_or(&Value::Null)
}

/// Returns the string member at a path; empty if it is absent or not a string.
fn text<'o>(object: &'o DynamicObject, path: &str) -> &'o str {
    at(object, path).as_str().unwrap_or("")
}

/// Reports whether an object must get or lose the finalizer of its protection.
fn awaits_finalizer(object: &DynamicObject, name: &str) -> bool {
    object.metadata.is_deleting() || !object.metadata.has_finalizer(name)
}

/// Adds or removes a finalizer at the cached version. Does nothing if the object no longer exists.
async fn put_finalizer(
    object: &DynamicObject,
    name: &str,
    is_held: bool,
    calls: &Calls,
) -> Result<(), SyncFailure> {
    let mut changed = object.clone();
    match is_held {
        true => changed.metadata.add_finalizer(name),
        false => changed.metadata.remove_finalizer(name),
    }
    let written = unless_gone(calls.put(changed).await);
    written.map(drop).map_err(SyncFailure::at("write failed"))
}
