//! Makers: the workloads that own owners of pods, such as Deployments. Pods belong to them through
//! their owners.

use ahash::RandomState;
use hashbrown::HashSet;
use podstorm::intern::FIXED_STATE;
use podstorm_objects::{Kind, Pod};

use super::Tracker;
use super::state::{Maker, Owner};
use crate::workloads;

impl Tracker {
    /// Returns the makers of owners from files with pods that can't become ready. O(owners).
    pub(in crate::run::phases) fn stuck_makers(&self) -> HashSet<Maker<'_>, RandomState> {
        let mut stuck = HashSet::with_hasher(FIXED_STATE);
        let owners = self.owners.iter().filter(|owner| owner.stuck > 0);
        stuck.extend(owners.filter_map(Owner::maker));
        stuck
    }

    /// Returns how many pods of a maker can't become ready, and why; `None` if all can. O(owners).
    pub(in crate::run::phases) fn stuck_of(&self, maker: Maker<'_>) -> Option<(i32, &str)> {
        let owners = self.owners.iter();
        let owners = owners.filter(|owner| owner.stuck > 0 && owner.maker() == Some(maker));
        let mut why = None;
        let mut count = 0;
        for owner in owners {
            count += owner.stuck;
            let reason = || {
                let stuck = self.stuck_pods.as_ref()?;
                let kind = owner.workload.kind().name();
                stuck.reason(&owner.namespace, kind, &owner.name)
            };
            why = why.or_else(reason);
        }
        (count > 0).then(|| (count, why.unwrap_or("not ready")))
    }

    /// Returns the kind of the workload that a pod belongs to: its maker if it has one, otherwise
    /// its owner. `None` if no workload owns the pod.
    pub(in crate::run::phases) fn kind_of(&self, pod: &Pod) -> Option<Kind> {
        let (workload, owner) = workloads::controller(&pod.metadata)?;
        let known = self.by_uid.get(&owner.uid);
        let known = known.map(|at| self.owners[*at as usize].shown_kind());
        Some(known.unwrap_or(workload.kind()))
    }
}
