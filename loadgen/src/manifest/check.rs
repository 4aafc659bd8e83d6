//! Validates the objects of files like the API server does, so that they are refused before the run
//! and not during it.

use std::sync::{Arc, RwLock};

use ahash::RandomState;
use hashbrown::HashTable;
use podstorm::client::Cause;
use podstorm_apiserver::defaulting::default_pod;
use podstorm_apiserver::validation::{
    allow_privileged, validate_namespace, validate_node, validate_pod, validate_pod_except_spec,
};
use podstorm_apiserver::{Strategy, validate_loaded};
use podstorm_objects::{DecodeError, FieldPath, ObjectMeta, Pod, PodSpec, Uid};

use super::Kinds;
use crate::input::{InputObject, TypedOwner};

/// Cache of pod specs that are valid on every node, each before and after defaulting. A dump has
/// few distinct specs but many pods and templates.
#[derive(Debug)]
pub(super) struct CheckedSpecs {
    of_pods: Specs,
    of_templates: Specs,
    /// The kinds to take from files.
    pub(super) kinds: Kinds,
}

impl CheckedSpecs {
    pub(super) fn new(kinds: Kinds) -> CheckedSpecs {
        CheckedSpecs {
            kinds,
            of_pods: Specs::new(),
            of_templates: Specs::new(),
        }
    }

    /// Sets a pod's defaults and returns the rules that the pod violates.
    fn check_pod(&self, pod: &mut Pod) -> Vec<Cause> {
        if let Some(filled) = self.of_pods.get(&pod.spec) {
            pod.spec = filled;
            return validate_pod_except_spec(pod);
        }
        let came = pod.spec.clone();
        default_pod(pod);
        let mut causes = validate_pod(pod, false);
        allow_privileged(&mut causes);
        if causes.is_empty() {
            self.of_pods.put(came, &pod.spec);
        }
        causes
    }

    /// Sets the defaults of an owner of pods and returns the rules that the owner violates.
    fn check_owner(&self, owner: &mut dyn TypedOwner) -> Vec<Cause> {
        let came = owner.template().map(|template| template.spec.clone());
        let known = came.as_ref().and_then(|came| self.of_templates.get(came));
        owner.set_defaults(known.as_ref());
        if known.is_some() {
            return owner.broken_rules(true);
        }
        let mut causes = owner.broken_rules(false);
        allow_privileged(&mut causes);
        if causes.is_empty()
            && let Some((came, template)) = came.zip(owner.template())
        {
            self.of_templates.put(came, &template.spec);
        }
        causes
    }
}

/// Specs as they came, each with its defaulted form.
#[derive(Debug)]
struct Specs {
    known: RwLock<HashTable<(Arc<PodSpec>, Arc<PodSpec>)>>,
    hasher: RandomState,
}

impl Specs {
    fn new() -> Specs {
        Specs {
            known: RwLock::default(),
            hasher: RandomState::with_seeds(5, 6, 7, 8),
        }
    }

    fn get(&self, came: &Arc<PodSpec>) -> Option<Arc<PodSpec>> {
        let known = self
            .known
            .read()
            .expect("nothing panics while the lock is held");
        let found = known.find(self.hasher.hash_one(came), |(known, _)| known == came);
        found.map(|(_, filled)| filled.clone())
    }

    fn put(&self, came: Arc<PodSpec>, filled: &Arc<PodSpec>) {
        // Whether a gated spec is valid depends on the pod's node.
        if came.is_gated {
            return;
        }
        let hash = self.hasher.hash_one(&came);
        let mut known = self
            .known
            .write()
            .expect("nothing panics while the lock is held");
        if known.find(hash, |(known, _)| *known == came).is_none() {
            let rehash = |(known, _): &(Arc<PodSpec>, _)| self.hasher.hash_one(known);
            known.insert_unique(hash, (came, filled.clone()), rehash);
        }
    }
}

/// Sets the defaults that the server would set.
///
/// # Errors
/// The first rule that the object violates.
pub(super) fn default_and_check(
    object: &mut InputObject,
    checked: &CheckedSpecs,
) -> Result<(), DecodeError> {
    check_metadata(object)?;
    let mut causes = match object {
        InputObject::Namespace(namespace) => validate_namespace(namespace, false),
        InputObject::Node(node) => validate_node(node),
        InputObject::Pod(pod) => checked.check_pod(pod),
        InputObject::Owner(owner) => checked.check_owner(&mut **owner),
        InputObject::Dynamic(object) => {
            object.set_defaults(None);
            validate_loaded(&**object)
        }
    };
    // Whether privileged pods are allowed depends on the cluster, which checks the object next.
    allow_privileged(&mut causes);
    match causes.into_iter().next() {
        Some(Cause { message, field, .. }) => Err(error(&field, message)),
        None => Ok(()),
    }
}

/// Checks the metadata that a server sets when it creates an object and therefore does not
/// validate. A dump contains this metadata.
fn check_metadata(object: &InputObject) -> Result<(), DecodeError> {
    let meta = object.metadata();
    if meta.name.is_empty() && meta.generate_name.is_none() {
        return Err(error(
            "metadata.name",
            "is missing; every object needs a name",
        ));
    }
    check_uids(meta)
}

fn check_uids(meta: &ObjectMeta) -> Result<(), DecodeError> {
    if !meta.uid.is_empty() && !is_uuid(&meta.uid) {
        return Err(not_a_uuid("metadata.uid", &meta.uid));
    }
    for (index, owner) in meta.owner_references.iter().enumerate() {
        // An empty UID is reported together with the other rules for owner references.
        if !owner.uid.is_empty() && !is_uuid(&owner.uid) {
            let path = format!("metadata.ownerReferences[{index}].uid");
            return Err(not_a_uuid(&path, &owner.uid));
        }
    }
    Ok(())
}

fn not_a_uuid(path: &str, uid: &Uid) -> DecodeError {
    let text = uid.to_string();
    error(
        path,
        format!(
            "expected a UID such as 7f420cbd-206a-47ea-a64a-f37288a6840d, found {text:?}; remove \
             metadata.uid to have one generated"
        ),
    )
}

/// Reports whether a UID has the form that every API server generates.
fn is_uuid(uid: &Uid) -> bool {
    let text = uid.to_string();
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

fn error(path: &str, problem: impl Into<String>) -> DecodeError {
    DecodeError {
        path: FieldPath(path.to_owned()),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{ReplicaSet, Resource};
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &str) -> InputObject {
        let container = json!({"name": "c", "image": "i"});
        InputObject::Pod(read(json!({"metadata": {"name": name, "namespace": "n"},
            "spec": {"containers": [container], "nodeName": node}})))
    }

    fn replica_set(name: &str, label: &str, node: &str) -> InputObject {
        let template = json!({"metadata": {"labels": {"app": label}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": node}});
        InputObject::Owner(read::<ReplicaSet>(
            json!({"metadata": {"name": name, "namespace": "n"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}}),
        ))
    }

    fn read<R: Resource>(value: Value) -> Box<R> {
        Box::new(R::from_json(value).unwrap())
    }

    #[test]
    fn a_known_spec_is_defaulted_and_checked_like_a_new_one() {
        let objects = || {
            [
                pod("a", "node-1"),
                pod("b", "node-2"),
                pod("b", "No Node"),
                pod("No Name", "node-1"),
                replica_set("a", "a", ""),
                replica_set("b", "a", "node-1"),
                replica_set("b", "a", "No Node"),
                replica_set("b", "other", ""),
                replica_set("No Name", "a", ""),
            ]
        };
        let checked = CheckedSpecs::new(Kinds::Simulated);
        let mut refused = 0;
        for (mut one, mut other) in objects().into_iter().zip(objects()) {
            let found = default_and_check(&mut one, &checked);
            let alone = CheckedSpecs::new(Kinds::Simulated);
            assert_eq!(found, default_and_check(&mut other, &alone));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
            refused += usize::from(found.is_err());
        }
        assert_eq!(refused, 5);
        assert_eq!(checked.of_pods.known.read().unwrap().len(), 1);
        assert_eq!(checked.of_templates.known.read().unwrap().len(), 1);
    }

    #[test]
    fn a_gated_spec_is_checked_for_each_node() {
        let gated = |node: Option<&str>| -> InputObject {
            let mut value = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {
                "containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "g"}]}});
            if let Some(node) = node {
                value["spec"]["nodeName"] = node.into();
            }
            InputObject::Pod(read(value))
        };
        let checked = CheckedSpecs::new(Kinds::Simulated);
        assert_eq!(default_and_check(&mut gated(None), &checked), Ok(()));
        assert!(default_and_check(&mut gated(Some("n1")), &checked).is_err());
    }
}
