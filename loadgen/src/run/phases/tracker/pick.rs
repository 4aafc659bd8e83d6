//! Ready owned pods, for scenarios that delete some of them at random.

use std::sync::Arc;

use podstorm_objects::Pod;

use super::{NONE, PodState, Tracker};

impl Tracker {
    /// Returns how many pods can be picked.
    pub(in crate::run::phases) fn pickable(&self) -> u64 {
        self.pickable.as_ref().map_or(0, Vec::len) as u64
    }

    /// Removes and returns a random ready owned pod.
    pub(in crate::run::phases) fn pick(&mut self, rng: &mut fastrand::Rng) -> Option<Arc<Pod>> {
        let pickable = self.pickable.as_mut()?;
        if pickable.is_empty() {
            return None;
        }
        let at = rng.usize(..pickable.len());
        let pod = Arc::clone(&pickable[at]);
        self.unlist(at);
        if let Some(state) = self.pods.get_mut(&pod.metadata.uid) {
            state.pick = NONE;
        }
        Some(pod)
    }

    /// Adds a pod to those that can be picked, if it qualifies.
    pub(super) fn list(&mut self, pod: &Arc<Pod>, state: PodState) {
        let Some(pickable) = &mut self.pickable else {
            return;
        };
        if state.ready && state.active && state.owner != NONE && state.pick == NONE {
            let at = u32::try_from(pickable.len()).expect("the number of pods fits 32 bits");
            pickable.push(Arc::clone(pod));
            if let Some(state) = self.pods.get_mut(&pod.metadata.uid) {
                state.pick = at;
            }
        }
    }

    /// Removes a place from the list; the last pod moves into it.
    pub(super) fn unlist(&mut self, at: usize) {
        let Some(pickable) = &mut self.pickable else {
            return;
        };
        pickable.swap_remove(at);
        if let Some(moved) = pickable.get(at)
            && let Some(state) = self.pods.get_mut(&moved.metadata.uid)
        {
            state.pick = u32::try_from(at).expect("places fit 32 bits");
        }
    }
}
