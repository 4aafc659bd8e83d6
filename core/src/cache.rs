//! The pod cache with the ranking fields of this crate's workloads stored with each pod. See
//! [`podstorm_runtime::cache`].

use podstorm_objects::Pod;
pub use podstorm_runtime::cache::{Delta, PodFields, StoreVersion, Totals};

use crate::ranking::RankFields;

/// The cached pods of all namespaces.
pub type PodCache = podstorm_runtime::cache::PodCache<RankFields>;
/// What a watch event changed.
pub type PodChange = podstorm_runtime::cache::PodChange<RankFields>;
/// What a list changed.
pub type Listed = podstorm_runtime::cache::Listed<RankFields>;
/// Consecutive pods of one controller in a list.
pub type PodRun = podstorm_runtime::cache::PodRun<RankFields>;
/// The pods of one owner, or the orphans of a namespace.
pub type OwnedPods = podstorm_runtime::cache::OwnedPods<RankFields>;
/// One pod of an owner.
pub type Member = podstorm_runtime::cache::Member<RankFields>;
/// The pods of an owner, locked.
pub type Members = podstorm_runtime::cache::Members<RankFields>;

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
