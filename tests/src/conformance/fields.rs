//! Reading a recorded case so that no member goes unread: what is taken is gone, and `finish`
//! refuses what is left.

use podstorm::object::Map;
use serde_json::{Value, json};

/// The members of one JSON object of a case.
#[derive(Debug)]
pub struct Fields {
    map: Map,
    what: String,
}

impl Fields {
    /// The members of `value`; `what` names it in errors.
    ///
    /// # Errors
    /// When it is not an object.
    pub fn new(value: Value, what: impl Into<String>) -> Result<Fields, String> {
        let what = what.into();
        match value {
            Value::Object(map) => Ok(Fields { map, what }),
            other => Err(format!("{what}: expected an object, found {other}")),
        }
    }

    /// Takes a member; `None` when absent. Null is `Some(Value::Null)`.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key)
    }

    /// Takes a member; absent is null.
    pub fn value(&mut self, key: &str) -> Value {
        self.take(key).unwrap_or(Value::Null)
    }

    /// Takes a string; absent and null are empty.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text(&mut self, key: &str) -> Result<String, String> {
        match self.value(key) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text),
            other => Err(self.wrong(key, "a string", &other)),
        }
    }

    /// Takes an integer; absent and null are 0.
    ///
    /// # Errors
    /// When it is something else.
    pub fn int(&mut self, key: &str) -> Result<i64, String> {
        Ok(self.opt_int(key)?.unwrap_or(0))
    }

    /// Takes an integer; absent and null are `None`.
    ///
    /// # Errors
    /// When it is something else.
    pub fn opt_int(&mut self, key: &str) -> Result<Option<i64>, String> {
        match self.value(key) {
            Value::Null => Ok(None),
            other => match other.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "an integer", &other)),
            },
        }
    }

    /// Takes a boolean; absent and null are false.
    ///
    /// # Errors
    /// When it is something else.
    pub fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.value(key) {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(flag),
            other => Err(self.wrong(key, "a boolean", &other)),
        }
    }

    /// Takes a list; absent and null are empty.
    ///
    /// # Errors
    /// When it is something else.
    pub fn list(&mut self, key: &str) -> Result<Vec<Value>, String> {
        match self.value(key) {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items),
            other => Err(self.wrong(key, "a list", &other)),
        }
    }

    /// Takes a list, each item of which is read by `read`.
    ///
    /// # Errors
    /// When it is something else, or an item can't be read.
    pub fn all<T>(
        &mut self,
        key: &str,
        read: impl FnMut(Value) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.list(key)?.into_iter().map(read).collect()
    }

    /// Takes a list of strings.
    ///
    /// # Errors
    /// When it is something else.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        self.all(key, |item| match item {
            Value::String(text) => Ok(text),
            other => Err(format!("{key}: expected a string, found {other}")),
        })
    }

    /// Takes a list of objects, and gives `read` one after the other, which must take all members of each.
    ///
    /// # Errors
    /// When it is something else, or what `read` says, with the place in the list.
    pub fn each(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut Fields) -> Result<(), String>,
    ) -> Result<(), String> {
        for (at, item) in self.list(key)?.into_iter().enumerate() {
            let place = format!("{key}[{at}]");
            let mut item = Fields::new(item, place.clone())?;
            read(&mut item).map_err(|error| format!("{place}: {error}"))?;
            item.finish()?;
        }
        Ok(())
    }

    /// Takes an object as fields; absent and null are no members.
    ///
    /// # Errors
    /// When it is something else.
    pub fn object(&mut self, key: &str) -> Result<Fields, String> {
        let what = format!("{}.{key}", self.what);
        match self.value(key) {
            Value::Null => Ok(Fields {
                map: Map::new(),
                what,
            }),
            other => Fields::new(other, what),
        }
    }

    /// Takes all that is left, as a plain map.
    pub fn rest(&mut self) -> Map {
        std::mem::take(&mut self.map)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// When a member was not taken: a field this runner doesn't know.
    pub fn finish(self) -> Result<(), String> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("{}: unknown field {key:?}", self.what)),
        }
    }

    /// Takes all that is left, which is to be the same as `ours`. A member that is absent is the same as
    /// null, zero, false or nothing; within members nothing is overlooked.
    ///
    /// # Errors
    /// Where it is not.
    pub fn is(&mut self, ours: Value) -> Result<(), String> {
        let Value::Object(mut ours) = ours else {
            return Err(format!("{}: ours is not an object: {ours}", self.what));
        };
        let mut recorded = self.rest();
        for members in [&mut ours, &mut recorded] {
            members.retain(|_, value| !says_nothing(value));
        }
        expect_same(&self.what, &ours.into(), &recorded.into())
    }

    /// Takes a member, which is to be the same as `ours` but for null and empty members within it: both are
    /// what was sent or stored, which JSON writers treat differently.
    ///
    /// # Errors
    /// Where it is not.
    pub fn sent(&mut self, key: &str, ours: Value) -> Result<(), String> {
        let recorded = json!({key: self.value(key)});
        expect_same_json(&self.what, json!({key: ours}), recorded)
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> String {
        format!("{}.{key}: expected {expected}, found {found}", self.what)
    }
}

/// A value without those of its members, at any depth, of which `says_nothing` holds when it has looked at theirs.
pub(super) fn without(value: Value, says_nothing: &impl Fn(&str, &Value) -> bool) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter();
            let members = members.map(|(name, value)| (name, without(value, says_nothing)));
            let kept = members.filter(|(name, value)| !says_nothing(name, value));
            Value::Object(kept.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter();
            items.map(|item| without(item, says_nothing)).collect()
        }
        other => other,
    }
}

/// Whether a value is null, or a text, list or object with nothing in it.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(_) | Value::Bool(_) => false,
    }
}

/// A value without its null and empty members, zero and false among them, which JSON writers treat differently.
pub(super) fn pruned(value: Value) -> Value {
    without(value, &|_, value| says_nothing(value))
}

fn says_nothing(value: &Value) -> bool {
    is_empty(value) || *value == Value::Bool(false) || value.as_f64() == Some(0.0)
}

/// `Ok` when both are the same but for null and empty members, else the first place that differs.
pub(super) fn expect_same_json(what: &str, ours: Value, recorded: Value) -> Result<(), String> {
    expect_same(what, &pruned(ours), &pruned(recorded))
}

/// `Ok` when both are the same, else the first place that differs.
pub(super) fn expect_same(path: &str, ours: &Value, recorded: &Value) -> Result<(), String> {
    let (Value::Object(a), Value::Object(b)) = (ours, recorded) else {
        return expect_eq(path, ours, recorded);
    };
    for name in a.keys().chain(b.keys()) {
        let of = |map: &Map| map.get(name).cloned().unwrap_or_default();
        expect_same(&format!("{path}.{name}"), &of(a), &of(b))?;
    }
    Ok(())
}

/// `Ok` when equal, else an error that shows both.
///
/// # Errors
/// When they differ.
pub fn expect_eq<T: PartialEq + std::fmt::Debug>(
    what: &str,
    ours: &T,
    recorded: &T,
) -> Result<(), String> {
    if ours == recorded {
        Ok(())
    } else {
        Err(format!(
            "{what}: ours is {ours:?}, recorded is {recorded:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_overlooked_beside_members_and_within_what_was_sent() {
        let fields = |value| Fields::new(value, "out").unwrap();
        let recorded = json!({"ranks": {"a": 0}, "sent": {"b": 1}});
        let sent = json!({"b": 1, "c": [], "d": 0});
        for (ours, is_same) in [
            (json!({"ranks": {"a": 0}, "error": "", "calls": 0}), true),
            (json!({"ranks": {}}), false),
            (json!({"ranks": {"a": 0, "b": 0}}), false),
            (json!({"ranks": {"a": 0}, "calls": 1}), false),
        ] {
            let mut out = fields(recorded.clone());
            assert_eq!(out.sent("sent", sent.clone()), Ok(()));
            assert_eq!(out.is(ours.clone()).is_ok(), is_same, "{ours}");
        }
        assert!(fields(recorded).sent("sent", json!({"b": 2})).is_err());
    }
}
