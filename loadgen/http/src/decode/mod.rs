//! Decoding of bodies, patches, files and patched documents: one path from a text or a JSON value
//! to a document with typed members, with the findings of upstream's strict decoder.
//!
//! Source: `runtime/serializer/json` of apimachinery.

mod pass;
#[cfg(test)]
mod tests;
mod types;

use podstorm_apiserver::schemas::{OBJECT_META, schema_named, schema_of_kind};
use podstorm_apiserver::{custom, errors};
use podstorm_objects::{ApiError, Kind};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer};
use serde_json::{Map, Value};

use self::pass::{At, Node, Notes, Of};
use crate::json_syntax;
use crate::yaml::{self, Yaml};

pub(crate) use self::pass::{By, NOTES_MAX};
pub(crate) use self::types::go_quoted;

/// The expected form of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// An object of a kind.
    Kind(Kind),
    /// A document with the named schema.
    Named(&'static str),
    /// Any document. Only repeated members are reported.
    Any,
}

/// The form of a `Scale` of `autoscaling/v1`.
pub(crate) const SCALE: Form = Form::Named(SCALE_SCHEMA);
pub(crate) const SCALE_SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

/// A decoded document.
#[derive(Debug)]
pub(crate) struct Document {
    /// The well-typed part of the value.
    pub(crate) value: Value,
    /// Go's name for the JSON type of the document: `object`, `array` and so on.
    pub(crate) found: &'static str,
    /// The decoder's message about the first member of a wrong type; `None` if all types are right.
    pub(crate) wrong: Option<String>,
    /// The decoder's messages about unknown and repeated members, in the decoder's order.
    pub(crate) strict: Vec<String>,
}

/// Decodes JSON. O(bytes).
///
/// # Errors
/// Fails with Go's message if the JSON is invalid.
pub(crate) fn json(text: &[u8], form: Form) -> Result<Document, String> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let read = guided(&mut from, form, By::Json).and_then(|read| from.end().map(|()| read));
    let mut read =
        read.map_err(|error| json_syntax::problem(text).unwrap_or_else(|| error.to_string()))?;
    read.wrong = read.wrong.map(|wrong| as_spelled(text, wrong));
    read.found = json_syntax::name_of_text(text);
    Ok(read)
}

/// Replaces the number in a message by its notation in the text, which upstream quotes.
#[cold]
fn as_spelled(text: &[u8], problem: String) -> String {
    let respelled = || {
        let (before, rest) = problem.split_once("number ")?;
        let (number, after) = rest.split_once(' ')?;
        let spelled = json_syntax::spelling(text, number.parse().ok()?)?;
        Some(format!("{before}number {spelled} {after}"))
    };
    respelled().unwrap_or(problem)
}

/// Decodes YAML. Messages about repeated members come first. O(bytes), aliases expanded.
///
/// # Errors
/// Fails with upstream's message if the YAML is invalid.
pub(crate) fn yaml(text: &[u8], form: Form) -> Result<Document, String> {
    let text = std::str::from_utf8(text);
    let text = text.map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let Yaml { value, doubled } = yaml::read(text).map_err(|problem| problem.message())?;
    let mut read = tree(value, form, By::Json);
    if !doubled.is_empty() {
        read.strict.insert(0, yaml::doubled_message(&doubled));
    }
    Ok(read)
}

/// Decodes a JSON value as the upstream decoder `by` does. O(members).
pub(crate) fn tree(value: Value, form: Form, by: By) -> Document {
    let found = json_syntax::name_of(&value);
    let read = guided(value.into_deserializer(), form, by);
    let read = read.unwrap_or_else(|error| Document {
        value: Value::Null,
        found,
        wrong: Some(error.to_string()),
        strict: Vec::new(),
    });
    Document { found, ..read }
}

fn guided<'de, D: Deserializer<'de>>(from: D, form: Form, by: By) -> Result<Document, D::Error> {
    let mut notes = Notes::new(by);
    let schema = match form {
        Form::Kind(kind) if kind.row().custom.is_none() => schema_of_kind(kind),
        _ => None,
    };
    let of = match (form, &schema) {
        (Form::Kind(kind), Some(schema)) => Some(Of::schema(schema, kind.name())),
        (Form::Named(name), _) => schema_named(name).map(|schema| Of::schema(schema, name)),
        _ => None,
    };
    let value = Node {
        notes: &mut notes,
        of,
        at: At::ROOT,
    }
    .deserialize(from)?;
    let mut read = Document {
        found: json_syntax::name_of(&value),
        value,
        wrong: notes.wrong,
        strict: notes.strict,
    };
    if let Form::Kind(kind) = form
        && kind.row().custom.is_some()
    {
        read.as_custom(kind, by);
    }
    Ok(read)
}

/// Returns a 400 about a member that is invalid for the object's kind.
pub(crate) fn cannot_be_handled(kind: Kind, problem: &str) -> ApiError {
    unhandled(kind.api_version(), kind.name(), problem)
}

/// Returns a 400 with a decoder's message about an object of a kind.
pub(crate) fn unhandled(api_version: &str, name: &str, problem: &str) -> ApiError {
    let version = version_of(api_version);
    errors::bad_request(format!(
        "{name} in version \"{version}\" cannot be handled as a {name}: {problem}"
    ))
}

/// Returns the version in an `apiVersion`.
pub(crate) fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or(api_version)
}

impl Document {
    /// Checks and prunes a custom object. Upstream has a Go type only for the metadata of such
    /// objects, and paths in messages about the metadata begin there.
    fn as_custom(&mut self, kind: Kind, by: By) {
        let Value::Object(members) = &mut self.value else {
            return;
        };
        let custom = kind.row().custom;
        let unknown = custom.map(|custom| custom::prune(&custom.schema.get(), members));
        let mut of_metadata = Vec::new();
        if let (Some(metadata @ Value::Object(_)), Some(schema)) =
            (members.get_mut("metadata"), schema_named(OBJECT_META))
        {
            let mut notes = Notes::new(by);
            let node = Node {
                notes: &mut notes,
                of: Some(Of::schema(schema, OBJECT_META)),
                at: At::metadata(),
            };
            let read = node.deserialize(metadata.take());
            self.wrong = notes.wrong;
            match read {
                Ok(value) => *metadata = value,
                Err(error) => self.wrong = Some(error.to_string()),
            }
            of_metadata = notes.strict;
        }
        let unknown = unknown.into_iter().flatten();
        self.strict
            .extend(unknown.map(|path| format!("unknown field \"{path}\"")));
        self.strict.extend(of_metadata);
    }

    /// Takes the members out of the document; empty if the document is not an object.
    pub(crate) fn members(&mut self) -> Map<String, Value> {
        match self.value.take() {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}
