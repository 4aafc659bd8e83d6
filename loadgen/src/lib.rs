//! The load laboratory behind the `loadgen` command: scenarios, settings, manifests, runs, reports.

pub mod cli;
pub mod compare;
mod drain;
pub mod exposition;
pub mod gates;
pub mod input;
pub mod manifest;
pub mod metrics;
mod owned_pods;
#[cfg(feature = "profile")]
pub mod profile;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod serve;
pub mod settings;
pub mod size;
pub mod sweep;
mod text;
pub mod units;
pub mod values;
mod workloads;

pub use workloads::explain;
