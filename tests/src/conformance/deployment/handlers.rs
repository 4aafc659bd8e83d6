//! Cases of `deployment_handlers`: notifications, and the Deployments that they queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::driver::Workload;
use podstorm::object::{AnyObject, Now};
use podstorm::workqueue::Take;

use super::harness::Harness;
use crate::conformance::shared::pod;
use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let harness = Harness::new(true);
    case.each("steps", |given| step(&harness, given))
}

fn step(harness: &Harness, step: &mut Fields) -> Result<(), String> {
    let now = Now::default();
    let op = step.text("op")?;
    let object = step.take("object");
    // A tombstone has a key. Ignore it, because the object has it, too.
    step.text("key")?;
    let lists = step.take("listError").is_none();
    let controller = &harness.controller;
    match (op.as_str(), object) {
        // A typed handler can't receive an object of another type, or a tombstone without an
        // object.
        ("garbage", _) | (_, None) => {}
        (op, Some(object)) if op.starts_with("deployment") => {
            let object: AnyObject = Arc::new(super::deployment(object)?);
            harness.deployments.apply(delta(op, object), now);
        }
        (op, Some(object)) if op.starts_with("replicaSet") => {
            let object: AnyObject = Arc::new(super::sync::replica_set(object)?);
            harness.sets.apply(delta(op, object), now);
        }
        ("podStore", Some(object)) => {
            harness.pods.apply(Delta::Applied(pod(object)?));
        }
        ("podDelete" | "podTombstone", Some(object)) => {
            let change = harness.pods.apply(Delta::Deleted(pod(object)?));
            controller.pod_changed(&change, now);
        }
        (other, _) => return Err(format!("unknown op {other:?}")),
    }
    let mut ours = Vec::new();
    while let Take::Key(key) = controller.queue().try_take(0) {
        controller.queue().done(key, 0);
        ours.push(controller.name(0, key).to_string());
    }
    let mut out = step.object("out")?;
    // Ignored: upstream lists live objects. Here, cached ReplicaSets are counted, so no list can
    // fail.
    out.list("requests")?;
    let mut queue = out.texts("queue")?;
    out.finish()?;
    // A key that is waiting is not queued again.
    let mut seen = BTreeSet::new();
    queue.retain(|key| seen.insert(key.clone()));
    match lists {
        true => expect_eq("queue", &ours, &queue),
        false => expect_eq("queue after a failed list", &Vec::new(), &queue),
    }
}

fn delta(op: &str, object: AnyObject) -> Delta<dyn podstorm::object::Object> {
    match op.ends_with("Delete") || op.ends_with("Tombstone") {
        true => Delta::Deleted(object),
        false => Delta::Applied(object),
    }
}
