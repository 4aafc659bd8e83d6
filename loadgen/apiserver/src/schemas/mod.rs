//! The fields of Kubernetes' types, in one place for decoding, strategic merge patches, server-side
//! apply, protobuf and the published OpenAPI.
//!
//! The types are those of Kubernetes 1.36, as `tests/bin/openapi.rs` writes them. Tables contain
//! everything except the types (`rules`). Custom kinds have their own schemas in the same form.

mod fill;
mod resolved;
mod rules;

use std::io::Read as _;
use std::sync::{Arc, LazyLock};

use flate2::read::GzDecoder;
use podstorm_objects::Kind;
use serde_json::{Map, Value};

pub use fill::{fill, fill_member};
pub use resolved::{Type, referred, schema_named, struct_name, written};

/// The schemas by name, e.g. `io.k8s.api.core.v1.Pod`, as OpenAPI v3 publishes them.
pub static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(include_bytes!("schemas.json.gz").as_slice())
        .read_to_string(&mut text)
        .expect("the schemas are packed by our own tool");
    // Parsed from a string, because serde_json reads a reader byte by byte.
    let mut schemas: Map<String, Value> =
        serde_json::from_str(&text).expect("the schemas are written by our own tool");
    rules::add(&mut schemas);
    schemas
});

/// The name of the schema for the metadata of all objects.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The prefix of references to schemas.
pub const REFERENCE: &str = "#/components/schemas/";

/// Returns the name of the schema of a kind.
#[must_use]
pub fn schema_name(kind: Kind) -> String {
    if kind.row().custom.is_some() {
        let (group, version) = group_and_version(kind.api_version());
        let reversed: Vec<&str> = group.split('.').rev().collect();
        return format!("{}.{version}.{}", reversed.join("."), kind.name());
    }
    schema_name_of(kind.api_version(), kind.name())
}

/// Returns the name of a built-in kind's schema, by its `apiVersion` and `kind`.
#[must_use]
pub fn schema_name_of(api_version: &str, kind: &str) -> String {
    let (group, version) = group_and_version(api_version);
    let package = match group {
        "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration.k8s.io" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        "" => "io.k8s.api.core",
        group => {
            let first = group.split('.').next().unwrap_or("");
            return format!("io.k8s.api.{first}.{version}.{kind}");
        }
    };
    format!("{package}.{version}.{kind}")
}

fn group_and_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Returns the name of the schema for an `apiVersion` and `kind`; `None` if there is no such
/// schema.
#[must_use]
pub fn schema_of(api_version: &str, kind: &str) -> Option<String> {
    let name = match kind {
        "DeleteOptions" => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"),
        _ => schema_name_of(api_version, kind),
    };
    SCHEMAS.contains_key(&name).then_some(name)
}

/// The schema for the objects of a kind.
#[derive(Clone, Debug)]
pub enum Schema {
    /// The schema of a built-in kind.
    Known(&'static Value),
    /// The schema of a custom kind.
    Custom(Arc<Value>),
}

impl std::ops::Deref for Schema {
    type Target = Value;

    fn deref(&self) -> &Value {
        match self {
            Schema::Known(schema) => schema,
            Schema::Custom(schema) => schema,
        }
    }
}

/// Returns the schema for objects, or requests, of a kind; `None` if there is none.
#[must_use]
pub fn schema_of_kind(kind: Kind) -> Option<Schema> {
    match kind.row().custom {
        Some(custom) => Some(Schema::Custom(custom.schema.get())),
        None => schema_named(&schema_name(kind)).map(Schema::Known),
    }
}

/// Returns the name of the schema that a property or an item refers to; `None` if it refers to
/// none.
#[must_use]
pub fn referred_by_name(schema: &Value) -> Option<&str> {
    let direct = schema
        .get("$ref")
        .or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
    direct?.as_str()?.strip_prefix(REFERENCE)
}

/// Returns the fields that a schema declares, with their schemas.
pub fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests;
