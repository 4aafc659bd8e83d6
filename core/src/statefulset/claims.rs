//! Which owners a claim has, by `persistentVolumeClaimRetentionPolicy`: a claim that is to go with its pod or its set is
//! owned by it, and garbage collection does the rest.
//!
//! Source: `stateful_set_utils.go` of Kubernetes' `pkg/controller/statefulset`.

use std::sync::Arc;

use podstorm_objects::{Kind, ObjectMeta, OwnerReference, OwnerReferences};
use serde_json::Value;

use super::identity::ordinal_of;
use super::spec::SetSpec;

/// What becomes of claims when their pod or set goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They stay.
    #[default]
    Retain,
    /// They go, too.
    Delete,
    /// A text that Kubernetes doesn't define.
    Other,
}

/// `persistentVolumeClaimRetentionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// When the set is deleted.
    pub when_deleted: Policy,
    /// When the set is scaled down.
    pub when_scaled: Policy,
}

impl RetentionPolicy {
    /// Reads it; absent, claims stay.
    pub fn read(value: &Value) -> RetentionPolicy {
        let policy = |name: &str| match value[name].as_str() {
            _ if value.is_null() => Policy::Retain,
            Some("Retain") => Policy::Retain,
            Some("Delete") => Policy::Delete,
            _ => Policy::Other,
        };
        RetentionPolicy {
            when_deleted: policy("whenDeleted"),
            when_scaled: policy("whenScaled"),
        }
    }
}

/// Who may own a claim: a set, and the pod of one ordinal.
#[derive(Clone, Copy, Debug)]
pub struct Owners<'a> {
    policy: RetentionPolicy,
    set: Owner<'a>,
    /// Without a UID for a pod that is not created.
    pod: Owner<'a>,
    is_out_of_range: bool,
}

/// A kind and the metadata of an object of it.
#[derive(Clone, Copy, Debug)]
struct Owner<'a>(Kind, &'a ObjectMeta);

impl<'a> Owners<'a> {
    /// The owners of the claims of a pod.
    pub fn new(set: &'a ObjectMeta, spec: &SetSpec, pod: &'a ObjectMeta) -> Owners<'a> {
        Owners {
            policy: spec.policy,
            set: Owner(Kind::STATEFUL_SET, set),
            pod: Owner(Kind::POD, pod),
            is_out_of_range: !spec.has_ordinal(ordinal_of(pod)),
        }
    }

    /// The owner that the policy wants.
    fn wanted(&self) -> Option<Owner<'a>> {
        let RetentionPolicy {
            when_deleted,
            when_scaled,
        } = self.policy;
        match (when_scaled, when_deleted) {
            (Policy::Delete, Policy::Retain | Policy::Delete) if self.is_out_of_range => {
                Some(self.pod)
            }
            (Policy::Retain | Policy::Delete, Policy::Delete) => Some(self.set),
            _ => None,
        }
    }

    /// Whether a claim belongs to the pod that had this one's name before.
    pub fn is_of_earlier_pod(&self, refs: &[Arc<OwnerReference>]) -> bool {
        self.pod.is_stale(refs)
    }

    /// Whether something else controls the claim, or an earlier pod or set owns it. If claims stay anyway, it does not matter.
    pub fn has_unexpected_controller(&self, refs: &[Arc<OwnerReference>]) -> bool {
        let is_unexpected = |owner: &Arc<OwnerReference>| {
            let expected = [self.set, self.pod].into_iter();
            match expected.into_iter().find(|it| it.is_named(owner)) {
                Some(expected) => owner.uid != expected.1.uid,
                None => owner.controller == Some(true),
            }
        };
        let stays = RetentionPolicy::default();
        self.policy != stays && refs.iter().any(is_unexpected)
    }

    /// Whether a claim has the owners that the policy wants, or must not be touched.
    pub fn are_up_to_date(&self, refs: &[Arc<OwnerReference>]) -> bool {
        if self.set.is_stale(refs) || self.pod.is_stale(refs) {
            return true;
        }
        let (has_set, has_pod) = (self.set.is_among(refs), self.pod.is_among(refs));
        if self.has_unexpected_controller(refs) {
            return !has_set && !has_pod;
        }
        let is_ours = |it: &OwnerReference| it.uid == self.set.1.uid || it.uid == self.pod.1.uid;
        let has_non_controller = refs
            .iter()
            .any(|it| is_ours(it) && it.controller != Some(true));
        let wanted = self.wanted().map(|owner| owner.0);
        !has_non_controller
            && has_set == (wanted == Some(Kind::STATEFUL_SET))
            && has_pod == (wanted == Some(Kind::POD))
    }

    /// The owners that a claim with these should have.
    pub fn corrected(&self, refs: &OwnerReferences) -> OwnerReferences {
        let mut corrected = refs.clone();
        corrected.retain(|it| !self.set.is_named(it) && !self.pod.is_named(it));
        if !self.has_unexpected_controller(refs)
            && let Some(wanted) = self.wanted()
            && !wanted.is_among(&corrected)
        {
            corrected.push(Arc::new(wanted.0.controller_reference(wanted.1)));
        }
        corrected
    }
}

impl Owner<'_> {
    /// Whether a reference names the object, or one of that name with another UID.
    fn is_named(&self, reference: &OwnerReference) -> bool {
        let Owner(kind, meta) = self;
        *reference.name == *meta.name
            && *reference.kind == *kind.name()
            && *reference.api_version == *kind.api_version()
    }

    /// Whether the object that the references name first is gone, and this one has its name.
    fn is_stale(&self, refs: &[Arc<OwnerReference>]) -> bool {
        let first = refs.iter().find(|it| self.is_named(it));
        first.is_some_and(|it| it.uid != self.1.uid)
    }

    fn is_among(&self, refs: &[Arc<OwnerReference>]) -> bool {
        refs.iter().any(|it| it.uid == self.1.uid)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_owned_by_what_it_goes_with() {
        let meta = |name: &str| {
            let meta = json!({"name": name, "uid": name});
            ObjectMeta::from_json(meta).expect("metadata")
        };
        let (set, pods) = (meta("web"), [meta("web-0"), meta("web-1")]);
        let policy = |when_scaled: &str, when_deleted: &str| {
            let policy = json!({"whenScaled": when_scaled, "whenDeleted": when_deleted});
            SetSpec {
                replicas: 1,
                policy: RetentionPolicy::read(&policy),
                ..SetSpec::default()
            }
        };
        for (scaled, deleted, [inside, outside]) in [
            ("Retain", "Retain", ["", ""]),
            ("Retain", "Delete", ["web", "web"]),
            ("Delete", "Retain", ["", "web-1"]),
            ("Delete", "Delete", ["web", "web-1"]),
        ] {
            let spec = policy(scaled, deleted);
            for (pod, wanted) in pods.iter().zip([inside, outside]) {
                let owners = Owners::new(&set, &spec, pod);
                let none = OwnerReferences::new();
                let corrected = owners.corrected(&none);
                let names: Vec<&str> = corrected.iter().map(|it| &*it.name).collect();
                assert_eq!(names.concat(), wanted, "{scaled} {deleted}");
                assert!(owners.are_up_to_date(&corrected));
                assert_eq!(owners.are_up_to_date(&none), wanted.is_empty());
            }
        }
    }
}
