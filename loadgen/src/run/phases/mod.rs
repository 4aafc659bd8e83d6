//! Plays a scenario. The driver (`driver`) performs the steps of a phase (`tasks` and the modules
//! that it calls) through the API, like any client. It waits for the phase's condition, which it
//! determines from its own watches (`tracker`). At the end of a phase it scans the cluster's store
//! and checks it against the watch events.

mod aborts;
mod audit;
mod bounds;
mod disturb;
mod drain;
mod driver;
#[cfg(test)]
mod dump_tests;
mod exchange;
mod finishing;
mod generate;
mod heard;
mod load;
mod missing;
mod random_pods;
mod roll_out;
mod rollouts;
mod slowest;
mod tasks;
#[cfg(test)]
mod tests;
mod tracker;

pub(crate) use driver::Driver;
pub(crate) use exchange::{Controllers, Position, Report};
pub(crate) use rollouts::UNPULLABLE;
