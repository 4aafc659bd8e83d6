//! Cases of `handlers`: notifications, the keys they add and the expectations they lower.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::object::Kind;
use podstorm::replicaset::{Controller, ControllerOptions, parse_key};
use serde_json::Value;

use super::world::{Recorded, expectations_of, parent, parent_kind, pod, waited_name};
use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: Value) -> Result<(), String> {
    let mut case = Fields::new(case, "case")?;
    let kind = parent_kind(&case.text("kind")?)?;
    let steps = case.list("steps")?;
    case.finish()?;
    let controller = Controller::new(ControllerOptions::new(kind), Arc::new(PodCache::new()));
    let mut world = World {
        kind,
        controller,
        now_ns: 0,
        expected: BTreeMap::new(),
    };
    for (index, step) in steps.into_iter().enumerate() {
        world
            .step(step)
            .map_err(|error| format!("step {index}: {error}"))?;
    }
    Ok(())
}

struct World {
    kind: Kind,
    controller: Controller,
    now_ns: i64,
    /// Every key that ever had expectations, to be looked at after each step.
    expected: BTreeMap<String, ()>,
}

impl World {
    fn step(&mut self, step: Value) -> Result<(), String> {
        let mut step = Fields::new(step, "step")?;
        let op = step.text("op")?;
        let effects = Recorded::new(&self.controller);
        let (kind, controller) = (self.kind, &self.controller);
        let pods = controller.pods();
        match op.as_str() {
            "parentAdd" | "parentUpdate" => {
                let object = parent(kind, step.value("object"))?;
                let change = controller.parents().apply(Delta::Applied(object));
                controller.handle_parent(&change, &effects);
            }
            "parentDelete" => {
                let object = parent(kind, step.value("object"))?;
                let change = controller.parents().apply(Delta::Deleted(object));
                controller.handle_parent(&change, &effects);
            }
            "parentTombstone" => {
                let key = step.text("key")?;
                let (namespace, name) = parse_key(&key).map_err(|error| error.to_string())?;
                let object = match step.take("object") {
                    None => None,
                    Some(object) => Some(parent(kind, object)?),
                };
                let change =
                    controller
                        .parents()
                        .apply_tombstone(namespace, name, object.as_deref());
                if let Some(change) = change {
                    controller.handle_parent(&change, &effects);
                }
            }
            "podAdd" | "podUpdate" => {
                let change = pods.apply(Delta::Applied(pod(step.value("object"))?));
                controller.handle_pod(&change, &effects);
            }
            "podDelete" => {
                let change = pods.apply(Delta::Deleted(pod(step.value("object"))?));
                controller.handle_pod(&change, &effects);
            }
            "podTombstone" => {
                let key = step.text("key")?;
                let (namespace, name) = parse_key(&key).map_err(|error| error.to_string())?;
                let object = match step.take("object") {
                    None => None,
                    Some(object) => Some(pod(object)?),
                };
                if let Some(change) = pods.apply_tombstone(namespace, name, object) {
                    controller.handle_pod(&change, &effects);
                }
            }
            // Objects of another type can't reach a typed handler: there is nothing to ignore.
            "podDeleteGarbage" | "parentDeleteGarbage" => {}
            "expectCreations" => {
                let key = step.text("key")?;
                let count = step.int("n")?;
                let (namespace, name) = parse_key(&key).map_err(|error| error.to_string())?;
                let id = controller.parents().intern(namespace, name);
                controller
                    .expectations()
                    .expect_creations(id, count, self.now_ns);
                self.expected.insert(key, ());
            }
            "expectDeletions" => {
                let key = step.text("key")?;
                let keys = step.list("keys")?;
                let (namespace, name) = parse_key(&key).map_err(|error| error.to_string())?;
                let id = controller.parents().intern(namespace, name);
                let names = keys.iter().filter_map(Value::as_str);
                let names = names.map(|key| waited_name(namespace, key).into());
                controller
                    .expectations()
                    .expect_deletions(id, names, self.now_ns);
                self.expected.insert(key, ());
            }
            "advance" => self.now_ns += step.int("nanos")?,
            other => return Err(format!("unknown op {other:?}")),
        }
        let mut out = step.object("out")?;
        step.finish()?;
        let strings = |values: Vec<Value>| -> Vec<String> {
            values
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        expect_eq(
            "queue",
            &*effects.added.borrow(),
            &strings(out.list("queue")?),
        )?;
        let after: Vec<Value> = effects
            .added_after
            .borrow()
            .iter()
            .map(|(key, nanos)| serde_json::json!({"key": key, "nanos": nanos}))
            .collect();
        expect_eq("after", &after, &out.list("after")?)?;
        let mut cleared = strings(out.list("consistencyCleared")?);
        cleared.sort();
        let mut ours = effects.cleared.borrow().clone();
        ours.sort();
        expect_eq("consistencyCleared", &ours, &cleared)?;
        let recorded = out.object("expectations")?.into_rest();
        let mut ours = podstorm::object::Map::new();
        for key in self.expected.keys() {
            let state = expectations_of(controller, key, self.now_ns);
            if state["exists"] == Value::Bool(true) || !state["keys"].is_null() {
                ours.insert(key.clone(), state);
            }
        }
        expect_eq("expectations", &ours, &recorded)?;
        out.finish()
    }
}
