//! The `Recreate` strategy: all old pods end before the first new pod starts.
//!
//! Source: `pkg/controller/deployment/recreate.go` in Kubernetes.

use podstorm_objects::{Kind, PodPhase};
use podstorm_runtime::driver::SyncFailure;

use super::status::is_complete;
use super::sync::{DeploymentSync, Sets, SyncStep};

impl DeploymentSync<'_> {
    pub(super) async fn recreate(&mut self) -> Result<(), SyncFailure> {
        let mut sets = self.sync_revision(false).await?;
        let mut shrunk = false;
        for set in sets.old.iter().filter(|set| set.replicas() > 0) {
            self.scale_set(set, 0)
                .await
                .map_err(SyncStep::PutSet.failure())?;
            shrunk = true;
        }
        // The Deployment is synced again when the last old pod ends.
        if shrunk || self.has_old_pods(&sets) {
            return self.rollout_status(&sets).await;
        }
        if sets.new.is_none() {
            sets = self.sync_revision(true).await?;
        }
        let new = sets.new.as_ref().expect("a missing ReplicaSet is created");
        let replicas = self.deployment.replicas();
        if new.replicas() != replicas {
            let scaled = self.scale_set(new, replicas).await;
            scaled.map_err(SyncStep::PutSet.failure())?;
        }
        if is_complete(&self.deployment, &self.deployment.status) {
            self.clean_up(&sets).await?;
        }
        self.rollout_status(&sets).await
    }

    /// Reports whether old ReplicaSets still have unfinished pods. Terminating pods count.
    fn has_old_pods(&self, sets: &Sets) -> bool {
        if sets
            .old
            .iter()
            .map(|set| set.status.replicas)
            .fold(0, i32::wrapping_add)
            > 0
        {
            return true;
        }
        sets.old.iter().any(|set| {
            let meta = &set.metadata;
            let owner = Kind::REPLICA_SET.controller_reference(meta);
            let pods = &self.shared.caches.sets.context().pods;
            let owned = pods.owned_by(&meta.namespace, &owner);
            owned.is_some_and(|owned| {
                let members = owned.lock();
                let mut pods = members.iter();
                pods.any(|(pod, _)| {
                    !matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
                })
            })
        })
    }
}
