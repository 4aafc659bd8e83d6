//! What others write into the pods of a served cluster. Every ten seconds a kubelet of Kubernetes compares the
//! stored statuses with its own. Here each write of another client has its pod compared once, so a pod without such
//! writes costs nothing. The kubelets of runs compare nothing: the faults that a run injects into statuses stay.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm_objects::{Now, Pod, PodPhase, PodStart, Uid, hash_state};

use super::{PodAction, PodLifecycle};

/// How long what another client wrote stays at most.
///
/// Source: `syncPeriod` of the status manager of Kubernetes' kubelet.
const COMPARED_NS: i64 = 10_000_000_000;

/// The writes of others, and those of the kubelets until they see them.
#[derive(Debug)]
pub(super) struct ForeignWrites {
    /// The versions that the kubelets have written and not seen yet.
    own: HashSet<u64, RandomState>,
    /// The pods that will be compared.
    queued: HashSet<Uid, RandomState>,
    /// Running pods that were there before the kubelets and not ready, for a reason that only their status knows.
    came_unready: HashSet<Uid, RandomState>,
    /// Start and addresses of the pods, as the kubelets have written or found them.
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
    /// The kubelets have written the pod.
    pub(super) fn wrote(&mut self, stored: &Pod) {
        self.own.extend(stored.metadata.resource_version.number());
        self.keep_start(stored);
    }

    /// Keeps what the pod's status says of its start, unless that is known.
    fn keep_start(&mut self, pod: &Pod) {
        if let Some(start) = &pod.status.started
            && !start.pod_ip.is_empty()
        {
            let known = self.starts.entry_ref(&pod.metadata.uid);
            known.or_insert_with(|| Arc::clone(start));
        }
    }

    /// Start and addresses of the pod, where they are known.
    pub(super) fn start(&self, pod: &Pod) -> Option<Arc<PodStart>> {
        self.starts.get(&pod.metadata.uid).cloned()
    }

    /// Whether the pod came unready.
    pub(super) fn came_unready(&self, pod: &Pod) -> bool {
        self.came_unready.contains(&pod.metadata.uid)
    }

    /// Forgets a pod that is gone.
    pub(super) fn forget(&mut self, uid: &Uid) {
        self.queued.remove(uid);
        self.came_unready.remove(uid);
        self.starts.remove(uid);
    }

    /// Forgets what the kubelets have written: they may have missed to see it.
    pub(super) fn reset(&mut self) {
        self.own.clear();
    }

    /// The pod is compared now.
    pub(super) fn compares(&mut self, pod: &Pod) {
        self.queued.remove(&pod.metadata.uid);
    }
}

impl PodLifecycle {
    /// A pod is there as the kubelets begin, or is new.
    pub(super) fn found(&mut self, pod: &Pod) {
        if !self.plays_all || !self.was_there(pod) {
            return;
        }
        self.foreign.keep_start(pod);
        if pod.status.phase == PodPhase::Running && !pod.is_ready() {
            self.foreign.came_unready.insert(pod.metadata.uid.clone());
        }
    }

    /// Whether a change of a pod is the write of another.
    pub(super) fn is_foreign(&mut self, pod: &Pod) -> bool {
        self.plays_all && {
            let version = pod.metadata.resource_version.number();
            version.is_none_or(|version| !self.foreign.own.remove(&version))
        }
    }

    /// Has the pod compared with what its kubelet knows, in time.
    pub(super) fn compare_later(&mut self, pod: Arc<Pod>, now: Now) {
        let runs = pod.status.phase == PodPhase::Running && !pod.metadata.is_deleting();
        if runs && self.foreign.queued.insert(pod.metadata.uid.clone()) {
            let due_ns = now.mono_ns.saturating_add(COMPARED_NS);
            self.later.push(due_ns, (PodAction::Compare, pod));
        }
    }
}
