//! Kubernetes' protobuf, which typed clients send and accept: conversion to and from JSON.
//!
//! `messages.txt` lists the numbers of the members under the names of the OpenAPI schemas; the
//! schemas define the types of the members. Members that are not listed are dropped, as upstream
//! drops unknown members.
//!
//! Source: `runtime/serializer/protobuf` of Kubernetes' apimachinery.

mod encode;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_apiserver::schemas::{referred, schema_named, schema_of};
use podstorm_objects::Time;
use serde_json::{Map, Number, Value};

pub(crate) use encode::{encode, is_known, put_event};
use wire::{Field, Reader};

pub use wire::WireError;

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";
/// The maximum nesting depth of messages. A pod has a depth of about ten.
const DEPTH_MAX: usize = 64;

/// A member of a message.
struct Member {
    name: &'static str,
    /// Whether zero represents an absent value.
    is_absent_at_zero: bool,
    /// Whether an empty string is different from an absent one.
    is_there_when_empty: bool,
}

/// The members of each message by number.
static MESSAGES: LazyLock<BTreeMap<&str, BTreeMap<u32, Member>>> = LazyLock::new(|| {
    let lines = include_str!("messages.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let messages = lines.map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or("");
        let members = words.filter_map(|word| word.rsplit_once('='));
        let members = members.filter_map(|(name, number)| {
            let digits = number.trim_end_matches(['?', '!']);
            let member = Member {
                name,
                is_absent_at_zero: number.ends_with('?'),
                is_there_when_empty: number.ends_with('!'),
            };
            Some((digits.parse().ok()?, member))
        });
        (name, members.collect())
    });
    messages.collect()
});

/// The error for a protobuf body that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The body lacks the magic prefix.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    /// The kind cannot be decoded from protobuf.
    #[error("{0} is not supported as protobuf; send JSON")]
    UnknownKind(String),
    /// The message at a path is invalid.
    #[error("protobuf: {0}: {1}")]
    Broken(String, WireError),
}

/// Decodes the object in a body as JSON, with `apiVersion` and `kind`. O(bytes).
///
/// # Errors
/// Fails if the body is not protobuf, is of an unknown kind, or is invalid.
pub fn decode(body: &[u8]) -> Result<Map<String, Value>, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let broken = |error| ProtobufError::Broken("envelope".to_owned(), error);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for field in Reader::new(envelope) {
        match field.map_err(broken)? {
            (1, Field::Bytes(meta)) => {
                for field in Reader::new(meta) {
                    match field.map_err(broken)? {
                        (1, Field::Bytes(text)) => api_version = text_of(text).map_err(broken)?,
                        (2, Field::Bytes(text)) => kind = text_of(text).map_err(broken)?,
                        _ => {}
                    }
                }
            }
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let schema = schema_of(&api_version, &kind);
    let schema = schema.filter(|schema| MESSAGES.contains_key(schema.as_str()));
    let schema =
        schema.ok_or_else(|| ProtobufError::UnknownKind(format!("{kind} of {api_version}")))?;
    let mut object = Map::new();
    message(&schema, &schema, raw, DEPTH_MAX, &mut object)
        .map_err(|error| ProtobufError::Broken(kind.clone(), error))?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(object)
}

fn text_of(bytes: &[u8]) -> Result<String, WireError> {
    let text = std::str::from_utf8(bytes).map_err(|_| WireError::NotUtf8)?;
    Ok(text.to_owned())
}

/// Decodes a message into an object. `schema` is the name of the object's schema, `name` the name
/// of the message.
fn message(
    name: &str,
    schema: &str,
    bytes: &[u8],
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), WireError> {
    let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
    let members = MESSAGES.get(name);
    let of_object = schema_named(schema).unwrap_or(&Value::Null);
    for field in Reader::new(bytes) {
        let (number, field) = field?;
        let Some(member) = members.and_then(|members| members.get(&number)) else {
            continue;
        };
        if let Some(inline) = member.name.strip_prefix('+') {
            if let Field::Bytes(bytes) = field {
                message(inline, schema, bytes, depth, into)?;
            }
            continue;
        }
        let Some(property) = of_object["properties"].get(member.name) else {
            continue;
        };
        if let Some(value) = put(member, property, field, depth, into)? {
            let says_something = match &value {
                Value::String(text) if text.is_empty() => {
                    member.is_there_when_empty || is_required(of_object, member.name)
                }
                other => !member.is_absent_at_zero || *other != 0 && *other != false,
            };
            if says_something {
                into.insert(member.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn is_required(schema: &Value, member: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|required| required.iter().any(|name| name == member))
}

/// Decodes a field of a member. Adds it to the member's list or map and returns `None`, or returns
/// the value of any other member.
fn put(
    member: &Member,
    property: &Value,
    field: Field<'_>,
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<Option<Value>, WireError> {
    if let Some(items) = property.get("items") {
        let list = into
            .entry(member.name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            push(items, field, depth, list)?;
        }
        return Ok(None);
    }
    let (Some(each), Field::Bytes(entry)) = (property.get("additionalProperties"), field) else {
        return value(property, field, depth);
    };
    // Missing parts of an entry are empty.
    let (mut key, mut of_entry) = (String::new(), Field::Bytes(&[]));
    for field in Reader::new(entry) {
        match field? {
            (1, Field::Bytes(text)) => key = text_of(text)?,
            (2, field) => of_entry = field,
            _ => {}
        }
    }
    let of_entry = value(each, of_entry, depth)?.unwrap_or_default();
    let map = into
        .entry(member.name)
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(map) = map {
        map.insert(key, of_entry);
    }
    Ok(None)
}

/// Appends an entry to a list, or several if the field packs numbers.
fn push(
    items: &Value,
    field: Field<'_>,
    depth: usize,
    list: &mut Vec<Value>,
) -> Result<(), WireError> {
    let is_numeric = items["type"] == "integer" || items["type"] == "boolean";
    match field {
        Field::Bytes(bytes) if is_numeric => {
            for packed in Reader::new(bytes).numbers() {
                list.push(number(items, packed?));
            }
        }
        field => list.extend(value(items, field, depth)?),
    }
    Ok(())
}

fn number(property: &Value, number: u64) -> Value {
    // Negative numbers are sent as 64-bit two's complement.
    let signed = i64::from_ne_bytes(number.to_ne_bytes());
    match property["type"] == "boolean" {
        true => (number != 0).into(),
        // Go truncates to 32 bits.
        false if property["format"] == "int32" => (signed as i32).into(),
        false => signed.into(),
    }
}

/// Decodes the value of a field. `None` for an unset time.
fn value(property: &Value, field: Field<'_>, depth: usize) -> Result<Option<Value>, WireError> {
    let bytes = match field {
        Field::Bytes(bytes) => bytes,
        Field::Number(sent) => return Ok(Some(number(property, sent))),
    };
    let Some((name, schema)) = referred(property) else {
        if let Some(items) = property.get("items") {
            return list(items, bytes, depth).map(Some);
        }
        return match (property["type"].as_str(), property["format"].as_str()) {
            (Some("number"), _) => double(bytes).map(Some),
            (_, Some("byte")) => Ok(Some(BASE64_STANDARD.encode(bytes).into())),
            _ => text_of(bytes).map(|text| Some(text.into())),
        };
    };
    match name.rsplit('.').next().unwrap_or("") {
        "Time" => time(bytes, false),
        "MicroTime" => time(bytes, true),
        "Quantity" => quantity(bytes).map(|text| Some(text.into())),
        "IntOrString" => int_or_string(bytes).map(Some),
        "FieldsV1" | "RawExtension" | "JSON" => raw(bytes).map(Some),
        _ if schema["format"] == "byte" => Ok(Some(BASE64_STANDARD.encode(bytes).into())),
        _ => match schema["oneOf"].as_array() {
            Some(forms) => either(name, forms, bytes, depth).map(Some),
            None => {
                let mut object = Map::new();
                message(name, name, bytes, depth, &mut object)?;
                Ok(Some(Value::Object(object)))
            }
        },
    }
}

/// Decodes a list that is itself an entry, e.g. in a map: a message that contains its entries.
fn list(items: &Value, bytes: &[u8], depth: usize) -> Result<Value, WireError> {
    let mut list = Vec::new();
    for field in Reader::new(bytes) {
        if let (1, field) = field? {
            push(items, field, depth, &mut list)?;
        }
    }
    Ok(list.into())
}

/// Decodes a schema or its alternative. `forms` are the schema and the alternative.
fn either(name: &str, forms: &[Value], bytes: &[u8], depth: usize) -> Result<Value, WireError> {
    let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
    let (mut schema, mut other) = (None, None);
    let members = MESSAGES.get(name);
    for field in Reader::new(bytes) {
        let (number, field) = field?;
        let member = members.and_then(|members| members.get(&number));
        match (member.map(|member| member.name), forms) {
            (Some("schema"), [form, _]) => schema = value(form, field, depth)?,
            (Some(_), [_, form]) => match form.get("items") {
                Some(items) => {
                    let list = other.get_or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(list) = list {
                        push(items, field, depth, list)?;
                    }
                }
                None => other = value(form, field, depth)?,
            },
            _ => {}
        }
    }
    Ok(schema.or(other).unwrap_or_default())
}

fn double(bytes: &[u8]) -> Result<Value, WireError> {
    let bytes = bytes.try_into().map_err(|_| WireError::Form(2))?;
    let double = f64::from_le_bytes(bytes);
    // Go writes integral numbers without a fraction.
    let whole = double as i64;
    if whole as f64 == double && whole != i64::MAX {
        return Ok(whole.into());
    }
    let number = Number::from_f64(double).ok_or(WireError::NotJson)?;
    Ok(number.into())
}

/// Decodes an arbitrary JSON document; null if the message is empty.
fn raw(bytes: &[u8]) -> Result<Value, WireError> {
    for field in Reader::new(bytes) {
        if let (1, Field::Bytes(json)) = field? {
            return serde_json::from_slice(json).map_err(|_| WireError::NotJson);
        }
    }
    Ok(Value::Null)
}

fn quantity(bytes: &[u8]) -> Result<String, WireError> {
    for field in Reader::new(bytes) {
        if let (1, Field::Bytes(text)) = field? {
            return text_of(text);
        }
    }
    Ok("0".to_owned())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, WireError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Number(kind)) => is_text = kind == 1,
            (2, Field::Number(value)) => number = i64::from_ne_bytes(value.to_ne_bytes()),
            (3, Field::Bytes(value)) => text = text_of(value)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// The range of seconds that RFC 3339 can represent: the years 0 to 9999.
const SECONDS: RangeInclusive<i64> = -62_167_219_200..=253_402_300_799;
/// The first second of the year 1, which represents an unset time.
const UNSET_SECONDS: i64 = -62_135_596_800;

/// Formats a time. `None` if it is unset.
fn time(bytes: &[u8], micro: bool) -> Result<Option<Value>, WireError> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Number(value)) => seconds = i64::from_ne_bytes(value.to_ne_bytes()),
            (2, Field::Number(value)) => nanos = i64::from_ne_bytes(value.to_ne_bytes()),
            _ => {}
        }
    }
    // Go accepts more nanoseconds than fit in a second.
    let seconds = i128::from(seconds) + i128::from(nanos.div_euclid(1_000_000_000));
    let seconds = i64::try_from(seconds).map_err(|_| WireError::Time)?;
    let nanos = nanos.rem_euclid(1_000_000_000);
    if bytes.is_empty() || seconds == UNSET_SECONDS && nanos == 0 {
        return Ok(None);
    }
    if !SECONDS.contains(&seconds) {
        return Err(WireError::Time);
    }
    let text = Time::from_unix_seconds(seconds).to_string();
    if !micro {
        return Ok(Some(text.into()));
    }
    let micros = nanos / 1000;
    Ok(Some(
        format!("{}.{micros:06}Z", text.trim_end_matches('Z')).into(),
    ))
}

#[cfg(test)]
mod every_kind;
#[cfg(test)]
mod tests;
