//! One path of decoding: from the text of a body, of a patch or of a file, or from the tree that a patch has made, to
//! a document whose members are of their types, with what upstream's strict decoder notes.
//!
//! Source: `runtime/serializer/json` of apimachinery.

mod pass;
#[cfg(test)]
mod tests;
mod types;

use podstorm_apiserver::custom;
use podstorm_objects::Kind;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer};
use serde_json::{Map, Value};

use self::pass::{At, Node, Notes, Of};
use crate::json_syntax;
use crate::openapi::{OBJECT_META, schema_named, schema_of_kind};
use crate::yaml::{self, Yaml};

pub(crate) use self::pass::{By, NOTES_MAX};

/// What a document should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// An object of that kind.
    Kind(Kind),
    /// What a schema of that name describes.
    Named(&'static str),
    /// Anything: members that are there twice are noted, no more.
    Any,
}

/// A `Scale` of `autoscaling/v1`.
pub(crate) const SCALE: Form = Form::Named(SCALE_SCHEMA);
pub(crate) const SCALE_SCHEMA: &str = "io.k8s.api.autoscaling.v1.Scale";

/// A document that has been read.
#[derive(Debug)]
pub(crate) struct Document {
    /// Its value, as far as it is of its type.
    pub(crate) value: Value,
    /// What Go calls the value that was there.
    pub(crate) found: &'static str,
    /// The first member of a wrong type, in the words of the decoder.
    pub(crate) wrong: Option<String>,
    /// Members that are unknown or there twice, in the words of the decoder and as it comes upon them.
    pub(crate) strict: Vec<String>,
}

/// Reads JSON. O(bytes).
///
/// # Errors
/// Go's message for invalid JSON.
pub(crate) fn json(text: &[u8], form: Form) -> Result<Document, String> {
    let mut from = serde_json::Deserializer::from_slice(text);
    let read = guided(&mut from, form, By::Json).and_then(|read| from.end().map(|()| read));
    let mut read =
        read.map_err(|error| json_syntax::problem(text).unwrap_or_else(|| error.to_string()))?;
    read.wrong = read.wrong.map(|wrong| as_spelled(text, wrong));
    read.found = json_syntax::name_of_text(text);
    Ok(read)
}

/// A problem with a number, which upstream quotes as it was spelled.
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

/// Reads YAML. Members that are there twice are noted first. O(bytes), and what aliases stand for.
///
/// # Errors
/// Upstream's message for invalid YAML.
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

/// Takes a tree. O(members).
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

impl Document {
    /// Checks and prunes an object that a definition describes: upstream knows no Go type for it but that of the
    /// metadata, which has no path then.
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

    /// The members of the document; none unless the document is an object.
    pub(crate) fn members(&mut self) -> Map<String, Value> {
        match self.value.take() {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }
}
