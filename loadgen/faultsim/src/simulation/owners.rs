//! The objects that own pods and that actions name, whichever workload is under test.

use std::fmt::Debug;
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::{Api, Cluster};
use podstorm_objects::{AnyObject, Kind, ObjectMeta, Pod};
use podstorm_sim::engine::fault_harness::FaultHarness;

use super::Simulation;

/// The sort of objects on whose pods the workloads of a run stand.
pub trait PodOwners: Debug + Sync {
    /// Their kinds. An object of which nothing is planned is of the first.
    fn kinds(&self) -> &'static [Kind];

    /// The object of that name and plan, to be created in the [namespace](crate::objects::NAMESPACE) of simulations.
    fn object(&self, name: &str, plan: &OwnerPlan) -> AnyObject;

    /// What is not as it must be at rest, if anything. Pods that come or go are looked at before.
    fn missing(&self, harness: &FaultHarness) -> Option<String>;

    /// Whether a pod that is on its way out rightly stays.
    fn keep(&self, _: &Cluster, _: &Pod) -> bool {
        false
    }

    /// Whether a controller of theirs that is alive still waits for the events of what it asked for.
    fn expect(&self, harness: &FaultHarness) -> bool;

    /// Whether a controller of theirs that is alive has put a key off.
    fn have_delayed(&self, harness: &FaultHarness) -> bool;
}

/// None: actions on such objects do nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoOwners;

impl PodOwners for NoOwners {
    fn kinds(&self) -> &'static [Kind] {
        &[]
    }

    fn object(&self, name: &str, _: &OwnerPlan) -> AnyObject {
        unreachable!("{name} is of no kind")
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

/// What an object that owns pods is made from.
#[derive(Clone, Debug)]
pub struct OwnerPlan {
    /// Its kind.
    pub kind: Kind,
    /// The value of the label `app` of its pods, by which it selects them.
    pub like: String,
    /// How many replicas.
    pub replicas: i32,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// Whether it was deleted for good.
    pub(super) is_deleted: bool,
}

impl OwnerPlan {
    /// One of that kind with so many replicas, whose pods are labelled `app: <like>` and are available at once.
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
    /// Creates what is planned by name, in the order of the names.
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
        // Refused where it exists or the namespace is on its way out: then there is nothing to do.
        let _ = api.create(object, now);
    }

    /// Requests about objects of the kind that the one of that name is of.
    fn api(&self, name: &str) -> Option<Api<'_>> {
        let planned = self.plans.get(name).map(|plan| plan.kind);
        let kind = planned.or_else(|| self.owners.kinds().first().copied());
        kind.map(|kind| self.cluster().api(kind))
    }

    /// A user asks for something about the object of that name.
    pub(super) fn ask<T>(&self, name: &str, ask: impl FnOnce(&Api<'_>) -> Result<T, ApiError>) {
        if let Some(api) = self.api(name) {
            self.written(ask(&api));
        }
    }

    /// The object of that name, if it is there.
    pub(super) fn owner(&self, name: &str) -> Option<AnyObject> {
        self.api(name)?.get(super::NAMESPACE, name).ok()
    }

    /// Every one that is there, kind by kind.
    pub(super) fn all_owners(&self) -> Vec<AnyObject> {
        let list = |kind: &Kind| {
            let page = self.cluster().api(*kind).list(&Default::default());
            page.expect("every cluster serves the kinds of owners")
                .items
        };
        self.owners.kinds().iter().flat_map(list).collect()
    }

    /// The name of the object that is meant by `web/2`; none where `web` owns none.
    ///
    /// # Panics
    /// What follows the `/` is not a number.
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
        let nth: usize = nth.parse().expect("a schedule is checked first");
        let object = owned.get(nth % owned.len().max(1))?;
        Some(object.metadata().name.to_string())
    }
}

/// The pods of an object.
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

/// The first pod that is on its way to come or to go, if any.
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

/// Whether a pod is one that no node of a simulation takes: it asks for a scheduler of its own.
pub(crate) fn is_idle(pod: &Pod) -> bool {
    pod.spec.scheduler_name.is_some() && pod.node_name.is_none()
}
