//! Pods that are seen before their owners. The streams are read separately, so a pod's events may
//! be read before those of its owner.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_objects::{Now, Pod, Uid};

use super::{NONE, Owner, Tracker};
use crate::workloads;

/// The latest state of pods whose owners have not been seen, by owner UID and then pod UID.
pub(super) type Strays = HashMap<Uid, HashMap<Uid, Arc<Pod>, RandomState>, RandomState>;

impl Tracker {
    /// Returns the number of a pod's owner; `NONE` if the pod has no owner that counts. If the
    /// owner may still appear, stores the pod until then.
    pub(super) fn owner_of(&mut self, pod: &Arc<Pod>) -> u32 {
        let uid = &pod.metadata.uid;
        let owner = pod.metadata.controller();
        let Some(owner) = owner.filter(|_| !self.isolated.contains(uid)) else {
            return NONE;
        };
        if let Some(&at) = self.by_uid.get(&owner.uid) {
            return at;
        }
        if workloads::controller(&pod.metadata).is_some_and(|(it, _)| it.pods().is_some()) {
            let of_owner = self.strays.entry(owner.uid.clone());
            let pods = of_owner.or_insert_with(|| HashMap::with_hasher(FIXED_STATE));
            pods.insert(uid.clone(), Arc::clone(pod));
        }
        NONE
    }

    /// Forgets a removed pod if its owner has not been seen.
    pub(super) fn forget_stray(&mut self, pod: &Pod) {
        if let Some(owner) = pod.metadata.controller()
            && let Some(pods) = self.strays.get_mut(&owner.uid)
        {
            pods.remove(&pod.metadata.uid);
        }
    }

    /// Adds an owner together with its pods that were seen before it. Returns the owner's number.
    pub(super) fn add_owner(&mut self, uid: &Uid, owner: Owner, now: Now) -> usize {
        let at = self.owners.len();
        let place = u32::try_from(at).expect("the number of owners fits 32 bits");
        self.by_uid.insert(uid.clone(), place);
        self.owners.push(owner);
        self.unconverged += 1;
        let mut pods: Vec<_> = self.strays.remove(uid).into_iter().flatten().collect();
        pods.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (_, pod) in pods {
            self.place(&pod, false, now);
        }
        at
    }
}
