//! Cases of `handlers`: notifications, the keys that they queue, and the expectations that they
//! lower.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::informer::{AnyInformer, Handler};
use podstorm::object::{AnyObject, Kind, Now, Uid};
use podstorm::replicaset::{Controller, ControllerOptions, parse_key};
use serde_json::Value;

use super::shared::{
    drain, drain_delayed, expectations_of, owner_key, pod, waited_name, workload, workload_kind,
};
use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let kind = workload_kind(&case.text("kind")?)?;
    let pods = Arc::new(PodCache::new());
    let (controller, owners) = Controller::alone(ControllerOptions::new(kind), pods);
    let mut harness = Harness {
        kind,
        controller,
        owners,
        now_ns: 0,
        expected: BTreeSet::new(),
    };
    case.each("steps", |step| harness.step(step))
}

struct Harness {
    kind: Kind,
    controller: Arc<Controller>,
    owners: Arc<dyn AnyInformer>,
    now_ns: i64,
    /// All keys that ever had expectations. Each of them is checked after each step.
    expected: BTreeSet<String>,
}

impl Harness {
    fn step(&mut self, step: &mut Fields) -> Result<(), String> {
        let op = step.text("op")?;
        let mut out = step.object("out")?;
        let cleared = out.texts("consistencyCleared")?;
        let (kind, controller) = (self.kind, &self.controller);
        let now = Now {
            mono_ns: self.now_ns,
            ..Now::default()
        };
        let written = write_for_all(controller, &cleared);
        let pods = controller.pods();
        match op.as_str() {
            "parentAdd" | "parentUpdate" | "parentDelete" => {
                let object: AnyObject = workload(kind, step.value("object"))?;
                self.owners.apply(delta(&op, object), now);
            }
            "parentTombstone" => {
                let key = step.text("key")?;
                let (namespace, name) = parse_key(&key).map_err(|error| error.to_string())?;
                let object = step.take("object");
                let object = object.map(|it| workload(kind, it)).transpose()?;
                let owners = controller.owners();
                let change = owners.apply_tombstone(namespace, name, object, now);
                if let Some(change) = change {
                    controller.handle(&change, now);
                }
            }
            "podAdd" | "podUpdate" | "podDelete" => {
                let change = pods.apply(delta(&op, pod(step.value("object"))?));
                controller.pod_changed(&change, now);
            }
            "podTombstone" => {
                let key = step.text("key")?;
                let (namespace, name) = parse_key(&key).map_err(|error| error.to_string())?;
                let object = step.take("object").map(pod).transpose()?;
                if let Some(change) = pods.apply_tombstone(namespace, name, object) {
                    controller.pod_changed(&change, now);
                }
            }
            // A typed handler can't receive an object of another type, so there is nothing to
            // ignore.
            "podDeleteGarbage" | "parentDeleteGarbage" => {}
            "expectCreations" => {
                let (key, count) = (step.text("key")?, step.int("n")?);
                let id = owner_key(controller, &key);
                let expectations = controller.expectations();
                expectations.expect_creations(id, count, self.now_ns);
                self.expected.insert(key);
            }
            "expectDeletions" => {
                let (key, keys) = (step.text("key")?, step.texts("keys")?);
                let (namespace, _) = parse_key(&key).map_err(|error| error.to_string())?;
                let id = owner_key(controller, &key);
                let names = keys.iter().map(|key| waited_name(namespace, key).into());
                let expectations = controller.expectations();
                expectations.expect_deletions(id, names, self.now_ns);
                self.expected.insert(key);
            }
            "advance" => self.now_ns += step.int("nanos")?,
            other => return Err(format!("unknown op {other:?}")),
        }
        // A key that is waiting is not queued again.
        let mut queue = out.texts("queue")?;
        let mut seen = BTreeSet::new();
        queue.retain(|key| seen.insert(key.clone()));
        expect_eq("queue", &drain(controller, now.mono_ns), &queue)?;
        let after = drain_delayed(controller, now.mono_ns);
        expect_eq("after", &after, &out.list("after")?)?;
        let is_gone = |owner: &str| {
            let record = controller
                .consistency()
                .record(&owner_key(controller, owner));
            record.is_none()
        };
        let gone: BTreeSet<String> = written
            .into_iter()
            .filter(|(owner, _)| is_gone(owner))
            .map(|(owner, uid)| format!("{owner}={uid}"))
            .collect();
        expect_eq("consistencyCleared", &gone, &cleared.into_iter().collect())?;
        let recorded = out.object("expectations")?.rest();
        let mut ours = podstorm::object::Map::new();
        for key in &self.expected {
            let state = expectations_of(controller, key, self.now_ns);
            if state["exists"] == Value::Bool(true) || !state["keys"].is_null() {
                ours.insert(key.clone(), state);
            }
        }
        expect_eq("expectations", &ours, &recorded)?;
        out.finish()
    }
}

fn delta<T: ?Sized>(op: &str, object: Arc<T>) -> Delta<T> {
    match op.ends_with("Delete") {
        true => Delta::Deleted(object),
        false => Delta::Applied(object),
    }
}

/// Records a write for every cached workload, and for those with an entry `owner=uid` in `cleared`,
/// so that the clearing is visible. Returns the owners and their UIDs.
fn write_for_all(controller: &Controller, cleared: &[String]) -> BTreeMap<String, Uid> {
    let cached = controller.owners().all().into_iter().map(|(_, workload)| {
        let meta = &workload.object.metadata;
        (
            format!("{}/{}", meta.namespace, meta.name),
            meta.uid.clone(),
        )
    });
    let others = cleared.iter().filter_map(|text| text.split_once('='));
    let others = others.map(|(owner, uid)| (owner.to_owned(), Uid::new(uid)));
    let written: BTreeMap<String, Uid> = cached.chain(others).collect();
    for (owner, uid) in &written {
        let key = owner_key(controller, owner);
        controller
            .consistency()
            .wrote_at(key, uid, Kind::POD, &1.into());
    }
    written
}
