//! Tests of every served kind with every member of its schema.

use std::collections::BTreeSet;

use podstorm_apiserver::{Cluster, ClusterOptions};
use serde_json::json;

use super::*;
use crate::{unstored, view};

/// Kinds that only appear in requests to subresources or as options.
const BELOW: [(&str, &str); 4] = [
    ("autoscaling/v1", "Scale"),
    ("policy/v1", "Eviction"),
    ("authentication.k8s.io/v1", "TokenRequest"),
    ("v1", "DeleteOptions"),
];

/// Returns every served kind: its version, its name, and the name of its schema.
fn kinds() -> Vec<(&'static str, &'static str, String)> {
    let cluster = Cluster::new(ClusterOptions::default());
    let stored = cluster.kinds().into_iter();
    let kinds = stored
        .chain(view::kinds())
        .chain(unstored::reviews())
        .chain([unstored::component_status()])
        .map(|kind| (kind.api_version(), kind.name()));
    let kinds = kinds.chain(BELOW).map(|(version, kind)| {
        let schema = schema_of(version, kind);
        (version, kind, schema.expect("every kind has a schema"))
    });
    kinds.collect()
}

/// Returns the properties inside a property.
fn parts(property: &Value) -> Vec<&Value> {
    let inner = ["items", "additionalProperties"].into_iter();
    let inner = inner.filter_map(|name| property.get(name));
    let forms = property["oneOf"].as_array().into_iter().flatten();
    inner.chain(forms).collect()
}

fn refer<'a>(property: &'a Value, names: &mut Vec<&'a str>) {
    names.extend(referred(property).map(|(name, _)| name));
    for part in parts(property) {
        refer(part, names);
    }
}

/// Returns the names of a message's members, including those of inlined messages.
fn members(message: &str, names: &mut BTreeSet<&'static str>) {
    for member in MESSAGES.get(message).into_iter().flatten() {
        match member.1.name.strip_prefix('+') {
            Some(inline) => members(inline, names),
            None => _ = names.insert(member.1.name),
        }
    }
}

#[test]
fn every_member_of_every_kind_has_a_number() {
    let kinds = kinds();
    let mut todo: Vec<&str> = kinds.iter().map(|(_, _, schema)| schema.as_str()).collect();
    todo.extend([
        "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    ]);
    let (mut seen, mut missing) = (BTreeSet::new(), Vec::new());
    while let Some(name) = todo.pop() {
        if !seen.insert(name) {
            continue;
        }
        let schema = schema_named(name).expect("a referenced schema");
        refer(schema, &mut todo);
        let mut numbered = BTreeSet::new();
        members(name, &mut numbered);
        if schema["oneOf"].is_array() && numbered.len() != 2 {
            missing.push(name.to_owned());
        }
        let properties = schema["properties"].as_object();
        for (member, property) in properties.into_iter().flatten() {
            refer(property, &mut todo);
            // An object's version and kind are in the envelope, or implied by the object's
            // position.
            let is_type = ["apiVersion", "kind"].contains(&member.as_str())
                && (schema["properties"].get("metadata").is_some()
                    || name.ends_with(".DeleteOptions"));
            if !numbered.remove(member.as_str()) && !is_type {
                missing.push(format!("{name}.{member}"));
            }
        }
        let unknown = properties.map(|_| numbered).unwrap_or_default();
        assert!(unknown.is_empty(), "{name} has no {unknown:?}");
    }
    assert!(missing.is_empty(), "without a number: {missing:#?}");
    assert!(seen.len() > 400, "{}", seen.len());
}

#[test]
fn a_message_has_each_number_once() {
    let lines = include_str!("messages.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (name, members) = line.split_once(' ').expect("a name and members");
        assert_eq!(MESSAGES[name].len(), members.split(' ').count(), "{name}");
    }
}

/// Generates objects with every member. `turn` selects among alternative forms.
struct Sample {
    turn: usize,
    made: i64,
    within: Vec<&'static str>,
}

impl Sample {
    /// Returns a value. `None` if the schema is nested in itself too deeply.
    fn value(&mut self, property: &'static Value) -> Option<Value> {
        self.made += 1;
        let made = self.made;
        if let Some((name, schema)) = referred(property) {
            let depth = self.within.iter().filter(|within| **within == name);
            if depth.count() > 1 {
                return None;
            }
            self.within.push(name);
            let value = self.named(name, schema);
            self.within.pop();
            return value;
        }
        if let Some(items) = property.get("items") {
            let items = (0..=self.turn).map(|_| self.value(items));
            return items.collect();
        }
        if let Some(each) = property.get("additionalProperties") {
            return Some(json!({format!("key{made}"): self.value(each)?}));
        }
        Some(match (property["type"].as_str(), self.turn) {
            (Some("string"), _) if property["format"] == "byte" => json!("eHl6"),
            (Some("string"), _) => json!(format!("text {made}")),
            (Some("boolean"), _) => json!(true),
            (Some("number"), 0) => json!(made as f64 + 0.25),
            (Some("number"), _) => json!(-made),
            (_, 0) if property["format"] == "int64" => json!(i64::MIN + made),
            (_, 0) => json!(-made),
            _ => json!(made),
        })
    }

    fn named(&mut self, name: &str, schema: &'static Value) -> Option<Value> {
        let made = self.made;
        if let Some(forms) = schema["oneOf"].as_array() {
            let form = self.value(&forms[self.turn]);
            return form.or_else(|| self.value(&forms[1 - self.turn]));
        }
        let is_object = schema["properties"].is_object();
        Some(match name.rsplit('.').next().unwrap_or("") {
            "Time" => json!("2026-01-02T03:04:05Z"),
            "MicroTime" => json!(format!("2026-01-02T03:04:05.{made:06}Z")),
            "Quantity" => json!(format!("{made}m")),
            "IntOrString" if self.turn == 0 => json!("10%"),
            "IntOrString" => json!(made),
            "FieldsV1" => json!({"f:spec": {"f:replicas": {}}}),
            "RawExtension" => json!({"any": [1, {"of": null}]}),
            "JSON" if self.turn == 0 => json!([made, 0.5, null, {"a": {"b": "c"}}]),
            "JSON" => Value::Null,
            _ if is_object => {
                let mut numbered = BTreeSet::new();
                members(name, &mut numbered);
                let properties = schema["properties"].as_object()?.iter();
                let sent = properties.filter(|(member, _)| numbered.contains(member.as_str()));
                let members =
                    sent.map(|(name, property)| Some((name.clone(), self.value(property)?)));
                members.flatten().collect()
            }
            _ if schema["format"] == "byte" => json!("eHl6"),
            _ => json!({}),
        })
    }
}

/// Returns an object with every member that has a number.
fn sample((version, kind, schema): &(&str, &str, String), turn: usize) -> Value {
    let mut sample = Sample {
        turn,
        made: 0,
        within: Vec::new(),
    };
    let of_schema = schema_named(schema).expect("a schema");
    let mut object = sample.named(schema, of_schema).expect("an object");
    object["apiVersion"] = (*version).into();
    object["kind"] = (*kind).into();
    object
}

#[test]
fn every_member_of_every_kind_round_trips() {
    for kind in &kinds() {
        for turn in 0..2 {
            let object = sample(kind, turn);
            let bytes = encode(&object).expect("a known message");
            let read = decode(&bytes).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            assert_eq!(Value::Object(read), object, "{kind:?}");
            for end in (MAGIC.len()..bytes.len()).step_by(97) {
                let _refused_or_shorter = decode(&bytes[..end]);
            }
        }
    }
}
