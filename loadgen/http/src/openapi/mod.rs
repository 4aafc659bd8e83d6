//! OpenAPI v3: what clients validate and explain objects by, and the check of a request's members.
//!
//! The schemas are those of Kubernetes 1.36, written by `tests/bin/openapi.rs`. Kinds, group versions
//! and merge keys come from the server's own tables.

mod list_types;
mod resolved;
mod types;
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use podstorm_apiserver::{errors, merge_key};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

use crate::catalog::{Catalog, GroupVersion};
use crate::discovery::fingerprint;
use crate::reviews;

pub(crate) use resolved::{referred, schema_named};
pub(crate) use types::{wrong_conversion, wrong_type};
pub(crate) use unknown::{drop_unknown_changes, drop_unknown_fields, drop_unknown_of};

/// Schemas by their name, e.g. `io.k8s.api.core.v1.Pod`.
static SCHEMAS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let text = GzDecoder::new(include_bytes!("schemas.json.gz").as_slice());
    let mut schemas: Map<String, Value> =
        serde_json::from_reader(text).expect("the schemas are written by a program of ours");
    let_metadata_be_absent(&mut schemas);
    add_merge_keys(&mut schemas);
    list_types::add(&mut schemas);
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

/// The schema of a kind's objects, or of requests of that kind; `None` where there is none.
pub(crate) fn schema_of_kind(kind: Kind) -> Option<&'static Value> {
    match kind.row().custom {
        Some(custom) => Some(&custom.schema),
        None => schema_named(&schema_name(kind)),
    }
}

/// The name of the schema that a property or an item refers to.
fn referred_by_name(schema: &Value) -> Option<&str> {
    let direct = schema
        .get("$ref")
        .or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
    direct?.as_str()?.strip_prefix(REFERENCE)
}

/// Takes it back that metadata must be given: the types that the schemas are written from always have it,
/// which says nothing of what upstream's documents ask for.
fn let_metadata_be_absent(schemas: &mut Map<String, Value>) {
    for schema in schemas.values_mut().filter_map(Value::as_object_mut) {
        let Some(Value::Array(required)) = schema.get_mut("required") else {
            continue;
        };
        required.retain(|member| member != "metadata");
        if required.is_empty() {
            schema.remove("required");
        }
    }
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

/// `/openapi/v3`: where the document of each group version is.
pub(crate) fn index(catalog: &Catalog) -> Value {
    let paths = catalog.group_versions().map(|of| {
        let path = path_of(of);
        // What is under an address never changes: clients keep it.
        let hash = hash_of(catalog.kinds(of).unwrap_or_default());
        let url = format!("/openapi/v3/{path}?hash={hash}");
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<Map<_, _>>()})
}

/// A text that is another one for other schemas.
fn hash_of(kinds: &[Kind]) -> String {
    let mut hash = fingerprint(env!("CARGO_PKG_VERSION").as_bytes());
    for custom in kinds.iter().filter_map(|kind| kind.row().custom) {
        hash ^= fingerprint(custom.schema.to_string().as_bytes());
    }
    format!("{hash:016X}")
}

fn path_of(of: &GroupVersion) -> String {
    match of.group.as_str() {
        "" => format!("api/{}", of.version),
        group => format!("apis/{group}/{}", of.version),
    }
}

/// The document of a group version.
///
/// # Errors
/// 404 for a path that names none.
pub(crate) fn document(catalog: &Catalog, path: &str) -> Result<Value, ApiError> {
    let of = catalog.group_versions().find(|of| path_of(of) == path);
    let of = of.ok_or_else(errors::unknown_resource)?;
    let kinds = catalog.kinds(of).unwrap_or_default();
    let mut paths = Map::new();
    let mut used = BTreeSet::new();
    for kind in kinds {
        add_paths(&mut paths, of, *kind);
        let custom = kind.row().custom;
        let name = custom.map_or_else(|| schema_name(*kind), |_| OBJECT_META.to_owned());
        add_schema(&mut used, &name);
    }
    for name in ["DeleteOptions", "Status"] {
        add_schema(
            &mut used,
            &format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        );
    }
    let mut schemas: Map<String, Value> = used
        .into_iter()
        .filter_map(|name| Some((name.clone(), SCHEMAS.get(&name)?.clone())))
        .collect();
    for kind in kinds {
        if let Some(custom) = kind.row().custom {
            schemas.insert(schema_name(*kind), custom.schema.clone());
        }
        if let Some(schema) = schemas.get_mut(&schema_name(*kind)) {
            schema["x-kubernetes-group-version-kind"] = json!([kind_json(*kind)]);
        }
    }
    Ok(
        json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths, "components": {"schemas": schemas}}),
    )
}

fn kind_json(kind: Kind) -> Value {
    let of = GroupVersion::of(kind.api_version());
    json!({"group": of.group, "version": of.version, "kind": kind.name()})
}

/// Adds a schema with all that it refers to.
fn add_schema(used: &mut BTreeSet<String>, name: &str) {
    let Some(schema) = SCHEMAS.get(name) else {
        return;
    };
    if !used.insert(name.to_owned()) {
        return;
    }
    for (_, property) in properties(schema) {
        let parts = [
            Some(property),
            property.get("items"),
            property.get("additionalProperties"),
        ];
        for part in parts.into_iter().flatten() {
            if let Some(name) = referred_by_name(part) {
                add_schema(used, name);
            }
        }
    }
}

/// Adds the paths of a kind: what can be done, and in which form.
fn add_paths(paths: &mut Map<String, Value>, of: &GroupVersion, kind: Kind) {
    let within = if kind.is_namespaced() {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let all = format!("/{}{within}/{}", path_of(of), kind.resource());
    let schema = json!({"$ref": format!("{REFERENCE}{}", schema_name(kind))});
    let validates = json!([{"name": "fieldValidation", "in": "query", "schema":
        {"type": "string", "uniqueItems": true}}]);
    let answer = json!({"200": {"description": "OK", "content":
        {"application/json": {"schema": schema}}}});
    let operation = |action: &str, bodies: &[&str]| {
        let mut operation = json!({"x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind_json(kind), "responses": answer});
        if !bodies.is_empty() {
            let contents = bodies.iter().map(|body| (*body, json!({"schema": schema})));
            let contents: BTreeMap<&str, Value> = contents.collect();
            operation["parameters"] = validates.clone();
            operation["requestBody"] = json!({"content": contents, "required": true});
        }
        operation
    };
    const DOCUMENTS: &[&str] = &["application/json", "application/yaml"];
    const PATCHES: &[&str] = &[
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
    ];
    let patches = match kind.row().custom {
        Some(_) => &PATCHES[..PATCHES.len() - 1],
        None => PATCHES,
    };
    if reviews::is_review(kind) {
        paths.insert(all, json!({"post": operation("post", DOCUMENTS)}));
        return;
    }
    paths.insert(
        format!("{all}/{{name}}"),
        json!({"get": operation("get", &[]), "put": operation("put", DOCUMENTS),
            "patch": operation("patch", patches), "delete": operation("delete", &[])}),
    );
    paths.insert(
        all,
        json!({"get": operation("list", &[]), "post": operation("post", DOCUMENTS),
            "delete": operation("deletecollection", &[])}),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

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
