//! Cases of `status`: the computed status, whether and how it is written, and when availability is
//! checked next.

use podstorm::object::{Kind, Pod, ReplicaSet, Time};
use podstorm::replicaset::reconcile::{
    StatusCounts, compute_status, next_availability_check, status_is_unchanged,
};
use serde_json::{Value, json};

use super::shared::{pod, workload};
use super::{Fields, expect_eq, expect_same_json};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let now_text = case.text("now")?;
    let now_ns = case.int("nowUnixNano")?;
    let now = Time::from_unix_nanos(now_ns);
    let parsed: Time = now_text.parse().map_err(|error| format!("now: {error}"))?;
    expect_eq("now", &now, &parsed)?;
    let mut gates = case.object("featureGates")?;
    let gate = gates.flag("DeploymentReplicaSetTerminatingReplicas")?;
    gates.finish()?;
    let enabled = case.flag("enableStatusTerminatingReplicas")?;
    let workload = workload(Kind::REPLICA_SET, case.value("replicaSet"))?;
    let pods = case.all("activePods", pod)?;
    let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
    let terminating = i32::try_from(case.int("terminatingPods")?).map_err(|e| e.to_string())?;
    let error = case.text("manageReplicasError")?;
    let error = (!error.is_empty()).then_some(error);
    let labels = &workload.spec.template.metadata.labels;
    let min_ready = workload.spec.min_ready_seconds;
    let counts = StatusCounts::count(pods.iter().copied(), labels, min_ready, now_ns);
    let terminating = (gate && enabled).then_some(terminating);
    let status = compute_status(&workload, counts, terminating, error.as_deref(), now);
    expect_same_json("newStatus", status.to_json(), case.value("newStatus"))?;
    let next = next_availability_check(pods.iter().copied(), min_ready, now_ns);
    expect_eq(
        "next check",
        &next,
        &case.opt_int("nextAvailabilityCheckNanos")?,
    )?;
    write(case, &workload, status)
}

/// Writes the status and retries once, as the sync does.
fn write(
    case: &mut Fields,
    workload: &ReplicaSet,
    mut status: podstorm::object::ReplicaSetStatus,
) -> Result<(), String> {
    let mut results = case.list("updateResults")?.into_iter();
    let get_fails = case.flag("getFails")?;
    // Ignore the generation of the object that is read again: it never reaches the status.
    case.opt_int("freshGeneration")?;
    let mut writes = Vec::new();
    let mut gets = 0;
    let mut failed = false;
    if !status_is_unchanged(workload, &status) {
        status.observed_generation = workload.metadata.generation;
        for attempt in 0..2 {
            writes.push(status.to_json());
            failed = match results.next() {
                None => false,
                Some(Value::String(result)) => result != "ok",
                Some(other) => return Err(format!("unknown update result {other}")),
            };
            if !failed || attempt == 1 {
                break;
            }
            gets += 1;
            if get_fails {
                break;
            }
        }
    }
    case.sent("writes", writes.into())?;
    case.is(json!({"gets": gets, "updateError": failed}))
}
