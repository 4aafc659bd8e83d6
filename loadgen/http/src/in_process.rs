//! Requests that only this crate can answer, by programs in the server's process: server-side
//! apply, and reads of paths. They run synchronously on the caller's thread, and bypass the layers
//! between a connection and a request: credentials, limits, armed faults, metrics and the log.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::{HeaderMap, Method};
use http_body::Body as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use podstorm_apiserver::errors;
use podstorm_objects::{AnyObject, ApiError, Kind, Map, Now, Reason};
use serde_json::Value;

use crate::call::Call;
use crate::credentials::User;
use crate::media::Accepted;
use crate::ownership::Writer;
use crate::query::Query;
use crate::route::Route;
use crate::server::ApiServer;
use crate::{apply, dispatch, view};

/// A configuration to apply.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// The kind of the object.
    pub kind: Kind,
    /// The object's namespace; empty for a cluster-scoped kind.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// Whether the configuration is for the subresource `status`.
    pub of_status: bool,
    /// The fields to apply, with `apiVersion` and `kind`.
    pub config: &'a Map,
    /// The field manager, as in the parameter `fieldManager`.
    pub manager: &'a str,
    /// Whether to take over conflicting fields from other managers.
    pub force: bool,
}

impl Application<'_> {
    fn path(&self) -> String {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let version = self.kind.api_version();
        let root = if version.contains('/') { "apis" } else { "api" };
        let namespace = match self.kind.is_namespaced() {
            true => format!("namespaces/{}/", encoded(self.namespace)),
            false => String::new(),
        };
        let (resource, name) = (self.kind.resource(), encoded(self.name));
        let part = if self.of_status { "/status" } else { "" };
        format!("/{root}/{version}/{namespace}{resource}/{name}{part}")
    }
}

impl ApiServer {
    /// Applies a configuration server-side.
    ///
    /// # Errors
    /// The same as over HTTP, e.g. 409 for fields of other managers, and 404 for the status of an
    /// object that does not exist.
    pub fn apply(&self, what: &Application<'_>, now: Now) -> Result<AnyObject, ApiError> {
        let mut query = Serializer::new(String::new());
        query.append_pair("fieldManager", what.manager);
        query.append_pair("force", if what.force { "true" } else { "false" });
        let (query, path) = (query.finish(), what.path());
        let body = Value::Object(what.config.clone()).to_string();
        self.call_in_process(
            Method::PATCH,
            &path,
            &query,
            body.into(),
            now,
            |call, route| {
                let Route::Objects(target) = route else {
                    return Err(errors::unknown_resource());
                };
                let writer = Writer::applying(call, &target)?;
                let applied = apply::applied(call, &target, &writer);
                let (object, _) = applied.map_err(|error| view::shown_error(target.kind, error))?;
                Ok(object)
            },
        )
    }

    /// Returns the document at a path, which may include a query: a `GET` in process.
    ///
    /// # Errors
    /// The same as over HTTP; a transport error if the answer is not JSON or never ends (watches,
    /// logs, streams).
    pub fn read(&self, path: &str, now: Now) -> Result<Value, ApiError> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        self.call_in_process(
            Method::GET,
            path,
            query,
            Bytes::new(),
            now,
            |call, route| {
                if dispatch::is_long_running(call, &route) || route == Route::Live {
                    return Err(ApiError::transport(format!(
                        "{path}: the answer never ends"
                    )));
                }
                let response = dispatch::serve(call, route)?;
                let code = response.status().as_u16();
                let mut body = pin!(response.into_body());
                let mut text = Vec::new();
                let mut context = Context::from_waker(Waker::noop());
                while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) {
                    if let Some(data) = frame.data_ref() {
                        text.extend_from_slice(data);
                    }
                }
                let document = serde_json::from_slice::<Value>(&text);
                match (code, document) {
                    (..400, Ok(document)) => Ok(document),
                    (..400, Err(_)) => Err(ApiError::transport(format!(
                        "{path}: the answer is not JSON"
                    ))),
                    // The path is not that of a resource.
                    (404, Err(_)) => Err(errors::unknown_resource()),
                    (_, Ok(status)) => Err(ApiError::from_json(status)
                        .unwrap_or_else(|problem| ApiError::transport(problem.to_string()))),
                    (_, Err(_)) => {
                        let text = String::from_utf8_lossy(&text).into_owned();
                        Err(ApiError::status(code, Reason::Other(String::new()), text))
                    }
                }
            },
        )
    }

    fn call_in_process<T>(
        &self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
        now: Now,
        answer: impl FnOnce(&Call<'_>, Route) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (catalog, headers) = (self.catalog(), HeaderMap::new());
        let route = Route::parse(path, &catalog);
        let user = User {
            name: "system:kube-controller-manager".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..User::default()
        };
        let call = Call {
            server: self,
            user: &user,
            method: &method,
            headers: &headers,
            query: Query::parse(Some(query)),
            body,
            accepted: Accepted::JSON,
            now,
            catalog,
        };
        answer(&call, route)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm_apiserver::{Cluster, ClusterOptions, kind_named};
    use serde_json::json;

    use super::*;

    fn server() -> ApiServer {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        ApiServer::builder(cluster).build()
    }

    fn members(value: Value) -> Map {
        let Value::Object(members) = value else {
            panic!("expected an object: {value}");
        };
        members
    }

    #[test]
    fn applied_fields_belong_to_their_manager() {
        let (server, now) = (server(), Now::default());
        let kind = kind_named("ConfigMap").unwrap();
        let namespace = members(json!({"apiVersion": "v1", "kind": "Namespace"}));
        let apply = |config: &Map, manager: &str, force: bool| {
            let what = Application {
                kind,
                namespace: "default",
                name: "a.b",
                of_status: false,
                config,
                manager,
                force,
            };
            server.apply(&what, now)
        };
        let of_data = |value: &str| {
            members(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": value}}))
        };
        let missing = apply(&of_data("1"), "first", false).unwrap_err();
        assert_eq!(missing.code, 404, "the namespace does not exist");
        let what = Application {
            kind: Kind::NAMESPACE,
            namespace: "",
            name: "default",
            of_status: false,
            config: &namespace,
            manager: "first",
            force: false,
        };
        server.apply(&what, now).unwrap();
        let made = apply(&of_data("1"), "first", false).unwrap();
        assert_eq!(made.metadata().name, "a.b");
        let refused = apply(&of_data("2"), "second", false).unwrap_err();
        assert_eq!(refused.code, 409);
        let unnamed = apply(&of_data("1"), "", false).unwrap_err();
        assert_eq!(unnamed.code, 422);
        let taken = apply(&of_data("2"), "second", true).unwrap();
        assert_eq!(taken.to_json()["data"]["x"], "2");
        let path = "/api/v1/namespaces/default/configmaps/a.b?pretty=true";
        let read = server.read(path, now).unwrap();
        let owners = read["metadata"]["managedFields"].as_array().unwrap();
        let names: Vec<&Value> = owners.iter().map(|owner| &owner["manager"]).collect();
        assert_eq!(names, ["second"]);
        let status = Application {
            of_status: true,
            ..what
        };
        let status = Application { kind, ..status };
        assert_eq!(server.apply(&status, now).unwrap_err().code, 404);
    }

    #[test]
    fn a_path_is_read_and_an_invalid_one_is_refused() {
        let (server, now) = (server(), Now::default());
        assert_eq!(server.read("/version", now).unwrap()["major"], "1");
        let list = server.read("/api/v1/nodes?limit=1", now).unwrap();
        assert_eq!(list["kind"], "NodeList");
        for (path, code) in [
            ("/apis/metrics.k8s.io/v1beta1/pods", 404),
            ("/api/v1/namespaces/a/pods/b", 404),
            ("/api/v1/nodes?limit=x", 400),
            ("/metrics", 0),
            ("/api/v1/nodes?watch=1", 0),
        ] {
            assert_eq!(server.read(path, now).unwrap_err().code, code, "{path}");
        }
    }
}
