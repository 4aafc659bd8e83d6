//! The ready owned pods, for scenarios that delete some of them at random.

use std::sync::Arc;

use podstorm_objects::Pod;

use super::{NONE, PodState, Tracker};

impl Tracker {
    /// Returns how many pods can be picked.
    pub(in crate::run::phases) fn pickable(&self) -> u64 {
        self.pickable.as_ref().map_or(0, Vec::len) as u64
    }

    /// Removes a random ready owned pod from the list and returns it; `None` if there are none.
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

    /// Adds a pod to the list if it can be picked.
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

    /// Removes the entry at a place from the list. The last entry moves to this place.
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
