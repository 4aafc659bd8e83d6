//! What is done to pods far more often than anything else: creating them from one body, binding
//! them, writing their status, adopting and releasing them.

use std::sync::Arc;

use podstorm::client::{ApiError, PodPatch};
use podstorm::object::{
    ConditionStatus, ConditionType, Kind, Now, Pod, PodCondition, PodStatus, ResourceVersion, Str,
    Time, Uid,
};

use super::counts::{Tally, Verb};
use super::name::mix;
use super::write::{Update, prepare_and_validate, validate_create};
use super::{Cluster, ClusterResource, Lock, errors, meta};

/// Bodies that are remembered; two that fall into one place displace each other.
const BODIES: usize = 64;

/// Pods that are ready to be stored but for what each has of its own, by the body they came from.
///
/// A controller's burst creates hundreds of pods from one body; defaulting, validation and the
/// first status are done once, and the pods share what comes of it.
#[derive(Debug)]
pub(super) struct BodyCache {
    /// By address of the body, which the entry keeps alive.
    places: Box<[Lock<Option<Arc<Prepared>>>]>,
}

#[derive(Debug)]
struct Prepared {
    body: Arc<Pod>,
    namespace: Str,
    pod: Pod,
}

impl BodyCache {
    pub(super) fn new() -> BodyCache {
        BodyCache {
            places: (0..BODIES).map(|_| Lock::new(None)).collect(),
        }
    }

    fn place(&self, body: &Arc<Pod>) -> &Lock<Option<Arc<Prepared>>> {
        let address = Arc::as_ptr(body).addr() as u64;
        &self.places[mix(address) as usize % BODIES]
    }
}

impl Cluster {
    /// Creates a pod in `namespace` from a body that other pods share; what a
    /// [`create`](Cluster::create) of a copy would do, at the cost of copying one small struct.
    ///
    /// # Errors
    /// As [`create`](Cluster::create); 400 when the body names another namespace.
    pub fn create_pod(
        &self,
        namespace: &Str,
        body: &Arc<Pod>,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        let place = self.bodies.place(body);
        let known = place.lock().clone();
        let known = known.filter(|known| {
            Arc::ptr_eq(&known.body, body)
                && (Arc::ptr_eq(&known.namespace, namespace) || known.namespace == *namespace)
        });
        if let Some(known) = known {
            self.admit_create(Kind::Pod, &known.pod.metadata)?;
            return self.store_new(known.pod.clone(), now);
        }
        let prepared = self.prepare_body(namespace, body)?;
        let pod = prepared.pod.clone();
        // Bodies with a name serve for one pod.
        if pod.metadata.name.is_empty() {
            let displaced = place.lock().replace(Arc::new(prepared));
            drop(displaced);
        }
        self.store_new(pod, now)
    }

    fn prepare_body(&self, namespace: &Str, body: &Arc<Pod>) -> Result<Prepared, ApiError> {
        let mut pod = Pod::clone(body);
        if pod.metadata.namespace.is_empty() {
            pod.metadata.namespace = namespace.clone().into();
        } else if *pod.metadata.namespace != **namespace {
            return Err(errors::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
        self.admit_create(Kind::Pod, &pod.metadata)?;
        pod.set_defaults();
        pod.prepare_for_create();
        let metadata = &mut pod.metadata;
        metadata.resource_version = ResourceVersion::Unset;
        metadata.generation = 1;
        metadata.deletion_timestamp = Time::UNSET;
        metadata.deletion_grace_period_seconds = None;
        meta::drop_repeated_owners(&mut metadata.owner_references);
        validate_create(&pod)?;
        Ok(Prepared {
            body: body.clone(),
            namespace: namespace.clone(),
            pod,
        })
    }

    /// Binds a pod to a node (`POST` to `/binding`): sets `spec.nodeName` and the condition
    /// `PodScheduled`. The generation stays.
    ///
    /// # Errors
    /// 404; 409 when the pod is bound, being deleted or has scheduling gates.
    pub fn bind(
        &self,
        namespace: &str,
        name: &str,
        node: &Str,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        let tally = Tally {
            bound: true,
            ..Tally::of(Verb::Bind)
        };
        self.modify::<Pod>(namespace, name, now, |old| {
            let refuse = |why: String| Err(errors::conflict("pods/binding", name, &why));
            if old.metadata.is_deleting() {
                return refuse(format!(
                    "pod {name} is being deleted, cannot be assigned to a host"
                ));
            }
            if let Some(node) = old.node_name.as_deref().filter(|node| !node.is_empty()) {
                return refuse(format!("pod {name} is already assigned to node {node:?}"));
            }
            let gates = old
                .spec
                .fields
                .get("schedulingGates")
                .and_then(|gates| gates.as_array());
            if gates.is_some_and(|gates| !gates.is_empty()) {
                return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
            }
            let mut new = Pod::clone(old);
            new.node_name = Some(node.clone());
            set_condition_true(&mut new.status, ConditionType::PodScheduled, now.wall());
            Ok(Update::Write(new, tally))
        })
    }

    /// Writes a pod's status as a kubelet patches it: onto whatever version is stored, provided
    /// that the pod still has this UID.
    ///
    /// # Errors
    /// 404; 409 for another UID; 422 for a broken rule.
    pub fn patch_pod_status(
        &self,
        namespace: &str,
        name: &str,
        uid: &Uid,
        status: PodStatus,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        let tally = Tally::of(Verb::PatchStatus);
        self.modify::<Pod>(namespace, name, now, |old| {
            if old.metadata.uid != *uid {
                return Err(errors::uid_mismatch("pods", name, uid, &old.metadata.uid));
            }
            let mut new = Pod::clone(old);
            new.status = status.clone();
            prepare_and_validate(&mut new, old, tally.verb)?;
            Ok(Update::Write(new, tally))
        })
    }

    /// Adopts or releases a pod: the controller's strategic merge patch of its owner references,
    /// in typed form.
    ///
    /// # Errors
    /// 404; 422 when the pod has another UID or would get a second controller.
    pub fn patch_pod_owner(
        &self,
        namespace: &str,
        name: &str,
        patch: &PodPatch,
        now: Now,
    ) -> Result<Arc<Pod>, ApiError> {
        let tally = Tally::of(Verb::Patch);
        self.modify::<Pod>(namespace, name, now, |old| {
            let mut new = Pod::clone(old);
            let owners = &mut new.metadata.owner_references;
            match patch {
                PodPatch::Adopt { owner, pod_uid } => {
                    new.metadata.uid = pod_uid.clone();
                    match owners.iter_mut().find(|probe| probe.uid == owner.uid) {
                        Some(same) => *same = owner.clone(),
                        // As the merge by UID does: what is new comes first.
                        None => owners.insert(0, owner.clone()),
                    }
                }
                PodPatch::Release { owner_uid, pod_uid } => {
                    new.metadata.uid = pod_uid.clone();
                    owners.retain(|probe| probe.uid != *owner_uid);
                }
            }
            prepare_and_validate(&mut new, old, tally.verb)?;
            Ok(Update::Write(new, tally))
        })
    }
}

/// Sets a condition to `True`; its transition time moves only if it was not.
pub(super) fn set_condition_true(status: &mut PodStatus, kind: ConditionType, now: Time) {
    let new = PodCondition {
        kind,
        status: ConditionStatus::True,
        last_transition_time: now,
        rest: None,
    };
    match status
        .conditions
        .iter_mut()
        .find(|condition| condition.kind == kind)
    {
        Some(same) if same.status == ConditionStatus::True => {}
        Some(other) => *other = new,
        None => status.conditions.push(new),
    }
}
