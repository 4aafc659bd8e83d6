//! Pod templates within kinds that have no Rust type: defaults and rules are those of ReplicaSets.

use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, DynamicObject, Map, PodTemplate, ReplicaSet, Resource};
use serde_json::{Value, json};

use crate::defaulting::{Within, fill_spec};
use crate::errors::invalid_value;
use crate::validation::{Field, validate_replica_set_spec, validate_template};

/// Sets the defaults of `template` in a spec.
pub(super) fn set_defaults(spec: &mut Map) {
    spec.within("template", |template| template.within("spec", fill_spec));
}

/// The broken rules of a spec with replicas, selector and template: those of ReplicaSets, in texts of
/// the kind's own.
pub(super) fn validate(object: &DynamicObject) -> Vec<Cause> {
    let kind = object.kind().name();
    let mut causes = validate_as_replica_set(object);
    let is_of_selector = |cause: &Cause| cause.field == "spec.selector";
    match kind {
        // Which selectors there may be is checked entry by entry alone.
        "DaemonSet" => causes.retain(|cause| {
            !is_of_selector(cause) || cause.message.contains("empty selector is invalid")
        }),
        "StatefulSet" => {
            for cause in causes.iter_mut().filter(|cause| is_of_selector(cause)) {
                cause.message = cause.message.replace(": invalid label selector", "");
            }
            // Sic: the template's metadata is checked twice.
            let of_template = ["spec.template.labels", "spec.template.annotations"];
            let again = causes
                .iter()
                .filter(|cause| of_template.contains(&&*cause.field));
            causes.extend(again.cloned().collect::<Vec<_>>());
        }
        _ => {}
    }
    for cause in &mut causes {
        match kind {
            "StatefulSet" | "DaemonSet" => {
                let of_kind = format!("activeDeadlineSeconds in {kind}");
                cause.message = (cause.message)
                    .replace("activeDeadlineSeconds in ReplicaSet", &of_kind)
                    .replace(
                        "invalid for deployment",
                        &format!("invalid for {}", kind.to_lowercase()),
                    );
            }
            _ => {}
        }
    }
    causes
}

fn validate_as_replica_set(object: &DynamicObject) -> Vec<Cause> {
    let spec = object.fields.get("spec").cloned().unwrap_or_default();
    let mut of_set: Map = ["replicas", "minReadySeconds", "selector", "template"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), spec.get(name)?.clone())))
        .collect();
    // DaemonSets have none.
    of_set.entry("replicas").or_insert(1.into());
    match ReplicaSet::from_json(json!({"spec": of_set})) {
        Ok(set) => validate_replica_set_spec(&set.spec),
        Err(problem) => vec![invalid_value(
            problem.path.to_string(),
            &Value::Null,
            &problem.problem,
        )],
    }
}

/// The broken rules of the template of a Job, whose pods end.
pub(super) fn validate_ending(template: &Field<'_>) {
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
    // Sic: upstream calls the default, which a job can't have, missing.
    let policy = template.at("spec").at("restartPolicy");
    if policy.text() == "Always" {
        policy.required("valid values: \"OnFailure\", \"Never\"");
    }
}
