//! Validation of pod updates.

mod parts;

use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{Cause, Map, Pod};
use serde_json::Value;

use super::Causes;
use super::container::{items, text};
use super::pod::{check_meta, check_spec};
use crate::{internal, meta};

pub use parts::{validate_ephemeral_containers, validate_resize};

/// Returns the rules that a changed pod breaks. An update may change these fields of the spec:
/// images, `activeDeadlineSeconds` (set or lowered), tolerations (added), scheduling gates
/// (removed; while there are any, `nodeSelector` may be extended),
/// `terminationGracePeriodSeconds` (from a negative number to 1).
///
/// An unchanged spec is not checked.
pub fn validate_pod_update(new: &Pod, old: &Pod) -> Vec<Cause> {
    let mut causes = Causes::default();
    // The stored metadata has been validated before.
    if !meta::only_lost_finalizers(&new.metadata, &old.metadata) {
        check_meta(new, &mut causes);
    }
    if new.has_spec_of(old) {
        return causes.found();
    }
    check_spec(new, &mut causes);
    check_change(new, old, &mut causes);
    causes.found()
}

fn check_change(new: &Pod, old: &Pod, causes: &mut Causes) {
    old.look_at_spec(|before| {
        new.look_at_spec(|after| {
            let (old_node, new_node) = (old.node_name.as_deref(), new.node_name.as_deref());
            check_members(after, before, old_node, new_node, causes);
        });
    });
}

fn check_members(
    after: JsonValue<'_>,
    before: JsonValue<'_>,
    old_node: Option<&str>,
    new_node: Option<&str>,
    causes: &mut Causes,
) {
    let is_bound_anew = old_node != new_node;
    let path = Path::ROOT.member("spec");
    for list in ["containers", "initContainers"] {
        if items(before, list).count() != items(after, list).count() {
            causes.forbidden(
                &path.member(list),
                "pod updates may not add or remove containers",
            );
            return;
        }
    }
    check_deadline(after, before, &path, causes);
    check_tolerations(after, before, &path, causes);
    check_gates(after, before, &path, causes);
    // Restores everything that may change; the rest must be equal.
    let (before_all, mut rest) = (&before.to_map(), after.to_map());
    for list in ["containers", "initContainers"] {
        put_images_back(&mut rest, before_all, list);
    }
    for key in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put_back(&mut rest, before_all, key);
    }
    let number = |spec: JsonValue<'_>, key: &str| spec.get(key).and_then(|it| it.as_i64());
    let grace = "terminationGracePeriodSeconds";
    if number(before, grace).is_some_and(|seconds| seconds < 0) && number(after, grace) == Some(1) {
        put_back(&mut rest, before_all, grace);
    }
    if items(before, "schedulingGates").next().is_some() {
        if !extends(after.get("nodeSelector"), before.get("nodeSelector")) {
            let detail =
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            let shown = rest.get("nodeSelector").cloned().unwrap_or_default();
            causes.invalid(&path.member("nodeSelector"), shown, detail);
        }
        put_back(&mut rest, before_all, "nodeSelector");
    }
    let mut before_all = before_all.clone();
    if is_bound_anew {
        // The node is stored outside the spec that pods share.
        for (spec, node) in [(&mut before_all, old_node), (&mut rest, new_node)] {
            if let Some(node) = node {
                spec.insert("nodeName".to_owned(), node.into());
            }
        }
    }
    if rest != before_all {
        causes.forbidden(&path, told(before_all, rest));
    }
}

/// Returns the message that lists the fields that an update may change, and the other changes of
/// this update.
fn told(before: Map, after: Map) -> String {
    const MUTABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
        `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
        `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    let lines = |spec: Map| internal::lines(&spec.into(), "PodSpec");
    let difference = internal::unified(&lines(before), &lines(after));
    format!("pod updates may not change fields other than {MUTABLE}\n{difference}")
}

fn put_back(rest: &mut Map, before: &Map, key: &str) {
    match before.get(key) {
        Some(value) => rest.insert(key.to_owned(), value.clone()),
        None => rest.remove(key),
    };
}

fn put_images_back(rest: &mut Map, before: &Map, list: &str) {
    let Some(Value::Array(containers)) = rest.get_mut(list) else {
        return;
    };
    let old = before
        .get(list)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    for (container, old) in containers.iter_mut().zip(old) {
        if let (Value::Object(container), Value::Object(old)) = (container, old) {
            put_back(container, old, "image");
        }
    }
}

/// Reports whether the map `new` contains all pairs of the map `old`.
fn extends(new: Option<JsonValue<'_>>, old: Option<JsonValue<'_>>) -> bool {
    let mut pairs = old.into_iter().flat_map(|old| old.pairs());
    let text = |key: &str| new?.get(key)?.as_str();
    pairs.all(|(key, value)| text(key) == value.as_str())
}

fn check_deadline(
    after: JsonValue<'_>,
    before: JsonValue<'_>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let seconds = |spec: JsonValue<'_>| spec.get("activeDeadlineSeconds")?.as_i64();
    let path = path.member("activeDeadlineSeconds");
    match (seconds(after), seconds(before)) {
        (Some(new), Some(old)) if new > old => {
            let detail = "must be less than or equal to previous value";
            causes.invalid(&path, new, detail);
        }
        (None, Some(_)) => {
            causes.invalid(
                &path,
                Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
}

/// Checks that every toleration is still present, except for its `tolerationSeconds`.
fn check_tolerations(
    after: JsonValue<'_>,
    before: JsonValue<'_>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let matches = |new: JsonValue<'_>, old: JsonValue<'_>| {
        let members = ["key", "operator", "value", "effect"];
        members
            .into_iter()
            .all(|key| text(new, key) == text(old, key))
    };
    let is_kept =
        |old: JsonValue<'_>| items(after, "tolerations").any(|(_, new)| matches(new, old));
    if !items(before, "tolerations").all(|(_, old)| is_kept(old)) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.forbidden(&path.member("tolerations"), detail);
    }
}

/// Checks that no scheduling gate is added.
fn check_gates(after: JsonValue<'_>, before: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("schedulingGates");
    for (index, gate) in items(after, "schedulingGates") {
        let name = text(gate, "name");
        if !items(before, "schedulingGates").any(|(_, old)| text(old, "name") == name) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            causes.forbidden(&list.item(index).member("name"), detail);
        }
    }
}

#[cfg(test)]
mod tests;
