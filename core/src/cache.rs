//! The pod cache, and the ranking fields that it keeps of the pods of ReplicaSets and
//! ReplicationControllers. See [`podstorm_runtime::cache`].

use podstorm_objects::Pod;
pub use podstorm_runtime::cache::{
    Delta, Listed, Member, Members, OwnedPods, PodCache, PodChange, PodFields, PodRun,
    StoreVersion, Totals,
};

use crate::ranking::RankFields;

impl PodFields for RankFields {
    #[inline]
    fn of(pod: &Pod, node: u32) -> Self {
        RankFields::of(pod, node)
    }

    #[inline]
    fn next(&self, old: &Pod, new: &Pod, node: u32) -> Self {
        self.next(old, new, node)
    }
}
