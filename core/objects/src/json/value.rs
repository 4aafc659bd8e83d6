//! One value on a tape.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

use super::Writer;
use super::tape::Slot;
use crate::Map;

/// A JSON value in a [`Tape`](super::Tape). It takes two words.
#[derive(Clone, Copy)]
pub struct JsonValue<'t>(&'t [Slot<'t>]);

impl<'t> JsonValue<'t> {
    /// Creates the value at the start of these slots.
    pub(super) fn new(slots: &'t [Slot<'t>]) -> JsonValue<'t> {
        JsonValue(slots)
    }

    fn slot(&self) -> &'t Slot<'t> {
        &self.0[0]
    }

    /// Returns the number of slots of the value.
    pub(crate) fn slots(&self) -> usize {
        1 + match self.slot() {
            Slot::List(content) | Slot::Object(content) => *content as usize,
            _ => 0,
        }
    }

    /// Reports whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self.slot(), Slot::Null)
    }

    /// Reports whether the value is an object.
    pub fn is_object(&self) -> bool {
        matches!(self.slot(), Slot::Object(_))
    }

    /// Reports whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.slot(), Slot::List(_))
    }

    /// Reports whether the value is a number.
    pub fn is_number(&self) -> bool {
        matches!(self.slot(), Slot::Int(_) | Slot::Uint(_) | Slot::Float(_))
    }

    /// Returns the string; `None` if the value is not a string.
    pub fn as_str(&self) -> Option<&'t str> {
        match self.slot() {
            Slot::Plain(text) => Some(text),
            Slot::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer; `None` if the value is not an integer or is out of range.
    pub fn as_i64(&self) -> Option<i64> {
        match self.slot() {
            Slot::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the boolean; `None` if the value is not a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.slot() {
            Slot::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the items of a list; no items for any other value.
    pub fn items(&self) -> Items<'t> {
        Items(match self.slot() {
            Slot::List(content) => &self.0[1..=*content as usize],
            _ => &[],
        })
    }

    /// Returns the names and values of an object's members, sorted by name; none for any other
    /// value.
    pub fn pairs(&self) -> Pairs<'t> {
        Pairs(match self.slot() {
            Slot::Object(content) => &self.0[1..=*content as usize],
            _ => &[],
        })
    }

    /// Returns the value of an object's member; `None` if there is none. O(members).
    pub fn get(&self, name: &str) -> Option<JsonValue<'t>> {
        let mut from_there = self
            .pairs()
            .skip_while(|(found, _)| order(found, name).is_lt());
        let (found, value) = from_there.next()?;
        (found == name).then_some(value)
    }

    /// Returns the value as a JSON tree.
    pub fn to_value(&self) -> Value {
        match self.slot() {
            Slot::Null => Value::Null,
            Slot::Bool(flag) => Value::Bool(*flag),
            Slot::Plain(text) => Value::from(*text),
            Slot::Text(text) => Value::from(&**text),
            Slot::List(_) => self.items().map(|item| item.to_value()).collect(),
            Slot::Object(_) => Value::Object(self.to_map()),
            Slot::Int(_) | Slot::Uint(_) | Slot::Float(_) => {
                self.number().map_or(Value::Null, Value::Number)
            }
        }
    }

    /// Returns the members of an object, as JSON trees; empty for any other value.
    pub fn to_map(&self) -> Map {
        let mut map = Map::new();
        // Inserted one by one, because collecting them would build another list first.
        for (name, value) in self.pairs() {
            map.insert(name.to_owned(), value.to_value());
        }
        map
    }

    pub(super) fn number(&self) -> Option<Number> {
        match self.slot() {
            Slot::Int(number) => Some((*number).into()),
            Slot::Uint(number) => Some((*number).into()),
            Slot::Float(number) => Number::from_f64(*number),
            _ => None,
        }
    }

    /// Writes the value as compact JSON.
    pub(crate) fn write(&self, out: &mut Writer) {
        match self.slot() {
            Slot::Null => out.raw("null"),
            Slot::Bool(flag) => out.bool(*flag),
            Slot::Int(number) => out.integer(*number),
            Slot::Uint(_) | Slot::Float(_) => {
                out.shown(&self.number().expect("the value is a number"));
            }
            Slot::Plain(text) => out.plain(text),
            Slot::Text(text) => out.text(text),
            Slot::List(_) => out.list(|out| {
                for item in self.items() {
                    out.item(|out| item.write(out));
                }
            }),
            Slot::Object(_) => out.object(|out| {
                self.pairs().write(out);
            }),
        }
    }
}

impl From<JsonValue<'_>> for Value {
    fn from(value: JsonValue<'_>) -> Value {
        value.to_value()
    }
}

impl fmt::Display for JsonValue<'_> {
    /// Writes compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Writer::new();
        self.write(&mut out);
        f.write_str(out.as_str())
    }
}

impl fmt::Debug for JsonValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The items of a list.
#[derive(Clone, Debug)]
pub struct Items<'t>(&'t [Slot<'t>]);

impl<'t> Iterator for Items<'t> {
    type Item = JsonValue<'t>;

    fn next(&mut self) -> Option<JsonValue<'t>> {
        (!self.0.is_empty()).then(|| take(&mut self.0))
    }
}

/// The names and values of an object's members.
#[derive(Clone, Debug)]
pub struct Pairs<'t>(&'t [Slot<'t>]);

impl<'t> Iterator for Pairs<'t> {
    type Item = (&'t str, JsonValue<'t>);

    fn next(&mut self) -> Option<(&'t str, JsonValue<'t>)> {
        let (name, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((name.name(), take(&mut self.0)))
    }
}

impl Pairs<'_> {
    /// Writes the remaining members.
    fn write(mut self, out: &mut Writer) {
        while let Some((name, rest)) = self.0.split_first() {
            self.0 = rest;
            out.comma();
            JsonValue(std::slice::from_ref(name)).write(out);
            out.raw(":");
            take(&mut self.0).write(out);
        }
    }
}

/// Compares two names by their bytes. Most differ in the first four bytes.
#[inline]
pub(crate) fn order(a: &str, b: &str) -> Ordering {
    let four = |text: &str| {
        text.as_bytes()
            .first_chunk()
            .map(|four| u32::from_be_bytes(*four))
    };
    match (four(a), four(b)) {
        (Some(a), Some(b)) if a != b => a.cmp(&b),
        _ => a.cmp(b),
    }
}

/// Takes the first value off the slots.
fn take<'t>(slots: &mut &'t [Slot<'t>]) -> JsonValue<'t> {
    let value = JsonValue(slots);
    *slots = &slots[value.slots()..];
    value
}

#[cfg(test)]
pub(crate) mod testing {
    use proptest::prelude::*;
    use serde_json::Value;

    /// Generates values of limited depth.
    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-z\"\\\\\n\u{0}\u{e9}/]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[a-c\"\n]{0,3}", inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
