//! Deserializes one document of a file from any serde format. Duplicate members are errors.

use std::fmt;

use podstorm_objects::json::{JsonValue, Tape};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The content of a document.
#[derive(Debug)]
pub(super) enum Document {
    /// No content, or null.
    Empty,
    /// A single object.
    Object(Map<String, Value>),
    /// The members of a list other than its items, which have been taken.
    List(Map<String, Value>),
}

/// The expected content of a document, for error messages.
pub(super) const OBJECT: &str = "a Kubernetes object with apiVersion, kind and metadata";

/// The error about `items` that are not a list.
pub(super) const NO_ITEMS: &str = "expected the list of objects in items";

/// Reports whether this `kind` is that of a list, such as `List` or `PodList`.
pub(super) fn is_list_kind(kind: &Value) -> bool {
    kind.as_str().is_some_and(is_list_name)
}

fn is_list_name(kind: &str) -> bool {
    kind.ends_with("List")
}

/// Returns the other members and the items if the document is a list, otherwise `None`. An object
/// that has items but no kind counts as a list.
pub(super) fn list_of<'t>(document: JsonValue<'t>) -> Option<(Map<String, Value>, JsonValue<'t>)> {
    let items = document.get("items")?;
    let others = document.pairs().filter(|(name, _)| *name != "items");
    let members = others.map(|(name, value)| (name.to_owned(), value.to_value()));
    let is_list = match document.get("kind") {
        Some(kind) => kind.as_str().is_some_and(is_list_name),
        None => true,
    };
    is_list.then(|| (members.collect(), items))
}

/// Deserializes a whole document: an object, or null for no content.
pub(super) struct DocumentSeed;

impl<'de> DeserializeSeed<'de> for DocumentSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OBJECT)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let value = Tape::deserialize(MapAccessDeserializer::new(map))?;
        Ok(value.root().to_value())
    }
}
