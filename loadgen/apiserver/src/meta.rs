//! The rules of metadata that apply to all kinds.

use std::sync::Arc;

use podstorm_objects::{
    ApiError, Cause, Kind, ObjectMeta, OptionalSeconds, OwnerReferences, ResourceVersion, Rest,
    Str, Time,
};
use serde_json::Value;

use super::Places;
use super::errors;
use super::store::owners::same_owners;

/// The finalizer that keeps an object until its dependents no longer refer to it.
pub(super) const ORPHAN: &str = "orphan";

/// The finalizer that keeps an object until its blocking dependents are deleted.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Reports whether the object has this finalizer.
#[inline]
pub(super) fn has_finalizer(metadata: &ObjectMeta, finalizer: &str) -> bool {
    metadata
        .finalizers()
        .iter()
        .any(|other| &**other == finalizer)
}

/// Reports whether the object is being deleted and has no grace period left, so that it is removed
/// with its last finalizer.
pub(super) fn is_past_grace(metadata: &ObjectMeta) -> bool {
    metadata.is_deleting() && metadata.deletion_grace_period_seconds.get().unwrap_or(0) == 0
}

/// Removes owner references that equal an earlier one.
pub(super) fn drop_repeated_owners(owners: &mut OwnerReferences) {
    if owners.len() > 1 {
        let mut seen = Places::default();
        *owners = (std::mem::take(owners).into_iter())
            .filter(|owner| {
                let is_new = !seen.contains(owner);
                if is_new {
                    seen.push(Arc::clone(owner));
                }
                is_new
            })
            .collect();
    }
}

/// Removes `selfLink`, which servers no longer store.
pub(super) fn drop_self_link(metadata: &mut ObjectMeta) {
    const SELF_LINK: &str = "selfLink";
    if !metadata.rest.is_empty() && metadata.rest.get(SELF_LINK).is_some() {
        metadata.rest = metadata.rest.without(SELF_LINK);
    }
}

/// Checks that a patched object still has its name and namespace. Fills in a missing namespace, and
/// ignores that of a cluster-scoped kind.
///
/// Source: `checkName` of Kubernetes' `apiserver/pkg/endpoints/handlers`.
///
/// # Errors
/// 400 for a different name or namespace, and for a missing name.
pub fn check_patched(kind: Kind, new: &mut ObjectMeta, old: &ObjectMeta) -> Result<(), ApiError> {
    if new.namespace.is_empty() || !kind.is_namespaced() {
        new.namespace = old.namespace.clone();
    }
    if new.name.is_empty() {
        return Err(errors::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            old.name
        )));
    }
    for (what, new, old, of) in [
        ("name", &*new.name, &*old.name, "URL"),
        ("namespace", &*new.namespace, &*old.namespace, "request"),
    ] {
        if new != old {
            return Err(errors::bad_request(format!(
                "the {what} of the object ({new}) does not match the {what} on the {of} ({old})"
            )));
        }
    }
    Ok(())
}

/// Removes the namespace from an object of a cluster-scoped kind.
pub(super) fn drop_namespace(kind: Kind, metadata: &mut ObjectMeta) {
    if !kind.is_namespaced() && !metadata.namespace.is_empty() {
        metadata.namespace = Str::default();
    }
}

/// Fills in the fields that an update may omit, and restores those that it cannot change.
pub(super) fn prepare_for_update(new: &mut ObjectMeta, old: &ObjectMeta) {
    if new.uid.is_empty() {
        new.uid = old.uid.clone();
    }
    drop_self_link(new);
    new.creation_timestamp = old.creation_timestamp;
    new.generation = old.generation;
    if old.is_deleting() {
        new.deletion_timestamp = old.deletion_timestamp;
    }
    if new.deletion_grace_period_seconds == OptionalSeconds::NONE {
        new.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    }
    if !same_owners(&new.owner_references, &old.owner_references) {
        drop_repeated_owners(&mut new.owner_references);
    }
}

/// The member of the metadata that records the owners of fields.
const MANAGED: &str = "managedFields";

/// Returns `rest`, the unread metadata of one object, with the field owners of another object.
pub(super) fn with_managed_fields(rest: &Rest, of: &Rest) -> Rest {
    match of.get(MANAGED) {
        Some(managed) => rest.with(MANAGED, managed),
        None => rest.clone(),
    }
}

/// Keeps the field owners if a writer leaves them out.
pub(super) fn keep_managed_fields(new: &mut ObjectMeta, old: &ObjectMeta) {
    if new.rest.is_same(&old.rest) || old.rest.is_empty() || new.rest.get(MANAGED).is_some() {
        return;
    }
    if let Some(managed) = old.rest.get(MANAGED) {
        new.rest = new.rest.with(MANAGED, managed);
    }
}

/// Reports whether all fields that validation checks are shared with the stored object.
pub(super) fn is_shared(new: &ObjectMeta, old: &ObjectMeta) -> bool {
    let finalizers = match (&new.finalizers, &old.finalizers) {
        (None, None) => true,
        (Some(new), Some(old)) => Arc::ptr_eq(new, old),
        _ => false,
    };
    finalizers && is_shared_but_finalizers(new, old)
}

/// Reports whether all fields that validation checks are unchanged, except for removed finalizers.
pub(super) fn only_lost_finalizers(new: &ObjectMeta, old: &ObjectMeta) -> bool {
    let before = old.finalizers();
    new.finalizers().iter().all(|it| before.contains(it))
        && new.rest.is_same(&old.rest)
        && is_shared_but_finalizers(new, old)
}

fn is_shared_but_finalizers(new: &ObjectMeta, old: &ObjectMeta) -> bool {
    new.labels.is_same(&old.labels)
        && new.annotations.is_same(&old.annotations)
        && new.generate_name == old.generate_name
        && same_owners(&new.owner_references, &old.owner_references)
}

/// Validates the change from `old` to `new`, both after preparation. Appends to `causes`.
pub(super) fn validate_update(new: &ObjectMeta, old: &ObjectMeta, causes: &mut Vec<Cause>) {
    let mut immutable = |field: &str, same: bool, value: &dyn Fn() -> Value| {
        if !same {
            let field = format!("metadata.{field}");
            causes.push(errors::invalid_value(field, &value(), "field is immutable"));
        }
    };
    immutable("uid", new.uid == old.uid, &|| new.uid.to_string().into());
    let kept = new.deletion_timestamp == old.deletion_timestamp;
    immutable("deletionTimestamp", kept, &|| time(new.deletion_timestamp));
    let grace = new.deletion_grace_period_seconds;
    let kept = grace == old.deletion_grace_period_seconds;
    immutable("deletionGracePeriodSeconds", kept, &|| grace.get().into());
    if old.is_deleting() {
        let before: Places<&Str> = old.finalizers().iter().collect();
        let added: Vec<&str> = new
            .finalizers()
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .map(|finalizer| &**finalizer)
            .collect();
        if !added.is_empty() {
            let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
            // Formatted as Go prints a list.
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                added.join(", ")
            );
            causes.push(errors::forbidden_field("metadata.finalizers", &detail));
        }
    }
}

fn time(time: Time) -> Value {
    time.unix_seconds().map_or(Value::Null, Value::from)
}

/// Returns the version that a writer expects, as a number; `None` if it expects none.
///
/// # Errors
/// Returns the version itself if it is not a number.
pub(super) fn named_version(version: &ResourceVersion) -> Result<Option<u64>, &ResourceVersion> {
    match version {
        ResourceVersion::Unset => Ok(None),
        ResourceVersion::Number(number) => Ok(Some(*number)),
        ResourceVersion::Opaque(text) if text.as_str() == "0" => Ok(None),
        ResourceVersion::Opaque(_) => Err(version),
    }
}

/// Replaces an equal copy with the shared value.
pub(crate) fn share<T: Clone + PartialEq>(new: &mut T, old: &T) {
    if new == old {
        new.clone_from(old);
    }
}
