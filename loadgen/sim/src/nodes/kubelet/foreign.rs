//! Writes of other clients to the pods of a served cluster. Every ten seconds, a kubelet of
//! Kubernetes compares the stored statuses with its own. Here, a write of another client causes one
//! comparison of the written pod, so pods without such writes cost nothing. The kubelets of runs
//! compare nothing, so the faults that a run injects into statuses persist.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm_objects::{Now, Pod, PodPhase, PodStart, Uid, hash_state};

use super::{PodAction, PodLifecycle};

/// The maximum time that a foreign write persists.
///
/// Source: `syncPeriod` of the status manager of Kubernetes' kubelet.
const COMPARED_NS: i64 = 10_000_000_000;

/// Tells the writes of other clients from those of the kubelets.
#[derive(Debug)]
pub(super) struct ForeignWrites {
    /// The versions of the kubelets' writes that they have not yet observed in their watches.
    own: HashSet<u64, RandomState>,
    /// The pods whose comparison is scheduled.
    queued: HashSet<Uid, RandomState>,
    /// The running pods that existed before the kubelets began and were not ready, for a reason
    /// that only their statuses contain.
    came_unready: HashSet<Uid, RandomState>,
    /// The start time and addresses of each pod, as the kubelets wrote or found them.
    starts: HashMap<Uid, Arc<PodStart>, RandomState>,
}

impl Default for ForeignWrites {
    fn default() -> ForeignWrites {
        ForeignWrites {
            own: HashSet::with_hasher(hash_state()),
            queued: HashSet::with_hasher(hash_state()),
            came_unready: HashSet::with_hasher(hash_state()),
            starts: HashMap::with_hasher(hash_state()),
        }
    }
}

impl ForeignWrites {
    /// Records that the kubelets have written the pod.
    pub(super) fn wrote(&mut self, stored: &Pod) {
        self.own.extend(stored.metadata.resource_version.number());
        self.keep_start(stored);
    }

    /// Stores the start time and addresses from the pod's status, unless they are already known.
    fn keep_start(&mut self, pod: &Pod) {
        if let Some(start) = &pod.status.started
            && !start.pod_ip.is_empty()
        {
            let known = self.starts.entry_ref(&pod.metadata.uid);
            known.or_insert_with(|| Arc::clone(start));
        }
    }

    /// Returns the start time and addresses of the pod; `None` if they are not known.
    pub(super) fn start(&self, pod: &Pod) -> Option<Arc<PodStart>> {
        self.starts.get(&pod.metadata.uid).cloned()
    }

    /// Reports whether the pod existed before the kubelets began and was running but not ready.
    pub(super) fn came_unready(&self, pod: &Pod) -> bool {
        self.came_unready.contains(&pod.metadata.uid)
    }

    /// Forgets a deleted pod.
    pub(super) fn forget(&mut self, uid: &Uid) {
        self.queued.remove(uid);
        self.came_unready.remove(uid);
        self.starts.remove(uid);
    }

    /// Forgets the versions that the kubelets have written. Called when the kubelets may have
    /// missed the events of these writes.
    pub(super) fn reset(&mut self) {
        self.own.clear();
    }

    /// Records that the scheduled comparison of the pod takes place now.
    pub(super) fn compares(&mut self, pod: &Pod) {
        self.queued.remove(&pod.metadata.uid);
    }
}

impl PodLifecycle {
    /// Records the state of a pod that existed before the kubelets began. Ignores any other pod.
    pub(super) fn found(&mut self, pod: &Pod) {
        if !self.plays_all || !self.was_there(pod) {
            return;
        }
        self.foreign.keep_start(pod);
        if pod.status.phase == PodPhase::Running && !pod.is_ready() {
            self.foreign.came_unready.insert(pod.metadata.uid.clone());
        }
    }

    /// Reports whether a change of a pod was written by another client.
    pub(super) fn is_foreign(&mut self, pod: &Pod) -> bool {
        self.plays_all && {
            let version = pod.metadata.resource_version.number();
            version.is_none_or(|version| !self.foreign.own.remove(&version))
        }
    }

    /// Schedules a comparison of the pod with its kubelet's state.
    pub(super) fn compare_later(&mut self, pod: Arc<Pod>, now: Now) {
        let runs = pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
        if runs && self.foreign.queued.insert(pod.metadata.uid.clone()) {
            let due_ns = now.mono_ns.saturating_add(COMPARED_NS);
            self.later.push(due_ns, (PodAction::Compare, pod));
        }
    }
}
