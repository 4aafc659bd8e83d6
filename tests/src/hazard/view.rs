//! A script's view of a hazard, even while it runs: the objects in the cluster, and the event log.

use std::sync::Arc;

use podstorm::object::{Event, Pod, ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use podstorm_apiserver::Cluster;
use podstorm_sim::faults::Call;

use super::log::{EventLog, SyncRecord, Write, WriteRecord};
use podstorm_faultsim::objects::NAMESPACE;

use crate::harness;

/// The objects and the event log of a hazard.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) cluster: Arc<Cluster>,
    pub(super) log: Arc<EventLog>,
}

impl View {
    /// Returns the API server.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Returns the ReplicaSet with this name; `None` if it does not exist.
    pub fn find(&self, name: &str) -> Option<Arc<ReplicaSet>> {
        self.cluster.get(NAMESPACE, name).ok()
    }

    /// Returns the ReplicaSet with this name.
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn set(&self, name: &str) -> Arc<ReplicaSet> {
        self.find(name).expect("the ReplicaSet exists")
    }

    /// Returns the status of a ReplicaSet.
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn status(&self, name: &str) -> ReplicaSetStatus {
        self.set(name).status.clone()
    }

    /// Returns the condition `ReplicaFailure` of a ReplicaSet; `None` if it does not have the
    /// condition.
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn failure(&self, name: &str) -> Option<ReplicaSetCondition> {
        let conditions = self.status(name).conditions;
        conditions
            .into_iter()
            .find(|condition| &*condition.kind == "ReplicaFailure")
    }

    /// Returns all pods of the namespace, sorted by name.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        pods(&self.cluster)
    }

    /// Returns the pod with this name; `None` if it does not exist.
    pub fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self.cluster.get(NAMESPACE, name).ok()
    }

    /// Returns the pods that a ReplicaSet controls, sorted by name.
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn owned(&self, name: &str) -> Vec<Arc<Pod>> {
        harness::owned(&self.pods(), &self.set(name).metadata.uid)
    }

    /// Returns the names of a ReplicaSet's active pods.
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn active(&self, name: &str) -> Vec<String> {
        let owned = self.owned(name);
        let active = owned.iter().filter(|pod| pod.is_active());
        active.map(|pod| pod.metadata.name.to_string()).collect()
    }

    /// Returns the maximum number of active pods of a ReplicaSet since the last
    /// [`View::reset_extremes`].
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn most_active(&self, name: &str) -> usize {
        let uid = &self.set(name).metadata.uid;
        self.log.state().active.get(uid).map_or(0, |it| it.most)
    }

    /// Returns the minimum number of active pods of a ReplicaSet since the last
    /// [`View::reset_extremes`].
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn fewest_active(&self, name: &str) -> usize {
        let uid = &self.set(name).metadata.uid;
        self.log.state().active.get(uid).map_or(0, |it| it.fewest)
    }

    /// Restarts the counts that [`View::most_active`] and [`View::fewest_active`] return.
    pub fn reset_extremes(&self) {
        self.log.state().reset_extremes();
    }

    /// Returns the Events with this reason.
    pub fn events(&self, reason: &str) -> Vec<Arc<Event>> {
        let mut events = self.cluster.list::<Event>(Some(NAMESPACE)).0;
        events.retain(|event| &*event.topic.reason == reason);
        events
    }

    /// Returns the committed writes of the controllers, in order.
    pub fn written(&self) -> Vec<WriteRecord> {
        self.log.state().written.clone()
    }

    /// Returns the number of committed writes of one kind.
    pub fn count(&self, write: Write) -> usize {
        let state = self.log.state();
        state
            .written
            .iter()
            .filter(|written| written.write == write)
            .count()
    }

    /// Returns all syncs so far.
    pub fn syncs(&self) -> Vec<SyncRecord> {
        self.log.state().syncs.clone()
    }

    /// Returns the syncs of one ReplicaSet so far.
    pub fn syncs_of(&self, name: &str) -> Vec<SyncRecord> {
        let mut syncs = self.syncs();
        syncs.retain(|sync| sync.owner == name);
        syncs
    }

    /// Returns the latest sync of a ReplicaSet.
    ///
    /// # Panics
    /// Panics if the ReplicaSet has not been synced.
    pub fn last_sync(&self, name: &str) -> SyncRecord {
        self.syncs_of(name)
            .pop()
            .expect("the ReplicaSet was synced")
    }

    /// Returns the number of requests of one kind that all syncs have sent.
    pub fn sent(&self, call: Call) -> usize {
        let state = self.log.state();
        state.syncs.iter().map(|sync| sync.sent(call)).sum()
    }

    /// Returns the number of requests of one kind that are in flight.
    pub fn under_way(&self, call: Call) -> usize {
        let state = self.log.state();
        let running = state.syncs.iter().filter(|sync| sync.ended.is_none());
        running
            .flat_map(|sync| &sync.requests)
            .filter(|request| request.call == call && request.answer.is_none())
            .count()
    }
}

/// Returns all pods of the namespace, sorted by name.
pub fn pods(cluster: &Cluster) -> Vec<Arc<Pod>> {
    let mut pods = cluster.list::<Pod>(Some(NAMESPACE)).0;
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    pods
}
