//! Types of fields, from the schemas: how lists and maps are merged, and how their parts are owned.

use podstorm_apiserver::schemas::{referred, schema_of_kind};
use podstorm_objects::Kind;
use serde_json::Value;

use super::set;
pub(super) use podstorm_apiserver::schemas::Schema;

/// The type of a value: an OpenAPI property or schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type<'a> {
    property: &'a Value,
    /// The schema that the property refers to, or the property itself.
    schema: &'a Value,
}

/// The granularity with which the parts of a value are owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The value as a whole.
    Atom,
    /// Each member.
    Map,
    /// Each entry, identified by its keys.
    Keyed,
    /// Each value.
    Set,
}

/// The schema of values that have no schema.
static ANY: Value = Value::Null;

/// Returns the schema of a kind's objects; if there is none, a schema that accepts anything.
pub(super) fn schema_of(kind: Kind) -> Schema {
    schema_of_kind(kind).unwrap_or(Schema::Known(&ANY))
}

impl<'a> Type<'a> {
    pub(super) fn new(property: &'a Value) -> Type<'a> {
        let schema = referred(property).map_or(property, |(_, schema)| schema);
        Type { property, schema }
    }

    /// Returns the type of the objects that a schema describes.
    pub(super) fn from_schema(schema: &'a Value) -> Type<'a> {
        Type {
            property: schema,
            schema,
        }
    }

    fn extension(&self, name: &str) -> Option<&'a Value> {
        let own = self.property.get(name);
        own.or_else(|| self.schema.get(name))
    }

    /// Returns the JSON type: `object`, `array`, `string` and so on; empty if any type is valid.
    pub(super) fn json_type(&self) -> &'a str {
        self.schema["type"].as_str().unwrap_or("")
    }

    pub(super) fn is_int_or_string(&self) -> bool {
        self.schema["x-kubernetes-int-or-string"] == true
    }

    /// Reports whether the value is a quantity, which may also be written as a number.
    pub(super) fn is_quantity(&self) -> bool {
        referred(self.property).is_some_and(|(name, _)| name.ends_with(".Quantity"))
    }

    /// Returns the granularity with which the parts of a value are owned. An object whose members
    /// are not described is atomic.
    pub(super) fn form(&self, value: &Value) -> Form {
        let extension = |name| self.extension(name).and_then(Value::as_str);
        match self.json_type() {
            "object" => {
                let is_described = self.schema.get("properties").is_some()
                    || self.schema.get("additionalProperties").is_some()
                    || self.keeps_unknown();
                match extension("x-kubernetes-map-type") {
                    Some("atomic") => Form::Atom,
                    _ if is_described => Form::Map,
                    _ => Form::Atom,
                }
            }
            "array" => match extension("x-kubernetes-list-type") {
                Some("map") => Form::Keyed,
                Some("set") => Form::Set,
                _ => Form::Atom,
            },
            "" if self.keeps_unknown() && value.is_object() => Form::Map,
            _ => Form::Atom,
        }
    }

    /// Reports whether a value may have members that the schema does not name.
    fn keeps_unknown(&self) -> bool {
        self.extension("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
            || std::ptr::eq(self.schema, &ANY)
    }

    /// Reports whether the type is a struct with this member.
    pub(super) fn declares(&self, name: &str) -> bool {
        let properties = self.schema.get("properties");
        properties.is_some_and(|properties| properties.get(name).is_some())
    }

    /// Reports whether the type declares its members.
    pub(super) fn is_struct(&self) -> bool {
        self.schema.get("properties").is_some()
    }

    /// Returns the type of a member; `None` if the type does not allow the member.
    pub(super) fn member(&self, name: &str) -> Option<Type<'a>> {
        let declared = self.schema.get("properties").and_then(|all| all.get(name));
        let declared = declared.or_else(|| {
            let any = self.schema.get("additionalProperties")?;
            any.is_object().then_some(any)
        });
        let declared = declared.or_else(|| self.keeps_unknown().then_some(&ANY));
        declared.map(Type::new)
    }

    /// Returns the type of a list's entries.
    pub(super) fn item(&self) -> Type<'a> {
        Type::new(self.schema.get("items").unwrap_or(&ANY))
    }

    /// Returns the type of the value at a step; `None` if the type does not allow the step.
    pub(super) fn at(&self, step: &str) -> Option<Type<'a>> {
        match step.strip_prefix("f:") {
            Some(name) => self.member(name),
            None => self.schema.get("items").map(Type::new),
        }
    }

    /// Returns the step to an entry of a list, which must not be atomic.
    pub(super) fn step_to(&self, form: Form, item: &Value) -> set::PathElement {
        if form != Form::Keyed {
            return set::value(item);
        }
        let names = self.extension("x-kubernetes-list-map-keys");
        let names = names.and_then(Value::as_array).into_iter().flatten();
        let keys = names.filter_map(Value::as_str).map(|name| {
            let default = || match self.item().member(name) {
                Some(key) => key.extension("default").cloned().unwrap_or_default(),
                None => Value::Null,
            };
            let value = item.get(name).filter(|value| !value.is_null());
            (name.to_owned(), value.cloned().unwrap_or_else(default))
        });
        set::entry(keys.collect())
    }
}
