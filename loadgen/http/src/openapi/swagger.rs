//! OpenAPI v2: one document for all groups, for older clients, and for kubectl if it does not find
//! a kind in v3. The document is served as JSON, and as the protobuf that kubectl requests.
//!
//! Source: `kube-openapi`'s conversion of v3; `OpenAPIv2.proto` of gnostic.

use serde_json::{Map, Value, json};

use super::REFERENCE;
use crate::protobuf::wire::Writer;

/// The prefix of references to definitions.
const DEFINITION: &str = "#/definitions/";
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// Merges the v3 documents into a v2 document. O(bytes).
pub(super) fn document(documents: impl Iterator<Item = Value>) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for mut document in documents {
        if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
            for (name, schema) in std::mem::take(schemas) {
                definitions.entry(name).or_insert_with(|| of_schema(schema));
            }
        }
        if let Some(Value::Object(all)) = document.get_mut("paths") {
            paths.extend(
                std::mem::take(all)
                    .into_iter()
                    .map(|(path, item)| (path, of_item(item))),
            );
        }
    }
    json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "1.36"}, "paths": paths,
        "definitions": definitions})
}

/// Converts a schema to v2, where a reference with a description needs no `allOf`.
fn of_schema(schema: Value) -> Value {
    match schema {
        Value::Object(members) => {
            let mut converted = Map::new();
            for (name, value) in members {
                match (name.as_str(), value) {
                    ("$ref", Value::String(to)) => {
                        let to = to.replace(REFERENCE, DEFINITION);
                        converted.insert(name, to.into());
                    }
                    ("allOf", Value::Array(all)) if all.len() == 1 => {
                        for one in all {
                            if let Value::Object(one) = of_schema(one) {
                                converted.extend(one);
                            }
                        }
                    }
                    ("nullable", _) => {}
                    (_, value) => drop(converted.insert(name, of_schema(value))),
                }
            }
            converted.into()
        }
        Value::Array(all) => all.into_iter().map(of_schema).collect(),
        other => other,
    }
}

fn of_item(item: Value) -> Value {
    let Value::Object(members) = item else {
        return item;
    };
    let converted = members.into_iter().map(|(name, value)| {
        let value = match name.as_str() {
            "parameters" => of_parameters(value),
            _ => of_operation(value),
        };
        (name, value)
    });
    converted.collect()
}

fn of_parameters(all: Value) -> Value {
    let Value::Array(all) = all else { return all };
    let converted = all.into_iter().map(|mut parameter| {
        let kind = parameter["schema"]["type"].take();
        if let Some(members) = parameter.as_object_mut() {
            members.remove("schema");
            members.insert("type".to_owned(), kind);
            members.insert("uniqueItems".to_owned(), true.into());
        }
        parameter
    });
    converted.collect()
}

fn of_operation(mut operation: Value) -> Value {
    let Some(members) = operation.as_object_mut() else {
        return operation;
    };
    let parameters = members.remove("parameters").unwrap_or_else(|| json!([]));
    let Value::Array(mut parameters) = of_parameters(parameters) else {
        return operation;
    };
    if let Some(body) = members.remove("requestBody") {
        let content = body["content"].as_object().cloned().unwrap_or_default();
        let forms: Vec<String> = content.keys().cloned().collect();
        if let Some(content) = content.into_iter().next() {
            let mut sent = json!({"name": "body", "in": "body",
                "schema": of_schema(content.1["schema"].clone())});
            if body["required"] == true {
                sent["required"] = true.into();
            }
            parameters.insert(0, sent);
        }
        members.insert("consumes".to_owned(), forms.into());
    }
    if !parameters.is_empty() {
        members.insert("parameters".to_owned(), parameters.into());
    }
    let mut forms = Vec::new();
    let answers = members.remove("responses").unwrap_or_default();
    let answers = answers.as_object().cloned().unwrap_or_default();
    let answers: Map<String, Value> = answers
        .into_iter()
        .map(|(code, answer)| {
            let mut converted = json!({"description": answer["description"]});
            let content = answer["content"].as_object();
            if let Some((_, first)) = content.and_then(|content| content.iter().next()) {
                forms = content.into_iter().flat_map(Map::keys).cloned().collect();
                converted["schema"] = of_schema(first["schema"].clone());
            }
            (code, converted)
        })
        .collect();
    members.insert("produces".to_owned(), forms.into());
    members.insert("responses".to_owned(), answers.into());
    operation
}

/// Encodes the document as protobuf. O(bytes).
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    put_text(&mut out, 1, &document["swagger"]);
    out.message(2, |out| {
        put_text(out, 1, &document["info"]["title"]);
        put_text(out, 2, &document["info"]["version"]);
    });
    out.message(8, |out| put_named(out, 2, &document["paths"], put_item));
    out.message(9, |out| {
        put_named(out, 1, &document["definitions"], put_schema)
    });
    out.into_bytes()
}

fn put_text(out: &mut Writer, number: u32, text: &Value) {
    if let Some(text) = text.as_str() {
        out.bytes(number, text.as_bytes());
    }
}

fn put_texts(out: &mut Writer, number: u32, texts: &Value) {
    for text in texts.as_array().into_iter().flatten() {
        put_text(out, number, text);
    }
}

/// Encodes each member of an object as a message with a name and a value.
fn put_named(out: &mut Writer, number: u32, members: &Value, put: fn(&mut Writer, &Value)) {
    for (name, value) in members.as_object().into_iter().flatten() {
        out.message(number, |out| {
            out.bytes(1, name.as_bytes());
            out.message(2, |out| put(out, value));
        });
    }
}

/// Encodes any value as YAML, of which JSON is a subset.
fn put_any(out: &mut Writer, value: &Value) {
    out.bytes(2, value.to_string().as_bytes());
}

/// Encodes the members whose names begin with `x-`.
fn put_extensions(out: &mut Writer, number: u32, of: &Value) {
    let members = of.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(name, _)| name.starts_with("x-")) {
        out.message(number, |out| {
            out.bytes(1, name.as_bytes());
            out.message(2, |out| put_any(out, value));
        });
    }
}

fn put_schema(out: &mut Writer, schema: &Value) {
    put_text(out, 1, &schema["$ref"]);
    put_text(out, 2, &schema["format"]);
    put_text(out, 4, &schema["description"]);
    if let Some(value) = schema.get("default") {
        out.message(5, |out| put_any(out, value));
    }
    put_texts(out, 19, &schema["required"]);
    for value in schema["enum"].as_array().into_iter().flatten() {
        out.message(20, |out| put_any(out, value));
    }
    match &schema["additionalProperties"] {
        Value::Bool(may) => out.message(21, |out| out.number(2, i64::from(*may))),
        Value::Null => {}
        of => out.message(21, |out| out.message(1, |out| put_schema(out, of))),
    }
    if schema["type"].is_string() {
        out.message(22, |out| put_text(out, 1, &schema["type"]));
    }
    if schema["items"].is_object() {
        out.message(23, |out| {
            out.message(1, |out| put_schema(out, &schema["items"]))
        });
    }
    if schema["properties"].is_object() {
        out.message(25, |out| {
            put_named(out, 1, &schema["properties"], put_schema)
        });
    }
    put_extensions(out, 31, schema);
}

fn put_item(out: &mut Writer, item: &Value) {
    for (method, number) in METHODS.into_iter().zip([2, 3, 4, 5, 8]) {
        if item[method].is_object() {
            out.message(number, |out| put_operation(out, &item[method]));
        }
    }
    for parameter in item["parameters"].as_array().into_iter().flatten() {
        out.message(9, |out| put_parameter(out, parameter));
    }
}

fn put_operation(out: &mut Writer, operation: &Value) {
    put_texts(out, 1, &operation["tags"]);
    put_text(out, 5, &operation["operationId"]);
    put_texts(out, 6, &operation["produces"]);
    put_texts(out, 7, &operation["consumes"]);
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        out.message(8, |out| put_parameter(out, parameter));
    }
    out.message(9, |out| {
        put_named(out, 1, &operation["responses"], put_answer)
    });
    put_extensions(out, 13, operation);
}

fn put_answer(out: &mut Writer, answer: &Value) {
    out.message(1, |out| {
        put_text(out, 1, &answer["description"]);
        if answer["schema"].is_object() {
            out.message(2, |out| {
                out.message(1, |out| put_schema(out, &answer["schema"]))
            });
        }
    });
}

fn put_parameter(out: &mut Writer, parameter: &Value) {
    let required = parameter["required"] == true;
    if parameter["in"] == "body" {
        return out.message(1, |out| {
            out.message(1, |out| {
                put_text(out, 2, &parameter["name"]);
                put_text(out, 3, &parameter["in"]);
                if required {
                    out.number(4, 1);
                }
                out.message(5, |out| put_schema(out, &parameter["schema"]));
            });
        });
    }
    let is_query = parameter["in"] == "query";
    // The message of a query parameter has an additional field, `allowEmptyValue`, which shifts the
    // numbers of the fields after it.
    let (place, kind, unique) = if is_query { (3, 6, 20) } else { (4, 5, 19) };
    out.message(1, |out| {
        out.message(2, |out| {
            out.message(place, |out| {
                if required {
                    out.number(1, 1);
                }
                put_text(out, 2, &parameter["in"]);
                put_text(out, 3, &parameter["description"]);
                put_text(out, 4, &parameter["name"]);
                put_text(out, kind, &parameter["type"]);
                out.number(unique, 1);
            });
        });
    });
}
