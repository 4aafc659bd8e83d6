//! Validation of the parts of a pod that have a subresource of their own.

use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{Cause, Pod};
use serde_json::Value;

use super::super::Causes;
use super::super::container::{self, Role, Surroundings, items, member, text};
use super::super::resources;
use crate::Places;
use crate::defaulting::qos_class;

/// The member that lists the containers that debug a running pod.
const EPHEMERAL: &str = "ephemeralContainers";

/// Returns the rules that changed ephemeral containers break: containers may be added but not
/// changed.
///
/// Source: `ValidatePodEphemeralContainersUpdate` of Kubernetes.
pub fn validate_ephemeral_containers(new: &Pod, old: &Pod) -> Vec<Cause> {
    let mut causes = Causes::default();
    old.look_at_spec(|before| {
        new.look_at_spec(|after| {
            check_entries(after, &mut causes);
            let path = Path::ROOT.member("spec");
            let path = path.member(EPHEMERAL);
            let all: Vec<JsonValue<'_>> = items(after, EPHEMERAL).map(|(_, new)| new).collect();
            let names: Places<&str> = all.iter().map(|new| text(*new, "name")).collect();
            for (_, old) in items(before, EPHEMERAL) {
                let name = text(old, "name");
                let detail = match names.position(&name).map(|place| all[place]) {
                    None => format!("existing ephemeral containers {name:?} may not be removed\n"),
                    Some(new) if new.to_value() != old.to_value() => {
                        format!("existing ephemeral containers {name:?} may not be changed\n")
                    }
                    Some(_) => continue,
                };
                causes.forbidden(&path, detail);
            }
        });
    });
    causes.found()
}

fn check_entries(spec: JsonValue<'_>, causes: &mut Causes) {
    /// The fields that an ephemeral container must not have.
    const NOT_ALLOWED: [&str; 7] = [
        "ports",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resources",
        "resizePolicy",
    ];
    let path = Path::ROOT.member("spec");
    let path = path.member(EPHEMERAL);
    let volumes: Places<&str> = items(spec, "volumes")
        .map(|(_, volume)| text(volume, "name"))
        .collect();
    let others = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| items(spec, list));
    let mut names: Places<&str> = others.map(|(_, other)| text(other, "name")).collect();
    for (index, entry) in items(spec, EPHEMERAL) {
        let path = path.item(index);
        let around = Surroundings {
            volumes: &volumes,
            host_network: false,
            grace_seconds: None,
        };
        container::check(entry, Role::Main, around, &path, causes);
        let name = text(entry, "name");
        if !name.is_empty() && names.contains(&name) {
            causes.duplicate(&path.member("name"), name);
        }
        let target = text(entry, "targetContainerName");
        if !target.is_empty() && !names.contains(&target) {
            causes.not_found(&path.member("targetContainerName"), target);
        }
        names.push(name);
        for member in NOT_ALLOWED {
            if entry.get(member).is_some_and(|value| !is_empty(value)) {
                let detail = "cannot be set for an Ephemeral Container";
                causes.forbidden(&path.member(member), detail);
            }
        }
    }
}

fn is_empty(value: JsonValue<'_>) -> bool {
    value.is_null() || value.items().next().is_none() && value.pairs().next().is_none()
}

/// Returns the rules that changed resources of a pod's containers break. Only CPU and memory may
/// change, no request or limit may be removed, and the QoS class may not change.
///
/// Source: `ValidatePodResize` of Kubernetes.
pub fn validate_resize(new: &Pod, old: &Pod) -> Vec<Cause> {
    let mut causes = Causes::default();
    let path = Path::ROOT.member("spec");
    if qos_class(&new.spec) != qos_class(&old.spec) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        causes.invalid(&path, qos_class(&new.spec), detail);
    }
    old.look_at_spec(|before| {
        new.look_at_spec(|after| {
            for list in ["containers", "initContainers"] {
                let list_path = path.member(list);
                for ((index, old), (_, new)) in items(before, list).zip(items(after, list)) {
                    let path = list_path.item(index);
                    let path = path.member("resources");
                    if let Some(resources) = member(new, "resources") {
                        resources::check(resources, &path, &mut causes);
                    }
                    check_amounts(old, new, &path, &mut causes);
                }
            }
        });
    });
    causes.found()
}

fn check_amounts(old: JsonValue<'_>, new: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let find = |container: JsonValue<'_>, list: &str| -> Value {
        let amounts = member(container, "resources").and_then(|resources| member(resources, list));
        amounts.map_or_else(|| Value::Object(serde_json::Map::new()), |it| it.to_value())
    };
    for (list, detail) in [
        ("requests", "resource requests cannot be removed"),
        ("limits", "resource limits cannot be removed"),
    ] {
        let (before, after) = (find(old, list), find(new, list));
        let (before, after) = (before.as_object(), after.as_object());
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        let path = path.member(list);
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            causes.forbidden(&path.member(name), detail);
        }
        let is_other = |name: &&String| !["cpu", "memory"].contains(&name.as_str());
        let names = after.keys().chain(before.keys()).filter(is_other);
        if names
            .into_iter()
            .any(|name| before.get(name) != after.get(name))
        {
            causes.forbidden(&path, "only cpu and memory resources are mutable");
        }
    }
}
