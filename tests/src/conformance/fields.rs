//! A reader for recorded cases that detects unread members: reading a member removes it, and
//! `finish` rejects the members that remain.

use podstorm::object::{Map, Now};
use serde_json::{Value, json};

/// The members of one JSON object in a case.
#[derive(Debug)]
pub struct Fields {
    map: Map,
    what: String,
}

impl Fields {
    /// Returns the members of `value`. Errors refer to it as `what`.
    ///
    /// # Errors
    /// Fails if `value` is not an object.
    pub fn new(value: Value, what: impl Into<String>) -> Result<Fields, String> {
        let what = what.into();
        match value {
            Value::Object(map) => Ok(Fields { map, what }),
            other => Err(format!("{what}: expected an object, found {other}")),
        }
    }

    /// Takes a member; `None` if it is absent. A null is `Some(Value::Null)`.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.map.remove(key)
    }

    /// Takes a member; null if it is absent.
    pub fn value(&mut self, key: &str) -> Value {
        self.take(key).unwrap_or(Value::Null)
    }

    /// Takes a string; empty if it is absent or null.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn text(&mut self, key: &str) -> Result<String, String> {
        match self.value(key) {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text),
            other => Err(self.wrong(key, "a string", &other)),
        }
    }

    /// Takes an integer; 0 if it is absent or null.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn int(&mut self, key: &str) -> Result<i64, String> {
        Ok(self.opt_int(key)?.unwrap_or(0))
    }

    /// Takes an integer; `None` if it is absent or null.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn opt_int(&mut self, key: &str) -> Result<Option<i64>, String> {
        match self.value(key) {
            Value::Null => Ok(None),
            other => match other.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "an integer", &other)),
            },
        }
    }

    /// Takes the time of a case, `nowUnixNano`, and combines it with a monotonic time. Also takes
    /// and ignores `now`, the same time in another form, and `category`, the origin of the case.
    ///
    /// # Errors
    /// Fails if a member has another type.
    pub fn now(&mut self, mono_ns: i64) -> Result<Now, String> {
        self.text("category")?;
        self.text("now")?;
        Ok(Now {
            mono_ns,
            wall_ns: self.int("nowUnixNano")?,
        })
    }

    /// Takes a boolean; false if it is absent or null.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.value(key) {
            Value::Null => Ok(false),
            Value::Bool(flag) => Ok(flag),
            other => Err(self.wrong(key, "a boolean", &other)),
        }
    }

    /// Takes a list; empty if it is absent or null.
    ///
    /// # Errors
    /// Fails if the member has another type.
    pub fn list(&mut self, key: &str) -> Result<Vec<Value>, String> {
        match self.value(key) {
            Value::Null => Ok(Vec::new()),
            Value::Array(items) => Ok(items),
            other => Err(self.wrong(key, "a list", &other)),
        }
    }

    /// Takes a list and converts each item with `read`.
    ///
    /// # Errors
    /// Fails if the member has another type, or if `read` fails.
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
    /// Fails if the member has another type.
    pub fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        self.all(key, |item| match item {
            Value::String(text) => Ok(text),
            other => Err(format!("{key}: expected a string, found {other}")),
        })
    }

    /// Takes a list of objects and passes each to `read`, which must take all of the object's
    /// members.
    ///
    /// # Errors
    /// Fails if the member has another type, or if `read` fails; the error contains the position in
    /// the list.
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

    /// Takes an object as fields; empty if it is absent or null.
    ///
    /// # Errors
    /// Fails if the member has another type.
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

    /// Takes all remaining members as a map.
    pub fn rest(&mut self) -> Map {
        std::mem::take(&mut self.map)
    }

    /// Checks that all members have been taken.
    ///
    /// # Errors
    /// Fails if a member has not been taken, i.e. if the runner does not know the field.
    pub fn finish(self) -> Result<(), String> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("{}: unknown field {key:?}", self.what)),
        }
    }

    /// Takes all remaining members, which must equal `ours`. At this level, an absent member equals
    /// null, zero, false and an empty value; in nested objects, it equals only null.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn is(&mut self, ours: Value) -> Result<(), String> {
        let Value::Object(mut ours) = ours else {
            return Err(format!(
                "{}: expected an object as our result: {ours}",
                self.what
            ));
        };
        let mut recorded = self.rest();
        for members in [&mut ours, &mut recorded] {
            members.retain(|_, value| !says_nothing(value));
        }
        expect_same(&self.what, &ours.into(), &recorded.into())
    }

    /// Takes a member, which must equal `ours` except for members that are null, empty, zero or
    /// false, because JSON writers differ in whether they write these.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn sent(&mut self, key: &str, ours: Value) -> Result<(), String> {
        let recorded = json!({key: self.value(key)});
        expect_same_json(&self.what, json!({key: ours}), recorded)
    }

    fn wrong(&self, key: &str, expected: &str, found: &Value) -> String {
        format!("{}.{key}: expected {expected}, found {found}", self.what)
    }
}

/// Removes the members, at any depth, for which `says_nothing` returns true. Inner members are
/// removed first.
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

/// Reports whether a value is null, or an empty string, list or object.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(_) | Value::Bool(_) => false,
    }
}

/// Removes null and empty members, and those that are zero or false, because JSON writers differ in
/// whether they write these.
pub(super) fn pruned(value: Value) -> Value {
    without(value, &|_, value| says_nothing(value))
}

fn says_nothing(value: &Value) -> bool {
    is_empty(value) || *value == Value::Bool(false) || value.as_f64() == Some(0.0)
}

/// Returns `Ok` if both values are equal except for members that are null, empty, zero or false;
/// otherwise the first difference.
pub(super) fn expect_same_json(what: &str, ours: Value, recorded: Value) -> Result<(), String> {
    expect_same(what, &pruned(ours), &pruned(recorded))
}

/// Returns `Ok` if both values are equal, otherwise the first difference. An absent member equals
/// null.
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

/// Returns `Ok` if both values are equal, otherwise an error that contains both.
///
/// # Errors
/// Fails if the values differ.
pub fn expect_eq<T: PartialEq + std::fmt::Debug>(
    what: &str,
    ours: &T,
    recorded: &T,
) -> Result<(), String> {
    if ours == recorded {
        Ok(())
    } else {
        Err(format!("{what}: got {ours:?}, recorded {recorded:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_members_are_ignored_where_allowed() {
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
