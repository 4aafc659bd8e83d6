//! The annotations of a ReplicaSet for its revisions and sizes.
//!
//! Source: `pkg/controller/deployment/util` in Kubernetes.

use podstorm_objects::{Deployment, Labels, ReplicaSet, Str};

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, REVISION_HISTORY, is_copied};
use super::sizes::max_surge;

/// Parses a size annotation; `None` unless it has only digits and fits into an `int32`.
pub(super) fn size_annotation(set: &ReplicaSet, name: &str) -> Option<i32> {
    let text = set.metadata.annotations.get(name)?;
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Returns the current values of the size annotations for a Deployment's ReplicaSets.
pub(super) fn size_annotations(deployment: &Deployment) -> [(&'static str, Str); 2] {
    let replicas = deployment.replicas();
    let max = replicas.wrapping_add(max_surge(deployment));
    [
        (DESIRED_REPLICAS, replicas.to_string().into()),
        (MAX_REPLICAS, max.to_string().into()),
    ]
}

/// Sets an annotation and returns whether it changed.
fn put(annotations: &mut Labels, name: &str, value: &str) -> bool {
    let is_new = annotations.get(name).is_none_or(|old| **old != *value);
    if is_new {
        *annotations = annotations.with(name, value);
    }
    is_new
}

/// Sets the size annotations and returns whether they changed.
pub(super) fn set_sizes(deployment: &Deployment, annotations: &mut Labels) -> bool {
    let [desired, max] = size_annotations(deployment);
    // `|` does not short-circuit, so both annotations are set.
    put(annotations, desired.0, &desired.1) | put(annotations, max.0, &max.1)
}

/// Sets the annotations of a Deployment's newest ReplicaSet: those of the Deployment, the revision,
/// and the earlier revisions. A ReplicaSet that does not exist yet also gets the size annotations.
/// Returns whether anything changed. If the present revision can't be parsed, returns `false`, even
/// though the Deployment's annotations have been copied.
pub fn set_annotations(
    deployment: &Deployment,
    annotations: &mut Labels,
    new_revision: i64,
    exists: bool,
    history_bytes_max: usize,
) -> bool {
    let mut changed = false;
    for (name, value) in deployment.metadata.annotations.pairs() {
        if is_copied(name) {
            changed |= put(annotations, name, value);
        }
    }
    let before = annotations.get(REVISION).cloned();
    let old = match before.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(old) => old,
            Err(_) => return false,
        },
    };
    if old < new_revision {
        changed = true;
        put(annotations, REVISION, &new_revision.to_string());
        if let Some(before) = before {
            add_to_history(annotations, &before, history_bytes_max);
        }
    }
    if !exists {
        changed |= set_sizes(deployment, annotations);
    }
    changed
}

/// Appends an earlier revision to the history. Drops the oldest ones to make room.
fn add_to_history(annotations: &mut Labels, former: &str, bytes_max: usize) {
    let history = annotations.get(REVISION_HISTORY).cloned();
    let history = history.as_deref().unwrap_or_default();
    if history.is_empty() || history.starts_with(',') {
        put(annotations, REVISION_HISTORY, former);
        return;
    }
    let mut kept = Some(history);
    let bytes = |kept: Option<&str>| kept.map_or(0, |kept| kept.len() + 1) + former.len();
    while bytes(kept) > bytes_max
        && let Some(left) = kept
    {
        kept = left.split_once(',').map(|(_, later)| later);
    }
    if bytes(kept) > bytes_max {
        return;
    }
    let text = match kept {
        Some(kept) => format!("{kept},{former}"),
        None => former.to_owned(),
    };
    put(annotations, REVISION_HISTORY, &text);
}
