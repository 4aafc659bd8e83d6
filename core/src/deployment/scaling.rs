//! Scaling: the sync of a Deployment that is paused or whose size has changed, and the write that
//! resizes a ReplicaSet.
//!
//! Source: `sync`, `isScalingEvent` and `scale` in Kubernetes' `pkg/controller/deployment`.

use std::sync::Arc;

use podstorm_objects::{ApiError, ReplicaSet};
use podstorm_runtime::client::{Answer, EventType, Request};
use podstorm_runtime::driver::SyncFailure;

use super::annotations::DESIRED_REPLICAS;
use super::proportions::{ScaleMode, scale_plan};
use super::revisions::{set_sizes, size_annotation, size_annotations};
use super::sync::{DeploymentSync, Set, Sets, SyncStep};

impl DeploymentSync<'_> {
    /// Reports whether an active ReplicaSet was last sized when the Deployment had another size.
    pub(super) fn is_scaling_event(&self, sets: &Sets) -> bool {
        let replicas = self.deployment.replicas();
        let mut active = sets.all().filter(|set| set.replicas() > 0);
        active.any(|set| {
            let desired = size_annotation(set, DESIRED_REPLICAS);
            desired.is_some_and(|desired| desired != replicas)
        })
    }

    /// Resizes the ReplicaSets but does not advance the rollout.
    pub(super) async fn only_scale(&mut self) -> Result<(), SyncFailure> {
        let sets = self.sync_revision(false).await?;
        let plan = scale_plan(&self.deployment, sets.new.as_ref(), &sets.old);
        for (set, size) in plan.sizes {
            let forced = plan.mode == ScaleMode::Proportional;
            let same = set.replicas() == size && (!forced || self.has_sizes(&set));
            if !same {
                self.scale_set(&set, size)
                    .await
                    .map_err(SyncStep::PutSet.failure())?;
            }
        }
        if self.deployment.spec.paused && self.rollback_revision().is_none() {
            self.clean_up(&sets).await?;
        }
        self.plain_status(&sets).await
    }

    fn has_sizes(&self, set: &ReplicaSet) -> bool {
        let annotations = &set.metadata.annotations;
        let wanted = size_annotations(&self.deployment);
        wanted
            .iter()
            .all(|(name, text)| annotations.get(name) == Some(text))
    }

    /// Sets the size and the size annotations of one ReplicaSet. Returns the ReplicaSet as the
    /// server stored it.
    pub(super) async fn scale_set(&self, set: &Set, size: i32) -> Result<Set, ApiError> {
        let mut scaled = ReplicaSet::clone(set);
        scaled.spec.replicas = Some(size);
        set_sizes(&self.deployment, &mut scaled.metadata.annotations);
        let written = self.try_put_set(scaled).await?;
        let before = set.replicas();
        if before != size {
            let direction = if before < size { "up" } else { "down" };
            let name = &set.metadata.name;
            let message = format!("Scaled {direction} replica set {name} from {before} to {size}");
            self.event(EventType::Normal, "ScalingReplicaSet", message);
        }
        Ok(written)
    }

    pub(super) async fn put_set(&self, set: ReplicaSet) -> Result<Set, SyncFailure> {
        self.try_put_set(set)
            .await
            .map_err(SyncStep::PutSet.failure())
    }

    async fn try_put_set(&self, set: ReplicaSet) -> Result<Set, ApiError> {
        let object = Arc::new(set);
        self.set_answered(Request::Put { object }).await
    }

    pub(super) async fn create_set(&self, set: ReplicaSet) -> Result<Set, ApiError> {
        let object = Arc::new(set);
        self.set_answered(Request::Create { object }).await
    }

    async fn set_answered(&self, request: Request) -> Result<Set, ApiError> {
        match self.calls.request(request).await {
            Answer::Failed(error) => Err(error),
            Answer::Object(object) => {
                let kind = object.kind();
                let set = object.downcast();
                Ok(set.unwrap_or_else(|| {
                    panic!("a write of a ReplicaSet can't be answered by a {kind:?}")
                }))
            }
            other => panic!("a write of a ReplicaSet can't be answered by {other:?}"),
        }
    }
}
