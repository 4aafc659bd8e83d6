//! Routes: the mapping from the path of a request to its target.
//!
//! Source: `RequestInfoFactory` in Kubernetes' `apiserver/pkg/endpoints/request`.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind};

use crate::catalog::{Catalog, GroupVersion};
use crate::query::Query;
use crate::unstored::{is_component_status, is_review};

/// The checks of every health endpoint. `etcd` is the store, which is part of this process.
pub(crate) const CHECKS: [&str; 3] = ["ping", "log", "etcd"];
/// The check of `/readyz` that fails as soon as the server drains.
pub(crate) const SHUTDOWN: &str = "shutdown";

/// Reports whether a health endpoint has a check.
pub(crate) fn has_check(endpoint: &str, check: &str) -> bool {
    CHECKS.contains(&check) || endpoint == "readyz" && check == SHUTDOWN
}

/// The target of a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Route {
    /// `/`: the list of paths.
    Root,
    /// `/` requested by a browser: the page.
    Page,
    /// `/healthz`, `/livez` or `/readyz`, with or without the name of a single check.
    Health(String, Option<String>),
    Version,
    /// `/.well-known/openid-configuration`: the issuer of service account tokens.
    Issuer,
    /// `/openid/v1/jwks`: the keys that verify service account tokens.
    Keys,
    Metrics,
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1`, `/apis/GROUP/VERSION`.
    Resources(GroupVersion),
    /// `/openapi/v3` and the paths below it; the string is empty for the index.
    OpenApi(String),
    /// `/openapi/v2`.
    OlderOpenApi,
    /// Objects of a kind.
    Objects(Target),
    /// A review of a kind, with its namespace, which is empty for a cluster-scoped kind.
    Review(Kind, String),
    /// `/podstorm/clock`.
    Clock,
    /// `/podstorm/clock/advance`.
    AdvanceClock,
    /// `/podstorm/live`.
    Live,
    /// `/podstorm/faults`, or a single fault by its number.
    Faults(Option<String>),
    /// An unknown path of the API, answered with a `Status`.
    UnknownResource,
    /// Any other unknown path, answered with plain text.
    UnknownPath,
}

/// The target of a request for objects: an object, a collection, or a subresource.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// Empty for cluster-scoped kinds and for collections across all namespaces.
    pub(crate) namespace: String,
    /// Empty for a collection.
    pub(crate) name: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
    /// Whether the path itself requests a watch: the deprecated prefix `/watch`.
    pub(crate) watched: bool,
}

impl Target {
    /// Reports whether a `GET` of the target is a watch. A single object is watched only through
    /// the deprecated paths. Through any other path it is read, even if the query requests a watch.
    pub(crate) fn is_watch(&self, query: &Query<'_>) -> bool {
        let is_collection = self.name.is_empty() && self.subresource.is_empty();
        self.watched || is_collection && query.flag("watch")
    }

    /// Checks that the name in an object is the name in the path.
    ///
    /// # Errors
    /// 400 if the names differ.
    pub(crate) fn check_name(&self, named: &str) -> Result<(), ApiError> {
        match named == self.name {
            true => Ok(()),
            false => Err(errors::bad_request(format!(
                "the name of the object ({named}) does not match the name on the URL ({})",
                self.name
            ))),
        }
    }
}

impl Route {
    pub(crate) fn parse(path: &str, catalog: &Catalog) -> Route {
        if path.contains("//") {
            return Route::UnknownPath;
        }
        let path = path.trim_start_matches('/').trim_end_matches('/');
        let segments: Option<Vec<Cow<'_, str>>> = path
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().ok())
            .collect();
        let Some(segments) = segments else {
            return Route::UnknownPath;
        };
        let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
        match &segments[..] {
            [""] => Route::Root,
            [endpoint @ ("healthz" | "livez" | "readyz")] => {
                Route::Health((*endpoint).to_owned(), None)
            }
            [endpoint @ ("healthz" | "livez" | "readyz"), check] if has_check(endpoint, check) => {
                Route::Health((*endpoint).to_owned(), Some((*check).to_owned()))
            }
            ["podstorm", "clock"] => Route::Clock,
            ["podstorm", "clock", "advance"] => Route::AdvanceClock,
            ["podstorm", "live"] => Route::Live,
            ["podstorm", "faults"] => Route::Faults(None),
            ["podstorm", "faults", id] => Route::Faults(Some((*id).to_owned())),
            ["version"] => Route::Version,
            [".well-known", "openid-configuration"] => Route::Issuer,
            ["openid", "v1", "jwks"] => Route::Keys,
            ["metrics"] => Route::Metrics,
            ["openapi", "v2"] => Route::OlderOpenApi,
            ["openapi", "v3"] => Route::OpenApi(String::new()),
            ["openapi", "v3", rest @ ..] => Route::OpenApi(rest.join("/")),
            ["api"] => Route::CoreVersions,
            ["apis"] => Route::Groups,
            ["apis", group] => match catalog.has_group(group) {
                true => Route::Group((*group).to_owned()),
                false => Route::UnknownPath,
            },
            ["api", version, rest @ ..] => within(version, "", rest, catalog),
            ["apis", group, version, rest @ ..] => match catalog.has_group(group) {
                true => within(version, group, rest, catalog),
                false => Route::UnknownPath,
            },
            _ => Route::UnknownPath,
        }
    }
}

impl Route {
    /// Reports whether the route serves unauthenticated clients. Only the health probes do, because
    /// they reveal nothing about the cluster. Single health checks and `/version` require a
    /// credential, as on the server whose answers were recorded.
    pub(crate) fn is_public(&self) -> bool {
        matches!(self, Route::Health(_, None))
    }
}

fn within(version: &str, group: &str, rest: &[&str], catalog: &Catalog) -> Route {
    match resolved(version, group, rest, catalog) {
        // Upstream's server of custom resources delegates to the next server, which answers with a
        // 404 in plain text.
        Route::UnknownResource if catalog.is_custom(group) => Route::UnknownPath,
        route => route,
    }
}

fn resolved(version: &str, group: &str, rest: &[&str], catalog: &Catalog) -> Route {
    let of = GroupVersion {
        group: group.to_owned(),
        version: version.to_owned(),
    };
    if catalog.kinds(&of).is_none() {
        return Route::UnknownResource;
    }
    let (watched, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    let (namespace, resource, name, subresource) = match *rest {
        [] => return Route::Resources(of),
        ["namespaces"] => ("", "namespaces", "", ""),
        ["namespaces", name] => ("", "namespaces", name, ""),
        ["namespaces", name, part @ ("status" | "finalize")] => ("", "namespaces", name, part),
        ["namespaces", namespace, resource] => (namespace, resource, "", ""),
        ["namespaces", namespace, resource, name] => (namespace, resource, name, ""),
        ["namespaces", namespace, resource, name, part] => (namespace, resource, name, part),
        // The rest of the path belongs to the proxied request.
        ["namespaces", namespace, resource, name, "proxy", ..] => {
            (namespace, resource, name, "proxy")
        }
        [resource, name, "proxy", ..] => ("", resource, name, "proxy"),
        [resource] => ("", resource, "", ""),
        [resource, name] => ("", resource, name, ""),
        [resource, name, part] => ("", resource, name, part),
        _ => return Route::UnknownResource,
    };
    let Some(kind) = catalog.find(&of, resource) else {
        return Route::UnknownResource;
    };
    // Namespaced kinds need a namespace for single objects; cluster-scoped kinds must have none.
    let fits = match kind.is_namespaced() {
        true => !namespace.is_empty() || name.is_empty(),
        false => namespace.is_empty(),
    };
    if !fits || !subresource.is_empty() && !has_subresource(kind, subresource) {
        return Route::UnknownResource;
    }
    let is_watched = !is_review(kind) && !is_component_status(kind);
    if watched && !(is_watched && subresource.is_empty()) {
        return Route::UnknownResource;
    }
    if is_review(kind) {
        return match name.is_empty() && kind.is_namespaced() != namespace.is_empty() {
            true => Route::Review(kind, namespace.to_owned()),
            false => Route::UnknownResource,
        };
    }
    Route::Objects(Target {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        watched,
    })
}

fn has_subresource(kind: Kind, name: &str) -> bool {
    let row = kind.row();
    match name {
        "status" => row.has_status,
        "scale" => row.has_scale,
        _ => row.subresources.iter().any(|known| known.name == name),
    }
}
