//! From one JSON value to one checked object: its kind found, its namespace defaulted, decoded and
//! validated. Nothing here depends on other objects, so that many are decoded at once.

use podstorm_apiserver::kind_named;
use podstorm_objects::decode::describe;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{DecodeError, DynamicObject, FieldPath, Kind, Resource};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde_json::{Map, Value};

use super::Kinds;
use super::check::{self, CheckedSpecs};
use crate::input::InputObject;

/// What an item of a list or a document turned out to be.
#[derive(Debug)]
pub(super) enum Decoded {
    /// An object of a kind that the cluster serves.
    Object(InputObject),
    /// One of another kind.
    Other(String),
    /// One of a kind that a CustomResourceDefinition of the files may describe: `kind`, and the members.
    Custom(String, Map<String, Value>),
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
pub(super) fn item(
    value: JsonValue<'_>,
    list: &Map<String, Value>,
    checked: &CheckedSpecs,
) -> Decoded {
    if !value.is_object() {
        let found = describe(&value.to_value());
        Decoded::Wrong(Wrong {
            problem: format!("expected an object, found {found}"),
            ..Wrong::default()
        })
    } else if value.get("kind").is_some() {
        object(value, None, checked)
    } else if list.contains_key("kind") {
        object(value, Some(list), checked)
    } else {
        Decoded::Kindless(value.to_map())
    }
}

/// Decodes an object. What it doesn't say of kind and version the list does that it is an item of.
pub(super) fn object(
    value: JsonValue<'_>,
    list: Option<&Map<String, Value>>,
    checked: &CheckedSpecs,
) -> Decoded {
    let text = TypeText { value, list };
    let wrong = |error: DecodeError| {
        Decoded::Wrong(Wrong {
            position: None,
            object: text.kind().and_then(|kind| object_name(value, kind)),
            path: error.path.0,
            problem: error.problem,
        })
    };
    let kind = match classify(text, checked.kinds) {
        Ok(Classified::Served(kind)) => kind,
        Ok(Classified::Other(kind)) if checked.kinds == Kinds::Served && list.is_none() => {
            return Decoded::Custom(kind, value.to_map());
        }
        Ok(Classified::Other(kind)) => return Decoded::Other(kind),
        Err(error) => return wrong(error),
    };
    let typed = TYPED.into_iter().find(|(known, _)| *known == kind);
    let object = match typed {
        Some((_, read)) => read(value),
        None => decode_dynamic(kind, value),
    };
    let checked = object.and_then(|mut object| {
        drop_ephemeral_containers(&mut object, value);
        check::default_and_check(&mut object, checked)?;
        Ok(object)
    });
    match checked {
        Ok(object) => Decoded::Object(object),
        Err(error) => wrong(error),
    }
}

/// Decodes items on all cores, on the caller's where there is no other. Gives what they hold in their
/// order.
pub(super) fn all<T: Sync>(
    items: &[T],
    decode: impl Fn(&T) -> Decoded + Sync + Send,
) -> Vec<Decoded> {
    match rayon::current_num_threads() {
        1 => items.iter().map(decode).collect(),
        _ => items.par_iter().map(decode).collect(),
    }
}

/// `ReplicaSet default/web` from JSON that may be anything.
fn object_name(value: JsonValue<'_>, kind: &str) -> Option<String> {
    let meta = value.get("metadata");
    let text = |key: &str| meta?.get(key)?.as_str();
    Some(
        match (text("namespace"), text("name").or(text("generateName"))) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            (_, None) => kind.to_owned(),
        },
    )
}

/// A pod that exists may have them, a new one may not; they belong to debugging sessions, and
/// nothing simulated reads them.
fn drop_ephemeral_containers(object: &mut InputObject, value: JsonValue<'_>) {
    const LIST: &str = "ephemeralContainers";
    let spec = value.get("spec");
    if let InputObject::Pod(pod) = object
        && !pod.metadata.uid.is_empty()
        && spec.is_some_and(|spec| spec.get(LIST).is_some())
    {
        let mut members = pod.spec.to_map(None);
        members.remove(LIST);
        let spec = pod.spec.with_members(members);
        pod.spec = spec.expect("the others were readable").into();
    }
}

/// What an object says of its kind or version, or its list for it: of a list that names the kind of its items
/// that kind comes first, and its version last.
#[derive(Clone, Copy)]
struct TypeText<'a> {
    value: JsonValue<'a>,
    list: Option<&'a Map<String, Value>>,
}

impl<'a> TypeText<'a> {
    fn kind(self) -> Option<&'a str> {
        self.of_list()
            .or_else(|| self.value.get("kind").and_then(|kind| kind.as_str()))
    }

    fn api_version(self) -> Option<&'a str> {
        match self.value.get("apiVersion") {
            Some(own) => own.as_str(),
            None => self.of_list().and(self.list?.get("apiVersion")?.as_str()),
        }
    }

    /// The kind that a list names for its items.
    fn of_list(self) -> Option<&'a str> {
        let kind = self.list?.get("kind")?.as_str()?.strip_suffix("List")?;
        (!kind.is_empty()).then_some(kind)
    }

    /// The text, which must not be missing.
    fn required(
        self,
        text: Option<&'a str>,
        key: &str,
        example: &str,
    ) -> Result<&'a str, DecodeError> {
        let own = self.value.get(key).filter(|own| !own.is_null());
        let problem = match (text, own) {
            (Some(""), _) => format!("is empty; every object says its {key}, {example}"),
            (Some(text), _) => return Ok(text),
            (None, Some(own)) => format!(
                "expected a text, {example}, found {}",
                describe(&own.to_value())
            ),
            (None, None) => format!("is missing; every object says its {key}, {example}"),
        };
        Err(DecodeError {
            path: FieldPath(key.into()),
            problem,
        })
    }
}

enum Classified {
    Served(Kind),
    Other(String),
}

type Read = fn(JsonValue<'_>) -> Result<InputObject, DecodeError>;

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

/// The kinds without a type of their own that a run takes: Deployments, and what it has no controller for,
/// as operators without a kind of their own let them own pods.
const UNTYPED: [&str; 3] = ["Deployment", "ConfigMap", "Lease"];

fn classify(text: TypeText<'_>, kinds: Kinds) -> Result<Classified, DecodeError> {
    let kind = text.required(text.kind(), "kind", "such as ReplicaSet")?;
    let api_version = text.required(text.api_version(), "apiVersion", "such as apps/v1")?;
    // Events are of the past.
    let served = kind_named(kind).filter(|known| *known != Kind::EVENT);
    let served = served.filter(|known| {
        kinds == Kinds::Served || Kind::TYPED.contains(known) || UNTYPED.contains(&known.name())
    });
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

pub(super) fn decode_dynamic(kind: Kind, value: JsonValue<'_>) -> Result<InputObject, DecodeError> {
    let mut object = DynamicObject::read(kind, value)?;
    if kind.is_namespaced() && object.metadata.namespace.is_empty() {
        object.metadata.namespace = "default".into();
    }
    Ok(InputObject::Dynamic(Box::new(object)))
}

/// Reads an object and puts it into the namespace `default` where it belongs to one and says none.
fn decode<R: Resource>(value: JsonValue<'_>) -> Result<Box<R>, DecodeError> {
    let mut object = R::read(value)?;
    let meta = object.metadata_mut();
    if R::KIND.is_namespaced() && meta.namespace.is_empty() {
        meta.namespace = "default".into();
    }
    Ok(Box::new(object))
}
