//! What the server says about itself: versions, groups, resources, OpenAPI.
//!
//! Source: `endpoints/discovery` of Kubernetes' apiserver; recorded answers of 1.36.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::header::{ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method, Response};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

use crate::Call;
use crate::answer::{self, Body};
use crate::catalog::GroupVersion;
use crate::media::Shape;
use crate::openapi;
use crate::reviews;
use crate::route::Route;

/// The release of Kubernetes whose behaviour is served.
const MINOR: &str = "36";
/// The methods of every kind, as discovery lists them.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// The methods of a kind.
fn verbs(kind: Kind) -> &'static [&'static str] {
    // Sic.
    const OF_CUSTOM: [&str; 8] = [
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ];
    if kind.row().custom.is_some() {
        return &OF_CUSTOM;
    }
    match reviews::is_review(kind) {
        true => reviews::VERBS,
        false => &VERBS,
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub(crate) fn serve(call: &Call<'_>, route: &Route) -> Result<Response<Body>, ApiError> {
    let is_read = [Method::GET, Method::HEAD].contains(call.method);
    let strict = matches!(
        route,
        Route::CoreVersions | Route::Resources(_) | Route::Version
    );
    if strict && !is_read {
        return Err(answer::method_not_allowed());
    }
    let aggregated = call.accepted.shape == Shape::Discovery;
    let document = match route {
        Route::Root => paths(call),
        Route::Version => version(),
        Route::CoreVersions if aggregated => return Ok(aggregate(call, true)),
        Route::Groups if aggregated => return Ok(aggregate(call, false)),
        Route::CoreVersions => {
            let host = call.headers.get(http::header::HOST);
            let host = host.and_then(|host| host.to_str().ok()).unwrap_or("");
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs":
                [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]})
        }
        Route::Groups => {
            let groups = call.catalog().groups();
            let groups: Vec<Value> = groups.keys().map(|name| group(call, name)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        Route::Group(name) => {
            let mut group = group(call, name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        Route::Resources(of) => resources(call, of),
        Route::OpenApi(path) if path.is_empty() => openapi::index(call.catalog()),
        Route::OpenApi(path) => openapi::document(call.catalog(), path)?,
        _ => return Err(errors::unknown_resource()),
    };
    Ok(answer::document(200, call.accepted.form, &document))
}

fn version() -> Value {
    // The release alone: clients compare it, and take what follows it for an older one. Who answers is in
    // the commit.
    let commit = concat!("podstorm-", env!("CARGO_PKG_VERSION"));
    json!({"major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.2"),
        "gitCommit": commit, "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": "linux/amd64"})
}

fn paths(call: &Call<'_>) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
    for (group, versions) in call.catalog().groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    let others = [
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v3",
        "/podstorm/clock",
        "/readyz",
        "/version",
    ];
    paths.extend(others.map(String::from));
    json!({"paths": paths})
}

fn group(call: &Call<'_>, name: &str) -> Value {
    let groups = call.catalog().groups();
    let versions = groups.get(name).cloned().unwrap_or_default();
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
}

fn singular(kind: Kind) -> String {
    let custom = kind.row().custom.map(|custom| custom.singular.clone());
    custom.unwrap_or_else(|| kind.name().to_lowercase())
}

/// What tells clients whether objects are still stored in the same version.
///
/// Source: `discovery.StorageVersionHash` of Kubernetes' apiserver.
fn storage_version_hash(stored: Kind) -> String {
    let of = GroupVersion::of(stored.api_version());
    let text = format!("{}/{}/{}", of.group, of.version, stored.name());
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    BASE64_STANDARD.encode(&hash.as_ref()[..8])
}

/// `APIResourceList` of a group version: each resource, then its subresources.
fn resources(call: &Call<'_>, of: &GroupVersion) -> Value {
    let kinds = call.catalog().kinds(of).unwrap_or_default();
    let mut resources = Vec::new();
    for kind in kinds {
        let row = kind.row();
        let mut resource = Map::new();
        resource.insert("name".into(), row.resource.into());
        resource.insert("singularName".into(), singular(*kind).into());
        resource.insert("namespaced".into(), row.namespaced.into());
        resource.insert("kind".into(), row.kind.into());
        resource.insert("verbs".into(), json!(verbs(*kind)));
        for (name, texts) in [
            ("shortNames", row.short_names),
            ("categories", row.categories),
        ] {
            if !texts.is_empty() {
                resource.insert(name.into(), json!(texts));
            }
        }
        if row.custom.is_some() {
            let stored = call.cluster().stored_kind(*kind);
            resource.insert(
                "storageVersionHash".into(),
                storage_version_hash(stored).into(),
            );
        }
        resources.push(Value::Object(resource));
        for part in subresources(*kind) {
            let mut resource = Map::new();
            resource.insert(
                "name".into(),
                format!("{}/{}", row.resource, part.name).into(),
            );
            resource.insert("singularName".into(), "".into());
            resource.insert("namespaced".into(), row.namespaced.into());
            if part.api_version != row.api_version {
                let of = GroupVersion::of(part.api_version);
                resource.insert("group".into(), of.group.into());
                resource.insert("version".into(), of.version.into());
            }
            resource.insert("kind".into(), part.kind.into());
            resource.insert("verbs".into(), json!(part.verbs));
            resources.push(Value::Object(resource));
        }
    }
    let mut list = json!({"kind": "APIResourceList", "groupVersion": of.text(),
        "resources": resources});
    if !of.group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

/// The subresources of a kind, sorted by name.
fn subresources(kind: Kind) -> Vec<podstorm_objects::Subresource> {
    const CHANGES: &[&str] = &["get", "patch", "update"];
    let row = kind.row();
    let mut all = row.subresources.to_vec();
    if row.has_status {
        all.push(podstorm_objects::Subresource {
            name: "status",
            kind: row.kind,
            api_version: row.api_version,
            verbs: CHANGES,
        });
    }
    if row.has_scale {
        all.push(podstorm_objects::Subresource {
            name: "scale",
            kind: "Scale",
            api_version: "autoscaling/v1",
            verbs: CHANGES,
        });
    }
    all.sort_by_key(|part| part.name);
    all
}

/// Aggregated discovery: all group versions with their resources in one document, of the core group
/// or of all others. Clients keep it and ask by its tag whether it has changed.
fn aggregate(call: &Call<'_>, core: bool) -> Response<Body> {
    let mut groups: Vec<(String, Vec<Value>)> = Vec::new();
    for of in call
        .catalog()
        .group_versions()
        .filter(|of| of.group.is_empty() == core)
    {
        let resources: Vec<Value> = (call.catalog().kinds(of).unwrap_or_default().iter())
            .map(|kind| aggregated(*kind))
            .collect();
        let version = json!({"version": of.version, "resources": resources,
            "freshness": "Current"});
        match groups.last_mut() {
            Some((group, versions)) if *group == of.group => versions.insert(0, version),
            _ => groups.push((of.group.clone(), vec![version])),
        }
    }
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(name, versions)| {
            let metadata = if core {
                json!({})
            } else {
                json!({"name": name})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items});
    let text = list.to_string();
    let tag = format!("\"{:016X}\"", fingerprint(text.as_bytes()));
    let known = call.headers.get(IF_NONE_MATCH);
    let is_known = known.and_then(|known| known.to_str().ok()) == Some(&tag);
    let mut response = match is_known {
        true => {
            let mut response = Response::new(Body::whole(""));
            *response.status_mut() = http::StatusCode::NOT_MODIFIED;
            response
        }
        false => answer::respond(200, HeaderValue::from_static(AGGREGATED), Body::whole(text)),
    };
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    response
}

fn aggregated(kind: Kind) -> Value {
    let row = kind.row();
    let of = GroupVersion::of(row.api_version);
    let response_kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut resource = Map::new();
    resource.insert("resource".into(), row.resource.into());
    let own = response_kind(&of.group, &of.version, row.kind);
    resource.insert("responseKind".into(), own);
    let scope = if row.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    resource.insert("scope".into(), scope.into());
    resource.insert("singularResource".into(), singular(kind).into());
    resource.insert("verbs".into(), json!(verbs(kind)));
    for (name, texts) in [
        ("shortNames", row.short_names),
        ("categories", row.categories),
    ] {
        if !texts.is_empty() {
            resource.insert(name.into(), json!(texts));
        }
    }
    let parts: Vec<Value> = subresources(kind)
        .iter()
        .map(|part| {
            let of = GroupVersion::of(part.api_version);
            let kind = response_kind(&of.group, &of.version, part.kind);
            json!({"subresource": part.name, "responseKind": kind, "verbs": part.verbs})
        })
        .collect();
    if !parts.is_empty() {
        resource.insert("subresources".into(), parts.into());
    }
    Value::Object(resource)
}

/// FNV-1a, 64 bits: the same on every machine, which the hashers of maps are not.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
