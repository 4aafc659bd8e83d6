//! The pods that a sync creates and deletes.
//!
//! Source: `manageJob` in Kubernetes' `pkg/controller/job`.

use podstorm_runtime::driver::SyncFailure;

use super::backoff::{Failures, finish_ns};
use super::indexes::Indexes;
use super::pod::Rank;
use super::sync::JobSync;

/// The change that a sync makes to reach the parallelism. It creates or deletes pods, never both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Delete the pods at these positions of the list, each by the rule next to it. May be empty
    /// if the Job is suspended.
    Delete(Vec<(usize, RemovalRule)>),
    /// Create this number of pods; for an indexed Job, with these indexes.
    Create { count: usize, indexes: Vec<i64> },
    /// Create no pod for this delay in ns after failures: of the whole Job or, if there are
    /// indexes, of each of them. They are the first indexes without a pod.
    Wait { left_ns: i64, indexes: Vec<i64> },
    /// Leave the pods unchanged.
    Nothing,
}

/// The rule by which a pod is deleted to reach the parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalRule {
    /// The Job is suspended.
    Suspended,
    /// The pod's completion index is absent or can't be parsed.
    UnknownIndex,
    /// The pod's index is not below the completions.
    SurplusIndex,
    /// Another pod with the same index has a higher rank.
    RepeatedIndex,
    /// More pods are active than wanted, and the pod is among the lowest in [rank](super::pod::Rank).
    Surplus,
}

impl RemovalRule {
    /// Returns the name of the rule in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            RemovalRule::Suspended => "suspended",
            RemovalRule::UnknownIndex => "unknown-index",
            RemovalRule::SurplusIndex => "surplus-index",
            RemovalRule::RepeatedIndex => "repeated-index",
            RemovalRule::Surplus => "surplus",
        }
    }
}

impl JobSync<'_> {
    /// Creates or deletes pods, never both in one sync.
    pub(super) async fn manage(&mut self) -> Result<(), SyncFailure> {
        let plan = self.plan();
        self.action = match &plan {
            Plan::Delete(_) => "pods_deleted",
            Plan::Create { .. } | Plan::Wait { .. } => "pods_created",
            Plan::Nothing => "tracking",
        };
        match plan {
            Plan::Delete(removed) => {
                let places: Vec<usize> = removed.into_iter().map(|(place, _)| place).collect();
                self.delete_pods(&places).await
            }
            Plan::Create { count, indexes } => self.create_pods(count, &indexes).await,
            Plan::Wait { left_ns, .. } => {
                self.again_after(left_ns);
                // Like upstream: the status of a waiting Job reports no active pods.
                if !self.shared.options.tell_active_in_backoff {
                    self.active = 0;
                }
                Ok(())
            }
            Plan::Nothing => Ok(()),
        }
    }

    /// Decides which pods to create or delete.
    pub(super) fn plan(&self) -> Plan {
        let spec = &*self.job.spec;
        let active = self.active_places();
        if spec.is_suspended {
            let all = active.into_iter();
            return Plan::Delete(all.map(|place| (place, RemovalRule::Suspended)).collect());
        }
        let wanted = match spec.completions {
            None if self.succeeded > 0 => self.active,
            None => spec.parallelism,
            Some(completions) => (completions - self.succeeded).clamp(0, spec.parallelism.max(0)),
        };
        let at_least = usize::try_from(self.active - wanted).unwrap_or(0);
        let mut removed = self.removed(active, at_least);
        removed.truncate(self.shared.options.burst);
        if !removed.is_empty() {
            return Plan::Delete(removed);
        }
        let not_yet_replaced = match spec.only_replace_failed {
            true => self.terminating,
            false => 0,
        };
        let count = wanted - self.active - not_yet_replaced;
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Plan::Nothing;
        }
        let now_ns = self.calls.now().wall_ns;
        if spec.backoff_limit_per_index.is_none() {
            let left_ns = self.failures.remaining_ns(now_ns);
            if left_ns > 0 {
                let indexes = Vec::new();
                return Plan::Wait { left_ns, indexes };
            }
        }
        let count = count.min(self.shared.options.burst);
        if !spec.is_indexed() {
            let indexes = Vec::new();
            return Plan::Create { count, indexes };
        }
        let mut indexes = self.pending_indexes(count);
        if spec.backoff_limit_per_index.is_some() {
            let left = indexes.iter().map(|index| self.left_ns(*index, now_ns));
            let left: Vec<i64> = left.collect();
            let left_ns = left.iter().copied().min().unwrap_or(0);
            if left_ns > 0 {
                return Plan::Wait { left_ns, indexes };
            }
            let mut each = left.iter();
            indexes.retain(|_| each.next().is_some_and(|left_ns| *left_ns == 0));
        }
        let count = indexes.len();
        Plan::Create { count, indexes }
    }

    /// Returns the positions of the active pods in the list of pods.
    pub(super) fn active_places(&self) -> Vec<usize> {
        let places = self.pods.iter().enumerate();
        let active = places.filter(|(_, pod)| pod.is_active());
        active.map(|(place, _)| place).collect()
    }

    /// Returns the active pods to delete. For an indexed Job, these are the pods with an unknown or
    /// surplus index, and all but one pod of each index. If they are fewer than `at_least`, the
    /// pods with the lowest rank follow.
    fn removed(&self, mut active: Vec<usize>, at_least: usize) -> Vec<(usize, RemovalRule)> {
        let rank_of = |place: &usize| Rank::from_pod(&self.pods[*place].pod);
        let mut removed = Vec::new();
        let index = |place: usize| self.pods[place].index;
        let is_valid = |place: &usize| self.job.spec.has_index(index(*place));
        // The common case: each index occurs once.
        let is_plain = |active: &[usize]| {
            let indexes = || active.iter().map(|place| index(*place));
            let are_distinct = || {
                let many = i64::try_from(active.len()).unwrap_or(i64::MAX);
                indexes().is_sorted_by(|a, b| a < b)
                    || Indexes::of_unordered(indexes()).count() == many
            };
            active.iter().all(is_valid) && are_distinct()
        };
        let is_indexed = self.job.spec.is_indexed();
        if is_indexed && at_least == 0 && is_plain(&active) {
            return removed;
        }
        if is_indexed {
            active.sort_by_key(|place| index(*place));
            let mut kept = Vec::with_capacity(active.len());
            for group in active.chunk_by_mut(|a, b| index(*a) == index(*b)) {
                if !is_valid(&group[0]) {
                    let rule = match index(group[0]) < 0 {
                        true => RemovalRule::UnknownIndex,
                        false => RemovalRule::SurplusIndex,
                    };
                    removed.extend(group.iter().map(|place| (*place, rule)));
                    continue;
                }
                if group.len() > 1 {
                    group.sort_by_cached_key(rank_of);
                }
                let (last, others) = group.split_last().expect("a group is not empty");
                let repeated = others.iter().map(|it| (*it, RemovalRule::RepeatedIndex));
                removed.extend(repeated);
                kept.push(*last);
            }
            active = kept;
        }
        let more = at_least.saturating_sub(removed.len());
        if more > 0 {
            active.sort_by_cached_key(rank_of);
            let lowest = active.into_iter().take(more);
            removed.extend(lowest.map(|place| (place, RemovalRule::Surplus)));
        }
        removed
    }

    /// Returns the first `count` indexes that have no pod and have neither succeeded nor failed.
    fn pending_indexes(&self, count: usize) -> Vec<i64> {
        let spec = &self.job.spec;
        let busy = self.pods.iter().filter(|pod| {
            let is_replaced_late = spec.only_replace_failed && pod.is_terminating();
            spec.has_index(pod.index) && (pod.is_active() || is_replaced_late)
        });
        let busy = Indexes::of_unordered(busy.map(|pod| pod.index));
        let mut taken = self.indexes.succeeded.union(&busy);
        if let Some(failed) = &self.indexes.failed {
            taken = taken.union(failed);
        }
        taken.first_missing(count, spec.indexes())
    }

    /// Returns the remaining delay of an index after its last failure, in ns.
    pub(super) fn left_ns(&self, index: i64, now_ns: i64) -> i64 {
        let Some(pod) = self.indexes.delayed.get(&index) else {
            return 0;
        };
        let (counted, ignored) = pod.failures();
        let failures = Failures {
            count: u32::try_from(counted + ignored + 1).unwrap_or(u32::MAX),
            last_ns: Some(finish_ns(&pod.pod)),
        };
        failures.remaining_ns(now_ns)
    }
}
