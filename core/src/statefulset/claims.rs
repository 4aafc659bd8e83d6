//! Owner references of claims, by `persistentVolumeClaimRetentionPolicy`. A claim that must be
//! deleted with a pod or a set is owned by that object, and garbage collection does the rest.
//!
//! Source: `stateful_set_utils.go` of Kubernetes' `pkg/controller/statefulset`.

use std::sync::Arc;

use podstorm_objects::{Kind, ObjectMeta, OwnerReference, OwnerReferences};
use serde_json::Value;

use super::identity::ordinal_of;
use super::spec::SetSpec;

/// Whether claims are kept when their pod or set is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The claims stay.
    #[default]
    Retain,
    /// The claims are deleted, too.
    Delete,
    /// The policy is a value that Kubernetes doesn't define.
    Other,
}

/// The `persistentVolumeClaimRetentionPolicy` of a StatefulSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// The policy for claims when the set is deleted.
    pub when_deleted: Policy,
    /// The policy for claims when the set is scaled down.
    pub when_scaled: Policy,
}

impl RetentionPolicy {
    /// Reads the policy. If it is absent, claims stay.
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

/// The possible owners of a claim: a set, and the pod with one ordinal.
#[derive(Clone, Copy, Debug)]
pub struct Owners<'a> {
    policy: RetentionPolicy,
    set: Owner<'a>,
    /// The pod; without a UID if it has not been created yet.
    pod: Owner<'a>,
    is_out_of_range: bool,
}

/// The kind and metadata of a possible owner.
#[derive(Clone, Copy, Debug)]
struct Owner<'a>(Kind, &'a ObjectMeta);

impl<'a> Owners<'a> {
    /// Returns the possible owners of a pod's claims.
    pub fn new(set: &'a ObjectMeta, spec: &SetSpec, pod: &'a ObjectMeta) -> Owners<'a> {
        Owners {
            policy: spec.policy,
            set: Owner(Kind::STATEFUL_SET, set),
            pod: Owner(Kind::POD, pod),
            is_out_of_range: !spec.has_ordinal(ordinal_of(pod)),
        }
    }

    /// Returns the owner that the policy requires; `None` if it requires none.
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

    /// Reports whether an earlier pod of the same name owns a claim with these owners.
    pub fn is_of_earlier_pod(&self, refs: &[Arc<OwnerReference>]) -> bool {
        self.pod.is_stale(refs)
    }

    /// Reports whether another object controls the claim, or an earlier pod or set owns it. Always
    /// `false` if the policy retains all claims.
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

    /// Reports whether these owners are those that the policy requires, or must not be changed.
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

    /// Returns the owners that a claim with the owners `refs` should have.
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
    /// Reports whether a reference has the object's kind and name, whatever its UID is.
    fn is_named(&self, reference: &OwnerReference) -> bool {
        let Owner(kind, meta) = self;
        *reference.name == *meta.name
            && *reference.kind == *kind.name()
            && *reference.api_version == *kind.api_version()
    }

    /// Reports whether the first reference with this kind and name is to an earlier object.
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
    fn a_claim_is_owned_by_the_object_it_is_deleted_with() {
        let meta = |name: &str| {
            let meta = json!({"name": name, "uid": name});
            ObjectMeta::from_json(meta).expect("the metadata is valid")
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
