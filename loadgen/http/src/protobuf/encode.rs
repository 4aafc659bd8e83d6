//! Encoding of JSON documents as protobuf, the counterpart of [`decode`](super::decode).
//!
//! Exactly the members of the document are written, in the order of their numbers. So zero numbers
//! and empty strings are present only if the document has them. Clients whose types cannot
//! represent the absence of a member see no difference.
//!
//! Source: `runtime/serializer/protobuf` of Kubernetes' apimachinery.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_apiserver::schemas::{referred, schema_named, schema_of};
use podstorm_objects::{Kind, Time};
use serde_json::{Map, Value};

use super::wire::Writer;
use super::{MAGIC, MESSAGES};

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const LIST_METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const OBJECT_METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Reports whether objects of a kind can be encoded as protobuf.
pub(crate) fn is_known(kind: Kind) -> bool {
    message_of(kind.api_version(), kind.name()).is_some()
}

fn message_of(api_version: &str, kind: &str) -> Option<String> {
    let schema = schema_of(api_version, kind)?;
    MESSAGES.contains_key(schema.as_str()).then_some(schema)
}

/// Encodes an answer: an object, a list of objects, or a `Status`. `None` for a document that has
/// no message. O(bytes).
pub(crate) fn encode(document: &Value) -> Option<Vec<u8>> {
    let text = |member: &str| document.get(member).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let document = document.as_object()?;
    let mut raw = Writer::default();
    match kind {
        "Status" => message(STATUS, STATUS, document, &mut raw),
        "PartialObjectMetadata" => partial(document, &mut raw),
        "PartialObjectMetadataList" => list(document, &mut raw, partial),
        _ => match message_of(api_version, kind) {
            Some(name) => message(&name, &name, document, &mut raw),
            None => {
                let name = message_of(api_version, kind.strip_suffix("List")?)?;
                list(document, &mut raw, |item, out| {
                    message(&name, &name, item, out);
                });
            }
        },
    }
    let mut of_type = Writer::default();
    of_type.bytes(1, api_version.as_bytes());
    of_type.bytes(2, kind.as_bytes());
    let mut envelope = Writer::default();
    envelope.bytes(1, &of_type.into_bytes());
    envelope.bytes(2, &raw.into_bytes());
    // Empty values mean the content encoding and type of the HTTP headers.
    envelope.bytes(3, b"");
    envelope.bytes(4, b"");
    Some([MAGIC, &envelope.into_bytes()].concat())
}

/// Appends a watch event, prefixed with its length.
pub(crate) fn put_event(out: &mut Vec<u8>, what: &str, object: &Value) {
    let mut extension = Writer::default();
    extension.bytes(1, &encode(object).unwrap_or_default());
    let mut event = Writer::default();
    event.bytes(1, what.as_bytes());
    event.bytes(2, &extension.into_bytes());
    let event = event.into_bytes();
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&event);
}

fn partial(object: &Map<String, Value>, out: &mut Writer) {
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        out.message(1, |out| {
            message(OBJECT_METADATA, OBJECT_METADATA, metadata, out);
        });
    }
}

fn list(
    list: &Map<String, Value>,
    out: &mut Writer,
    put: impl Fn(&Map<String, Value>, &mut Writer),
) {
    if let Some(Value::Object(metadata)) = list.get("metadata") {
        out.message(1, |out| {
            message(LIST_METADATA, LIST_METADATA, metadata, out);
        });
    }
    let items = list.get("items").and_then(Value::as_array);
    for item in items.into_iter().flatten().filter_map(Value::as_object) {
        out.message(2, |out| put(item, out));
    }
}

/// Encodes the members of an object. `schema` is the name of the object's schema, `name` the name
/// of the message.
fn message(name: &str, schema: &str, object: &Map<String, Value>, out: &mut Writer) {
    let properties = schema_named(schema).and_then(|schema| schema.get("properties"));
    for (number, member) in MESSAGES.get(name).into_iter().flatten() {
        if let Some(inline) = member.name.strip_prefix('+') {
            out.message(*number, |out| message(inline, schema, object, out));
            continue;
        }
        let property = properties.and_then(|properties| properties.get(member.name));
        if let (Some(property), Some(value)) = (property, object.get(member.name)) {
            put(*number, property, value, out);
        }
    }
}

/// Encodes a member: each entry of a list or map, or the whole value.
fn put(number: u32, property: &Value, member: &Value, out: &mut Writer) {
    match (
        member,
        property.get("items"),
        property.get("additionalProperties"),
    ) {
        (Value::Array(items), Some(each), _) => {
            for item in items {
                value(number, each, item, out);
            }
        }
        (Value::Object(entries), _, Some(each)) => {
            for (key, entry) in entries {
                out.message(number, |out| {
                    out.bytes(1, key.as_bytes());
                    value(2, each, entry, out);
                });
            }
        }
        _ => value(number, property, member, out),
    }
}

fn value(number: u32, property: &Value, value: &Value, out: &mut Writer) {
    let referred = referred(property);
    let last = referred.and_then(|(name, _)| name.rsplit('.').next());
    match (last.unwrap_or(""), value) {
        ("FieldsV1" | "RawExtension" | "JSON", Value::Null) => out.message(number, |_| {}),
        ("FieldsV1" | "RawExtension" | "JSON", _) => {
            out.message(number, |out| out.bytes(1, value.to_string().as_bytes()));
        }
        (_, Value::Null) => {}
        ("Time" | "MicroTime", Value::String(text)) => {
            out.message(number, |out| time(text, out));
        }
        ("Quantity", _) => out.message(number, |out| out.bytes(1, text_of(value).as_bytes())),
        ("IntOrString", Value::String(text)) => out.message(number, |out| {
            out.number(1, 1);
            out.number(2, 0);
            out.bytes(3, text.as_bytes());
        }),
        ("IntOrString", value) => out.message(number, |out| {
            out.number(1, 0);
            out.number(2, value.as_i64().unwrap_or(0));
            out.bytes(3, b"");
        }),
        _ => match referred.and_then(|(name, schema)| Some((name, schema["oneOf"].as_array()?))) {
            Some((name, forms)) => out.message(number, |out| either(name, forms, value, out)),
            None => plain(number, property, referred, value, out),
        },
    }
}

/// Encodes a schema or its alternative. `forms` are the schema and the alternative.
fn either(name: &str, forms: &[Value], value: &Value, out: &mut Writer) {
    for (number, member) in MESSAGES.get(name).into_iter().flatten() {
        match (member.name, forms, value) {
            ("schema", [form, _], Value::Object(_)) => put(*number, form, value, out),
            ("schema", ..) => {}
            // Go also sets `allows` if there is a schema.
            ("allows", _, Value::Object(_)) => out.number(*number, 1),
            (_, [_, form], Value::Array(_) | Value::Bool(_)) => put(*number, form, value, out),
            _ => {}
        }
    }
}

fn plain(
    number: u32,
    property: &Value,
    referred: Option<(&str, &Value)>,
    value: &Value,
    out: &mut Writer,
) {
    match value {
        Value::Null => {}
        Value::Bool(flag) => out.number(number, i64::from(*flag)),
        Value::Number(value) => match property["type"] == "number" {
            true => out.double(number, value.as_f64().unwrap_or(0.0)),
            false => out.number(number, value.as_i64().unwrap_or(0)),
        },
        Value::String(text) => {
            let schema = referred.map_or(property, |(_, schema)| schema);
            match schema["format"] == "byte" {
                true => out.bytes(number, &BASE64_STANDARD.decode(text).unwrap_or_default()),
                false => out.bytes(number, text.as_bytes()),
            }
        }
        Value::Object(object) => {
            if let Some((name, _)) = referred {
                out.message(number, |out| message(name, name, object, out));
            }
        }
        // A list that is itself an entry, e.g. in a map, is a message that contains its entries.
        Value::Array(_) => out.message(number, |out| put(1, property, value, out)),
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn time(text: &str, out: &mut Writer) {
    let Some(seconds) = text.parse::<Time>().ok().and_then(Time::unix_seconds) else {
        return;
    };
    out.number(1, seconds);
    let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
    let digits: String = fraction
        .chars()
        .take_while(char::is_ascii_digit)
        .chain("000000000".chars())
        .take(9)
        .collect();
    out.number(2, digits.parse().unwrap_or(0));
}
