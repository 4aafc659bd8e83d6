//! The rest of a cluster, simulated: a scheduler that binds pods to nodes, kubelets that start and
//! end them, and, where faults are to happen, a node controller. All are clients of the API server
//! like any other: they watch, and they write. [`NodeControl`] lets nodes fail from outside.

mod capacity;
mod change;
mod control;
mod controller;
mod kubelet;
mod scheduler;
mod status;
#[cfg(test)]
mod tests;

pub use control::{NodeControl, NodeTimes, PodCommand};
pub use kubelet::Kubelets;
pub use scheduler::Scheduler;
