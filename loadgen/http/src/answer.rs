//! Answers: a status code, headers, and a body that is sent whole or in parts.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use podstorm_objects::json::Writer;
use podstorm_objects::{ApiError, Details, Object, Reason};
use serde_json::Value;

use crate::faults::ConnectionLost;
use crate::indented::Indenter;
use crate::limits::KeptPlace;
use crate::media::{self, Form};
use crate::{protobuf, view, yaml};

/// The body of an answer.
#[derive(Debug)]
pub struct Body {
    content: Content,
    /// The slot that a list holds among the requests in flight, until it has been sent.
    _place: Option<KeptPlace>,
}

#[derive(Debug)]
enum Content {
    /// Taken when it is sent; empty afterwards.
    Whole(Bytes),
    List(Box<dyn Bits>),
    /// Ends when the client disconnects, unless the server ends it first.
    Endless(Box<dyn Bits>),
}

/// The next part of a body, or `None` at the end; an error if a fault cuts the connection.
pub(crate) type NextPart = Result<Option<Bytes>, ConnectionLost>;

/// A body that is sent in parts.
pub(crate) trait Bits: fmt::Debug + Send {
    /// Returns the next part.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<NextPart>;

    /// Pretty-prints the parts that follow. Endless bodies ignore the call: in a watch, each event
    /// is a line, and a log is not JSON.
    fn indent(&mut self) {}
}

impl Body {
    fn from_content(content: Content) -> Body {
        Body {
            content,
            _place: None,
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.content, Content::List(_))
    }

    /// Reports whether the body lasts as long as the client stays connected.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self.content, Content::Endless(_))
    }

    /// Holds the request's slot until the body has been sent or dropped.
    pub(crate) fn keep(&mut self, place: KeptPlace) {
        self._place = Some(place);
    }

    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::from_content(Content::Whole(bytes.into()))
    }

    /// Pretty-prints the body, which must be JSON.
    pub(crate) fn indent(&mut self) {
        match &mut self.content {
            Content::Whole(bytes) => *bytes = Indenter::default().push(bytes).into(),
            Content::List(list) => list.indent(),
            Content::Endless(_) => {}
        }
    }

    pub(crate) fn endless(bits: impl Bits + 'static) -> Body {
        Body::from_content(Content::Endless(Box::new(bits)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = ConnectionLost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionLost>>> {
        let bytes = match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(std::mem::take(bytes)),
            Content::List(bits) | Content::Endless(bits) => match bits.poll_next(context) {
                Poll::Ready(bytes) => bytes?,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

/// The media type of JSON answers.
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const YAML: HeaderValue = HeaderValue::from_static("application/yaml");
const PROTOBUF: HeaderValue = HeaderValue::from_static(media::PROTOBUF);
const PROTOBUF_WATCH: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf;stream=watch");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

pub(crate) fn respond(code: u16, media: HeaderValue, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Pretty-prints an answer if it is JSON.
pub(crate) fn indent(response: &mut Response<Body>) {
    if response.headers().get(CONTENT_TYPE) == Some(&JSON) {
        response.body_mut().indent();
    }
}

pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    respond(code, JSON, Body::whole(body))
}

/// Encodes a document as Go does: `kind`, `apiVersion` and `metadata` first, also in the objects of
/// lists and tables, and a line feed at the end.
fn text_of(document: &Value) -> String {
    let mut out = String::new();
    put_document(document, &mut out);
    out.push('\n');
    out
}

/// The members at the beginning of each object.
const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
/// The members of lists, tables and table rows that hold objects.
const HOLDING: [&str; 3] = ["items", "rows", "object"];

fn put_document(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let first = FIRST
                .into_iter()
                .filter_map(|name| members.get_key_value(name));
            let others = members
                .iter()
                .filter(|(name, _)| !FIRST.contains(&name.as_str()));
            out.push('{');
            for (place, (name, value)) in first.chain(others).enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                match HOLDING.contains(&name.as_str()) {
                    true => put_document(value, out),
                    false => out.push_str(&value.to_string()),
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                put_document(item, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Returns an answer with a document in the encoding that the client accepts.
pub(crate) fn document(code: u16, form: Form, value: &Value) -> Response<Body> {
    match form {
        Form::Json => json(code, text_of(value)),
        Form::Yaml => respond(code, YAML, Body::whole(yaml::text(value))),
        Form::Protobuf => match protobuf::encode(value) {
            Some(bytes) => respond(code, PROTOBUF, Body::whole(bytes)),
            // The document has no protobuf message, e.g. the result of some subresources.
            None => json(code, text_of(value)),
        },
    }
}

/// Returns an answer with a whole object.
pub(crate) fn object(code: u16, form: Form, object: &dyn Object) -> Response<Body> {
    if form != Form::Json {
        let mut json = object.to_json();
        view::fill(object.kind(), &mut json);
        return document(code, form, &json);
    }
    let mut out = Writer::new();
    object.write_json(&mut out);
    let mut text = out.into_string();
    text.push('\n');
    json(code, text)
}

/// Returns an answer without a body.
pub(crate) fn nothing(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    respond(code, TEXT, Body::whole(text))
}

/// Returns an answer with a log that is followed.
pub(crate) fn log(log: impl Bits + 'static) -> Response<Body> {
    respond(200, TEXT, Body::endless(log))
}

/// Returns an answer with a list in JSON, sent in parts.
pub(crate) fn list(list: impl Bits + 'static) -> Response<Body> {
    respond(200, JSON, Body::from_content(Content::List(Box::new(list))))
}

/// Returns an answer with a watch whose events have the encoding `form`.
pub(crate) fn watch(form: Form, watch: impl Bits + 'static) -> Response<Body> {
    let media = match form {
        Form::Protobuf => PROTOBUF_WATCH,
        _ => JSON,
    };
    respond(200, media, Body::endless(watch))
}

/// Returns an answer with an error as a `Status`.
pub(crate) fn error(error: &ApiError, form: Form) -> Response<Body> {
    // An error without a code never left a client; on the server it is an internal error.
    let code = if error.code == 0 { 500 } else { error.code };
    let mut response = document(code, form, &error.to_json());
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Returns a 500 without a reason: upstream's answer to errors that it does not classify.
pub(crate) fn unclassified(message: impl Into<String>) -> ApiError {
    ApiError::status(500, Reason::Other(String::new()), message)
}

/// Returns a 405.
pub(crate) fn method_not_allowed() -> ApiError {
    let message = "the server does not allow this method on the requested resource";
    ApiError::status(405, Reason::Other("MethodNotAllowed".into()), message)
        .with_details(Details::default())
}

/// The maximum total number of characters in the warnings of an answer, as in upstream. Beyond it,
/// each warning is cut to [`WARNING_MAX`].
pub(crate) const WARNINGS_MAX: usize = 4096;
const WARNING_MAX: usize = 256;

/// The warnings that were added to an answer so far.
#[derive(Clone, Default)]
struct Warned {
    /// Distinct warnings, in order of addition.
    texts: Vec<String>,
    known: BTreeSet<String>,
    /// The number of characters in all headers.
    written: usize,
    /// Whether the total exceeded [`WARNINGS_MAX`], so that each warning is cut to [`WARNING_MAX`].
    are_cut: bool,
}

/// Adds `Warning` headers, which clients print. A repeated warning is added once. If the total
/// would exceed [`WARNINGS_MAX`], every warning is cut to [`WARNING_MAX`], and further ones are
/// added while the total is below the maximum.
///
/// Source: `warning.go` in `endpoints/filters` of Kubernetes' apiserver.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let mut warned: Warned = response.extensions_mut().remove().unwrap_or_default();
    for warning in warnings {
        if warned.are_cut && warned.written >= WARNINGS_MAX {
            break;
        }
        if warning.is_empty() || !warned.known.insert(warning.clone()) {
            continue;
        }
        warned.texts.push(warning.clone());
        if !warned.are_cut && warned.written + warning.chars().count() > WARNINGS_MAX {
            warned.are_cut = true;
            warned.written = 0;
            response.headers_mut().remove(WARNING);
            for text in &warned.texts {
                warned.written += add_warning(response, text, true);
            }
        } else {
            warned.written += add_warning(response, warning, warned.are_cut);
        }
    }
    response.extensions_mut().insert(warned);
}

/// Like [`warn`], but takes and returns the answer.
pub(crate) fn warned(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    warn(&mut response, warnings);
    response
}

/// Like [`warn`], but puts the warnings before those already present.
pub(crate) fn warn_first(response: &mut Response<Body>, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let warned: Option<Warned> = response.extensions_mut().remove();
    response.headers_mut().remove(WARNING);
    warn(response, warnings);
    warn(response, &warned.unwrap_or_default().texts);
}

/// Adds one header and returns the number of characters in the warning. Skips a warning that
/// contains control characters and returns 0.
fn add_warning(response: &mut Response<Body>, text: &str, is_cut: bool) -> usize {
    let max = if is_cut { WARNING_MAX } else { usize::MAX };
    let mut header = "299 - \"".to_owned();
    let mut written = 0;
    for character in text.chars().take(max) {
        if character.is_control() {
            return 0;
        }
        if matches!(character, '"' | '\\') {
            header.push('\\');
        }
        header.push(character);
        written += 1;
    }
    header.push('"');
    match HeaderValue::from_str(&header) {
        Ok(value) => response.headers_mut().append(WARNING, value),
        Err(_) => return 0,
    };
    written
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kind_and_metadata_come_first_and_a_line_feed_last() {
        let object = json!({"apiVersion": "v1", "data": {"kind": "k", "apiVersion": "v"},
            "kind": "ConfigMap", "metadata": {"name": "a"}});
        let list = json!({"kind": "ConfigMapList", "apiVersion": "v1", "items": [object, null]});
        assert_eq!(
            text_of(&list),
            "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"ConfigMap\",\
             \"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\
             \"data\":{\"apiVersion\":\"v\",\"kind\":\"k\"}},null]}\n"
        );
    }

    fn warnings(response: &Response<Body>) -> Vec<usize> {
        let all = response.headers().get_all(WARNING).iter();
        all.map(|text| text.len() - "299 - \"\"".len()).collect()
    }

    #[test]
    fn earlier_warnings_precede_later_ones() {
        let mut response = json(200, "");
        warn(&mut response, &["bc".to_owned(), "a".to_owned()]);
        warn_first(&mut response, &[]);
        warn_first(&mut response, &["def".to_owned(), "a".to_owned()]);
        assert_eq!(warnings(&response), [3, 1, 2]);
    }

    #[test]
    fn long_warnings_are_cut_when_the_total_is_too_long() {
        let mut response = super::json(200, "");
        let long = |letter: &str| letter.repeat(1_500);
        warn(&mut response, &[long("a"), "b".to_owned(), long("a")]);
        warn(&mut response, &[long("c"), "b".to_owned()]);
        assert_eq!(warnings(&response), [1_500, 1, 1_500]);
        // Exactly the maximum.
        warn(&mut response, &["d".repeat(1_095)]);
        assert_eq!(warnings(&response), [1_500, 1, 1_500, 1_095]);
        warn(&mut response, &["e".to_owned(), long("f")]);
        assert_eq!(warnings(&response), [256, 1, 256, 256, 1, 256]);
        let more: Vec<String> = (0..1_000).map(|number| format!("{number:0>200}")).collect();
        warn(&mut response, &more);
        warn(&mut response, &[long("g")]);
        let all = warnings(&response);
        // The last one begins within the limit.
        let without_last: usize = all[..all.len() - 1].iter().sum();
        assert!(without_last < WARNINGS_MAX && without_last + 200 >= WARNINGS_MAX);
        assert_eq!(all.len(), 6 + 16);
    }
}
