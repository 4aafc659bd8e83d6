//! Scenarios: what happens to the cluster in a run, and when it counts as done.
//!
//! A scenario is a list of phases (`plan`); a part (`driver`) does what a phase says, through
//! the API like any client, and waits for the phase's condition, which it knows from watches of its
//! own (`tracker`). At the end of a phase the cluster's store is listed and checked against what
//! the watches said.

mod audit;
mod driver;
mod load;
mod objects;
mod plan;
mod slowest;
mod stall;
mod tasks;
mod tracker;

pub use driver::{Controllers, Driver, Position, Report};
pub use plan::success_condition;
pub use stall::{EXPIRED, LOST};
