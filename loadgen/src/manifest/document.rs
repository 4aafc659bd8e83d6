//! One document of a file, read from any serde format: members given twice are refused.

use std::fmt;

use podstorm_objects::json::{JsonValue, Tape};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// What one document was.
#[derive(Debug)]
pub(super) enum Document {
    /// Nothing, or null.
    Empty,
    /// An object of its own.
    Object(Map<String, Value>),
    /// A list whose items were taken, with its other members.
    List(Map<String, Value>),
}

/// What a document should be.
pub(super) const OBJECT: &str = "a Kubernetes object with apiVersion, kind and metadata";

/// The message about items that are no list.
pub(super) const NO_ITEMS: &str = "expected the list of objects in items";

/// Whether that `kind` is one of lists: `List`, `PodList`.
pub(super) fn is_list_kind(kind: &Value) -> bool {
    kind.as_str().is_some_and(is_list_name)
}

fn is_list_name(kind: &str) -> bool {
    kind.ends_with("List")
}

/// The members and the items of a document that is a list, of which that of any object with items is one
/// that does not say its kind; `None` of anything else.
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
