//! The load laboratory behind the `loadgen` command: an embedded cluster, simulated nodes, two
//! engines, scenarios and reports.

pub mod checkers;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod compare;
pub mod engine;
pub mod explain;
pub mod exposition;
pub mod faults;
pub mod figures;
pub mod input;
pub mod latency;
pub mod manifest;
pub mod nodes;
#[cfg(feature = "profile")]
pub mod profile;
pub mod report;
pub mod result;
pub mod scenario;
pub mod settings;
pub mod simulator;
pub mod sweep;
pub mod units;
