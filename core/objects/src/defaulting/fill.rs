//! Sets default members, or determines whether any is missing.

use crate::Map;
use crate::json::JsonValue;
use serde_json::Value;

/// An object whose missing members are set, or only searched for. Each rule is written once for
/// both.
pub trait Fill: Sized {
    /// Returns the string of a member; empty if it is not a string.
    fn text(&self, key: &str) -> &str;

    /// Reports whether a member is true.
    fn is_true(&self, key: &str) -> bool;

    /// Reports whether there is a member besides this one.
    fn has_others(&self, key: &str) -> bool;

    /// Sets a member that is absent or has Go's zero value.
    fn set(&mut self, key: &'static str, value: impl Into<Value>);

    /// Sets a member that is absent. Zero and empty values stay.
    fn set_absent(&mut self, key: &'static str, value: impl Into<Value>);

    /// Copies the number `from` to the member `to` if that is absent or zero, unless the number is
    /// zero.
    fn copy_number(&mut self, from: &str, to: &'static str);

    /// Makes two members with the same meaning equal. The first takes precedence unless it is
    /// empty.
    fn unite(&mut self, key: &'static str, alias: &'static str);

    /// Replaces a negative number with 1.
    fn no_negative(&mut self, key: &'static str);

    /// Copies the members that only `from` has to the object `to`, which is created if needed.
    fn copy_members(&mut self, from: &str, to: &'static str);

    /// Calls `change` for each object in the list `key`.
    fn each(&mut self, key: &str, change: impl FnMut(&mut Self));

    /// Calls `change` for the object `key`, if there is one.
    fn with(&mut self, key: &str, change: impl FnOnce(&mut Self));
}

impl Fill for Map {
    fn text(&self, key: &str) -> &str {
        self.get(key).and_then(Value::as_str).unwrap_or("")
    }

    fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(true))
    }

    fn has_others(&self, key: &str) -> bool {
        self.iter()
            .any(|(name, value)| name != key && !value.is_null())
    }

    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        let is_set = match self.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Number(number)) => number.as_i64() != Some(0),
            Some(_) => true,
        };
        if !is_set {
            self.insert(key.to_owned(), value.into());
        }
    }

    fn set_absent(&mut self, key: &'static str, value: impl Into<Value>) {
        if self.get(key).is_none_or(Value::is_null) {
            self.insert(key.to_owned(), value.into());
        }
    }

    fn copy_number(&mut self, from: &str, to: &'static str) {
        let number = self.get(from).and_then(Value::as_i64).unwrap_or(0);
        if number != 0 {
            self.set(to, number);
        }
    }

    fn unite(&mut self, key: &'static str, alias: &'static str) {
        let text = match self.text(key) {
            "" => self.text(alias).to_owned(),
            text => text.to_owned(),
        };
        if !text.is_empty() {
            self.insert(alias.to_owned(), text.as_str().into());
            self.insert(key.to_owned(), text.into());
        }
    }

    fn no_negative(&mut self, key: &'static str) {
        if self
            .get(key)
            .and_then(Value::as_i64)
            .is_some_and(i64::is_negative)
        {
            self.insert(key.to_owned(), 1.into());
        }
    }

    fn copy_members(&mut self, from: &str, to: &'static str) {
        let Some(Value::Object(source)) = self.get(from).cloned() else {
            return;
        };
        if !source.is_empty() {
            self.set_absent(to, Map::new());
        }
        if let Some(Value::Object(target)) = self.get_mut(to) {
            for (name, value) in source {
                if target.get(&name).is_none_or(Value::is_null) {
                    target.insert(name, value);
                }
            }
        }
    }

    fn each(&mut self, key: &str, change: impl FnMut(&mut Map)) {
        if let Some(Value::Array(items)) = self.get_mut(key) {
            items
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(change);
        }
    }

    fn with(&mut self, key: &str, change: impl FnOnce(&mut Map)) {
        if let Some(Value::Object(member)) = self.get_mut(key) {
            change(member);
        }
    }
}

/// Operations that need a real object to change.
pub trait Within {
    /// Calls `change` for the object `key`, which is created if it is missing.
    fn within(&mut self, key: &str, change: impl FnOnce(&mut Map));
}

impl Within for Map {
    fn within(&mut self, key: &str, change: impl FnOnce(&mut Map)) {
        if self.get(key).is_none_or(Value::is_null) {
            self.insert(key.to_owned(), Map::new().into());
        }
        self.with(key, change);
    }
}

/// Sets nothing, and determines whether a member is missing.
pub(super) struct MissingMembers<'a> {
    object: JsonValue<'a>,
    pub(super) lacks: bool,
}

impl<'a> MissingMembers<'a> {
    pub(super) fn at(object: JsonValue<'a>) -> MissingMembers<'a> {
        MissingMembers {
            object,
            lacks: false,
        }
    }

    fn present(&self, key: &str) -> Option<JsonValue<'a>> {
        self.object.get(key).filter(|value| !value.is_null())
    }
}

impl Fill for MissingMembers<'_> {
    fn text(&self, key: &str) -> &str {
        self.present(key)
            .and_then(|value| value.as_str())
            .unwrap_or("")
    }

    fn is_true(&self, key: &str) -> bool {
        self.present(key)
            .is_some_and(|value| value.as_bool() == Some(true))
    }

    fn has_others(&self, key: &str) -> bool {
        self.object
            .pairs()
            .any(|(name, value)| name != key && !value.is_null())
    }

    fn set(&mut self, key: &'static str, _: impl Into<Value>) {
        let zero = |value: JsonValue<'_>| value.as_str() == Some("") || value.as_i64() == Some(0);
        self.lacks |= self.present(key).is_none_or(zero);
    }

    fn set_absent(&mut self, key: &'static str, _: impl Into<Value>) {
        self.lacks |= self.present(key).is_none();
    }

    fn copy_number(&mut self, from: &str, to: &'static str) {
        let number = self.present(from).and_then(|value| value.as_i64());
        if number.is_some_and(|number| number != 0) {
            self.set(to, true);
        }
    }

    fn unite(&mut self, key: &'static str, alias: &'static str) {
        self.lacks |= self.text(key) != self.text(alias);
    }

    fn no_negative(&mut self, key: &'static str) {
        let number = self.present(key).and_then(|value| value.as_i64());
        self.lacks |= number.is_some_and(i64::is_negative);
    }

    fn copy_members(&mut self, from: &str, to: &'static str) {
        let Some(source) = self.object.get(from) else {
            return;
        };
        let target = self.present(to);
        let has = |name: &str| target?.get(name).filter(|value| !value.is_null());
        self.lacks |= target.is_none_or(|target| target.is_object())
            && source.pairs().any(|(name, _)| has(name).is_none());
    }

    fn each(&mut self, key: &str, mut change: impl FnMut(&mut Self)) {
        for item in self
            .object
            .get(key)
            .into_iter()
            .flat_map(|list| list.items())
        {
            let mut look = MissingMembers::at(item);
            if item.is_object() {
                change(&mut look);
            }
            self.lacks |= look.lacks;
        }
    }

    fn with(&mut self, key: &str, change: impl FnOnce(&mut Self)) {
        if let Some(member) = self.object.get(key).filter(JsonValue::is_object) {
            let mut look = MissingMembers::at(member);
            change(&mut look);
            self.lacks |= look.lacks;
        }
    }
}
