//! Cases of `job_orphan`: one sync of the queue of orphaned pods, which no Job counts.

use podstorm::job::{ControllerOptions, ORPHANS, OrphanKey};
use podstorm::object::Now;
use serde_json::{Value, json};

use super::harness::{Api, Harness, MONO_NS, run as run_sync};
use crate::conformance::Fields;

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let harness = Harness::new(ControllerOptions::default());
    for job in case.list("jobs")? {
        harness.put_job(job)?;
    }
    let pods = case.list("pods")?;
    harness.put_pods(&pods)?;
    let mut api = Api::new(case.object("api")?, Value::Null, &pods)?;
    let mut key = case.object("key")?;
    let (namespace, value) = (key.text("namespace")?, key.text("value")?);
    let name = match key.text("kind")?.as_str() {
        "name" => OrphanKey::Name(namespace.as_str().into(), value.as_str().into()),
        "selector" => OrphanKey::Selector(namespace.as_str().into(), value, None),
        other => return Err(format!("unknown kind {other:?}")),
    };
    key.finish()?;
    let key = harness.controller.orphan_key(name);
    let now = Now {
        mono_ns: MONO_NS,
        wall_ns: 0,
    };
    let driver = run_sync(&harness, ORPHANS, key, now, &mut api)?;
    let error = driver.sync.failure().map(|it| it.message.clone());
    if error.is_none() != harness.controller.orphans_of(key).is_none() {
        return Err("a key must be freed exactly if nothing is left to do".to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    for request in api.into_requests(&[]) {
        if request["verb"] != "removeFinalizers" {
            return Err(format!("upstream never makes this request: {request}"));
        }
        let more = request["names"].as_array().into_iter().flatten();
        names.extend(more.filter_map(Value::as_str).map(str::to_owned));
    }
    names.sort();
    let mut theirs = case.object("out")?.rest();
    let mut ours = json!({"error": error, "removeFinalizers": names});
    // The text of an invalid selector's error differs between parsers.
    const UNREADABLE: &str = "invalid label selector: ";
    for error in [theirs.get_mut("error"), ours.get_mut("error")] {
        if let Some(Value::String(text)) = error
            && text.starts_with(UNREADABLE)
        {
            text.truncate(UNREADABLE.len());
        }
    }
    Fields::new(Value::Object(theirs), "out")?.is(ours)
}
