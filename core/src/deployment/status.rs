//! The status of a Deployment, which reports the progress of its rollout.
//!
//! Source: `pkg/controller/deployment/progress.go` and `sync.go` in Kubernetes.

use std::sync::Arc;

use podstorm_objects::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, Rest};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::SyncFailure;

use super::conditions::{
    AVAILABLE, COMPLETE, MINIMUM_AVAILABLE, MINIMUM_UNAVAILABLE, PROGRESSING, REPLICA_FAILURE,
    TIMED_OUT, UPDATED, condition, find, is_set, progress_deadline, progressing_is, remove, set,
};
use super::sizes::max_unavailable;
use super::sync::{DeploymentSync, Sets, SyncStep};

const NS_PER_SECOND: i64 = 1_000_000_000;

/// Reports whether a status shows a complete rollout: all pods have the newest template and are
/// available, and there are no other pods.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = deployment.replicas();
    status.updated_replicas == replicas
        && status.replicas == replicas
        && status.available_replicas == replicas
        && status.observed_generation >= deployment.metadata.generation
}

/// Reports whether a rollout has advanced from one status to the next.
fn is_progressing(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let old_pods =
        |status: &DeploymentStatus| status.replicas.wrapping_sub(status.updated_replicas);
    new.updated_replicas > old.updated_replicas
        || old_pods(new) < old_pods(old)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

impl DeploymentSync<'_> {
    /// Computes the status from the ReplicaSets. Updates no condition except `Available`.
    fn status_of(&self, sets: &Sets) -> DeploymentStatus {
        let deployment = &*self.deployment;
        let sum = |of: fn(&ReplicaSet) -> i32| {
            sets.all()
                .fold(0, |sum: i32, set| sum.wrapping_add(of(set)))
        };
        let available = sum(|set| set.status.available_replicas);
        let wanted = sum(|set| set.replicas());
        let new_replicas = sets.new.as_ref().map_or(0, |new| new.status.replicas);
        let mut status = DeploymentStatus {
            observed_generation: deployment.metadata.generation,
            replicas: sum(|set| set.status.replicas),
            updated_replicas: new_replicas,
            ready_replicas: sum(|set| set.status.ready_replicas),
            available_replicas: available,
            unavailable_replicas: wanted.wrapping_sub(available).max(0),
            terminating_replicas: self.terminating(sets),
            conditions: deployment.status.conditions.clone(),
            collision_count: deployment.status.collision_count,
            rest: deployment.status.rest.clone(),
        };
        let enough = deployment
            .replicas()
            .wrapping_sub(max_unavailable(deployment));
        let (value, reason, verb) = if available >= enough {
            ("True", MINIMUM_AVAILABLE, "has")
        } else {
            ("False", MINIMUM_UNAVAILABLE, "does not have")
        };
        if !is_set(&status, AVAILABLE, value, reason) {
            let message = format!("Deployment {verb} minimum availability.");
            let now = self.calls.now().wall();
            set(
                &mut status,
                condition(AVAILABLE, value, reason, &message, now),
            );
        }
        status
    }

    /// Returns the number of terminating pods; `None` if the gate is off or if a ReplicaSet does
    /// not report the number. A ReplicaSet that its controller has not observed yet has no such
    /// pods.
    fn terminating(&self, sets: &Sets) -> Option<i32> {
        if !self.shared.options.terminating_replicas {
            return None;
        }
        sets.all()
            .try_fold(0, |sum: i32, set| match set.status.terminating_replicas {
                Some(terminating) => Some(sum.wrapping_add(terminating)),
                None if set.status.observed_generation == 0 => Some(sum),
                None => None,
            })
    }

    /// Writes the status if it has changed. Does not update the progress of the rollout.
    pub(super) async fn plain_status(&mut self, sets: &Sets) -> Result<(), SyncFailure> {
        let status = self.status_of(sets);
        if status == self.deployment.status {
            return Ok(());
        }
        self.deployment_mut().status = status;
        self.put_status().await
    }

    /// Writes the status, with the rollout's progress, if it has changed. Otherwise schedules
    /// a check for the time at which the rollout may have failed.
    pub(super) async fn rollout_status(&mut self, sets: &Sets) -> Result<(), SyncFailure> {
        let mut status = self.status_of(sets);
        self.tell_progress(&mut status, sets);
        tell_failures(&mut status, sets);
        if status == self.deployment.status {
            self.look_again_later();
            return Ok(());
        }
        self.deployment_mut().status = status;
        self.put_status().await
    }

    fn tell_progress(&self, status: &mut DeploymentStatus, sets: &Sets) {
        let deployment = &*self.deployment;
        if progress_deadline(&deployment.spec).is_none() {
            remove(status, PROGRESSING);
            return;
        }
        let was_complete = status.replicas == status.updated_replicas;
        if was_complete && progressing_is(&deployment.status, COMPLETE) {
            return;
        }
        let now = self.calls.now().wall();
        let subject = match &sets.new {
            Some(new) => format!("ReplicaSet \"{}\"", new.metadata.name),
            None => format!("Deployment \"{}\"", deployment.metadata.name),
        };
        if is_complete(deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            set(
                status,
                condition(PROGRESSING, "True", COMPLETE, &message, now),
            );
        } else if is_progressing(&deployment.status, status) {
            let message = format!("{subject} is progressing.");
            let mut new = condition(PROGRESSING, "True", UPDATED, &message, now);
            // Replaced even if the reason is the same: the time is that of the last progress.
            if let Some(old) = find(status, PROGRESSING)
                && old.status == new.status
            {
                new.last_transition_time = old.last_transition_time;
            }
            remove(status, PROGRESSING);
            set(status, new);
        } else if self.has_timed_out(status) {
            let message = format!("{subject} has timed out progressing.");
            set(
                status,
                condition(PROGRESSING, "False", TIMED_OUT, &message, now),
            );
        }
    }

    /// Returns the deadline of the rollout in ns of the wall clock; `None` if there is none.
    fn deadline_ns(&self, progressing: &DeploymentCondition) -> Option<i64> {
        let seconds = progress_deadline(&self.deployment.spec)?;
        // A condition set by this sync keeps its fraction of a second.
        let from_ns = self.progressing_set_ns;
        let from_ns = from_ns.or(progressing.last_update_time.unix_nanos());
        let from_ns = from_ns.unwrap_or(i64::MIN);
        Some(from_ns.saturating_add(i64::from(seconds) * NS_PER_SECOND))
    }

    fn has_timed_out(&self, status: &DeploymentStatus) -> bool {
        let Some(progressing) = find(status, PROGRESSING) else {
            return false;
        };
        match &*progressing.reason {
            COMPLETE => false,
            TIMED_OUT => true,
            _ => {
                let deadline_ns = self.deadline_ns(progressing);
                deadline_ns.is_some_and(|deadline_ns| deadline_ns < self.calls.now().wall_ns)
            }
        }
    }

    /// Adds the key for the time of the deadline if the rollout can still miss it. Like upstream,
    /// adds the key immediately after the deadline, as often as the queue allows.
    fn look_again_later(&self) {
        let status = &self.deployment.status;
        let Some(progressing) = find(status, PROGRESSING) else {
            return;
        };
        if is_complete(&self.deployment, status) || *progressing.reason == *TIMED_OUT {
            return;
        }
        let Some(deadline_ns) = self.deadline_ns(progressing) else {
            return;
        };
        let now = self.calls.now();
        let left_ns = deadline_ns.saturating_sub(now.wall_ns);
        let queue = &self.shared.queue;
        if left_ns < NS_PER_SECOND {
            queue.add_rate_limited(self.key, now.mono_ns);
        } else {
            queue.add_after(self.key, left_ns.saturating_add(NS_PER_SECOND), now.mono_ns);
        }
    }

    /// Writes the Deployment's status as the sync has computed it.
    pub(super) async fn put_status(&self) -> Result<(), SyncFailure> {
        let object = Arc::new(self.deployment.to_untyped());
        match self.calls.request(Request::PutStatus { object }).await {
            Answer::Failed(error) => Err(SyncStep::Status.failure()(error)),
            _ => Ok(()),
        }
    }
}

/// Sets the condition that reports failed creates or deletes, from the condition of the newest
/// ReplicaSet or, if it has none, of any other ReplicaSet.
fn tell_failures(status: &mut DeploymentStatus, sets: &Sets) {
    let failure = |set: &ReplicaSet| {
        let mut conditions = set.status.conditions.iter();
        conditions
            .find(|it| *it.kind == *REPLICA_FAILURE)
            .map(|it| DeploymentCondition {
                kind: it.kind.clone(),
                status: it.status.clone(),
                last_update_time: it.last_transition_time,
                last_transition_time: it.last_transition_time,
                reason: it.reason.clone(),
                message: it.message.clone(),
                rest: Rest::NONE,
            })
    };
    let of_new = sets.new.as_deref().and_then(failure);
    match of_new.or_else(|| sets.all().find_map(|set| failure(set))) {
        Some(failure) => set(status, failure),
        None => remove(status, REPLICA_FAILURE),
    }
}
