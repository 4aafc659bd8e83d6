//! The strategy `RollingUpdate`: the new ReplicaSet grows within `maxSurge`, and the old ones
//! shrink within `maxUnavailable`. A sync does one of the two.
//!
//! Source: `pkg/controller/deployment/rolling.go` in Kubernetes.

use podstorm_objects::ApiError;
use podstorm_runtime::driver::SyncFailure;

use super::sizes::{max_unavailable, new_replica_set_size};
use super::status::is_complete;
use super::sync::{DeploymentSync, Set, Sets, SyncStep};

impl DeploymentSync<'_> {
    pub(super) async fn roll(&mut self) -> Result<(), SyncFailure> {
        let sets = self.sync_revision(true).await?;
        let new = sets.new.clone();
        let new = new.expect("a missing ReplicaSet is created");
        // Like upstream: a failure to shrink old ReplicaSets is not reported. The next event
        // causes a retry.
        let moved = self.size_new(&sets, &new).await?
            || self.shrink_old(&sets, &new).await.unwrap_or(false);
        if !moved && is_complete(&self.deployment, &self.deployment.status) {
            self.clean_up(&sets).await?;
        }
        self.rollout_status(&sets).await
    }

    /// Resizes the new ReplicaSet and returns whether its size changed.
    async fn size_new(&mut self, sets: &Sets, new: &Set) -> Result<bool, SyncFailure> {
        let replicas = self.deployment.replicas();
        let size = if new.replicas() > replicas {
            replicas
        } else if new.replicas() < replicas {
            let all = sets
                .all()
                .fold(0, |sum: i32, set| sum.wrapping_add(set.replicas()));
            new_replica_set_size(&self.deployment, all, new.replicas())
                .map_err(|error| SyncStep::Sizes.error(error.to_string()))?
        } else {
            return Ok(false);
        };
        if size == new.replicas() {
            return Ok(false);
        }
        self.scale_set(new, size)
            .await
            .map_err(SyncStep::PutSet.failure())?;
        Ok(true)
    }

    /// Shrinks the old ReplicaSets: first by their unavailable pods, then by as many available pods
    /// as may become unavailable. Returns whether there was anything to shrink.
    async fn shrink_old(&self, sets: &Sets, new: &Set) -> Result<bool, ShrinkError> {
        let mut old: Vec<Set> = sets
            .old
            .iter()
            .filter(|set| set.replicas() > 0)
            .cloned()
            .collect();
        if old.is_empty() {
            return Ok(false);
        }
        let deployment = &*self.deployment;
        let min_available = deployment
            .replicas()
            .wrapping_sub(max_unavailable(deployment));
        let new_unavailable = new.replicas().wrapping_sub(new.status.available_replicas);
        let all = sets
            .all()
            .fold(0, |sum: i32, set| sum.wrapping_add(set.replicas()));
        let max_down = all
            .wrapping_sub(min_available)
            .wrapping_sub(new_unavailable);
        if max_down <= 0 {
            return Ok(false);
        }
        let unhealthy = self.shrink_unhealthy(&mut old, max_down).await?;
        let available = |set: &Set| set.status.available_replicas;
        let available: i32 = old
            .iter()
            .chain([new])
            .map(available)
            .fold(0, i32::wrapping_add);
        let healthy = self
            .shrink_available(&old, available.wrapping_sub(min_available))
            .await?;
        Ok(unhealthy || healthy)
    }

    /// Shrinks old ReplicaSets by their unavailable pods, oldest first.
    async fn shrink_unhealthy(&self, old: &mut [Set], max_down: i32) -> Result<bool, ShrinkError> {
        let mut left = max_down;
        for set in old {
            if left <= 0 {
                break;
            }
            let (size, available) = (set.replicas(), set.status.available_replicas);
            if size == available {
                continue;
            }
            let by = left.min(size.wrapping_sub(available));
            if by < 0 {
                return Err(ShrinkError::MoreAvailableThanWanted);
            }
            *set = self.scale_set(set, size.wrapping_sub(by)).await?;
            left -= by;
        }
        Ok(left != max_down)
    }

    /// Shrinks old ReplicaSets, oldest first, by the available pods beyond the required minimum.
    async fn shrink_available(&self, old: &[Set], budget: i32) -> Result<bool, ShrinkError> {
        let mut left = budget;
        for set in old {
            if left <= 0 {
                break;
            }
            let size = set.replicas();
            if size == 0 {
                continue;
            }
            let by = left.min(size);
            self.scale_set(set, size - by).await?;
            left -= by;
        }
        Ok(budget > 0 && left != budget)
    }
}

/// The error of a sync step that shrinks old ReplicaSets. It is never reported.
enum ShrinkError {
    MoreAvailableThanWanted,
    Refused,
}

impl From<ApiError> for ShrinkError {
    fn from(_: ApiError) -> ShrinkError {
        ShrinkError::Refused
    }
}
