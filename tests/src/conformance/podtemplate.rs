//! Cases of `podtemplate`: the pod that a workload creates, or the reason why it can't create one.

use serde_json::{Value, json};

use super::{Fields, sync};

/// Runs one case: a whole sync of a workload with one replica and no pods.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let kind = case.text("kind")?;
    let workload = case.value("parent");
    let meta = &workload["metadata"];
    let text = |member: &str| meta[member].as_str().unwrap_or_default().to_owned();
    let key = format!("{}/{}", text("namespace"), text("name"));
    let run = sync::run_scripted(json!({
        "kind": kind, "key": key, "burst": 500, "parent": workload, "pods": [], "api": {},
        "nowUnixNano": 1_700_000_000_000_000_000_i64,
        "featureGates": {"DeploymentReplicaSetTerminatingReplicas": true},
    }))?;
    let creates = run.requests.iter();
    let creates: Vec<&Value> = creates.filter(|it| it["verb"] == "create").collect();
    let batches = creates.iter().flat_map(|it| it["batches"].as_array());
    let calls: u64 = batches.flatten().filter_map(Value::as_u64).sum();
    let body = creates.first().map(|request| request["body"].clone());
    let mut out = case.object("out")?;
    out.sent("pod", body.into())?;
    out.is(json!({"error": run.create_error(), "apiCalls": calls, "events": run.events}))
}
