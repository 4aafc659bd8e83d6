//! `GET` of a collection, whole or in pages. The list is encoded while it is sent.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use podstorm_apiserver::{ListOptions, Select, errors};
use podstorm_objects::json::Writer;
use podstorm_objects::{AnyObject, ApiError, Cause, Kind, Object, ResourceVersion};
use serde_json::{Map, Value, json};

use crate::answer::{self, Bits, Body, NextPart};
use crate::call::Call;
use crate::indented::Indenter;
use crate::media::{Accepted, Form, Shape, not_acceptable};
use crate::query::{Query, options_invalid, version_number};
use crate::route::Target;
use crate::select::Selection;
use crate::{table, view};

/// The approximate size in bytes of a chunk of a list: large enough to keep the overhead of sending
/// small, and small enough to send the first chunk early.
const CHUNK: usize = 64 << 10;

pub(crate) fn list(call: &Call<'_>, target: &Target) -> Result<Response<Body>, ApiError> {
    let (query, kind) = (&call.query, target.kind);
    let (_, limit) = query.of_collection()?;
    let selection = Selection::from_query(target, query)?;
    // Version "0" reads upstream's cache, which ignores `limit`: it returns the whole state, or all
    // objects after the page of a continue token.
    let from_cache = query.text("resourceVersion") == "0";
    let limit = limit.filter(|_| !from_cache).unwrap_or(0);
    let exact = check_versions(query)?;
    let api = call.api(kind);
    let is_selected = |object: &dyn Object| selection.matches(object);
    let (items, version, next, remaining) = match exact {
        Some(version) => {
            let (mut items, version) = api.list_as_of(version)?;
            items.retain(|item| selection.matches(&**item));
            (items, version, String::new(), 0)
        }
        None => {
            let namespace = Some(target.namespace.as_str()).filter(|name| !name.is_empty());
            let select: &Select<'_> = &is_selected;
            let page = api.list(&ListOptions {
                namespace,
                limit: usize::try_from(limit).unwrap_or(0),
                continue_token: query.text("continue"),
                resource_version: query.resource_version(),
                select: (!selection.is_all()).then_some(select),
            })?;
            let version = page.resource_version;
            (page.items, version, page.continue_token, page.remaining)
        }
    };
    // The number of remaining objects is known only without a selector.
    let remaining = if selection.is_all() { remaining } else { 0 };
    let metadata = ListMetadata {
        version,
        next,
        remaining,
    };
    answer_list(call, kind, items, &metadata)
}

/// The `metadata` of a list.
#[derive(Default)]
pub(crate) struct ListMetadata {
    pub(crate) version: ResourceVersion,
    /// The continue token of the next page; empty on the last page.
    pub(crate) next: String,
    /// The number of objects after this page; 0 if it is unknown.
    pub(crate) remaining: usize,
}

impl ListMetadata {
    fn to_json(&self) -> Value {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".into(), self.version.to_string().into());
        if !self.next.is_empty() {
            metadata.insert("continue".into(), self.next.as_str().into());
        }
        if self.remaining > 0 {
            metadata.insert("remainingItemCount".into(), self.remaining.into());
        }
        Value::Object(metadata)
    }
}

/// Returns an answer with a list in the shape that the client accepts.
pub(crate) fn answer_list(
    call: &Call<'_>,
    kind: Kind,
    items: Vec<AnyObject>,
    metadata: &ListMetadata,
) -> Result<Response<Body>, ApiError> {
    let Accepted { form, shape } = call.accepted;
    let items = match view::is_view(kind) {
        false => items,
        true => items
            .into_iter()
            .map(|item| view::shown(kind, item))
            .collect::<Result<_, _>>()?,
    };
    let mut of_objects = metadata.to_json();
    if kind.row().custom.is_some() && metadata.next.is_empty() {
        // Upstream lists custom objects without a Go type, so it never omits `continue`.
        of_objects["continue"] = "".into();
    }
    let document = match shape {
        Shape::Table(version) => {
            let include = table::Include::from_query(&call.query)?;
            table::table(kind, &items, version, include, metadata.to_json(), call.now)
        }
        Shape::MetadataList(version) => {
            let items = items.iter().map(|item| table::metadata_of(&**item));
            let items: Vec<Value> = items.collect();
            // Sic: upstream's list is null if it is empty.
            let items = Some(items).filter(|items| !items.is_empty());
            json!({"kind": "PartialObjectMetadataList", "apiVersion": version,
                "metadata": metadata.to_json(), "items": items})
        }
        Shape::Metadata(_) => {
            let message = format!(
                "you requested PartialObjectMetadata, but the requested object is a list \
                 (*core.{})",
                list_kind(kind)
            );
            return Err(not_acceptable(message));
        }
        Shape::Object | Shape::Discovery if form != Form::Json => {
            let filled = |item: &AnyObject| {
                let mut json = item.to_json();
                view::fill(kind, &mut json);
                json
            };
            let items: Vec<Value> = items.iter().map(filled).collect();
            json!({"kind": list_kind(kind), "apiVersion": kind.api_version(),
                "metadata": of_objects, "items": items})
        }
        Shape::Object | Shape::Discovery => {
            let head = format!(
                "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
                list_kind(kind),
                kind.api_version(),
                of_objects
            );
            return Ok(answer::list(ListBody::new(kind, head, items)));
        }
    };
    Ok(answer::document(200, form, &document))
}

/// Returns the `kind` of a kind's lists.
fn list_kind(kind: Kind) -> String {
    let custom = kind.row().custom.map(|custom| custom.list_kind.to_owned());
    custom.unwrap_or_else(|| format!("{}List", kind.name()))
}

/// Returns the version whose exact state is requested, or `None`.
///
/// # Errors
/// 422 for a combination of parameters that upstream rejects.
///
/// Source: `ValidateListOptions` of Kubernetes' `apis/meta/internalversion/validation`.
fn check_versions(query: &Query<'_>) -> Result<Option<u64>, ApiError> {
    let refused = |cause: Cause| Err(options_invalid("ListOptions", cause));
    let forbidden = |field: &str, why: &str| refused(errors::forbidden_field(field, why));
    let mismatched = |why: &str| {
        let why = format!("resourceVersionMatch is forbidden {why}");
        forbidden("resourceVersionMatch", &why)
    };
    if query.has("sendInitialEvents") {
        let why = "sendInitialEvents is forbidden for list";
        return forbidden("sendInitialEvents", why);
    }
    let version = query.text("resourceVersion");
    let matching = query.text("resourceVersionMatch");
    let number = match version {
        "" => None,
        text => Some(version_number(text)?),
    };
    match matching {
        "" => Ok(None),
        _ if version.is_empty() => mismatched("unless resourceVersion is provided"),
        _ if query.has("continue") && !query.text("continue").is_empty() => {
            mismatched("when continue is provided")
        }
        "Exact" if version == "0" => {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            forbidden("resourceVersionMatch", why)
        }
        "Exact" => Ok(number),
        "NotOlderThan" => Ok(None),
        other => refused(errors::not_supported(
            "resourceVersionMatch",
            other,
            &["Exact", "NotOlderThan", ""],
        )),
    }
}

/// The body of a list, which is encoded while it is sent.
#[derive(Debug)]
struct ListBody {
    /// The text before the items; `None` after the first chunk.
    head: Option<String>,
    /// The items that have not been sent; `None` after the last chunk.
    items: Option<std::vec::IntoIter<AnyObject>>,
    /// The beginning of each item's text, which a list omits; `None` for custom objects.
    type_text: Option<String>,
    out: Writer,
    indenter: Option<Indenter>,
}

impl ListBody {
    fn new(kind: Kind, head: String, items: Vec<AnyObject>) -> ListBody {
        let (version, name) = (kind.api_version(), kind.name());
        ListBody {
            head: Some(head),
            items: Some(items.into_iter()),
            type_text: (kind.row().custom.is_none())
                .then(|| format!("{{\"kind\":\"{name}\",\"apiVersion\":\"{version}\",")),
            out: Writer::new(),
            indenter: None,
        }
    }

    /// Returns the next chunk, or `None` at the end.
    fn next(&mut self) -> Option<Bytes> {
        let items = self.items.as_mut()?;
        let mut chunk = String::with_capacity(CHUNK + CHUNK / 4);
        let head = self.head.take();
        let mut first = head.is_some();
        chunk.extend(head);
        while chunk.len() < CHUNK {
            let Some(item) = items.next() else {
                chunk.push_str("]}\n");
                self.items = None;
                break;
            };
            if !first {
                chunk.push(',');
            }
            first = false;
            self.out.clear();
            item.write_json(&mut self.out);
            let text = self.out.as_str();
            // Items omit the `kind` and `apiVersion` that the list implies.
            let said = self.type_text.as_deref();
            match said.and_then(|said| text.strip_prefix(said)) {
                Some(rest) => chunk.extend(["{", rest]),
                None => chunk.push_str(text),
            }
        }
        Some(match &mut self.indenter {
            None => chunk.into(),
            Some(indenter) => indenter.push(chunk.as_bytes()).into(),
        })
    }
}

impl Bits for ListBody {
    fn poll_next(&mut self, _: &mut Context<'_>) -> Poll<NextPart> {
        Poll::Ready(Ok(self.next()))
    }

    fn indent(&mut self) {
        self.indenter = Some(Indenter::default());
    }
}
