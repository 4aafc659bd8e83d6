//! Cases of `job_handlers`: notifications, and the keys that they queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::driver::Workload;
use podstorm::job::backoff::Failures;
use podstorm::job::{ControllerOptions, JOBS, ORPHANS, OrphanKey};
use podstorm::object::{Now, Uid};
use serde_json::{Value, json};

use super::harness::{Harness, MONO_NS, job, uids};
use crate::conformance::shared::pod;
use crate::conformance::{Fields, expect_eq};

/// The keys whose state the recordings contain.
const KEYS: [&str; 2] = ["ns/job0", "ns/job1"];

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("now")?;
    let harness = Harness::new(ControllerOptions::default());
    let mut now = Now {
        mono_ns: MONO_NS,
        wall_ns: case.int("nowUnixNano")?,
    };
    case.each("steps", |given| step(&harness, given, &mut now))
}

fn step(harness: &Harness, step: &mut Fields, now: &mut Now) -> Result<(), String> {
    let op = step.text("op")?;
    let object = step.take("object");
    let text = step.text("key")?;
    let key = || harness.key(&text);
    let controller = &harness.controller;
    let is_gone = op.ends_with("Delete") || op.ends_with("Tombstone");
    match (op.as_str(), object) {
        ("expect", _) => {
            let (add, del) = (step.int("add")?, step.int("del")?);
            controller.expect(key(), add, del, now.mono_ns);
        }
        ("expectFinalizersRemoved", _) => {
            let more = uids(&step.texts("uids")?);
            controller.remember(key(), |state| {
                state.released.get_or_insert_default().extend(more);
            });
        }
        ("backoffAndFinished", _) => {
            let uid = Uid::from(step.text("uid")?.as_str());
            controller.remember(key(), |state| {
                state.failures = Some(Failures::default());
                state.finished.insert(uid);
            });
        }
        ("advance", _) => *now = now.plus_ns(step.int("nanos")?),
        // A tombstone without an object. Caches always report the removed object, so remove it.
        ("jobTombstone", None) => {
            let before = controller.remembered(key());
            harness.lose_job(&text, *now);
            controller.remember(key(), |state| *state = before);
            harness.drain_delayed(ORPHANS, now.mono_ns);
        }
        ("podTombstone", None) => {
            let (namespace, name) = text.split_once('/').unwrap_or_default();
            if let Some(pod) = harness.pods.get(namespace, name) {
                harness.pods.apply(Delta::Deleted(pod));
            }
        }
        (op, Some(object)) if op.starts_with("job") => match is_gone {
            true => harness
                .jobs
                .apply(Delta::Deleted(Arc::new(job(object)?)), *now),
            false => harness.put_job_at(object, *now)?,
        },
        (op, Some(object)) if op.starts_with("pod") => {
            let object = pod(object)?;
            let delta = match is_gone {
                true => Delta::Deleted(object),
                false => Delta::Applied(object),
            };
            let change = harness.pods.apply(delta);
            controller.pod_changed(&change, *now);
        }
        (other, _) => return Err(format!("unknown op {other:?}")),
    }
    let mut out = step.object("out")?;
    out.take("consistencyCleared");
    let mut ours: Vec<(String, i64)> = harness
        .drain_delayed(JOBS, now.mono_ns)
        .into_iter()
        .map(|(key, nanos)| (controller.name(JOBS, key).to_string(), nanos))
        .collect();
    ours.sort();
    expect_eq("addAfter", &ours, &earliest(&out.list("addAfter")?))?;
    let mut orphans: Vec<Value> = harness
        .drain_delayed(ORPHANS, now.mono_ns)
        .into_iter()
        .filter_map(|(key, _)| controller.orphans_of(key))
        .map(|name| match name {
            OrphanKey::Name(namespace, name) => {
                json!({"kind": "name", "namespace": &*namespace, "value": name.as_str()})
            }
            OrphanKey::Selector(namespace, text, _) => {
                json!({"kind": "selector", "namespace": &*namespace, "value": text})
            }
        })
        .collect();
    let mut recorded: Vec<Value> = out.list("orphanQueue")?;
    for all in [&mut orphans, &mut recorded] {
        all.sort_by_key(Value::to_string);
        all.dedup();
    }
    expect_eq("orphanQueue", &orphans, &recorded)?;
    let mut state = json!({});
    for text in KEYS {
        let key = harness.key(text);
        let remembered = controller.remembered(key);
        if controller.expected(key).is_some() {
            let mut counts = harness.expectations(key, now.mono_ns);
            counts
                .as_object_mut()
                .map(|it| (it.remove("exists"), it.remove("satisfied")));
            state["expectations"][text] = counts;
        }
        if remembered.released.is_some() {
            state["finalizerExpectations"][text] = harness.finalizer_expectations(key).into();
        }
        if remembered.failures.is_some() {
            state["backoff"][text] = json!({});
        }
        for uid in remembered.finished {
            state["finished"][uid.to_string()] = json!({});
        }
    }
    let names = |state: &Value| -> Vec<String> {
        let members = state.as_object().into_iter().flatten();
        members.map(|(name, _)| name.clone()).collect()
    };
    expect_eq("backoff", &names(&state["backoff"]), &out.texts("backoff")?)?;
    let finished: BTreeSet<String> = names(&state["finished"]).into_iter().collect();
    let recorded: BTreeSet<String> = out.texts("finished")?.into_iter().collect();
    expect_eq("finished", &finished, &recorded)?;
    state["metrics"] = json!(harness.new_metrics());
    for member in ["expectations", "finalizerExpectations", "metrics"] {
        let recorded = out.object(member)?.rest();
        let mut recorded = Fields::new(Value::Object(recorded), member)?;
        let ours = state.get(member).cloned().unwrap_or(json!({}));
        recorded.is(ours)?;
    }
    out.finish()
}

/// Returns the earliest of several additions of each key, because the queue keeps that one.
fn earliest(recorded: &[Value]) -> Vec<(String, i64)> {
    let mut all = std::collections::BTreeMap::new();
    for one in recorded {
        let key = one["key"].as_str().unwrap_or_default().to_owned();
        let nanos = one["nanos"].as_i64().unwrap_or(0).max(0);
        let least = all.entry(key).or_insert(nanos);
        *least = nanos.min(*least);
    }
    all.into_iter().collect()
}
