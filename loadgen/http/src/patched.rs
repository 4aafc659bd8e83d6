//! What a patch has made, checked before it is an object again.
//!
//! Source: `endpoints/handlers/patch.go` of Kubernetes' apiserver.

use podstorm_apiserver::{errors, go_text, kind_named};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value};

use crate::openapi;

/// Brings the document into form; returns its unknown members, as warnings. `patch` has the members of one
/// that was merged, with whether it was strategic: what it doesn't name is in form already.
///
/// # Errors
/// 422 for a member of a wrong type, and for an unknown one that a JSON patch has made, where that is wanted.
pub(crate) fn check(
    kind: Kind,
    patch: Option<(&Map<String, Value>, bool)>,
    is_apply: bool,
    is_strict: bool,
    document: &mut Map<String, Value>,
) -> Result<Vec<String>, ApiError> {
    if is_apply {
        openapi::drop_unknown_fields(kind, document);
        return Ok(Vec::new());
    }
    let strategic = patch.filter(|(_, is_strategic)| *is_strategic);
    let strategic = strategic.map(|(members, _)| members);
    if let Some(problem) = other_kind(kind, document).filter(|_| strategic.is_none()) {
        return Err(invalid(strategic, document, &problem));
    }
    let mut untouched = match patch {
        Some((members, _)) => take_others(document, members),
        None => Map::new(),
    };
    let problem = match strategic {
        Some(_) => openapi::wrong_conversion(kind, document),
        None => openapi::wrong_type(kind, document),
    };
    if let Some(problem) = problem {
        document.append(&mut untouched);
        return Err(invalid(strategic, document, &problem));
    }
    let mut before = is_strict.then(|| document.clone());
    let unknown = openapi::drop_unknown_fields(kind, document);
    let unknown = openapi::unknown_fields(kind.row().custom.is_some(), &unknown);
    if let Some(before) = before.as_mut().filter(|_| !unknown.is_empty()) {
        let problem = format!("strict decoding error: {}", unknown.join(", "));
        before.append(&mut untouched);
        return Err(invalid(strategic, before, &problem));
    }
    document.append(&mut untouched);
    Ok(unknown)
}

/// Takes the members out of a document that a patch doesn't name.
fn take_others(
    document: &mut Map<String, Value>,
    named: &Map<String, Value>,
) -> Map<String, Value> {
    let all = std::mem::take(document).into_iter();
    let (touched, others) = all.partition(|(name, _)| named.contains_key(name));
    *document = touched;
    others
}

/// What is wrong with a document that has become one of another kind.
fn other_kind(kind: Kind, document: &Map<String, Value>) -> Option<String> {
    let text = |member: &str| document.get(member).and_then(Value::as_str).unwrap_or("");
    let (api_version, name) = (text("apiVersion"), text("kind"));
    if (api_version, name) == (kind.api_version(), kind.name()) {
        return None;
    }
    let known = kind_named(name).filter(|known| known.api_version() == api_version);
    // Of a kind that there is, it is read as one.
    known
        .and_then(|known| openapi::wrong_type(known, document))
        .or_else(|| {
            Some(format!(
                "no kind {name:?} is registered for version {api_version:?} in scheme \
                 \"pkg/api/legacyscheme/scheme.go:30\""
            ))
        })
}

/// 422 that quotes the patch where it was strategic, and else what it made.
fn invalid(
    strategic: Option<&Map<String, Value>>,
    document: &Map<String, Value>,
    problem: &str,
) -> ApiError {
    let quoted = match strategic {
        Some(members) => go_text(&members.clone().into()),
        None => Value::Object(document.clone()).to_string(),
    };
    let cause = errors::invalid_value("patch", &quoted.into(), problem);
    errors::invalid_of(("", ""), "", vec![cause])
}
