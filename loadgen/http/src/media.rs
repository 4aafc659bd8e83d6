//! Media types: negotiation of answers, and the types of bodies.
//!
//! Source: `endpoints/handlers/negotiation` and `runtime/serializer` of Kubernetes' apiserver and
//! apimachinery; recorded answers of 1.36.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use podstorm_objects::{ApiError, Details, Kind, Reason};

use crate::protobuf;

/// The media type of Kubernetes' protobuf.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The negotiated representation of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) shape: Shape,
}

/// The encoding of an answer's documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Json,
    Yaml,
    Protobuf,
}

impl Accepted {
    /// The whole document as JSON.
    pub(crate) const JSON: Accepted = Accepted {
        form: Form::Json,
        shape: Shape::Object,
    };
}

/// The representation of an answer's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The whole objects.
    Object,
    /// `as=Table`, with the version of `meta.k8s.io`.
    Table(&'static str),
    /// `as=PartialObjectMetadata`.
    Metadata(&'static str),
    /// `as=PartialObjectMetadataList`.
    MetadataList(&'static str),
    /// `as=APIGroupDiscoveryList`.
    Discovery,
}

/// The shapes in which a request can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Objects of the API: whole, as metadata, or as tables if `has_tables`. Collections can also
    /// be watched.
    Objects {
        kind: Kind,
        has_tables: bool,
        is_watchable: bool,
    },
    /// `/api`.
    Versions,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group,
    /// Only the document itself, in any encoding.
    Plain,
    /// Only the document as JSON: `/version`.
    JsonAlone,
}

impl Offer {
    /// Returns the available encodings, as messages list them.
    fn written(self) -> &'static str {
        match self {
            Offer::Objects { kind, .. } if !protobuf::is_known(kind) => {
                "application/json, application/yaml"
            }
            Offer::JsonAlone => "application/json",
            _ => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the encodings that messages of upstream's router list in addition.
    fn also_routed(self) -> String {
        match self {
            Offer::Objects {
                is_watchable: true, ..
            } => format!(", {WATCHED}"),
            _ => String::new(),
        }
    }
}

/// The encodings of watches, as messages list them.
pub(crate) const WATCHED: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Returns the representation for the first clause of `Accept`, by descending weight, that the
/// server can satisfy.
///
/// # Errors
/// 406 if the server cannot satisfy any clause.
pub(crate) fn accepted(headers: &HeaderMap, offer: Offer) -> Result<Accepted, ApiError> {
    let text = accept_of(headers);
    if text.trim().is_empty() {
        return Ok(Accepted::JSON);
    }
    let clauses = by_weight(&text);
    let found = clauses.iter().find_map(|clause| clause.satisfied(offer));
    if let Some(found) = found {
        return Ok(found);
    }
    // Upstream's router checks only media types, and for groups nothing. A request that passes the
    // router is checked again and rejected with a different message.
    let is_routed = matches!(offer, Offer::Groups | Offer::Group)
        || clauses.iter().any(|clause| !clause.wanted.is_empty());
    let written = offer.written();
    Err(match is_routed {
        true => not_acceptable(format!(
            "only the following media types are accepted: {written}"
        )),
        false => not_acceptable(format!(
            "406: Not Acceptable\n\nAvailable representations: {written}{}",
            offer.also_routed()
        ))
        .with_details(Details::default()),
    })
}

/// Reports whether a client prefers HTML to every type that the API serves: a browser.
pub(crate) fn prefers_html(headers: &HeaderMap) -> bool {
    let text = accept_of(headers);
    let clauses = by_weight(&text);
    let first = clauses.first();
    first.is_some_and(|first| first.kind == "text/html" && first.weight > 0.0)
}

/// Returns the header `Accept`; empty if it is absent.
fn accept_of(headers: &HeaderMap) -> String {
    let text = headers.get_all(ACCEPT).iter();
    let text: Vec<&str> = text.filter_map(|value| value.to_str().ok()).collect();
    text.join(",")
}

/// Returns the clauses of `Accept` by descending weight.
fn by_weight(text: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = text.split(',').map(Clause::parse).collect();
    // Stable: clauses with the same weight stay in the client's order.
    clauses.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    clauses
}

/// One clause of `Accept`.
struct Clause<'a> {
    kind: &'a str,
    weight: f64,
    /// The parameter `as` with its group and version.
    wanted: &'a str,
    group: &'a str,
    version: &'a str,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Clause<'a> {
        let mut parts = text.split(';').map(str::trim);
        let mut clause = Clause {
            kind: parts.next().unwrap_or(""),
            weight: 1.0,
            wanted: "",
            group: "",
            version: "",
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => clause.weight = value.trim().parse().unwrap_or(1.0),
                "as" => clause.wanted = value.trim(),
                "g" => clause.group = value.trim(),
                "v" => clause.version = value.trim(),
                _ => {}
            }
        }
        clause
    }

    fn satisfied(&self, offer: Offer) -> Option<Accepted> {
        let form = match self.kind {
            "application/json" | "*/*" => Form::Json,
            "application/yaml" if offer != Offer::JsonAlone => Form::Yaml,
            PROTOBUF => match offer {
                Offer::Objects { kind, .. } if protobuf::is_known(kind) => Form::Protobuf,
                _ => return None,
            },
            _ => return None,
        };
        let version = match self.version {
            "v1" => "meta.k8s.io/v1",
            "v1beta1" => "meta.k8s.io/v1beta1",
            _ => "",
        };
        let is_meta = self.group == "meta.k8s.io" && !version.is_empty();
        let shape = match (offer, self.wanted) {
            (_, "") => Shape::Object,
            (
                Offer::Objects {
                    has_tables: true, ..
                },
                "Table",
            ) if is_meta && form != Form::Protobuf => Shape::Table(version),
            (Offer::Objects { .. }, "PartialObjectMetadata") if is_meta => Shape::Metadata(version),
            (Offer::Objects { .. }, "PartialObjectMetadataList") if is_meta => {
                Shape::MetadataList(version)
            }
            (Offer::Versions | Offer::Groups, "APIGroupDiscoveryList")
                if self.group == "apidiscovery.k8s.io" && self.version == "v2" =>
            {
                Shape::Discovery
            }
            _ => return None,
        };
        Some(Accepted { form, shape })
    }
}

/// The type of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyType {
    Json,
    Yaml,
    Protobuf,
    JsonPatch,
    MergePatch,
    StrategicPatch,
    ApplyPatch,
}

impl BodyType {
    /// Returns the type that `Content-Type` names; JSON if the header is absent. `None` for any
    /// other type.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<BodyType> {
        let Some(value) = headers.get(CONTENT_TYPE) else {
            return Some(BodyType::Json);
        };
        let text = value.to_str().ok()?;
        let text = text.split(';').next()?.trim();
        match text {
            "" => Some(BodyType::Json),
            "application/json-patch+json" => Some(BodyType::JsonPatch),
            "application/merge-patch+json" => Some(BodyType::MergePatch),
            "application/strategic-merge-patch+json" => Some(BodyType::StrategicPatch),
            "application/apply-patch+yaml" => Some(BodyType::ApplyPatch),
            // Sic: case matters for patches but not for documents.
            _ if text.eq_ignore_ascii_case("application/json") => Some(BodyType::Json),
            _ if text.eq_ignore_ascii_case("application/yaml") => Some(BodyType::Yaml),
            _ if text.eq_ignore_ascii_case(PROTOBUF) => Some(BodyType::Protobuf),
            _ => None,
        }
    }
}

/// Returns a 406: the client accepts no available representation.
pub(crate) fn not_acceptable(message: String) -> ApiError {
    ApiError::status(406, Reason::Other("NotAcceptable".into()), message)
}
