//! Which objects of a kind a request is about: those of a namespace, with labels, with fields.

use std::borrow::Cow;

use podstorm_apiserver::errors;
use podstorm_objects::{ApiError, Kind, Object, Pod, Selector};
use serde_json::Value;

use crate::query::Query;
use crate::route::Target;

/// The objects that a list, a watch or a deletion of a collection is about.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    /// Empty for all namespaces.
    pub(crate) namespace: String,
    labels: Option<Selector>,
    fields: Vec<Requirement>,
}

/// A field selector's part: `name=value` or `name!=value`.
#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    field: String,
    equal: bool,
    value: String,
}

impl Selection {
    /// The objects that a request names in its path and its `labelSelector` and `fieldSelector`.
    ///
    /// # Errors
    /// 400 for a selector that can't be read or a field that the kind can't be selected by.
    pub(crate) fn of(target: &Target, query: &Query<'_>) -> Result<Selection, ApiError> {
        let labels = match query.text("labelSelector") {
            "" => None,
            text => Some(Selector::parse(text).map_err(|error| {
                errors::bad_request(format!("unable to parse requirement: {}", error.0))
            })?),
        };
        let mut fields = field_selector(target.kind, query.text("fieldSelector"))?;
        if !target.name.is_empty() {
            let named = Requirement {
                field: "metadata.name".to_owned(),
                equal: true,
                value: target.name.clone(),
            };
            if !fields.is_empty() && !fields.contains(&named) {
                let why = "both a name and a field selector provided; please provide one or the \
                           other.";
                return Err(errors::bad_request(why));
            }
            fields.push(named);
        }
        Ok(Selection {
            namespace: target.namespace.clone(),
            labels,
            fields,
        })
    }

    /// Whether it takes every object of its namespace.
    pub(crate) fn is_all(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &dyn Object) -> bool {
        let metadata = object.metadata();
        (self.namespace.is_empty() || *self.namespace == *metadata.namespace)
            && (self.labels.as_ref()).is_none_or(|labels| labels.matches(&metadata.labels))
            && self.fields.iter().all(|wanted| wanted.holds(object))
    }
}

impl Requirement {
    fn holds(&self, object: &dyn Object) -> bool {
        (field(object, &self.field) == self.value) == self.equal
    }
}

/// The value of a field as selectors compare it; empty where the object has none.
fn field<'o>(object: &'o dyn Object, path: &str) -> Cow<'o, str> {
    let metadata = object.metadata();
    match path {
        "metadata.name" => return metadata.name.as_str().into(),
        "metadata.namespace" => return (&*metadata.namespace).into(),
        _ => {}
    }
    // The ones that are asked for most, by kubelets and by `kubectl drain`.
    if let Some(pod) = object.downcast_ref::<Pod>() {
        match path {
            "spec.nodeName" => return pod.node_name.as_deref().unwrap_or("").into(),
            "status.phase" => return pod.status.phase.as_str().unwrap_or("").into(),
            _ => {}
        }
    }
    let json = object.to_json();
    let at = |path: &str| json.pointer(&format!("/{}", path.replace('.', "/")));
    // Fields by other names than their members: those of another version of Events, and those of old.
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

/// What a field of a number or a truth value is where an object doesn't have it.
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

/// The parts between commas that no backslash precedes.
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
    // Kinds with fields of their own answer in their own words.
    Err(errors::bad_request(match more {
        [] if kind.row().custom.is_none() => format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        ),
        _ if kind.name() == "Job" => format!("field label \"{field}\" not supported for Job"),
        _ => format!("field label not supported: {field}"),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm_objects::Resource;
    use serde_json::json;

    use super::*;

    fn selected(labels: &str, fields: &str) -> Result<bool, String> {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": []},
        });
        let pod = Arc::new(Pod::from_json(pod).unwrap());
        let target = Target {
            kind: Kind::POD,
            namespace: "shop".into(),
            name: String::new(),
            subresource: String::new(),
            watched: false,
        };
        let text = form_urlencoded::Serializer::new(String::new())
            .append_pair("labelSelector", labels)
            .append_pair("fieldSelector", fields)
            .finish();
        let selection = Selection::of(&target, &Query::of(Some(&text)));
        let selection = selection.map_err(|error| error.message)?;
        Ok(selection.matches(&*pod))
    }

    #[test]
    fn an_object_is_selected_by_labels_and_fields() {
        for (labels, fields, expected) in [
            ("", "", true),
            ("app=web", "", true),
            ("app notin (web)", "", false),
            ("", "spec.nodeName=n1", true),
            ("", "spec.nodeName==n1,metadata.name!=b", true),
            ("", "spec.nodeName!=n1", false),
            ("", "spec.restartPolicy=Never", true),
            ("", "status.podIP=", true),
            ("", r"metadata.name=a\,b", false),
            ("app=db", "metadata.name=a", false),
        ] {
            assert_eq!(selected(labels, fields), Ok(expected), "{labels} {fields}");
        }
    }

    #[test]
    fn what_cannot_be_selected_by_is_told() {
        let unknown = selected("", "spec.image=x").unwrap_err();
        assert_eq!(unknown, "field label not supported: spec.image");
        let word = selected("", "metadata.name").unwrap_err();
        let expected = "invalid selector: 'metadata.name'; can't understand 'metadata.name'";
        assert_eq!(word, expected);
        assert!(selected("a=b=c", "").is_err());
    }
}
