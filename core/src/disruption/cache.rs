//! The cached budgets, and the cached controllers of pods. Other workloads read these controllers
//! in the same forms.

use std::sync::Arc;

use podstorm_objects::disruption::Budget;
use podstorm_objects::{
    AnyObject, DynamicObject, Kind, Object, ObjectReference, OwnerReference, Selector,
    SelectorError, Uid,
};
use podstorm_runtime::informer::{Informed, Informers};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::{Cached, Store};

use crate::deployment::CachedDeployment;
use crate::replicaset::{Owner, OwnerStore, owners};

/// A cached PodDisruptionBudget.
#[derive(Debug)]
pub(super) struct CachedBudget {
    object: Arc<DynamicObject>,
    pub(super) budget: Budget,
    /// The compiled selector, or the compile error.
    pub(super) selector: Result<Arc<Selector>, SelectorError>,
    /// The reference that Events about the budget carry.
    pub(super) reference: Arc<ObjectReference>,
}

impl Cached for CachedBudget {
    type Object = DynamicObject;
    type Context = ();

    fn derive(object: Arc<DynamicObject>, _: KeyId, old: Option<&Self>, (): &()) -> Self {
        let budget = Budget::from_object(&object);
        let selector = match old {
            Some(old) if old.budget.selector == budget.selector => old.selector.clone(),
            _ => budget.compiled().map(Arc::new),
        };
        CachedBudget {
            reference: Arc::new(budget.reference()),
            object,
            budget,
            selector,
        }
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.object
    }
}

impl Informed for CachedBudget {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}

/// The stores that the disruption controller reads.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) budgets: Arc<Store<CachedBudget>>,
    sets: Arc<OwnerStore>,
    replication_controllers: Arc<OwnerStore>,
    deployments: Arc<Store<CachedDeployment>>,
    stateful_sets: Arc<Store<AnyObject>>,
}

/// The UID of a controller of pods, and the number of pods that it wants.
pub(super) type UidAndScale = (Uid, i64);

impl Caches {
    pub(super) fn new(informers: &mut Informers) -> Caches {
        Caches {
            budgets: informers.store(Kind::POD_DISRUPTION_BUDGET, || ()),
            sets: owners::store(Kind::REPLICA_SET, informers),
            replication_controllers: owners::store(Kind::REPLICATION_CONTROLLER, informers),
            deployments: informers.store(Kind::DEPLOYMENT, || ()),
            stateful_sets: informers.store(Kind::STATEFUL_SET, || ()),
        }
    }

    /// Resolves the controller reference of a pod to a ReplicationController, a ReplicaSet or its
    /// Deployment, or a StatefulSet. Returns `None` for a controller that is not cached or is of
    /// another kind.
    ///
    /// # Errors
    /// Fails if `apiVersion` is invalid.
    ///
    /// Source: the finders of Kubernetes' `pkg/controller/disruption`.
    pub(super) fn find(
        &self,
        namespace: &str,
        reference: &OwnerReference,
    ) -> Result<Option<UidAndScale>, String> {
        let of_owner = |owner: &Owner| {
            let replicas = owner.object.spec.replicas.unwrap_or(1);
            (owner.object.metadata.uid.clone(), replicas.into())
        };
        let group = group_of(&reference.api_version)?;
        Ok(match &*reference.kind {
            "ReplicationController" if group.is_empty() => {
                let found = self.replication_controllers.resolve(namespace, reference);
                found.map(|(_, owner)| of_owner(&owner))
            }
            "ReplicaSet" if is_of_apps(group) => {
                let Some((_, set)) = self.sets.resolve(namespace, reference) else {
                    return Ok(None);
                };
                match set.object.metadata.controller() {
                    Some(owner) if *owner.kind == *Kind::DEPLOYMENT.name() => {
                        let is_deployment = is_of_apps(group_of(&owner.api_version)?);
                        let found = self.deployments.resolve(namespace, owner);
                        found.filter(|_| is_deployment).map(|(_, deployment)| {
                            let object = &deployment.object;
                            let replicas = object.spec.replicas.unwrap_or(1);
                            (object.metadata.uid.clone(), replicas.into())
                        })
                    }
                    Some(owner) => group_of(&owner.api_version).map(|_| Some(of_owner(&set)))?,
                    None => Some(of_owner(&set)),
                }
            }
            "StatefulSet" if group == "apps" => {
                let found = self.stateful_sets.resolve(namespace, reference);
                found.map(|(_, set)| (set.metadata().uid.clone(), replicas_of(&**set)))
            }
            _ => None,
        })
    }
}

fn is_of_apps(group: &str) -> bool {
    matches!(group, "apps" | "extensions")
}

/// Returns `spec.replicas` of an object; 1 if it is absent.
fn replicas_of(object: &dyn Object) -> i64 {
    let object = object.downcast_ref::<DynamicObject>();
    let spec = object.and_then(|object| object.fields.get("spec"));
    spec.and_then(|spec| spec["replicas"].as_i64()).unwrap_or(1)
}

/// Returns the group of an `apiVersion`; empty for the core group.
fn group_of(api_version: &str) -> Result<&str, String> {
    match api_version.split_once('/') {
        None => Ok(""),
        Some((_, version)) if version.contains('/') => {
            Err(format!("unexpected GroupVersion string: {api_version}"))
        }
        Some((group, _)) => Ok(group),
    }
}
