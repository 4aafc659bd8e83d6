//! A template as Go's types hold it and as Go writes it to JSON, and the rules by which strategic
//! patches merge it.

use podstorm_objects::{Map, MergeField, MergeRules, Time, canonical_quantity};
use serde_json::Value;

use super::schema::{Member, SCHEMA, Type};

/// The error for a value that does not have the type of its member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{member}: {found} is not {expected}")]
pub struct Mismatch {
    /// The name of the member.
    member: String,
    expected: &'static str,
    found: Value,
}

/// Returns a template's JSON as upstream writes it after reading it. Drops unknown members, and
/// empty ones unless Go always writes them. Quantities and times become canonical.
/// O(bytes).
///
/// # Errors
/// Fails if a value does not have the type of its member.
pub fn as_upstream_writes(template: &Value) -> Result<Value, Mismatch> {
    let written = written(&SCHEMA.root, Some(template), "template")?;
    Ok(written.value)
}

/// A value as Go writes it.
struct Written {
    value: Value,
    /// Whether `omitempty` omits the value.
    is_empty: bool,
}

fn written(of: &Type, json: Option<&Value>, name: &str) -> Result<Written, Mismatch> {
    let json = json.filter(|json| !json.is_null());
    let mismatch = |expected: &'static str| Mismatch {
        member: name.to_owned(),
        expected,
        found: json.cloned().unwrap_or_default(),
    };
    let (value, is_empty) = match (of, json) {
        (Type::Text, None) => ("".into(), true),
        (Type::Text, Some(Value::String(text))) => (text.as_str().into(), text.is_empty()),
        (Type::Flag, None) => (false.into(), true),
        (Type::Flag, Some(Value::Bool(flag))) => ((*flag).into(), !*flag),
        (Type::Int, None) => (0.into(), true),
        (Type::Int, Some(Value::Number(number))) => {
            let number = number.as_i64().ok_or_else(|| mismatch("an integer"))?;
            (number.into(), number == 0)
        }
        (Type::IntOrString, None) => (0.into(), false),
        (Type::IntOrString, Some(json @ (Value::Number(_) | Value::String(_)))) => {
            (json.clone(), false)
        }
        (Type::Quantity, None) => ("0".into(), false),
        (Type::Quantity, Some(json @ (Value::Number(_) | Value::String(_)))) => {
            let text = json
                .as_str()
                .map_or_else(|| json.to_string(), str::to_owned);
            let quantity = canonical_quantity(&text).ok_or_else(|| mismatch("a quantity"))?;
            (quantity.into(), false)
        }
        (Type::Time | Type::Pointer(_) | Type::List(_) | Type::Map(_), None) => (Value::Null, true),
        (Type::Time, Some(Value::String(text))) => {
            let time = Time::read(text).map_err(|_| mismatch("a time"))?;
            match time.is_unset() {
                true => (Value::Null, true),
                false => (time.to_string().into(), false),
            }
        }
        (Type::Raw, json) => (json.cloned().unwrap_or_default(), json.is_none()),
        (Type::Pointer(inner), json) => (written(inner, json, name)?.value, false),
        (Type::List(inner), Some(Value::Array(items))) => {
            let items = items.iter().map(|item| written(inner, Some(item), name));
            let items = items.map(|item| Ok(item?.value));
            let items = items.collect::<Result<Vec<Value>, Mismatch>>()?;
            let is_empty = items.is_empty();
            (items.into(), is_empty)
        }
        (Type::Map(inner), Some(Value::Object(entries))) => {
            let entries = entries.iter().map(|(key, entry)| {
                let entry = written(inner, Some(entry), key)?;
                Ok((key.clone(), entry.value))
            });
            let entries = entries.collect::<Result<Map, Mismatch>>()?;
            let is_empty = entries.is_empty();
            (entries.into(), is_empty)
        }
        (Type::Struct(at), None | Some(Value::Object(_))) => {
            let mut members = Map::new();
            write_members(*at, json, &mut members)?;
            (members.into(), false)
        }
        (Type::Text | Type::Time, Some(_)) => return Err(mismatch("a text")),
        (Type::Flag, Some(_)) => return Err(mismatch("a boolean")),
        (Type::Int, Some(_)) => return Err(mismatch("an integer")),
        (Type::IntOrString | Type::Quantity, Some(_)) => {
            return Err(mismatch("a number or a text"));
        }
        (Type::List(_), Some(_)) => return Err(mismatch("a list")),
        (Type::Map(_) | Type::Struct(_), Some(_)) => return Err(mismatch("an object")),
    };
    Ok(Written { value, is_empty })
}

fn write_members(at: usize, json: Option<&Value>, members: &mut Map) -> Result<(), Mismatch> {
    for member in SCHEMA.members(at) {
        match (member.json_name, &member.of) {
            (Some(name), of) => {
                let written = written(of, json.and_then(|json| json.get(name)), name)?;
                if member.is_always_written || !written.is_empty {
                    members.insert(name.to_owned(), written.value);
                }
            }
            (None, Type::Struct(embedded)) => write_members(*embedded, json, members)?,
            (None, _) => unreachable!("only structs are embedded"),
        }
    }
    Ok(())
}

/// The rules by which strategic patches merge an object with `spec.template`: the template by its
/// types, other members one by one, and lists outside the template as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkloadRules(Place);

#[derive(Clone, Copy, Debug)]
enum Place {
    Object,
    Spec,
    /// A part of the template, with its type.
    Part(&'static Type),
}

impl WorkloadRules {
    /// The rules for the whole object.
    pub(crate) const OBJECT: WorkloadRules = WorkloadRules(Place::Object);
}

impl MergeRules for WorkloadRules {
    fn struct_name(&self) -> Option<&str> {
        match self.0 {
            Place::Part(Type::Struct(at)) => Some(SCHEMA.name(*at)),
            _ => None,
        }
    }

    fn member(&self, name: &str) -> Option<MergeField<'_, Self>> {
        let plain = |place| MergeField {
            strategies: "",
            merge_key: "",
            inside: WorkloadRules(place),
        };
        match (self.0, name) {
            (Place::Object, "spec") => Some(plain(Place::Spec)),
            (Place::Spec, "template") => Some(plain(Place::Part(&SCHEMA.root))),
            (Place::Part(Type::Struct(at)), name) => {
                let member = find(*at, name)?;
                Some(MergeField {
                    strategies: member.strategies,
                    merge_key: member.merge_key,
                    inside: WorkloadRules(Place::Part(inside(&member.of))),
                })
            }
            _ => None,
        }
    }
}

fn find(at: usize, name: &str) -> Option<&'static Member> {
    SCHEMA
        .members(at)
        .iter()
        .find_map(|member| match (member.json_name, &member.of) {
            (Some(json_name), _) => (json_name == name).then_some(member),
            (None, Type::Struct(embedded)) => find(*embedded, name),
            (None, _) => None,
        })
}

/// Returns the innermost type inside pointers and lists.
fn inside(of: &'static Type) -> &'static Type {
    match of {
        Type::Pointer(inner) | Type::List(inner) => inside(inner),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::strategic_merge;
    use serde_json::json;

    use super::*;

    #[test]
    fn members_appear_exactly_as_go_writes_them() {
        let template = json!({"metadata": {"creationTimestamp": null, "labels": {}}, "future": 1,
            "spec": {"hostNetwork": false, "containers": [
                {"name": "c", "livenessProbe": {"grpc": {"port": 1}},
                 "resources": {"limits": {"cpu": 1.5}}}]}});
        let wanted = json!({"metadata": {}, "spec": {"containers": [
            {"name": "c", "livenessProbe": {"grpc": {"port": 1, "service": null}},
             "resources": {"limits": {"cpu": "1500m"}}}]}});
        assert_eq!(as_upstream_writes(&template), Ok(wanted));
        let bare = json!({"metadata": {}, "spec": {"containers": null}});
        assert_eq!(as_upstream_writes(&json!({})), Ok(bare));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_refused() {
        for spec in [
            json!({"containers": "none"}),
            json!({"containers": [1]}),
            json!({"hostNetwork": "yes"}),
            json!({"terminationGracePeriodSeconds": 9_223_372_036_854_775_808_u64}),
            json!({"nodeSelector": {"a": 1}}),
        ] {
            let written = as_upstream_writes(&json!({"spec": spec}));
            assert!(written.is_err(), "{written:?}");
        }
    }

    #[test]
    fn parts_of_a_template_merge_by_their_keys() {
        let of =
            |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
        let stored =
            of(json!([{"name": "a", "image": "x"}, {"name": "b", "env": [{"name": "E"}]}]));
        let patch = of(json!([{"name": "b", "env": [{"name": "F"}]}]));
        let wanted = of(
            json!([{"name": "a", "image": "x"}, {"name": "b", "env": [{"name": "F"}, {"name": "E"}]}]),
        );
        let (mut stored, patch) = (object(stored), object(patch));
        let merged = strategic_merge(Some(WorkloadRules::OBJECT), &mut stored, &patch);
        assert_eq!(merged, Ok(()));
        assert_eq!(Value::Object(stored), wanted);
    }

    fn object(value: Value) -> Map {
        value.as_object().cloned().unwrap_or_default()
    }
}
