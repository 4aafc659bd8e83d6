//! Discovery: versions, groups, resources and OpenAPI.
//!
//! Source: `endpoints/discovery` of Kubernetes' apiserver; recorded answers of 1.36.

use std::collections::BTreeSet;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, VARY};
use http::{HeaderValue, Method, Response, StatusCode};
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::account_tokens::{ISSUER, TokenKey};
use crate::answer::{self, Body};
use crate::call::Call;
use crate::catalog::{Catalog, GroupVersion, subresources};
use crate::media::Shape;
use crate::openapi;
use crate::route::Route;
use crate::token_keys::PublicKey;
use crate::unstored::{COMPONENT_VERBS, REVIEW_VERBS, is_component_status, is_review};
use crate::view;

/// The minor version of the Kubernetes release that the server reports.
const MINOR: &str = "36";

/// Returns the verbs of a kind, as discovery lists them.
fn verbs(kind: Kind) -> &'static [&'static str] {
    if is_review(kind) {
        return REVIEW_VERBS;
    }
    if is_component_status(kind) {
        return COMPONENT_VERBS;
    }
    podstorm_apiserver::verbs(kind)
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
        Route::Issuer => issuer(token_keys(call)),
        Route::Keys => {
            let keys: Vec<Value> = token_keys(call).iter().map(PublicKey::to_json).collect();
            json!({"keys": keys})
        }
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

/// Serves OpenAPI v3: the index, or a single document. A document at a URL with a `hash` never
/// changes, so clients cache it; if the document has changed, they are redirected to its new URL.
fn open_api(call: &Call<'_>, path: &str) -> Result<Response<Body>, ApiError> {
    let catalog = call.catalog();
    if path.is_empty() {
        return Ok(dated(answer::text(200, openapi::index(catalog)), catalog));
    }
    let document = openapi::Document::at(catalog, path)?;
    let asked = call.query.text("hash");
    if !asked.is_empty() && asked != document.tag {
        let mut response = answer::nothing(StatusCode::MOVED_PERMANENTLY);
        let to = format!("/openapi/v3/{path}?hash={}", document.tag);
        let to = HeaderValue::try_from(to).ok();
        response.headers_mut().extend(to.map(|to| (LOCATION, to)));
        return Ok(tagged(response, &document.tag));
    }
    Ok(unless_known(call, &document.tag, || {
        let response = answer::document(200, call.accepted.form, &document.json());
        dated(response, catalog)
    }))
}

/// Serves OpenAPI v2, as protobuf if the client asks for it.
fn older_open_api(call: &Call<'_>) -> Response<Body> {
    const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    const GIVEN: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let catalog = call.catalog();
    let document = catalog.older_openapi(openapi::older);
    let accepted = call.headers.get(ACCEPT);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    let response = unless_known(call, &document.tag, || {
        match accepted.is_some_and(|accepted| accepted.contains(ASKED)) {
            true => {
                let media = HeaderValue::from_static(GIVEN);
                answer::respond(200, media, Body::whole(document.protobuf.clone()))
            }
            false => answer::json(200, document.json.clone()),
        }
    });
    let mut response = dated(response, catalog);
    let varies = HeaderValue::from_static("Accept-Encoding, Accept");
    response.headers_mut().insert(VARY, varies);
    response
}

/// Returns the result of `answer`, or a 304 if the client already has the answer with this tag.
fn unless_known(
    call: &Call<'_>,
    tag: &str,
    answer: impl FnOnce() -> Response<Body>,
) -> Response<Body> {
    let known = call.headers.get(IF_NONE_MATCH);
    let known = known.and_then(|known| known.to_str().ok());
    let response = match known.is_some_and(|known| known == format!("\"{tag}\"")) {
        true => answer::nothing(StatusCode::NOT_MODIFIED),
        false => answer(),
    };
    tagged(response, tag)
}

/// Sets the caching headers of an answer for this tag.
fn tagged(mut response: Response<Body>, tag: &str) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::try_from(format!("\"{tag}\"")) {
        headers.insert(ETAG, tag);
    }
    response
}

/// Sets `Last-Modified` to the time when the catalog was built.
fn dated(mut response: Response<Body>, catalog: &Catalog) -> Response<Body> {
    let made = HeaderValue::try_from(httpdate::fmt_http_date(catalog.made)).ok();
    let headers = response.headers_mut();
    headers.extend(made.map(|made| (LAST_MODIFIED, made)));
    response
}

/// Returns the keys that verify service account tokens.
fn token_keys<'c>(call: &Call<'c>) -> &'c [PublicKey] {
    call.server.token_key().map_or(&[], TokenKey::public)
}

fn issuer(keys: &[PublicKey]) -> Value {
    let algorithms: BTreeSet<&str> = keys.iter().map(PublicKey::algorithm).collect();
    json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/openid/v1/jwks"),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": algorithms})
}

fn version() -> Value {
    // Return only the release: clients compare it, and they treat a version with a suffix as older.
    // The commit names this server instead.
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
    let custom = kind.row().custom.map(|custom| custom.singular.to_owned());
    custom.unwrap_or_else(|| kind.name().to_lowercase())
}

/// Returns the hash by which clients detect that a kind is now stored in another version.
///
/// Source: `discovery.StorageVersionHash` of Kubernetes' apiserver.
fn storage_version_hash(stored: Kind) -> String {
    let of = GroupVersion::parse(stored.api_version());
    let version = match of.group.as_str() {
        // Upstream still stores custom resource definitions in the older version.
        "apiextensions.k8s.io" => "v1beta1",
        _ => of.version.as_str(),
    };
    let text = format!("{}/{version}/{}", of.group, stored.name());
    BASE64_STANDARD.encode(&Sha256::digest(text)[..8])
}

/// Returns the `APIResourceList` of a group version: each resource followed by its subresources.
fn resources(call: &Call<'_>, of: &GroupVersion) -> Value {
    let kinds = call.catalog().kinds(of).unwrap_or_default();
    let mut resources = Vec::new();
    for kind in kinds {
        let row = kind.row();
        let mut resource = json!({"name": row.resource, "singularName": singular(*kind),
            "namespaced": row.namespaced, "kind": row.kind, "verbs": verbs(*kind)});
        put_other_names(&mut resource, *kind);
        if !is_review(*kind) && !is_component_status(*kind) {
            let stored = call.cluster().stored_kind(view::stored_kind(*kind));
            resource["storageVersionHash"] = storage_version_hash(stored).into();
        }
        resources.push(resource);
        for part in subresources(*kind) {
            let name = format!("{}/{}", row.resource, part.name);
            let mut resource = json!({"name": name, "singularName": "",
                "namespaced": row.namespaced, "kind": part.kind, "verbs": part.verbs});
            if part.api_version != row.api_version {
                let of = GroupVersion::parse(part.api_version);
                resource["group"] = of.group.into();
                resource["version"] = of.version.into();
            }
            resources.push(resource);
        }
    }
    let mut list = json!({"kind": "APIResourceList", "groupVersion": of.text(),
        "resources": resources});
    if !of.group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

/// Serves aggregated discovery: one document with the resources of all group versions, either of
/// the core group or of all other groups. Clients cache the document and revalidate it by its tag.
fn aggregate(call: &Call<'_>, core: bool) -> Response<Body> {
    let groups = match core {
        true => vec![("", call.catalog().versions(""))],
        false => call.catalog().groups(),
    };
    let items = groups.into_iter().map(|(group, versions)| {
        let versions = versions.into_iter().map(|version| {
            let of = GroupVersion::parse(&format!("{group}/{version}"));
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
    let tag = openapi::hashed(&text);
    unless_known(call, &tag, || {
        answer::respond(200, HeaderValue::from_static(AGGREGATED), Body::whole(text))
    })
}

fn aggregated(kind: Kind) -> Value {
    let row = kind.row();
    let response_kind = |api_version: &str, kind: &str| {
        // In upstream, only the server of custom resources states the group and version here.
        if row.custom.is_none() && api_version == row.api_version {
            return json!({"group": "", "version": "", "kind": kind});
        }
        let of = GroupVersion::parse(api_version);
        json!({"group": of.group, "version": of.version, "kind": kind})
    };
    let scope = if row.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    let own = response_kind(row.api_version, row.kind);
    let mut resource = json!({"resource": row.resource, "responseKind": own, "scope": scope,
        "singularResource": singular(kind), "verbs": verbs(kind)});
    put_other_names(&mut resource, kind);
    let parts: Vec<Value> = subresources(kind)
        .iter()
        .map(|part| {
            let kind = response_kind(part.api_version, part.kind);
            json!({"subresource": part.name, "responseKind": kind, "verbs": part.verbs})
        })
        .collect();
    if !parts.is_empty() {
        resource["subresources"] = parts.into();
    }
    resource
}

/// Adds the short names and categories of a kind.
fn put_other_names(resource: &mut Value, kind: Kind) {
    let row = kind.row();
    for (member, names) in [
        ("shortNames", row.short_names),
        ("categories", row.categories),
    ] {
        if !names.is_empty() {
            resource[member] = json!(names);
        }
    }
}
