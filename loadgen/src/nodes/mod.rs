//! The rest of a cluster, simulated: a scheduler that binds pods to nodes, and kubelets that start
//! and end them. Both are clients of the API server like any other: they watch, and they write.

mod kubelet;
mod room;
mod scheduler;
mod status;

pub use kubelet::Kubelets;
pub use scheduler::Scheduler;
