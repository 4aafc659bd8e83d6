//! The simulated scheduler, which binds pods to nodes, the simulated kubelets, which start and end
//! pods, and, where nodes may fail, the node controller. All are ordinary clients of the API
//! server. [`NodeControl`] lets nodes fail.

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
