//! Which pods a sync creates and deletes.
//!
//! Source: `manageJob` in Kubernetes' `pkg/controller/job`.

use podstorm_runtime::driver::SyncFailure;

use super::backoff::{Failures, finish_ns};
use super::indexes::Indexes;
use super::pod::rank;
use super::sync::Sync;

impl Sync<'_> {
    /// Creates or deletes pods, never both in one sync.
    pub(super) async fn manage(&mut self) -> Result<(), SyncFailure> {
        let spec = self.job.spec.clone();
        let active = self.active_places();
        if spec.is_suspended {
            return self.delete_pods(&active).await;
        }
        let wanted = match spec.completions {
            None if self.succeeded > 0 => self.active,
            None => spec.parallelism,
            Some(completions) => (completions - self.succeeded).clamp(0, spec.parallelism.max(0)),
        };
        let at_least = usize::try_from(self.active - wanted).unwrap_or(0);
        let mut victims = self.victims(active, at_least);
        victims.truncate(self.shared.options.burst);
        if !victims.is_empty() {
            return self.delete_pods(&victims).await;
        }
        let not_yet_replaced = match spec.only_replace_failed {
            true => self.terminating,
            false => 0,
        };
        let count = wanted - self.active - not_yet_replaced;
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Ok(());
        }
        let now_ns = self.calls.now().wall_ns;
        if spec.backoff_limit_per_index.is_none() {
            let left_ns = self.failures.remaining_ns(now_ns);
            if left_ns > 0 {
                self.again_after(left_ns);
                // As upstream: while the Job waits its status counts no active pod.
                self.active = 0;
                return Ok(());
            }
        }
        let count = count.min(self.shared.options.burst);
        if !spec.is_indexed() {
            return self.create_pods(count, &[]).await;
        }
        let mut indexes = self.pending_indexes(count);
        if spec.backoff_limit_per_index.is_some() {
            let left = indexes.iter().map(|index| self.left_ns(*index, now_ns));
            let left: Vec<i64> = left.collect();
            let mut each = left.iter();
            indexes.retain(|_| each.next().is_some_and(|left_ns| *left_ns == 0));
            if indexes.is_empty()
                && let Some(least_ns) = left.into_iter().min()
            {
                self.again_after(least_ns);
                self.active = 0;
                return Ok(());
            }
        }
        self.create_pods(indexes.len(), &indexes).await
    }

    /// The places of the active pods in the list.
    pub(super) fn active_places(&self) -> Vec<usize> {
        let places = self.pods.iter().enumerate();
        let active = places.filter(|(_, pod)| pod.is_active());
        active.map(|(place, _)| place).collect()
    }

    /// The active pods to delete: of an indexed Job those with an unknown or a surplus index, and all but one of each
    /// index; then, if these are fewer than `at_least`, the lowest in rank.
    fn victims(&self, mut active: Vec<usize>, at_least: usize) -> Vec<usize> {
        let rank_of = |place: &usize| rank(&self.pods[*place].pod);
        let mut victims = Vec::new();
        let index = |place: usize| self.pods[place].index;
        let is_valid = |place: &usize| self.job.spec.has_index(index(*place));
        let is_plain = |active: &[usize]| {
            active.is_sorted_by(|a, b| index(*a) < index(*b)) && active.iter().all(is_valid)
        };
        if self.job.spec.is_indexed() && !is_plain(&active) {
            active.sort_by_key(|place| index(*place));
            let mut kept = Vec::with_capacity(active.len());
            for group in active.chunk_by_mut(|a, b| index(*a) == index(*b)) {
                if !is_valid(&group[0]) {
                    victims.extend_from_slice(group);
                    continue;
                }
                if group.len() > 1 {
                    group.sort_by_cached_key(rank_of);
                }
                let (last, others) = group.split_last().expect("a group has a pod");
                victims.extend_from_slice(others);
                kept.push(*last);
            }
            active = kept;
        }
        let more = at_least.saturating_sub(victims.len());
        if more > 0 {
            active.sort_by_cached_key(rank_of);
            victims.extend(active.into_iter().take(more));
        }
        victims
    }

    /// The first indexes without a pod that have neither succeeded nor failed.
    fn pending_indexes(&self, count: usize) -> Vec<i64> {
        let spec = &self.job.spec;
        let busy = self.pods.iter().filter(|pod| {
            let is_replaced_late = spec.only_replace_failed && pod.is_terminating();
            spec.has_index(pod.index) && (pod.is_active() || is_replaced_late)
        });
        let mut busy: Vec<i64> = busy.map(|pod| pod.index).collect();
        busy.sort_unstable();
        let mut taken = self.indexes.succeeded.union(&Indexes::of_ordered(busy));
        if let Some(failed) = &self.indexes.failed {
            taken = taken.union(failed);
        }
        taken.first_missing(count, spec.indexes())
    }

    /// How long an index waits after its last failure, ns.
    fn left_ns(&self, index: i64, now_ns: i64) -> i64 {
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
