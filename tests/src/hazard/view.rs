//! What a script reads of a hazard, also while it goes on: the cluster's objects and the log.

use std::sync::Arc;

use podstorm::object::{Event, Pod, ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use podstorm_apiserver::Cluster;
use podstorm_sim::faults::Call;

use super::log::{EventLog, SyncRecord, Write, WriteRecord};
use podstorm_faultsim::objects::NAMESPACE;

use crate::harness;

/// A hazard's cluster and log.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) cluster: Arc<Cluster>,
    pub(super) log: Arc<EventLog>,
}

impl View {
    /// The API server.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The ReplicaSet of that name, if there is one.
    pub fn find(&self, name: &str) -> Option<Arc<ReplicaSet>> {
        self.cluster.get(NAMESPACE, name).ok()
    }

    /// The ReplicaSet of that name.
    ///
    /// # Panics
    /// When there is none.
    pub fn set(&self, name: &str) -> Arc<ReplicaSet> {
        self.find(name).expect("the ReplicaSet exists")
    }

    /// Its status.
    ///
    /// # Panics
    /// When there is no such ReplicaSet.
    pub fn status(&self, name: &str) -> ReplicaSetStatus {
        self.set(name).status.clone()
    }

    /// Its condition `ReplicaFailure`, if it has one.
    ///
    /// # Panics
    /// When there is no such ReplicaSet.
    pub fn failure(&self, name: &str) -> Option<ReplicaSetCondition> {
        let conditions = self.status(name).conditions;
        conditions
            .into_iter()
            .find(|condition| &*condition.kind == "ReplicaFailure")
    }

    /// All pods of the namespace, sorted by name.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        pods(&self.cluster)
    }

    /// The pod of that name, if there is one.
    pub fn pod(&self, name: &str) -> Option<Arc<Pod>> {
        self.cluster.get(NAMESPACE, name).ok()
    }

    /// The pods that the ReplicaSet of that name controls, sorted by name.
    ///
    /// # Panics
    /// When there is no such ReplicaSet.
    pub fn owned(&self, name: &str) -> Vec<Arc<Pod>> {
        harness::owned(&self.pods(), &self.set(name).metadata.uid)
    }

    /// The names of its active pods.
    ///
    /// # Panics
    /// When there is no such ReplicaSet.
    pub fn active(&self, name: &str) -> Vec<String> {
        let owned = self.owned(name);
        let active = owned.iter().filter(|pod| pod.is_active());
        active.map(|pod| pod.metadata.name.to_string()).collect()
    }

    /// The most active pods that it had since the last [`View::reset_extremes`].
    ///
    /// # Panics
    /// When there is no such ReplicaSet.
    pub fn most_active(&self, name: &str) -> usize {
        let uid = &self.set(name).metadata.uid;
        self.log.state().active.get(uid).map_or(0, |it| it.most)
    }

    /// The fewest active pods that it had since the last [`View::reset_extremes`].
    ///
    /// # Panics
    /// When there is no such ReplicaSet.
    pub fn fewest_active(&self, name: &str) -> usize {
        let uid = &self.set(name).metadata.uid;
        self.log.state().active.get(uid).map_or(0, |it| it.fewest)
    }

    /// From now on, for [`View::most_active`] and [`View::fewest_active`].
    pub fn reset_extremes(&self) {
        self.log.state().reset_extremes();
    }

    /// The Events with that reason.
    pub fn events(&self, reason: &str) -> Vec<Arc<Event>> {
        let mut events = self.cluster.list::<Event>(Some(NAMESPACE)).0;
        events.retain(|event| &*event.topic.reason == reason);
        events
    }

    /// What the controllers' committed writes did, in order.
    pub fn written(&self) -> Vec<WriteRecord> {
        self.log.state().written.clone()
    }

    /// How many committed writes of the controllers did that.
    pub fn count(&self, write: Write) -> usize {
        let state = self.log.state();
        state
            .written
            .iter()
            .filter(|written| written.write == write)
            .count()
    }

    /// The syncs so far.
    pub fn syncs(&self) -> Vec<SyncRecord> {
        self.log.state().syncs.clone()
    }

    /// The syncs of one ReplicaSet so far.
    pub fn syncs_of(&self, name: &str) -> Vec<SyncRecord> {
        let mut syncs = self.syncs();
        syncs.retain(|sync| sync.owner == name);
        syncs
    }

    /// Its last sync.
    ///
    /// # Panics
    /// When there was none.
    pub fn last_sync(&self, name: &str) -> SyncRecord {
        self.syncs_of(name).pop().expect("it was synced")
    }

    /// How many requests of that kind were sent by syncs.
    pub fn sent(&self, call: Call) -> usize {
        let state = self.log.state();
        state.syncs.iter().map(|sync| sync.sent(call)).sum()
    }

    /// How many requests of that kind are on their way.
    pub fn under_way(&self, call: Call) -> usize {
        let state = self.log.state();
        let running = state.syncs.iter().filter(|sync| sync.ended.is_none());
        running
            .flat_map(|sync| &sync.requests)
            .filter(|request| request.call == call && request.answer.is_none())
            .count()
    }
}

/// All pods of the namespace, sorted by name.
pub fn pods(cluster: &Cluster) -> Vec<Arc<Pod>> {
    let mut pods = cluster.list::<Pod>(Some(NAMESPACE)).0;
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    pods
}
