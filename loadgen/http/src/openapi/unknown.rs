//! Members of an object that its kind doesn't have, mostly typing errors; and quantities, which have one
//! spelling for each amount.

use podstorm_objects::{Kind, canonical_quantity, is_canonical_quantity, milli_quantity};
use serde_json::{Map, Value};

use super::{OBJECT_META, referred, schema_named, schema_of_kind};

/// Takes the members out that the kind doesn't have, and tells their paths:
/// `spec.template.spec.containers[0].imaeg`. Writes quantities as servers do.
///
/// Source: strict decoding in Kubernetes' `runtime/serializer/json`.
pub(crate) fn drop_unknown_fields(kind: Kind, object: &mut Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(custom) = kind.row().custom {
        found = podstorm_apiserver::custom::prune(&custom.schema, object);
        if let (Some(Value::Object(metadata)), Some(schema)) =
            (object.get_mut("metadata"), schema_named(OBJECT_META))
        {
            members(schema, metadata, "metadata", &mut found);
        }
        return found;
    }
    if let Some(schema) = schema_of_kind(kind) {
        members(schema, object, "", &mut found);
    }
    found
}

fn members(schema: &Value, object: &mut Map<String, Value>, path: &str, found: &mut Vec<String>) {
    let known = schema.get("properties").and_then(Value::as_object);
    let any = schema.get("additionalProperties");
    let dot = if path.is_empty() { "" } else { "." };
    let mut own = Vec::new();
    object.retain(|name, member| {
        // Directives of patches are no members.
        if name.starts_with('$') {
            return true;
        }
        let at = format!("{path}{dot}{name}");
        match known.and_then(|known| known.get(name)).or(any) {
            Some(property) if any.is_some() && is_quantity(property) => spell(member, true),
            Some(property) => value(property, member, &at, found),
            // What says nothing of its members may have any.
            None if known.is_none() => {}
            None => {
                own.push(at);
                return false;
            }
        }
        true
    });
    // What is within comes first, as upstream's decoder tells it.
    found.append(&mut own);
}

fn value(property: &Value, value: &mut Value, path: &str, found: &mut Vec<String>) {
    let schema = match referred(property) {
        Some((QUANTITY, _)) => return spell(value, false),
        Some((_, schema)) => schema,
        None => property,
    };
    match value {
        Value::Object(object) => members(schema, object, path, found),
        Value::Array(list) => {
            if let Some(item) = schema.get("items") {
                for (number, entry) in list.iter_mut().enumerate() {
                    self::value(item, entry, &format!("{path}[{number}]"), found);
                }
            }
        }
        _ => {}
    }
}

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

fn is_quantity(property: &Value) -> bool {
    referred(property).is_some_and(|(name, _)| name == QUANTITY)
}

/// Gives a quantity its one spelling. Most have it already. Amounts of resources, which are in maps by their
/// names, are rounded up to thousandths.
fn spell(quantity: &mut Value, of_resource: bool) {
    let text = match quantity {
        Value::String(text) if is_canonical_quantity(text) => return,
        Value::String(text) => text,
        Value::Number(number) => &mut number.to_string(),
        _ => return,
    };
    let spelled = match of_resource {
        true => milli_quantity(text),
        false => canonical_quantity(text),
    };
    if let Some(spelled) = spelled {
        *quantity = spelled.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_a_kind_does_not_have_are_found_wherever_they_are() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "bogus": 1,
            "metadata": {"name": "a", "labels": {"any": "thing"}, "colour": "red"},
            "spec": {"containers": [{"name": "c", "imaeg": "x",
                "resources": {"limits": {"cpu": "1"}}}], "nodeSelector": {"a": "b"}}});
        let found = drop_unknown_fields(Kind::POD, pod.as_object_mut().unwrap());
        assert_eq!(
            found,
            ["metadata.colour", "spec.containers[0].imaeg", "bogus"]
        );
        assert_eq!(pod["spec"]["containers"][0].get("imaeg"), None);
        assert_eq!(pod["metadata"]["labels"]["any"], "thing");
    }
}
