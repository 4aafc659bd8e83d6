//! The pods of a set as a sync reads them. The cache stores the fields that most syncs need next to
//! each pod, so a sync with nothing to do parses no strings.

use std::sync::Arc;

use podstorm_objects::{Kind, OwnerPatch, Pod, PodPhase, hash_state};
use podstorm_runtime::cache::PodFields;
use podstorm_runtime::claim::{Claim, ClaimDecision, ClaimStep, claim_decision};
use podstorm_runtime::driver::SyncFailure;

use super::Shared;
use super::cache::CachedSet;
use super::identity::{REVISION_LABEL, identity_matches, is_member, ordinal_of, storage_matches};
use super::sync::StatefulSetSync;

/// The fields that the cache stores for each pod of a StatefulSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    /// A hash that identifies the pod's revision: see [`revision_number`].
    revision: u64,
    /// The pod's ordinal; -1 if it has none.
    ordinal: i32,
    /// The mark of the selector with which a sync found that the set keeps the pod; 0 before that.
    kept_by: u32,
    /// The mark of the claim templates that the pod's volumes match; 0 until a sync has checked
    /// them.
    storage: u32,
    phase: PodPhase,
    is_deleting: bool,
    is_ready: bool,
    /// Whether the pod has the name and labels for its ordinal. Meaningful only if `kept_by` is
    /// set.
    has_identity: bool,
}

impl PodFields for PodFacts {
    fn from_pod(pod: &Pod, _: u32) -> PodFacts {
        let ordinal = i32::try_from(ordinal_of(&pod.metadata));
        PodFacts {
            revision: revision_number(revision_of(pod)),
            ordinal: ordinal.unwrap_or(-1),
            kept_by: 0,
            storage: 0,
            phase: pod.status.phase,
            is_deleting: pod.metadata.is_deleting(),
            is_ready: pod.is_ready(),
            has_identity: false,
        }
    }

    fn next(&self, old: &Pod, new: &Pod, node: u32) -> PodFacts {
        // Most changes are of the status only, and parsing the labels takes the most time.
        if old.metadata.labels != new.metadata.labels {
            return PodFacts::from_pod(new, node);
        }
        PodFacts {
            storage: if old.spec == new.spec {
                self.storage
            } else {
                0
            },
            phase: new.status.phase,
            is_deleting: new.metadata.is_deleting(),
            is_ready: new.is_ready(),
            ..*self
        }
    }
}

/// A pod of the set, as a sync sees it. It may have ended or be terminating.
#[derive(Clone, Debug)]
pub(super) struct SetPod {
    pub(super) pod: Arc<Pod>,
    /// A hash that identifies the pod's revision: see [`revision_number`].
    pub(super) revision: u64,
    /// The pod's ordinal; -1 if it has none.
    ordinal: i32,
    pub(super) phase: PodPhase,
    pub(super) is_deleting: bool,
    pub(super) is_ready: bool,
    /// Whether the pod has the name and labels for its ordinal.
    pub(super) has_identity: bool,
    /// Whether the pod's volumes match the claim templates.
    pub(super) has_storage: bool,
}

/// Limits the memory of a set with 5,000 pods.
const _: () = assert!(size_of::<SetPod>() <= 32 && size_of::<PodFacts>() <= 24);

impl SetPod {
    fn new(pod: Arc<Pod>, facts: &PodFacts, has_storage: bool) -> SetPod {
        SetPod {
            revision: facts.revision,
            ordinal: facts.ordinal,
            phase: facts.phase,
            is_deleting: facts.is_deleting,
            is_ready: facts.is_ready,
            has_identity: facts.has_identity,
            has_storage,
            pod,
        }
    }

    /// Reads a pod for which the cache stores no fields.
    fn read(pod: Arc<Pod>, set: &CachedSet) -> SetPod {
        let meta = &set.object.metadata;
        let facts = PodFacts {
            has_identity: identity_matches(meta, &pod.metadata),
            ..PodFacts::from_pod(&pod, 0)
        };
        let has_storage = storage_matches(meta, &set.spec.read, &pod);
        SetPod::new(pod, &facts, has_storage)
    }

    /// Creates the entry of a pod whose identity and storage are correct or irrelevant.
    pub(super) fn from_pod(pod: Arc<Pod>) -> SetPod {
        let facts = PodFacts {
            has_identity: true,
            ..PodFacts::from_pod(&pod, 0)
        };
        SetPod::new(pod, &facts, true)
    }

    /// Returns the pod's ordinal; -1 if it has none.
    pub(super) fn ordinal(&self) -> i64 {
        self.ordinal.into()
    }

    /// Reports whether the pod exists on the server. A pod without a phase does not.
    pub(super) fn is_created(&self) -> bool {
        self.phase != PodPhase::Unset
    }

    pub(super) fn is_running_and_ready(&self) -> bool {
        self.phase == PodPhase::Running && self.is_ready
    }
}

/// Returns the name of a pod's revision; empty if the pod does not have the label.
pub(super) fn revision_of(pod: &Pod) -> &str {
    let revision = pod.metadata.labels.get(REVISION_LABEL);
    revision.map_or("", |revision| &**revision)
}

/// Returns a number for the name of a revision: 64 bits of its hash.
pub(super) fn revision_number(name: &str) -> u64 {
    hash_state().hash_one(name)
}

impl Shared {
    /// Visits the pods that the set controls, and then the orphans in its namespace that have one
    /// of its pod names. O(pods of the set and orphans).
    fn for_each_candidate(
        &self,
        set: &CachedSet,
        mut found: impl FnMut(&Arc<Pod>, Option<&mut PodFacts>),
    ) {
        let meta = &set.object.metadata;
        if let Some(owned) = self.pods.owned_by(&meta.namespace, &set.controller_ref) {
            for (pod, facts) in owned.lock().iter_fields_mut::<PodFacts>() {
                found(pod, Some(facts));
            }
        }
        for (pod, _) in self.pods.orphans(&meta.namespace).lock().iter() {
            if is_member(&meta.name, &pod.metadata) {
                found(pod, None);
            }
        }
    }

    /// Returns the pods that the set owns or could adopt, in no particular order.
    pub(super) fn candidates(&self, set: &CachedSet) -> Vec<Arc<Pod>> {
        let mut pods = Vec::new();
        self.for_each_candidate(set, |pod, _| pods.push(Arc::clone(pod)));
        pods
    }

    /// Returns the pods of the set; `None` if the set must adopt or release a pod first.
    fn kept_pods(&self, set: &CachedSet, matches: impl Fn(&Pod) -> bool) -> Option<Vec<SetPod>> {
        let (meta, spec) = (&set.object.metadata, &*set.spec);
        let (mut pods, mut keeps_all) = (Vec::new(), true);
        self.for_each_candidate(set, |pod, facts| {
            let decide = || claim_decision(meta, &pod.metadata, matches(pod));
            let Some(facts) = facts else {
                keeps_all &= decide() == ClaimDecision::Ignore;
                return;
            };
            if facts.kept_by != spec.selector_mark {
                match decide() {
                    ClaimDecision::Keep => {}
                    ClaimDecision::Ignore => return,
                    ClaimDecision::Adopt | ClaimDecision::Release => {
                        keeps_all = false;
                        return;
                    }
                }
                facts.has_identity = identity_matches(meta, &pod.metadata);
                facts.kept_by = spec.selector_mark;
            }
            if facts.storage != spec.storage_mark && storage_matches(meta, &spec.read, pod) {
                facts.storage = spec.storage_mark;
            }
            let has_storage = facts.storage == spec.storage_mark;
            pods.push(SetPod::new(Arc::clone(pod), facts, has_storage));
        });
        keeps_all.then_some(pods)
    }
}

impl StatefulSetSync<'_> {
    /// Finds the pods of the set. Adopts and releases pods where necessary.
    pub(super) async fn claim_pods(&mut self) -> Result<(), SyncFailure> {
        let meta = &self.set.object.metadata;
        let parts = [("namespace", &*meta.namespace), ("name", &*meta.name)];
        for (part, text) in parts {
            if text.is_empty() {
                let problem = format!("no owner {part} provided");
                return Err(SyncFailure::new("identity", problem));
            }
        }
        if meta.uid.is_empty() {
            return Err(SyncFailure::new("identity", "no owner uid provided"));
        }
        let selector = self.set.spec.selector.as_ref();
        let matches = |pod: &Pod| {
            selector.is_ok_and(|it| it.matches(&pod.metadata.labels))
                && is_member(&meta.name, &pod.metadata)
        };
        if let Some(pods) = self.shared.kept_pods(self.set, matches) {
            self.pods = pods;
            return Ok(());
        }
        let candidates = self.shared.candidates(self.set);
        let mut claim = Claim::new(meta, self.set.controller_ref.clone(), candidates, matches);
        loop {
            match claim.step() {
                ClaimStep::ReadOwner => {
                    let read = self
                        .calls
                        .read(Kind::STATEFUL_SET, &meta.namespace, &meta.name);
                    let read = read.await;
                    claim.owner_read(read.as_ref().map(|live| live.metadata()));
                }
                ClaimStep::Patch(pod, patch) => {
                    let is_adoption = matches!(patch, OwnerPatch::Adopt { .. });
                    let patched = self
                        .calls
                        .patch_owners(Kind::POD, &pod.metadata, patch)
                        .await;
                    if let Ok(patched) = &patched
                        && is_adoption
                    {
                        self.wrote(Kind::POD, &patched.metadata().resource_version);
                    }
                    claim.patched(patched.as_ref().map(|_| ()));
                }
                ClaimStep::Finished => break,
            }
        }
        if let Some(error) = claim.error() {
            return Err(SyncFailure::new("claim failed", error));
        }
        let claimed = claim.into_claimed().into_iter();
        self.pods = claimed.map(|pod| SetPod::read(pod, self.set)).collect();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource as _;
    use serde_json::json;

    use super::*;

    fn pod(revision: &str, volumes: &[&str]) -> Pod {
        let labels = json!({REVISION_LABEL: revision});
        let volumes: Vec<_> = volumes.iter().map(|name| json!({"name": name})).collect();
        let pod =
            json!({"metadata": {"name": "web-12", "labels": labels}, "spec": {"volumes": volumes}});
        Pod::from_json(pod).expect("a pod")
    }

    #[test]
    fn findings_are_valid_until_labels_or_spec_change() {
        let old = pod("web-a", &[]);
        let found = PodFacts {
            kept_by: 5,
            storage: 7,
            has_identity: true,
            ..PodFacts::from_pod(&old, 0)
        };
        assert_eq!(found.ordinal, 12);
        let mut running = old.clone();
        running.status.phase = PodPhase::Running;
        let next = found.next(&old, &running, 0);
        assert_eq!(next.phase, PodPhase::Running);
        assert_eq!((next.kept_by, next.storage), (5, 7));
        assert!(next.has_identity);

        let changed = pod("web-a", &["data"]);
        let next = found.next(&old, &changed, 0);
        assert_eq!((next.kept_by, next.storage), (5, 0));

        let updated = pod("web-b", &[]);
        assert_eq!(
            found.next(&old, &updated, 0),
            PodFacts::from_pod(&updated, 0)
        );
        assert_eq!(
            PodFacts::from_pod(&updated, 0).revision,
            revision_number("web-b")
        );
    }
}
