//! One pass over a document, guided by its schema. It checks types, reports unknown and repeated
//! members, drops unknown and empty ones, replaces nulls in lists and maps by zero values, and
//! normalizes quantities and times.
//!
//! Source: `decode.go` of `sigs.k8s.io/json`, `FromUnstructured` of apimachinery's `runtime`
//! package.

use std::fmt;

use podstorm_apiserver::limits::BYTES_MAX;
use podstorm_apiserver::schemas::{Type, referred, written};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use super::types::{self, Wrong, go_quoted};

/// The upstream decoder to imitate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The JSON decoder, which sees members in the order of the text.
    Json,
    /// The conversion of the results of strategic patches and applies. It accepts a number without
    /// a fraction as an integer.
    Conversion,
}

/// The maximum number of unknown and repeated members that upstream's decoder reports.
pub(crate) const NOTES_MAX: usize = 100;

/// The findings in a document.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) by: By,
    /// The message about the first member of a wrong type; `None` if all types are right.
    pub(super) wrong: Option<String>,
    /// Whether decoding has ended: a type with its own decoder has rejected its value.
    is_ended: bool,
    /// Messages about unknown and repeated members, in the decoder's words.
    pub(super) strict: Vec<String>,
    strict_bytes: usize,
}

impl Notes {
    pub(super) fn new(by: By) -> Notes {
        Notes {
            by,
            wrong: None,
            is_ended: false,
            strict: Vec::new(),
            strict_bytes: 0,
        }
    }

    fn wrong(&mut self, wrong: Wrong) {
        match wrong {
            _ if self.is_ended => {}
            Wrong::Ends(told) => {
                self.is_ended = true;
                self.wrong = Some(told);
            }
            Wrong::GoesOn(told) => {
                self.wrong.get_or_insert(told);
            }
        }
    }

    #[cold]
    fn strict(&mut self, what: &str, at: &At<'_>) {
        if self.strict.len() == NOTES_MAX || self.strict_bytes > BYTES_MAX {
            return;
        }
        let note = format!("{what} field {}", go_quoted(&at.to_string()));
        // Formatting a duplicate note costs as much, so count it too.
        self.strict_bytes += note.len();
        if !self.strict.contains(&note) {
            self.strict.push(note);
        }
    }
}

/// A position in a document, linked to the position of its parent.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    up: Option<&'a At<'a>>,
    step: PathSegment<'a>,
}

#[derive(Clone, Copy)]
enum PathSegment<'a> {
    Root,
    /// A member of a struct: the names of the struct and of the member.
    Member(&'a str, &'a str),
    /// A member of a map, or a member that messages about types omit.
    Key(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    pub(super) const ROOT: At<'static> = At {
        up: None,
        step: PathSegment::Root,
    };

    /// Returns the position of a custom object's metadata, its only part with a Go type.
    pub(super) fn metadata() -> At<'a> {
        At {
            up: Some(&At::ROOT),
            step: PathSegment::Key("metadata"),
        }
    }

    fn below(&'a self, step: PathSegment<'a>) -> At<'a> {
        At {
            up: Some(self),
            step,
        }
    }

    /// Reports whether the position is a member of a map.
    pub(super) fn is_key(&self) -> bool {
        matches!(self.step, PathSegment::Key(_))
    }

    /// Formats the innermost struct and the members on the path: `PodSpec.spec.hostNetwork`.
    pub(super) fn go_field(&self) -> String {
        let chain = std::iter::successors(Some(self), |at| at.up);
        let members = chain.filter_map(|at| match at.step {
            PathSegment::Member(of, name) => Some((of, name)),
            _ => None,
        });
        let members: Vec<(&str, &str)> = members.collect();
        let of = members.first().map_or("", |(of, _)| of);
        let names = members.iter().rev().map(|(_, name)| *name);
        format!("{of}.{}", names.collect::<Vec<_>>().join("."))
    }
}

impl fmt::Display for At<'_> {
    /// Formats the path: `spec.containers[0].imaeg`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(up) = self.up else {
            return Ok(());
        };
        up.fmt(f)?;
        match self.step {
            PathSegment::Item(number) => write!(f, "[{number}]"),
            PathSegment::Member(_, name) | PathSegment::Key(name) if up.up.is_none() => {
                f.write_str(name)
            }
            PathSegment::Member(_, name) | PathSegment::Key(name) => write!(f, ".{name}"),
            PathSegment::Root => Ok(()),
        }
    }
}

/// The expected type of a value.
#[derive(Clone, Copy)]
pub(super) struct Of<'s> {
    /// The property that refers to the schema. The Go name of the type is derived from it.
    pub(super) property: &'s Value,
    pub(super) schema: &'s Value,
    /// The name of the schema.
    pub(super) name: &'s str,
    pub(super) is: Type,
}

impl<'s> Of<'s> {
    pub(super) fn schema(schema: &'s Value, name: &'s str) -> Of<'s> {
        Of {
            property: schema,
            schema,
            name,
            is: Type::from_schema(schema),
        }
    }

    fn property(property: &'s Value) -> Of<'s> {
        let (name, schema) = referred(property).unwrap_or(("", property));
        Of {
            property,
            schema,
            name,
            is: Type::from_schema(schema),
        }
    }

    /// Returns the last part of the schema's name: the name of the type.
    pub(super) fn last(&self) -> &'s str {
        self.name.rsplit('.').next().unwrap_or("")
    }

    pub(super) fn json_type(&self) -> &'static str {
        self.is.name()
    }

    /// Returns the zero value, which replaces a null in a list or a map.
    fn zero(&self) -> Value {
        match (self.json_type(), self.last()) {
            (_, "Quantity") => "0".into(),
            (_, "IntOrString") => 0.into(),
            (_, "Time" | "MicroTime") => Value::Null,
            ("string", _) if !self.is.is_bytes() => "".into(),
            ("boolean", _) => false.into(),
            ("integer" | "number", _) => 0.into(),
            ("object", _) if self.schema.get("properties").is_some() => Map::new().into(),
            _ => Value::Null,
        }
    }
}

/// A value to decode. If `of` is `None`, any value is accepted, and only repeated members are
/// reported.
pub(super) struct Node<'n, 's> {
    pub(super) notes: &'n mut Notes,
    pub(super) of: Option<Of<'s>>,
    pub(super) at: At<'n>,
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        match self.of {
            // Keep the value unchanged, because upstream keeps the raw text.
            Some(of) if of.is.is_any() => Value::deserialize(from),
            _ => from.deserialize_any(self),
        }
    }
}

/// Implements the methods of a visitor that decode a scalar.
macro_rules! visit_scalars {
    ($($visit:ident: $scalar:ty),+) => {$(
        fn $visit<E>(self, value: $scalar) -> Result<Value, E> {
            Ok(self.scalar(value.into()))
        }
    )+};
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(match (self.of, self.at.step) {
            (Some(of), PathSegment::Item(_) | PathSegment::Key(_)) => of.zero(),
            _ => Value::Null,
        })
    }

    visit_scalars!(
        visit_bool: bool,
        visit_u64: u64,
        visit_i64: i64,
        visit_f64: f64,
        visit_str: &str,
        visit_string: String
    );

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let item = match self.of {
            None => None,
            Some(of) => match of.schema.get("items") {
                Some(item) if of.json_type() == "array" => Some(Of::property(item)),
                _ => {
                    let wrong = types::wrong(of, "array", self.notes.by, &self.at);
                    self.notes.wrong(wrong);
                    while list.next_element::<IgnoredAny>()?.is_some() {}
                    return Ok(Value::Null);
                }
            },
        };
        let mut items = Vec::new();
        loop {
            let node = Node {
                notes: self.notes,
                of: item,
                at: self.at.below(PathSegment::Item(items.len())),
            };
            match list.next_element_seed(node)? {
                Some(item) => items.push(item),
                None => return Ok(items.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        let Some(of) = self.of else {
            return self.entries(map, None);
        };
        if of.json_type() == "object" {
            if let Some(each) = of.schema.get("additionalProperties") {
                return self.entries(map, Some(Of::property(each)));
            }
            if let Some(Value::Object(known)) = of.schema.get("properties") {
                return self.members(map, of, known);
            }
        }
        let wrong = types::wrong(of, "object", self.notes.by, &self.at);
        self.notes.wrong(wrong);
        let mut map = map;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }
}

impl Node<'_, '_> {
    /// Checks and normalizes a scalar.
    fn scalar(self, value: Value) -> Value {
        let Some(of) = self.of else {
            return value;
        };
        match types::scalar(of, value, self.notes.by, &self.at) {
            Ok(value) => value,
            Err(wrong) => {
                self.notes.wrong(wrong);
                Value::Null
            }
        }
    }

    /// Decodes a map whose values have the type `each`, or any type if `each` is `None`.
    fn entries<'de, A: MapAccess<'de>>(
        self,
        mut map: A,
        each: Option<Of<'_>>,
    ) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let at = self.at.below(PathSegment::Key(&name));
            if entries.contains_key(&name) {
                self.notes.strict("duplicate", &at);
            }
            let value = map.next_value_seed(Node {
                notes: self.notes,
                of: each,
                at,
            })?;
            put(&mut entries, name, value, each);
        }
        Ok(entries.into())
    }

    /// Decodes the members of a struct.
    fn members<'de, A: MapAccess<'de>>(
        self,
        mut map: A,
        of: Of<'_>,
        known: &Map<String, Value>,
    ) -> Result<Value, A::Error> {
        let struct_name = of.last();
        let mut members = Map::new();
        // The members that were present but were dropped because they are empty.
        let mut empty: Vec<String> = Vec::new();
        let mut unknown: Vec<String> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let at = self.at.below(PathSegment::Member(struct_name, &name));
            let Some(property) = known.get(&name) else {
                map.next_value::<IgnoredAny>()?;
                match self.notes.by {
                    By::Json => self.notes.strict("unknown", &at),
                    // Report the findings inside the members first.
                    By::Conversion => unknown.push(name),
                }
                continue;
            };
            let was_empty = empty.contains(&name);
            if was_empty || members.contains_key(&name) {
                self.notes.strict("duplicate", &at);
            }
            let each = Of::property(property);
            let value = map.next_value_seed(Node {
                notes: self.notes,
                of: Some(each),
                at,
            })?;
            if is_left_out(property, &value) && !is_kept(of, &name) {
                members.remove(&name);
                if !was_empty {
                    empty.push(name);
                }
            } else {
                put(&mut members, name, value, Some(each));
            }
        }
        for name in unknown {
            let at = self.at.below(PathSegment::Member(struct_name, &name));
            self.notes.strict("unknown", &at);
        }
        // Sic: a condition without a status gets an empty one.
        if struct_name.ends_with("Condition") && struct_name != "PodCondition" {
            members.entry("status").or_insert_with(|| "".into());
        }
        Ok(members.into())
    }
}

/// Inserts a value. If an object is already present, merges the two, because Go decodes into the
/// existing struct or map.
fn put(members: &mut Map<String, Value>, name: String, value: Value, of: Option<Of<'_>>) {
    let is_merged = of.is_some_and(|of| !of.is.is_any());
    match (members.get_mut(&name), value) {
        (Some(Value::Object(there)), Value::Object(more)) if is_merged => merge(there, more),
        (_, value) => drop(members.insert(name, value)),
    }
}

fn merge(there: &mut Map<String, Value>, more: Map<String, Value>) {
    for (name, value) in more {
        match (there.get_mut(&name), value) {
            (Some(Value::Object(there)), Value::Object(more)) => merge(there, more),
            (_, value) => drop(there.insert(name, value)),
        }
    }
}

/// Reports whether Go omits a member: null, an empty list, or an empty map.
fn is_left_out(property: &Value, member: &Value) -> bool {
    match member {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => {
            entries.is_empty() && property.get("additionalProperties").is_some()
        }
        _ => false,
    }
}

/// Reports whether Go writes a member even if it is empty.
fn is_kept(of: Of<'_>, name: &str) -> bool {
    let required = of.schema.get("required").and_then(Value::as_array);
    // In scaling rules, an empty list differs from an absent one.
    of.last() == "HPAScalingRules"
        || required.is_some_and(|required| required.iter().any(|it| it == name))
        || written(of.schema).is_some_and(|mut written| written.any(|it| it == name))
}
