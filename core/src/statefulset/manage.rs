//! The pods that a sync creates, updates and deletes: first pods with wanted ordinals, then pods
//! with other ordinals, then pods that a rolling update replaces.
//!
//! Source: `updateStatefulSet` in Kubernetes' `pkg/controller/statefulset`.

use std::borrow::Cow;
use std::sync::Arc;

use podstorm_objects::PodPhase;
use podstorm_runtime::driver::join_all;

use super::metrics::Gauges;
use super::pod::Form;
use super::pods::{SetPod, revision_number};
use super::status::Status;
use super::sync::{Errors, Forms, StatefulSetSync};

/// The maximum number of pods that a sync of a `Parallel` set handles concurrently.
const BATCH_MAX: usize = 500;

/// How the sync of an ordered set continues after a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Continue with the next pod.
    Next,
    /// Wait: end the sync.
    Wait,
}

/// The pods of a set by ordinal.
struct Sorted<'p> {
    /// The ordinal of the first wanted pod.
    start: i64,
    /// The pods with wanted ordinals, in order. Of several pods with one ordinal, only the last.
    replicas: Vec<&'p SetPod>,
    /// The pods with other ordinals, highest first.
    condemned: Vec<&'p SetPod>,
}

impl<'p> Sorted<'p> {
    /// Returns the pod with an ordinal; `None` if there is none. O(1) if no pod before it is
    /// missing, otherwise O(log pods).
    fn replica(&self, ordinal: i64) -> Option<&'p SetPod> {
        let place = usize::try_from(ordinal - self.start).ok()?;
        match self.replicas.get(place) {
            Some(pod) if pod.ordinal() == ordinal => Some(pod),
            _ => {
                let found = self
                    .replicas
                    .binary_search_by_key(&ordinal, |it| it.ordinal());
                found.ok().map(|place| self.replicas[place])
            }
        }
    }
}

impl StatefulSetSync<'_> {
    /// Creates, updates and deletes pods, and counts the pods that existed before the sync.
    pub(super) async fn manage(&self, forms: &Forms, status: &mut Status) -> Result<(), Errors> {
        let sorted = self.sorted();
        let scaled = self.scale(forms, &sorted).await;
        let pods = sorted.replicas.iter().chain(&sorted.condemned);
        status.count(pods.copied(), self.health());
        if scaled? == Turn::Wait || self.set.spec.read.strategy.is_on_delete {
            return Ok(());
        }
        self.roll(forms, &sorted, status).await
    }

    /// Sorts the pods by ordinal. Leaves out pods without an ordinal.
    fn sorted(&self) -> Sorted<'_> {
        let spec = &self.set.spec.read;
        let with_ordinals = self.pods.iter().filter(|pod| pod.ordinal() >= 0);
        let (mut replicas, mut condemned): (Vec<_>, Vec<_>) =
            with_ordinals.partition(|pod| spec.has_ordinal(pod.ordinal()));
        replicas.sort_by_key(|pod| pod.ordinal());
        replicas.dedup_by(|later, kept| {
            let is_same = later.ordinal() == kept.ordinal();
            if is_same {
                *kept = later;
            }
            is_same
        });
        condemned.sort_by_key(|pod| pod.ordinal());
        condemned.reverse();
        Sorted {
            start: spec.start,
            replicas,
            condemned,
        }
    }

    /// Creates and updates the pods with wanted ordinals, and deletes the others.
    async fn scale(&self, forms: &Forms, sorted: &Sorted<'_>) -> Result<Turn, Errors> {
        let Sorted {
            replicas,
            condemned,
            ..
        } = sorted;
        let count = self.count();
        let replica = |at: usize| {
            let ordinal = self.ordinal(at);
            self.replica(forms, ordinal, sorted.replica(ordinal))
        };
        if self.for_all(count, replica).await? == Turn::Wait {
            return Ok(Turn::Wait);
        }
        let claims = |at: usize| self.condemned_claims(forms, condemned[at]);
        if self.for_all(condemned.len(), claims).await? == Turn::Wait {
            return Ok(Turn::Wait);
        }
        let health = self.health();
        let lowest = condemned.iter().rposition(|pod| health.is_unavailable(pod));
        let first_unavailable = lowest.filter(|_| {
            replicas.len() == count && !replicas.iter().any(|pod| health.is_unavailable(pod))
        });
        let condemned = |at: usize| self.condemned(condemned[at], first_unavailable == Some(at));
        self.for_all(sorted.condemned.len(), condemned).await
    }

    /// Returns the number of wanted pods.
    fn count(&self) -> usize {
        usize::try_from(self.set.spec.read.replicas).unwrap_or(0)
    }

    /// Returns the ordinal of the wanted pod at this position.
    fn ordinal(&self, place: usize) -> i64 {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        self.set.spec.read.start.saturating_add(place)
    }

    /// Runs a step for each of `count` pods. An ordered set runs them in order, up to the first
    /// that waits or fails. A `Parallel` set runs them in batches of 1, 2, 4, … up to the first
    /// batch with a failure, and never waits.
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

    /// Creates or updates the pod with this ordinal.
    async fn replica(
        &self,
        forms: &Forms,
        ordinal: i64,
        known: Option<&SetPod>,
    ) -> Result<Turn, Errors> {
        let is_ordered = !self.set.spec.read.is_parallel;
        let known = match known {
            Some(pod) => Cow::Borrowed(pod),
            None => Cow::Owned(self.new_pod(forms, ordinal)?),
        };
        let pod = &known.pod;
        if known.phase.is_terminal() {
            if !known.is_deleting {
                self.delete_pod(pod).await?;
            }
            return Ok(Turn::Wait);
        }
        if !known.is_created() {
            if self.has_stale_claim(pod) {
                return Ok(Turn::Wait);
            }
            self.create_pod(pod).await?;
            if is_ordered {
                return Ok(Turn::Wait);
            }
        }
        if known.phase == PodPhase::Pending {
            self.create_claims(&forms.update.spec, pod).await?;
            self.correct_claims_of(&forms.update.spec, pod).await?;
        }
        if is_ordered && (known.is_deleting || !self.health().is_healthy(&known)) {
            if !known.is_deleting && self.is_given_up(forms, ordinal, &known) {
                self.delete_pod(pod).await?;
            }
            return Ok(Turn::Wait);
        }
        if !known.has_identity
            || !known.has_storage
            || !self.has_right_claims(&forms.update.spec, pod)
        {
            self.update_pod(&forms.update.spec, pod).await?;
        }
        Ok(Turn::Next)
    }

    /// Builds the pod for an ordinal that has none, from the current or the update revision.
    fn new_pod(&self, forms: &Forms, ordinal: i64) -> Result<SetPod, Errors> {
        let (form, revision) = self.form_of(forms, ordinal);
        let made = form.pod(&self.set.object.metadata, ordinal, revision);
        let made = made.map(|pod| SetPod::from_pod(Arc::new(pod)));
        made.map_err(|error| vec![error])
    }

    /// Returns the form from which a new pod with this ordinal is built, and the name of its
    /// revision.
    fn form_of<'f>(&self, forms: &'f Forms, ordinal: i64) -> (&'f Form, &'f str) {
        let current_replicas = self.set.status.current;
        match forms.current.spec.wants_current(ordinal, current_replicas) {
            true => (&forms.current, &forms.current_revision),
            false => (&forms.update, &forms.update_revision),
        }
    }

    /// Reports whether the rolling update replaces a pod immediately, because it is neither ready
    /// nor up to date. Hardened behaviour only.
    fn is_given_up(&self, forms: &Forms, ordinal: i64, pod: &SetPod) -> bool {
        let spec = &self.set.spec.read;
        self.shared.options.replace_broken_pods
            && spec.strategy.is_rolling
            && ordinal >= spec.start.saturating_add(spec.partition())
            && pod.is_created()
            && !pod.is_running_and_ready()
            && pod.revision != revision_number(&forms.update_revision)
            && pod.revision != revision_number(self.form_of(forms, ordinal).1)
    }

    async fn condemned_claims(&self, forms: &Forms, pod: &SetPod) -> Result<Turn, Errors> {
        if !self.has_right_claims(&forms.update.spec, &pod.pod) {
            self.correct_claims(&forms.update.spec, &pod.pod).await?;
        }
        Ok(Turn::Next)
    }

    /// Deletes a pod with an unwanted ordinal. An ordered set deletes one such pod per sync. It
    /// deletes an unavailable pod only if no pod with a lower ordinal is missing or unavailable.
    async fn condemned(&self, pod: &SetPod, is_first_unavailable: bool) -> Result<Turn, Errors> {
        if pod.is_deleting {
            return Ok(Turn::Wait);
        }
        let is_ordered = !self.set.spec.read.is_parallel;
        if !is_ordered || self.health().is_healthy(pod) || is_first_unavailable {
            self.delete_pod(&pod.pod).await?;
        }
        Ok(Turn::Wait)
    }

    /// Deletes the pods that a rolling update replaces now, highest ordinal first.
    async fn roll(
        &self,
        forms: &Forms,
        sorted: &Sorted<'_>,
        status: &mut Status,
    ) -> Result<(), Errors> {
        let spec = &self.set.spec.read;
        let health = self.health();
        let mut left = 1;
        if self.shared.options.uses_max_unavailable {
            let most = spec.max_unavailable();
            let most = most.map_err(|error| vec![error.to_string()])?;
            let available = sorted.replicas.iter();
            let available = available.filter(|pod| !health.is_unavailable(pod));
            let unavailable = self.count() - available.count();
            let unavailable = i64::try_from(unavailable).unwrap_or(i64::MAX);
            let gauges = Gauges {
                max_unavailable: most,
                unavailable,
            };
            self.shared.gauges.with(self.key, |it| *it = Some(gauges));
            left = most - unavailable;
        }
        let first = usize::try_from(spec.partition()).unwrap_or(0);
        let updated = revision_number(&forms.update_revision);
        let uses_max_unavailable = self.shared.options.uses_max_unavailable;
        let looks_for_broken = uses_max_unavailable && self.shared.options.replace_broken_pods;
        for at in (first..self.count()).rev() {
            if left <= 0 && !looks_for_broken {
                break;
            }
            let ordinal = self.ordinal(at);
            let pod = match sorted.replica(ordinal) {
                Some(pod) => Cow::Borrowed(pod),
                // This sync has created the pod, or the pod waits for its claims.
                None => Cow::Owned(self.new_pod(forms, ordinal)?),
            };
            let is_broken = looks_for_broken && self.is_given_up(forms, ordinal, &pod);
            if pod.revision != updated && !pod.is_deleting {
                if left > 0 || is_broken {
                    self.delete_pod(&pod.pod).await?;
                    status.current -= 1;
                    left -= i64::from(!is_broken);
                }
            } else if !uses_max_unavailable && health.is_unavailable(&pod) {
                break;
            }
        }
        Ok(())
    }
}
