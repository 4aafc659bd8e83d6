//! The simulated scheduler, which binds pods to nodes, the simulated kubelets, which start and end
//! pods, and, where nodes may fail, the node controller. All are ordinary clients of the API
//! server. [`NodeControl`] lets nodes fail.
//!
//! * `scheduler`: binds pods. `placement`: which nodes take a pod, and `refusals`: why the others don't; `asks`,
//!   `neighbours`, `claims`: what a pod asks of its node, of other pods, and of volumes; `placed`, `capacity`: the pods that
//!   have nodes, and the free places; `preemption`: which pods go for one of higher priority; `place_waits`: how long pods
//!   wait.
//! * `kubelet`: starts and ends pods; `pod_life` and `script`: a pod that is played step by step, as its annotation says;
//!   `status`, `change`: what kubelets write of pods; `stuck`: pods of a dump that can't become ready.
//! * `heartbeats`, `node_status`: kubelets of served clusters keep their nodes alive. `controller`: lost nodes in runs.
//! * `events`: Events of scheduler and kubelets; `rules`: what a served cluster sets about all of this.

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
