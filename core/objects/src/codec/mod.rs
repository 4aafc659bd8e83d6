//! JSON codecs of the objects: each file reads and writes one family of types.
//!
//! Reading consumes the JSON value, so that what is carried unread is moved, not copied. Nulls
//! beside typed members are dropped. Members that no Kubernetes version defines beside
//! `metadata`, `spec`, `status` (and in owner references and selectors, whose members are all
//! typed) are pruned, as an API server does. Writing leaves out unset members.

mod dynamic;
mod event;
mod meta;
mod node;
mod pod;
mod pod_shape;
mod pod_status;
mod replica_set;
mod replication_controller;
mod selector;
mod simple;
mod status;

use serde_json::Value;

use super::decode::{DecodeError, Members, Path};
use super::{Kind, Labels, Map, Rest, Time};

/// Opens an object of `kind`, whose `apiVersion` and `kind` may be absent but not others.
fn open(value: Value, kind: Kind) -> Result<Members<'static>, DecodeError> {
    const ROOT: &Path<'static> = &Path::ROOT;
    if !value.is_object() {
        return Err(ROOT.mismatch("an object", &value));
    }
    let mut members = Members::new(value, ROOT)?;
    let found_version = members.text("apiVersion")?;
    let found_kind = members.text("kind")?;
    let differs = |found: &str, expected: &str| !found.is_empty() && found != expected;
    if differs(&found_version, kind.api_version()) || differs(&found_kind, kind.name()) {
        let or_any = |found: String| {
            if found.is_empty() {
                "(absent)".into()
            } else {
                found
            }
        };
        return Err(ROOT.error(format!(
            "expected {} {}, found {} {}",
            kind.api_version(),
            kind.name(),
            or_any(found_version),
            or_any(found_kind),
        )));
    }
    Ok(members)
}

/// A JSON object being written.
struct Writer(Map);

impl Writer {
    fn new() -> Writer {
        Writer(Map::new())
    }

    /// Starts with the members carried unread.
    fn with_rest(rest: &Rest) -> Writer {
        Writer(rest.as_deref().cloned().unwrap_or_default())
    }

    /// Starts with `apiVersion` and `kind`.
    fn of_kind(kind: Kind) -> Writer {
        let mut out = Writer::new();
        out.put("apiVersion", kind.api_version());
        out.put("kind", kind.name());
        out
    }

    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.to_owned(), value.into());
    }

    fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    /// Writes a text unless it is empty.
    fn put_text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.put(key, text);
        }
    }

    /// Writes a number unless it is zero.
    fn put_number(&mut self, key: &str, number: i64) {
        if number != 0 {
            self.put(key, number);
        }
    }

    fn put_time(&mut self, key: &str, time: Time) {
        if !time.is_unset() {
            self.put(key, time.to_string());
        }
    }

    /// Writes a map of strings unless it is empty.
    fn put_labels(&mut self, key: &str, labels: &Labels) {
        if !labels.is_empty() {
            self.put(key, labels.to_json());
        }
    }

    /// Writes a list unless it is empty.
    fn put_list(&mut self, key: &str, items: impl Iterator<Item = Value>) {
        let items: Vec<Value> = items.collect();
        if !items.is_empty() {
            self.put(key, items);
        }
    }

    /// Writes an object unless it has no members.
    fn put_map(&mut self, key: &str, map: Map) {
        if !map.is_empty() {
            self.put(key, map);
        }
    }

    fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! What the codec tests share.

    use serde_json::Value;

    use crate::Resource;

    /// The value without nulls, empty lists, empty objects and empty strings, at every depth.
    pub(crate) fn normal(value: Value) -> Value {
        let is_empty = |value: &Value| match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        match value {
            Value::Object(map) => {
                let members = map.into_iter().map(|(key, value)| (key, normal(value)));
                Value::Object(members.filter(|(_, value)| !is_empty(value)).collect())
            }
            Value::Array(items) => Value::Array(items.into_iter().map(normal).collect()),
            other => other,
        }
    }

    /// Reads and writes an object and checks that nothing got lost; returns the object.
    pub(crate) fn round_trip<T: Resource + PartialEq>(value: &Value) -> T {
        let object = T::from_json(value.clone()).expect("a readable object");
        let written = object.to_json();
        assert_eq!(
            T::from_json(written.clone()).expect("our own output"),
            object
        );
        let mut expected = normal(value.clone());
        expected["apiVersion"] = T::KIND.api_version().into();
        expected["kind"] = T::KIND.name().into();
        assert_eq!(normal(written), expected);
        object
    }

    /// The text of the error that reading gives.
    pub(crate) fn refusal<T: Resource>(value: Value) -> String {
        T::from_json(value)
            .expect_err("must be refused")
            .to_string()
    }
}
