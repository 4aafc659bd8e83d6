//! Which pods an owner keeps, releases or adopts, one patch at a time, with at most one live read
//! of the owner before the first adoption.

use std::sync::Arc;

use podstorm_objects::{ObjectMeta, OwnerReference, Pod, Str};

use crate::client::{ApiError, PodPatch};

/// What to do with one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimDecision {
    /// Another owner's pod, or one that must not be changed.
    Ignore,
    /// An own pod that matches: claimed without a write.
    Keep,
    /// An own pod that no longer matches: remove the reference.
    Release,
    /// An orphan that matches: add the reference.
    Adopt,
}

/// The table of the claim rules: by controller reference, selector match, and whether owner or pod
/// are being deleted.
pub fn claim_decision(owner: &ObjectMeta, pod: &Pod, selector_matches: bool) -> ClaimDecision {
    let deleting = owner.is_deleting();
    match pod.metadata.controller() {
        Some(controller) if controller.uid != owner.uid => ClaimDecision::Ignore,
        Some(_) if selector_matches => ClaimDecision::Keep,
        Some(_) if deleting => ClaimDecision::Ignore,
        Some(_) => ClaimDecision::Release,
        None if deleting || !selector_matches => ClaimDecision::Ignore,
        None if pod.metadata.is_deleting() => ClaimDecision::Ignore,
        None if pod.metadata.namespace != owner.namespace => ClaimDecision::Ignore,
        None => ClaimDecision::Adopt,
    }
}

/// The sequence of patches (and the one read) that claims a list of pods.
#[derive(Debug)]
pub struct Claim {
    namespace: Str,
    /// Kind, name and UID of the owner, as the pods' controller reference.
    owner: Arc<OwnerReference>,
    pods: Vec<(Arc<Pod>, ClaimDecision)>,
    next: usize,
    /// The result of the live read, once it was made.
    may_adopt: Option<Result<(), String>>,
    claimed: Vec<Arc<Pod>>,
    errors: Vec<String>,
}

/// What the claim needs next.
#[derive(Clone, Debug)]
pub enum ClaimStep {
    /// Read the owner from the server, then [`Claim::owner_read`].
    ReadOwner,
    /// Patch this pod, then [`Claim::patched`].
    Patch(Arc<Pod>, PodPatch),
    /// All pods are decided.
    Finished,
}

impl Claim {
    /// A claim of these pods, in their order, for the owner with this metadata. `reference` is the
    /// controller reference of its pods.
    pub fn new(
        owner: &ObjectMeta,
        reference: Arc<OwnerReference>,
        pods: impl IntoIterator<Item = Arc<Pod>>,
        mut selector_matches: impl FnMut(&Pod) -> bool,
    ) -> Claim {
        let pods = pods
            .into_iter()
            .map(|pod| {
                let decision = claim_decision(owner, &pod, selector_matches(&pod));
                (pod, decision)
            })
            .collect();
        Claim {
            namespace: owner.namespace.clone(),
            owner: reference,
            pods,
            next: 0,
            may_adopt: None,
            claimed: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Moves to the next pod that needs a request. Call it again after each answer.
    pub fn step(&mut self) -> ClaimStep {
        while let Some((pod, decision)) = self.pods.get(self.next) {
            let patch = match decision {
                ClaimDecision::Ignore => None,
                ClaimDecision::Keep => {
                    self.claimed.push(pod.clone());
                    None
                }
                ClaimDecision::Release => Some(PodPatch::Release {
                    owner_uid: self.owner.uid.clone(),
                    pod_uid: pod.metadata.uid.clone(),
                }),
                ClaimDecision::Adopt => match &self.may_adopt {
                    None => return ClaimStep::ReadOwner,
                    Some(Err(why)) => {
                        let meta = &pod.metadata;
                        self.errors.push(format!(
                            "can't adopt Pod {}/{} ({}): {why}",
                            meta.namespace, meta.name, meta.uid
                        ));
                        None
                    }
                    Some(Ok(())) => Some(PodPatch::Adopt {
                        owner: self.owner.clone(),
                        pod_uid: pod.metadata.uid.clone(),
                    }),
                },
            };
            if let Some(patch) = patch {
                return ClaimStep::Patch(pod.clone(), patch);
            }
            self.next += 1;
        }
        ClaimStep::Finished
    }

    /// The answer of the live read. Adoption needs the same UID and no deletion in progress.
    pub fn owner_read(&mut self, answer: Result<&ObjectMeta, &ApiError>) {
        self.may_adopt = Some(self.check(answer));
    }

    /// Sets the outcome of the pre-adoption check directly.
    pub fn adoption_checked(&mut self, outcome: Result<(), String>) {
        self.may_adopt = Some(outcome);
    }

    fn check(&self, answer: Result<&ObjectMeta, &ApiError>) -> Result<(), String> {
        let OwnerReference {
            kind, name, uid, ..
        } = &*self.owner;
        let namespace = &self.namespace;
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

    /// The answer of the patch. "Not found" means that the pod is gone: no error, and the pod is
    /// not claimed. A release that is refused as invalid was done by another client.
    pub fn patched(&mut self, answer: Result<(), &ApiError>) {
        let (pod, decision) = &self.pods[self.next];
        let adopting = *decision == ClaimDecision::Adopt;
        match answer {
            Ok(()) if adopting => self.claimed.push(pod.clone()),
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) if !adopting && error.is_invalid() => {}
            Err(error) => self.errors.push(error.message.clone()),
        }
        self.next += 1;
    }

    /// The claimed pods, in list order.
    pub fn claimed(&self) -> &[Arc<Pod>] {
        &self.claimed
    }

    /// One text per pod with an error.
    pub fn errors(&self) -> &[String] {
        &self.errors
    }

    /// All errors as one text, worded like apimachinery's aggregate: a single error as it is,
    /// several without repetitions in brackets. `None` if there are none.
    pub fn error(&self) -> Option<String> {
        let mut distinct: Vec<&str> = Vec::new();
        for error in &self.errors {
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
}
