//! The pod cache with the ranking fields of the pods of ReplicaSets and ReplicationControllers, and
//! the marks under which the syncs of other workloads store findings about a pod. See
//! [`podstorm_runtime::cache`].

use std::hash::Hash;
use std::sync::Arc;

use podstorm_objects::{Pod, Selector, SelectorError, hash_state};
pub use podstorm_runtime::cache::{
    Delta, Listed, Member, Members, OwnedPods, PodCache, PodChange, PodFields, PodRun,
    StoreVersion, Totals,
};

use crate::ranking::RankFields;

impl PodFields for RankFields {
    #[inline]
    fn from_pod(pod: &Pod, node: u32) -> Self {
        RankFields::from_pod(pod, node)
    }

    #[inline]
    fn next(&self, old: &Pod, new: &Pod, node: u32) -> Self {
        self.next(old, new, node)
    }
}

/// Returns a nonzero hash of a value. A finding that a sync stores about a pod is valid as long as
/// the mark stored with it equals the mark of the current value.
pub(crate) fn mark(value: impl Hash) -> u32 {
    let [.., a, b, c, d] = hash_state().hash_one(value).to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) | 1
}

/// Returns the mark of a selector.
pub(crate) fn selector_mark(selector: &Result<Arc<Selector>, SelectorError>) -> u32 {
    let text = selector.as_ref().map(|selector| selector.to_string());
    mark(text.unwrap_or_default())
}
