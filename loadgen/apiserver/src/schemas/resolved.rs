//! The schemas in a form for walks over objects, which each request does several times: without
//! descriptions, and with references by number instead of by name.

use std::sync::LazyLock;

use ahash::RandomState;
use hashbrown::HashMap;
use serde_json::{Map, Value};

use super::{SCHEMAS, referred_by_name, rules};

/// The member of a reference that contains the number of its schema.
const NUMBER: &str = "$";
/// The member of a schema that contains the names of the fields that Go always writes.
const WRITTEN: &str = "$written";
/// The member of a schema that contains the name of its Go struct.
const STRUCT: &str = "$name";
/// The member of each schema that contains its [`Type`] as a number. The empty name sorts first, so
/// it is found fastest.
const TYPE: &str = "";

/// The type of a value, packed in a few bits for a decoder. Looking up words in a schema would cost
/// more than decoding the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type(u64);

/// The JSON names of types, by number. Number 0 means any type.
const NAMES: [&str; 7] = [
    "", "string", "boolean", "integer", "number", "array", "object",
];
const NAME_BITS: u64 = 7;
/// The flags of a type, above the bits of the name.
const PROPERTIES: u64 = 1 << 3;
const ENTRIES: u64 = 1 << 4;
const INT_OR_STRING: u64 = 1 << 5;
const BYTES: u64 = 1 << 6;
const INT32: u64 = 1 << 7;

impl Type {
    fn new(schema: &Value) -> Type {
        let name = schema["type"].as_str().unwrap_or("");
        let number = NAMES.iter().position(|it| *it == name).unwrap_or(0);
        let bits = [
            (PROPERTIES, schema.get("properties").is_some()),
            (ENTRIES, schema.get("additionalProperties").is_some()),
            (INT_OR_STRING, schema["x-kubernetes-int-or-string"] == true),
            (BYTES, schema["format"] == "byte"),
            (INT32, schema["format"] == "int32"),
        ];
        let set = bits.iter().filter(|(_, is_set)| *is_set);
        Type(set.fold(number as u64, |all, (bit, _)| all | bit))
    }

    /// Returns the type of a schema from [`schema_named`] or [`referred`], or of one of its
    /// properties.
    #[must_use]
    pub fn from_schema(schema: &Value) -> Type {
        let known = schema.get(TYPE).and_then(Value::as_u64);
        known.map_or_else(|| Type::new(schema), Type)
    }

    /// Returns the JSON name of the type; empty for any type.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES[(self.0 & NAME_BITS) as usize]
    }

    /// Reports whether the type is a string that encodes bytes.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        self.0 & BYTES != 0
    }

    /// Reports whether the type is a 32-bit integer.
    #[must_use]
    pub fn is_int32(self) -> bool {
        self.0 & INT32 != 0
    }

    /// Reports whether the type is an integer or a string.
    #[must_use]
    pub fn is_int_or_string(self) -> bool {
        self.0 & INT_OR_STRING != 0
    }

    /// Reports whether the type accepts any JSON.
    #[must_use]
    pub fn is_any(self) -> bool {
        match self.name() {
            "" => !self.is_int_or_string(),
            "object" => self.0 & (PROPERTIES | ENTRIES) == 0,
            _ => false,
        }
    }
}

struct Resolved {
    schemas: Vec<(&'static str, Value)>,
    numbers: HashMap<&'static str, usize, RandomState>,
}

static RESOLVED: LazyLock<Resolved> = LazyLock::new(|| {
    // Fixed seeds, so that every run has the same cost.
    let hasher = RandomState::with_seeds(0x7363, 0x6865, 0x6d61, 0x7301);
    let mut numbers = HashMap::with_capacity_and_hasher(SCHEMAS.len(), hasher);
    numbers.extend(
        SCHEMAS
            .keys()
            .enumerate()
            .map(|(number, name)| (name.as_str(), number)),
    );
    let schemas = SCHEMAS.iter();
    let schemas = schemas.map(|(name, schema)| {
        let mut slim = resolve(schema, &numbers);
        let written = rules::written(name, schema).into_iter();
        slim[STRUCT] = rules::struct_name(name).into();
        slim[WRITTEN] = written.map(|(member, _)| member).collect();
        (name.as_str(), slim)
    });
    Resolved {
        schemas: schemas.collect(),
        numbers,
    }
});

fn resolve(schema: &Value, numbers: &HashMap<&str, usize, RandomState>) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut slim = Map::new();
    if let Some(number) = referred_by_name(schema).and_then(|name| numbers.get(name)) {
        slim.insert(NUMBER.to_owned(), (*number).into());
    }
    for (name, value) in members {
        let value = match (name.as_str(), value) {
            ("description" | "enum" | "$ref" | "allOf", _) => continue,
            ("properties", Value::Object(properties)) => properties
                .iter()
                .map(|(name, property)| (name.clone(), resolve(property, numbers)))
                .collect(),
            ("items" | "additionalProperties", inner) => resolve(inner, numbers),
            (_, other) => other.clone(),
        };
        slim.insert(name.clone(), value);
    }
    slim.insert(TYPE.to_owned(), Type::new(schema).0.into());
    slim.into()
}

/// Returns the schema with this name; `None` if there is none.
pub fn schema_named(name: &str) -> Option<&'static Value> {
    let number = RESOLVED.numbers.get(name)?;
    Some(&RESOLVED.schemas[*number].1)
}

/// Returns the fields that Go writes even if they are empty; `None` if the schema is not a Go
/// struct.
pub fn written(schema: &Value) -> Option<impl Iterator<Item = &str>> {
    let names = schema.get(WRITTEN)?.as_array()?;
    Some(names.iter().filter_map(Value::as_str))
}

/// Returns the name of a schema's Go struct; empty if the schema is not a struct.
pub fn struct_name(schema: &Value) -> &str {
    schema.get(STRUCT).and_then(Value::as_str).unwrap_or("")
}

/// Returns the schema that a property or an item refers to, with its name; `None` if it refers to
/// none.
pub fn referred(property: &Value) -> Option<(&'static str, &'static Value)> {
    let number = match property.get(NUMBER) {
        Some(number) => usize::try_from(number.as_u64()?).ok()?,
        None if property.get(TYPE).is_some() => return None,
        // The schema of a definition has references by name.
        None => *RESOLVED.numbers.get(referred_by_name(property)?)?,
    };
    let (name, schema) = RESOLVED.schemas.get(number)?;
    Some((name, schema))
}
