//! Request bodies: decoding into objects and options.

use std::sync::Arc;

use podstorm_apiserver::errors::unsupported;
use podstorm_apiserver::{errors, limits, warnings_of};
use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::decode::{self, By, Document, Form, cannot_be_handled, unhandled, version_of};
use crate::media::BodyType;
use crate::{admission, json_syntax, protobuf, view};

/// The maximum number of bytes of a body that a message quotes.
const QUOTED_MAX: usize = 30;
/// The media types of bodies with objects, as messages list them.
const READ: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Decodes the body as a document of a form. `expected` is the kind that messages about an
/// undecodable body name.
///
/// # Errors
/// 415 if the media type is not that of a document; 400 if the body cannot be decoded.
pub(crate) fn document(call: &Call<'_>, expected: &str, form: Form) -> Result<Document, ApiError> {
    read(call, form)?.map_err(|why| unrecognized(expected, &why, &call.body))
}

/// Like [`document`], but returns a decoding error as a message without the expected kind.
///
/// # Errors
/// 415 if the media type is not that of a document; 400 for invalid protobuf.
pub(crate) fn read(call: &Call<'_>, form: Form) -> Result<Result<Document, String>, ApiError> {
    const NO_TYPE: &str = "couldn't get version/kind; json parse error:";
    let body = &call.body;
    let read = match BodyType::from_headers(call.headers) {
        Some(BodyType::Json) => {
            decode::json(body, form).map_err(|problem| format!("{NO_TYPE} {problem}"))
        }
        Some(BodyType::Yaml) => decode::yaml(body, form),
        Some(BodyType::Protobuf) => {
            let decoded = protobuf::decode(body);
            let decoded = decoded.map_err(|error| errors::bad_request(error.to_string()))?;
            Ok(decode::tree(decoded.into(), form, By::Json))
        }
        _ => return Err(unsupported(READ)),
    };
    Ok(read.and_then(|read| match (read.found, &read.wrong) {
        ("object" | "null", None) => Ok(read),
        // Upstream decodes `kind` and `apiVersion` first, without the other members.
        ("object" | "null", Some(wrong)) => match wrong_type_of_type(wrong) {
            Some(wrong) => Err(format!("{NO_TYPE} {wrong}")),
            None => Ok(read),
        },
        (found, _) => Err(format!(
            "{NO_TYPE} json: cannot unmarshal {found} into Go value of type struct {{ APIVersion \
             string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}"
        )),
    }))
}

/// Returns the message for a `kind` or `apiVersion` that is not a string, which differs from the
/// message for other members; `None` for messages about other members.
fn wrong_type_of_type(wrong: &str) -> Option<String> {
    let (begin, field) = wrong.split_once(" field ")?;
    let (_, member) = field.split_once('.')?;
    let is_type = ["kind of type string", "apiVersion of type string"].contains(&member);
    is_type.then(|| format!("{begin} field .{member}"))
}

fn unrecognized(expected: &str, why: &str, body: &[u8]) -> ApiError {
    let shown = &body[..body.len().min(QUOTED_MAX)];
    // Quote a body that does not look like an object as bytes.
    let text = match body.trim_ascii_start().starts_with(b"{") {
        true => String::from_utf8_lossy(shown).into_owned(),
        false => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    let quoted = match body.len() {
        0 => "<empty>".to_owned(),
        length if length > QUOTED_MAX => format!("{text} ..."),
        _ => text,
    };
    errors::bad_request(format!(
        "the object provided is unrecognized (must be of type {expected}): {why} ({quoted})"
    ))
}

/// An object that a client sent.
pub(crate) struct Sent {
    pub(crate) object: AnyObject,
    pub(crate) warnings: Vec<String>,
    /// Warnings about a new object, which the client gets only if the object is created.
    pub(crate) sent_warnings: Vec<String>,
    /// The paths of the fields that admission added.
    pub(crate) admitted: Vec<Vec<String>>,
}

/// Decodes the body as an object of `kind`. Admits the object if it is new.
///
/// # Errors
/// The same as [`document`]; 400 for an object of another kind, with a member of a wrong type or,
/// if `fieldValidation` is `Strict`, with an unknown or repeated member; 403 from
/// [admission](admission::admit).
pub(crate) fn object(call: &Call<'_>, kind: Kind, namespace: &str) -> Result<Sent, ApiError> {
    let mut document = document(call, kind.name(), Form::Kind(kind))?;
    let members = document.members();
    match kind.row().custom {
        None => check_type(kind, &members)?,
        Some(_) => check_custom_type(kind, &members)?,
    }
    let warnings = judge(call, kind.api_version(), kind.name(), document)?;
    let mut document = members;
    let admitted = match *call.method == http::Method::POST {
        true => admission::admit(call.cluster(), kind, namespace, &mut document)?,
        false => Vec::new(),
    };
    let sent_warnings = match warnings_of(kind).sent {
        Some(of_sent) if *call.method == http::Method::POST => of_sent(&document),
        _ => Vec::new(),
    };
    let mut object = object_of(call, kind, document)?;
    if kind.name() == REVISION && is_json(call) && json_syntax::has_blanks(&call.body, "data") {
        object = with_blanks(object);
    }
    Ok(Sent {
        object,
        warnings,
        sent_warnings,
        admitted,
    })
}

/// The kind with a member (`data`) that upstream stores as the text that the client sent.
const REVISION: &str = "ControllerRevision";

fn is_json(call: &Call<'_>) -> bool {
    BodyType::from_headers(call.headers) == Some(BodyType::Json)
}

/// Marks an object whose `data` was sent with whitespace.
#[cold]
fn with_blanks(object: AnyObject) -> AnyObject {
    match object.clone().downcast::<DynamicObject>() {
        Some(found) => {
            drop(object);
            let mut found = Arc::unwrap_or_clone(found);
            found.has_blanks = true;
            Arc::new(found)
        }
        None => object,
    }
}

/// Turns the findings in a document into warnings or an error. Unknown and repeated members become
/// warnings unless `fieldValidation` is `Ignore`.
///
/// # Errors
/// 400 for a member of a wrong type; if `fieldValidation` is `Strict`, 400 with all findings.
pub(crate) fn judge(
    call: &Call<'_>,
    api_version: &str,
    kind: &str,
    document: Document,
) -> Result<Vec<String>, ApiError> {
    if let Some(problem) = document.wrong {
        return Err(unhandled(api_version, kind, &problem));
    }
    let mut strict = document.strict;
    match call.query.text("fieldValidation") {
        "Ignore" => strict.clear(),
        "Strict" if !strict.is_empty() => {
            let problem = format!("strict decoding error: {}", strict.join(", "));
            return Err(unhandled(api_version, kind, &problem));
        }
        _ => {}
    }
    Ok(strict)
}

/// Converts a document to an object of a kind.
///
/// # Errors
/// 400 for an object of another kind, with a member of a wrong type, or over a
/// [limit](limits::Exceeded).
pub(crate) fn object_of(
    call: &Call<'_>,
    kind: Kind,
    mut document: Map<String, Value>,
) -> Result<AnyObject, ApiError> {
    document.insert("apiVersion".into(), kind.api_version().into());
    document.insert("kind".into(), kind.name().into());
    let document = Value::Object(document);
    let read = match view::is_view(kind) {
        false => call.cluster().api(kind).read(document)?,
        true => {
            limits::check(&document)?;
            DynamicObject::from_json(kind, document).map(|object| Arc::new(object) as AnyObject)
        }
    };
    read.map_err(|problem| cannot_be_handled(kind, &problem.to_string()))
}

/// Checks the type of a custom object.
///
/// # Errors
/// 400 for a custom object without `kind` or `apiVersion`, or with a version that differs from the
/// path's; 422 for another kind.
fn check_custom_type(kind: Kind, document: &Map<String, Value>) -> Result<(), ApiError> {
    let member = |name| document.get(name).and_then(Value::as_str).unwrap_or("");
    let (found, api_version) = (member("kind"), member("apiVersion"));
    for (name, value) in [("Kind", found), ("apiVersion", api_version)] {
        if value.is_empty() {
            let body = Value::Object(document.clone());
            let why = format!("Object '{name}' is missing in '{body}'");
            return Err(errors::bad_request(why));
        }
    }
    if api_version != kind.api_version() {
        return Err(errors::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version \
             ({})",
            kind.api_version()
        )));
    }
    if found == kind.name() {
        return Ok(());
    }
    let name = document.get("metadata").and_then(|of| of["name"].as_str());
    let name = name.unwrap_or("");
    let must = format!("must be {}", kind.name());
    let cause = errors::invalid_value("kind", &found.into(), &must);
    Err(errors::invalid_of(found, kind.group(), name, vec![cause]))
}

/// Checks the type of a document against the kind in the path. Absent members are accepted.
///
/// # Errors
/// 400 if `kind` or `apiVersion` differs from the path's.
pub(crate) fn check_type(kind: Kind, document: &Map<String, Value>) -> Result<(), ApiError> {
    let member = |name| document.get(name).and_then(Value::as_str).unwrap_or("");
    let (name, api_version) = (member("kind"), member("apiVersion"));
    let name = if name.is_empty() { kind.name() } else { name };
    let api_version = if api_version.is_empty() {
        kind.api_version()
    } else {
        api_version
    };
    if name == kind.name() && api_version == kind.api_version() {
        return Ok(());
    }
    Err(errors::bad_request(format!(
        "{name} in version \"{}\" cannot be handled as a {}: no kind \"{name}\" is registered for \
         version \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        version_of(api_version),
        kind.name(),
    )))
}
