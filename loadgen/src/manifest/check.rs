//! What the API server would refuse, said before the run instead of during it.

use std::sync::{Arc, RwLock};

use ahash::RandomState;
use hashbrown::HashTable;
use podstorm::client::Cause;
use podstorm_apiserver::Strategy;
use podstorm_apiserver::defaulting::{
    default_pod, default_replica_set, default_replication_controller,
};
use podstorm_apiserver::validation::{
    validate_namespace, validate_node, validate_pod, validate_pod_of_judged_spec,
    validate_replica_set, validate_replication_controller,
};
use podstorm_objects::{DecodeError, FieldPath, ObjectMeta, Pod, PodSpec, Uid};

use crate::input::InputObject;

/// Specs of pods that lack no default and break no rule on any node: those of a dump are few, and its
/// pods many.
#[derive(Debug)]
pub(super) struct JudgedSpecs {
    known: RwLock<HashTable<Arc<PodSpec>>>,
    hasher: RandomState,
}

impl JudgedSpecs {
    pub(super) fn new() -> JudgedSpecs {
        JudgedSpecs {
            known: RwLock::default(),
            hasher: RandomState::with_seeds(5, 6, 7, 8),
        }
    }

    /// Sets defaults and tells what is broken.
    fn judge(&self, pod: &mut Pod) -> Vec<Cause> {
        let hash = self.hasher.hash_one(&*pod.spec);
        let known = self.known.read().expect("no holder panics");
        if let Some(same) = known.find(hash, |known| *known == pod.spec) {
            pod.spec.clone_from(same);
            return validate_pod_of_judged_spec(pod);
        }
        drop(known);
        let came = pod.spec.clone();
        default_pod(pod);
        let causes = validate_pod(pod, false);
        if causes.is_empty() && came == pod.spec && !came.is_gated {
            let rehash = |known: &Arc<PodSpec>| self.hasher.hash_one(&**known);
            let mut known = self.known.write().expect("no holder panics");
            if known.find(hash, |known| *known == came).is_none() {
                known.insert_unique(hash, came, rehash);
            }
        }
        causes
    }
}

/// Sets what the server sets where nothing is said, and tells the first rule that is broken.
pub(super) fn default_and_check(
    object: &mut InputObject,
    judged: &JudgedSpecs,
) -> Result<(), DecodeError> {
    check_metadata(object)?;
    let causes = match object {
        InputObject::Namespace(namespace) => validate_namespace(namespace),
        InputObject::Node(node) => validate_node(node),
        InputObject::Pod(pod) => judged.judge(pod),
        InputObject::ReplicaSet(replica_set) => {
            default_replica_set(replica_set);
            validate_replica_set(replica_set)
        }
        InputObject::ReplicationController(controller) => {
            default_replication_controller(controller);
            validate_replication_controller(controller)
        }
        InputObject::Dynamic(object) => {
            object.set_defaults(None);
            object.validate_create()
        }
    };
    match causes.into_iter().next() {
        Some(Cause { message, field, .. }) => Err(error(&field, message)),
        None => Ok(()),
    }
}

/// What creation doesn't judge since it sets these members itself; a dump brings them.
fn check_metadata(object: &InputObject) -> Result<(), DecodeError> {
    let meta = object.metadata();
    if meta.name.is_empty() && meta.generate_name.is_none() {
        return Err(error(
            "metadata.name",
            "is missing; every object has a name",
        ));
    }
    if !object.kind().is_namespaced() && !meta.namespace.is_empty() {
        return Err(error(
            "metadata.namespace",
            format!("a {} is in no namespace; remove it", object.kind().name()),
        ));
    }
    check_uids(meta)
}

fn check_uids(meta: &ObjectMeta) -> Result<(), DecodeError> {
    if !meta.uid.is_empty() && !is_uuid(&meta.uid) {
        return Err(not_a_uuid("metadata.uid", &meta.uid));
    }
    for (index, owner) in meta.owner_references.iter().enumerate() {
        // An empty one is told with the other rules of owner references.
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
            "expected a UID such as 7f420cbd-206a-47ea-a64a-f37288a6840d, found {text:?}; leave \
             metadata.uid out to have one made"
        ),
    )
}

/// Whether a UID is of the form that every API server gives out.
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
