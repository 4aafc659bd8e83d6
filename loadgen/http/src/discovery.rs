//! What the server says about itself: versions, groups, resources, OpenAPI.
//!
//! Source: `endpoints/discovery` of Kubernetes' apiserver; recorded answers of 1.36.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY};
use http::{HeaderValue, Method, Response, StatusCode};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, Subresource};
use serde_json::{Map, Value, json};

use crate::answer::{self, Body};
use crate::catalog::GroupVersion;
use crate::media::Shape;
use crate::openapi;
use crate::reviews;
use crate::route::Route;
use crate::{Call, component_status, view};

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
    const OF_NAMESPACES: [&str; 7] = [
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    if kind.row().custom.is_some() {
        return &OF_CUSTOM;
    }
    if reviews::is_review(kind) {
        return reviews::VERBS;
    }
    if component_status::is(kind) {
        return component_status::VERBS;
    }
    match kind == Kind::NAMESPACE {
        // Nobody deletes all of them at once.
        true => &OF_NAMESPACES,
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
        Route::Issuer => issuer(),
        Route::Keys => json!({"keys": []}),
        Route::CoreVersions if aggregated => return Ok(aggregate(call, true)),
        Route::Groups if aggregated => return Ok(aggregate(call, false)),
        Route::CoreVersions => {
            let host = call.headers.get(http::header::HOST);
            let host = host
                .and_then(|host| host.to_str().ok())
                .unwrap_or("localhost");
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs":
                [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]})
        }
        Route::Groups => {
            let groups = call.catalog().groups();
            let groups = groups.iter().map(|(name, _)| group(call, name));
            let groups: Vec<Value> = groups.collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        Route::Group(name) => {
            let mut group = group(call, name);
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        Route::Resources(of) => resources(call, of),
        Route::OlderOpenApi => return Ok(older_open_api(call)),
        Route::OpenApi(path) => return open_api(call, path),
        _ => return Err(errors::unknown_resource()),
    };
    Ok(answer::document(200, call.accepted.form, &document))
}

/// OpenAPI: the index, or a document of it. What is under an address with a `hash` never changes: clients
/// keep it, and are sent to another address when it does.
fn open_api(call: &Call<'_>, path: &str) -> Result<Response<Body>, ApiError> {
    let catalog = call.catalog();
    let modified = httpdate::fmt_http_date(catalog.made);
    let modified = HeaderValue::try_from(modified).ok();
    if path.is_empty() {
        let mut response = answer::text(200, openapi::index(catalog));
        response
            .headers_mut()
            .extend(modified.map(|at| (LAST_MODIFIED, at)));
        return Ok(response);
    }
    let document = openapi::document(catalog, path)?;
    let tag = format!("\"{}\"", document.tag);
    let asked = call.query.text("hash");
    let known = call.headers.get(IF_NONE_MATCH);
    let mut response = if !asked.is_empty() && asked != document.tag {
        let mut response = of_status(StatusCode::MOVED_PERMANENTLY);
        let to = format!("/openapi/v3/{path}?hash={}", document.tag);
        let to = HeaderValue::try_from(to).ok();
        response.headers_mut().extend(to.map(|to| (LOCATION, to)));
        response
    } else if known.and_then(|known| known.to_str().ok()) == Some(&tag) {
        of_status(StatusCode::NOT_MODIFIED)
    } else {
        let mut response = answer::document(200, call.accepted.form, &document.json);
        response
            .headers_mut()
            .extend(modified.map(|at| (LAST_MODIFIED, at)));
        response
    };
    tagged(&mut response, &tag);
    Ok(response)
}

/// OpenAPI v2, as protobuf where a client asks for that.
fn older_open_api(call: &Call<'_>) -> Response<Body> {
    const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const GIVEN: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let catalog = call.catalog();
    let document = catalog.older_openapi();
    let tag = format!("\"{}\"", document.tag);
    let text = |name| {
        call.headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let mut response = if text(IF_NONE_MATCH) == Some(&tag) {
        of_status(StatusCode::NOT_MODIFIED)
    } else if text(ACCEPT).is_some_and(|accepted| accepted.contains(ASKED)) {
        let media = HeaderValue::from_static(GIVEN);
        answer::respond(200, media, Body::whole(document.protobuf.clone()))
    } else {
        answer::json(200, document.json.clone())
    };
    let modified = HeaderValue::try_from(httpdate::fmt_http_date(catalog.made)).ok();
    response
        .headers_mut()
        .extend(modified.map(|at| (LAST_MODIFIED, at)));
    tagged(&mut response, &tag);
    let varies = HeaderValue::from_static("Accept-Encoding, Accept");
    response.headers_mut().insert(VARY, varies);
    response
}

/// An answer without a body.
fn of_status(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::whole(""));
    *response.status_mut() = status;
    response
}

/// Names what clients keep an answer by.
fn tagged(response: &mut Response<Body>, tag: &str) {
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(ETAG, tag);
    }
}

/// Tokens here are random texts that the server knows again: there are no keys, and nobody else can tell
/// whether one is good but by a TokenReview.
fn issuer() -> Value {
    json!({"issuer": reviews::AUDIENCE, "jwks_uri": format!("{}/openid/v1/jwks", reviews::AUDIENCE),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": []})
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
    let mut paths = vec!["/.well-known/openid-configuration".to_owned()];
    paths.extend(["/api", "/api/v1", "/apis", "/apis/"].map(String::from));
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
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/podstorm/clock",
        "/podstorm/faults",
        "/podstorm/live",
        "/readyz",
        "/version",
    ];
    paths.extend(others.map(String::from));
    json!({"paths": paths})
}

fn group(call: &Call<'_>, name: &str) -> Value {
    let versions = call.catalog().versions(name).into_iter();
    let versions: Vec<Value> = versions
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
        if !reviews::is_review(*kind) && !component_status::is(*kind) {
            let stored = call.cluster().stored_kind(view::stored_kind(*kind));
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
pub(crate) fn subresources(kind: Kind) -> Vec<Subresource> {
    let row = kind.row();
    let mut all = row.subresources.to_vec();
    if row.has_status {
        all.push(Subresource {
            name: "status",
            kind: row.kind,
            api_version: row.api_version,
            verbs: Subresource::CHANGE,
        });
    }
    if row.has_scale {
        all.push(Subresource {
            name: "scale",
            kind: "Scale",
            api_version: "autoscaling/v1",
            verbs: Subresource::CHANGE,
        });
    }
    all.sort_by_key(|part| part.name);
    all
}

/// Aggregated discovery: all group versions with their resources in one document, of the core group
/// or of all others. Clients keep it and ask by its tag whether it has changed.
fn aggregate(call: &Call<'_>, core: bool) -> Response<Body> {
    let groups = match core {
        true => vec![("", call.catalog().versions(""))],
        false => call.catalog().groups(),
    };
    let items = groups.into_iter().map(|(group, versions)| {
        let versions = versions.into_iter().map(|version| {
            let of = GroupVersion::of(&format!("{group}/{version}"));
            let kinds = call.catalog().kinds(&of).unwrap_or_default();
            let resources: Vec<Value> = kinds.iter().map(|kind| aggregated(*kind)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        });
        let metadata = match core {
            true => json!({}),
            false => json!({"name": group}),
        };
        json!({"metadata": metadata, "versions": versions.collect::<Vec<_>>()})
    });
    let items: Vec<Value> = items.collect();
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items});
    let text = list.to_string();
    let tag = format!("\"{:016X}\"", fingerprint(text.as_bytes()));
    let known = call.headers.get(IF_NONE_MATCH);
    let is_known = known.and_then(|known| known.to_str().ok()) == Some(&tag);
    let mut response = match is_known {
        true => of_status(StatusCode::NOT_MODIFIED),
        false => answer::respond(200, HeaderValue::from_static(AGGREGATED), Body::whole(text)),
    };
    tagged(&mut response, &tag);
    response
}

fn aggregated(kind: Kind) -> Value {
    let row = kind.row();
    let of = GroupVersion::of(row.api_version);
    let response_kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut resource = Map::new();
    resource.insert("resource".into(), row.resource.into());
    // What is of the group version itself is told so only by the server of custom resources.
    let response_kind = |group: &str, version: &str, kind: &str| match row.custom.is_none()
        && (group, version) == (of.group.as_str(), of.version.as_str())
    {
        true => response_kind("", "", kind),
        false => response_kind(group, version, kind),
    };
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
