//! The writes of EndpointSlices, for a Service or for an Endpoints object.

use podstorm_objects::{ApiError, DynamicObject, Kind, Reason};
use podstorm_runtime::consistency::ConsistencyStore;
use podstorm_runtime::driver::{Calls, unless_gone};
use podstorm_runtime::intern::KeyId;

use super::slices::Plan;

/// Carries out a plan for the owner of the slices, and records the versions of the writes.
///
/// # Errors
/// Stops at the first failed write and returns the error message.
pub(super) async fn write(
    plan: Plan,
    key: KeyId,
    owner: &DynamicObject,
    written: &ConsistencyStore<KeyId, 1>,
    calls: &Calls,
) -> Result<(), String> {
    let meta = &owner.metadata;
    let failed = |what: String, error: &ApiError| {
        let (kind, namespace, name) = (owner.kind().name(), &meta.namespace, &meta.name);
        let of = format!("EndpointSlice for {kind} {namespace}/{name}");
        format!("failed to {what} {of}: {}", error.message)
    };
    // An object that is being deleted gets no new slices.
    let creates = plan.create.into_iter().filter(|_| !meta.is_deleting());
    let updates = plan.update.into_iter().map(|slice| (false, slice));
    for (is_new, slice) in creates.map(|slice| (true, slice)).chain(updates) {
        let name = slice.metadata.name.clone();
        let write = match is_new {
            true => calls.create(slice).await,
            false => calls.put(slice).await.map(|written| written as _),
        };
        match write {
            Ok(object) => {
                let version = &object.metadata().resource_version;
                written.wrote_at(key, &meta.uid, Kind::ENDPOINT_SLICE, version);
            }
            Err(error) if is_new && is_of_ending_namespace(&error) => return Ok(()),
            Err(error) => {
                let what = match is_new {
                    true => "create".to_owned(),
                    false => format!("update {name}"),
                };
                return Err(failed(what, &error));
            }
        }
    }
    for slice in plan.delete {
        let meta = &slice.metadata;
        let deleted = calls.delete(Kind::ENDPOINT_SLICE, meta, None).await;
        unless_gone(deleted).map_err(|error| failed(format!("delete {}", meta.name), &error))?;
    }
    Ok(())
}

/// Reports whether a create was refused because the namespace is being deleted.
pub(super) fn is_of_ending_namespace(error: &ApiError) -> bool {
    error.reason == Reason::Forbidden && error.has_cause("NamespaceTerminating")
}
