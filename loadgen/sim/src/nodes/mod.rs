//! The simulated nodes: the scheduler, which binds pods to nodes; the kubelets, which start and end
//! pods; and, if nodes can fail, the node controller. All are ordinary clients of the API server.
//! [`NodeControl`] makes nodes fail.
//!
//! * `scheduler`: binds pods. `placement`: the nodes that can take a pod; `refusals`: the reasons
//!   why other nodes can't; `asks`, `neighbours`, `claims`: a pod's requirements on its node, on
//!   other pods and on volumes; `placed`, `capacity`: the pods on nodes, and the free capacity;
//!   `preemption`: the pods that are ended for one of higher priority; `place_waits`: the time that
//!   pods wait for room.
//! * `kubelet`: starts and ends pods; `pod_life` and `script`: a pod that is played step by step,
//!   as its annotation specifies; `status`, `change`: the statuses that kubelets write; `stuck`:
//!   pods of a dump that can't become ready.
//! * `heartbeats`, `node_status`: kubelets of served clusters keep their nodes alive. `controller`:
//!   lost nodes in runs.
//! * `events`: Events of the scheduler and kubelets; `rules`: the settings of a served cluster.

mod asks;
mod capacity;
mod change;
mod claims;
mod control;
mod controller;
mod events;
mod heartbeats;
mod kubelet;
mod neighbours;
mod node_status;
mod place_waits;
mod placed;
mod placement;
#[cfg(test)]
mod placement_tests;
mod pod_life;
mod preemption;
#[cfg(test)]
mod preemption_tests;
mod refusals;
mod rules;
mod scheduler;
mod script;
mod status;
mod stuck;
#[cfg(test)]
mod tests;

pub use control::{NodeControl, NodeTimes, PodCommand};
pub use heartbeats::{Heartbeats, register};
pub use kubelet::Kubelets;
pub use place_waits::PlaceWaits;
pub use rules::{ClientRules, Finishing, NodeChoice, NodeSize, PPM, PodNetwork};
pub use scheduler::Scheduler;
pub use script::{SCRIPT, Script, ScriptError};
pub use stuck::{StuckPods, problem, why_unready};
