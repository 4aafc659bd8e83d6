//! Scenarios: what happens to the cluster in a run, and when it counts as done.
//!
//! A scenario is a list of phases (`definition`), from the library or from a file; a part (`driver`)
//! does what a phase says (`tasks` and what it calls), through the API like any client, and waits for
//! the phase's condition, which it knows from watches of its own (`tracker`). At the end of a phase
//! the cluster's store is listed and checked against what the watches said.

mod aborts;
mod amount;
mod answer;
mod audit;
mod defaults;
mod definition;
mod disturb;
mod driver;
#[cfg(test)]
mod dump_tests;
mod file;
mod generate;
mod library;
mod load;
mod load_shape;
mod objects;
mod pods_by_lot;
mod roll_out;
mod slowest;
mod tasks;
#[cfg(test)]
mod tests;
mod text;
mod tracker;

pub use amount::{Amount, Which};
pub use answer::answer;
pub use defaults::ScenarioSettings;
pub use definition::{
    Churn, CreateReplicaSets, FullThreshold, Group, LoseAnswers, Phase, PodQuota, Repeat, RollOut,
    Scale, Scenario, SomeNamespaces, SomeNodes, SomeOfThePods, SomePods, SomeReplicaSets, Step,
    Stream, ThresholdEntry, Until,
};
pub use driver::{Controllers, Driver, Position, Report};
pub use file::ScenarioError;
pub use load_shape::{LoadShape, Positive, TimeLimit};
pub use objects::group_sizes;
pub use text::{BehaviourName, EngineName, LatencyText, Percent, Rate, Size, Time};
