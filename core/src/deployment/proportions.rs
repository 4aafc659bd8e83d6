//! The sizes of the ReplicaSets when a Deployment is scaled during a rollout: each gets a share in
//! proportion to its size.
//!
//! Source: `scale` and `GetReplicaSetProportion` in Kubernetes' `pkg/controller/deployment`.

use std::cmp::Ordering;
use std::sync::Arc;

use podstorm_objects::{Deployment, ReplicaSet};

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use super::find_new::by_creation;
use super::revisions::size_annotation;
use super::sizes::{ROLLING_UPDATE, max_surge};

/// How a change of the Deployment's size is distributed over its ReplicaSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleMode {
    /// One ReplicaSet gets all pods.
    Single,
    /// The newest ReplicaSet has all wanted pods, so the old ones are scaled down to 0.
    Saturated,
    /// Each active ReplicaSet gets its share.
    Proportional,
    /// Nothing changes: several ReplicaSets are active, and the strategy is not `RollingUpdate`.
    Nothing,
}

/// The sizes that the ReplicaSets get when a Deployment is scaled.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePlan {
    /// How the change is distributed.
    pub mode: ScaleMode,
    /// The ReplicaSets with their new sizes, in the order of the writes. Includes unchanged sizes.
    pub sizes: Vec<(Arc<ReplicaSet>, i32)>,
}

/// Plans the sizes of a Deployment's newest ReplicaSet and of its old ones, which are given oldest
/// first. Sizes have 32 bits and wrap around, as upstream's do. O(n log n).
pub fn scale_plan(
    deployment: &Deployment,
    new: Option<&Arc<ReplicaSet>>,
    old: &[Arc<ReplicaSet>],
) -> ScalePlan {
    let replicas = deployment.replicas();
    let active = |set: &&Arc<ReplicaSet>| set.replicas() > 0;
    let active_old: Vec<&Arc<ReplicaSet>> = old.iter().filter(active).collect();
    let active_new = new.filter(active);
    if active_old.len() + usize::from(active_new.is_some()) <= 1 {
        let only = active_old.first().copied().or(active_new);
        let only = only.or(new).or(old.last());
        return ScalePlan {
            mode: ScaleMode::Single,
            sizes: only
                .map(|set| (set.clone(), replicas))
                .into_iter()
                .collect(),
        };
    }
    if new.is_some_and(|new| is_saturated(deployment, new)) {
        let youngest_first = active_old.into_iter().rev();
        return ScalePlan {
            mode: ScaleMode::Saturated,
            sizes: youngest_first.map(|set| (set.clone(), 0)).collect(),
        };
    }
    if *deployment.spec.strategy.kind != *ROLLING_UPDATE {
        return ScalePlan {
            mode: ScaleMode::Nothing,
            sizes: Vec::new(),
        };
    }
    // Upstream reads the ReplicaSets in this order if their sizes and ages are equal.
    let youngest_first = active_old.into_iter().rev();
    let active = youngest_first.chain(active_new).cloned().collect();
    ScalePlan {
        mode: ScaleMode::Proportional,
        sizes: shares(deployment, active),
    }
}

/// Reports whether the newest ReplicaSet has all pods that the Deployment wants, and all are
/// available.
fn is_saturated(deployment: &Deployment, new: &ReplicaSet) -> bool {
    let replicas = deployment.replicas();
    let desired = new.metadata.annotations.get(DESIRED_REPLICAS);
    // Like upstream: parsed with a sign and truncated to 32 bits.
    let desired = desired.and_then(|text| text.parse::<i64>().ok());
    let desired = desired.map(|number| number as i32);
    new.replicas() == replicas
        && desired == Some(replicas)
        && new.status.available_replicas == replicas
}

/// Returns the new sizes of several active ReplicaSets, in the order of the writes.
fn shares(
    deployment: &Deployment,
    mut active: Vec<Arc<ReplicaSet>>,
) -> Vec<(Arc<ReplicaSet>, i32)> {
    let replicas = deployment.replicas();
    let allowed = match replicas {
        0 => 0,
        _ => replicas.wrapping_add(max_surge(deployment)),
    };
    let all = active
        .iter()
        .fold(0, |sum: i32, set| sum.wrapping_add(set.replicas()));
    let to_add = allowed.wrapping_sub(all);
    // Larger ReplicaSets come first. Of equal ones, the youngest grows first and the oldest shrinks
    // first.
    let by_size = |a: &Arc<ReplicaSet>, b: &Arc<ReplicaSet>| b.replicas().cmp(&a.replicas());
    match to_add.cmp(&0) {
        Ordering::Less => active.sort_by(|a, b| by_size(a, b).then_with(|| by_creation(a, b))),
        Ordering::Equal => {}
        Ordering::Greater => active.sort_by(|a, b| by_size(a, b).then_with(|| by_creation(b, a))),
    }
    let mut added = 0_i32;
    let mut sizes: Vec<(Arc<ReplicaSet>, i32)> = Vec::with_capacity(active.len());
    for set in active {
        let mut size = set.replicas();
        if to_add != 0 {
            let share = share(deployment, &set, to_add, added);
            size = size.wrapping_add(share);
            added = added.wrapping_add(share);
        }
        sizes.push((set, size));
    }
    if let Some((_, first)) = sizes.first_mut()
        && to_add != 0
    {
        let left = to_add.wrapping_sub(added);
        *first = first.wrapping_add(left).max(0);
    }
    sizes
}

/// Returns the number of pods to add to a ReplicaSet (to remove, if negative) out of `to_add`,
/// after the other ReplicaSets got `added` of them.
fn share(deployment: &Deployment, set: &ReplicaSet, to_add: i32, added: i32) -> i32 {
    if to_add == added {
        return 0;
    }
    let allowed = to_add.wrapping_sub(added);
    let share = fraction(deployment, set);
    if to_add > 0 {
        share.min(allowed)
    } else {
        share.max(allowed)
    }
}

/// Returns the change of a ReplicaSet's size that preserves its share of the Deployment.
#[expect(clippy::cast_possible_truncation, reason = "it wraps as upstream's")]
fn fraction(deployment: &Deployment, set: &ReplicaSet) -> i32 {
    let (size, replicas) = (set.replicas(), deployment.replicas());
    if replicas == 0 {
        return size.wrapping_neg();
    }
    let whole = match size_annotation(set, MAX_REPLICAS) {
        None | Some(0) => deployment.status.replicas,
        Some(whole) => whole,
    };
    if whole == 0 {
        return 0;
    }
    let wanted = replicas.wrapping_add(max_surge(deployment));
    let grown = f64::from(size.wrapping_mul(wanted)) / f64::from(whole);
    (grown.round() as i64 as i32).wrapping_sub(size)
}
