//! `PATCH`: applies a patch document to the JSON of the stored object.

mod json;

use std::sync::Arc;

use podstorm_objects::{
    ApiError, Details, Event, EventPatch, Kind, Map, Now, ObjectMeta, OwnerReference, Reason,
};
use serde_json::Value;

use super::Places;
use super::field_manager::{Manager, Writing};
use super::meta::share;
use super::schemas::{self, schema_of_kind};
use super::store::counts::{Verb, WriteEffects};
use super::update::{Update, check_put, prepare_and_validate};
use super::{Cluster, ClusterResource, KindStore, Strategy, errors, limits, meta};
use super::{PatchProblem, json_merge, strategic_merge};

pub use json::Operation;

/// A patch document of one of the three types.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/strategic-merge-patch+json`.
    Strategic(Map),
    /// `application/merge-patch+json`.
    Merge(Map),
    /// `application/json-patch+json`: RFC 6902.
    Json(Vec<Operation>),
}

/// The maximum number of operations in a JSON patch, the same as in upstream.
const OPERATIONS_MAX: usize = 10_000;

impl Patch {
    /// Reads a JSON patch: a list of operations.
    ///
    /// # Errors
    /// 413 for more than 10,000 operations.
    pub fn json(operations: &[Map]) -> Result<Patch, ApiError> {
        if operations.len() > OPERATIONS_MAX {
            let message = format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is \
                 {OPERATIONS_MAX}, got {}",
                operations.len()
            );
            let reason = Reason::Other("RequestEntityTooLarge".into());
            return Err(ApiError::status(413, reason, message));
        }
        Ok(Patch::Json(
            operations.iter().map(Operation::read).collect(),
        ))
    }

    /// Returns the patch that replaces any document with a whole new one.
    pub fn whole(document: Map) -> Patch {
        Patch::Json(vec![Operation::whole(document)])
    }

    /// Returns the members of a merge patch and whether it is strategic; `None` for a JSON patch.
    pub(crate) fn merged(&self) -> Option<(&Map, bool)> {
        match self {
            Patch::Strategic(members) => Some((members, true)),
            Patch::Merge(members) => Some((members, false)),
            Patch::Json(_) => None,
        }
    }

    /// Applies the patch to the document of an object of this kind, within [`limits`].
    ///
    /// # Errors
    /// 400 for a strategic directive in a wrong form, 500 for a directive that doesn't fit the
    /// object. 422 for a failing JSON patch, which leaves the document unchanged. 400, 413 or 422
    /// if the document exceeds a [limit](limits::Exceeded).
    pub fn apply(&self, kind: Kind, document: &mut Value) -> Result<(), ApiError> {
        let schema = match self {
            Patch::Strategic(_) => schema_of_kind(kind),
            Patch::Merge(_) | Patch::Json(_) => None,
        };
        self.apply_to(schema.as_deref(), document)
    }

    /// Like [`apply`](Patch::apply), for a document with the given schema.
    ///
    /// # Errors
    /// The same as [`apply`](Patch::apply).
    pub fn apply_to(&self, schema: Option<&Value>, document: &mut Value) -> Result<(), ApiError> {
        match (self, &mut *document) {
            (Patch::Strategic(patch), Value::Object(document)) => {
                strategic_merge(schema, document, patch).map_err(|problem| match problem {
                    PatchProblem::Malformed(text) => errors::bad_request(text),
                    PatchProblem::Unsupported(_) => rejected(),
                    // Sic: upstream reports an internal error without a reason.
                    PatchProblem::Unfit(text) => {
                        ApiError::status(500, Reason::Other(String::new()), text)
                    }
                })?;
            }
            (Patch::Merge(patch), Value::Object(document)) => json_merge(document, patch),
            (Patch::Json(patch), document) => {
                return json::apply(patch, document).map_err(|failed| match failed {
                    json::Failed::Rejected => rejected(),
                    json::Failed::Exceeded(exceeded) => exceeded.into(),
                });
            }
            _ => return Err(errors::bad_request("the patch target is not an object")),
        }
        Ok(limits::check(document)?)
    }
}

/// Returns the 422 of a failed JSON patch.
fn rejected() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    ApiError::status(422, Reason::Invalid, message).with_details(Details::default())
}

impl Cluster {
    /// Patches an object but keeps its status. The patch applies to any stored version, unless it
    /// contains a version. A patch that changes nothing is not committed.
    ///
    /// # Errors
    /// 404; the errors of [`Patch::apply`]; 400 for a different name or namespace; 403 if the
    /// object would exceed a ResourceQuota; 409 for a version other than the stored one; 422 for a
    /// broken rule, which includes a different UID, or for an object that becomes unreadable; 504
    /// when the time limit of the request is exceeded.
    pub fn patch<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let writing = Writing::unmanaged(Verb::Patch);
        self.apply_patch(R::store(self), namespace, name, patch, writing, now)
    }

    /// Counts a repetition of an Event: like [`patch`](Cluster::patch) with the
    /// [`body`](EventPatch::body) of the repetition, but without JSON.
    ///
    /// # Errors
    /// 404 if the Event no longer exists; 422 for a broken rule; 504 when the time limit of the
    /// request is exceeded.
    pub fn repeat_event(&self, repeated: &EventPatch, now: Now) -> Result<Arc<Event>, ApiError> {
        self.modify(
            &self.events,
            &repeated.namespace,
            &repeated.name,
            now,
            |old| {
                let mut new = Event::clone(old);
                new.count = repeated.count;
                new.last_timestamp = repeated.last_timestamp;
                new.message = repeated.message.as_str().into();
                prepare_and_validate(self, &mut new, &**old, Verb::Patch, None)?;
                Ok(Update::Write(new, WriteEffects::for_verb(Verb::Patch)))
            },
        )
    }

    /// Patches an object's status and metadata but keeps its spec.
    ///
    /// # Errors
    /// The same as [`patch`](Cluster::patch).
    pub fn patch_status<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let writing = Writing::unmanaged(Verb::PatchStatus);
        self.apply_patch(R::store(self), namespace, name, patch, writing, now)
    }

    pub(crate) fn apply_patch<R: Strategy>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        name: &str,
        patch: &Patch,
        Writing { effects, manager }: Writing<'_>,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.modify(store, namespace, name, now, |old| {
            let mut new = patched(&**old, patch, manager)?;
            let stored = old.metadata();
            meta::check_patched(store.kind(), new.metadata_mut(), stored)?;
            // In a patch, a different UID breaks a rule; it is not a failed precondition.
            let uid = std::mem::take(&mut new.metadata_mut().uid);
            check_put(&new, &**old)?;
            new.metadata_mut().uid = uid;
            share_metadata(new.metadata_mut(), stored);
            new.share_with(old);
            prepare_and_validate(self, &mut new, &**old, effects.verb, manager)?;
            Ok(Update::Write(new, effects))
        })
    }
}

/// Returns the stored object with the patch applied.
fn patched<R: Strategy>(old: &R, patch: &Patch, manager: Manager<'_>) -> Result<R, ApiError> {
    let kind = old.kind();
    let mut document = old.to_json();
    if let Err(problem) = patch.apply(kind, &mut document) {
        // The patch may need the empty fields that clients see, and error messages quote these.
        let Some(manager) = manager else {
            return Err(problem);
        };
        document = old.to_json();
        manager.complete(&mut document);
        patch.apply(kind, &mut document)?;
    }
    if let Some(manager) = manager {
        manager.patched(patch.merged(), &mut document)?;
    }
    fill(kind, patch, &mut document);
    R::read(kind, document).map_err(|problem| {
        let name = &old.metadata().name;
        let message = format!("{} \"{name}\" is invalid: patch: {problem}", kind.name());
        ApiError::status(422, Reason::Invalid, message)
    })
}

/// Adds the empty fields that Go writes to the members that the patch changed. All other members
/// have these fields already.
fn fill(kind: Kind, patch: &Patch, document: &mut Value) {
    let Value::Object(members) = document else {
        return;
    };
    match patch.merged() {
        Some((touched, _)) => {
            let touched = touched.keys().filter(|member| *member != "metadata");
            touched.for_each(|member| schemas::fill_member(kind, member, members));
        }
        None => schemas::fill(kind, members),
    }
}

/// Shares the unchanged parts with the stored object again, because decoding JSON has copied them.
fn share_metadata(new: &mut ObjectMeta, old: &ObjectMeta) {
    share(&mut new.generate_name, &old.generate_name);
    share(&mut new.namespace, &old.namespace);
    share(&mut new.labels, &old.labels);
    share(&mut new.annotations, &old.annotations);
    share(&mut new.finalizers, &old.finalizers);
    share(&mut new.rest, &old.rest);
    let owners: Places<&Arc<OwnerReference>> = old.owner_references.iter().collect();
    for owner in &mut new.owner_references {
        if let Some(place) = owners.position(&&*owner) {
            owner.clone_from(&old.owner_references[place]);
        }
    }
}

#[cfg(test)]
mod tests;
