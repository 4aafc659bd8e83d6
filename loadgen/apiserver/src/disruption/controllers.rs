//! How many pods the controllers of a budget's pods want.
//!
//! Source: `getExpectedScale` and the finders of Kubernetes' `pkg/controller/disruption`.

use std::collections::BTreeMap;

use podstorm_objects::{
    ApiError, Kind, OwnerReference, Pod, ReplicaSet, ReplicationController, Uid,
};

use crate::scale::Scalable;
use crate::store::KindStore;
use crate::{Cluster, Strategy, builtin};

/// What is known of the controllers of pods.
pub trait Controllers {
    /// A ReplicationController, Deployment, ReplicaSet or StatefulSet.
    fn workload(&self, kind: Kind, namespace: &str, name: &str) -> Option<PodController>;

    /// The kind with that `apiVersion` and `kind`.
    fn kind(&self, api_version: &str, kind: &str) -> Option<Kind>;

    /// UID and `spec.replicas` of the `/scale` of an object.
    ///
    /// # Errors
    /// 404 for a missing object, or a kind without a scale.
    fn scale(&self, kind: Kind, namespace: &str, name: &str) -> Result<(Uid, i64), ApiError>;
}

/// A controller of pods.
#[derive(Clone, Debug, PartialEq)]
pub struct PodController {
    /// Its UID.
    pub uid: Uid,
    /// `spec.replicas`, 1 where absent.
    pub replicas: i64,
    /// Its own controller.
    pub controller: Option<OwnerReference>,
}

/// The sum of scales.
pub(super) struct Scales {
    pub(super) pods: i64,
    /// Whether a pod has no controller.
    pub(super) unmanaged: bool,
}

/// The sum of the scales of all controllers of these pods.
pub(super) fn expected_scale(
    pods: &[&Pod],
    controllers: &dyn Controllers,
) -> Result<Scales, String> {
    let mut scales: BTreeMap<Uid, i64> = BTreeMap::new();
    let mut unmanaged = false;
    for pod in pods {
        let Some(reference) = pod.metadata.controller() else {
            unmanaged = true;
            continue;
        };
        if scales.contains_key(&reference.uid) {
            continue;
        }
        let found = find(reference, &pod.metadata.namespace, controllers)?;
        let (uid, replicas) = found
            .ok_or_else(|| format!("found no controllers for pod {:?}", &*pod.metadata.name))?;
        scales.insert(uid, replicas);
    }
    Ok(Scales {
        pods: scales.into_values().sum(),
        unmanaged,
    })
}

/// UID and scale of the controller that a pod's reference leads to.
fn find(
    reference: &OwnerReference,
    namespace: &str,
    controllers: &dyn Controllers,
) -> Result<Option<(Uid, i64)>, String> {
    let (group, version) = group_and_version(&reference.api_version)?;
    let look = |kind: Kind, reference: &OwnerReference| {
        let found = controllers.workload(kind, namespace, &reference.name);
        found.filter(|found| found.uid == reference.uid)
    };
    let of_apps = |group: &str| matches!(group, "apps" | "extensions");
    let cached = match &*reference.kind {
        "ReplicationController" if group.is_empty() => {
            look(Kind::REPLICATION_CONTROLLER, reference)
        }
        "ReplicaSet" if of_apps(group) => match look(Kind::REPLICA_SET, reference) {
            Some(set) => match &set.controller {
                None => Some(set),
                Some(owner) => {
                    let (group, _) = group_and_version(&owner.api_version)?;
                    match &*owner.kind {
                        "Deployment" if of_apps(group) => look(Kind::DEPLOYMENT, owner),
                        "Deployment" => None,
                        _ => Some(set),
                    }
                }
            },
            None => None,
        },
        "StatefulSet" if group == "apps" => look(builtin::STATEFUL_SET, reference),
        _ => None,
    };
    if let Some(found) = cached {
        return Ok(Some((found.uid, found.replicas)));
    }
    let Some(kind) = controllers.kind(&reference.api_version, &reference.kind) else {
        let version = match group {
            "" => version,
            _ => &reference.api_version,
        };
        let kind = &*reference.kind;
        return Err(format!(
            "no matches for kind {kind:?} in version {version:?}"
        ));
    };
    match controllers.scale(kind, namespace, &reference.name) {
        Ok((uid, replicas)) => Ok((uid == reference.uid).then_some((uid, replicas))),
        Err(error) if !error.is_not_found() => Err(error.message),
        Err(_) if kind.row().has_scale => Ok(None),
        Err(_) => Err(format!(
            "{} does not implement the scale subresource",
            kind.group_resource()
        )),
    }
}

/// The parts of an `apiVersion`; the group of the core's is empty.
fn group_and_version(api_version: &str) -> Result<(&str, &str), String> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((_, version)) if version.contains('/') => {
            Err(format!("unexpected GroupVersion string: {api_version}"))
        }
        Some(parts) => Ok(parts),
    }
}

impl Controllers for Cluster {
    fn workload(&self, kind: Kind, namespace: &str, name: &str) -> Option<PodController> {
        fn of<R: Strategy + Scalable>(
            store: &KindStore<R>,
            namespace: &str,
            name: &str,
        ) -> Option<PodController> {
            let object = store.get(namespace, name).ok()?;
            let metadata = object.metadata();
            Some(PodController {
                uid: metadata.uid.clone(),
                replicas: object.spec_replicas().into(),
                controller: metadata.controller().map(|owner| (**owner).clone()),
            })
        }
        if kind == Kind::REPLICA_SET {
            return of::<ReplicaSet>(&self.replica_sets, namespace, name);
        }
        if kind == Kind::REPLICATION_CONTROLLER {
            let store = &self.replication_controllers;
            return of::<ReplicationController>(store, namespace, name);
        }
        let found = self.with_dynamic_store(kind, |store| of(store, namespace, name));
        found.ok().flatten()
    }

    fn kind(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let named = |known: &Kind| known.name() == kind && known.api_version() == api_version;
        self.kinds().into_iter().find(named)
    }

    fn scale(&self, kind: Kind, namespace: &str, name: &str) -> Result<(Uid, i64), ApiError> {
        let scale = self.api(kind).scale(namespace, name)?;
        Ok((scale.uid, scale.replicas.into()))
    }
}
