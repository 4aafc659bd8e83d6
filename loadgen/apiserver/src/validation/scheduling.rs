//! Validation of node and pod affinities.

use podstorm_objects::LabelSelector;
use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;

use super::container::{items, member, number, text};
use super::{Causes, names, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the affinities of a pod spec.
pub(super) fn check_affinity(fields: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let Some(affinity) = member(fields, "affinity") else {
        return;
    };
    let path = path.member("affinity");
    if let Some(of_nodes) = member(affinity, "nodeAffinity") {
        check_node_affinity(of_nodes, &path.member("nodeAffinity"), causes);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        if let Some(of_pods) = member(affinity, kind) {
            check_pod_affinity(of_pods, &path.member(kind), causes);
        }
    }
}

fn check_node_affinity(affinity: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    if let Some(required) = member(affinity, REQUIRED) {
        let required_path = path.member(REQUIRED);
        let list = required_path.member("nodeSelectorTerms");
        if items(required, "nodeSelectorTerms").next().is_none() {
            causes.required(&list, "must have at least one node selector term");
        }
        for (index, term) in items(required, "nodeSelectorTerms") {
            check_term(term, &list.item(index), causes);
        }
    }
    let list = path.member(PREFERRED);
    for (index, preferred) in items(affinity, PREFERRED) {
        let path = list.item(index);
        check_weight(preferred, &path, causes);
        if let Some(term) = member(preferred, "preference") {
            check_term(term, &path.member("preference"), causes);
        }
    }
}

fn check_weight(preferred: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let weight = number(preferred, "weight");
    if !(1..=100).contains(&weight) {
        let detail = "must be in the range 1-100";
        causes.invalid(&path.member("weight"), weight, detail);
    }
}

fn check_term(term: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("matchExpressions");
    for (index, requirement) in items(term, "matchExpressions") {
        check_requirement(requirement, &list.item(index), causes);
    }
    let list = path.member("matchFields");
    for (index, requirement) in items(term, "matchFields") {
        check_field(requirement, &list.item(index), causes);
    }
}

fn values(requirement: JsonValue<'_>) -> impl Iterator<Item = &str> {
    let list = requirement.get("values").into_iter();
    list.flat_map(|list| list.items())
        .map(|value| value.as_str().unwrap_or(""))
}

fn check_requirement(requirement: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("values");
    match (text(requirement, "operator"), values(requirement).count()) {
        ("In" | "NotIn", 0) => {
            causes.required(
                &list,
                "must be specified when `operator` is 'In' or 'NotIn'",
            );
        }
        ("In" | "NotIn", _) | ("Exists" | "DoesNotExist", 0) | ("Gt" | "Lt", 1) => {}
        ("Exists" | "DoesNotExist", _) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            causes.forbidden(&list, detail);
        }
        ("Gt" | "Lt", _) => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            causes.required(&list, detail);
        }
        (other, _) => {
            let detail = "not a valid selector operator";
            causes.invalid(&path.member("operator"), other, detail);
        }
    }
    let key = text(requirement, "key");
    causes.text(&path.member("key"), key, names::qualified_name(key));
}

/// Checks a requirement on a field of a node; the only such field is the name.
fn check_field(requirement: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member("values");
    match (text(requirement, "operator"), values(requirement).count()) {
        ("In" | "NotIn", 1) => {}
        ("In" | "NotIn", _) => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field \
                          selector";
            causes.required(&list, detail);
        }
        (other, _) => {
            let detail = "not a valid selector operator";
            causes.invalid(&path.member("operator"), other, detail);
        }
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        let detail = "not a valid field selector key";
        causes.invalid(&path.member("key"), key, detail);
        return;
    }
    for (index, name) in values(requirement).enumerate() {
        causes.text(&list.item(index), name, names::dns_subdomain(name));
    }
}

fn check_pod_affinity(affinity: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let list = path.member(REQUIRED);
    for (index, term) in items(affinity, REQUIRED) {
        check_pod_term(term, &list.item(index), causes);
    }
    let list = path.member(PREFERRED);
    for (index, preferred) in items(affinity, PREFERRED) {
        let path = list.item(index);
        check_weight(preferred, &path, causes);
        if let Some(term) = member(preferred, "podAffinityTerm") {
            check_pod_term(term, &path.member("podAffinityTerm"), causes);
        }
    }
}

fn check_pod_term(term: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    for key in ["labelSelector", "namespaceSelector"] {
        if let Some(written) = member(term, key)
            && let Ok(written) = LabelSelector::from_json(written.to_value())
        {
            selector::check(&written, &path.member(key), causes);
        }
    }
    let of_namespaces = term.get("namespaces").into_iter();
    for name in of_namespaces.flat_map(|names| names.items()) {
        let name = name.as_str().unwrap_or("");
        // Sic: without the index of the namespace.
        causes.text(&path.member("namespace"), name, names::dns_label(name));
    }
    let key = text(term, "topologyKey");
    let at = path.member("topologyKey");
    if key.is_empty() {
        causes.required(&at, "can not be empty");
    }
    for problem in names::label_key_problems(key) {
        causes.invalid(&at, key, problem);
    }
}
