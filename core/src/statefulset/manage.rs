//! Which pods a sync creates, corrects and deletes: first those of the ordinals, then those beyond them, then those that a
//! rolling update replaces.
//!
//! Source: `updateStatefulSet` in Kubernetes' `pkg/controller/statefulset`.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{Pod, PodPhase};
use podstorm_runtime::driver::join_all;

use super::identity::{identity_matches, ordinal_of};
use super::status::{Status, is_created, is_running_and_ready, revision_of};
use super::sync::{Errors, Forms, Sync};

/// The most pods that a set without an order works on at once.
const BATCH_MAX: usize = 500;

/// What a set with an order does after a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It goes on with the next.
    Next,
    /// It waits: the sync ends.
    Wait,
}

/// The pods of a set by their ordinals.
struct Sorted {
    /// Those with an ordinal that the set wants, by it.
    replicas: BTreeMap<i64, Arc<Pod>>,
    /// Those with other ordinals, the highest first.
    condemned: Vec<Arc<Pod>>,
}

impl Sync<'_> {
    /// Does all of it, and counts the pods that were there.
    pub(super) async fn manage(&self, forms: &Forms, status: &mut Status) -> Result<(), Errors> {
        let sorted = self.sorted();
        let scaled = self.scale(forms, &sorted).await;
        let pods = sorted.replicas.values().chain(&sorted.condemned);
        status.count(pods.map(|pod| &**pod), self.health());
        if scaled? == Turn::Wait || self.set.spec.read.strategy.is_on_delete {
            return Ok(());
        }
        self.roll(forms, &sorted.replicas, status).await
    }

    /// Sorts the pods by ordinal. A pod without one is left out.
    fn sorted(&self) -> Sorted {
        let spec = &self.set.spec.read;
        let (mut replicas, mut condemned) = (BTreeMap::new(), BTreeMap::new());
        for (at, pod) in self.pods.iter().enumerate() {
            let ordinal = ordinal_of(&pod.metadata);
            if spec.has_ordinal(ordinal) {
                replicas.insert(ordinal, Arc::clone(pod));
            } else if ordinal >= 0 {
                condemned.insert((ordinal, at), Arc::clone(pod));
            }
        }
        Sorted {
            replicas,
            condemned: condemned.into_values().rev().collect(),
        }
    }

    /// Creates and corrects the pods of the ordinals, and deletes the others.
    async fn scale(&self, forms: &Forms, sorted: &Sorted) -> Result<Turn, Errors> {
        let Sorted {
            replicas,
            condemned,
        } = sorted;
        let count = self.count();
        let replica = |at: usize| {
            let ordinal = self.ordinal(at);
            self.replica(forms, ordinal, replicas.get(&ordinal))
        };
        if self.for_all(count, replica).await? == Turn::Wait {
            return Ok(Turn::Wait);
        }
        let claims = |at: usize| self.condemned_claims(forms, &condemned[at]);
        if self.for_all(condemned.len(), claims).await? == Turn::Wait {
            return Ok(Turn::Wait);
        }
        let health = self.health();
        let is_unavailable = |pod: &Pod| health.is_unavailable(pod);
        let has_all = replicas.len() == count && !replicas.values().any(|pod| is_unavailable(pod));
        let lowest = condemned.iter().rposition(|pod| is_unavailable(pod));
        let first_unavailable = lowest.filter(|_| has_all);
        let condemned = |at: usize| self.condemned(&condemned[at], first_unavailable == Some(at));
        self.for_all(sorted.condemned.len(), condemned).await
    }

    /// How many pods the set wants.
    fn count(&self) -> usize {
        usize::try_from(self.set.spec.read.replicas).unwrap_or(0)
    }

    /// The ordinal of the pod at that place.
    fn ordinal(&self, place: usize) -> i64 {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        self.set.spec.read.start.saturating_add(place)
    }

    /// Takes a step for each of `count` pods: in order up to the first that waits or fails, or in batches of 1, 2, 4, … up to
    /// the first with a failure, where none waits.
    async fn for_all<F>(&self, count: usize, step: impl Fn(usize) -> F) -> Result<Turn, Errors>
    where
        F: Future<Output = Result<Turn, Errors>>,
    {
        if !self.set.spec.read.is_parallel {
            for at in 0..count {
                if step(at).await? == Turn::Wait {
                    return Ok(Turn::Wait);
                }
            }
            return Ok(Turn::Next);
        }
        let (mut done, mut size) = (0, 1);
        while done < count {
            let end = count.min(done + size);
            let errors = join_all((done..end).map(&step)).await.into_iter();
            let errors: Errors = errors.filter_map(Result::err).flatten().collect();
            if !errors.is_empty() {
                return Err(errors);
            }
            (done, size) = (end, BATCH_MAX.min(size * 2));
        }
        Ok(Turn::Next)
    }

    /// Creates or corrects the pod of an ordinal.
    async fn replica(
        &self,
        forms: &Forms,
        ordinal: i64,
        pod: Option<&Arc<Pod>>,
    ) -> Result<Turn, Errors> {
        let is_ordered = !self.set.spec.read.is_parallel;
        let pod = match pod {
            Some(pod) => Arc::clone(pod),
            None => Arc::new(self.new_pod(forms, ordinal)?),
        };
        let is_leaving = pod.metadata.is_deleting();
        if pod.status.phase.is_terminal() {
            if !is_leaving {
                self.delete_pod(&pod).await?;
            }
            return Ok(Turn::Wait);
        }
        if !is_created(&pod) {
            if self.has_stale_claim(&pod) {
                return Ok(Turn::Wait);
            }
            self.create_pod(&pod).await?;
            if is_ordered {
                return Ok(Turn::Wait);
            }
        }
        if pod.status.phase == PodPhase::Pending {
            self.create_claims(&forms.update.spec, &pod).await?;
            self.correct_claims_of(&forms.update.spec, &pod).await?;
        }
        let is_healthy = is_running_and_ready(&pod) && self.health().is_available(&pod);
        if is_ordered && (is_leaving || !is_healthy) {
            return Ok(Turn::Wait);
        }
        let set = &self.set.object.metadata;
        if !identity_matches(set, &pod.metadata)
            || self.without_storage.contains(&pod.metadata.uid)
            || !self.has_right_claims(&forms.update.spec, &pod)
        {
            self.update_pod(&forms.update.spec, &pod).await?;
        }
        Ok(Turn::Next)
    }

    /// The pod of an ordinal that has none, from the current revision or that of the update.
    fn new_pod(&self, forms: &Forms, ordinal: i64) -> Result<Pod, Errors> {
        let current_replicas = self.set.status.current;
        let (form, revision) = match forms.current.spec.wants_current(ordinal, current_replicas) {
            true => (&forms.current, &forms.current_revision),
            false => (&forms.update, &forms.update_revision),
        };
        let made = form.pod(&self.set.object.metadata, ordinal, revision);
        made.map_err(|error| vec![error])
    }

    async fn condemned_claims(&self, forms: &Forms, pod: &Pod) -> Result<Turn, Errors> {
        if !self.has_right_claims(&forms.update.spec, pod) {
            self.correct_claims(&forms.update.spec, pod).await?;
        }
        Ok(Turn::Next)
    }

    /// Deletes a pod beyond the ordinals. A set with an order deletes one in a sync, and one that is not available only if it
    /// is the first such pod.
    async fn condemned(&self, pod: &Pod, is_first_unavailable: bool) -> Result<Turn, Errors> {
        if pod.metadata.is_deleting() {
            return Ok(Turn::Wait);
        }
        let is_healthy = is_running_and_ready(pod) && self.health().is_available(pod);
        let is_ordered = !self.set.spec.read.is_parallel;
        if !is_ordered || is_healthy || is_first_unavailable {
            self.delete_pod(pod).await?;
        }
        Ok(Turn::Wait)
    }

    /// Deletes the pods that a rolling update replaces now, from the last one on.
    async fn roll(
        &self,
        forms: &Forms,
        replicas: &BTreeMap<i64, Arc<Pod>>,
        status: &mut Status,
    ) -> Result<(), Errors> {
        let spec = &self.set.spec.read;
        let health = self.health();
        let mut left = 1;
        if self.shared.options.uses_max_unavailable {
            let most = spec.max_unavailable();
            let most = most.map_err(|error| vec![error.to_string()])?;
            let available = replicas.values().filter(|pod| !health.is_unavailable(pod));
            let unavailable = self.count() - available.count();
            left = most - i64::try_from(unavailable).unwrap_or(i64::MAX);
        }
        let first = usize::try_from(spec.partition()).unwrap_or(0);
        for at in (first..self.count()).rev() {
            if left <= 0 {
                break;
            }
            let ordinal = self.ordinal(at);
            let pod = match replicas.get(&ordinal) {
                Some(pod) => Arc::clone(pod),
                // One that this sync has created, or that waits for its claims.
                None => Arc::new(self.new_pod(forms, ordinal)?),
            };
            if revision_of(&pod) != forms.update_revision && !pod.metadata.is_deleting() {
                self.delete_pod(&pod).await?;
                status.current -= 1;
                left -= 1;
            } else if !self.shared.options.uses_max_unavailable && health.is_unavailable(&pod) {
                break;
            }
        }
        Ok(())
    }
}
