//! The part that plays a scenario: it (`driver`) does what a phase says (`tasks` and what it calls),
//! through the API like any client, and waits for the phase's condition, which it knows from
//! watches of its own (`tracker`). At the end of a phase the cluster's store is listed and checked
//! against what the watches said.

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
