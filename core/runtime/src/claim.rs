//! Claiming objects: an owner adopts, keeps or releases objects. A claim sends one patch at a time,
//! and reads the owner from the server at most once, before the first adoption. ReplicaSets claim
//! pods, Deployments claim ReplicaSets.

use std::sync::Arc;

use podstorm_objects::{Kind, Object, ObjectMeta, OwnerReference, Pod, Str};

use crate::client::{ApiError, OwnerPatch};

/// An object that can be owned, or a value derived from such an object.
pub trait Owned {
    /// Returns the kind of the object.
    fn kind(&self) -> Kind;

    /// Returns the metadata of the object.
    fn metadata(&self) -> &ObjectMeta;
}

impl<T: Object + ?Sized> Owned for T {
    fn kind(&self) -> Kind {
        Object::kind(self)
    }

    fn metadata(&self) -> &ObjectMeta {
        Object::metadata(self)
    }
}

/// What a claim does with one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    /// Do nothing: the object belongs to another owner or must not be changed.
    Ignore,
    /// Claim the object without a write: it is owned and matches.
    Keep,
    /// Remove the owner reference: the object is owned but no longer matches.
    Release,
    /// Add an owner reference: the object is an orphan that matches.
    Adopt,
}

/// Decides by the claim rules. They depend on the controller reference, on whether the selector
/// matches, and on whether the owner or the object is being deleted.
pub fn claim_decision(
    owner: &ObjectMeta,
    meta: &ObjectMeta,
    selector_matches: bool,
) -> ClaimDecision {
    let deleting = owner.is_deleting();
    match meta.controller() {
        Some(controller) if controller.uid != owner.uid => ClaimDecision::Ignore,
        Some(_) if selector_matches => ClaimDecision::Keep,
        Some(_) if deleting => ClaimDecision::Ignore,
        Some(_) => ClaimDecision::Release,
        None if deleting || !selector_matches => ClaimDecision::Ignore,
        None if meta.is_deleting() => ClaimDecision::Ignore,
        None if meta.namespace != owner.namespace => ClaimDecision::Ignore,
        None => ClaimDecision::Adopt,
    }
}

/// A claim in progress: the patches, and at most one read, that claim a list of objects.
#[derive(Debug)]
pub struct Claim<T = Pod> {
    namespace: Str,
    /// The owner as the controller reference of its objects names it.
    owner: Arc<OwnerReference>,
    objects: Vec<(Arc<T>, ClaimDecision)>,
    next: usize,
    /// The result of the check before the first adoption; `None` before the check.
    may_adopt: Option<Result<(), String>>,
    claimed: Vec<Arc<T>>,
    errors: Vec<String>,
}

/// The next step of a claim.
#[derive(Clone, Debug)]
pub enum ClaimStep<T = Pod> {
    /// Read the owner from the server, then call [`Claim::owner_read`].
    ReadOwner,
    /// Patch this object, then call [`Claim::patched`].
    Patch(Arc<T>, OwnerPatch),
    /// No object needs another request.
    Finished,
}

impl<T: Owned> Claim<T> {
    /// Creates a claim of `objects`, in this order, by the owner with the metadata `owner`.
    /// `reference` is the controller reference of the owner's objects.
    pub fn new(
        owner: &ObjectMeta,
        reference: Arc<OwnerReference>,
        objects: impl IntoIterator<Item = Arc<T>>,
        mut selector_matches: impl FnMut(&T) -> bool,
    ) -> Claim<T> {
        let objects: Vec<_> = objects
            .into_iter()
            .map(|object| {
                let matches = selector_matches(&object);
                let decision = claim_decision(owner, object.metadata(), matches);
                (object, decision)
            })
            .collect();
        Claim {
            namespace: owner.namespace.clone(),
            owner: reference,
            claimed: Vec::with_capacity(objects.len()),
            objects,
            next: 0,
            may_adopt: None,
            errors: Vec::new(),
        }
    }

    /// Sorts the objects by name if one of them needs a request. Otherwise leaves the order as it
    /// is.
    pub fn by_name(mut self) -> Claim<T> {
        let is_patch = |decision| matches!(decision, ClaimDecision::Adopt | ClaimDecision::Release);
        if self.objects.iter().any(|(_, decision)| is_patch(*decision)) {
            let name = |it: &(Arc<T>, ClaimDecision)| it.0.metadata().name.clone();
            self.objects.sort_by_cached_key(name);
        }
        self
    }

    /// Returns the next request. Callers call it again after each answer, until the claim finishes.
    pub fn step(&mut self) -> ClaimStep<T> {
        while let Some((object, decision)) = self.objects.get(self.next) {
            let meta = object.metadata();
            let patch = match decision {
                ClaimDecision::Ignore => None,
                ClaimDecision::Keep => {
                    self.claimed.push(object.clone());
                    None
                }
                ClaimDecision::Release => Some(OwnerPatch::Release {
                    owner_uid: self.owner.uid.clone(),
                    uid: meta.uid.clone(),
                }),
                ClaimDecision::Adopt => match &self.may_adopt {
                    None => return ClaimStep::ReadOwner,
                    Some(Err(why)) => {
                        self.errors.push(format!(
                            "can't adopt {} {}/{} ({}): {why}",
                            object.kind().name(),
                            meta.namespace,
                            meta.name,
                            meta.uid
                        ));
                        None
                    }
                    Some(Ok(())) => Some(OwnerPatch::Adopt {
                        owner: self.owner.clone(),
                        uid: meta.uid.clone(),
                    }),
                },
            };
            if let Some(patch) = patch {
                return ClaimStep::Patch(object.clone(), patch);
            }
            self.next += 1;
        }
        ClaimStep::Finished
    }

    /// Takes the answer to the live read. The owner may adopt objects if the answer has the same
    /// UID and no deletion timestamp.
    pub fn owner_read(&mut self, answer: Result<&ObjectMeta, &ApiError>) {
        self.may_adopt = Some(may_adopt(&self.namespace, &self.owner, answer));
    }

    /// Sets the result of the check before adoptions, for a caller that has made the check itself.
    pub fn adoption_checked(&mut self, outcome: Result<(), String>) {
        self.may_adopt = Some(outcome);
    }

    /// Takes the answer to the patch. "Not found" is not an error: the object no longer exists and
    /// is not claimed. A release that is refused as invalid counts as made by another client.
    pub fn patched(&mut self, answer: Result<(), &ApiError>) {
        let (object, decision) = &self.objects[self.next];
        let adopting = *decision == ClaimDecision::Adopt;
        match answer {
            Ok(()) if adopting => self.claimed.push(object.clone()),
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) if !adopting && error.is_invalid() => {}
            Err(error) => self.errors.push(error.message.clone()),
        }
        self.next += 1;
    }

    /// Returns the claimed objects, in list order.
    pub fn claimed(&self) -> &[Arc<T>] {
        &self.claimed
    }

    /// Returns the claimed objects and ends the claim. Call it when the claim has finished.
    pub fn into_claimed(self) -> Vec<Arc<T>> {
        self.claimed
    }

    /// Returns the error message of each object whose request failed.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// Returns all errors as one message, in the format of [`aggregate`]; `None` if there are none.
    pub fn error(&self) -> Option<String> {
        aggregate(&self.errors)
    }
}

/// Checks, by the answer to a live read of the owner, whether the owner may adopt objects. It must
/// have the same UID and must not be terminating. `owner` is the controller reference of its
/// objects.
///
/// # Errors
/// Returns the reason why the owner must not adopt objects.
pub fn may_adopt(
    namespace: &str,
    owner: &OwnerReference,
    answer: Result<&ObjectMeta, &ApiError>,
) -> Result<(), String> {
    let OwnerReference {
        kind, name, uid, ..
    } = owner;
    match answer {
        Err(error) => Err(format!("can't recheck DeletionTimestamp: {error}")),
        Ok(live) if live.uid != *uid => Err(format!(
            "can't recheck DeletionTimestamp: original {kind} {namespace}/{name} is gone: got uid {}, wanted {uid}",
            live.uid,
        )),
        Ok(live) if live.is_deleting() => {
            let at = live.deletion_timestamp.to_string();
            let at = at.replace('T', " ").replace('Z', " +0000 UTC");
            Err(format!("{namespace}/{name} has just been deleted at {at}"))
        }
        Ok(_) => Ok(()),
    }
}

/// Combines errors into one message in the format of apimachinery's `Aggregate`: a single error
/// unchanged, several errors in brackets without repetitions. `None` if there are none.
pub fn aggregate(errors: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
