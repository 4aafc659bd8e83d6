//! Kubernetes' protobuf, which typed clients send and ask for: bodies as JSON, and JSON as bodies.
//!
//! The numbers of the members are in `messages.txt`, by the names of the OpenAPI schemas; what a member
//! is, its schema says. Members that are not listed are left out, as upstream leaves out what it does
//! not know.
//!
//! Source: `runtime/serializer/protobuf` of Kubernetes' apimachinery.

mod encode;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_objects::Time;
use serde_json::{Map, Value};

use crate::openapi::{schema_named, schema_of};
pub(crate) use encode::{encode, is_known, put_event};
use wire::{Field, Reader};

pub use wire::WireError;

/// How every body begins.
const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting of messages; a pod is some ten deep.
const DEPTH_MAX: usize = 64;

/// A member of a message.
struct Member {
    name: &'static str,
    /// Whether a zero says nothing.
    is_absent_at_zero: bool,
}

/// The members of each message by their number.
static MESSAGES: LazyLock<BTreeMap<&str, BTreeMap<u32, Member>>> = LazyLock::new(|| {
    let lines = include_str!("messages.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let messages = lines.map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or("");
        let members = words.filter_map(|word| word.rsplit_once('='));
        let members = members.filter_map(|(name, number)| {
            let digits = number.trim_end_matches('?');
            let is_absent_at_zero = digits != number;
            let member = Member {
                name,
                is_absent_at_zero,
            };
            Some((digits.parse().ok()?, member))
        });
        (name, members.collect())
    });
    messages.collect()
});

/// A body that can't be read as protobuf.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It does not begin as such a body does.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    /// It is of a kind that is not read in this form.
    #[error("{0} is not read as protobuf here; send JSON")]
    UnknownKind(String),
    /// A message, by its path, is broken.
    #[error("protobuf: {0}: {1}")]
    Broken(String, WireError),
}

/// Reads a whole body: the object in it as JSON, with `apiVersion` and `kind`. O(bytes).
///
/// # Errors
/// A body that is no protobuf, of a kind that is not known, or broken.
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

/// Reads a message into an object; `schema` is that of the object, `name` the message's.
fn message(
    name: &str,
    schema: &str,
    bytes: &[u8],
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), WireError> {
    let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
    let members = MESSAGES.get(name);
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
        let property =
            schema_named(schema).and_then(|schema| schema.get("properties")?.get(member.name));
        let Some(property) = property else {
            continue;
        };
        put(member, property, field, depth, into)?;
    }
    Ok(())
}

/// Puts a member: an entry of a list or a map, or the whole value.
fn put(
    member: &Member,
    property: &Value,
    field: Field<'_>,
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), WireError> {
    if let Some(items) = property.get("items") {
        let value = value(items, field, depth)?;
        let list = into
            .entry(member.name)
            .or_insert_with(|| Value::Array(Vec::new()));
        if let (Value::Array(list), Some(value)) = (list, value) {
            list.push(value);
        }
        return Ok(());
    }
    if let (Some(each), Field::Bytes(entry)) = (property.get("additionalProperties"), field) {
        let (mut key, mut entry_value) = (String::new(), None);
        for field in Reader::new(entry) {
            match field? {
                (1, Field::Bytes(text)) => key = text_of(text)?,
                (2, field) => entry_value = value(each, field, depth)?,
                _ => {}
            }
        }
        let map = into
            .entry(member.name)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(map) = map {
            map.insert(key, entry_value.unwrap_or_else(|| "".into()));
        }
        return Ok(());
    }
    if let Some(value) = value(property, field, depth)? {
        let is_zero = value == 0 || value == false;
        let says_nothing = value == "" || is_zero && member.is_absent_at_zero;
        if !says_nothing {
            into.insert(member.name.to_owned(), value);
        }
    }
    Ok(())
}

/// The value of a field; `None` for a time that is not set.
fn value(property: &Value, field: Field<'_>, depth: usize) -> Result<Option<Value>, WireError> {
    let referred = crate::openapi::referred(property).map(|(name, _)| name);
    let bytes = match field {
        Field::Bytes(bytes) => bytes,
        Field::Number(number) => {
            let is_flag = property["type"] == "boolean";
            // Negative numbers are sent as those of 64 bits in two's complement.
            let signed = i64::from_ne_bytes(number.to_ne_bytes());
            return Ok(Some(if is_flag {
                (number != 0).into()
            } else {
                signed.into()
            }));
        }
    };
    let Some(name) = referred else {
        return match property["format"].as_str() {
            Some("byte") => Ok(Some(BASE64_STANDARD.encode(bytes).into())),
            _ => text_of(bytes).map(|text| Some(text.into())),
        };
    };
    match name.rsplit('.').next().unwrap_or("") {
        "Time" => Ok(time(bytes, false)?),
        "MicroTime" => Ok(time(bytes, true)?),
        "Quantity" => inner_text(bytes).map(|text| Some(text.into())),
        "IntOrString" => int_or_string(bytes).map(Some),
        "FieldsV1" | "RawExtension" => {
            for field in Reader::new(bytes) {
                if let (1, Field::Bytes(json)) = field? {
                    return Ok(serde_json::from_slice(json).ok());
                }
            }
            Ok(None)
        }
        _ if schema_named(name).is_some_and(|schema| schema["format"] == "byte") => {
            Ok(Some(BASE64_STANDARD.encode(bytes).into()))
        }
        _ => {
            let mut object = Map::new();
            message(name, name, bytes, depth, &mut object)?;
            Ok(Some(Value::Object(object)))
        }
    }
}

fn inner_text(bytes: &[u8]) -> Result<String, WireError> {
    for field in Reader::new(bytes) {
        if let (1, Field::Bytes(text)) = field? {
            return text_of(text);
        }
    }
    Ok(String::new())
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

/// A time as text; `None` where it is not set.
fn time(bytes: &[u8], micro: bool) -> Result<Option<Value>, WireError> {
    let (mut seconds, mut nanos) = (None, 0);
    for field in Reader::new(bytes) {
        match field? {
            (1, Field::Number(value)) => seconds = Some(i64::from_ne_bytes(value.to_ne_bytes())),
            (2, Field::Number(value)) => nanos = i64::from_ne_bytes(value.to_ne_bytes()),
            _ => {}
        }
    }
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    let text = Time::from_unix_seconds(seconds).to_string();
    if !micro {
        return Ok(Some(text.into()));
    }
    let micros = nanos.rem_euclid(1_000_000_000) / 1000;
    Ok(Some(
        format!("{}.{micros:06}Z", text.trim_end_matches('Z')).into(),
    ))
}

#[cfg(test)]
mod tests;
