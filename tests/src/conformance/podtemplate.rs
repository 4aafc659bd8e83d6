//! Cases of `podtemplate`: the pod a workload asks for, or why it doesn't.

use serde_json::{Value, json};

use super::{Fields, sync};

/// Runs one case: a whole sync of a workload with one replica and no pods.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let kind = case.text("kind")?;
    let workload = case.value("parent");
    let mut out = case.object("out")?;
    let meta = &workload["metadata"];
    let text = |member: &str| meta[member].as_str().unwrap_or_default().to_owned();
    let key = format!("{}/{}", text("namespace"), text("name"));
    let run = sync::run_scripted(json!({
        "kind": kind, "key": key, "burst": 500, "parent": workload, "pods": [], "api": {},
        "nowUnixNano": 1_700_000_000_000_000_000_i64,
        "featureGates": {"DeploymentReplicaSetTerminatingReplicas": true},
    }))?;
    let creates: Vec<&Value> = run
        .requests
        .iter()
        .filter(|request| request["verb"] == "create")
        .collect();
    let calls: usize = creates
        .iter()
        .flat_map(|request| request["batches"].as_array().into_iter().flatten())
        .map(|size| {
            size.as_u64()
                .map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX))
        })
        .sum();
    let recorded_error = out.text("error")?;
    super::expect_eq(
        "error",
        &run.create_error().unwrap_or_default(),
        &recorded_error,
    )?;
    super::expect_eq(
        "apiCalls",
        &i64::try_from(calls).expect("few"),
        &out.int("apiCalls")?,
    )?;
    super::expect_eq("events", &run.events, &out.list("events")?)?;
    let body = creates
        .first()
        .map_or(Value::Null, |request| request["body"].clone());
    super::shared::expect_same_json("pod", body, out.value("pod"))?;
    out.finish()
}
