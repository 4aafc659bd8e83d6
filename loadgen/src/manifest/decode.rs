//! Decodes one JSON value to one validated object: finds its kind, defaults its namespace, decodes
//! and validates it. Objects are decoded independently, so many are decoded in parallel.

use podstorm_apiserver::kind_named;
use podstorm_http::documents;
use podstorm_located::Place;
use podstorm_objects::decode::describe;
use podstorm_objects::json::{JsonValue, Tape};
use podstorm_objects::{DecodeError, DynamicObject, FieldPath, Kind, ObjectMeta, Resource, Str};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use serde_json::{Map, Value};

use super::Kinds;
use super::check::{self, CheckedSpecs};
use super::unknown::{self, Field};
use crate::input::{InputObject, ReadTyped};
use crate::workloads;

/// The outcome of decoding a document or an item of a list.
#[derive(Debug)]
pub(super) enum Decoded {
    /// An object of a kind that the cluster serves, and the unknown fields that were removed from
    /// it.
    Object(InputObject, Vec<Field>),
    /// An object that is left out.
    LeftOut(LeftOut),
    /// The members of an object whose kind a CustomResourceDefinition in the files may define.
    Custom(LeftOut, Map<String, Value>),
    /// The members of an object without a kind. The list that contains it may determine the kind.
    Kindless(Map<String, Value>),
    /// An invalid object.
    Wrong(Wrong),
}

/// An object that is left out.
#[derive(Clone, Debug)]
pub(super) struct LeftOut {
    /// The kind, as it is counted: `Route`, or `Node.metal.example` if the cluster serves another
    /// kind with that name.
    pub(super) kind: String,
    /// The version and the kind: `route.openshift.io/v1 Route`.
    pub(super) type_text: String,
    /// The namespace and the name, if present: `shop/web`.
    pub(super) name: String,
    /// Why the object is left out.
    pub(super) why: Why,
}

/// Why an object is left out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// The object is an Event, which describes the past of a cluster.
    IsPast,
    /// The kind is served only in other versions.
    OtherVersion(Kind),
    /// The kind is unknown.
    UnknownKind,
}

/// An invalid part of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Wrong {
    /// Line and column within the text of the object; `None` unless the text is invalid JSON or
    /// YAML.
    pub(super) position: Option<Place>,
    /// Kind, namespace and name; `None` if they are unknown.
    pub(super) object: Option<String>,
    /// The path of the invalid field.
    pub(super) path: String,
    /// The description of the problem.
    pub(super) problem: String,
}

/// Decodes an item of a list. `list` contains the members of the list that precede its items: the
/// kind `PodList` determines the kind of the items.
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

/// Decodes an object. Kind and version default to those that the containing list determines.
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
    match classify(text, checked.kinds) {
        Ok(Classified::Served(kind)) => match of_kind(kind, value, checked) {
            Ok((object, unknown)) => Decoded::Object(object, unknown),
            Err(error) => wrong(error),
        },
        Ok(Classified::Other(left)) => match (checked.kinds, left.why) {
            (Kinds::Served, Why::UnknownKind | Why::OtherVersion(_)) => {
                Decoded::Custom(left, text.members())
            }
            _ => Decoded::LeftOut(left),
        },
        Err(error) => wrong(error),
    }
}

/// Decodes an object of this kind, possibly from a version other than the stored one. Also returns
/// the fields that were removed from the object.
pub(super) fn of_kind(
    kind: Kind,
    value: JsonValue<'_>,
    checked: &CheckedSpecs,
) -> Result<(InputObject, Vec<Field>), DecodeError> {
    let mut object = read(kind, value)?;
    let mut unknown = Vec::new();
    let is_new = object.metadata().uid.is_empty();
    // Objects that existed before have passed through a server, and a run takes everything
    // unchanged.
    if checked.kinds == Kinds::Served && (is_new || !documents::is_stored(kind)) {
        let document = documents::stored(kind, is_new, value.to_map());
        let document = document.map_err(|problem| DecodeError {
            path: FieldPath(String::new()),
            problem,
        })?;
        unknown = unknown::with_dropped(&object, &document.unknown);
        object = read(document.kind, Tape::new(&document.members).root())?;
    }
    drop_ephemeral_containers(&mut object, value);
    check::default_and_check(&mut object, checked)?;
    Ok((object, unknown))
}

fn read(kind: Kind, value: JsonValue<'_>) -> Result<InputObject, DecodeError> {
    let typed = TYPED.into_iter().find(|(known, _)| *known == kind);
    let read = match typed {
        Some((_, read)) => Some(read),
        None => workloads::for_kind(kind).and_then(|workload| workload.typed()),
    };
    let mut object = match read {
        Some(read) => read(value)?,
        None => InputObject::Dynamic(Box::new(DynamicObject::read(kind, value)?)),
    };
    place(kind, object.metadata_mut());
    Ok(object)
}

/// Decodes items on all cores, or on the caller's thread if there is only one core. Returns the
/// results in order.
pub(super) fn all<T: Sync>(
    items: &[T],
    decode: impl Fn(&T) -> Decoded + Sync + Send,
) -> Vec<Decoded> {
    match rayon::current_num_threads() {
        1 => items.iter().map(decode).collect(),
        _ => items.par_iter().map(decode).collect(),
    }
}

/// Formats kind, namespace and name from arbitrary JSON: `ReplicaSet default/web`.
fn object_name(value: JsonValue<'_>, kind: &str) -> Option<String> {
    let name = name_of(value);
    let between = if name.is_empty() { "" } else { " " };
    Some(format!("{kind}{between}{name}"))
}

/// Formats namespace and name from arbitrary JSON: `default/web`.
fn name_of(value: JsonValue<'_>) -> String {
    let meta = value.get("metadata");
    let text = |key: &str| meta?.get(key)?.as_str();
    match (text("namespace"), text("name").or(text("generateName"))) {
        (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
        (None, Some(name)) => name.to_owned(),
        (_, None) => String::new(),
    }
}

/// Removes ephemeral containers. They are valid in existing pods but not in new ones, belong to
/// debugging sessions, and have no effect in the simulation.
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
        pod.spec = spec
            .expect("the object decodes without them as well")
            .into();
    }
}

/// The kind and version of an object, from the object itself or from its list. In a list that
/// determines the kind of its items, the kind comes first and the version last.
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

    /// Returns the object's members, with kind and version filled in from the list.
    fn members(self) -> Map<String, Value> {
        let mut members = self.value.to_map();
        for (key, text) in [("kind", self.kind()), ("apiVersion", self.api_version())] {
            if let Some(text) = text {
                members.entry(key).or_insert_with(|| text.into());
            }
        }
        members
    }

    /// Returns the kind that a list determines for its items; `None` if it determines none.
    fn of_list(self) -> Option<&'a str> {
        let kind = self.list?.get("kind")?.as_str()?.strip_suffix("List")?;
        (!kind.is_empty()).then_some(kind)
    }

    /// Returns a required string.
    fn required(
        self,
        text: Option<&'a str>,
        key: &str,
        example: &str,
    ) -> Result<&'a str, DecodeError> {
        let own = self.value.get(key).filter(|own| !own.is_null());
        let problem = match (text, own) {
            (Some(""), _) => format!("is empty; every object needs {key}, {example}"),
            (Some(text), _) => return Ok(text),
            (None, Some(own)) => format!(
                "expected a text, {example}, found {}",
                describe(&own.to_value())
            ),
            (None, None) => format!("is missing; every object needs {key}, {example}"),
        };
        Err(DecodeError {
            path: FieldPath(key.into()),
            problem,
        })
    }
}

enum Classified {
    /// A kind that is served in this version.
    Served(Kind),
    Other(LeftOut),
}

/// Typed kinds that are not workloads, and how each is decoded.
const TYPED: [(Kind, ReadTyped); 3] = [
    (Kind::NAMESPACE, |value| {
        decode(value).map(InputObject::Namespace)
    }),
    (Kind::NODE, |value| decode(value).map(InputObject::Node)),
    (Kind::POD, |value| decode(value).map(InputObject::Pod)),
];

/// The kinds that a run takes although they are not workloads. Operators with unknown kinds may let
/// the first two own pods; the others affect scheduling.
const OTHERS: [&str; 6] = [
    "ConfigMap",
    "ControllerRevision",
    "Lease",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
];

fn classify(text: TypeText<'_>, kinds: Kinds) -> Result<Classified, DecodeError> {
    let kind_text = text.required(text.kind(), "kind", "such as ReplicaSet")?;
    let api_version = text.required(text.api_version(), "apiVersion", "such as apps/v1")?;
    let other = |kind: String, why| {
        Ok(Classified::Other(LeftOut {
            kind,
            type_text: cut(&format!("{api_version} {}", cut(kind_text))),
            name: name_of(text.value),
            why,
        }))
    };
    let is_taken = |known: &Kind| {
        kinds == Kinds::Served
            || Kind::TYPED.contains(known)
            || workloads::for_kind(*known).is_some()
            || OTHERS.contains(&known.name()) && !is_foreign_revision(*known, text.value)
    };
    let Some(known) = kind_named(kind_text).filter(is_taken) else {
        return other(cut(kind_text), Why::UnknownKind);
    };
    if let Some(kind) = documents::at_version(known, api_version) {
        return match known == Kind::EVENT {
            true => other(cut(kind_text), Why::IsPast),
            false => Ok(Classified::Served(kind)),
        };
    }
    // Other groups may have kinds with these names. The groups that once served the kinds
    // themselves are errors.
    match api_version.split_once('/').map_or("", |(group, _)| group) {
        "" | "apps" | "extensions" => Err(DecodeError {
            path: FieldPath("apiVersion".into()),
            problem: format!(
                "{kind_text} is {} in Kubernetes 1.36, not {api_version:?}; change apiVersion",
                known.api_version()
            ),
        }),
        group => {
            let why = match group == known.group() {
                true => Why::OtherVersion(known),
                false => Why::UnknownKind,
            };
            other(cut(&format!("{kind_text}.{group}")), why)
        }
    }
}

/// Reports whether a revision belongs to a workload that a run leaves out. The revision would be
/// garbage-collected.
fn is_foreign_revision(kind: Kind, value: JsonValue<'_>) -> bool {
    let owners = value
        .get("metadata")
        .and_then(|it| it.get("ownerReferences"));
    let mut owners = owners.into_iter().flat_map(|owners| owners.items());
    let is_known = |owner: JsonValue<'_>| {
        let kind = owner.get("kind").and_then(|kind| kind.as_str());
        kind.and_then(kind_named)
            .and_then(workloads::for_kind)
            .is_some()
    };
    kind == Kind::CONTROLLER_REVISION && owners.any(|owner| !is_known(owner))
}

/// Shortens a kind for display. No real kind is that long.
fn cut(kind: &str) -> String {
    kind.chars().take(100).collect()
}

fn decode<R: Resource>(value: JsonValue<'_>) -> Result<Box<R>, DecodeError> {
    R::read(value).map(Box::new)
}

/// Sets the namespace of a namespaced object without one to `default`, and removes the namespace of
/// an object that is not namespaced, as a server does.
fn place(kind: Kind, metadata: &mut ObjectMeta) {
    if !kind.is_namespaced() {
        metadata.namespace = Str::default();
    } else if metadata.namespace.is_empty() {
        metadata.namespace = "default".into();
    }
}
