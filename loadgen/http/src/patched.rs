//! Patches: decoding of bodies, and validation of a patched document before it becomes an object
//! again.
//!
//! Source: `endpoints/handlers/patch.go` of Kubernetes' apiserver.

use podstorm_apiserver::errors::unsupported;
use podstorm_apiserver::{Patch, errors, go_text, kind_named};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::decode::{self, By, Form, go_quoted};
use crate::json_syntax;
use crate::media::BodyType;

/// The media types of patches, as messages list them.
const PATCHES: &str = "application/json-patch+json, application/merge-patch+json, \
                       application/strategic-merge-patch+json, application/apply-patch+yaml";

/// Decodes the patch in the body. Returns it with the strict decoder's findings.
///
/// # Errors
/// 415 if the media type is not that of a patch; 400 if the body cannot be decoded.
pub(crate) fn read(call: &Call<'_>) -> Result<(Patch, Vec<String>), ApiError> {
    let (begin, is_strategic) = match BodyType::from_headers(call.headers) {
        Some(BodyType::StrategicPatch) => ("", true),
        Some(BodyType::MergePatch) => ("error decoding patch: ", false),
        Some(BodyType::JsonPatch) => return read_operations(&call.body),
        _ => return Err(unsupported(PATCHES)),
    };
    let to_patch = |members| match is_strategic {
        true => Patch::Strategic(members),
        false => Patch::Merge(members),
    };
    let wrong = |problem: String| errors::bad_request(format!("{begin}{problem}"));
    let read = decode::json(&call.body, Form::Any).map_err(wrong)?;
    match (read.value, read.found) {
        (Value::Object(members), _) => Ok((to_patch(members), read.strict)),
        (Value::Null, _) => Ok((to_patch(Map::new()), read.strict)),
        (_, found) => {
            let into = "Go value of type map[string]interface {}";
            Err(wrong(format!("json: cannot unmarshal {found} into {into}")))
        }
    }
}

/// Decodes the operations of a JSON patch. Returns them with the strict decoder's messages.
///
/// # Errors
/// 400 if the body is not a list of objects.
fn read_operations(body: &[u8]) -> Result<(Patch, Vec<String>), ApiError> {
    let wrong = |problem: &str| errors::bad_request(format!("error decoding patch: {problem}"));
    let read = decode::json(body, Form::Any).map_err(|problem| wrong(&problem))?;
    let cannot = |found: &str, into: &str| {
        wrong(&format!(
            "json: cannot unmarshal {found} into Go value of type {into}"
        ))
    };
    let operations = match read.value {
        Value::Null => Vec::new(),
        Value::Array(operations) => operations,
        _ => return Err(cannot(read.found, "[]handlers.jsonPatchOp")),
    };
    let mut strict = read.strict;
    let mut each = Vec::with_capacity(operations.len());
    for (number, operation) in operations.into_iter().enumerate() {
        let members = match operation {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => return Err(cannot(json_syntax::name_of(&other), "handlers.jsonPatchOp")),
        };
        let names = members.keys().map(String::as_str);
        let unknown = names.filter(|name| !["from", "op", "path", "value"].contains(name));
        strict.extend(
            unknown
                .map(|name| format!("unknown field {}", go_quoted(&format!("[{number}].{name}")))),
        );
        each.push(members);
    }
    strict.truncate(decode::NOTES_MAX);
    let strict = strict.into_iter().map(|told| format!("json patch {told}"));
    Ok((Patch::json(&each)?, strict.collect()))
}

/// Normalizes a patched document, and returns the strict decoder's findings as warnings.
///
/// `patch` contains the members of a merge patch, and whether the patch was strategic; `None` for a
/// JSON patch. Members that a merge patch does not name are already in normal form. `doubled`
/// contains the decoder's findings about the text of the patch.
///
/// # Errors
/// 422 for a member of a wrong type and, if `is_strict`, for an unknown or repeated one.
pub(crate) fn check(
    kind: Kind,
    patch: Option<(&Map<String, Value>, bool)>,
    doubled: &[String],
    is_strict: bool,
    document: &mut Map<String, Value>,
) -> Result<Vec<String>, ApiError> {
    let strategic = patch.filter(|(_, is_strategic)| *is_strategic);
    let strategic = strategic.map(|(members, _)| members);
    let made = |document: &Map<String, Value>| match strategic {
        Some(_) => None,
        None => Some(Value::Object(document.clone()).to_string()),
    };
    if let Some(problem) = other_kind(kind, document).filter(|_| strategic.is_none()) {
        return Err(invalid(strategic, made(document), &problem));
    }
    let untouched = match patch {
        Some((members, _)) => Untouched::take(document, members),
        None => Untouched::default(),
    };
    let by = match strategic {
        Some(_) => By::Conversion,
        None => By::Json,
    };
    // Messages quote the result of a patch that is not strategic.
    let before = strategic.is_none().then(|| document.clone());
    let mut read = decode::tree(std::mem::take(document).into(), Form::Kind(kind), by);
    *document = read.members();
    let strict: Vec<String> = doubled.iter().cloned().chain(read.strict).collect();
    let problem = match (read.wrong, is_strict && !strict.is_empty()) {
        (Some(problem), _) => Some(problem),
        (None, true) => Some(format!("strict decoding error: {}", strict.join(", "))),
        (None, false) => None,
    };
    if let Some(problem) = problem {
        let made = before.map(|mut before| {
            untouched.put_back(&mut before);
            Value::Object(before).to_string()
        });
        return Err(invalid(strategic, made, &problem));
    }
    untouched.put_back(document);
    Ok(strict)
}

/// The parts of a document that a patch does not name, and which are already in normal form.
#[derive(Default)]
struct Untouched {
    members: Map<String, Value>,
    within: Vec<(String, Map<String, Value>)>,
}

impl Untouched {
    fn take(document: &mut Map<String, Value>, named: &Map<String, Value>) -> Untouched {
        let members = take_others(document, named);
        let mut within = Vec::new();
        for (name, value) in document.iter_mut() {
            if let (Value::Object(inner), Some(Value::Object(named))) = (value, named.get(name))
                && !named.keys().any(|name| name.starts_with('$'))
            {
                within.push((name.clone(), take_others(inner, named)));
            }
        }
        Untouched { members, within }
    }

    fn put_back(mut self, document: &mut Map<String, Value>) {
        document.append(&mut self.members);
        let within = self.within.into_iter();
        for (name, mut others) in within.filter(|(_, others)| !others.is_empty()) {
            // The decoder may have dropped a member that became empty.
            let inner = document.entry(name).or_insert_with(|| Map::new().into());
            if let Value::Object(inner) = inner {
                inner.append(&mut others);
            }
        }
    }
}

fn take_others(
    document: &mut Map<String, Value>,
    named: &Map<String, Value>,
) -> Map<String, Value> {
    let all = std::mem::take(document).into_iter();
    let (touched, others) = all.partition(|(name, _)| named.contains_key(name));
    *document = touched;
    others
}

/// Returns the problem of a document whose kind the patch has changed; `None` if the kind is the
/// same.
fn other_kind(kind: Kind, document: &Map<String, Value>) -> Option<String> {
    let text = |member: &str| document.get(member).and_then(Value::as_str).unwrap_or("");
    let (api_version, name) = (text("apiVersion"), text("kind"));
    if (api_version, name) == (kind.api_version(), kind.name()) {
        return None;
    }
    let known = kind_named(name).filter(|known| known.api_version() == api_version);
    // If the kind is known, report the decoding error of that kind, if there is one.
    known
        .and_then(|known| {
            let document = Value::Object(document.clone());
            decode::tree(document, Form::Kind(known), By::Json).wrong
        })
        .or_else(|| {
            Some(format!(
                "no kind {name:?} is registered for version {api_version:?} in scheme \
                 \"pkg/api/legacyscheme/scheme.go:30\""
            ))
        })
}

/// Returns a 422 that quotes the patch if it was strategic, otherwise the result of the patch.
fn invalid(
    strategic: Option<&Map<String, Value>>,
    made: Option<String>,
    problem: &str,
) -> ApiError {
    let quoted = match (strategic, made) {
        (Some(members), _) => go_text(&members.clone().into()),
        (None, made) => made.unwrap_or_default(),
    };
    let cause = errors::invalid_value("patch", &quoted.into(), problem);
    errors::invalid_of("", "", "", vec![cause])
}

/// Returns a 422: the patched Scale is invalid.
pub(crate) fn invalid_scale(made: &Value, problem: &str) -> ApiError {
    invalid(None, Some(made.to_string()), problem)
}
