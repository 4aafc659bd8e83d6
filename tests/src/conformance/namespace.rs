//! Cases of `namespace`: one sync of a namespace that is being deleted, against scripted answers.

use std::collections::BTreeMap;

use podstorm::object::{ApiError, Map, Namespace, Now, Object, Reason, Resource};
use podstorm_apiserver::namespaces::{
    Content, ContentType, Discovery, NamespaceApi, Outcome, Stopped, sync,
};
use serde_json::{Value, json};

use super::{Fields, expect_eq, expect_same_json};

/// The path of the namespace.
const NAMESPACE: &str = "/api/v1/namespaces/ns1";

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    case.text("now")?;
    let wall_ns = case.int("nowUnixNano")?;
    let now = Now {
        mono_ns: 0,
        wall_ns,
    };
    let mut api = ScriptedApi {
        answers: case.object("answers")?.rest(),
        lists: case.object("lists")?.rest(),
        used: BTreeMap::new(),
        resources: case.list("resources")?,
        failed_groups: case.texts("discoveryError")?,
        requests: Vec::new(),
    };
    let outcome = sync(&mut api, now);
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

/// Where a request stands: those about kinds other than pods come in free order, between the others.
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
        // The namespace is read first, and again after a conflict: at its place by the stable sort.
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
    /// How many answers of a list were given.
    used: BTreeMap<String, usize>,
    resources: Vec<Value>,
    failed_groups: Vec<String>,
    requests: Vec<Value>,
}

impl ScriptedApi {
    /// Notes a request; its scripted answer.
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
                let code = u16::try_from(code).expect("codes are small");
                let reason = Reason::new(&text("reason"));
                Err(ApiError::status(code, reason, text("message")))
            }
            None => Ok(answer.get("body").cloned()),
        }
    }

    fn write(&mut self, part: &str, namespace: &Namespace) -> Result<Namespace, ApiError> {
        let body = namespace.to_json();
        let path = format!("{NAMESPACE}/{part}");
        let answered = self.request("PUT", &path, body.clone())?;
        Ok(namespace_of(answered.unwrap_or(body)))
    }
}

/// The next entry of a script under that key; the last one repeats.
fn next(script: &Map, used: &mut BTreeMap<String, usize>, key: &str) -> Option<Value> {
    let entries = script.get(key)?.as_array()?;
    let used = used.entry(key.to_owned()).or_default();
    let entry = entries.get(*used).or(entries.last()).cloned();
    *used += 1;
    entry
}

fn namespace_of(value: Value) -> Namespace {
    Namespace::from_json(value).expect("the case holds a namespace")
}

fn path_of(of: &ContentType<()>) -> String {
    let (group, version, resource) = (&of.group, &of.version, &of.resource);
    match group.is_empty() {
        true => format!("{NAMESPACE}/{resource}"),
        false => format!("/apis/{group}/{version}/namespaces/ns1/{resource}"),
    }
}

fn background() -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"})
}

impl NamespaceApi for ScriptedApi {
    type Kind = ();

    fn get(&mut self) -> Result<Namespace, ApiError> {
        let found = self.request("GET", NAMESPACE, Value::Null)?;
        Ok(namespace_of(found.expect("the case scripts the namespace")))
    }

    fn put_status(&mut self, namespace: &Namespace) -> Result<Namespace, ApiError> {
        self.write("status", namespace)
    }

    fn finalize(&mut self, namespace: &Namespace) -> Result<Namespace, ApiError> {
        self.write("finalize", namespace)
    }

    fn discover(&mut self) -> Discovery<()> {
        let mut types = Vec::new();
        let mut unparsable = None;
        for list in &self.resources {
            let named = list["groupVersion"].as_str().unwrap_or_default();
            let (group, version) = match named.split('/').collect::<Vec<_>>()[..] {
                [version] => ("", version),
                [group, version] => (group, version),
                _ => {
                    unparsable = Some(format!("unexpected GroupVersion string: {named}"));
                    continue;
                }
            };
            for resource in list["resources"].as_array().into_iter().flatten() {
                let verbs = resource["verbs"].as_array();
                let has = |verb: &str| verbs.is_some_and(|all| all.iter().any(|it| it == verb));
                if has("delete") {
                    types.push(ContentType {
                        kind: (),
                        group: group.to_owned(),
                        version: version.to_owned(),
                        resource: resource["name"].as_str().unwrap_or_default().to_owned(),
                        deletes_collections: has("deletecollection"),
                    });
                }
            }
        }
        let groups = self.failed_groups.iter();
        let groups: Vec<String> = groups
            .map(|group| format!("{group}: the server is currently unable to handle the request"))
            .collect();
        let text = "unable to retrieve the complete list of server APIs";
        let failed =
            (!groups.is_empty()).then(|| (groups.len(), format!("{text}: {}", groups.join(", "))));
        Discovery {
            types,
            failed,
            unparsable,
        }
    }

    fn list(&mut self, of: &ContentType<()>) -> Result<Vec<Content>, ApiError> {
        let path = path_of(of);
        self.request("GET", &path, Value::Null)?;
        let items = next(&self.lists, &mut self.used, &path);
        let items = items.and_then(|items| items.as_array().cloned());
        Ok(items.unwrap_or_default().iter().map(content).collect())
    }

    fn delete_collection(&mut self, of: &ContentType<()>) -> Result<(), ApiError> {
        let path = path_of(of);
        self.request("DELETE", &path, background()).map(drop)
    }

    fn delete(&mut self, of: &ContentType<()>, name: &str) -> Result<(), ApiError> {
        let path = format!("{}/{name}", path_of(of));
        self.request("DELETE", &path, background()).map(drop)
    }
}

fn content(object: &Value) -> Content {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let texts = finalizers.filter_map(Value::as_str).map(str::to_owned);
    let has_ended = ["Succeeded", "Failed"]
        .iter()
        .any(|phase| object["status"]["phase"] == *phase);
    let grace = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    Content {
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
        finalizers: texts.collect(),
        grace_seconds: grace.filter(|_| !has_ended).unwrap_or(0),
    }
}
