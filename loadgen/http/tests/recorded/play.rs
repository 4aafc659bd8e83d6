//! Plays one recorded case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::{ApiServer, Body, Credentials, User};
use podstorm_objects::{Now, Resource};
use serde_json::Value;

use super::compare::Symbols;

/// How long a watch is listened to for one more event. Time passes only when nothing else happens.
const QUIET: Duration = Duration::from_millis(350);
/// How often a request is repeated whose answer comes eventually.
const REPEATS: u32 = 20;

/// The token that is sent unless a step says otherwise.
pub(crate) const AUTHORIZATION: &str = "Bearer admintoken";

/// A server with the users of the recorded one.
pub(crate) fn server() -> ApiServer {
    let user = |name: &str, groups: &[&str]| User {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        groups: groups.iter().map(ToString::to_string).collect(),
    };
    let mut credentials = Credentials::default();
    credentials.add_token("admintoken", user("admin", &["system:masters"]));
    credentials.add_token("usertoken", user("jane", &["dev", "ops"]));
    let options = ClusterOptions {
        keeps_past: true,
        ..ClusterOptions::default()
    };
    let cluster = Arc::new(Cluster::new(options));
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let namespace = serde_json::json!({"metadata": {"name": name}});
        let namespace = podstorm_objects::Namespace::from_json(namespace);
        let created = cluster.create(namespace.expect("it is one"), Now::default());
        created.expect("the cluster is new");
    }
    ApiServer::builder(cluster).credentials(credentials).build()
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Default)]
struct Case {
    symbols: Symbols,
    /// The bodies of the answers so far, by step.
    bodies: BTreeMap<usize, Value>,
    watches: BTreeMap<String, Body>,
}

/// # Errors
/// What differs first.
pub(crate) async fn play(server: &ApiServer, case: &Value) -> Result<(), String> {
    let mut playing = Case::default();
    playing.symbols.without_managed_fields = case["managedFields"] == "dropped";
    if let Some(namespace) = case["namespace"].as_str() {
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace}});
        let request = Request::post("/api/v1/namespaces")
            .header("Content-Type", "application/json")
            .header("Authorization", AUTHORIZATION)
            .body(Full::new(Bytes::from(namespace.to_string())));
        let answer = server
            .answer(request.map_err(|error| error.to_string())?)
            .await;
        if answer.status() != 201 {
            return Err(format!(
                "the namespace was not created: {}",
                answer.status()
            ));
        }
    }
    let steps = case["steps"].as_array().ok_or("no steps")?;
    for (number, step) in steps.iter().enumerate() {
        let played = playing.step(server, number, step).await;
        played.map_err(|difference| format!("step {number}: {difference}"))?;
    }
    Ok(())
}

impl Case {
    async fn step(
        &mut self,
        server: &ApiServer,
        number: usize,
        step: &Value,
    ) -> Result<(), String> {
        if let Some(name) = step["events"].as_str() {
            return self.events(name, step).await;
        }
        let eventually = step["eventually"] == true;
        let mut left = if eventually { REPEATS } else { 1 };
        loop {
            left -= 1;
            let response = self.send(server, step).await?;
            if let Some(name) = step["watch"].as_str()
                && response.status() == 200
            {
                self.watches.insert(name.to_owned(), response.into_body());
                return Ok(());
            }
            let (head, body) = response.into_parts();
            let Ok(body) = body.collect().await;
            let answer = Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                body: body.to_bytes(),
            };
            if let Ok(value) = serde_json::from_slice(&answer.body) {
                self.bodies.insert(number, value);
            }
            match self.compare(step, &answer) {
                Err(_) if left > 0 => {
                    server.cluster().collect_garbage(usize::MAX, server.now());
                    tokio::time::sleep(Duration::from_millis(150)).await;
                }
                compared => return compared,
            }
        }
    }

    async fn send(&self, server: &ApiServer, step: &Value) -> Result<http::Response<Body>, String> {
        let method = step["method"].as_str().unwrap_or("GET");
        let path = self.symbols.fill(step["path"].as_str().ok_or("no path")?);
        let body = self.body(step)?;
        let mut headers = vec![
            ("Accept".to_owned(), "application/json".to_owned()),
            ("User-Agent".to_owned(), "recorder/1.0".to_owned()),
            ("Authorization".to_owned(), AUTHORIZATION.to_owned()),
        ];
        if body.is_some() {
            headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
        if let Some(more) = step["headers"].as_object() {
            for (name, value) in more {
                headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
                if let Some(value) = value.as_str() {
                    headers.push((name.clone(), self.symbols.fill(value)));
                }
            }
        }
        let path = path.replace(' ', "%20");
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        let request = request.body(body).map_err(|error| error.to_string())?;
        Ok(server.answer(request).await)
    }

    fn body(&self, step: &Value) -> Result<Option<String>, String> {
        if let Some(text) = step["bodyText"].as_str() {
            return Ok(Some(self.symbols.fill(text)));
        }
        if let Some(bytes) = step["bodyBytes"].as_u64() {
            let count = usize::try_from(bytes).map_err(|error| error.to_string())?;
            return Ok(Some(" ".repeat(count)));
        }
        if let Some(from) = step["bodyFrom"].as_object() {
            let number = from["step"].as_u64().unwrap_or(0) as usize;
            let mut body = self
                .bodies
                .get(&number)
                .cloned()
                .ok_or("that step has no body")?;
            if let Some(merge) = from.get("merge") {
                merge_patch(&mut body, &self.symbols.fill_value(merge));
            }
            return Ok(Some(body.to_string()));
        }
        Ok(step
            .get("body")
            .map(|body| self.symbols.fill_value(body).to_string()))
    }

    fn compare(&mut self, step: &Value, answer: &Answer) -> Result<(), String> {
        let recorded = &step["response"];
        if recorded["status"] != answer.status {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(format!(
                "status {}, recorded {recorded}: {text}",
                answer.status
            ));
        }
        if let Some(headers) = recorded["headers"].as_object() {
            for (name, value) in headers {
                let found = answer.headers.get_all(name.as_str()).iter();
                let found: Vec<String> = found
                    .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
                    .collect();
                let wanted: Vec<&str> = match value {
                    Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
                    other => other.as_str().into_iter().collect(),
                };
                let same = found.len() == wanted.len()
                    && wanted
                        .iter()
                        .zip(&found)
                        .all(|(a, b)| self.symbols.matches_text(a, b));
                if !same {
                    return Err(format!("{name}: recorded {wanted:?}, found {found:?}"));
                }
            }
        }
        if recorded["bodyBinary"] == true {
            return Ok(());
        }
        if let Some(text) = recorded["bodyText"].as_str() {
            let found = String::from_utf8_lossy(&answer.body);
            return match self.symbols.matches_text(text, &found) {
                true => Ok(()),
                false => Err(format!("recorded {text:?}, found {found:?}")),
            };
        }
        let Some(body) = recorded.get("body") else {
            return Ok(());
        };
        let found: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("the answer is no JSON: {error}"))?;
        self.symbols
            .difference("body", &sorted(body), &sorted(&found))
    }

    /// Compares the events of a watch that have come.
    async fn events(&mut self, name: &str, step: &Value) -> Result<(), String> {
        let mut body = self.watches.remove(name).ok_or("that watch is not open")?;
        let ends = step["ended"] == true;
        let mut text = Vec::new();
        let ended = loop {
            let wait = if ends { QUIET * 100 } else { QUIET };
            match tokio::time::timeout(wait, body.frame()).await {
                Ok(Some(Ok(frame))) => text.extend(frame.into_data().unwrap_or_default()),
                Ok(_) => break true,
                Err(_) => break false,
            }
        };
        if !ended {
            self.watches.insert(name.to_owned(), body);
        }
        if ended != ends {
            return Err(format!("ended {ended}, recorded {ends}"));
        }
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let lines: Result<Vec<Value>, _> = lines.map(serde_json::from_slice).collect();
        let lines = lines.map_err(|error| error.to_string())?;
        let is_free = |line: &Value| {
            step["free"] == "the BOOKMARK may be missing or there" && line["type"] == "BOOKMARK"
        };
        let recorded = step["lines"].as_array().cloned().unwrap_or_default();
        let recorded: Vec<&Value> = recorded.iter().filter(|line| !is_free(line)).collect();
        let lines: Vec<&Value> = lines.iter().filter(|line| !is_free(line)).collect();
        if recorded.len() != lines.len() {
            return Err(format!(
                "{} events, recorded {}: {lines:?}",
                lines.len(),
                recorded.len()
            ));
        }
        for (recorded, found) in recorded.iter().zip(&lines) {
            if recorded["type"] != found["type"] {
                return Err(format!("recorded {recorded}, found {found}"));
            }
            let at = format!("{} event", recorded["type"]);
            // Upstream fills a bookmark's object with empty members.
            match recorded["type"] == "BOOKMARK" {
                true => {
                    for member in ["kind", "apiVersion", "metadata"] {
                        let (recorded, found) = (&recorded["object"], &found["object"]);
                        self.symbols
                            .difference(&at, &recorded[member], &found[member])?;
                    }
                }
                false => self
                    .symbols
                    .difference(&at, &recorded["object"], &found["object"])?,
            }
        }
        Ok(())
    }
}

/// With the causes of a Status in an order of their own, and its message by its parts.
fn sorted(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(causes) = body
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut)
    {
        causes.sort_by_key(ToString::to_string);
        if causes.len() > 1
            && let Some(message) = body["message"].as_str()
        {
            let mut parts: Vec<&str> = message.split([',', '[', ']']).map(str::trim).collect();
            parts.sort_unstable();
            body["message"] = parts.join("|").into();
        }
    }
    body
}

fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let members = target.as_object_mut().expect("made one above");
    for (name, value) in patch {
        match value {
            Value::Null => drop(members.remove(name)),
            value => merge_patch(members.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}
