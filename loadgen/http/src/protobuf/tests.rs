//! Bodies that client-go has written, and broken ones.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use super::*;

/// Bodies that client-go has written, with the equal JSON.
fn recorded() -> Vec<Value> {
    let file = include_bytes!("../../../../tests/vectors/protobuf.jsonl.gz").as_slice();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn body(case: &Value) -> Vec<u8> {
    let text = case["protobufBase64"].as_str().unwrap();
    BASE64_STANDARD.decode(text).unwrap()
}

/// Without what says nothing.
fn full(value: &Value) -> Value {
    let says = |value: &Value| {
        !(value.is_null() || *value == "" || *value == json!({}) || *value == json!([]))
    };
    match value {
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, value)| (name.clone(), full(value)));
            members.filter(|(_, value)| says(value)).collect()
        }
        Value::Array(items) => items.iter().map(full).collect(),
        other => other.clone(),
    }
}

#[test]
fn recorded_bodies_are_read_as_the_objects_that_they_are() {
    let mut read = 0;
    for case in recorded() {
        let (bytes, id) = (body(&case), &case["id"]);
        match decode(&bytes) {
            Ok(object) => {
                assert_eq!(full(&Value::Object(object)), full(&case["json"]), "{id}");
                read += 1;
            }
            // Kinds that the server doesn't serve.
            Err(ProtobufError::UnknownKind(_)) => {}
            Err(error) => panic!("{id}: {error}"),
        }
    }
    assert_eq!(read, READ);
}

/// How many of the recorded bodies are of kinds that are served.
const READ: usize = 35;

#[test]
fn broken_bodies_are_refused_wherever_they_are_broken() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::NoMagic));
    for case in recorded() {
        let whole = body(&case);
        for end in 4..whole.len() {
            let _refused_or_shorter = decode(&whole[..end]);
        }
        for at in 4..whole.len() {
            let mut wrong = whole.clone();
            for bit in 0..8 {
                wrong[at] ^= 1 << bit;
                let _refused_or_another = decode(&wrong);
            }
        }
    }
    let mut deep = Vec::new();
    for _ in 0..100_000 {
        deep.splice(0..0, [0x0a]);
    }
    let _refused = decode(&[MAGIC, &deep].concat());
}
