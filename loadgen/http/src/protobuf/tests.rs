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
fn what_is_written_is_read_as_the_same() {
    for case in recorded() {
        let Ok(object) = decode(&body(&case)) else {
            continue;
        };
        let object = Value::Object(object);
        let written = encode(&object).unwrap();
        let again = decode(&written).unwrap();
        assert_eq!(Value::Object(again), object, "{}", case["id"]);
        // Client-go writes the numbers that say nothing too, so ours are no more.
        assert!(written.len() <= body(&case).len(), "{}", case["id"]);
    }
}

#[test]
fn lists_and_statuses_are_written_and_others_are_not() {
    let pods = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]});
    let bytes = encode(&pods).unwrap();
    let holds = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|at| at == part);
    assert!(bytes.starts_with(MAGIC) && holds(&bytes, b"PodList") && holds(&bytes, b"\x0a\x01b"));
    let status = json!({"kind": "Status", "apiVersion": "v1", "code": 404, "message": "gone"});
    assert!(holds(&encode(&status).unwrap(), b"\x1a\x04gone"));
    assert_eq!(
        encode(&json!({"kind": "Gadget", "apiVersion": "a.b/v1"})),
        None
    );
    let mut frame = Vec::new();
    put_event(
        &mut frame,
        "ADDED",
        &json!({"kind": "Pod", "apiVersion": "v1"}),
    );
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(length as usize, frame.len() - 4);
    assert!(holds(&frame, b"\x0a\x05ADDED"));
}

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

#[test]
fn an_ingress_and_what_goes_with_it_come_back_as_they_went() {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    for document in [
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": "i"}, "spec": {"ingressClassName": "c",
                "rules": [{"host": "a.b", "http": {"paths": [path]}}],
                "tls": [{"hosts": ["a.b"], "secretName": "s"}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "p"}, "spec": {"podSelector": {"matchLabels": {"a": "b"}},
                "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
                    "ports": [{"port": 80, "protocol": "TCP"}]}], "policyTypes": ["Ingress"]}}),
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "c"},
            "handler": "runc", "scheduling": {"nodeSelector": {"a": "b"}}}),
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "r"}, "spec": {"request": "eA==", "signerName": "a.b/c",
                "usages": ["client auth"], "expirationSeconds": 600}}),
    ] {
        let bytes = encode(&document).expect("a known message");
        let read = decode(&bytes).expect("what was written");
        assert_eq!(Value::Object(read), document);
    }
}
