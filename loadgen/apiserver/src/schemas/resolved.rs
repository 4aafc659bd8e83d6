//! The schemas as walks over objects need them, several times for each request: without descriptions, and
//! with references that are found by number instead of by name.

use std::sync::LazyLock;

use ahash::RandomState;
use hashbrown::HashMap;
use serde_json::{Map, Value};

use super::{SCHEMAS, referred_by_name, rules};

/// The member of a reference with the number of the schema that it refers to.
const NUMBER: &str = "$";
/// The member of a schema with the names of its members that Go writes even where they are empty.
const WRITTEN: &str = "$written";
/// The member of a schema with the name of its struct.
const STRUCT: &str = "$name";

struct Resolved {
    schemas: Vec<(&'static str, Value)>,
    numbers: HashMap<&'static str, usize, RandomState>,
}

static RESOLVED: LazyLock<Resolved> = LazyLock::new(|| {
    // Fixed seeds: a run costs the same each time.
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
    slim.into()
}

/// The schema of that name.
pub fn schema_named(name: &str) -> Option<&'static Value> {
    let number = RESOLVED.numbers.get(name)?;
    Some(&RESOLVED.schemas[*number].1)
}

/// The members of a struct that Go writes even where they are empty; `None` for what is no struct of Go's.
pub fn written(schema: &Value) -> Option<impl Iterator<Item = &str>> {
    let names = schema.get(WRITTEN)?.as_array()?;
    Some(names.iter().filter_map(Value::as_str))
}

/// What Go calls the struct of a schema; empty for what is none.
pub fn struct_name(schema: &Value) -> &str {
    schema.get(STRUCT).and_then(Value::as_str).unwrap_or("")
}

/// The schema that a property or an item refers to, with its name.
pub fn referred(property: &Value) -> Option<(&'static str, &'static Value)> {
    let number = match property.get(NUMBER) {
        Some(number) => usize::try_from(number.as_u64()?).ok()?,
        // Of a definition, whose references have names.
        None => *RESOLVED.numbers.get(referred_by_name(property)?)?,
    };
    let (name, schema) = RESOLVED.schemas.get(number)?;
    Some((name, schema))
}
