//! From one JSON value to one checked object: its kind told, its namespace defaulted, decoded and
//! validated. Nothing here depends on other objects, so that many are decoded at once.

use podstorm_apiserver::kind_named;
use podstorm_objects::{DecodeError, DynamicObject, FieldPath, Kind, Resource};
use serde_json::{Map, Value};

use super::check;
use crate::input::InputObject;

/// What an item of a list or a document turned out to be.
#[derive(Debug)]
pub(super) enum Decoded {
    /// An object of a kind that the cluster serves.
    Object(InputObject),
    /// One that shares already what is alike in others.
    Shared(InputObject),
    /// One of another kind.
    Other(String),
    /// One that does not say its kind; the list that it is an item of may.
    Kindless(Map<String, Value>),
    /// Something wrong.
    Wrong(Wrong),
}

/// What is wrong with an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrong {
    /// Line and column within its text, where the text is no JSON or YAML.
    pub(super) position: Option<(u64, u64)>,
    /// Kind, namespace and name, where it says so.
    pub(super) object: Option<String>,
    /// The field.
    pub(super) path: String,
    /// What is wrong.
    pub(super) problem: String,
}

/// Decodes an item of a list. `list` are the members of the list that came before its items: a
/// `PodList` says the kind of its items.
pub(super) fn item(value: Value, list: &Map<String, Value>) -> Decoded {
    match value {
        Value::Object(item) if item.contains_key("kind") => object(item),
        Value::Object(item) if list.contains_key("kind") => object(complete(item, list)),
        Value::Object(item) => Decoded::Kindless(item),
        other => Decoded::Wrong(Wrong {
            problem: format!(
                "expected an object, found {}",
                podstorm_objects::decode::describe(&other)
            ),
            ..Wrong::default()
        }),
    }
}

/// Decodes an object that says its kind.
pub(super) fn object(mut members: Map<String, Value>) -> Decoded {
    let name = object_name(&members);
    let wrong = |error: DecodeError| {
        Decoded::Wrong(Wrong {
            position: None,
            object: name.clone(),
            path: error.path.0,
            problem: error.problem,
        })
    };
    let kind = match classify(&members) {
        Ok(Classified::Served(kind)) => kind,
        Ok(Classified::Other(kind)) => return Decoded::Other(kind),
        Err(error) => return wrong(error),
    };
    if kind == Kind::POD {
        drop_ephemeral_containers(&mut members);
    }
    let value = Value::Object(members);
    let typed = TYPED.into_iter().find(|(known, _)| *known == kind);
    let object = match typed {
        Some((_, read)) => read(value),
        None => decode_dynamic(kind, value),
    };
    let object =
        object.and_then(|mut object| check::default_and_check(&mut object).map(|()| object));
    match object {
        Ok(object) => Decoded::Object(object),
        Err(error) => wrong(error),
    }
}

/// `ReplicaSet default/web` from JSON that may be anything; absent where it names nothing.
fn object_name(members: &Map<String, Value>) -> Option<String> {
    let kind = members.get("kind")?.as_str()?;
    let meta = members.get("metadata");
    let text = |key: &str| meta.and_then(|meta| meta.get(key)).and_then(Value::as_str);
    Some(
        match (text("namespace"), text("name").or(text("generateName"))) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            (_, None) => kind.to_owned(),
        },
    )
}

/// An item of a typed list with the kind and version that the list implies.
pub(super) fn complete(
    mut item: Map<String, Value>,
    list: &Map<String, Value>,
) -> Map<String, Value> {
    let kind = list.get("kind").and_then(Value::as_str).unwrap_or_default();
    if let Some(kind) = kind.strip_suffix("List").filter(|kind| !kind.is_empty()) {
        item.insert("kind".into(), kind.into());
        if let (false, Some(version)) = (item.contains_key("apiVersion"), list.get("apiVersion")) {
            item.insert("apiVersion".into(), version.clone());
        }
    }
    item
}

/// A pod that exists may have them, a new one may not; they belong to debugging sessions, and
/// nothing simulated reads them.
fn drop_ephemeral_containers(pod: &mut Map<String, Value>) {
    let exists = pod
        .get("metadata")
        .and_then(|meta| meta.get("uid"))
        .is_some();
    if let Some(Value::Object(spec)) = pod.get_mut("spec").filter(|_| exists) {
        spec.remove("ephemeralContainers");
    }
}

enum Classified {
    Served(Kind),
    Other(String),
}

type Read = fn(Value) -> Result<InputObject, DecodeError>;

/// The kinds with types of their own, and how each is read.
const TYPED: [(Kind, Read); 5] = [
    (Kind::NAMESPACE, |value| {
        decode(value).map(InputObject::Namespace)
    }),
    (Kind::NODE, |value| decode(value).map(InputObject::Node)),
    (Kind::POD, |value| decode(value).map(InputObject::Pod)),
    (Kind::REPLICA_SET, |value| {
        decode(value).map(InputObject::ReplicaSet)
    }),
    (Kind::REPLICATION_CONTROLLER, |value| {
        decode(value).map(InputObject::ReplicationController)
    }),
];

fn classify(members: &Map<String, Value>) -> Result<Classified, DecodeError> {
    let kind = required_text(members, "kind", "such as ReplicaSet")?;
    let api_version = required_text(members, "apiVersion", "such as apps/v1")?;
    // Events are of the past.
    let served = kind_named(kind).filter(|known| *known != Kind::EVENT);
    let Some(known) = served else {
        return Ok(Classified::Other(cut(kind)));
    };
    if api_version == known.api_version() {
        return Ok(Classified::Served(known));
    }
    // Other groups may have kinds of these names; the groups that ever held ours are mistakes.
    match api_version.split_once('/').map_or("", |(group, _)| group) {
        "" | "apps" | "extensions" => Err(DecodeError {
            path: FieldPath("apiVersion".into()),
            problem: format!(
                "{kind} is {} in Kubernetes 1.36, not {api_version:?}; change apiVersion",
                known.api_version()
            ),
        }),
        group => Ok(Classified::Other(cut(&format!("{kind}.{group}")))),
    }
}

/// As much of a kind as is shown: no real one is longer.
fn cut(kind: &str) -> String {
    kind.chars().take(100).collect()
}

fn required_text<'a>(
    members: &'a Map<String, Value>,
    key: &str,
    example: &str,
) -> Result<&'a str, DecodeError> {
    let problem = match members.get(key) {
        Some(Value::String(text)) if !text.is_empty() => return Ok(text),
        None | Some(Value::Null) => format!("is missing; every object says its {key}, {example}"),
        Some(Value::String(_)) => format!("is empty; every object says its {key}, {example}"),
        Some(other) => format!(
            "expected a text, {example}, found {}",
            podstorm_objects::decode::describe(other)
        ),
    };
    Err(DecodeError {
        path: FieldPath(key.into()),
        problem,
    })
}

fn decode_dynamic(kind: Kind, value: Value) -> Result<InputObject, DecodeError> {
    let mut object = DynamicObject::from_json(kind, value)?;
    if kind.is_namespaced() && object.metadata.namespace.is_empty() {
        object.metadata.namespace = "default".into();
    }
    Ok(InputObject::Dynamic(Box::new(object)))
}

/// Reads an object and puts it into the namespace `default` where it belongs to one and says none.
fn decode<R: Resource>(value: Value) -> Result<Box<R>, DecodeError> {
    let mut object = R::from_json(value)?;
    let meta = object.metadata_mut();
    if R::KIND.is_namespaced() && meta.namespace.is_empty() {
        meta.namespace = "default".into();
    }
    Ok(Box::new(object))
}
