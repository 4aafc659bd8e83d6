//! Scripted hazards: each is a run of the fault simulator with its invariant checker. A script also
//! reads data from the run.

mod harness;
mod log;
mod manual;
#[cfg(test)]
mod tests;
mod view;

pub use harness::{Harness, Setup, idle_set, minutes, ms, owners, pod, replica_set, seconds};
pub use log::{EventLog, RequestRecord, SyncRecord, Write, WriteRecord};
pub use manual::{Done, ManualController};
pub use podstorm_faultsim::objects::{NAMESPACE, with};
pub use view::{View, pods};
