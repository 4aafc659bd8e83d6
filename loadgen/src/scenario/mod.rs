//! Scenarios: what happens to the cluster during a run, and when the run is done.
//!
//! A scenario is a list of phases (`definition`). It is built in or comes from a file. This module
//! defines and parses scenarios; [`crate::run`] runs them.

mod amount;
pub mod answer;
mod created;
mod definition;
mod file;
mod input;
mod library;
pub(crate) mod load_shape;
mod nodes;
mod row_flags;
mod settings;
mod step;
mod template;
mod toml;

pub use amount::{Amount, Which};
pub use definition::{
    Churn, Create, FullThreshold, Group, LoseAnswers, Phase, PodQuota, Repeat, RollOut, Scale,
    Scenario, ScenarioStep, SetImage, SomeNamespaces, SomeOfThePods, SomePods, SomeWorkloads,
    Stream, ThresholdEntry, Until,
};
pub use file::ScenarioError;
pub use load_shape::{LoadShape, Positive, TimeLimit};
pub use nodes::{CreateBudgets, SomeNodes};
pub use row_flags::RowFlags;
pub use settings::ScenarioSettings;
pub(crate) use settings::share;
pub use template::group_sizes;
pub(crate) use template::pod_template;
