//! The fields that a workload stores for each pod of its owners, in addition to those that the
//! cache stores for every pod. Each set of owned pods has one column, chosen by the owner's kind.

use std::any::Any;
use std::fmt::Debug;

use podstorm_objects::Pod;

/// The values that a workload stores for each pod of its owners, densely and apart from the pod.
/// They are computed once per version of the pod and read by syncs that visit many pods.
pub trait PodFields: Debug + Send + Sync + 'static {
    /// Computes the fields of a pod. `node` is the dense number of the pod's node; 0 if the pod is
    /// not bound.
    fn from_pod(pod: &Pod, node: u32) -> Self;

    /// Computes the fields of `new`, the next version of the pod `old` that has these fields.
    fn next(&self, old: &Pod, new: &Pod, node: u32) -> Self;
}

/// The fields of one owner's pods, whatever their type. Item `i` belongs to the pod at position
/// `i`.
pub(super) trait Column: Any + Debug + Send + Sync {
    fn reserve(&mut self, count: usize);
    fn push(&mut self, pod: &Pod, node: u32);
    fn update(&mut self, position: usize, old: &Pod, new: &Pod, node: u32);
    fn swap_remove(&mut self, position: usize);
}

/// A function that creates an empty column.
pub(super) type NewColumn = fn() -> Box<dyn Column>;

impl<F: PodFields> Column for Vec<F> {
    fn reserve(&mut self, count: usize) {
        self.reserve_exact(count);
    }

    fn push(&mut self, pod: &Pod, node: u32) {
        reserve_one(self);
        Vec::push(self, F::from_pod(pod, node));
    }

    fn update(&mut self, position: usize, old: &Pod, new: &Pod, node: u32) {
        let fields = &mut self[position];
        *fields = fields.next(old, new, node);
    }

    fn swap_remove(&mut self, position: usize) {
        Vec::swap_remove(self, position);
    }
}

/// Reserves memory for one more item, with less spare capacity than `Vec` would. Each owner has its
/// own list, and spare capacity of half a 64-byte item per pod would exceed the pod's other
/// entries.
pub(super) fn reserve_one<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        items.reserve_exact((items.len() / 4).max(4));
    }
}
