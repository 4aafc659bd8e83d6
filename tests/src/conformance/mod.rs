//! Recorded decisions of the upstream controllers, run against the public APIs of `podstorm` and
//! `podstorm_apiserver`, and recorded responses of upstream's API server, run against
//! `podstorm_http`.
//!
//! There is one module per subject, with a function `run(case)`. The function takes the members of
//! a case without its `id` and returns the differences. It must read every member of a case (see
//! [`Fields`]). The cases of [`http`] share a server, so they are played together.

mod active;
mod claim;
mod consistency;
mod deletion_cost;
mod deployment;
pub mod deviations;
mod differences;
mod eviction;
mod expectations;
mod fields;
mod files;
mod free_choice;
mod gc;
mod handlers;
pub mod http;
mod job;
mod limit;
mod log_rank;
mod namespace;
mod pdb;
mod podgc;
mod podtemplate;
mod protobuf;
mod ranking;
mod rate_limiter;
mod related;
pub mod runner;
mod scripted_api;
mod selector;
mod shared;
mod slow_start;
mod statefulset;
mod status;
mod sync;
mod ttl;
mod workqueue;

use serde_json::Value;

pub use differences::Differences;
pub use fields::{Fields, expect_eq};
use fields::{expect_same_json, pruned};

/// Runs a case of one subject. The error contains the differences.
type Run = fn(&mut Fields) -> Result<(), String>;

/// Returns the function that runs the cases of a subject; `None` if the subject is unknown or its
/// cases are not independent.
fn runner_of(subject: &str) -> Option<Run> {
    Some(match subject {
        "active" => active::run,
        "claim" => claim::run,
        "consistency" => consistency::run,
        "deletion_cost" => deletion_cost::run,
        "deployment_annotations" => deployment::annotations::run,
        "deployment_fenceposts" => deployment::fenceposts::run,
        "deployment_find_new_rs" => deployment::find_new_rs::run,
        "deployment_handlers" => deployment::handlers::run,
        "deployment_kubectl_history_undo" => deployment::kubectl_history_undo::run,
        "deployment_kubectl_rollout_status" => deployment::kubectl_rollout_status::run,
        "deployment_new_rs_replicas" => deployment::new_rs_replicas::run,
        "deployment_pod_template_hash" => deployment::pod_template_hash::run,
        "deployment_proportions" => deployment::proportions::run,
        "deployment_rollouts" => deployment::rollouts::run,
        "deployment_sync" => deployment::sync::run,
        "deployment_template_equal" => deployment::template_equal::run,
        "eviction" => eviction::run,
        "expectations" => expectations::run,
        "gc" => gc::run,
        "handlers" => handlers::run,
        "job_backoff" => job::pure::backoff,
        "job_handlers" => job::handlers::run,
        "job_indexes" => job::pure::indexes,
        "job_orphan" => job::orphan::run,
        "job_pod_failure_policy" => job::pure::failure_policy,
        "job_success_policy" => job::pure::success_policy,
        "job_sync" => job::sync::run,
        "log_rank" => log_rank::run,
        "namespace" => namespace::run,
        "pdb" => pdb::run,
        "podgc" => podgc::run,
        "podtemplate" => podtemplate::run,
        "protobuf" => protobuf::run,
        "ranking" => ranking::run,
        "rate_limiter" => rate_limiter::run,
        "related" => related::run,
        "selector" => selector::run,
        "slow_start" => slow_start::run,
        "statefulset_handlers" => statefulset::handlers::run,
        "statefulset_history" => statefulset::revisions::history,
        "statefulset_identity" => statefulset::pure::identity,
        "statefulset_kubectl_rollout_status" => statefulset::pure::rollout_status,
        "statefulset_max_unavailable" => statefulset::pure::most_unavailable,
        "statefulset_pod" => statefulset::pure::pod_of,
        "statefulset_pvc_policy" => statefulset::pure::claim_policy,
        "statefulset_revision_apply" => statefulset::revisions::apply,
        "statefulset_revision_hash" => statefulset::revisions::hash,
        "statefulset_sync" | "statefulset_sync_claims" | "statefulset_sync_updates" => {
            statefulset::sync::run
        }
        "status" => status::run,
        // Whole syncs of ReplicationControllers and ReplicaSets.
        "rc" | "sync" => sync::run,
        "ttl_handlers" => ttl::handlers,
        "ttl_sync" => ttl::sync,
        "workqueue" => workqueue::run,
        _ => return None,
    })
}

/// Runs one case.
///
/// # Errors
/// Returns the differences from the recording, or an unknown member.
fn run_case(run: Run, case: Value) -> Result<(), String> {
    let mut case = Fields::new(case, "case")?;
    run(&mut case)?;
    case.finish()
}
