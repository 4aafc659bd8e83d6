//! Validation of `metadata` for every kind: names, labels, annotations, owners, finalizers.

use podstorm_objects::decode::Path;
use podstorm_objects::{Labels, ObjectMeta, OwnerReference, Str};
use serde_json::Value;

use super::names::{self, Rule};
use super::{Causes, MUST_NOT_BE_NEGATIVE};
use crate::errors;
use crate::limits::BYTES_MAX;
use crate::store::owners::same_owners;

/// The maximum total size of an object's annotation keys and values: 256 KiB.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// The finalizer that keeps a definition until its objects are deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
/// The annotation that ranks a pod for deletion.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks all of the `metadata` of a new or changed object.
pub(super) fn check(
    meta: &ObjectMeta,
    is_namespaced: bool,
    name_rule: Rule,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    check_generic(meta, is_namespaced, name_rule, path, causes);
    let path = path.member("finalizers");
    for (index, finalizer) in meta.finalizers().iter().enumerate() {
        if names::qualified_name(finalizer).is_none()
            && let Some(problem) = finalizer_problem(finalizer)
        {
            // Sic: only this error contains the index of the finalizer.
            causes.invalid(&path.item(index), &**finalizer, problem);
        }
    }
}

/// Like [`check`], for kinds with the rules of all Kubernetes servers: finalizers need no domain.
pub(super) fn check_generic(
    meta: &ObjectMeta,
    is_namespaced: bool,
    name_rule: Rule,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    check_name(meta, name_rule, path, causes);
    let namespace_path = path.member("namespace");
    match (is_namespaced, meta.namespace.is_empty()) {
        (true, true) => causes.required(&namespace_path, ""),
        (true, false) => {
            let problem = names::dns_label(&meta.namespace);
            causes.text(&namespace_path, &meta.namespace, problem);
        }
        (false, true) => {}
        (false, false) => causes.forbidden(&namespace_path, "not allowed on this type"),
    }
    if meta.generation < 0 {
        causes.invalid(
            &path.member("generation"),
            meta.generation,
            MUST_NOT_BE_NEGATIVE,
        );
    }
    check_labels(&meta.labels, &path.member("labels"), causes);
    check_annotations(&meta.annotations, &path.member("annotations"), causes);
    check_owners(meta, &path.member("ownerReferences"), causes);
    check_finalizers(meta, &path.member("finalizers"), causes);
    // `managedFields` makes up most of the unread members: each new field manager adds an entry.
    if meta.rest.as_str().len() > BYTES_MAX {
        causes.too_long(&path.member("managedFields"), BYTES_MAX);
    }
}

/// Reports whether a pod's metadata is valid because it differs from that of a valid pod only in
/// its name and in values of labels and annotations, and these values are valid. Does not check the
/// name.
pub(super) fn is_like(meta: &ObjectMeta, valid: &ObjectMeta) -> bool {
    let has_its_keys = |labels: &Labels, valid: &Labels, is_valid: fn(&str, &str) -> bool| {
        let (pairs, valid) = (labels.pairs(), valid.pairs());
        pairs.len() == valid.len()
            && pairs
                .iter()
                .zip(valid)
                .all(|((key, value), (known, other))| {
                    key == known && (value == other || is_valid(key, value))
                })
    };
    let bytes = |(key, value): &(_, Str)| Str::len(key) + value.len();
    meta.namespace == valid.namespace
        && meta.generation == valid.generation
        && meta.finalizers == valid.finalizers
        && meta.rest.is_same(&valid.rest)
        && same_owners(&meta.owner_references, &valid.owner_references)
        && has_its_keys(&meta.labels, &valid.labels, |_, value| {
            names::label_value(value).is_none()
        })
        && has_its_keys(&meta.annotations, &valid.annotations, |key, _| {
            key != DELETION_COST
        })
        && meta.annotations.pairs().iter().map(bytes).sum::<usize>() <= ANNOTATIONS_BYTES_MAX
}

/// Checks the name and the name prefix of an object.
pub(super) fn check_name(meta: &ObjectMeta, name_rule: Rule, path: &Path<'_>, causes: &mut Causes) {
    if let Some(prefix) = &meta.generate_name {
        causes.text(
            &path.member("generateName"),
            prefix,
            names::prefix(prefix, name_rule),
        );
    }
    let name_path = path.member("name");
    if meta.name.is_empty() {
        if meta.generate_name.is_none() {
            causes.required(&name_path, "name or generateName is required");
        }
    } else {
        causes.text(&name_path, &meta.name, name_rule(&meta.name));
    }
}

/// Checks the keys and values of a label map.
pub(super) fn check_labels(labels: &Labels, path: &Path<'_>, causes: &mut Causes) {
    for (key, value) in labels.pairs() {
        causes.text(path, key, names::qualified_name(key));
        causes.text(path, value, names::label_value(value));
    }
}

/// Checks the keys and the total size of an annotation map.
pub(super) fn check_annotations(annotations: &Labels, path: &Path<'_>, causes: &mut Causes) {
    let mut bytes = 0;
    for (key, value) in annotations.pairs() {
        // The domain of an annotation key may contain capital letters.
        if let Some(problem) = names::qualified_name(key)
            && names::qualified_name(&key.to_lowercase()).is_some()
        {
            causes.invalid(path, &**key, problem);
        }
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}

/// Checks the only pod annotation that has a meaning, the deletion cost.
pub(super) fn check_pod_annotations(annotations: &Labels, path: &Path<'_>, causes: &mut Causes) {
    if let Some(value) = annotations.get(DELETION_COST)
        && !is_deletion_cost(value)
    {
        causes.invalid(
            &path.key(DELETION_COST),
            &**value,
            "must be a 32bit integer",
        );
    }
}

/// Reports whether a string is a 32-bit decimal number without a plus sign or leading zeros.
fn is_deletion_cost(text: &str) -> bool {
    let first_fits = match text.as_bytes() {
        [b'-', ..] | b"0" => true,
        [first, ..] => (b'1'..=b'9').contains(first),
        [] => false,
    };
    first_fits && text.parse::<i32>().is_ok()
}

fn check_owners(meta: &ObjectMeta, path: &Path<'_>, causes: &mut Causes) {
    let mut controller: Option<&OwnerReference> = None;
    for owner in &meta.owner_references {
        // Sic: the error does not contain the index of the reference.
        check_owner(owner, path, causes);
        if owner.controller != Some(true) || causes.is_full() {
            continue;
        }
        match controller {
            None => controller = Some(owner),
            Some(first) => {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {}/{} and {}/{}",
                    first.kind, first.name, owner.kind, owner.name
                );
                let all: Vec<String> = {
                    let owners = meta.owner_references.iter();
                    owners.map(|owner| owner_text(owner)).collect()
                };
                let shown = format!("[{}]: {detail}", all.join(","));
                causes.push(errors::problem(path.to_string(), &shown));
            }
        }
    }
}

/// Formats an owner reference with its fields in the order of Go's struct.
fn owner_text(owner: &OwnerReference) -> String {
    let json = owner.to_json();
    let members = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let members = members
        .iter()
        .filter_map(|name| Some(format!("{name:?}:{}", json.get(*name)?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn check_owner(owner: &OwnerReference, path: &Path<'_>, causes: &mut Causes) {
    let mut parts = owner.api_version.split('/');
    let version = match (parts.next(), parts.next(), parts.next()) {
        (Some(version), None, _) => version,
        (Some(_), Some(version), None) => version,
        _ => "",
    };
    if version.is_empty() {
        let detail = "must be a version, or a group and a version";
        causes.invalid(&path.member("apiVersion"), &*owner.api_version, detail);
    }
    if owner.kind.is_empty() {
        causes.invalid(&path.member("kind"), "", "must not be empty");
    }
    if owner.name.is_empty() {
        causes.invalid(&path.member("name"), "", "must not be empty");
    }
    if owner.uid.is_empty() {
        causes.invalid(&path.member("uid"), "", "must not be empty");
    }
    if &*owner.api_version == "v1" && &*owner.kind == "Event" {
        causes.invalid(
            path,
            owner.to_json(),
            "v1 Event is disallowed from being an owner",
        );
    }
}

/// Returns the problem with the name of a finalizer; `None` if the name is valid.
pub(super) fn finalizer_problem(name: &str) -> Option<String> {
    let unqualified = "name is neither a standard finalizer name nor is it fully qualified";
    match names::qualified_name(name) {
        None if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) => {
            Some(unqualified.to_owned())
        }
        problem => problem,
    }
}

fn check_finalizers(meta: &ObjectMeta, path: &Path<'_>, causes: &mut Causes) {
    let has = |name: &str| {
        meta.finalizers()
            .iter()
            .any(|finalizer| &**finalizer == name)
    };
    for finalizer in meta.finalizers().iter() {
        if let Some(problem) = names::qualified_name(finalizer) {
            causes.invalid(path, &**finalizer, problem);
        }
    }
    if has("orphan") && has("foregroundDeletion") {
        let all: Vec<Value> = meta
            .finalizers()
            .iter()
            .map(|name| (**name).into())
            .collect();
        causes.invalid(
            path,
            all,
            "orphan and foregroundDeletion cannot be set both",
        );
    }
}

#[cfg(test)]
mod tests;
