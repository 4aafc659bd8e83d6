//! Cases of `podgc`: one round of pod garbage collection, against scripted answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::object::{Node, Pod, Resource, Str, Time};
use podstorm_apiserver::podgc::Round;
use serde_json::{Value, json};

use super::shared::pod;
use super::{Fields, expect_same_json};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    case.text("now")?;
    let now = Time::from_unix_nanos(case.int("nowUnixNano")?);
    let mut api = Api {
        answers: case.object("answers")?.rest(),
        live_nodes: case.texts("liveNodes")?,
        node_reads: Vec::new(),
    };
    let nodes = case.all("nodes", |node| match Node::from_json(node) {
        Ok(node) => Ok(Arc::new(node)),
        Err(error) => Err(format!("node: {error}")),
    })?;
    let mut round = Round::new(case.int("terminatedPodThreshold")?, &nodes);
    for pod in case.all("pods", pod)? {
        round.note(&pod);
    }
    let quarantined: Vec<String> = round.missing_nodes().map(Str::to_string).collect();
    let mut gone = Vec::new();
    for name in case.texts("quarantineOver")? {
        if round.is_missing(&name) && api.is_absent(&name) {
            gone.push(Str::from(name));
        }
    }
    let mut out = case.object("out")?;
    // Between pods the order is free.
    let mut requests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for removal in round.removals(&gone) {
        let path = path_of(&removal.pod);
        let of_pod = requests.entry(path.clone()).or_default();
        if let Some(body) = removal.status_patch(now) {
            let path = format!("{path}/status");
            of_pod.push(json!({"method": "PATCH", "path": path, "body": body}));
            if api.fails("PATCH", &path) {
                continue;
            }
        }
        let body = json!({"gracePeriodSeconds": 0});
        of_pod.push(json!({"method": "DELETE", "path": path, "body": body}));
    }
    let ours = requests.into_values().flatten().collect();
    let mut recorded = out.list("podRequests")?;
    recorded.sort_by_key(|request| {
        let path = request["path"].as_str().unwrap_or_default();
        path.trim_end_matches("/status").to_owned()
    });
    expect_same_json("podRequests", ours, recorded.into())?;
    out.sent("nodeReads", api.node_reads.clone().into())?;
    out.is(json!({"quarantined": quarantined}))
}

/// The scripted API server.
struct Api {
    answers: podstorm::object::Map,
    live_nodes: Vec<String>,
    node_reads: Vec<Value>,
}

impl Api {
    fn fails(&self, method: &str, path: &str) -> bool {
        let answer = self.answers.get(&format!("{method} {path}"));
        answer.is_some_and(|answer| !answer["code"].is_null())
    }

    /// Reads a node; whether the answer is 404.
    fn is_absent(&mut self, name: &str) -> bool {
        let path = format!("/api/v1/nodes/{name}");
        let fails = self.fails("GET", &path);
        self.node_reads.push(json!({"method": "GET", "path": path}));
        !fails && !self.live_nodes.iter().any(|live| live == name)
    }
}

fn path_of(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        metadata.namespace, metadata.name
    )
}
