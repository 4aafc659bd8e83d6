//! Comparison of a response with the recorded one.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};

use super::super::differences::Differences;
use super::compare::is_named;
use super::play::Case;

/// A complete response.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Case {
    pub(super) fn compare(&mut self, step: &Value, answer: &Answer) -> Result<(), Differences> {
        let recorded = &step["response"];
        if recorded["status"] != answer.status {
            let text = String::from_utf8_lossy(&answer.body);
            let status = answer.status;
            return Err(format!("status {status}, recorded {recorded}: {text}").into());
        }
        let mut all = Vec::new();
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
                if name == "Last-Modified" && wanted == ["$time"] {
                    // The recorded value is an HTTP date.
                    match found.as_slice() {
                        [time] if httpdate::parse_http_date(time).is_ok() => {}
                        _ => all.push(format!("{name}: found {found:?}")),
                    }
                    continue;
                }
                let same = found.len() == wanted.len()
                    && wanted
                        .iter()
                        .zip(&found)
                        .all(|(a, b)| self.symbols.matches_text(a, b));
                if !same {
                    all.push(format!("{name}: recorded {wanted:?}, found {found:?}"));
                }
            }
        }
        if recorded["bodyBinary"] == true {
            return Differences::none_of(all);
        }
        if let Some(text) = recorded["bodyText"].as_str() {
            let found = String::from_utf8_lossy(&answer.body);
            // Only one of upstream's OpenAPI writers adds a newline at the end.
            let (text, found) = (text.trim_end_matches('\n'), found.trim_end_matches('\n'));
            if !self.symbols.matches_text(text, found) {
                all.push(format!("recorded {text:?}, found {found:?}"));
            }
            return Differences::none_of(all);
        }
        let Some(body) = recorded.get("body") else {
            return Differences::none_of(all);
        };
        let found: Value = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("the response is not JSON: {error}"))?;
        let (mut recorded, mut found) = (body.clone(), found);
        match step["free"].as_str() {
            Some("order of causes") => {
                sort_causes(&mut recorded);
                sort_causes(&mut found);
            }
            Some("order of items") => {
                sort_items(&mut recorded);
                sort_items(&mut found);
            }
            Some("which items") => {
                recorded["items"] = Value::Null;
                found["items"] = Value::Null;
            }
            _ => {}
        }
        if answer.status == 200 && is_named(step["path"].as_str().unwrap_or(""), "/version") {
            let part = |version: &Value| -> Value {
                let members = ["major", "minor", "gitVersion"].into_iter();
                members
                    .map(|name| (name.to_owned(), version[name].clone()))
                    .collect()
            };
            (recorded, found) = (part(&recorded), part(&found));
        }
        if recorded.get("pathCount").is_some() {
            found = summary(&found, recorded.get("deploymentItem").is_some());
        }
        let symbols = &mut self.symbols;
        symbols.differences("body", &recorded, &found, &mut all);
        Differences::none_of(all)
    }
}

/// Returns the parts of an OpenAPI document that recordings contain.
fn summary(document: &Value, with_deployment: bool) -> Value {
    const SHOWN: usize = 6;
    let none = serde_json::Map::new();
    let members = |value: &Value| value.as_object().cloned().unwrap_or_else(|| none.clone());
    let paths = members(&document["paths"]);
    let mut summary = json!({"openapi": document["openapi"], "info": document["info"],
        "pathCount": paths.len(), "paths": paths.keys().take(SHOWN).collect::<Vec<_>>(),
        "schemaCount": members(&document["components"]["schemas"]).len()});
    if with_deployment {
        let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
        let mut item = document["paths"][path].clone();
        for operation in item.as_object_mut().into_iter().flatten() {
            if let Value::Object(operation) = operation.1 {
                operation.remove("responses");
            }
        }
        summary["deploymentItem"] = item;
    }
    summary
}

fn sort_items(body: &mut Value) {
    if let Some(items) = body["items"].as_array_mut() {
        items.sort_by_key(name_of);
    }
}

pub(super) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].to_string()
}

/// Sorts the causes in a Status, and the corresponding parts of its message.
fn sort_causes(body: &mut Value) {
    let causes = body.pointer_mut("/details/causes");
    let Some(causes) = causes.and_then(Value::as_array_mut) else {
        return;
    };
    causes.sort_by_key(ToString::to_string);
    if let Some(message) = body["message"].as_str() {
        let mut parts: Vec<&str> = message.split([',', '[', ']']).map(str::trim).collect();
        parts.sort_unstable();
        body["message"] = parts.join("|").into();
    }
}
