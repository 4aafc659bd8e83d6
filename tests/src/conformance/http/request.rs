//! Sends the request of a recorded step, with the run's values in place of its symbols.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use serde_json::Value;

use super::large;
use super::play::Case;
use super::sent::with_blanks;
use super::server::{AUTHORIZATION, Answered, Server};

impl Case {
    pub(super) async fn send(
        &self,
        server: &mut Server,
        step: &Value,
    ) -> Result<Response<Answered>, String> {
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
        server.send(request, step["watch"].is_string()).await
    }

    fn body(&self, step: &Value) -> Result<Option<String>, String> {
        if let Some(text) = step["bodyText"].as_str() {
            return Ok(Some(self.symbols.fill(text)));
        }
        if let Some(bytes) = step["bodyBytes"].as_u64() {
            return large::body(step["note"].as_str().unwrap_or(""), bytes).map(Some);
        }
        if let Some(from) = step["bodyFrom"].as_object() {
            let number = from["step"].as_u64().unwrap_or(0) as usize;
            let mut body = self
                .bodies
                .get(&number)
                .cloned()
                .ok_or("the named step has no body")?;
            if let Some(merge) = from.get("merge") {
                merge_patch(&mut body, &self.symbols.fill_value(merge));
            }
            return Ok(Some(with_blanks(&body.to_string())));
        }
        Ok(step
            .get("body")
            .map(|body| self.symbols.fill_value(body).to_string()))
    }
}

fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let members = target.as_object_mut().expect("the target is an object");
    for (name, value) in patch {
        match value {
            Value::Null => drop(members.remove(name)),
            value => merge_patch(members.entry(name.clone()).or_insert(Value::Null), value),
        }
    }
}
