//! The scheduled and the completed evictions of pods, with their times.
//!
//! Source: `TimedWorkerQueue` and `processPodOnNode` of Kubernetes' `pkg/controller/tainteviction`.

use std::collections::BTreeMap;

use podstorm_runtime::intern::KeyId;

use crate::node::{Taint, Toleration};
use crate::pod_key::{PodKey, PodKeyIds};

/// The key of the sync that only records Events. No pod has this key.
pub(super) const EVENTS: KeyId = KeyId(0);

/// How long a pod tolerates the taints of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tolerated {
    /// The pod does not tolerate one of the taints.
    Not,
    /// The pod tolerates all taints for this time in ns, which is not negative.
    For(i64),
    Always,
}

impl Tolerated {
    /// Evaluates the tolerations that match a taint. Each taint needs at least one toleration.
    /// Negative seconds count as 0.
    pub(super) fn new(taints: &[Taint], tolerations: &[Toleration]) -> Tolerated {
        let matches = |taint: &Taint| tolerations.iter().any(|it| it.matches(taint));
        if !taints.iter().all(matches) {
            return Tolerated::Not;
        }
        let used = tolerations
            .iter()
            .filter(|toleration| taints.iter().any(|taint| toleration.matches(taint)));
        let seconds = used.filter_map(|toleration| toleration.seconds).min();
        seconds.map_or(Tolerated::Always, |seconds| {
            Tolerated::For(seconds.max(0).saturating_mul(1_000_000_000))
        })
    }
}

/// The eviction of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eviction {
    Scheduled {
        key: KeyId,
        /// The monotonic time in ns at which the taints were first seen.
        since_ns: i64,
        /// The monotonic time in ns at which the pod must be deleted.
        due_ns: i64,
    },
    /// The pod was deleted. It is deleted again only if the taints of its node change.
    Done,
}

/// The evictions by pod, and the names of pods by queue key.
#[derive(Debug)]
pub(super) struct Evictions {
    by_pod: BTreeMap<PodKey, Eviction>,
    keys: PodKeyIds,
}

impl Default for Evictions {
    fn default() -> Evictions {
        Evictions {
            by_pod: BTreeMap::new(),
            keys: PodKeyIds::after(EVENTS),
        }
    }
}

/// The result of [`Evictions::decide`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Whether a scheduled eviction was cancelled, which must be reported by an Event.
    pub(super) is_cancelled: bool,
    /// The key to add to the queue, with the delay in ns; `None` if the queue does not change.
    pub(super) add: Option<(KeyId, i64)>,
}

impl Evictions {
    /// Decides about a pod on a tainted node. If the taints change later, a scheduled eviction
    /// keeps its time, because the time since the pod was first tainted counts.
    pub(super) fn decide(&mut self, pod: &PodKey, tolerated: Tolerated, now_ns: i64) -> Decision {
        let after_ns = match tolerated {
            Tolerated::Not => {
                let is_cancelled = self.cancel(pod);
                let add = self.schedule(pod, now_ns, now_ns, now_ns);
                return Decision { is_cancelled, add };
            }
            Tolerated::Always => {
                return Decision {
                    is_cancelled: self.cancel(pod),
                    add: None,
                };
            }
            Tolerated::For(after_ns) => after_ns,
        };
        let due_ns = now_ns.saturating_add(after_ns);
        let scheduled = match self.by_pod.get(pod) {
            Some(Eviction::Scheduled { since_ns, .. }) => Some(*since_ns),
            Some(Eviction::Done) | None => None,
        };
        let Some(since_ns) = scheduled else {
            return Decision {
                is_cancelled: false,
                add: self.schedule(pod, now_ns, due_ns, now_ns),
            };
        };
        if since_ns.saturating_add(after_ns) < due_ns {
            return Decision::default();
        }
        let is_cancelled = self.cancel(pod);
        let add = self.schedule(pod, since_ns, due_ns, now_ns);
        Decision { is_cancelled, add }
    }

    fn schedule(
        &mut self,
        pod: &PodKey,
        since_ns: i64,
        due_ns: i64,
        now_ns: i64,
    ) -> Option<(KeyId, i64)> {
        if self.by_pod.contains_key(pod) {
            return None;
        }
        let key = self.keys.assign(pod.clone());
        let scheduled = Eviction::Scheduled {
            key,
            since_ns,
            due_ns,
        };
        self.by_pod.insert(pod.clone(), scheduled);
        Some((key, due_ns.saturating_sub(now_ns)))
    }

    /// Forgets the eviction of a pod. Returns whether it was scheduled and not yet completed.
    pub(super) fn cancel(&mut self, pod: &PodKey) -> bool {
        match self.by_pod.remove(pod) {
            Some(Eviction::Scheduled { key, .. }) => {
                self.keys.free(key);
                true
            }
            Some(Eviction::Done) | None => false,
        }
    }

    /// Returns the pod of a key and the time of its deletion; `None` if no deletion is scheduled.
    pub(super) fn scheduled(&self, key: KeyId) -> Option<(PodKey, i64)> {
        let pod = self.keys.pod(key)?.clone();
        match self.by_pod.get(&pod) {
            Some(Eviction::Scheduled { due_ns, .. }) => Some((pod, *due_ns)),
            Some(Eviction::Done) | None => None,
        }
    }

    /// Returns the name of the pod of a key; `None` if the key has no pod.
    pub(super) fn pod(&self, key: KeyId) -> Option<&PodKey> {
        self.keys.pod(key)
    }

    /// Ends the eviction of a pod: it is completed if `is_done` is set; otherwise it has failed for
    /// good. Does nothing if the eviction was cancelled in the meantime.
    pub(super) fn finish(&mut self, key: KeyId, pod: &PodKey, is_done: bool) {
        let is_its = matches!(self.by_pod.get(pod),
            Some(Eviction::Scheduled { key: of, .. }) if *of == key);
        if !is_its {
            return;
        }
        self.cancel(pod);
        if is_done {
            self.by_pod.insert(pod.clone(), Eviction::Done);
        }
    }

    /// Returns the number of pods with a scheduled or completed eviction.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_pod.len()
    }
}
