//! Restores a workload's spec from a revision.

use podstorm_objects::defaulting::Within as _;
use podstorm_objects::defaulting::fill_spec;
use podstorm_objects::{Map, PatchProblem, strategic_merge};
use serde_json::Value;

use super::RevisionData;
use crate::template::{Mismatch, WorkloadRules, as_upstream_writes};

/// The error for a revision that can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The data is not a patch.
    #[error("the data of the revision is not a JSON object")]
    NotAnObject,
    /// The data is a patch that can't be applied to the workload.
    #[error(transparent)]
    Patch(#[from] PatchProblem),
    /// The restored workload would have a value of the wrong type.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Returns the spec that a workload gets from the data of a revision, as upstream's types hold it:
/// unknown members of the template are dropped. Applies no defaults. O(bytes).
///
/// # Errors
/// Fails if the data can't be applied.
pub fn restored_spec(spec: &Map, data: &Value) -> Result<Map, RestoreError> {
    let mut object = Map::from_iter([("spec".to_owned(), Value::Object(spec.clone()))]);
    match data {
        Value::Object(data) => strategic_merge(Some(WorkloadRules::OBJECT), &mut object, data)?,
        Value::Null => {}
        _ => return Err(RestoreError::NotAnObject),
    }
    let Some(Value::Object(mut spec)) = object.remove("spec") else {
        return Err(RestoreError::NotAnObject);
    };
    let template = spec.get("template").unwrap_or(&Value::Null);
    let template = as_upstream_writes(template)?;
    spec.insert("template".to_owned(), template);
    Ok(spec)
}

/// Reports whether the stored data of a revision, applied to `spec` and completed with the API's
/// defaults, equals `data`. Returns `false` if the revision can't be applied. Prevents rollouts
/// that are due only to another spelling of the template or a new default.
pub fn is_same_template(spec: &Map, stored: &Value, data: &RevisionData) -> bool {
    let Ok(mut restored) = restored_spec(spec, stored) else {
        return false;
    };
    restored.within("template", |template| template.within("spec", fill_spec));
    let again = RevisionData::of_template(&restored["template"]);
    again.is_ok_and(|again| again == *data)
}
