//! Validation of structural schemas, which define every field.
//!
//! Source: `apiserver/schema` of Kubernetes' `apiextensions-apiserver`; the documentation of
//! CustomResourceDefinitions, "Specifying a structural schema".

use regex_lite::Regex;
use serde_json::Value;

use super::definition::check_default;
use crate::validation::Field;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// The members that limit lengths and counts.
const NUMBERS: [&str; 6] = [
    "maxItems",
    "maxLength",
    "maxProperties",
    "minItems",
    "minLength",
    "minProperties",
];
const LIST_TYPES: [&str; 3] = ["atomic", "map", "set"];

/// Checks the schema of a version.
pub(super) fn check_schema(schema: &Field<'_>) {
    let kind = schema.at("type");
    match kind.value.as_str() {
        Some("object") => check(schema, true),
        None | Some("") => kind.required("must not be empty at the root"),
        Some(_) => kind.invalid("must be object at the root"),
    }
}

fn check(schema: &Field<'_>, is_root: bool) {
    let is_true = |name: &str| schema.value[name] == true;
    let kind = schema.at("type");
    let free =
        is_true("x-kubernetes-int-or-string") || is_true("x-kubernetes-preserve-unknown-fields");
    if kind.text().is_empty() && !free {
        kind.required(match schema.path.rsplit('.').next() {
            Some("items") => "must not be empty for specified array items",
            _ => "must not be empty for specified object fields",
        });
    } else if !kind.text().is_empty() && is_true("x-kubernetes-int-or-string") {
        kind.invalid("must be empty if x-kubernetes-int-or-string is true");
    } else if !kind.text().is_empty() {
        kind.one_of(&TYPES);
    }
    let items = schema.at("items");
    if kind.text() == "array" && !items.value.is_object() {
        items.required("must be specified");
    }
    if is_true("uniqueItems") {
        schema.at("uniqueItems").forbidden(
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        );
    }
    for name in [
        "$ref",
        "definitions",
        "dependencies",
        "patternProperties",
        "id",
    ] {
        let member = schema.at(name);
        if !member.is_null() {
            member.forbidden(format!("{name} is not supported"));
        }
    }
    let others = schema.at("additionalProperties");
    if *others.value == false {
        others.forbidden("additionalProperties cannot be set to false");
    }
    let has_others = others.value.is_object() || *others.value == true;
    let properties = schema.at("properties");
    if has_others && properties.value.is_object() {
        others.forbidden("additionalProperties and properties are mutual exclusive");
    }
    let keeps = schema.at("x-kubernetes-preserve-unknown-fields");
    if *keeps.value == false {
        keeps.invalid("must be true or undefined");
    }
    let pattern = schema.at("pattern");
    if let Some(text) = pattern.value.as_str()
        && let Err(problem) = Regex::new(text)
    {
        pattern.invalid(format!(
            "must be a valid regular expression, but isn't: {problem}"
        ));
    }
    check_bounds(schema);
    check_list_type(schema);
    let default = schema.at("default");
    match default.is_null() {
        true => {}
        false if is_root => default.forbidden("must not be set at the root"),
        false => check_default(schema),
    }
    for (name, of) in properties.entries() {
        match (is_root, name) {
            // Every object has these fields.
            (true, "apiVersion" | "kind") => {}
            (true, "metadata") => check_metadata(&of),
            _ => check(&of, false),
        }
    }
    for of in [items, others] {
        if of.value.is_object() {
            check(&of, false);
        }
    }
    check_rules(schema);
}

/// Checks for limits that no value can satisfy or that have no effect. Upstream accepts them.
fn check_bounds(schema: &Field<'_>) {
    for name in NUMBERS {
        let bound = schema.at(name);
        if !bound.is_null() && bound.value.as_u64().is_none() {
            bound.invalid("must be greater than or equal to 0");
        }
    }
    let factor = schema.at("multipleOf");
    if factor.value.as_f64().is_some_and(|factor| factor <= 0.0) {
        factor.invalid("must be greater than 0");
    }
    // These are schemas with further requirements on the value.
    for name in ["allOf", "anyOf", "oneOf"] {
        schema
            .at(name)
            .items()
            .for_each(|of| check_nested_bounds(&of));
    }
    check_nested_bounds(&schema.at("not"));
}

/// Like [`check_bounds`], for a schema that has no other checks, and for the schemas in it.
fn check_nested_bounds(schema: &Field<'_>) {
    if !schema.value.is_object() {
        return;
    }
    check_bounds(schema);
    let properties = schema.at("properties");
    properties
        .entries()
        .for_each(|(_, of)| check_nested_bounds(&of));
    for name in ["items", "additionalProperties"] {
        check_nested_bounds(&schema.at(name));
    }
}

fn check_list_type(schema: &Field<'_>) {
    let of = schema.at("x-kubernetes-list-type");
    let keys = schema.at("x-kubernetes-list-map-keys");
    let kind = schema.at("type");
    let list_type = of.value.as_str();
    match list_type {
        Some(other) if !LIST_TYPES.contains(&other) => of.one_of(&LIST_TYPES),
        Some(_) if kind.text() != "array" => {
            kind.invalid("must be array if x-kubernetes-list-type is specified");
        }
        _ => {}
    }
    match (list_type, keys.value.as_array()) {
        (Some("map"), None) => {
            keys.required("must not be empty if x-kubernetes-list-type is map");
        }
        (Some("map"), Some(_)) => {
            let items = schema.at("items");
            for key in keys.items() {
                let property = items.at("properties").key(key.text());
                let required = items.value["required"].as_array();
                let is_required = required.is_some_and(|all| all.contains(key.value));
                if !property.value.is_object() {
                    key.invalid("must specify a property of the items");
                } else if !is_required && property.value.get("default").is_none() {
                    property.at("default").required(
                        "this property is in x-kubernetes-list-map-keys, so it must have a \
                         default or be a required property",
                    );
                }
            }
        }
        (_, Some(given)) if !given.is_empty() => {
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            of.invalid_as(list_type.unwrap_or(""), why);
        }
        _ => {}
    }
}

/// Checks that the schema restricts only the names in the metadata.
fn check_metadata(schema: &Field<'_>) {
    let of = schema.at("properties");
    let mut names = of.entries().map(|(name, _)| name);
    if names.any(|name| !["name", "generateName"].contains(&name)) {
        schema.forbidden(
            "must not specify anything other than name and generateName, but metadata is \
             implicitly specified",
        );
    }
}

/// Checks that CEL rules are not empty. They are not enforced.
fn check_rules(schema: &Field<'_>) {
    for rule in schema.at("x-kubernetes-validations").items() {
        let rule = rule.at("rule");
        if rule.text().trim().is_empty() {
            rule.required("rule is not specified");
        }
    }
}

/// Collects the paths of the fields with CEL rules.
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
    use crate::testing::{assert_starts, cases};
    use crate::validation::Checks;

    #[test]
    fn a_schema_must_define_every_field() {
        let table = r#"
{"type": "object"}

{"x-kubernetes-preserve-unknown-fields": true}

{"x-kubernetes-int-or-string": true}

{}
> s.properties[a].type: Required value: must not be empty for specified object fields

{"type": "thing"}
> s.properties[a].type: Unsupported value: "thing"

{"type": "array"}
> s.properties[a].items: Required value: must be specified

{"type": "array", "items": {}}
> s.properties[a].items.type: Required value

{"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": true}
> s.properties[a].additionalProperties: Forbidden

{"type": "string", "pattern": "["}
> s.properties[a].pattern: Invalid value: "["

{"type": "integer", "default": "x"}
> s.properties[a].default: Invalid value: "string"

{"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}
> s.properties[a].x-kubernetes-list-map-keys: Required value

{"type": "string", "minLength": 0, "maxLength": 0, "minimum": -1, "multipleOf": 0.1}

{"type": "string", "maxLength": -1, "minLength": -2}
> s.properties[a].maxLength: Invalid value: -1: must be greater than or equal to 0
> s.properties[a].minLength: Invalid value: -2: must be greater than or equal to 0

{"type": "array", "items": {"type": "object", "maxProperties": -1, "minProperties": -1}, "maxItems": -1, "minItems": -1}
> s.properties[a].maxItems: Invalid value: -1
> s.properties[a].minItems: Invalid value: -1
> s.properties[a].items.maxProperties: Invalid value: -1
> s.properties[a].items.minProperties: Invalid value: -1

{"type": "number", "multipleOf": 0}
> s.properties[a].multipleOf: Invalid value: 0: must be greater than 0

{"type": "string", "anyOf": [{}, {"not": {"allOf": [{"properties": {"b": {"maxLength": -1}}}]}}], "oneOf": [{"multipleOf": -0.5}]}
> s.properties[a].anyOf[1].not.allOf[0].properties[b].maxLength: Invalid value: -1
> s.properties[a].oneOf[0].multipleOf: Invalid value: -0.5

{"type": "object", "$ref": "x"}
> s.properties[a].$ref: Forbidden
"#;
        for (of, wanted) in cases(table) {
            let checks = Checks::default();
            let schema = json!({"type": "object", "properties": {"a": of}});
            check_schema(&checks.value("s", &schema));
            let told = checks.found();
            let told = told
                .iter()
                .map(|it| format!("{}: {}", it.field, it.message));
            assert_starts(&told.collect::<Vec<_>>(), &wanted, &schema);
        }
        let checks = Checks::default();
        check_schema(&checks.value("s", &json!({"type": "string"})));
        assert_eq!(
            checks.found()[0].message,
            "Invalid value: \"string\": must be object at the root"
        );
    }
}
