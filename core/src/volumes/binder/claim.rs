//! One sync of one claim.
//!
//! Source: `syncClaim` of Kubernetes' `pkg/controller/volume/persistentvolume`.

use std::sync::Arc;

use podstorm_objects::DynamicObject;
use podstorm_runtime::client::EventType;
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::lock;
use podstorm_runtime::workqueue::End;

use super::bind::{bind, set, set_phase, unwritten};
use super::classes::Free;
use super::matching::Wish;
use super::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, Cached, PROVISIONERS, SELECTED_NODE, Shared, at, class_of,
    matching, text,
};

/// The provisioner of classes whose volumes are created by users.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Runs one sync of a claim.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(claim) = shared.claims.get(key) else {
        return Ok(End::Forget);
    };
    let claim = Cached::clone(&claim);
    match claim.metadata.annotations.get(BIND_COMPLETED) {
        Some(_) => bound(&shared, claim, &calls).await?,
        None if text(&claim, "/spec/volumeName").is_empty() => {
            unbound(&shared, claim, &calls).await?;
        }
        None => named(&shared, claim, &calls).await?,
    }
    Ok(End::Forget)
}

/// Handles a claim that names no volume.
async fn unbound(shared: &Shared, claim: Cached, calls: &Calls) -> Result<(), SyncFailure> {
    let class_name = class_of(&claim).to_owned();
    let class = shared.classes.get_named("", &class_name);
    let waits = class.as_ref().is_some_and(|it| {
        it.fields
            .get("volumeBindingMode")
            .is_some_and(|it| it == "WaitForFirstConsumer")
    });
    let is_selected = claim.metadata.annotations.get(SELECTED_NODE).is_some();
    // If the binding waits for a pod, only a volume that the scheduler has reserved is acceptable.
    if let Some(volume) = best(shared, &claim, waits) {
        return bind(volume, claim, calls).await;
    }
    if class_name.is_empty() {
        if at(&claim, "/spec/storageClassName").is_null()
            && let Some(default) = shared.default_class()
        {
            let mut new = DynamicObject::clone(&claim);
            let name = default.metadata.name.as_str();
            set(&mut new, "spec", "storageClassName", name.into());
            return calls.put(new).await.map(drop).map_err(unwritten());
        }
        let why = "no persistent volumes available for this claim and no storage class is set";
        calls.report(&*claim, EventType::Normal, "FailedBinding", why);
        return set_phase(claim, "Pending", calls).await.map(drop);
    }
    if waits && !is_selected {
        let why = "waiting for first consumer to be created before binding";
        calls.report(&*claim, EventType::Normal, "WaitForFirstConsumer", why);
        return set_phase(claim, "Pending", calls).await.map(drop);
    }
    let Some(class) = class else {
        let why = format!("storageclass.storage.k8s.io {class_name:?} not found");
        calls.report(&*claim, EventType::Warning, "ProvisioningFailed", why);
        return set_phase(claim, "Pending", calls).await.map(drop);
    };
    provision(claim, &class, calls).await
}

/// Returns the best volume for a claim: a reserved one or, failing that, the smallest suitable free
/// one. `None` if there is none.
/// O((1 + free volumes that are large enough but unsuitable) log volumes).
fn best(shared: &Shared, claim: &DynamicObject, only_reserved: bool) -> Option<Cached> {
    let keys = lock(&shared.by_class).reserved(claim);
    let reserved = keys.into_iter().filter_map(|key| shared.volumes.get(key));
    let reserved: Vec<_> = reserved.collect();
    let reserved = matching::best(reserved.iter().map(|it| &**it), claim, true);
    if reserved.is_some() || only_reserved {
        return reserved;
    }
    let wish = Wish::from_claim(claim, false);
    let (class, size) = (class_of(claim), wish.size());
    let mut last: Option<Free> = None;
    loop {
        // The lock is not held while the cache is read.
        let free = lock(&shared.by_class).next_free(class, size, last.as_ref())?;
        if let Some(volume) = shared.volumes.get(free.key)
            && wish.is_met_by(&volume)
        {
            return Some(Cached::clone(&volume));
        }
        last = Some(free);
    }
}

/// Requests a volume from the provisioner of a class.
async fn provision(claim: Cached, class: &DynamicObject, calls: &Calls) -> Result<(), SyncFailure> {
    let provisioner = text(class, "/provisioner");
    if provisioner == NO_PROVISIONER {
        let why = format!(
            "no persistent volumes available, and class {:?} has no provisioner",
            class.metadata.name
        );
        calls.report(&*claim, EventType::Normal, "FailedBinding", why);
        return set_phase(claim, "Pending", calls).await.map(drop);
    }
    let annotations = &claim.metadata.annotations;
    let is_asked = PROVISIONERS
        .iter()
        .all(|it| annotations.get(it).is_some_and(|it| **it == *provisioner));
    let claim = match is_asked {
        true => claim,
        false => {
            let mut new = DynamicObject::clone(&claim);
            let asked = PROVISIONERS.iter();
            new.metadata.annotations =
                asked.fold(annotations.clone(), |all, it| all.with(it, provisioner));
            calls.put(new).await.map_err(unwritten())?
        }
    };
    let why = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
         manually by the system administrator. If volume creation is delayed, please verify that \
         the provisioner is running and correctly registered."
    );
    calls.report(&*claim, EventType::Normal, "ExternalProvisioning", why);
    set_phase(claim, "Pending", calls).await.map(drop)
}

/// Handles a claim that names a volume but is not bound to it yet.
async fn named(shared: &Shared, claim: Cached, calls: &Calls) -> Result<(), SyncFailure> {
    let Some(volume) = shared
        .volumes
        .get_named("", text(&claim, "/spec/volumeName"))
    else {
        return set_phase(claim, "Pending", calls).await.map(drop);
    };
    let volume = Cached::clone(&volume);
    if at(&volume, "/spec/claimRef").is_null() {
        if let Some(problem) = matching::problem(&volume, &claim) {
            let name = &volume.metadata.name;
            let why = format!("Cannot bind to requested volume {name:?}: {problem}");
            calls.report(&*claim, EventType::Warning, "VolumeMismatch", why);
            return set_phase(claim, "Pending", calls).await.map(drop);
        }
        return bind(volume, claim, calls).await;
    }
    if matching::is_for(&volume, &claim) {
        return bind(volume, claim, calls).await;
    }
    if claim
        .metadata
        .annotations
        .get(BOUND_BY_CONTROLLER)
        .is_none()
    {
        let why = format!(
            "volume {:?} already bound to a different claim.",
            volume.metadata.name
        );
        calls.report(&*claim, EventType::Warning, "FailedBinding", why);
    }
    set_phase(claim, "Pending", calls).await.map(drop)
}

/// Handles a claim whose binding has been completed.
async fn bound(shared: &Shared, claim: Cached, calls: &Calls) -> Result<(), SyncFailure> {
    let name = text(&claim, "/spec/volumeName");
    if name.is_empty() {
        let why = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lost(claim, "ClaimLost", why, calls).await;
    }
    let Some(volume) = shared.volumes.get_named("", name) else {
        let why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lost(claim, "ClaimLost", why, calls).await;
    };
    let volume = Cached::clone(&volume);
    if at(&volume, "/spec/claimRef").is_null() || matching::is_for(&volume, &claim) {
        return bind(volume, claim, calls).await;
    }
    let why = "Two claims are bound to the same volume, this one is bound incorrectly";
    lost(claim, "ClaimMisbound", why, calls).await
}

async fn lost(
    claim: Cached,
    reason: &'static str,
    why: &str,
    calls: &Calls,
) -> Result<(), SyncFailure> {
    if text(&claim, "/status/phase") != "Lost" {
        calls.report(&*claim, EventType::Warning, reason, why);
    }
    set_phase(claim, "Lost", calls).await.map(drop)
}
