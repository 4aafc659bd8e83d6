//! Validation of custom objects against their schemas, with upstream's messages.
//!
//! Source: `kube-openapi/pkg/validation` as Kubernetes' `apiextensions-apiserver` reports it.
//! Values that an update does not change are not checked again.

use std::collections::BTreeMap;

use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, Map, Time};
use regex_lite::Regex;
use serde_json::Value;

use super::structural::OF_OBJECTS;
use crate::Places;
use crate::errors::{duplicate, invalid_value, not_supported, required, too_long, too_many};
use crate::time_limit;
use crate::validation::{Causes, names};

/// Returns the rules that a value breaks. `old` is the previous value, if there is one.
pub(super) fn check(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Broken::default();
    value(schema, new, old, &Path::ROOT, &mut causes);
    causes.all.found()
}

/// Returns the rules that a default at `path` of a definition breaks.
pub(super) fn check_at(schema: &Value, new: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Broken::default();
    value(schema, new, None, &Path::ROOT.member(path), &mut causes);
    causes.all.found()
}

/// The broken rules, and caches of data that the schema determines.
#[derive(Default)]
struct Broken<'s> {
    all: Causes,
    /// The compiled patterns, so that each is compiled once; `None` for an invalid pattern.
    patterns: BTreeMap<&'s str, Option<Regex>>,
    /// The allowed values of each schema with an enumeration, by the schema's address.
    enums: BTreeMap<*const Value, Places<&'s Value>>,
}

impl<'s> Broken<'s> {
    fn push(&mut self, cause: Cause) {
        self.all.push(cause);
    }

    fn matches(&mut self, pattern: &'s str, text: &str) -> bool {
        let pattern = self
            .patterns
            .entry(pattern)
            .or_insert_with_key(|pattern| Regex::new(pattern).ok());
        pattern
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(text))
    }

    /// Reports whether a value obeys `schema`. Adds no causes.
    fn fits(&mut self, schema: &'s Value, new: &Value, path: &Path<'_>) -> bool {
        let found = std::mem::replace(&mut self.all, Causes::until_first());
        value(schema, new, None, path, self);
        std::mem::replace(&mut self.all, found).found().is_empty()
    }
}

/// Returns a cause with upstream's phrase "… in body …" about the field.
fn in_body(path: &Path<'_>, value: &Value, what: &str) -> Cause {
    let path = path.to_string();
    let what = format!("{path} in body {what}");
    invalid_value(path, value, &what)
}

fn value<'s>(
    schema: &'s Value,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    causes: &mut Broken<'s>,
) {
    if old == Some(new) || new.is_null() && schema["nullable"] == true {
        return;
    }
    // A cause may quote a long pattern or a long enumeration, and each entry may be checked
    // against thousands of alternatives.
    if causes.all.is_full() || time_limit::is_over() {
        return;
    }
    if let Some(wrong) = wrong_type(schema, new) {
        causes.push(type_invalid(path, new, &wrong));
        return;
    }
    enumerated(schema, new, path, causes);
    match new {
        Value::String(text) => check_text(schema, text, path, causes),
        Value::Number(number) => check_number(schema, number, path, causes),
        Value::Array(entries) => check_list(schema, entries, old, path, causes),
        Value::Object(members) => check_members(schema, members, old, path, causes),
        _ => {}
    }
    combined(schema, new, path, causes);
}

/// Returns the type that the schema requires; `None` if the value has it.
fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if schema["x-kubernetes-int-or-string"] == true {
        let fits = value.is_string() || value.as_f64().is_some_and(is_whole);
        return (!fits).then(|| "integer,string".to_owned());
    }
    let wanted = schema["type"]
        .as_str()
        .filter(|wanted| !wanted.is_empty())?;
    let fits = match wanted {
        "integer" => value.as_f64().is_some_and(is_whole),
        "number" => value.is_number(),
        other => type_of(value) == other,
    };
    (!fits).then(|| wanted.to_owned())
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0
}

/// Returns the JSON name of a value's type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn type_invalid(path: &Path<'_>, found: &Value, wanted: &str) -> Cause {
    let found = type_of(found);
    let what = format!("must be of type {wanted}: {found:?}");
    Cause {
        reason: "FieldValueTypeInvalid".to_owned(),
        ..in_body(path, &found.into(), &what)
    }
}

fn enumerated<'s>(schema: &'s Value, value: &Value, path: &Path<'_>, causes: &mut Broken<'s>) {
    let Some(allowed) = schema["enum"].as_array() else {
        return;
    };
    let known = causes.enums.entry(std::ptr::from_ref(schema));
    let known = known.or_insert_with(|| allowed.iter().collect());
    if known.contains(&value) {
        return;
    }
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let allowed: Vec<String> = allowed.iter().map(text).collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    causes.push(not_supported(path.to_string(), &text(value), &allowed));
}

fn check_text<'s>(schema: &'s Value, text: &str, path: &Path<'_>, causes: &mut Broken<'s>) {
    let value: Value = text.into();
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
        causes.push(too_long(path.to_string(), most));
    }
    if let Some(least) = schema["minLength"].as_u64().filter(|least| length < *least) {
        causes.push(in_body(
            path,
            &value,
            &format!("should be at least {least} chars long"),
        ));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !causes.matches(pattern, text)
    {
        causes.push(in_body(path, &value, &format!("should match '{pattern}'")));
    }
    if let Some(format) = schema["format"].as_str()
        && !has_format(format, text)
    {
        let what = format!("must be of type {format}: {text:?}");
        causes.push(Cause {
            reason: "FieldValueTypeInvalid".to_owned(),
            ..in_body(path, &value, &what)
        });
    }
}

/// Reports whether a string has a format. Formats that upstream doesn't know are not checked.
fn has_format(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<Time>().is_ok(),
        "date" => format!("{text}T00:00:00Z").parse::<Time>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "cidr" => names::is_range(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => {
            let groups: Vec<&str> = text.split('-').collect();
            let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
            let is_hex = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
            lengths == [8, 4, 4, 4, 12] && groups.iter().all(is_hex)
        }
        _ => true,
    }
}

fn check_number<'s>(
    schema: &'s Value,
    number: &serde_json::Number,
    path: &Path<'_>,
    causes: &mut Broken<'s>,
) {
    let (value, number) = (
        Value::Number(number.clone()),
        number.as_f64().unwrap_or(f64::NAN),
    );
    let mut bound = |name: &str, exclusive: &str, words: [&str; 2], fits: fn(f64, f64) -> bool| {
        let Some(limit) = schema[name].as_f64() else {
            return;
        };
        let is_exclusive = schema[exclusive] == true;
        if !fits(number, limit) || is_exclusive && number == limit {
            let words = words[usize::from(is_exclusive)];
            causes.push(in_body(path, &value, &format!("should be {words} {limit}")));
        }
    };
    let words = ["less than or equal to", "less than"];
    bound("maximum", "exclusiveMaximum", words, |number, limit| {
        number <= limit
    });
    let words = ["greater than or equal to", "greater than"];
    bound("minimum", "exclusiveMinimum", words, |number, limit| {
        number >= limit
    });
    if let Some(factor) = schema["multipleOf"].as_f64()
        && !is_whole(number / factor)
    {
        causes.push(in_body(
            path,
            &value,
            &format!("should be a multiple of {factor}"),
        ));
    }
}

fn check_list<'s>(
    schema: &'s Value,
    entries: &[Value],
    old: Option<&Value>,
    path: &Path<'_>,
    causes: &mut Broken<'s>,
) {
    let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    if let Some(most) = schema["maxItems"].as_u64().filter(|most| count > *most) {
        causes.push(too_many(path.to_string(), entries.len(), most));
    }
    if let Some(least) = schema["minItems"].as_u64().filter(|least| count < *least) {
        let (what, value) = (format!("should have at least {least} items"), count.into());
        causes.push(in_body(path, &value, &what));
    }
    let key = key_of(schema);
    let mut seen = Places::default();
    let old = old.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let old_keys: Places<Option<Value>> = old.iter().map(&key).collect();
    for (number, entry) in entries.iter().enumerate() {
        let at = path.item(number);
        // An entry without a key has no counterpart in the old list.
        let own = key(entry);
        let before = own.as_ref().and_then(|_| old_keys.position(&own));
        value(
            &schema["items"],
            entry,
            before.map(|place| &old[place]),
            &at,
            causes,
        );
        let Some(own) = own else {
            continue;
        };
        if seen.contains(&own) {
            let shown = invalid_value("", &own, "").message;
            let shown = shown.strip_prefix("Invalid value: ").unwrap_or(&shown);
            causes.push(duplicate(at.to_string(), shown.trim_end_matches(": ")));
        }
        seen.push(own);
    }
}

/// Returns a function for the identity of a list's entries: their keys, or the entries themselves.
/// The function returns `None` for the entries of an atomic list.
fn key_of(schema: &Value) -> impl Fn(&Value) -> Option<Value> {
    let kind = schema["x-kubernetes-list-type"].as_str().unwrap_or("");
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    move |entry| match kind {
        "set" => Some(entry.clone()),
        "map" => {
            let names = keys.into_iter().flatten().filter_map(Value::as_str);
            let pairs = names.map(|name| {
                let default = &schema["items"]["properties"][name]["default"];
                let value = entry.get(name).unwrap_or(default);
                (name.to_owned(), value.clone())
            });
            Some(Value::Object(pairs.collect()))
        }
        _ => None,
    }
}

fn check_members<'s>(
    schema: &'s Value,
    members: &Map,
    old: Option<&Value>,
    path: &Path<'_>,
    causes: &mut Broken<'s>,
) {
    let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
    if let Some(most) = schema["maxProperties"]
        .as_u64()
        .filter(|most| count > *most)
    {
        causes.push(too_many(path.to_string(), members.len(), most));
    }
    if let Some(least) = schema["minProperties"]
        .as_u64()
        .filter(|least| count < *least)
    {
        let what = format!("should have at least {least} properties");
        causes.push(in_body(path, &count.into(), &what));
    }
    let is_root = path.is_root();
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        let is_of_objects = is_root && OF_OBJECTS.contains(&name);
        if !is_of_objects && !members.contains_key(name) {
            causes.push(required(path.member(name).to_string(), ""));
        }
    }
    for (name, member) in members {
        // These members are validated like those of any object.
        if is_root && OF_OBJECTS.contains(&name.as_str()) {
            continue;
        }
        let others = &schema["additionalProperties"];
        let of = schema["properties"].get(name.as_str());
        if let Some(of) = of.or_else(|| others.is_object().then_some(others)) {
            let before = old.and_then(|old| old.get(name));
            value(of, member, before, &path.member(name), causes);
        }
    }
}

/// Checks `allOf`, `anyOf`, `oneOf` and `not`.
fn combined<'s>(schema: &'s Value, new: &Value, path: &Path<'_>, causes: &mut Broken<'s>) {
    let mut fitting = |name: &str| {
        let all = schema[name].as_array()?;
        let fits = |of: &&'s Value| causes.fits(of, new, path);
        Some((all.iter().filter(fits).count(), all.len()))
    };
    let (any, one, all) = (fitting("anyOf"), fitting("oneOf"), fitting("allOf"));
    let is_not = |not| causes.fits(not, new, path);
    let is_not = schema.get("not").is_some_and(is_not);
    // Upstream's error names no field here.
    let mut broken = |what: &str| {
        causes.push(invalid_value(
            "<nil>",
            &"".into(),
            &format!("{:?} {what}", path.to_string()),
        ));
    };
    if let Some((0, _)) = any.filter(|_| schema["x-kubernetes-int-or-string"] != true) {
        broken("must validate at least one schema (anyOf)");
    }
    match one {
        Some((0, _)) => {
            broken("must validate one and only one schema (oneOf). Found none valid");
        }
        Some((number, _)) if number > 1 => {
            broken(&format!(
                "must validate one and only one schema (oneOf). Found {number} valid alternatives"
            ));
        }
        _ => {}
    }
    if all.is_some_and(|(number, all)| number < all) {
        broken("must validate all the schemas (allOf)");
    }
    if is_not {
        broken("must not validate the schema (not)");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::cases;

    fn told(schema: &Value, value: &Value) -> Vec<String> {
        let causes = check(schema, value, None);
        let told = causes
            .into_iter()
            .map(|it| format!("{}: {}", it.field, it.message));
        told.collect()
    }

    #[test]
    fn every_rule_of_a_schema_is_checked_with_upstreams_message() {
        // Pairs of a schema and a value to check.
        let table = r#"
[{"type": "integer"}, 3.0]

[{"type": "integer"}, "x"]
> a: Invalid value: "string": a in body must be of type integer: "string"

[{"type": "string", "nullable": true}, null]

[{"type": "string"}, null]
> a: Invalid value: "null": a in body must be of type string: "null"

[{"x-kubernetes-int-or-string": true}, "5%"]

[{"x-kubernetes-int-or-string": true}, true]
> a: Invalid value: "boolean": a in body must be of type integer,string: "boolean"

[{"type": "integer", "minimum": 0}, -3]
> a: Invalid value: -3: a in body should be greater than or equal to 0

[{"type": "number", "maximum": 2, "exclusiveMaximum": true}, 2]
> a: Invalid value: 2: a in body should be less than 2

[{"type": "integer", "multipleOf": 3}, 4]
> a: Invalid value: 4: a in body should be a multiple of 3

[{"type": "string", "maxLength": 1}, "ab"]
> a: Too long: may not be more than 1 bytes

[{"type": "string", "minLength": 3}, "ab"]
> a: Invalid value: "ab": a in body should be at least 3 chars long

[{"type": "string", "pattern": "^[a-z]+$"}, "A"]
> a: Invalid value: "A": a in body should match '^[a-z]+$'

[{"type": "string", "format": "date-time"}, "soon"]
> a: Invalid value: "soon": a in body must be of type date-time: "soon"

[{"type": "string", "enum": ["x", "y"]}, "z"]
> a: Unsupported value: "z": supported values: "x", "y"

[{"type": "array", "maxItems": 1}, [1, 2]]
> a: Too many: 2: must have at most 1 items

[{"type": "array", "minItems": 1}, []]
> a: Invalid value: 0: a in body should have at least 1 items

[{"type": "array", "x-kubernetes-list-type": "set"}, ["x", "x"]]
> a[1]: Duplicate value: "x"

[{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]}, [{"n": "x"},
    {"n": "x", "b": 1}]]
> a[1]: Duplicate value: {"n":"x"}

[{"type": "object", "required": ["b"]}, {}]
> a.b: Required value

[{"type": "object", "additionalProperties": {"type": "boolean"}}, {"k": 1}]
> a.k: Invalid value: "integer": a.k in body must be of type boolean: "integer"

[{"anyOf": [{"required": ["x"]}, {"required": ["y"]}], "type": "object"}, {}]
> <nil>: Invalid value: "": "a" must validate at least one schema (anyOf)

[{"not": {"required": ["x"]}, "type": "object"}, {"x": 1}]
> <nil>: Invalid value: "": "a" must not validate the schema (not)
"#;
        for (case, wanted) in cases(table) {
            let schema = json!({"type": "object", "properties": {"a": case[0]}});
            assert_eq!(told(&schema, &json!({"a": case[1]})), wanted, "{case}");
        }
    }

    #[test]
    fn unchanged_values_of_an_update_are_not_checked_again() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties":
            {"size": {"type": "integer", "maximum": 3}, "name": {"type": "string"}}}}});
        let old = json!({"spec": {"size": 5, "name": "a"}});
        let kept = json!({"spec": {"size": 5, "name": "b"}});
        assert_eq!(check(&schema, &kept, Some(&old)), []);
        let worse = json!({"spec": {"size": 6, "name": "a"}});
        assert_eq!(check(&schema, &worse, Some(&old)).len(), 1);
    }
}
