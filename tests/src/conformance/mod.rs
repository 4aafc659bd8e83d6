//! Recorded decisions of the upstream controller, run against the public API of `podstorm`.
//!
//! One module per subject; each offers `run(case)`, which takes a whole case (its `id` already
//! removed) and returns what differs. Every member of a case must be read (see [`Fields`]).

mod active;
mod claim;
mod consistency;
mod deletion_cost;
mod expectations;
mod fields;
mod free_choice;
mod handlers;
mod log_rank;
mod podtemplate;
mod ranking;
mod rate_limiter;
mod rc;
mod related;
pub mod runner;
mod scripted_api;
mod selector;
mod slow_start;
mod status;
mod sync;
mod workqueue;
mod world;

use serde_json::Value;

pub use fields::{Fields, expect_eq};

/// Runs one case of a subject; the subject is the file's name up to the first dot.
///
/// # Errors
/// What differs from the record, an unknown field, or an unknown subject.
pub fn run_case(subject: &str, case: Value) -> Result<(), String> {
    match subject {
        "active" => active::run(case),
        "claim" => claim::run(case),
        "consistency" => consistency::run(case),
        "deletion_cost" => deletion_cost::run(case),
        "expectations" => expectations::run(case),
        "handlers" => handlers::run(case),
        "log_rank" => log_rank::run(case),
        "podtemplate" => podtemplate::run(case),
        "ranking" => ranking::run(case),
        "rate_limiter" => rate_limiter::run(case),
        "rc" => rc::run(case),
        "related" => related::run(case),
        "selector" => selector::run(case),
        "slow_start" => slow_start::run(case),
        "status" => status::run(case),
        "sync" => sync::run(case),
        "workqueue" => workqueue::run(case),
        other => Err(format!("no such subject: {other}")),
    }
}
