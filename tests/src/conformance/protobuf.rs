//! Protobuf bodies that client-go wrote, each with the equivalent JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_http::protobuf::decode;
use serde_json::Value;

use super::fields::{Fields, is_empty, without};

pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    // Ignore the server's responses, which the cases over HTTP cover.
    for member in ["kind", "apiVersion", "note", "method", "path"] {
        case.text(member)?;
    }
    case.int("serverStatus")?;
    let body = case.text("protobufBase64")?;
    let body = BASE64_STANDARD.decode(body);
    let body = body.map_err(|error| error.to_string())?;
    let found = decode(&body).map_err(|error| error.to_string())?;
    // Ignore null and empty members.
    let full = |value| without(value, &|_, value| is_empty(value));
    let found = full(Value::Object(found));
    super::expect_eq("json", &found, &full(case.value("json")))
}
