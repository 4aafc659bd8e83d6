//! The OpenAPI documents: one for each group version and each group, and their index.

use std::collections::BTreeSet;

use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

use super::operations::{self, reference};
use super::{
    OBJECT_META, SCHEMAS, properties, referred_by_name, schema_name, schema_name_of, swagger,
};
use crate::catalog::{Catalog, GroupVersion, OlderOpenApi};
use crate::unstored::is_review;

/// The subject of a path in the index.
enum Subject<'a> {
    GroupVersion(&'a GroupVersion),
    /// A single path, with the schema of its answer.
    Path(String, &'static str),
}

/// Returns the index at `/openapi/v3`.
pub(crate) fn index(catalog: &Catalog) -> String {
    let paths = subjects(catalog).map(|(path, subject)| {
        let tag = tag_of(catalog, &path, &subject);
        let url = format!("/openapi/v3/{path}?hash={tag}");
        (path, json!({"serverRelativeURL": url}))
    });
    json!({"paths": paths.collect::<Map<_, _>>()}).to_string()
}

fn subjects(catalog: &Catalog) -> impl Iterator<Item = (String, Subject<'_>)> {
    let versions = catalog
        .group_versions()
        .map(|of| (path_of(of), Subject::GroupVersion(of)));
    let groups = catalog.groups().into_iter();
    let groups = groups.map(|(group, _)| (format!("apis/{group}"), "APIGroup"));
    let others = [
        (".well-known/openid-configuration", ""),
        ("api", "APIVersions"),
        ("apis", "APIGroupList"),
        ("openid/v1/jwks", ""),
        ("version", "Info"),
    ];
    let others = others.map(|(path, schema)| (path.to_owned(), schema));
    let paths = groups.chain(others).map(|(path, schema)| {
        let at = format!("/{path}/");
        (path, Subject::Path(at, schema))
    });
    versions.chain(paths)
}

fn path_of(of: &GroupVersion) -> String {
    match of.group.as_str() {
        "" => format!("api/{}", of.version),
        group => format!("apis/{group}/{}", of.version),
    }
}

/// Returns the tag by which clients cache a document. It changes with the document. The tag of a
/// group version is a hash of the whole document, computed once until the kinds change.
fn tag_of(catalog: &Catalog, path: &str, subject: &Subject<'_>) -> String {
    match subject {
        Subject::GroupVersion(of) => {
            let tag = catalog.openapi_tag(of);
            let made = tag.get_or_init(|| hashed(&json_of(catalog, subject).to_string()));
            made.clone()
        }
        // The content depends only on the path and the release.
        Subject::Path(..) => hashed(&format!("{} {path}", env!("CARGO_PKG_VERSION"))),
    }
}

/// Returns the tag of a text: its hash in hexadecimal.
pub(crate) fn hashed(text: &str) -> String {
    format!("{:016X}", fingerprint(text.as_bytes()))
}

/// Hashes bytes with 64-bit FNV-1a, which gives the same result on every machine, unlike the
/// hashers of maps.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A document in the index, with the tag that its URL contains.
pub(crate) struct Document<'a> {
    catalog: &'a Catalog,
    subject: Subject<'a>,
    pub(crate) tag: String,
}

impl<'a> Document<'a> {
    /// Returns the document at a path of the index.
    ///
    /// # Errors
    /// 404 if the index does not have the path.
    pub(crate) fn at(catalog: &'a Catalog, path: &str) -> Result<Document<'a>, ApiError> {
        let found = subjects(catalog).find(|(known, _)| known == path);
        let (_, subject) = found.ok_or_else(errors::unknown_resource)?;
        let tag = tag_of(catalog, path, &subject);
        Ok(Document {
            catalog,
            subject,
            tag,
        })
    }

    pub(crate) fn json(&self) -> Value {
        json_of(self.catalog, &self.subject)
    }
}

fn json_of(catalog: &Catalog, subject: &Subject<'_>) -> Value {
    match subject {
        Subject::GroupVersion(of) => of_kinds(of, catalog.kinds(of).unwrap_or_default()),
        Subject::Path(at, schema) => {
            let mut used = BTreeSet::new();
            let name = operations::meta(schema);
            add_schema(&mut used, &name);
            let item = operations::alone(at, &name);
            whole(json!({at: item}), schemas_named(used))
        }
    }
}

/// Builds the v2 document from all v3 documents. This takes about 100 ms, so a catalog caches the
/// document.
pub(crate) fn older(catalog: &Catalog) -> OlderOpenApi {
    let documents = subjects(catalog).map(|(_, subject)| json_of(catalog, &subject));
    let document = swagger::document(documents);
    let json = document.to_string();
    OlderOpenApi {
        tag: hashed(&json),
        json: json.into(),
        protobuf: swagger::encode(&document).into(),
    }
}

fn whole(paths: Value, schemas: Map<String, Value>) -> Value {
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths, "components": {"schemas": schemas}})
}

fn of_kinds(of: &GroupVersion, kinds: &[Kind]) -> Value {
    let mut paths = Map::new();
    let root = format!("/{}/", path_of(of));
    let list = operations::meta("APIResourceList");
    paths.insert(root.clone(), operations::alone(&root, &list));
    let mut used = BTreeSet::new();
    let mut lists = Map::new();
    for kind in kinds {
        operations::add(&mut paths, of, *kind);
        let custom = kind.row().custom;
        let name = custom.map_or_else(|| schema_name(*kind), |_| OBJECT_META.to_owned());
        add_schema(&mut used, &name);
        for part in kind.row().subresources {
            let name = schema_name_of(part.api_version, part.kind);
            add_schema(&mut used, &name);
        }
        if kind.row().has_scale {
            add_schema(&mut used, "io.k8s.api.autoscaling.v1.Scale");
        }
        if !is_review(*kind) {
            lists.insert(format!("{}List", schema_name(*kind)), list_schema(*kind));
        }
    }
    let of_requests = [
        "APIResourceList",
        "DeleteOptions",
        "ListMeta",
        "Patch",
        "Status",
        "WatchEvent",
    ];
    for name in of_requests {
        add_schema(&mut used, &operations::meta(name));
    }
    let mut schemas = schemas_named(used);
    for kind in kinds {
        if let Some(custom) = kind.row().custom {
            schemas.insert(schema_name(*kind), Value::clone(&custom.schema.get()));
        }
        if let Some(schema) = schemas.get_mut(&schema_name(*kind)) {
            schema["x-kubernetes-group-version-kind"] = json!([operations::kind_json(*kind)]);
        }
    }
    schemas.append(&mut lists);
    whole(Value::Object(paths), schemas)
}

fn list_schema(kind: Kind) -> Value {
    let mut of = operations::kind_json(kind);
    of["kind"] = format!("{}List", kind.name()).into();
    let text = json!({"type": "string"});
    let items = json!({"type": "array", "items": reference(&schema_name(kind))});
    json!({"type": "object", "description": format!("{}List is a list of {}.", kind.name(), kind.resource()),
        "required": ["items"],
        "properties": {"apiVersion": text, "kind": text, "items": items,
            "metadata": reference(&operations::meta("ListMeta"))},
        "x-kubernetes-group-version-kind": [of]})
}

fn schemas_named(names: BTreeSet<String>) -> Map<String, Value> {
    let found = names
        .into_iter()
        .filter_map(|name| Some((name.clone(), SCHEMAS.get(&name)?.clone())));
    found.collect()
}

/// Adds a schema and, transitively, the schemas that it refers to.
fn add_schema(used: &mut BTreeSet<String>, name: &str) {
    let Some(schema) = SCHEMAS.get(name) else {
        return;
    };
    if !used.insert(name.to_owned()) {
        return;
    }
    for (_, property) in properties(schema) {
        add_referred(used, property);
    }
}

fn add_referred(used: &mut BTreeSet<String>, schema: &Value) {
    if let Some(name) = referred_by_name(schema) {
        add_schema(used, name);
    }
    for part in ["items", "additionalProperties"] {
        if let Some(part) = schema.get(part) {
            add_referred(used, part);
        }
    }
}
