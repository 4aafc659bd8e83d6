//! Selects objects by labels and fields.

use std::borrow::Cow;

use podstorm_objects::{ApiError, Kind, Object, Pod, Selector};
use serde_json::Value;

use crate::errors;

/// The parsed `labelSelector` and `fieldSelector` of a request.
#[derive(Clone, Debug)]
pub struct Selectors {
    labels: Option<Selector>,
    fields: Vec<Requirement>,
}

/// A requirement of a field selector: `name=value` or `name!=value`.
#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    field: String,
    equal: bool,
    value: String,
}

impl Selectors {
    /// Parses the selectors of a request for objects of a kind. An empty string selects every
    /// object.
    ///
    /// # Errors
    /// 400 for an unreadable selector or a field that the kind does not support.
    pub fn parse(kind: Kind, labels: &str, fields: &str) -> Result<Selectors, ApiError> {
        let labels = match labels {
            "" => None,
            text => Some(Selector::parse(text).map_err(|error| {
                errors::bad_request(format!("unable to parse requirement: {}", error.0))
            })?),
        };
        let fields = field_selector(kind, fields)?;
        Ok(Selectors { labels, fields })
    }

    /// Adds the requirement that the object has this name, which the path of a request contains.
    ///
    /// # Errors
    /// 400 if there is a field selector that does not require this name.
    pub fn name(&mut self, name: &str) -> Result<(), ApiError> {
        let named = Requirement {
            field: "metadata.name".to_owned(),
            equal: true,
            value: name.to_owned(),
        };
        if !self.fields.is_empty() && !self.fields.contains(&named) {
            let why = "both a name and a field selector provided; please provide one or the other.";
            return Err(errors::bad_request(why));
        }
        self.fields.push(named);
        Ok(())
    }

    /// Reports whether the selectors select every object.
    pub fn is_all(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// Reports whether the selectors select this object.
    pub fn matches(&self, object: &dyn Object) -> bool {
        (self.labels.as_ref()).is_none_or(|labels| labels.matches(&object.metadata().labels))
            && self.fields.iter().all(|wanted| wanted.holds(object))
    }
}

impl Requirement {
    fn holds(&self, object: &dyn Object) -> bool {
        (field(object, &self.field) == self.value) == self.equal
    }
}

/// Returns the value of a field for comparison; empty if the object lacks the field.
fn field<'o>(object: &'o dyn Object, path: &str) -> Cow<'o, str> {
    let metadata = object.metadata();
    match path {
        "metadata.name" => return metadata.name.as_str().into(),
        "metadata.namespace" => return (&*metadata.namespace).into(),
        _ => {}
    }
    // The most frequent fields, which kubelets and `kubectl drain` request.
    if let Some(pod) = object.downcast_ref::<Pod>() {
        match path {
            "spec.nodeName" => return pod.node_name.as_deref().unwrap_or("").into(),
            "status.phase" => return pod.status.phase.as_str().unwrap_or("").into(),
            _ => {}
        }
    }
    let json = object.to_json();
    let at = |path: &str| json.pointer(&format!("/{}", path.replace('.', "/")));
    // Fields whose names in selectors differ from their members: those of another version of Event,
    // and older names.
    let found = match path {
        "name" => at("metadata.name"),
        "source" => at("source.component")
            .filter(|component| *component != "")
            .or_else(|| at("reportingComponent")),
        "reportingController" => at("reportingComponent"),
        "status.successful" => at("status.succeeded"),
        path => match path.strip_prefix("regarding.") {
            Some(rest) => at(&format!("involvedObject.{rest}")),
            None => at(path),
        },
    };
    match found {
        None | Some(Value::Null) => zero_of(path).into(),
        Some(Value::String(text)) => text.clone().into(),
        Some(other) => other.to_string().into(),
    }
}

/// Returns the value of an absent field: that of a zero number or boolean, otherwise empty.
fn zero_of(path: &str) -> &'static str {
    match path {
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        "status.replicas" | "status.successful" => "0",
        _ => "",
    }
}

fn field_selector(kind: Kind, text: &str) -> Result<Vec<Requirement>, ApiError> {
    let mut parts = Vec::new();
    for part in split_unescaped(text).filter(|part| !part.is_empty()) {
        let invalid = || {
            errors::bad_request(format!(
                "invalid selector: '{text}'; can't understand '{part}'"
            ))
        };
        let at = part.find('=').ok_or_else(invalid)?;
        let (name, equal) = match part[..at].strip_suffix('!') {
            Some(name) => (name, false),
            None => (&part[..at], true),
        };
        let value = part[at + 1..].strip_prefix('=').filter(|_| equal);
        let requirement = Requirement {
            field: name.to_owned(),
            equal,
            value: unescape(value.unwrap_or(&part[at + 1..])),
        };
        check_field(kind, &requirement.field)?;
        parts.push(requirement);
    }
    Ok(parts)
}

/// Splits a string at commas that are not escaped.
fn split_unescaped(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |character| {
        let splits = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        splits
    })
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => out.extend(characters.next()),
            other => out.push(other),
        }
    }
    out
}

fn check_field(kind: Kind, field: &str) -> Result<(), ApiError> {
    let more = kind.row().selectable;
    if ["metadata.name", "metadata.namespace"].contains(&field) || more.contains(&field) {
        return Ok(());
    }
    // Kinds with selectable fields of their own have their own error messages.
    Err(errors::bad_request(match more {
        [] if kind.row().custom.is_none() => format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        ),
        _ if kind.name() == "Job" => format!("field label \"{field}\" not supported for Job"),
        _ => format!("field label not supported: {field}"),
    }))
}
