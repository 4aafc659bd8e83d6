//! Deletes old ReplicaSets beyond `revisionHistoryLimit`.
//!
//! Source: `cleanupDeployment` in Kubernetes' `pkg/controller/deployment`.

use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::SyncFailure;

use podstorm_objects::{Kind, ReplicaSet};

use super::find_new::by_revision;
use super::sync::{DeploymentSync, Set, Sets, SyncStep};

impl DeploymentSync<'_> {
    pub(super) async fn clean_up(&self, sets: &Sets) -> Result<(), SyncFailure> {
        let limit = self.deployment.spec.revision_history_limit;
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else {
            return Ok(());
        };
        let kept = sets.old.iter().filter(|set| !set.metadata.is_deleting());
        let limit = usize::try_from(limit).unwrap_or(0);
        let beyond = kept.clone().count().saturating_sub(limit);
        if beyond == 0 {
            return Ok(());
        }
        let mut old: Vec<&Set> = kept.collect();
        old.sort_by(|a, b| by_revision(a, b));
        // Like upstream: no other ReplicaSet is deleted in place of one that is still in use.
        for set in old.into_iter().take(beyond).filter(|set| is_unused(set)) {
            let request = Request::Delete {
                kind: Kind::REPLICA_SET,
                namespace: set.metadata.namespace.clone(),
                name: set.metadata.name.clone(),
                options: None,
            };
            match self.calls.request(request).await {
                Answer::Failed(error) if !error.is_not_found() => {
                    return Err(SyncStep::Delete.failure()(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_unused(set: &ReplicaSet) -> bool {
    set.status.replicas == 0
        && set.replicas() == 0
        && set.metadata.generation <= set.status.observed_generation
}
