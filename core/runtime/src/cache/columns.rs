//! What a workload keeps of each pod of its owners, beside what the cache keeps of every pod: one
//! column for each set of owned pods, chosen by the kind of the owner.

use std::any::Any;
use std::fmt::Debug;

use podstorm_objects::Pod;

/// The values that a workload keeps of each pod of its owners, dense and apart from the pod itself.
/// They are computed once for each version of the pod and read by syncs that look at many pods.
pub trait PodFields: Debug + Send + Sync + 'static {
    /// The fields of a pod. `node` is the dense number of its node's name, 0 without a node.
    fn of(pod: &Pod, node: u32) -> Self;

    /// The fields of the next version of the pod with these fields.
    fn next(&self, old: &Pod, new: &Pod, node: u32) -> Self;
}

/// The fields of the pods of one owner, whatever they are: item `i` is of the pod at position `i`.
pub(super) trait Column: Any + Debug + Send + Sync {
    fn reserve(&mut self, count: usize);
    fn push(&mut self, pod: &Pod, node: u32);
    fn update(&mut self, position: usize, old: &Pod, new: &Pod, node: u32);
    fn swap_remove(&mut self, position: usize);
}

/// Makes an empty column.
pub(super) type NewColumn = fn() -> Box<dyn Column>;

impl<F: PodFields> Column for Vec<F> {
    fn reserve(&mut self, count: usize) {
        self.reserve_exact(count);
    }

    fn push(&mut self, pod: &Pod, node: u32) {
        reserve_one(self);
        Vec::push(self, F::of(pod, node));
    }

    fn update(&mut self, position: usize, old: &Pod, new: &Pod, node: u32) {
        let fields = &mut self[position];
        *fields = fields.next(old, new, node);
    }

    fn swap_remove(&mut self, position: usize) {
        Vec::swap_remove(self, position);
    }
}

/// Reserves memory for one more item, with less to spare than a vector: there is one list for each
/// owner, and half of a 64-byte item for each pod is more than the pod's other entries.
pub(super) fn reserve_one<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 4).max(4));
    }
}
