//! `PATCH`: a patch document applied to the JSON of the stored object.

use std::sync::Arc;

use podstorm_objects::{ApiError, Event, EventPatch, Map, Now, ObjectMeta, Reason};
use serde_json::Value;

use super::kinds::share;
use super::store::counts::{Verb, WriteEffects};
use super::strategic::{json_merge, strategic_merge};
use super::update::{Update, check_put, prepare_and_validate};
use super::{Cluster, ClusterResource, KindStore, Strategy, errors};

/// A patch document with its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/strategic-merge-patch+json`.
    Strategic(Map),
    /// `application/merge-patch+json`.
    Merge(Map),
}

impl Cluster {
    /// Patches an object and keeps its status. The patch is applied to any stored version, unless
    /// it names one. A patch without a change is not committed.
    ///
    /// # Errors
    /// 404; 400 for a patch that can't be applied; 409 for a version that is not the stored one;
    /// 422 for a broken rule, another UID among them, or an object that can't be read any more.
    pub fn patch<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.apply_patch(R::store(self), (namespace, name), patch, Verb::Patch, now)
    }

    /// Counts a repetition of an Event: like [`patch`](Cluster::patch) with the repetition's
    /// [`body`](EventPatch::body), but without JSON.
    ///
    /// # Errors
    /// 404 when the event is gone; 422 for a broken rule.
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
                prepare_and_validate(&mut new, &**old, Verb::Patch)?;
                Ok(Update::Write(new, WriteEffects::of(Verb::Patch)))
            },
        )
    }

    /// Patches an object's status and metadata, and keeps its spec.
    ///
    /// # Errors
    /// As [`patch`](Cluster::patch).
    pub fn patch_status<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.apply_patch(
            R::store(self),
            (namespace, name),
            patch,
            Verb::PatchStatus,
            now,
        )
    }

    pub(crate) fn apply_patch<R: Strategy>(
        &self,
        store: &KindStore<R>,
        (namespace, name): (&str, &str),
        patch: &Patch,
        verb: Verb,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.modify(store, namespace, name, now, |old| {
            let mut new = patched(&**old, patch)?;
            let (metadata, stored) = (new.metadata(), old.metadata());
            if metadata.name != stored.name || metadata.namespace != stored.namespace {
                return Err(errors::bad_request(format!(
                    "the name of the object ({}) does not match the name on the URL ({name})",
                    metadata.name
                )));
            }
            // Another UID is a broken rule in a patch, not a failed precondition.
            let uid = std::mem::take(&mut new.metadata_mut().uid);
            check_put(&new, &**old)?;
            new.metadata_mut().uid = uid;
            share_metadata(new.metadata_mut(), stored);
            new.share_with(old);
            prepare_and_validate(&mut new, &**old, verb)?;
            Ok(Update::Write(new, WriteEffects::of(verb)))
        })
    }
}

/// The stored object with the patch applied.
fn patched<R: Strategy>(old: &R, patch: &Patch) -> Result<R, ApiError> {
    let Value::Object(mut document) = old.to_json() else {
        unreachable!("an object's JSON form is a map");
    };
    match patch {
        Patch::Strategic(patch) => strategic_merge(&mut document, patch)
            .map_err(|problem| errors::bad_request(problem.0))?,
        Patch::Merge(patch) => json_merge(&mut document, patch),
    }
    let kind = old.kind();
    R::read(kind, Value::Object(document)).map_err(|problem| {
        let name = &old.metadata().name;
        let message = format!("{} \"{name}\" is invalid: patch: {problem}", kind.name());
        ApiError::status(422, Reason::Invalid, message)
    })
}

/// Shares again what the patch did not change: reading JSON has made copies.
fn share_metadata(new: &mut ObjectMeta, old: &ObjectMeta) {
    share(&mut new.generate_name, &old.generate_name);
    share(&mut new.namespace, &old.namespace);
    share(&mut new.labels, &old.labels);
    share(&mut new.annotations, &old.annotations);
    share(&mut new.finalizers, &old.finalizers);
    share(&mut new.rest, &old.rest);
    for owner in &mut new.owner_references {
        if let Some(same) = old.owner_references.iter().find(|other| *other == owner) {
            owner.clone_from(same);
        }
    }
}

#[cfg(test)]
mod tests;
