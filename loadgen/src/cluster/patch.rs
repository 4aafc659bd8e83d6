//! `PATCH`: the stored object as JSON, changed by a patch document, and read back.

use std::sync::Arc;

use podstorm::client::{ApiError, Reason};
use podstorm::object::{Map, Now, ObjectMeta};
use serde_json::Value;

use super::counts::{Tally, Verb};
use super::resource::share;
use super::strategic::{json_merge, strategic_merge};
use super::write::{Update, check_put, prepare_and_validate};
use super::{Cluster, ClusterResource, errors};

/// A patch document with its meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// `application/strategic-merge-patch+json`.
    Strategic(Map),
    /// `application/merge-patch+json`.
    Merge(Map),
}

impl Cluster {
    /// Patches the object itself; its status stays. The patch is applied to whatever is stored,
    /// unless it names a version. What changes nothing is not written.
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
        self.apply_patch(namespace, name, patch, Verb::Patch, now)
    }

    /// Patches an object's status (and metadata); its spec stays.
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
        self.apply_patch(namespace, name, patch, Verb::PatchStatus, now)
    }

    fn apply_patch<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        verb: Verb,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.modify::<R>(namespace, name, now, |old| {
            let mut new = patched(&**old, patch)?;
            let (metadata, stored) = (new.metadata(), old.metadata());
            if metadata.name != stored.name || metadata.namespace != stored.namespace {
                return Err(errors::bad_request(format!(
                    "the name of the object ({}) does not match the name on the URL ({name})",
                    metadata.name
                )));
            }
            // Another UID breaks a rule here and is no failed precondition.
            let uid = std::mem::take(&mut new.metadata_mut().uid);
            check_put(&new, &**old)?;
            new.metadata_mut().uid = uid;
            share_metadata(new.metadata_mut(), stored);
            new.share_with(old);
            prepare_and_validate(&mut new, &**old, verb)?;
            Ok(Update::Write(new, Tally::of(verb)))
        })
    }
}

/// The stored object with the patch applied.
fn patched<R: ClusterResource>(old: &R, patch: &Patch) -> Result<R, ApiError> {
    let Value::Object(mut document) = old.to_json() else {
        unreachable!("an object's JSON form is a map");
    };
    match patch {
        Patch::Strategic(patch) => strategic_merge(&mut document, patch)
            .map_err(|problem| errors::bad_request(problem.0))?,
        Patch::Merge(patch) => json_merge(&mut document, patch),
    }
    R::from_json(Value::Object(document)).map_err(|problem| {
        let kind = R::KIND;
        let name = &old.metadata().name;
        let message = format!("{} \"{name}\" is invalid: patch: {problem}", kind.name());
        ApiError::status(422, Reason::Invalid, message)
    })
}

/// Goes back to sharing what the patch left alone: reading JSON makes copies.
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
