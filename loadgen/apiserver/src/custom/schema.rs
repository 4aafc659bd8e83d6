//! Whether a schema is structural: whether it says of every member what it is.
//!
//! Source: `apiserver/schema` of Kubernetes' `apiextensions-apiserver`; the documentation of
//! CustomResourceDefinitions, "Specifying a structural schema".

use podstorm_objects::Cause;
use regex_lite::Regex;
use serde_json::Value;

use super::definition::check_default;
use crate::errors::{forbidden_field, invalid_value, not_supported, required};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const LIST_TYPES: [&str; 3] = ["atomic", "map", "set"];

/// The rules that the schema of a version breaks.
pub(super) fn check_schema(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    match schema["type"].as_str() {
        Some("object") => {}
        None | Some("") => {
            causes.push(required(
                format!("{at}.type"),
                "must not be empty at the root",
            ));
            return;
        }
        Some(_) => {
            let why = "must be object at the root";
            causes.push(invalid_value(format!("{at}.type"), &schema["type"], why));
            return;
        }
    }
    check(schema, at, true, causes);
}

fn check(schema: &Value, at: &str, is_root: bool, causes: &mut Vec<Cause>) {
    let is_true = |name: &str| schema[name] == true;
    let field = |name: &str| format!("{at}.{name}");
    let kind = schema["type"].as_str().unwrap_or("");
    let free =
        is_true("x-kubernetes-int-or-string") || is_true("x-kubernetes-preserve-unknown-fields");
    if kind.is_empty() && !free {
        let what = match at.rsplit('.').next() {
            Some("items") => "must not be empty for specified array items",
            _ => "must not be empty for specified object fields",
        };
        causes.push(required(field("type"), what));
    } else if !kind.is_empty() && is_true("x-kubernetes-int-or-string") {
        let why = "must be empty if x-kubernetes-int-or-string is true";
        causes.push(invalid_value(field("type"), &kind.into(), why));
    } else if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(not_supported(field("type"), kind, &TYPES));
    }
    if kind == "array" && !schema["items"].is_object() {
        causes.push(required(field("items"), "must be specified"));
    }
    if schema["uniqueItems"] == true {
        let why =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(forbidden_field(field("uniqueItems"), why));
    }
    for name in [
        "$ref",
        "definitions",
        "dependencies",
        "patternProperties",
        "id",
    ] {
        if !schema[name].is_null() {
            causes.push(forbidden_field(
                field(name),
                &format!("{name} is not supported"),
            ));
        }
    }
    if schema["additionalProperties"] == false {
        let why = "additionalProperties cannot be set to false";
        causes.push(forbidden_field(field("additionalProperties"), why));
    }
    let has_others = schema["additionalProperties"].is_object() || is_true("additionalProperties");
    if has_others && schema["properties"].is_object() {
        let why = "additionalProperties and properties are mutual exclusive";
        causes.push(forbidden_field(field("additionalProperties"), why));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let why = "must be true or undefined";
        let name = field("x-kubernetes-preserve-unknown-fields");
        causes.push(invalid_value(name, &false.into(), why));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(problem) = Regex::new(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {problem}");
        causes.push(invalid_value(field("pattern"), &pattern.into(), &why));
    }
    check_list_type(schema, at, causes);
    if schema
        .get("default")
        .is_some_and(|default| !default.is_null())
    {
        match is_root {
            true => causes.push(forbidden_field(
                field("default"),
                "must not be set at the root",
            )),
            false => check_default(schema, at, causes),
        }
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        match (is_root, name.as_str()) {
            // What objects have anyway.
            (true, "apiVersion" | "kind") => {}
            (true, "metadata") => check_metadata(of, &field("properties[metadata]"), causes),
            _ => check(of, &format!("{at}.properties[{name}]"), false, causes),
        }
    }
    for name in ["items", "additionalProperties"] {
        if schema[name].is_object() {
            check(&schema[name], &field(name), false, causes);
        }
    }
    check_rules(schema, at, causes);
}

fn check_list_type(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let name = format!("{at}.x-kubernetes-list-type");
    let keys = format!("{at}.x-kubernetes-list-map-keys");
    let list_type = schema["x-kubernetes-list-type"].as_str();
    match list_type {
        Some(other) if !LIST_TYPES.contains(&other) => {
            causes.push(not_supported(name.clone(), other, &LIST_TYPES));
        }
        Some(_) if schema["type"] != "array" => {
            let why = "must be array if x-kubernetes-list-type is specified";
            causes.push(invalid_value(format!("{at}.type"), &schema["type"], why));
        }
        _ => {}
    }
    let given = schema["x-kubernetes-list-map-keys"].as_array();
    match (list_type, given) {
        (Some("map"), None) => {
            let why = "must not be empty if x-kubernetes-list-type is map";
            causes.push(required(keys, why));
        }
        (Some("map"), Some(given)) => {
            for (number, key) in given.iter().enumerate() {
                let key_name = key.as_str().unwrap_or("");
                let property = &schema["items"]["properties"][key_name];
                let is_required = schema["items"]["required"]
                    .as_array()
                    .is_some_and(|all| all.contains(key));
                if !property.is_object() {
                    let why = "must specify a property of the items";
                    causes.push(invalid_value(format!("{keys}[{number}]"), key, why));
                } else if !is_required && property.get("default").is_none() {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a \
                               default or be a required property";
                    let field = format!("{at}.items.properties[{key_name}].default");
                    causes.push(required(field, why));
                }
            }
        }
        (_, Some(given)) if !given.is_empty() => {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            causes.push(invalid_value(name, &list_type.unwrap_or("").into(), why));
        }
        _ => {}
    }
}

/// Of metadata, names may be restricted, nothing else.
fn check_metadata(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let of = schema["properties"].as_object().into_iter().flatten();
    let mut others = of.filter(|(name, _)| !["name", "generateName"].contains(&name.as_str()));
    if others.next().is_some() {
        let why = "must not specify anything other than name and generateName, but metadata is \
                   implicitly specified";
        causes.push(forbidden_field(at, why));
    }
}

/// Rules in CEL must be texts; they are not enforced.
fn check_rules(schema: &Value, at: &str, causes: &mut Vec<Cause>) {
    let rules = schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten();
    for (number, rule) in rules.enumerate() {
        if rule["rule"].as_str().unwrap_or("").trim().is_empty() {
            let field = format!("{at}.x-kubernetes-validations[{number}].rule");
            causes.push(required(field, "rule is not specified"));
        }
    }
}

/// The paths of the members that have rules in CEL.
pub(super) fn with_rules(schema: &Value, at: &str, found: &mut Vec<String>) {
    if schema["x-kubernetes-validations"]
        .as_array()
        .is_some_and(|rules| !rules.is_empty())
    {
        found.push(if at.is_empty() {
            "the object".to_owned()
        } else {
            at.to_owned()
        });
    }
    let dot = if at.is_empty() { "" } else { "." };
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        with_rules(of, &format!("{at}{dot}{name}"), found);
    }
    for (name, suffix) in [("items", "[*]"), ("additionalProperties", ".*")] {
        if schema[name].is_object() {
            with_rules(&schema[name], &format!("{at}{suffix}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_must_say_of_every_member_what_it_is() {
        for (of, problem) in [
            (json!({"type": "object"}), ""),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), ""),
            (json!({"x-kubernetes-int-or-string": true}), ""),
            (
                json!({}),
                ".type: Required value: must not be empty for specified object fields",
            ),
            (
                json!({"type": "thing"}),
                ".type: Unsupported value: \"thing\"",
            ),
            (
                json!({"type": "array"}),
                ".items: Required value: must be specified",
            ),
            (
                json!({"type": "array", "items": {}}),
                ".items.type: Required value",
            ),
            (
                json!({"type": "object", "properties": {"b": {"type": "string"}},
                "additionalProperties": true}),
                ".additionalProperties: Forbidden",
            ),
            (
                json!({"type": "string", "pattern": "["}),
                ".pattern: Invalid value: \"[\"",
            ),
            (
                json!({"type": "integer", "default": "x"}),
                ".default: Invalid value: \"string\"",
            ),
            (
                json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
                ".x-kubernetes-list-map-keys: Required value",
            ),
            (json!({"type": "object", "$ref": "x"}), ".$ref: Forbidden"),
        ] {
            let mut causes = Vec::new();
            let schema = json!({"type": "object", "properties": {"a": of}});
            check_schema(&schema, "s", &mut causes);
            let told: Vec<String> = causes
                .iter()
                .map(|it| format!("{}: {}", it.field, it.message))
                .collect();
            let fits = match problem {
                "" => told.is_empty(),
                problem => {
                    told.len() == 1 && told[0].starts_with(&format!("s.properties[a]{problem}"))
                }
            };
            assert!(fits, "{schema}: {told:?}");
        }
        let mut causes = Vec::new();
        check_schema(&json!({"type": "string"}), "s", &mut causes);
        assert_eq!(
            causes[0].message,
            "Invalid value: \"string\": must be object at the root"
        );
    }
}
