//! Validation: pure functions that return the rules that an object breaks.
//!
//! Every function returns the causes of a 422 response. A valid object has no causes. Objects are
//! validated after defaulting. The message of a cause has upstream's form without the field, e.g.
//! `Invalid value: -1: must be greater than or equal to 0`. Reasons, fields and details are
//! upstream's.
//!
//! The store itself checks `uid`, the version and the deletion fields.

mod cluster_scoped;
mod container;
mod field;
mod metadata;
pub(crate) mod names;
mod pod;
mod pod_spec;
mod pod_update;
mod references;
mod resources;
mod scheduling;
mod security;
mod selector;
mod volumes;
mod workload;

use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, Kind, ObjectMeta};
use serde_json::Value;

use crate::errors;

pub use cluster_scoped::{
    validate_event, validate_namespace, validate_namespace_status, validate_node,
    validate_node_update,
};
pub(crate) use field::{Checks, Field};
pub(crate) use metadata::CLEANUP;
pub use pod::{
    validate_pod, validate_pod_except_spec, validate_pod_like, validate_pod_status_update,
};
pub use pod_update::{validate_ephemeral_containers, validate_pod_update, validate_resize};
pub(crate) use resources::is_of_quota;
pub use security::allow_privileged;
pub(crate) use selector::{validate_selector, validate_selector_at};
pub use workload::{
    Workload, validate_replica_set, validate_replica_set_except_pod_spec,
    validate_replica_set_spec, validate_replica_set_update, validate_replicas,
    validate_replication_controller, validate_status, validate_template,
};

/// Returns the rules that an object's metadata breaks, according to the row of its kind.
pub fn validate_metadata(kind: Kind, metadata: &ObjectMeta) -> Vec<Cause> {
    let mut causes = Causes::default();
    let path = Path::ROOT.member("metadata");
    let name = names::rule(kind.row().name_format);
    let is_generic = kind.row().custom.is_some()
        || (kind.group(), kind.name()) == ("", "Event")
        || GENERIC.contains(&kind.group());
    let check = match is_generic {
        true => metadata::check_generic,
        false => metadata::check,
    };
    check(metadata, kind.is_namespaced(), name, &path, &mut causes);
    causes.found()
}

/// The groups whose metadata gets only the checks that all Kubernetes servers share. Source: the
/// `ValidateObjectMeta` that the `validation` packages of these groups call.
const GENERIC: [&str; 5] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "policy",
];

/// Returns all problems with a string that must be a qualified name, like a label key.
pub fn qualified_name_problems(text: &str) -> Vec<String> {
    names::label_key_problems(text)
}

/// Repeats the causes of an update as often as upstream reports them: the shared checks and those
/// of the kind report the same problem again. `causes` has each problem of the metadata once;
/// `changes` has the problems with the change of the metadata. For a write to the status, only the
/// change is checked.
pub(crate) fn repeat_for_update(
    kind: Kind,
    is_status: bool,
    changes: Vec<Cause>,
    causes: Vec<Cause>,
) -> Vec<Cause> {
    if changes.is_empty() && causes.is_empty() {
        return Vec::new();
    }
    let checks = kind.row().metadata_checks;
    let whole = if is_status { 0 } else { checks.whole };
    let repeat = |cause: Cause, times| std::iter::repeat_n(cause, times);
    let causes = causes.into_iter().flat_map(|cause| {
        let times = match cause.field.strip_prefix("metadata.") {
            None => 1,
            Some(field) => {
                let of_both = ["labels", "annotations", "ownerReferences"];
                match field {
                    "name" | "generateName" | "namespace" => whole.max(1),
                    // Only the checks of the kinds have this rule.
                    _ if field.starts_with("finalizers[") => whole,
                    _ if of_both.iter().any(|start| field.starts_with(start)) => {
                        2 + whole + checks.change
                    }
                    _ => 1 + whole,
                }
            }
        };
        repeat(cause, times)
    });
    let mut causes: Vec<Cause> = causes.collect();
    if changes.is_empty() {
        return causes;
    }
    // The kind checks the change of the metadata right before its other rules about changes.
    let at = match WHOLE_FIRST.contains(&kind.name()) && !is_status {
        true => causes.iter().position(is_change).unwrap_or(causes.len()),
        false => 0,
    };
    let rest = causes.split_off(at);
    let own = std::iter::repeat_n(&changes, checks.change).flatten();
    causes.extend(own.cloned());
    changes.into_iter().chain(causes).chain(rest).collect()
}

/// The kinds whose updates are first checked as a whole, like new objects, and then for their
/// changes. Source: their `ValidateUpdate` in Kubernetes' `pkg/registry`.
const WHOLE_FIRST: [&str; 8] = [
    "DaemonSet",
    "Job",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ReplicationController",
    "StorageClass",
];

/// Reports whether a cause concerns a change and not the new object alone.
fn is_change(cause: &Cause) -> bool {
    !cause.field.starts_with("metadata.") && cause.message.ends_with(IMMUTABLE)
}

pub(crate) const MUST_NOT_BE_NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Broken rules in the order in which they were found, up to a total size.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    all: Vec<Cause>,
    bytes: usize,
}

impl From<Vec<Cause>> for Causes {
    fn from(all: Vec<Cause>) -> Causes {
        let bytes = all.iter().map(errors::bytes_of).sum();
        Causes { all, bytes }
    }
}

impl Causes {
    /// Returns causes that are full after the first one, for checks that only ask whether any rule
    /// is broken.
    pub(crate) fn until_first() -> Causes {
        Causes {
            all: Vec::new(),
            bytes: errors::CAUSES_BYTES_MAX,
        }
    }

    pub(crate) fn push(&mut self, cause: Cause) {
        if !self.is_full() {
            self.bytes += errors::bytes_of(&cause);
            self.all.push(cause);
        }
    }

    /// Reports whether no more causes are accepted because the response would become too large.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > errors::CAUSES_BYTES_MAX
    }

    pub(crate) fn found(self) -> Vec<Cause> {
        self.all
    }

    /// Adds a cause about an invalid value.
    fn invalid(&mut self, path: &Path<'_>, value: impl Into<Value>, detail: impl AsRef<str>) {
        let cause = errors::invalid_value(path.to_string(), &value.into(), detail.as_ref());
        self.push(cause);
    }

    /// Adds a cause about a field that must be set.
    fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(errors::required(path.to_string(), detail));
    }

    /// Adds a cause about a field that must not be set or changed.
    fn forbidden(&mut self, path: &Path<'_>, detail: impl AsRef<str>) {
        let cause = errors::forbidden_field(path.to_string(), detail.as_ref());
        self.push(cause);
    }

    /// Adds a cause about a repeated value that must be unique.
    fn duplicate(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        let value: Value = value.into();
        self.push(errors::duplicate(path.to_string(), value));
    }

    /// Adds a cause about a reference to something that does not exist.
    fn not_found(&mut self, path: &Path<'_>, value: impl Into<Value>) {
        let value: Value = value.into();
        self.push(Cause {
            reason: "FieldValueNotFound".to_owned(),
            message: format!("Not found: {value}"),
            field: path.to_string(),
        });
    }

    /// Adds a cause about a value that is not supported.
    fn not_supported(&mut self, path: &Path<'_>, value: &str, supported: &[&str]) {
        let cause = errors::not_supported(path.to_string(), value, supported);
        self.push(cause);
    }

    /// Adds a cause about a value that is too long.
    fn too_long(&mut self, path: &Path<'_>, bytes_max: usize) {
        self.push(errors::too_long(path.to_string(), bytes_max));
    }

    /// Checks that a count or duration is not negative.
    fn not_negative(&mut self, path: &Path<'_>, value: i64) {
        if value < 0 {
            self.invalid(path, value, MUST_NOT_BE_NEGATIVE);
        }
    }

    /// Adds a cause about a string, if it has a problem.
    fn text(&mut self, path: &Path<'_>, text: &str, problem: Option<String>) {
        if let Some(problem) = problem {
            self.invalid(path, text, problem);
        }
    }
}

#[cfg(test)]
mod testing {
    //! Functions that the tests of the rules share.

    use podstorm_objects::Cause;
    use serde_json::Value;

    pub(super) use crate::testing::{assert_starts, cases, read};

    /// Returns `value` with `patch` applied as a JSON merge patch.
    pub(super) fn merged(value: Value, patch: &Value) -> Value {
        crate::testing::merged(value, patch.clone())
    }

    /// Formats causes as `field: message`.
    pub(super) fn texts(causes: &[Cause]) -> Vec<String> {
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_repeats_metadata_problems_as_often_as_upstream() {
        let cause = |field: &str| errors::required(field, "");
        let counts = |kind, is_status| {
            let fields = [
                "metadata.labels",
                "metadata.ownerReferences.uid",
                "metadata.generateName",
                "metadata.finalizers",
                "metadata.finalizers[0]",
                "spec.x",
            ];
            let changes = vec![cause("metadata.uid")];
            let causes = fields.map(cause).to_vec();
            let found = repeat_for_update(kind, is_status, changes, causes);
            let count = |field| found.iter().filter(|cause| cause.field == field).count();
            ["metadata.uid"]
                .into_iter()
                .chain(fields)
                .map(count)
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(Kind::POD, false), [2, 4, 4, 1, 2, 1, 1]);
        assert_eq!(counts(Kind::POD, true), [2, 3, 3, 1, 1, 0, 1]);
        assert_eq!(counts(Kind::REPLICA_SET, false), [2, 3, 3, 1, 1, 0, 1]);
        assert_eq!(counts(Kind::EVENT, false), [1, 2, 2, 1, 1, 0, 1]);
    }

    #[test]
    fn finalizers_of_some_kinds_need_no_domain() {
        let mut metadata = ObjectMeta {
            name: "a".into(),
            ..ObjectMeta::default()
        };
        metadata.finalizers = Some(std::sync::Arc::new(vec!["plain".into()]));
        for (kind, is_free) in [
            ("Lease", true),
            ("PodDisruptionBudget", true),
            ("MutatingWebhookConfiguration", true),
            ("CustomResourceDefinition", true),
            ("Event", true),
            ("ConfigMap", false),
            ("StorageClass", false),
            ("ClusterRole", false),
            ("Ingress", false),
        ] {
            let found = crate::kind_named(kind).expect("the kind is built in");
            metadata.namespace = if found.is_namespaced() { "n" } else { "" }.into();
            let causes = validate_metadata(found, &metadata);
            assert_eq!(causes.is_empty(), is_free, "{kind}: {causes:?}");
        }
    }

    #[test]
    fn messages_have_the_upstream_shape() {
        let spec = Path::ROOT.member("spec");
        let path = spec.member("x");
        let mut causes = Causes::default();
        causes.invalid(&path, -1, MUST_NOT_BE_NEGATIVE);
        causes.invalid(&path, "a", "bad");
        causes.required(&path, "");
        causes.required(&path, "why");
        causes.forbidden(&path, "why");
        causes.duplicate(&path, "a");
        causes.not_found(&path, "a");
        causes.not_supported(&path, "a", &["b", "c"]);
        causes.too_long(&path, 3);
        let found = causes.all.iter();
        let found = found.map(|it| format!("{} {} {}", it.field, it.reason, it.message));
        let wanted = r#"
spec.x FieldValueInvalid Invalid value: -1: must be greater than or equal to 0
spec.x FieldValueInvalid Invalid value: "a": bad
spec.x FieldValueRequired Required value
spec.x FieldValueRequired Required value: why
spec.x FieldValueForbidden Forbidden: why
spec.x FieldValueDuplicate Duplicate value: "a"
spec.x FieldValueNotFound Not found: "a"
spec.x FieldValueNotSupported Unsupported value: "a": supported values: "b", "c"
spec.x FieldValueTooLong Too long: may not be more than 3 bytes
"#;
        assert_eq!(found.collect::<Vec<_>>().join("\n"), wanted.trim());
    }
}
