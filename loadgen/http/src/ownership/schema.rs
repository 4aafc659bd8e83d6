//! What the schemas say of fields: how lists and maps are merged, and who owns their parts.

use podstorm_objects::Kind;
use serde_json::Value;

use super::set;
pub(super) use crate::openapi::Schema;
use crate::openapi::{referred, schema_of_kind};

/// The type of a value: a property or a schema, as OpenAPI has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type<'a> {
    property: &'a Value,
    /// What the property refers to, or itself.
    schema: &'a Value,
}

/// How the parts of a value are owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A whole, whatever it is.
    Atom,
    /// Members one by one.
    Map,
    /// Entries one by one, told apart by their keys.
    Keyed,
    /// Values one by one.
    Set,
}

/// What holds a value whose schema says nothing.
static ANY: Value = Value::Null;

/// The schema of a kind's objects; anything where it has none.
pub(super) fn schema_of(kind: Kind) -> Schema {
    schema_of_kind(kind).unwrap_or(Schema::Known(&ANY))
}

impl<'a> Type<'a> {
    pub(super) fn new(property: &'a Value) -> Type<'a> {
        let schema = referred(property).map_or(property, |(_, schema)| schema);
        Type { property, schema }
    }

    /// The type of the objects that a schema is of.
    pub(super) fn of(schema: &'a Value) -> Type<'a> {
        Type {
            property: schema,
            schema,
        }
    }

    fn extension(&self, name: &str) -> Option<&'a Value> {
        let own = self.property.get(name);
        own.or_else(|| self.schema.get(name))
    }

    /// What JSON calls it: `object`, `array`, `string` and so on; empty where it may be anything.
    pub(super) fn json_type(&self) -> &'a str {
        self.schema["type"].as_str().unwrap_or("")
    }

    pub(super) fn is_int_or_string(&self) -> bool {
        self.schema["x-kubernetes-int-or-string"] == true
    }

    /// Whether it is an amount, which may be written as a number.
    pub(super) fn is_quantity(&self) -> bool {
        referred(self.property).is_some_and(|(name, _)| name.ends_with(".Quantity"))
    }

    /// How this value is owned; what no schema describes member by member.
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

    /// Whether members are taken that the schema doesn't name.
    fn keeps_unknown(&self) -> bool {
        self.extension("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
            || std::ptr::eq(self.schema, &ANY)
    }

    /// Whether it is a struct with that member.
    pub(super) fn declares(&self, name: &str) -> bool {
        let properties = self.schema.get("properties");
        properties.is_some_and(|properties| properties.get(name).is_some())
    }

    /// Whether its members are declared.
    pub(super) fn is_struct(&self) -> bool {
        self.schema.get("properties").is_some()
    }

    /// The type of a member; `None` for one that is not declared.
    pub(super) fn member(&self, name: &str) -> Option<Type<'a>> {
        let declared = self.schema.get("properties").and_then(|all| all.get(name));
        let declared = declared.or_else(|| {
            let any = self.schema.get("additionalProperties")?;
            any.is_object().then_some(any)
        });
        let declared = declared.or_else(|| self.keeps_unknown().then_some(&ANY));
        declared.map(Type::new)
    }

    /// The type of a list's entries.
    pub(super) fn item(&self) -> Type<'a> {
        Type::new(self.schema.get("items").unwrap_or(&ANY))
    }

    /// The type of what a step leads to.
    pub(super) fn at(&self, step: &str) -> Option<Type<'a>> {
        match step.strip_prefix("f:") {
            Some(name) => self.member(name),
            None => self.schema.get("items").map(Type::new),
        }
    }

    /// The step to an entry of a list that is no atom.
    pub(super) fn step_to(&self, form: Form, item: &Value) -> set::Step {
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
