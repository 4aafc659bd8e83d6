//! Members of a wrong type, in the words of Kubernetes' decoder.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use base64::{DecodeError, DecodeSliceError};
use podstorm_objects::{Kind, Quantity, Time, is_canonical_quantity};
use serde_json::{Map, Value};

use super::{OBJECT_META, referred, schema_named, schema_of_kind};
use crate::json_syntax;

/// The first member whose value can't be its type's; `None` where all fit. Members that the kind doesn't
/// have are not looked at.
///
/// Source: `UnmarshalTypeError` of Go's `encoding/json`, by way of `sigs.k8s.io/json`.
pub(crate) fn wrong_type(kind: Kind, object: &Map<String, Value>) -> Option<String> {
    if kind.row().custom.is_some() {
        // Upstream's server knows no Go type for them but that of metadata, which has no path then.
        let metadata = object.get("metadata")?.as_object()?;
        return members(schema_named(OBJECT_META)?, OBJECT_META, metadata, "");
    }
    members(&*schema_of_kind(kind)?, kind.name(), object, "")
}

/// As [`wrong_type`], in the words of the conversion that strategic patches go through.
///
/// Source: `FromUnstructured` of apimachinery's `runtime` package.
pub(crate) fn wrong_conversion(kind: Kind, object: &Map<String, Value>) -> Option<String> {
    unconvertible_members(&*schema_of_kind(kind)?, object)
}

fn unconvertible_members(schema: &Value, object: &Map<String, Value>) -> Option<String> {
    let known = schema.get("properties")?.as_object()?;
    object
        .iter()
        .find_map(|(name, member)| unconvertible(known.get(name)?, member))
}

fn unconvertible(property: &Value, found: &Value) -> Option<String> {
    if found.is_null() {
        return None;
    }
    let (name, schema) = referred(property).unwrap_or(("", property));
    let last = name.rsplit('.').next().unwrap_or("");
    // Types that read themselves.
    if ["Quantity", "Time", "MicroTime", "IntOrString"].contains(&last) {
        let at = Place {
            field: "",
            path: "",
        };
        return value(property, found, at);
    }
    let source = match found {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) | Value::Null => "map",
    };
    match (schema["type"].as_str().unwrap_or(""), found) {
        ("array", Value::Array(items)) => {
            let each = schema.get("items")?;
            items.iter().find_map(|item| unconvertible(each, item))
        }
        ("array", _) => Some(format!("cannot restore slice from {source}")),
        ("object", Value::Object(object)) => match schema.get("additionalProperties") {
            Some(each) => object.values().find_map(|entry| unconvertible(each, entry)),
            None => unconvertible_members(schema, object),
        },
        ("object", _) => Some(match schema.get("additionalProperties") {
            Some(_) => format!("cannot restore map from {source}"),
            None => format!("cannot restore struct from: {source}"),
        }),
        ("string", Value::String(text)) if schema["format"] == "byte" => wrong_base64(text),
        ("string", Value::String(_))
        | ("boolean", Value::Bool(_))
        | ("number", Value::Number(_)) => None,
        ("integer", Value::Number(number)) if number.is_i64() => {
            let wide = schema["format"] != "int32";
            let fits = wide || number.as_i64().is_some_and(|it| i32::try_from(it).is_ok());
            (!fits).then(|| format!("cannot convert int64 to {}", go_type(property)))
        }
        ("string" | "boolean" | "integer", Value::Number(_)) => {
            Some(format!("cannot convert {source} to {}", go_type(property)))
        }
        ("string" | "boolean" | "number" | "integer", _) => {
            Some(format!("unrecognized type: {}", go_type(property)))
        }
        _ => None,
    }
}

/// `struct_name` is the schema of the object, `path` the way to it without numbers.
fn members(
    schema: &Value,
    struct_name: &str,
    object: &Map<String, Value>,
    path: &str,
) -> Option<String> {
    let known = schema.get("properties")?.as_object()?;
    object.iter().find_map(|(name, member)| {
        let dot = if path.is_empty() { "" } else { "." };
        let at = Place {
            field: struct_name.rsplit('.').next().unwrap_or(""),
            path: &format!("{path}{dot}{name}"),
        };
        value(known.get(name)?, member, at)
    })
}

/// Where a value is: the Go struct that holds it, and the way to it.
#[derive(Clone, Copy)]
struct Place<'a> {
    field: &'a str,
    path: &'a str,
}

fn value(property: &Value, value: &Value, at: Place<'_>) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let of = referred(property);
    let name = of.map(|(name, _)| name);
    let schema = of.map_or(property, |(_, schema)| schema);
    let last = name.and_then(|name| name.rsplit('.').next()).unwrap_or("");
    let wrong = || {
        let Place { field, path } = at;
        let found = describe(schema, value);
        let wanted = go_type(property);
        Some(format!(
            "json: cannot unmarshal {found} into Go struct field {field}.{path} of type {wanted}"
        ))
    };
    // It may be any JSON.
    if last == "RawExtension" {
        return None;
    }
    if last == "Quantity" {
        return wrong_quantity(value);
    }
    if schema["x-kubernetes-int-or-string"] == true {
        let fits = value.is_string() || value.is_number();
        return if fits { None } else { wrong() };
    }
    match (schema["type"].as_str().unwrap_or(""), value) {
        ("string", Value::String(text)) if last == "Time" => wrong_time(text),
        ("string", Value::String(text)) if schema["format"] == "byte" => wrong_base64(text),
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => None,
        ("number", Value::Number(_)) => None,
        ("integer", Value::Number(number)) => {
            let fits = match schema["format"].as_str() {
                Some("int32") => number.as_i64().is_some_and(|it| i32::try_from(it).is_ok()),
                _ => number.is_i64(),
            };
            if fits { None } else { wrong() }
        }
        ("array", Value::Array(items)) => {
            let each = schema.get("items")?;
            items.iter().find_map(|item| self::value(each, item, at))
        }
        ("object", Value::Object(object)) => match schema.get("additionalProperties") {
            Some(each) => object
                .values()
                .find_map(|entry| self::value(each, entry, at)),
            None => members(schema, name.unwrap_or(""), object, at.path),
        },
        // A schema that says nothing takes anything.
        ("", _) => None,
        _ => wrong(),
    }
}

/// What Go calls the type of a property.
fn go_type(property: &Value) -> String {
    if let Some((name, _)) = referred(property) {
        let mut parts = name.rsplit('.');
        let (last, version) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        return format!("{version}.{last}");
    }
    let format = property["format"].as_str();
    match (property["type"].as_str().unwrap_or(""), format) {
        ("string", Some("byte")) => "[]uint8".to_owned(),
        ("boolean", _) => "bool".to_owned(),
        ("integer", format) => format.unwrap_or("int64").to_owned(),
        ("number", _) => "float64".to_owned(),
        ("array", _) => format!("[]{}", go_type(&property["items"])),
        ("object", _) => match property.get("additionalProperties") {
            Some(each) => format!("map[string]{}", go_type(each)),
            None => "map[string]interface {}".to_owned(),
        },
        (other, _) => other.to_owned(),
    }
}

/// What Go calls a value: a number that is none of its type's is told.
fn describe(schema: &Value, value: &Value) -> String {
    match value {
        Value::Number(number) if schema["type"] == "integer" => format!("number {number}"),
        other => json_syntax::name_of(other).to_owned(),
    }
}

/// Source: `resource.ParseQuantity` of apimachinery.
fn wrong_quantity(value: &Value) -> Option<String> {
    if value.as_str().is_some_and(is_canonical_quantity) {
        return None;
    }
    Quantity::from_json(value).err().map(|_| {
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()
    })
}

fn wrong_time(text: &str) -> Option<String> {
    text.parse::<Time>().err().map(|_| {
        format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )
    })
}

fn wrong_base64(text: &str) -> Option<String> {
    // Go's decoder passes over line ends.
    let text: String = text
        .chars()
        .filter(|it| !matches!(it, '\r' | '\n'))
        .collect();
    let mut out = vec![0; text.len()];
    let at = match BASE64_STANDARD.decode_slice(&text, &mut out).err()? {
        DecodeSliceError::DecodeError(
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _),
        ) => at,
        // What is left of a group of four; of one that is not filled up, its end.
        _ if text.ends_with('=') => text.len(),
        _ => text.len() / 4 * 4,
    };
    Some(format!("illegal base64 data at input byte {at}"))
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::kind_named;

    use super::*;

    #[test]
    fn wrong_types_are_told_wherever_they_are() {
        let table = r#"
Pod {"metadata": {"labels": {"a": null}}, "spec": null} =>
Deployment {"spec": {"replicas": 4000000000}} => number 4000000000 into Go struct field DeploymentSpec.spec.replicas of type int32
CronJob {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a", "args": ["x", 5]}]}}}}}} => number into Go struct field Container.spec.jobTemplate.spec.template.spec.containers.args of type string
Service {"spec": {"ports": [{"targetPort": "web"}], "selector": ["a"]}} => array into Go struct field ServiceSpec.spec.selector of type map[string]string
Secret {"data": {"a": "YQ==", "b": "Y"}} => illegal base64
Pod {"status": {"startTime": "soon"}} => parsing time "soon"
PersistentVolumeClaim {"spec": {"resources": {"requests": {"storage": true}}}} => quantities must match
"#;
        for line in table.trim().lines() {
            let (object, problem) = line.split_once(" =>").expect(line);
            let (kind, object) = object.split_once(' ').expect(line);
            let object: Value = serde_json::from_str(object).expect(line);
            let problem = problem.trim_start();
            let kind = kind_named(kind).unwrap();
            let found = wrong_type(kind, object.as_object().unwrap()).unwrap_or_default();
            assert!(found.contains(problem), "{object}: {found}");
            assert_eq!(found.is_empty(), problem.is_empty(), "{found}");
        }
    }
}
