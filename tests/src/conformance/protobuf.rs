//! Bodies in protobuf that client-go has written, with the equal JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_http::protobuf::decode;
use serde_json::Value;

use super::Fields;

pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    // What a server answers is in the cases over HTTP.
    for member in ["kind", "apiVersion", "note", "method", "path"] {
        case.text(member)?;
    }
    case.int("serverStatus")?;
    let body = case.text("protobufBase64")?;
    let body = BASE64_STANDARD.decode(body);
    let body = body.map_err(|error| error.to_string())?;
    let found = decode(&body).map_err(|error| error.to_string())?;
    let (recorded, found) = (full(&case.value("json")), full(&Value::Object(found)));
    super::expect_eq("json", &found, &recorded)
}

/// Without what says nothing: members that are null or empty.
fn full(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (name.clone(), full(value)));
            members.filter(|(_, value)| !is_empty(value)).collect()
        }
        Value::Array(items) => items.iter().map(full).collect(),
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
