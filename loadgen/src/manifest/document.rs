//! One document of a file, read from any serde format into JSON: members given twice are refused,
//! and the items of a `List` are handed on one by one instead of being kept.

use std::fmt;

use podstorm_objects::json::{JsonValue, Tape};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::json::given_twice;

/// What one document was.
#[derive(Debug)]
pub(super) enum Document {
    /// Nothing, or null.
    Empty,
    /// An object of its own.
    Object(Map<String, Value>),
    /// A list whose items were handed on, with its other members.
    List(Map<String, Value>),
}

/// Takes the items of a list: the list's members read so far, the item's index, the item.
/// An error ends the reading; what it was is kept by the taker.
pub(super) type ItemTaker<'a> =
    &'a mut dyn FnMut(&Map<String, Value>, usize, JsonValue<'_>) -> Result<(), Stopped>;

/// The taker of items found something wrong.
#[derive(Debug)]
pub(super) struct Stopped;

/// Reads a whole document.
pub(super) struct DocumentSeed<'a> {
    pub(super) take_item: ItemTaker<'a>,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Document, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_> {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object with apiVersion, kind and metadata")
    }

    fn visit_unit<E: Error>(self) -> Result<Document, E> {
        Ok(Document::Empty)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut members = Map::new();
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if members.contains_key(&key) || (is_list && key == "items") {
                return Err(A::Error::custom(given_twice(&key)));
            }
            // `kubectl -o json` sorts members: `items` comes before `kind`. Nothing but lists has
            // items at the first level, so an unknown kind is taken for one.
            if key == "items" && members.get("kind").is_none_or(is_list_kind) {
                is_list = true;
                map.next_value_seed(ItemsSeed {
                    members: &members,
                    take_item: self.take_item,
                })?;
            } else {
                members.insert(key, map.next_value_seed(ValueSeed)?);
            }
        }
        Ok(if is_list {
            Document::List(members)
        } else {
            Document::Object(members)
        })
    }
}

/// Whether that `kind` is one of lists: `List`, `PodList`.
pub(super) fn is_list_kind(kind: &Value) -> bool {
    kind.as_str().is_some_and(is_list_name)
}

fn is_list_name(kind: &str) -> bool {
    kind.ends_with("List")
}

/// The members and the items of a list that says its kind; `None` of anything else.
pub(super) fn list_of<'t>(
    document: JsonValue<'t>,
) -> Option<(Map<String, Value>, Vec<JsonValue<'t>>)> {
    let kind = document.get("kind")?.as_str()?;
    let items = document.get("items").filter(|items| items.is_list())?;
    let others = document.pairs().filter(|(name, _)| *name != "items");
    let members = others.map(|(name, value)| (name.to_owned(), value.to_value()));
    is_list_name(kind).then(|| (members.collect(), items.items().collect()))
}

struct ItemsSeed<'a, 'b> {
    members: &'a Map<String, Value>,
    take_item: ItemTaker<'b>,
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list of objects in items")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(item) = items.next_element::<Tape<'de>>()? {
            (self.take_item)(self.members, index, item.root())
                .map_err(|Stopped| A::Error::custom("stopped"))?;
            index += 1;
        }
        Ok(())
    }
}

/// Reads any value as JSON, refusing a member given twice.
pub(super) struct ValueSeed;

impl<'de> DeserializeSeed<'de> for ValueSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Ok(Tape::deserialize(deserializer)?.root().to_value())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<(Document, Vec<Value>), serde_json::Error> {
        let mut items = Vec::new();
        let mut take_item = |_: &Map<String, Value>, index: usize, item: JsonValue<'_>| {
            assert_eq!(index, items.len());
            items.push(item.to_value());
            Ok(())
        };
        let seed = DocumentSeed {
            take_item: &mut take_item,
        };
        let document = seed.deserialize(&mut serde_json::Deserializer::from_str(text))?;
        Ok((document, items))
    }

    #[test]
    fn items_are_handed_on_and_not_kept() {
        let (document, items) =
            read(r#"{"apiVersion":"v1","items":[{"a":1},{"b":[null,1.5]}],"kind":"List"}"#)
                .unwrap();
        assert_eq!(items, [json!({"a": 1}), json!({"b": [null, 1.5]})]);
        let Document::List(members) = document else {
            panic!("{document:?}")
        };
        assert_eq!(members["kind"], "List");
    }

    #[test]
    fn items_of_another_kind_stay_in_it() {
        let (document, items) = read(r#"{"kind":"Shelf","items":[1]}"#).unwrap();
        assert!(items.is_empty());
        let Document::Object(members) = document else {
            panic!("{document:?}")
        };
        assert_eq!(members["items"], json!([1]));
    }

    #[test]
    fn a_member_given_twice_is_refused_at_any_depth() {
        for text in [
            r#"{"kind":"A","kind":"A"}"#,
            r#"{"spec":{"x":[{"y":1,"y":1}]}}"#,
            r#"{"items":[],"items":[]}"#,
        ] {
            let problem = read(text).expect_err(text).to_string();
            assert!(problem.contains("given twice"), "{problem}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(matches!(read("null"), Ok((Document::Empty, _))));
        for text in ["[]", "3", r#""text""#, r#"{"items":3}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
