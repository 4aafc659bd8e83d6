//! Reads one document of a file from any serde format; refuses duplicate members.

use std::fmt;

use podstorm_objects::json::{JsonValue, Tape};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The content of a document.
#[derive(Debug)]
pub(super) enum Document {
    /// Nothing, or null.
    Empty,
    /// A single object.
    Object(Map<String, Value>),
    /// A list whose items were taken, with its other members.
    List(Map<String, Value>),
}

/// The expected content of a document.
pub(super) const OBJECT: &str = "a Kubernetes object with apiVersion, kind and metadata";

/// The error about items that are not a list.
pub(super) const NO_ITEMS: &str = "expected the list of objects in items";

/// Reports whether this `kind` is that of a list: `List`, `PodList`.
pub(super) fn is_list_kind(kind: &Value) -> bool {
    kind.as_str().is_some_and(is_list_name)
}

fn is_list_name(kind: &str) -> bool {
    kind.ends_with("List")
}

/// Returns the members and the items if the document is a list; an object with items but without a
/// kind counts as a list.
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

/// Reads a whole document: an object, or null for nothing.
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
