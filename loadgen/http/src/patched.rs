//! What a patch has made, checked before it is an object again.
//!
//! Source: `endpoints/handlers/patch.go` of Kubernetes' apiserver.

use podstorm_apiserver::{Patch, errors, go_text};
use podstorm_objects::{ApiError, Kind, Reason};
use serde_json::{Map, Value};

use crate::openapi;

/// Brings the document into form; returns its unknown members, as warnings.
///
/// # Errors
/// 422 for a member of a wrong type, and for an unknown one that a JSON patch has made, where that is wanted.
pub(crate) fn check(
    kind: Kind,
    patch: &Patch,
    is_apply: bool,
    is_strict: bool,
    document: &mut Map<String, Value>,
) -> Result<Vec<String>, ApiError> {
    if is_apply {
        openapi::drop_unknown_fields(kind, document);
        return Ok(Vec::new());
    }
    let problem = match patch {
        Patch::Strategic(_) => openapi::wrong_conversion(kind, document),
        Patch::Merge(_) | Patch::Json(_) => openapi::wrong_type(kind, document),
    };
    if let Some(problem) = problem {
        return Err(invalid(patch, document, &problem));
    }
    let before = document.clone();
    let unknown: Vec<String> = (openapi::drop_unknown_fields(kind, document).iter())
        .map(|path| format!("unknown field \"{path}\""))
        .collect();
    if is_strict && !unknown.is_empty() {
        let problem = format!("strict decoding error: {}", unknown.join(", "));
        return Err(invalid(patch, &before, &problem));
    }
    Ok(unknown)
}

/// 422 that quotes the patch where it was strategic, and else what it made.
fn invalid(patch: &Patch, document: &Map<String, Value>, problem: &str) -> ApiError {
    let quoted = match patch {
        Patch::Strategic(members) => go_text(&members.clone().into()),
        Patch::Merge(_) | Patch::Json(_) => Value::Object(document.clone()).to_string(),
    };
    let cause = errors::invalid_value("patch", &quoted.into(), problem);
    let message = format!(" \"\" is invalid: patch: {}", cause.message);
    ApiError::status(422, Reason::Invalid, message).with_cause(cause)
}
