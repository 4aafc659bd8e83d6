//! OpenAPI: what clients validate and explain objects by, and the check of a request's members.
//!
//! The schemas are those of Kubernetes 1.36, written by `tests/bin/openapi.rs`. Kinds, group versions
//! and merge keys come from the server's own tables.

mod document;
mod marks;
mod operations;
mod resolved;
mod swagger;
mod types;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use flate2::read::GzDecoder;
use podstorm_apiserver::merge_key;
use podstorm_objects::Kind;
use serde_json::{Map, Value};

use crate::catalog::GroupVersion;

pub(crate) use document::{Document, Older, index, older};
pub(crate) use resolved::{referred, schema_named, written};
pub(crate) use types::{wrong_conversion, wrong_type};
pub(crate) use unknown::{
    drop_unknown_changes, drop_unknown_fields, drop_unknown_of, unknown_fields,
};

/// Schemas by their name, e.g. `io.k8s.api.core.v1.Pod`.
static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let text = GzDecoder::new(include_bytes!("schemas.json.gz").as_slice());
    let mut schemas: Map<String, Value> =
        serde_json::from_reader(text).expect("the schemas are written by a program of ours");
    add_merge_keys(&mut schemas);
    marks::add(&mut schemas);
    schemas
});

/// The schema of the metadata of all objects.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// How a reference to a schema begins.
const REFERENCE: &str = "#/components/schemas/";

/// The name of a kind's schema.
fn schema_name(kind: Kind) -> String {
    if kind.row().custom.is_some() {
        let of = GroupVersion::of(kind.api_version());
        let reversed: Vec<&str> = of.group.split('.').rev().collect();
        return format!("{}.{}.{}", reversed.join("."), of.version, kind.name());
    }
    schema_name_of(kind.api_version(), kind.name())
}

fn schema_name_of(api_version: &str, kind: &str) -> String {
    let of = GroupVersion::of(api_version);
    let group = match of.group.as_str() {
        "apiextensions.k8s.io" => {
            return format!(
                "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{}.{kind}",
                of.version
            );
        }
        "apiregistration.k8s.io" => {
            return format!(
                "io.k8s.kube-aggregator.pkg.apis.apiregistration.{}.{kind}",
                of.version
            );
        }
        group => group.split('.').next().unwrap_or(""),
    };
    let group = if group.is_empty() { "core" } else { group };
    format!("io.k8s.api.{group}.{}.{kind}", of.version)
}

/// The name of the schema of a kind by its `apiVersion` and `kind`; `None` where there is none.
pub(crate) fn schema_of(api_version: &str, kind: &str) -> Option<String> {
    let name = match kind {
        "DeleteOptions" => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"),
        _ => schema_name_of(api_version, kind),
    };
    SCHEMAS.contains_key(&name).then_some(name)
}

/// The schema of a kind's objects.
pub(crate) enum Schema {
    Known(&'static Value),
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

/// The schema of a kind's objects, or of requests of that kind; `None` where there is none.
pub(crate) fn schema_of_kind(kind: Kind) -> Option<Schema> {
    match kind.row().custom {
        Some(custom) => Some(Schema::Custom(custom.schema.get())),
        None => schema_named(&schema_name(kind)).map(Schema::Known),
    }
}

/// The name of the schema that a property or an item refers to.
fn referred_by_name(schema: &Value) -> Option<&str> {
    let direct = schema
        .get("$ref")
        .or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
    direct?.as_str()?.strip_prefix(REFERENCE)
}

/// Marks the lists that strategic merge patches merge. A list's merge key depends on the member that
/// holds its object, so schemas are met by way of the members that refer to them.
fn add_merge_keys(schemas: &mut Map<String, Value>) {
    let mut parents: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for schema in schemas.values() {
        for (member, property) in properties(schema) {
            let target =
                referred_by_name(property).or_else(|| referred_by_name(property.get("items")?));
            if let Some(target) = target {
                parents
                    .entry(target.to_owned())
                    .or_default()
                    .insert(member.clone());
            }
        }
    }
    for (name, schema) in schemas.iter_mut() {
        let held_by = parents.get(name);
        let Some(Value::Object(properties)) = schema.get_mut("properties") else {
            continue;
        };
        for (member, property) in properties {
            let by_parent = held_by.into_iter().flatten();
            let mut keys = by_parent.filter_map(|parent| merge_key(parent, member));
            if property.get("items").is_none() {
                continue;
            }
            if let Some(key) = keys.next() {
                property["x-kubernetes-patch-strategy"] = "merge".into();
                if !key.is_empty() {
                    property["x-kubernetes-patch-merge-key"] = key.into();
                }
            }
        }
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reviews;

    #[test]
    fn no_schema_asks_for_metadata() {
        let required = |name: &str| SCHEMAS[name]["required"].clone();
        assert_eq!(required("io.k8s.api.apps.v1.Deployment"), Value::Null);
        assert_eq!(
            required("io.k8s.api.core.v1.PodSpec"),
            json!(["containers"])
        );
    }

    #[test]
    fn lists_that_patches_merge_are_marked() {
        let property = |schema: &str, member: &str| {
            let schema = &SCHEMAS[&format!("io.k8s.api.core.v1.{schema}")];
            schema["properties"][member]["x-kubernetes-patch-merge-key"].clone()
        };
        assert_eq!(property("PodSpec", "containers"), "name");
        assert_eq!(property("Container", "ports"), "containerPort");
        assert_eq!(property("PodStatus", "conditions"), "type");
        assert_eq!(property("PodSpec", "tolerations"), Value::Null);
        assert_eq!(property("Container", "args"), Value::Null);
    }

    #[test]
    fn every_kind_has_a_schema() {
        let cluster =
            podstorm_apiserver::Cluster::new(podstorm_apiserver::ClusterOptions::default());
        for kind in cluster.kinds().into_iter().chain(reviews::kinds()) {
            assert!(SCHEMAS.contains_key(&schema_name(kind)), "{kind:?}");
        }
    }
}
