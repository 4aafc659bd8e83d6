//! JSON codecs of the objects. Each file reads and writes one family of types.
//!
//! Objects are read from a value on a tape and written as text; neither direction builds a tree.
//! Nulls of typed members are dropped. Members that no Kubernetes version defines are pruned, as an
//! API server does, if they are siblings of `metadata`, `spec` and `status`, or members of owner
//! references and selectors, whose members are all typed. Unset members are not written.

/// Implements `Object` for a type with metadata: writes `apiVersion`, `kind` and `metadata`, then
/// the given members.
macro_rules! object {
    ($type:ident, |$object:ident, $out:ident| $others:expr) => {
        impl crate::Object for $type {
            fn kind(&self) -> crate::Kind {
                <Self as crate::Resource>::KIND
            }

            fn metadata(&self) -> &crate::ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut crate::ObjectMeta {
                &mut self.metadata
            }

            fn write_json(&self, out: &mut crate::json::Writer) {
                let $object = self;
                out.object(|$out| {
                    crate::codec::put_kind($out, self.kind());
                    $out.member("metadata", |out| out.object(|out| self.metadata.write(out)));
                    $others;
                });
            }
        }
    };
}

/// Implements `Object` and `Resource` for a type that has only metadata, a `spec` and a `status`.
macro_rules! spec_and_status {
    ($type:ident, $kind:ident, $spec:ident, $status:ident) => {
        object!($type, |object, out| {
            out.put_object("spec", |out| object.spec.write(out));
            out.member("status", |out| out.object(|out| object.status.write(out)));
        });

        impl crate::Resource for $type {
            const KIND: crate::Kind = crate::Kind::$kind;

            fn read(value: crate::json::JsonValue<'_>) -> Result<Self, crate::decode::DecodeError> {
                let (mut members, metadata) = crate::codec::open(value, Self::KIND)?;
                Ok($type {
                    metadata,
                    spec: members.child("spec", $spec::read)?.unwrap_or_default(),
                    status: members.child("status", $status::read)?.unwrap_or_default(),
                })
            }
        }
    };
}

mod deployment;
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

use super::decode::{DecodeError, Members, Path};
use super::json::{JsonValue, Writer};
use super::{Kind, ObjectMeta};

/// Opens an object of `kind` and reads its metadata. Its `apiVersion` and `kind` may be absent, but
/// must not name another kind.
fn open(
    value: JsonValue<'_>,
    kind: Kind,
) -> Result<(Members<'_, 'static>, ObjectMeta), DecodeError> {
    const ROOT: &Path<'static> = &Path::ROOT;
    if !value.is_object() {
        return Err(ROOT.mismatch("an object", value));
    }
    let mut members = Members::new(value, ROOT)?;
    let found_version = members.text("apiVersion")?;
    let found_kind = members.text("kind")?;
    let differs = |found: &str, expected: &str| !found.is_empty() && found != expected;
    if differs(found_version, kind.api_version()) || differs(found_kind, kind.name()) {
        let found = match (found_version, found_kind) {
            ("", kind) => format!("{kind} without an apiVersion"),
            (version, "") => format!("{version} without a kind"),
            (version, kind) => format!("{version} {kind}"),
        };
        return Err(ROOT.error(format!(
            "expected {} {}, found {found}",
            kind.api_version(),
            kind.name(),
        )));
    }
    let metadata = members.child("metadata", ObjectMeta::read)?;
    Ok((members, metadata.unwrap_or_default()))
}

/// Opens an entry of a list. Null is not a valid entry.
fn item<'t, 'p>(value: JsonValue<'t>, path: &'p Path<'p>) -> Result<Members<'t, 'p>, DecodeError> {
    if value.is_null() {
        return Err(path.mismatch("an object", value));
    }
    Members::new(value, path)
}

/// Writes `kind` and `apiVersion` in the order of Go's structs. Custom objects are not structs, so
/// their members are sorted.
fn put_kind(out: &mut Writer, kind: Kind) {
    match kind.row().custom {
        None => {
            out.put("kind", kind.name());
            out.put("apiVersion", kind.api_version());
        }
        Some(_) => {
            out.put("apiVersion", kind.api_version());
            out.put("kind", kind.name());
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Functions that the codec tests share.

    use serde_json::Value;

    use super::pod::ReadSpec;
    use crate::decode::{DecodeError, Path};
    use crate::json::Tape;
    use crate::{PodSpec, Resource, TokenVolume};

    /// Reads a pod spec. Returns the spec without the name of the pod's own volume, and that
    /// volume.
    pub(crate) fn read_spec(spec: &Value) -> Result<(PodSpec, Option<TokenVolume>), DecodeError> {
        let read = ReadSpec::read(Tape::new(spec).root(), &Path::ROOT, None)?;
        Ok((PodSpec::clone(&read.spec), read.token_volume))
    }

    /// Returns the value without nulls, empty lists, empty objects and empty strings, at every
    /// depth.
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

    /// Reads and writes an object, and checks that nothing was lost. Returns the object.
    pub(crate) fn round_trip<T: Resource + PartialEq>(value: &Value) -> T {
        let object = T::from_json(value.clone()).expect("a readable object");
        let written = object.to_json();
        assert_eq!(
            T::from_json(written.clone()).expect("the written object is readable"),
            object
        );
        let mut expected = normal(value.clone());
        expected["apiVersion"] = T::KIND.api_version().into();
        expected["kind"] = T::KIND.name().into();
        assert_eq!(normal(written), expected);
        object
    }

    /// Parses values that can't be read, one per line: the JSON, then the error message after ` =>
    /// `.
    pub(crate) fn wrong_values(text: &str) -> impl Iterator<Item = (Value, &str)> {
        text.trim().lines().map(|line| {
            let (value, problem) = line.split_once(" => ").expect("both parts");
            (serde_json::from_str(value).expect("JSON"), problem)
        })
    }

    /// Returns the error message for a value that can't be read.
    pub(crate) fn refusal<T: Resource>(value: Value) -> String {
        T::from_json(value)
            .expect_err("reading must fail")
            .to_string()
    }
}
