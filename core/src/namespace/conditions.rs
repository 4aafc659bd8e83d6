//! The five conditions of a namespace that is being deleted.
//!
//! Source: `status_condition_utils.go` in Kubernetes' `pkg/controller/namespace/deletion`.

use std::collections::BTreeMap;

use podstorm_objects::{Namespace, Time};
use serde_json::{Value, json};

/// Each condition's type, and its reason and message if there is no problem, in the order in which
/// the conditions are added.
const TYPES: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

/// The problems that a sync found.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    discovery: Option<String>,
    parsing: Option<String>,
    failures: Vec<String>,
    remaining: Vec<String>,
    by_finalizer: BTreeMap<String, usize>,
}

impl Conditions {
    /// Records that discovery failed, in whole or in part.
    pub(super) fn discovery_failed(&mut self, message: String) {
        self.discovery = Some(message);
    }

    /// Records the error for a malformed group version.
    pub(super) fn parsing_failed(&mut self, error: &str) {
        self.parsing = Some(error.to_owned());
    }

    /// Records that the objects of a kind could not be deleted.
    pub(super) fn deletion_failed(&mut self, error: &str) {
        self.failures.push(error.to_owned());
    }

    /// Notes the remaining objects of a kind and their finalizers.
    pub(super) fn remain(
        &mut self,
        kind: &str,
        count: usize,
        by_finalizer: &BTreeMap<String, usize>,
    ) {
        self.remaining
            .push(format!("{kind} has {count} resource instances"));
        for (finalizer, count) in by_finalizer {
            *self.by_finalizer.entry(finalizer.clone()).or_default() += count;
        }
    }

    /// Returns the reason and message of each type; `None` for a type without a problem.
    fn problems(&self) -> [Option<(&'static str, String)>; 5] {
        let sorted = |texts: &[String]| {
            let mut texts = texts.to_vec();
            texts.sort_unstable();
            texts.join(", ")
        };
        let when = |is_one: bool, reason, message: String| is_one.then_some((reason, message));
        let finalizers = self.by_finalizer.iter();
        let finalizers: Vec<String> = finalizers
            .map(|(name, count)| format!("{name} in {count} resource instances"))
            .collect();
        let failures = self.failures.len();
        [
            self.discovery
                .clone()
                .map(|error| ("DiscoveryFailed", error)),
            self.parsing
                .clone()
                .map(|error| ("GroupVersionParsingFailed", error)),
            when(
                failures > 0,
                "ContentDeletionFailed",
                format!(
                    "Failed to delete all resource types, {failures} remaining: {}",
                    sorted(&self.failures)
                ),
            ),
            when(
                !self.remaining.is_empty(),
                "SomeResourcesRemain",
                format!("Some resources are remaining: {}", sorted(&self.remaining)),
            ),
            when(
                !finalizers.is_empty(),
                "SomeFinalizersRemain",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    sorted(&finalizers)
                ),
            ),
        ]
    }

    /// Sets the conditions of a namespace. Returns whether any of them has changed. The transition
    /// time of a condition changes only if its status changes.
    pub(super) fn write_to(&self, namespace: &mut Namespace, now: Time) -> bool {
        let status = namespace
            .fields
            .entry("status")
            .or_insert_with(|| json!({}));
        let Value::Object(status) = status else {
            return false;
        };
        let list = status.entry("conditions").or_insert_with(|| json!([]));
        let Value::Array(list) = list else {
            return false;
        };
        let mut changed = false;
        for ((kind, reason, message), problem) in TYPES.into_iter().zip(self.problems()) {
            let is_problem = if problem.is_some() { "True" } else { "False" };
            let (reason, message) = problem.unwrap_or((reason, message.to_owned()));
            let mut new = json!({"type": kind, "status": is_problem, "reason": reason,
                "message": message, "lastTransitionTime": now.to_string()});
            match list.iter_mut().find(|condition| condition["type"] == kind) {
                None => list.push(new),
                Some(old) => {
                    if old["status"] == is_problem {
                        new["lastTransitionTime"] = old["lastTransitionTime"].clone();
                    }
                    let differs = |member| old[member] != new[member];
                    if !["status", "reason", "message"].into_iter().any(differs) {
                        continue;
                    }
                    *old = new;
                }
            }
            changed = true;
        }
        changed
    }
}
