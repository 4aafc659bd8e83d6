//! Tests with bodies written by client-go, and with invalid bodies.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::json;

use super::wire::Writer;
use super::*;

/// Returns the bodies written by client-go, each with the equivalent JSON.
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

/// Removes empty members, which protobuf does not distinguish from absent ones.
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
fn recorded_bodies_decode_to_their_objects() {
    let mut read = 0;
    for case in recorded() {
        let (bytes, id) = (body(&case), &case["id"]);
        match decode(&bytes) {
            Ok(object) => {
                assert_eq!(full(&Value::Object(object)), full(&case["json"]), "{id}");
                read += 1;
            }
            // The server does not serve this kind.
            Err(ProtobufError::UnknownKind(_)) => {}
            Err(error) => panic!("{id}: {error}"),
        }
    }
    assert_eq!(read, READ);
}

/// The number of recorded bodies whose kinds are served.
const READ: usize = 35;

#[test]
fn encoded_objects_round_trip() {
    for case in recorded() {
        let Ok(object) = decode(&body(&case)) else {
            continue;
        };
        let object = Value::Object(object);
        let written = encode(&object).unwrap();
        let again = decode(&written).unwrap();
        assert_eq!(Value::Object(again), object, "{}", case["id"]);
        // Client-go also writes zero numbers, so our encoding is never longer.
        assert!(written.len() <= body(&case).len(), "{}", case["id"]);
    }
}

#[test]
fn only_known_objects_lists_and_statuses_are_encoded() {
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
fn corrupted_bodies_never_panic() {
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
fn an_ingress_and_related_kinds_round_trip() {
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
        let read = decode(&bytes).expect("an encoded document");
        assert_eq!(Value::Object(read), document);
    }
}

/// Returns a body of a kind whose message is built field by field.
fn sent(api_version: &str, kind: &str, put: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut envelope = Writer::default();
    envelope.message(1, |out| {
        out.bytes(1, api_version.as_bytes());
        out.bytes(2, kind.as_bytes());
    });
    envelope.message(2, put);
    [MAGIC, &envelope.into_bytes()].concat()
}

/// Writes nested messages, the outermost first, with `put` in the innermost one.
fn within(numbers: &[u32], put: &dyn Fn(&mut Writer), out: &mut Writer) {
    match numbers {
        [first, rest @ ..] => out.message(*first, |out| within(rest, put, out)),
        [] => put(out),
    }
}

const RULES: &str = "authorization.k8s.io/v1";
const DEFINED: [&str; 2] = ["apiextensions.k8s.io/v1", "CustomResourceDefinition"];
const CLAIM: [&str; 2] = ["v1", "PersistentVolumeClaim"];
const POD: [&str; 2] = ["v1", "Pod"];
const SLICE: [&str; 2] = ["resource.k8s.io/v1", "ResourceSlice"];

/// Checks the values at paths of objects that a client sends.
#[test]
fn values_of_every_form_are_decoded() {
    let extra = |out: &mut Writer| {
        out.bytes(1, b"scopes");
        out.message(2, |out| {
            out.bytes(1, b"a");
            out.bytes(1, b"b");
        });
    };
    let both = json!({"scopes": ["a", "b"]});
    let schema = [2, 7, 4, 1];
    type Put<'a> = &'a dyn Fn(&mut Writer);
    type Case<'a> = ([&'a str; 2], &'a [u32], Put<'a>, &'a str, Value);
    let cases: [Case<'_>; 26] = [
        (
            [RULES, "SubjectAccessReview"],
            &[2, 5],
            &extra,
            "/spec/extra",
            both.clone(),
        ),
        (
            [RULES, "LocalSubjectAccessReview"],
            &[2, 5],
            &extra,
            "/spec/extra",
            both.clone(),
        ),
        (
            ["certificates.k8s.io/v1", "CertificateSigningRequest"],
            &[2, 6],
            &extra,
            "/spec/extra",
            both.clone(),
        ),
        (
            ["authentication.k8s.io/v1", "TokenReview"],
            &[3, 2, 4],
            &extra,
            "/status/user/extra",
            both,
        ),
        (
            [RULES, "SubjectAccessReview"],
            &[2, 5],
            &|out| out.bytes(1, b"scopes"),
            "/spec/extra",
            json!({"scopes": []}),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.double(11, -1.5),
            "/minimum",
            json!(-1.5),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.double(9, 3.0),
            "/maximum",
            json!(3),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.number(13, 0),
            "/maxLength",
            json!(0),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.message(8, |out| out.bytes(1, b"{\"a\": [null]}")),
            "/default",
            json!({"a": [null]}),
        ),
        (
            DEFINED,
            &schema,
            &|out| {
                out.message(20, |out| out.bytes(1, b"1"));
                out.message(20, |_| {});
            },
            "/enum",
            json!([1, null]),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.message(30, |out| out.number(1, 0)),
            "/additionalProperties",
            json!(false),
        ),
        (
            DEFINED,
            &schema,
            &|out| {
                out.message(30, |out| {
                    out.number(1, 1);
                    out.message(2, |out| out.bytes(5, b"string"));
                });
            },
            "/additionalProperties",
            json!({"type": "string"}),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.message(24, |out| out.message(2, |out| out.bytes(5, b"integer"))),
            "/items",
            json!([{"type": "integer"}]),
        ),
        (
            DEFINED,
            &schema,
            &|out| {
                out.message(32, |out| {
                    out.bytes(1, b"x");
                    out.message(2, |out| out.bytes(2, b"y"));
                });
            },
            "/dependencies",
            json!({"x": ["y"]}),
        ),
        (
            DEFINED,
            &schema,
            &|out| out.bytes(3, b""),
            "/$ref",
            json!(""),
        ),
        (
            DEFINED,
            &[2, 7, 5, 1],
            &|_| {},
            "/spec/versions/0/subresources/status",
            json!({}),
        ),
        (
            CLAIM,
            &[2],
            &|out| out.bytes(5, b""),
            "/spec/storageClassName",
            json!(""),
        ),
        (
            ["apps/v1", "StatefulSet"],
            &[2, 7, 2],
            &|out| out.number(1, 0),
            "/spec/updateStrategy/rollingUpdate/partition",
            json!(0),
        ),
        (
            ["scheduling.k8s.io/v1", "PriorityClass"],
            &[],
            &|out| out.number(3, 0),
            "/globalDefault",
            Value::Null,
        ),
        (
            CLAIM,
            &[2],
            &|out| out.bytes(3, b""),
            "/spec/volumeName",
            Value::Null,
        ),
        (
            CLAIM,
            &[3, 3],
            &|out| out.bytes(1, b"storage"),
            "/status/capacity/storage",
            json!("0"),
        ),
        (
            POD,
            &[2, 2],
            &|out| out.bytes(1, b""),
            "/spec/containers/0/name",
            json!(""),
        ),
        (
            POD,
            &[2, 14],
            &|out| out.bytes(4, &[1, 0x80, 1]),
            "/spec/securityContext/supplementalGroups",
            json!([1, 128]),
        ),
        (
            POD,
            &[2],
            &|out| out.number(25, (5 << 32) - 7),
            "/spec/priority",
            json!(-7),
        ),
        (
            SLICE,
            &[2, 6, 2],
            &|out| out.message(2, |out| out.bytes(6, &[2, 3])),
            "/spec/devices/0/attributes//ints",
            json!([2, 3]),
        ),
        (
            POD,
            &[1, 8],
            &|out| out.number(1, UNSET_SECONDS),
            "/metadata/creationTimestamp",
            Value::Null,
        ),
    ];
    for ([version, kind], numbers, put, at, expected) in cases {
        let read = decode(&sent(version, kind, |out| within(numbers, put, out)));
        let read = Value::Object(read.unwrap_or_else(|error| panic!("{kind}{at}: {error}")));
        let of_schema = match [version, kind] == DEFINED && !at.starts_with("/spec") {
            true => "/spec/versions/0/schema/openAPIV3Schema",
            false => "",
        };
        let found = read.pointer(&format!("{of_schema}{at}"));
        assert_eq!(found.unwrap_or(&Value::Null), &expected, "{kind}{at}");
        // The value round-trips.
        let again = decode(&encode(&read).expect("a known message"));
        assert_eq!(again.map(Value::Object), Ok(read), "{kind}{at}");
    }
}

#[test]
fn values_that_json_cannot_represent_are_refused() {
    let definition = |put: &dyn Fn(&mut Writer)| {
        sent(DEFINED[0], DEFINED[1], |out| {
            within(&[2, 7, 4, 1], put, out)
        })
    };
    let born = |seconds| {
        sent("v1", "Pod", |out| {
            within(&[1, 8], &|out| out.number(1, seconds), out)
        })
    };
    for (body, why) in [
        (
            definition(&|out| out.message(8, |out| out.bytes(1, b"{"))),
            WireError::NotJson,
        ),
        (
            definition(&|out| out.double(9, f64::NAN)),
            WireError::NotJson,
        ),
        (definition(&|out| out.bytes(9, b"1")), WireError::Form(2)),
        (born(i64::MIN), WireError::Time),
        (born(i64::MAX), WireError::Time),
        (born(SECONDS.start() - 1), WireError::Time),
        (born(SECONDS.end() + 1), WireError::Time),
    ] {
        let Err(ProtobufError::Broken(_, found)) = decode(&body) else {
            panic!("{why}: {:?}", decode(&body));
        };
        assert_eq!(found, why);
    }
    for seconds in [*SECONDS.start(), *SECONDS.end()] {
        assert!(decode(&born(seconds)).is_ok());
    }
}

#[test]
fn times_of_all_years_round_trip() {
    for time in [
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:01Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00Z",
        "2262-04-11T23:47:17Z",
        "9999-12-31T23:59:59Z",
    ] {
        let micro = time.replace('Z', ".000007Z");
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"creationTimestamp": time}, "spec": {"renewTime": micro}});
        let read = decode(&encode(&lease).expect("a known message"));
        assert_eq!(read.map(Value::Object), Ok(lease));
    }
}
