//! Members of an object that its kind doesn't have: mostly typing errors.

use podstorm_objects::Kind;
use serde_json::{Map, Value};

use super::{SCHEMAS, referred, schema_name};

/// The members that the kind doesn't have, as paths: `spec.template.spec.containers[0].imaeg`.
///
/// Source: strict decoding in Kubernetes' `runtime/serializer/json`.
pub(crate) fn unknown_fields(kind: Kind, object: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(schema) = SCHEMAS.get(&schema_name(kind)) {
        members(schema, object, "", &mut found);
    }
    found
}

fn members(schema: &Value, object: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    let known = schema.get("properties").and_then(Value::as_object);
    let any = schema.get("additionalProperties");
    let dot = if path.is_empty() { "" } else { "." };
    let mut own = Vec::new();
    // Directives of patches are no members.
    for (name, member) in object.iter().filter(|(name, _)| !name.starts_with('$')) {
        let at = format!("{path}{dot}{name}");
        match known.and_then(|known| known.get(name)).or(any) {
            Some(property) => value(property, member, &at, found),
            // What says nothing of its members may have any.
            None if known.is_none() => {}
            None => own.push(at),
        }
    }
    // What is within comes first, as upstream's decoder tells it.
    found.append(&mut own);
}

fn value(property: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let schema = match referred(property) {
        Some(name) => SCHEMAS.get(name),
        None => Some(property),
    };
    let Some(schema) = schema else {
        return;
    };
    match value {
        Value::Object(object) => members(schema, object, path, found),
        Value::Array(list) => {
            if let Some(item) = schema.get("items") {
                for (number, entry) in list.iter().enumerate() {
                    self::value(item, entry, &format!("{path}[{number}]"), found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_a_kind_does_not_have_are_found_wherever_they_are() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "bogus": 1,
            "metadata": {"name": "a", "labels": {"any": "thing"}, "colour": "red"},
            "spec": {"containers": [{"name": "c", "imaeg": "x",
                "resources": {"limits": {"cpu": "1"}}}], "nodeSelector": {"a": "b"}}});
        let found = unknown_fields(Kind::POD, pod.as_object().unwrap());
        assert_eq!(
            found,
            ["metadata.colour", "spec.containers[0].imaeg", "bogus"]
        );
    }
}
