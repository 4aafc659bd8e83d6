//! Cases of `namespace`: one sync of a terminating namespace, with scripted answers.

use std::collections::BTreeMap;

use std::sync::Arc;

use podstorm::client::{Answer, DiscoveredKind, Discovery, FailedGroups, Request};
use podstorm::driver::run_steps;
use podstorm::namespace::{Outcome, Stopped, sync};
use podstorm::object::{
    AnyObject, ApiError, DynamicObject, Kind, Map, Namespace, Now, Object, Pod, Propagation,
    Reason, Resource, ResourceVersion,
};
use podstorm_apiserver::kind_named;
use serde_json::{Value, json};

use super::{Fields, expect_eq, expect_same_json};

/// The path of the namespace.
const NAMESPACE: &str = "/api/v1/namespaces/ns1";

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let now = case.now(0)?;
    let mut api = ScriptedApi {
        answers: case.object("answers")?.rest(),
        lists: case.object("lists")?.rest(),
        used: BTreeMap::new(),
        resources: case.list("resources")?,
        failed_groups: case.texts("discoveryError")?,
        requests: Vec::new(),
    };
    let outcome = run_steps(
        async |calls| sync("ns1", &calls).await,
        &mut |request: &Request, _: Now| api.answer(request).unwrap_or_else(Answer::Failed),
        now,
    );
    let mut out = case.object("out")?;
    let mut recorded = out.list("requests")?;
    for requests in [&mut api.requests, &mut recorded] {
        requests.sort_by_key(order);
    }
    let after = outcome
        .as_ref()
        .ok()
        .and_then(|it| it.again_after_seconds());
    expect_eq(
        "retryAfterSeconds",
        &after,
        &out.opt_int("retryAfterSeconds")?,
    )?;
    let mut errors = match outcome {
        Ok(Outcome::Done) => Vec::new(),
        Ok(Outcome::Remaining(estimate)) => vec![format!(
            "some content remains in the namespace, estimate {estimate} seconds before it is removed"
        )],
        Err(Stopped(errors)) => errors,
    };
    errors.sort();
    let mut told = out.list("errors")?;
    told.extend(out.take("error"));
    expect_same_json("requests", api.requests.into(), recorded.into())?;
    expect_eq("errors", &Value::from(errors), &Value::from(told))?;
    out.finish()
}

/// Returns the sort key of a request. Requests for kinds other than pods have no defined order
/// among themselves.
fn order(request: &Value) -> (usize, String) {
    let path = request["path"].as_str().unwrap_or_default();
    let method = request["method"].as_str().unwrap_or_default();
    let has_conditions = request["body"]["status"]["conditions"].is_array();
    let rest = path.strip_prefix(NAMESPACE);
    match (method, rest) {
        (_, Some("/pods")) => (1, String::new()),
        ("PUT", Some("/status")) if has_conditions => (3, String::new()),
        ("PUT", Some("/status")) => (0, String::new()),
        ("PUT", Some("/finalize")) => (4, String::new()),
        // The namespace is read first, and again after a conflict. The sort is stable, so the order
        // is kept.
        ("GET", Some("")) => (0, String::new()),
        _ => {
            let of = rest.unwrap_or(path).rsplit("namespaces/ns1/").next();
            let kind = of.unwrap_or_default().trim_start_matches('/');
            (2, kind.split('/').next().unwrap_or_default().to_owned())
        }
    }
}

/// The scripted API server.
struct ScriptedApi {
    answers: Map,
    lists: Map,
    /// The number of answers used so far, by request.
    used: BTreeMap<String, usize>,
    resources: Vec<Value>,
    failed_groups: Vec<String>,
    requests: Vec<Value>,
}

impl ScriptedApi {
    /// Records a request and returns its scripted answer.
    fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Value,
    ) -> Result<Option<Value>, ApiError> {
        self.requests
            .push(json!({"method": method, "path": path, "body": body}));
        let key = format!("{method} {path}");
        let Some(answer) = next(&self.answers, &mut self.used, &key) else {
            return Ok(None);
        };
        match answer["code"].as_u64() {
            Some(code) => {
                let text = |member: &str| answer[member].as_str().unwrap_or_default().to_owned();
                let code = u16::try_from(code).expect("HTTP codes fit a u16");
                let reason = Reason::new(&text("reason"));
                Err(ApiError::status(code, reason, text("message")))
            }
            None => Ok(answer.get("body").cloned()),
        }
    }

    fn write(&mut self, part: &str, namespace: &Namespace) -> Result<Answer, ApiError> {
        let body = namespace.to_json();
        let path = format!("{NAMESPACE}/{part}");
        let answered = self.request("PUT", &path, body.clone())?;
        let written = namespace_of(answered.unwrap_or(body));
        Ok(Answer::Object(Arc::new(written)))
    }
}

/// Returns the next entry of a script for a key. The last entry repeats. `None` if there is no
/// entry.
fn next(script: &Map, used: &mut BTreeMap<String, usize>, key: &str) -> Option<Value> {
    let entries = script.get(key)?.as_array()?;
    let used = used.entry(key.to_owned()).or_default();
    let entry = entries.get(*used).or(entries.last()).cloned();
    *used += 1;
    entry
}

fn namespace_of(value: Value) -> Namespace {
    Namespace::from_json(value).expect("the case has a valid namespace")
}

/// Returns the kind of a resource; `None` if the resource has no stored objects.
fn kind_of(api_version: &str, resource: &str) -> Option<Kind> {
    let kind = match resource {
        "bindings" => return None,
        "configmaps" => kind_named("ConfigMap"),
        "pods" => Some(Kind::POD),
        "replicasets" => Some(Kind::REPLICA_SET),
        "services" => kind_named("Service"),
        other => panic!("no case uses {other}"),
    };
    let kind = kind.expect("the kind is built in");
    assert_eq!(
        (kind.api_version(), kind.resource()),
        (api_version, resource)
    );
    Some(kind)
}

fn object_of(kind: Kind, value: Value) -> AnyObject {
    match kind == Kind::POD {
        true => Arc::new(Pod::from_json(value).expect("the case has a valid pod")),
        false => {
            Arc::new(DynamicObject::from_json(kind, value).expect("the case has a valid object"))
        }
    }
}

fn path_of(kind: Kind) -> String {
    let (api_version, resource) = (kind.api_version(), kind.resource());
    match kind.group().is_empty() {
        true => format!("{NAMESPACE}/{resource}"),
        false => format!("/apis/{api_version}/namespaces/ns1/{resource}"),
    }
}

impl ScriptedApi {
    fn answer(&mut self, request: &Request) -> Result<Answer, ApiError> {
        Ok(match request {
            Request::Get { kind, name, .. } => {
                assert_eq!((*kind, &**name), (Kind::NAMESPACE, "ns1"));
                let found = self.request("GET", NAMESPACE, Value::Null)?;
                let found = found.expect("the case scripts the namespace");
                Answer::Object(Arc::new(namespace_of(found)))
            }
            Request::PutStatus { object } => {
                let namespace = object.downcast_ref::<Namespace>();
                self.write("status", namespace.expect("the status is a namespace's"))?
            }
            Request::Finalize { namespace } => self.write("finalize", namespace)?,
            Request::Discover => Answer::Discovered(Box::new(self.discover())),
            Request::List { kind, .. } => Answer::List {
                items: self.list(*kind)?,
                version: ResourceVersion::from(1),
            },
            Request::DeleteCollection { kind, options, .. } => {
                let options = options.as_ref().expect("the deletion has options");
                assert_eq!(options.propagation, Some(Propagation::Background));
                self.request("DELETE", &path_of(*kind), background())?;
                Answer::Deleted(None)
            }
            Request::Delete {
                kind,
                name,
                options,
                ..
            } => {
                let options = options.as_ref().expect("the deletion has options");
                assert_eq!(options.propagation, Some(Propagation::Background));
                let path = format!("{}/{name}", path_of(*kind));
                self.request("DELETE", &path, background())?;
                Answer::Deleted(None)
            }
            other => panic!("a sync of a namespace never makes this request: {other:?}"),
        })
    }

    fn discover(&self) -> Discovery {
        let mut kinds = Vec::new();
        let mut malformed = None;
        for list in &self.resources {
            let named = list["groupVersion"].as_str().unwrap_or_default();
            if named.matches('/').count() > 1 {
                malformed = Some(format!("unexpected GroupVersion string: {named}"));
                continue;
            }
            for resource in list["resources"].as_array().into_iter().flatten() {
                let name = resource["name"].as_str().unwrap_or_default();
                let verbs = resource["verbs"].as_array().into_iter().flatten();
                kinds.extend(kind_of(named, name).map(|kind| DiscoveredKind {
                    kind,
                    verbs: verbs.filter_map(Value::as_str).map(Into::into).collect(),
                }));
            }
        }
        let groups = self.failed_groups.iter();
        let groups: Vec<String> = groups
            .map(|group| format!("{group}: the server is currently unable to handle the request"))
            .collect();
        let text = "unable to retrieve the complete list of server APIs";
        let failed = (!groups.is_empty()).then(|| FailedGroups {
            count: groups.len(),
            message: format!("{text}: {}", groups.join(", ")),
        });
        Discovery {
            kinds,
            failed,
            malformed,
        }
    }

    fn list(&mut self, kind: Kind) -> Result<Vec<AnyObject>, ApiError> {
        let path = path_of(kind);
        self.request("GET", &path, Value::Null)?;
        let items = next(&self.lists, &mut self.used, &path);
        let items = items.and_then(|items| items.as_array().cloned());
        let items = items.unwrap_or_default().into_iter();
        Ok(items.map(|item| object_of(kind, item)).collect())
    }
}

fn background() -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
}
