//! Cases of `deployment_kubectl_history_undo`: `kubectl rollout history` and `undo`. kubectl's
//! description of a revision's template (`historyOfRevision`) is read but not compared, because
//! podstorm does not describe templates.

use std::sync::Arc;

use podstorm::deployment::rollout::{history, undo};
use podstorm::object::{Deployment, ReplicaSet, Resource, Selector};
use serde_json::{Value, json};

use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(case.value("deployment"))?;
    let replica_sets: Vec<Arc<ReplicaSet>> = case.all("replicaSets", |value| {
        let replica_set = ReplicaSet::from_json(value).map_err(|error| error.to_string())?;
        Ok(Arc::new(replica_set))
    })?;
    let revision = case.int("revision")?;
    let mut out = case.object("out")?;

    let history = history(&deployment, &replica_sets).map_err(|error| error.to_string());
    let history_error = history.as_ref().err().cloned();
    expect_eq(
        "historyError",
        &history_error.unwrap_or_default(),
        &out.text("historyError")?,
    )?;
    let history = history?;
    let mut revision_error = None;
    if revision > 0 {
        let described = out.text("historyOfRevision")?;
        if history.rows.is_empty() {
            expect_eq("historyOfRevision", &history.to_string(), &described)?;
        } else {
            let found = history.at(revision);
            let is_described = !described.is_empty();
            expect_eq("has a template to describe", &found.is_ok(), &is_described)?;
            revision_error = found.err().map(|error| error.to_string());
        }
    }

    let undo = undo(&deployment, &replica_sets, revision);
    let undo_error = undo.as_ref().err().map(ToString::to_string);
    let (message, patch) = match undo {
        Ok(undo) => (undo.message, undo.patch),
        Err(_) => (String::new(), None),
    };
    out.sent("undoRequests", requests(&deployment, revision, patch)?)?;
    out.is(json!({
        "history": history.to_string(), "historyOfRevisionError": revision_error,
        "undo": message, "undoError": undo_error,
    }))
}

/// Returns kubectl's requests; empty for a revision that does not exist.
fn requests(
    deployment: &Deployment,
    revision: i64,
    patch: Option<String>,
) -> Result<Value, String> {
    if revision < 0 {
        return Ok(json!([]));
    }
    let name = deployment.metadata.name.as_str();
    let selector = Selector::compile(deployment.spec.selector.as_deref());
    let selector = selector.map_err(|error| error.to_string())?.to_string();
    let mut requests = vec![
        json!({"verb": "get", "resource": "deployments", "name": name}),
        json!({"verb": "list", "resource": "replicasets", "labelSelector": selector}),
    ];
    if let Some(patch) = patch {
        let body: Value = serde_json::from_str(&patch).map_err(|error| error.to_string())?;
        requests.push(
            json!({"verb": "patch", "resource": "deployments", "name": name,
            "type": "application/json-patch+json", "body": body}),
        );
    }
    Ok(requests.into())
}
