//! Makes objects conform to their schema: prunes unknown fields and fills in defaults.
//!
//! Source: `pruning` and `defaulting` of Kubernetes' `apiextensions-apiserver`.

use podstorm_objects::Map;
use podstorm_objects::decode::Path;
use serde_json::Value;

use crate::limits::{Growth, Listed};
use crate::time_limit;

/// The fields of every object, which a schema does not have to define.
pub(super) const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];

fn is_true(schema: &Value, name: &str) -> bool {
    schema[name] == true
}

/// Removes the fields that the schema does not define. Returns their paths, sorted, up to the limit
/// of [`Listed`]: `spec.list[0].bogus`. Ignores `metadata`.
pub fn prune(schema: &Value, object: &mut Map) -> Vec<String> {
    let mut found = Listed::default();
    prune_members(schema, object, true, &Path::ROOT, &mut found);
    let mut found = found.into_vec();
    found.sort_unstable();
    found
}

fn prune_members(
    schema: &Value,
    object: &mut Map,
    is_object: bool,
    path: &Path<'_>,
    found: &mut Listed,
) {
    let keeps = is_true(schema, "x-kubernetes-preserve-unknown-fields");
    object.retain(|name, value| {
        if is_object && OF_OBJECTS.contains(&name.as_str()) {
            return true;
        }
        let at = path.member(name);
        let others = &schema["additionalProperties"];
        match schema["properties"].get(name.as_str()) {
            Some(of) => prune_value(of, value, &at, found),
            None if others.is_object() => prune_value(others, value, &at, found),
            None if keeps || *others == true => {}
            None => {
                found.push(at);
                return false;
            }
        }
        true
    });
}

fn prune_value(schema: &Value, value: &mut Value, path: &Path<'_>, found: &mut Listed) {
    match value {
        Value::Object(members) => {
            let is_object = is_true(schema, "x-kubernetes-embedded-resource");
            prune_members(schema, members, is_object, path, found);
        }
        Value::Array(entries) if schema["items"].is_object() => {
            for (number, entry) in entries.iter_mut().enumerate() {
                prune_value(&schema["items"], entry, &path.item(number), found);
            }
        }
        _ => {}
    }
}

/// Fills in the defaults of absent fields, and removes nulls that are not allowed. Stops when the
/// defaults exceed the maximum size of an object, which
/// [`check_object`](crate::limits::check_object) then refuses.
pub fn default(schema: &Value, object: &mut Map) {
    Defaults::default().fill(schema, object);
}

#[derive(Default)]
struct Defaults {
    growth: Growth,
    is_full: bool,
}

impl Defaults {
    fn copied(&mut self, default: &Value) -> Value {
        self.is_full = !self.growth.has_room_after(default);
        default.clone()
    }

    fn fill(&mut self, schema: &Value, object: &mut Map) {
        // Each object may be checked against thousands of properties.
        self.is_full |= time_limit::is_over();
        let none = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&none);
        for (name, of) in properties {
            if self.is_full {
                return;
            }
            let is_absent = match object.get(name) {
                None => true,
                Some(value) => value.is_null() && !is_true(of, "nullable"),
            };
            match of.get("default") {
                Some(value) if is_absent => drop(object.insert(name.clone(), self.copied(value))),
                None if is_absent => drop(object.remove(name)),
                _ => {}
            }
        }
        let others = &schema["additionalProperties"];
        for (name, value) in object {
            match properties.get(name) {
                Some(of) => self.fill_value(of, value),
                None if others.is_object() => self.fill_value(others, value),
                None => {}
            }
        }
    }

    fn fill_value(&mut self, schema: &Value, value: &mut Value) {
        if self.is_full {
            return;
        }
        if let (Value::Null, Some(default)) = (&*value, schema.get("default"))
            && !is_true(schema, "nullable")
        {
            *value = self.copied(default);
        }
        match value {
            Value::Object(members) => self.fill(schema, members),
            Value::Array(entries) if schema["items"].is_object() => {
                let of = &schema["items"];
                entries
                    .iter_mut()
                    .for_each(|entry| self.fill_value(of, entry));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits;

    fn members(value: Value) -> Map {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn fields_that_the_schema_lacks_are_pruned() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "list": {"type": "array", "items": {"type": "object", "properties": {"a": {}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object",
                    "properties": {"b": {}}}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"c": {"type": "object"}}},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true}}}}});
        let mut object = members(json!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"}, "extra": 1,
            "spec": {"size": 1, "bogus": 2, "list": [{"a": 1}, {"b": 1}],
                "map": {"x": {"b": 1, "c": 2}}, "open": {"any": {"thing": 1}, "c": {"d": 1}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}}}));
        let found = prune(&schema, &mut object);
        let wanted = "extra spec.bogus spec.list[1].b spec.map.x.c spec.open.c.d spec.pod.spec";
        assert_eq!(found.join(" "), wanted);
        assert_eq!(
            Value::Object(object),
            json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"name": "a"},
                "spec": {"size": 1, "list": [{"a": 1}, {}], "map": {"x": {"b": 1}},
                    "open": {"any": {"thing": 1}, "c": {}},
                    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}}})
        );
    }

    #[test]
    fn filling_in_defaults_stops_when_the_object_is_too_large() {
        let large = "x".repeat(100_000);
        let schema = json!({"type": "object", "properties": {"list": {"type": "array",
            "items": {"type": "object", "properties": {"a": {"type": "string", "default": large}}}}}});
        let with = |items: usize| {
            let mut object = members(json!({"list": vec![json!({}); items]}));
            default(&schema, &mut object);
            let filled = object["list"].as_array().unwrap().iter();
            let filled = filled.filter(|item| item.get("a").is_some()).count();
            (filled, limits::check_object(&object))
        };
        assert_eq!(with(30), (30, Ok(())));
        assert_eq!(with(30_000), (32, Err(limits::Exceeded::Bytes)));
    }

    #[test]
    fn defaults_are_filled_in_at_every_level() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "default": {}, "properties": {
                "size": {"type": "integer", "default": 3},
                "name": {"type": "string"},
                "maybe": {"type": "string", "nullable": true, "default": "x"},
                "list": {"type": "array", "items": {"type": "object",
                    "properties": {"on": {"type": "boolean", "default": true}}}}}}}});
        let mut object = members(json!({}));
        default(&schema, &mut object);
        let whole = json!({"spec": {"size": 3, "maybe": "x"}});
        assert_eq!(Value::Object(object), whole);
        let mut object = members(json!({"spec": {"size": null, "name": null, "maybe": null,
            "list": [{}, {"on": false}]}}));
        default(&schema, &mut object);
        let whole =
            json!({"spec": {"size": 3, "maybe": null, "list": [{"on": true}, {"on": false}]}});
        assert_eq!(Value::Object(object), whole);
    }
}
