//! Mutations of documents and bytes that leave them mostly valid.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Mutates documents at random.
pub(super) trait Mutates {
    /// Changes one place: drops, doubles, retypes, moves or nests its value, or changes the
    /// metadata.
    fn change(&mut self, value: &mut Value);
    /// Returns the document without some of its members.
    fn part(&mut self, value: &Value) -> Value;
    /// Returns the JSON pointer of a place in the document.
    fn pointer(&mut self, value: &Value) -> String;
    /// Changes bytes, or nothing in one of three calls.
    fn bytes(&mut self, bytes: &mut Vec<u8>);
}

impl Mutates for Rng {
    fn change(&mut self, value: &mut Value) {
        if self.u32(..4) == 0 && value.is_object() {
            return metadata(self, value);
        }
        let moved = {
            let pointer = self.pointer(value);
            value.pointer(&pointer).cloned().unwrap_or_default()
        };
        let pointer = self.pointer(value);
        let place = value
            .pointer_mut(&pointer)
            .expect("a place in the document");
        match (self.u32(..8), &mut *place) {
            (0, Value::Object(members)) if !members.is_empty() => {
                let at = self.usize(..members.len());
                let name = members.keys().nth(at).expect("as many").clone();
                members.remove(&name);
            }
            (0, Value::Array(items)) if !items.is_empty() => {
                items.remove(self.usize(..items.len()));
            }
            (1, Value::Array(items)) if !items.is_empty() => {
                let item = items[self.usize(..items.len())].clone();
                items.insert(self.usize(..=items.len()), item);
            }
            (2, Value::Object(members)) => {
                let name = ["x", "$patch", "name", "é", "a.b/c", ""][self.usize(..6)];
                members.insert(name.repeat(1 + self.usize(..2) * 99), moved);
            }
            (3, _) => {
                let depth = [1, 3, 70, 130][self.usize(..4)];
                *place = (0..depth).fold(place.take(), |inner, _| match self.bool() {
                    true => json!([inner]),
                    false => json!({"a": inner}),
                });
            }
            (4, _) => *place = moved,
            (5, Value::String(text)) => match self.u32(..4) {
                0 => *text = text.repeat(300),
                1 => text.push('é'),
                2 => text.clear(),
                _ => *text = text.to_uppercase(),
            },
            _ => *place = end(self),
        }
    }

    fn part(&mut self, value: &Value) -> Value {
        let Value::Object(members) = value else {
            return value.clone();
        };
        let mut kept = Map::new();
        for (name, value) in members {
            if self.bool() {
                kept.insert(name.clone(), self.part(value));
            }
        }
        kept.into()
    }

    fn pointer(&mut self, value: &Value) -> String {
        let (mut path, mut value) = (String::new(), value);
        while self.u32(..6) != 0 {
            let (step, inner) = match value {
                Value::Object(members) if !members.is_empty() => {
                    let at = self.usize(..members.len());
                    let (name, inner) = members.iter().nth(at).expect("as many");
                    (name.replace('~', "~0").replace('/', "~1"), inner)
                }
                Value::Array(items) if !items.is_empty() => {
                    let at = self.usize(..items.len());
                    (at.to_string(), &items[at])
                }
                _ => break,
            };
            path = format!("{path}/{step}");
            value = inner;
        }
        path
    }

    fn bytes(&mut self, bytes: &mut Vec<u8>) {
        if self.u32(..3) == 0 {
            return;
        }
        let at = self.usize(..=bytes.len());
        match self.u32(..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, 0xff),
            2 if at < bytes.len() => bytes[at] ^= 1 << self.u8(..8),
            3 => drop(bytes.splice(at..at, std::iter::repeat_n(b'[', 2_000))),
            4 => drop(bytes.splice(..at, *b"{\"metadata\":{},")),
            _ => {
                let stretch = bytes[at..].to_vec();
                bytes.extend(stretch);
            }
        }
    }
}

/// Changes the object's metadata.
fn metadata(random: &mut Rng, value: &mut Value) {
    let time = "2026-01-01T00:00:00Z";
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u", "controller": true});
    let fields = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "time": time,
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}, "k:{\"a\":1}": {"v:[1]": {}}, "x": 1}});
    let more = [
        json!({"ownerReferences": [owner]}),
        json!({"ownerReferences": [owner, owner]}),
        json!({"managedFields": [fields]}),
        json!({"managedFields": [{}]}),
        json!({"managedFields": []}),
        json!({"labels": {"a": "b", "a/b/c": "é", "": null}}),
        json!({"labels": {"app": "web", "x": "y"}}),
        json!({"annotations": {"a": "b".repeat(300_000)}}),
        json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{"}}),
        json!({"finalizers": ["a.b/c", "x", "orphan", "foregroundDeletion"]}),
        json!({"finalizers": ["a.b/c", "d.e/f"]}),
        json!({"resourceVersion": "1"}),
        json!({"resourceVersion": "99999999999999999999"}),
        json!({"uid": "x"}),
        json!({"generateName": "g-", "name": null}),
        json!({"name": "n".repeat(300)}),
        json!({"name": "../x"}),
        json!({"namespace": "elsewhere"}),
        json!({"creationTimestamp": time, "deletionTimestamp": time, "deletionGracePeriodSeconds": -1}),
        json!({"generation": -1, "selfLink": "/"}),
    ];
    let Value::Object(more) = more[random.usize(..more.len())].clone() else {
        return;
    };
    match value.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata.extend(more),
        _ => value["metadata"] = more.into(),
    }
}

/// Returns an extreme value.
fn end(random: &mut Rng) -> Value {
    let ends = [
        json!(null),
        json!(true),
        json!(""),
        json!("a"),
        json!("5%"),
        json!("100Ei"),
        json!("2026-01-01T00:00:00.123456Z"),
        json!([]),
        json!({}),
        json!([{}]),
        json!(0),
        json!(-1),
        json!(2147483648u32),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(0.5),
        json!(1e308),
    ];
    ends[random.usize(..ends.len())].clone()
}
