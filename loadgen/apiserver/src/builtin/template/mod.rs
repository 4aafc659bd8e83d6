//! Pod templates: their warnings; in kinds without a Rust type, also their defaults and the checks
//! that depend on the kind. The rules are those of a ReplicaSet's template.

use podstorm_objects::decode::Path;
use podstorm_objects::{
    Cause, DynamicObject, Map, PodTemplate, ReplicaSet, Resource, Warnings, Written,
};
use serde_json::{Value, json};

use super::pod::warnings::of_pod;
use crate::Places;
use crate::defaulting::{Within, fill_spec};
use crate::errors::invalid_value;
use crate::validation::{Field, Workload, validate_replica_set_spec, validate_template};

/// Sets the defaults of `template` in a spec.
pub(super) fn set_defaults(spec: &mut Map) {
    spec.within("template", |template| template.within("spec", fill_spec));
}

/// Returns the rules that a spec with a selector and a template breaks: those of a ReplicaSet, with
/// the kind's own messages.
pub(super) fn validate(object: &DynamicObject, of: Workload) -> Vec<Cause> {
    let spec = object.fields.get("spec").cloned().unwrap_or_default();
    let mut of_set: Map = ["replicas", "minReadySeconds", "selector", "template"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), spec.get(name)?.clone())))
        .collect();
    // A DaemonSet has no `replicas`.
    of_set.entry("replicas").or_insert(1.into());
    if let Some(template) = of_set.get_mut("template")
        && of.kind == Workload::STATEFUL_SET.kind
    {
        prepare_stateful(template, &spec["volumeClaimTemplates"]);
    }
    match ReplicaSet::from_json(json!({"spec": of_set})) {
        Ok(set) => validate_replica_set_spec(&set.spec, of),
        Err(problem) => vec![invalid_value(
            problem.path.to_string(),
            &Value::Null,
            &problem.problem,
        )],
    }
}

/// Changes a StatefulSet's template to what its pods will have. Each claim template adds a volume
/// before those of the template and replaces the volume with the same name. The host name and
/// subdomain are removed, because the controller sets them.
///
/// Source: `volumesToAddForTemplates` of Kubernetes' `pkg/apis/apps/validation`.
fn prepare_stateful(template: &mut Value, claims: &Value) {
    let Some(Value::Object(spec)) = template.get_mut("spec") else {
        return;
    };
    for member in ["hostname", "subdomain"] {
        spec.remove(member);
    }
    let name_of = |named: &Value| named["name"].as_str().unwrap_or("").to_owned();
    let mut names = Places::default();
    let mut volumes = Vec::new();
    for claim in claims.as_array().into_iter().flatten() {
        let name = name_of(&claim["metadata"]);
        if !names.contains(&name) {
            volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
            names.push(name);
        }
    }
    if volumes.is_empty() {
        return;
    }
    if let Some(Value::Array(own)) = spec.remove("volumes") {
        let others = own.into_iter();
        volumes.extend(others.filter(|volume| !names.contains(&name_of(volume))));
    }
    spec.insert("volumes".to_owned(), volumes.into());
}

/// Checks a template by itself, without a selector.
pub(super) fn validate_alone(template: &Field<'_>) {
    match PodTemplate::from_json(template.value.clone()) {
        Ok(read) => {
            let path = Path::ROOT.member(&template.path);
            template.checks.extend(validate_template(&read, &path));
        }
        Err(problem) => {
            let field = template.at(&problem.path.to_string());
            field.invalid_as(Value::Null, &problem.problem);
        }
    }
}

/// Checks the template of a Job, whose pods must end.
pub(super) fn validate_ending(template: &Field<'_>, has_failure_policy: bool) {
    const ENDING: [&str; 2] = ["OnFailure", "Never"];
    validate_alone(template);
    let policy = template.at("spec").at("restartPolicy");
    match policy.text() {
        // Sic: upstream reports the default policy, which a Job can't have, as missing.
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if has_failure_policy => {
            policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => policy.must_be_one_of(&ENDING),
    }
}

/// The warnings of a kind with a template at `spec.template`.
pub(super) const WARNINGS: Warnings = Warnings {
    written: |written| warnings(written, "spec.template"),
    ..Warnings::NONE
};

/// As [`WARNINGS`], for a kind whose names become the names of pods, and so of hosts.
pub(super) const WARNINGS_WITH_NAME: Warnings = Warnings {
    written: |written| warnings_with_name(written, "spec.template"),
    ..Warnings::NONE
};

/// Returns the warnings about the template at the path `at`, if the spec has changed.
pub(super) fn warnings(written: &Written<'_>, at: &str) -> Vec<String> {
    if !written.is_changed {
        return Vec::new();
    }
    let json = (written.json)();
    let template = at.split('.').fold(&json, |value, member| &value[member]);
    of_pod(&template["metadata"], &template["spec"], at)
}

/// As [`warnings`], after those about the name of a new object.
pub(super) fn warnings_with_name(written: &Written<'_>, at: &str) -> Vec<String> {
    let mut all = match written.is_new {
        true => name_warnings(written.name, "Pod names and hostnames"),
        false => Vec::new(),
    };
    all.extend(warnings(written, at));
    all
}

/// Warns of a name that is not a valid DNS label.
pub(super) fn name_warnings(name: &str, used_in: &str) -> Vec<String> {
    const LABEL_BYTES_MAX: usize = 63;
    let mut problems = Vec::new();
    if name.len() > LABEL_BYTES_MAX {
        problems.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if name.contains('.') {
        problems.push("must not contain dots".to_owned());
    }
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS \
         label is recommended: [{}]",
        problems.join(" ")
    )]
}

#[cfg(test)]
mod tests;
