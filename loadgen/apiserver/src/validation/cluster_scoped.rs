//! Validation of nodes, namespaces and Events.

use podstorm_objects::decode::Path;
use podstorm_objects::json::Tape;
use podstorm_objects::{Cause, Event, Kind, Namespace, Node};
use serde_json::Value;

use super::container::{choice, text};
use super::{Causes, metadata, names, validate_metadata};
use crate::Places;
use crate::finalizer::phase;

/// Returns the rules that a new or changed node breaks.
pub fn validate_node(node: &Node) -> Vec<Cause> {
    let mut causes = Causes::default();
    let meta = Path::ROOT.member("metadata");
    metadata::check(
        &node.metadata,
        false,
        names::dns_subdomain,
        &meta,
        &mut causes,
    );
    let spec = Path::ROOT.member("spec");
    let list = spec.member("taints");
    let taints = node.spec.get("taints").map(Tape::new);
    let mut seen: Places<(&str, &str)> = Places::default();
    for (index, taint) in taints
        .iter()
        .flat_map(|list| list.root().items())
        .enumerate()
    {
        let path = list.item(index);
        let (key, value, effect) = (
            text(taint, "key"),
            text(taint, "value"),
            text(taint, "effect"),
        );
        causes.text(&path.member("key"), key, names::qualified_name(key));
        causes.text(&path.member("value"), value, names::label_value(value));
        if effect.is_empty() {
            causes.required(&path.member("effect"), "");
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        choice(taint, "effect", &effects, &path, &mut causes);
        if seen.contains(&(key, effect)) {
            causes.duplicate(&path, taint);
        }
        seen.push((key, effect));
    }
    causes.found()
}

/// Returns the rules that a namespace breaks: a new or changed one, or one whose finalizers were
/// replaced (`is_finalized`).
pub fn validate_namespace(namespace: &Namespace, is_finalized: bool) -> Vec<Cause> {
    let mut causes = Causes::default();
    let meta = Path::ROOT.member("metadata");
    metadata::check(
        &namespace.metadata,
        false,
        names::dns_label,
        &meta,
        &mut causes,
    );
    let spec = Path::ROOT.member("spec");
    let list = spec.member("finalizers");
    let finalizers = namespace
        .fields
        .get("spec")
        .and_then(|spec| spec.get("finalizers"));
    let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    for (index, name) in finalizers.enumerate() {
        let name = name.as_str().unwrap_or("");
        if let Some(problem) = metadata::finalizer_problem(name) {
            // Sic: for a new namespace, upstream's errors contain the list instead of the entry.
            let path = list.item(index);
            causes.invalid(if is_finalized { &path } else { &list }, name, problem);
        }
    }
    causes.found()
}

/// Returns the rules that a namespace with a changed status breaks: its phase must agree with its
/// deletion.
pub fn validate_namespace_status(namespace: &Namespace) -> Vec<Cause> {
    let mut causes = Causes::from(validate_namespace(namespace, false));
    let is_deleting = namespace.metadata.is_deleting();
    if namespace.terminating != is_deleting || !is_deleting && phase(namespace) != "Active" {
        let detail = match is_deleting {
            true => "may only be 'Terminating' if `deletionTimestamp` is not empty",
            false => "may only be 'Active' if `deletionTimestamp` is empty",
        };
        // Sic: with a capital letter.
        let path = Path::ROOT.member("status");
        causes.invalid(&path.member("Phase"), phase(namespace), detail);
    }
    causes.found()
}

/// Returns the rules that a changed node breaks: once set, its pod CIDR and provider ID are
/// immutable.
pub fn validate_node_update(new: &Node, old: &Node) -> Vec<Cause> {
    let mut causes = Causes::from(validate_node(new));
    let spec = Path::ROOT.member("spec");
    for (member, told) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let of = |node: &Node| node.spec.get(member).cloned().unwrap_or_default();
        let (before, after) = (of(old), of(new));
        let is_set = !before.is_null() && before != "";
        if is_set && before != after {
            let detail = format!("node updates may not change {told} except from \"\" to valid");
            causes.forbidden(&spec.member(member), detail);
        }
    }
    causes.found()
}

/// Returns the rules that a new or changed Event breaks. Its namespace must be that of the object
/// that it is about; `default` if the object is cluster-scoped. An Event without an object may be
/// in any namespace.
pub fn validate_event(event: &Event) -> Vec<Cause> {
    let mut causes = Causes::from(validate_metadata(Kind::EVENT, &event.metadata));
    if let Some(about) = &event.regarding {
        let (here, there) = (&*event.metadata.namespace, about.namespace());
        // An Event of the newer form may be about an object elsewhere. Searches the text first,
        // because parsing costs more.
        let rest = &event.rest;
        let has_time = rest.as_str().contains("eventTime")
            && rest.get("eventTime").is_some_and(|time| !time.is_null());
        let fits = match &*there {
            "" => here == "default" || has_time && here == "kube-system",
            _ => has_time || here == there,
        };
        if !fits {
            let path = Path::ROOT.member("involvedObject");
            causes.invalid(
                &path.member("namespace"),
                there,
                "does not match event.namespace",
            );
        }
    }
    causes.found()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{assert_starts, cases, read, texts};
    use super::*;

    fn check(validate: impl Fn(Value) -> Vec<Cause>, table: &str) {
        for (object, starts) in cases(table) {
            assert_starts(&texts(&validate(object.clone())), &starts, &object);
        }
    }

    #[test]
    fn broken_rules_of_nodes_are_reported() {
        let table = r#"
{"metadata": {"name": "n.example.com"}, "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}

{"metadata": {"name": "n", "namespace": "x"}, "spec": {"taints": [
    {"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "value": "v", "effect": "NoSchedule"},
    {"key": "-", "effect": "Never"}, {"key": "a"}]}}
> metadata.namespace: Forbidden: not allowed on this type
> spec.taints[1]: Duplicate value
> spec.taints[2].key: Invalid
> spec.taints[2].effect: Unsupported
> spec.taints[3].effect: Required
"#;
        check(|node| validate_node(&read(node)), table);
    }

    #[test]
    fn broken_rules_of_namespaces_are_reported() {
        let table = r#"
{"metadata": {"name": "shop"}}

{"metadata": {"name": "a.b"}, "spec": {"finalizers": ["-"]}}
> metadata.name: Invalid value: "a.b"
> spec.finalizers: Invalid
"#;
        check(
            |namespace| validate_namespace(&read(namespace), false),
            table,
        );
    }

    #[test]
    fn broken_rules_of_events_are_reported() {
        let table = r#"
{"metadata": {"name": "web.17", "namespace": "shop"}, "involvedObject": {"namespace": "shop"}}

{"metadata": {"name": "web.17", "namespace": "default"}, "involvedObject": {"kind": "Node"}}

{"metadata": {"name": "web.17", "namespace": "shop"}, "involvedObject": {"namespace": "other"}}
> involvedObject.namespace: Invalid value: "other"

{"metadata": {"name": "web.17", "namespace": "shop"}, "involvedObject": {"namespace": "other"}, "eventTime": "2026-01-01T00:00:00.000000Z"}

{"metadata": {"name": "web.17", "namespace": "kube-system"}, "involvedObject": {"kind": "Node"}, "eventTime": "2026-01-01T00:00:00.000000Z"}
"#;
        check(|event| validate_event(&read(event)), table);
    }
}
