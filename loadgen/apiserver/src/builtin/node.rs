//! Nodes.

use podstorm_objects::{Cause, DecodeError, Kind, Map, Node, Resource};
use serde_json::Value;

use crate::{Strategy, validation};

impl Strategy for Node {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        // Kubernetes added `podCIDRs` later.
        unite_addresses(&mut self.spec);
        fill_allocatable(&mut self.status);
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
        self.pods_allocatable = old.pods_allocatable;
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
        self.unschedulable = old.unschedulable;
        fill_allocatable(&mut self.status);
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_node(self)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        validation::validate_node_update(self, old)
    }
}

/// Makes a node's `podCIDR` and the first of its `podCIDRs` equal.
fn unite_addresses(spec: &mut Map) {
    const ONE: &str = "podCIDR";
    const ALL: &str = "podCIDRs";
    let one = spec
        .get(ONE)
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    let first = |spec: &Map| Some(spec.get(ALL)?.get(0)?.as_str()?.to_owned());
    match first(spec) {
        None if !one.is_empty() => drop(spec.insert(ALL.to_owned(), vec![one].into())),
        Some(first) if one.is_empty() => drop(spec.insert(ONE.to_owned(), first.into())),
        // The older field wins.
        Some(first) if first != one => drop(spec.insert(ALL.to_owned(), vec![one].into())),
        _ => {}
    }
}

/// Sets the allocatable resources of a node to its capacity, if they are missing.
fn fill_allocatable(status: &mut Map) {
    if status.get("allocatable").is_none_or(Value::is_null)
        && let Some(capacity) = status.get("capacity").filter(|it| !it.is_null()).cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}
