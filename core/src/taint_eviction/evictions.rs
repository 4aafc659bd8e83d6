//! The evictions that are scheduled: which pod is deleted when, and which was.
//!
//! Source: `TimedWorkerQueue` and `processPodOnNode` of Kubernetes' `pkg/controller/tainteviction`.

use std::collections::BTreeMap;

use compact_str::CompactString;
use podstorm_objects::Str;
use podstorm_runtime::intern::KeyId;

use crate::node::{Taint, Toleration};

/// Namespace and name of a pod.
pub(super) type PodName = (Str, CompactString);

/// The key of the sync that records Events. No pod has it.
pub(super) const EVENTS: KeyId = KeyId(0);

/// How long a pod tolerates taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tolerated {
    /// It does not tolerate one of them.
    Not,
    /// That long, ns; 0 and more.
    For(i64),
    Always,
}

impl Tolerated {
    /// By the tolerations that match a taint, each taint having one at least. Negative seconds are none.
    pub(super) fn of(taints: &[Taint], tolerations: &[Toleration]) -> Tolerated {
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

/// An eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eviction {
    Scheduled {
        key: KeyId,
        /// When the first of the taints that led to it was seen, monotonic ns.
        since_ns: i64,
        /// When the pod is deleted.
        due_ns: i64,
    },
    /// The pod was deleted and is not deleted again, unless its node's taints change.
    Done,
}

/// The evictions by pod, and the pods by the keys of the queue.
#[derive(Debug)]
pub(super) struct Evictions {
    by_pod: BTreeMap<PodName, Eviction>,
    /// By key; `None` for a free one, and for that of Events.
    names: Vec<Option<PodName>>,
    free: Vec<KeyId>,
}

impl Default for Evictions {
    fn default() -> Evictions {
        Evictions {
            by_pod: BTreeMap::new(),
            names: vec![None],
            free: Vec::new(),
        }
    }
}

/// What [`Evictions::decide`] asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Whether a scheduled eviction was cancelled, which has an Event.
    pub(super) is_cancelled: bool,
    /// The key to add to the queue, and after how many ns.
    pub(super) add: Option<(KeyId, i64)>,
}

impl Evictions {
    /// Decides about a pod on a node with taints. An eviction that is scheduled stays where the taints change: what counts is
    /// since when the pod is tainted.
    pub(super) fn decide(&mut self, pod: &PodName, tolerated: Tolerated, now_ns: i64) -> Decision {
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
        pod: &PodName,
        since_ns: i64,
        due_ns: i64,
        now_ns: i64,
    ) -> Option<(KeyId, i64)> {
        if self.by_pod.contains_key(pod) {
            return None;
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            KeyId(u32::try_from(self.names.len() - 1).expect("fewer pods than 32 bits count"))
        });
        self.names[key.index()] = Some(pod.clone());
        let scheduled = Eviction::Scheduled {
            key,
            since_ns,
            due_ns,
        };
        self.by_pod.insert(pod.clone(), scheduled);
        Some((key, due_ns.saturating_sub(now_ns)))
    }

    /// Forgets the eviction of a pod; returns whether it was still to come.
    pub(super) fn cancel(&mut self, pod: &PodName) -> bool {
        match self.by_pod.remove(pod) {
            Some(Eviction::Scheduled { key, .. }) => {
                self.release(key);
                true
            }
            Some(Eviction::Done) | None => false,
        }
    }

    fn release(&mut self, key: KeyId) {
        self.names[key.index()] = None;
        self.free.push(key);
    }

    /// The pod of a key, and when it is deleted; `None` for a free key.
    pub(super) fn scheduled(&self, key: KeyId) -> Option<(PodName, i64)> {
        let pod = self.names.get(key.index())?.clone()?;
        match self.by_pod.get(&pod) {
            Some(Eviction::Scheduled { due_ns, .. }) => Some((pod, *due_ns)),
            Some(Eviction::Done) | None => None,
        }
    }

    /// The pod of a key, if it has one.
    pub(super) fn pod(&self, key: KeyId) -> Option<&PodName> {
        self.names.get(key.index())?.as_ref()
    }

    /// The eviction of a pod was carried out, or has failed for good. One that was cancelled meanwhile stays so.
    pub(super) fn finish(&mut self, key: KeyId, pod: &PodName, is_done: bool) {
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

    /// The number of pods with an eviction that is to come or was carried out.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_pod.len()
    }
}
