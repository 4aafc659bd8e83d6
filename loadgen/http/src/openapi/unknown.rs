//! Members of an object that its kind doesn't have, mostly typing errors; and quantities, which have one
//! spelling for each amount.

use podstorm_apiserver::limits::Listed;
use podstorm_objects::decode::Path;
use podstorm_objects::{Kind, canonical_quantity, is_canonical_quantity, milli_quantity};
use serde_json::{Map, Value};

use super::{OBJECT_META, referred, schema_named, schema_of_kind, written};
use crate::ownership::go_quoted;

/// Takes the members out that the kind doesn't have. Returns their paths, as far as they can be [listed](Listed):
/// `spec.template.spec.containers[0].imaeg`. Writes quantities as servers do.
///
/// Source: strict decoding in Kubernetes' `runtime/serializer/json`.
pub(crate) fn drop_unknown_fields(kind: Kind, object: &mut Map<String, Value>) -> Vec<String> {
    drop_unknown(kind, object, true)
}

/// As [`drop_unknown_fields`] of a patch, in which nothing and empty lists have a meaning of their own.
pub(crate) fn drop_unknown_changes(kind: Kind, patch: &mut Map<String, Value>) -> Vec<String> {
    drop_unknown(kind, patch, false)
}

/// Most of them that upstream's decoder tells. Of custom objects it tells all.
const TOLD_MAX: usize = 100;

/// What clients are told of unknown members, by their paths.
pub(crate) fn unknown_fields(is_custom: bool, paths: &[String]) -> Vec<String> {
    let most = if is_custom { usize::MAX } else { TOLD_MAX };
    let told = paths.iter().take(most).map(|path| match is_custom {
        true => format!("unknown field \"{path}\""),
        false => format!("unknown field {}", go_quoted(path)),
    });
    told.collect()
}

fn drop_unknown(kind: Kind, object: &mut Map<String, Value>, is_whole: bool) -> Vec<String> {
    let mut walk = Walk {
        found: Listed::default(),
        is_whole,
    };
    if let Some(custom) = kind.row().custom {
        for path in podstorm_apiserver::custom::prune(&custom.schema.get(), object) {
            walk.found.push(path);
        }
        if let (Some(Value::Object(metadata)), Some(schema)) =
            (object.get_mut("metadata"), schema_named(OBJECT_META))
        {
            walk.members(
                (schema, OBJECT_META),
                metadata,
                &Path::ROOT.member("metadata"),
            );
        }
    } else if let Some(schema) = schema_of_kind(kind) {
        walk.members((&schema, kind.name()), object, &Path::ROOT);
    }
    walk.found.into_vec()
}

/// As [`drop_unknown_fields`], of an object with that schema.
pub(crate) fn drop_unknown_of(
    schema_name: &str,
    object: &mut Map<String, Value>,
    is_whole: bool,
) -> Vec<String> {
    let mut walk = Walk {
        found: Listed::default(),
        is_whole,
    };
    if let Some(schema) = schema_named(schema_name) {
        walk.members((schema, schema_name), object, &Path::ROOT);
    }
    walk.found.into_vec()
}

struct Walk {
    found: Listed,
    /// Whether it is no patch.
    is_whole: bool,
}

impl Walk {
    /// `of` is the schema of the object and its name.
    fn members(&mut self, of: (&Value, &str), object: &mut Map<String, Value>, path: &Path<'_>) {
        let (schema, schema_name) = of;
        let known = schema.get("properties").and_then(Value::as_object);
        let any = schema.get("additionalProperties");
        let mut own = Listed::default();
        object.retain(|name, member| {
            let at = path.member(name);
            match (known.and_then(|known| known.get(name)), any) {
                (Some(property), _) => {
                    self.value(property, member, &at);
                    !self.is_whole
                        || !is_empty(property, member)
                        || is_kept(schema, schema_name, name)
                }
                (None, Some(property)) => {
                    if is_quantity(property) {
                        spell(member, true);
                    } else if self.is_whole && member.is_null() && property["type"] == "string" {
                        // Nothing in a map of texts is an empty text.
                        *member = "".into();
                    } else {
                        self.value(property, member, &at);
                    }
                    true
                }
                // What says nothing of its members may have any.
                (None, None) if known.is_none() => true,
                (None, None) => {
                    own.push(at);
                    false
                }
            }
        });
        // Sic: a condition without a status has an empty one.
        if self.is_whole
            && schema_name.ends_with("Condition")
            && !schema_name.ends_with("PodCondition")
        {
            object.entry("status").or_insert_with(|| "".into());
        }
        // What is within comes first, as upstream's decoder tells it.
        own.into_vec()
            .into_iter()
            .for_each(|path| self.found.push(path));
    }

    fn value(&mut self, property: &Value, value: &mut Value, path: &Path<'_>) {
        let (schema, name) = match referred(property) {
            Some((QUANTITY, _)) => return spell(value, false),
            Some((name, schema)) => (schema, name),
            None => (property, ""),
        };
        match value {
            Value::Object(object) => self.members((schema, name), object, path),
            Value::Array(list) => {
                if let Some(item) = schema.get("items") {
                    for (number, entry) in list.iter_mut().enumerate() {
                        self.value(item, entry, &path.item(number));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Whether a member is a list without entries or a map without keys, which Go leaves out.
fn is_empty(property: &Value, member: &Value) -> bool {
    match member {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => {
            entries.is_empty() && property.get("additionalProperties").is_some()
        }
        _ => false,
    }
}

/// Whether a member is written though it is empty.
fn is_kept(schema: &Value, schema_name: &str, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    let struct_name = schema_name.rsplit('.').next().unwrap_or("");
    // Of rules of scaling an empty list is not the default one.
    struct_name == "HPAScalingRules"
        || required.is_some_and(|required| required.iter().any(|it| it == name))
        || written(schema).is_some_and(|mut written| written.any(|it| it == name))
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

    #[test]
    fn of_built_in_kinds_a_hundred_are_told_quoted() {
        let mut many: Vec<String> = (0..500).map(|number| format!("{number}")).collect();
        many[0] = "a\n\"\u{85}".to_owned();
        let told = unknown_fields(false, &many);
        assert_eq!(told.len(), TOLD_MAX);
        assert_eq!(told[0], r#"unknown field "a\n\"\u0085""#);
        assert_eq!(unknown_fields(true, &many).len(), 500);
    }
}
