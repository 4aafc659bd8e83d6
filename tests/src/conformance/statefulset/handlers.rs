//! Cases of `statefulset_handlers`: notifications, and the keys that they queue.

use podstorm::cache::Delta;
use podstorm::object::Now;
use podstorm::statefulset::ControllerOptions;
use serde_json::{Value, json};

use super::harness::Harness;
use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let harness = Harness::new(ControllerOptions::default());
    case.each("steps", |given| step(&harness, given))
}

fn step(harness: &Harness, step: &mut Fields) -> Result<(), String> {
    let (op, key) = (step.text("op")?, step.text("key")?);
    let now = Now::default();
    let is_gone = op.ends_with("Delete") || op.ends_with("Tombstone");
    let resource = match op.starts_with("pod") {
        true => "pods",
        false => "statefulsets",
    };
    match step.take("object").filter(|object| !object.is_null()) {
        Some(object) => harness.apply(resource, object, is_gone, now)?,
        // A tombstone without an object: upstream has only the key. Caches here always report the
        // removed object, so remove it.
        None => {
            let (namespace, name) = key.split_once('/').unwrap_or_default();
            if let Some(pod) = harness.pods.get(namespace, name) {
                harness.pods.apply(Delta::Deleted(pod));
            }
        }
    }
    let mut ours = harness.drain(0);
    ours.sort();
    ours.dedup();
    let mut out = step.object("out")?;
    let mut recorded = out.texts("queue")?;
    recorded.sort();
    // A key is in the queue only once.
    recorded.dedup();
    expect_eq("queue", &ours, &recorded)?;
    let delayed: Vec<Value> = harness.drain_delayed(0);
    expect_eq("after", &json!(delayed), &json!(out.list("after")?))?;
    out.finish()
}
