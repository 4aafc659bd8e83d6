//! The objects that own pods and that actions name, for all workloads under test.

use std::fmt::Debug;
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::{Api, Cluster};
use podstorm_objects::{AnyObject, Kind, ObjectMeta, Pod};
use podstorm_sim::engine::fault_harness::FaultHarness;

use super::Simulation;

/// The objects whose pods the workloads of a run are based on.
pub trait PodOwners: Debug + Sync {
    /// Returns the kinds of the owners. A named object without a plan has the first kind.
    fn kinds(&self) -> &'static [Kind];

    /// Returns the object with this name and plan, for creation in the
    /// [namespace](crate::objects::NAMESPACE) of simulations.
    fn object(&self, name: &str, plan: &OwnerPlan) -> AnyObject;

    /// Returns the first deviation from the required state at rest, if there is any. Pods that are
    /// starting or terminating are checked before.
    fn missing(&self, harness: &FaultHarness) -> Option<String>;

    /// Reports whether it is correct that a terminating pod stays.
    fn keep(&self, _: &Cluster, _: &Pod) -> bool {
        false
    }

    /// Reports whether a live controller still waits for events of its own requests.
    fn expect(&self, harness: &FaultHarness) -> bool;

    /// Reports whether a live controller has delayed a key.
    fn have_delayed(&self, harness: &FaultHarness) -> bool;
}

/// No owners: actions on owners have no effect.
#[derive(Clone, Copy, Debug)]
pub struct NoOwners;

impl PodOwners for NoOwners {
    fn kinds(&self) -> &'static [Kind] {
        &[]
    }

    fn object(&self, name: &str, _: &OwnerPlan) -> AnyObject {
        unreachable!("there is no kind for owner {name}")
    }

    fn missing(&self, _: &FaultHarness) -> Option<String> {
        None
    }

    fn expect(&self, _: &FaultHarness) -> bool {
        false
    }

    fn have_delayed(&self, _: &FaultHarness) -> bool {
        false
    }
}

/// The plan of an object that owns pods.
#[derive(Clone, Debug)]
pub struct OwnerPlan {
    /// The kind of the object.
    pub kind: Kind,
    /// The value of the label `app` of the object's pods and in its selector.
    pub like: String,
    /// The number of replicas.
    pub replicas: i32,
    /// The object's `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// Whether users have permanently deleted the object.
    pub(super) is_deleted: bool,
}

impl OwnerPlan {
    /// Returns a plan with the given kind and number of replicas, whose pods are labeled `app:
    /// <like>` and are available immediately.
    pub fn new(kind: Kind, like: &str, replicas: i32) -> OwnerPlan {
        OwnerPlan {
            kind,
            like: like.to_owned(),
            replicas,
            min_ready_seconds: 0,
            is_deleted: false,
        }
    }
}

impl Simulation {
    /// Creates the planned objects, in name order.
    pub fn create_owners(&mut self, planned: impl IntoIterator<Item = (String, OwnerPlan)>) {
        self.plans.extend(planned);
        let names: Vec<String> = self.plans.keys().cloned().collect();
        names.iter().for_each(|name| self.create_owner(name));
    }

    pub(super) fn create_owner(&self, name: &str) {
        let Some(plan) = self.plans.get(name) else {
            return;
        };
        let object = self.owners.object(name, plan);
        let (api, now) = (self.cluster().api(plan.kind), self.harness.now());
        // The create is rejected if the object exists or the namespace is terminating. In both
        // cases, there is nothing to do.
        let _ = api.create(object, now);
    }

    /// Returns the API for the kind of the named object; `None` if there are no kinds of owners.
    fn api(&self, name: &str) -> Option<Api<'_>> {
        let planned = self.plans.get(name).map(|plan| plan.kind);
        let kind = planned.or_else(|| self.owners.kinds().first().copied());
        kind.map(|kind| self.cluster().api(kind))
    }

    /// Sends a user's request about the named object.
    pub(super) fn ask<T>(&self, name: &str, ask: impl FnOnce(&Api<'_>) -> Result<T, ApiError>) {
        if let Some(api) = self.api(name) {
            self.written(ask(&api));
        }
    }

    /// Returns the named object, if it exists.
    pub(super) fn owner(&self, name: &str) -> Option<AnyObject> {
        self.api(name)?.get(super::NAMESPACE, name).ok()
    }

    /// Returns every existing owner, kind by kind.
    pub(super) fn all_owners(&self) -> Vec<AnyObject> {
        let list = |kind: &Kind| {
            let page = self.cluster().api(*kind).list(&Default::default());
            page.expect("every cluster serves the kinds of owners")
                .items
        };
        self.owners.kinds().iter().flat_map(list).collect()
    }

    /// Resolves a name like `web/2` to the name of an object. Returns `None` if `web` owns nothing.
    ///
    /// # Panics
    /// Panics if the part after the `/` is not a number.
    pub(crate) fn counted(&self, name: &str) -> Option<String> {
        let Some((owner, nth)) = name.split_once('/') else {
            return Some(name.to_owned());
        };
        let mut owned = self.all_owners();
        owned.retain(|object| {
            let controller = object.metadata().controller();
            controller.is_some_and(|controller| *controller.name == *owner)
        });
        let age = |metadata: &ObjectMeta| (metadata.creation_timestamp, metadata.name.clone());
        owned.sort_by_key(|object| age(object.metadata()));
        let nth: usize = nth
            .parse()
            .expect("schedules are checked before they are played");
        let object = owned.get(nth % owned.len().max(1))?;
        Some(object.metadata().name.to_string())
    }
}

/// Returns those of `pods` that an object controls.
pub(super) fn owned_by<'a>(
    owner: &'a ObjectMeta,
    pods: &'a [Arc<Pod>],
) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(|pod| {
        let controller = pod.metadata.controller();
        pod.metadata.namespace == owner.namespace
            && controller.is_some_and(|controller| controller.uid == owner.uid)
    })
}

/// Describes the first pod that is terminating or not ready yet, if there is any.
pub(super) fn unsettled_pod(cluster: &Cluster, owners: &dyn PodOwners) -> Option<String> {
    let (pods, _) = cluster.list::<Pod>(None);
    let goes = |pod: &&Arc<Pod>| pod.metadata.is_deleting() && !owners.keep(cluster, pod);
    if let Some(pod) = pods.iter().find(goes) {
        return Some(format!("{} is still terminating", pod.metadata.name));
    }
    let will_be_ready = |pod: &Pod| pod.is_active() && !pod.is_ready() && !is_idle(pod);
    let unready = pods.iter().find(|pod| will_be_ready(pod))?;
    Some(format!("{} is not ready yet", unready.metadata.name))
}

/// Reports whether the pod stays without a node, because it requests its own scheduler.
pub(crate) fn is_idle(pod: &Pod) -> bool {
    pod.spec.scheduler_name.is_some() && pod.node_name.is_none()
}
