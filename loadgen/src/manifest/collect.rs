//! From JSON values to checked objects: kinds told apart, namespaces defaulted, objects decoded
//! and validated, doubles refused, the rest counted.

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use podstorm::object::Sharer;
use podstorm::object::{
    DecodeError, Kind, Namespace, Node, ObjectMeta, Pod, ReplicaSet, ReplicationController,
    Resource,
};
use serde_json::{Map, Value};

use super::check;
use super::document::{Document, Stopped, is_list_kind};
use super::error::ManifestError;
use crate::input::InputObject;
use crate::result::InputCounts;

/// Where an object came from, for the message about a second one of its name.
#[derive(Clone, Copy, Debug)]
struct Origin {
    file: u32,
    document: u64,
}

/// Everything taken so far.
#[derive(Debug)]
pub(super) struct Collector {
    objects: Vec<InputObject>,
    origins: Vec<Origin>,
    files: Vec<String>,
    /// Indexes into `objects` by kind, namespace and name.
    by_name: HashTable<u32>,
    /// Indexes into `objects` by UID, those that have one.
    by_uid: HashTable<u32>,
    /// Fixed seeds: nothing about a run may differ from one time to the next.
    hasher: RandomState,
    sharer: Sharer,
    counts: InputCounts,
    /// Documents with content seen in the present file.
    document: u64,
    /// Whether the present file is YAML, where unquoted texts may be read as something else.
    is_yaml: bool,
}

/// Shares of memory are looked for among so many objects at a time.
const OBJECTS_PER_SHRINK: usize = 10_000;

impl Collector {
    pub(super) fn new() -> Collector {
        Collector {
            objects: Vec::new(),
            origins: Vec::new(),
            files: Vec::new(),
            by_name: HashTable::new(),
            by_uid: HashTable::new(),
            hasher: RandomState::with_seeds(1, 2, 3, 4),
            sharer: Sharer::new(),
            counts: InputCounts::default(),
            document: 0,
            is_yaml: false,
        }
    }

    /// The documents that follow are of that file.
    pub(super) fn begin_file(&mut self, file: &str, is_yaml: bool) {
        self.files.push(file.to_owned());
        self.is_yaml = is_yaml;
        self.document = 0;
    }

    /// Ends a file; one without any document is refused.
    pub(super) fn end_file(&mut self) -> Result<(), Box<ManifestError>> {
        if self.document == 0 {
            return Err(
                self.of_file("holds no document; expected Kubernetes objects as YAML or JSON")
            );
        }
        Ok(())
    }

    /// What was taken, and what was left by kind.
    pub(super) fn into_parts(self) -> (Vec<InputObject>, InputCounts) {
        (self.objects, self.counts)
    }

    /// A problem with the present file as a whole.
    pub(super) fn of_file(&self, problem: &str) -> Box<ManifestError> {
        let file = self.files.last().map_or("", String::as_str);
        ManifestError::of_file(file, problem)
    }

    /// A problem at a position of the document being read.
    pub(super) fn at(&self, position: Option<(u64, u64)>, problem: String) -> Box<ManifestError> {
        Box::new(ManifestError {
            position,
            ..*self.of_document(problem)
        })
    }

    fn of_document(&self, problem: impl Into<String>) -> Box<ManifestError> {
        Box::new(ManifestError {
            document: Some(self.document),
            ..*self.of_file(&problem.into())
        })
    }

    /// Counts and takes one document that `read` reads with the taker of items it is given.
    /// `read` tells its own kind of error by the position and the problem.
    pub(super) fn document(
        &mut self,
        read: impl FnOnce(
            super::document::ItemTaker<'_>,
        ) -> Result<Document, (Option<(u64, u64)>, String)>,
    ) -> Result<(), Box<ManifestError>> {
        self.document += 1;
        let mut stopped_by = None;
        // Items of a `PodList` may leave out their kind, and the list's may come after them.
        let mut kindless: Vec<(usize, Map<String, Value>)> = Vec::new();
        let mut take_item = |list: &Map<String, Value>, index: usize, item: Value| {
            let taken = match item {
                Value::Object(item) if item.contains_key("kind") => self.take(item, Some(index)),
                Value::Object(item) if list.contains_key("kind") => {
                    self.take(complete(item, list), Some(index))
                }
                Value::Object(item) => {
                    kindless.push((index, item));
                    Ok(())
                }
                other => Err(Box::new(ManifestError {
                    path: Some(format!("items[{index}]")),
                    ..*self.of_document(format!(
                        "expected an object, found {}",
                        podstorm::object::decode::describe(&other)
                    ))
                })),
            };
            taken.map_err(|error| {
                stopped_by = Some(error);
                Stopped
            })
        };
        let read = read(&mut take_item);
        if let Some(error) = stopped_by {
            return Err(error);
        }
        match read.map_err(|(position, problem)| self.at(position, problem))? {
            Document::Empty => {
                self.document -= 1;
                Ok(())
            }
            Document::Object(members) => self.take(members, None),
            Document::List(members) => {
                if !members.get("kind").is_some_and(is_list_kind) {
                    return Err(Box::new(ManifestError {
                        path: Some("kind".into()),
                        ..*self.of_document(
                            "a document with items is a List; write kind: List or remove items",
                        )
                    }));
                }
                kindless
                    .into_iter()
                    .try_for_each(|(index, item)| self.take(complete(item, &members), Some(index)))
            }
        }
    }

    /// Takes one object, or counts it where its kind is not simulated.
    fn take(
        &mut self,
        mut members: Map<String, Value>,
        index: Option<usize>,
    ) -> Result<(), Box<ManifestError>> {
        let name = object_name(&members);
        let kind = match classify(&members) {
            Ok(Classified::Simulated(kind)) => kind,
            Ok(Classified::Other(kind)) => {
                *self.counts.ignored.entry(kind).or_default() += 1;
                return Ok(());
            }
            Err(error) => return Err(self.of_object(name, index, error)),
        };
        if kind == Kind::Pod {
            drop_ephemeral_containers(&mut members);
        }
        let value = Value::Object(members);
        let object = match kind {
            Kind::Namespace => decode::<Namespace>(value).map(InputObject::Namespace),
            Kind::Node => decode::<Node>(value).map(InputObject::Node),
            Kind::Pod => decode::<Pod>(value).map(InputObject::Pod),
            Kind::ReplicaSet => decode::<ReplicaSet>(value).map(InputObject::ReplicaSet),
            Kind::ReplicationController => {
                decode::<ReplicationController>(value).map(InputObject::ReplicationController)
            }
            Kind::Event => unreachable!("events are not among the simulated kinds"),
        };
        let object = object
            .and_then(|mut object| check::default_and_check(&mut object).map(|()| object))
            .map_err(|error| self.of_object(name, index, error))?;
        self.store(object, index)
    }

    fn store(
        &mut self,
        mut object: InputObject,
        index: Option<usize>,
    ) -> Result<(), Box<ManifestError>> {
        match &mut object {
            InputObject::Pod(pod) => self.sharer.share_pod(pod),
            InputObject::ReplicaSet(replica_set) => self.sharer.share_replica_set(replica_set),
            _ => {}
        }
        let number = self.objects.len() as u32;
        let meta = object.metadata();
        let doubled = if meta.name.is_empty() {
            None
        } else {
            let hash = self.hash_name(&object);
            let same = |other: &u32| same_name(&self.objects[*other as usize], &object);
            let rehash = |other: &u32| {
                let other = &self.objects[*other as usize];
                hash_name(&self.hasher, other)
            };
            enter(&mut self.by_name, hash, number, same, rehash)
        };
        if let Some(other) = doubled {
            let problem = format!(
                "is there twice: {} has it already; remove or rename one of the two",
                self.origin(other)
            );
            return Err(Box::new(ManifestError {
                object: Some(text_of(&object)),
                path: index.map(|index| format!("items[{index}]")),
                ..*self.of_document(problem)
            }));
        }
        if !meta.uid.is_empty() {
            let uid = &meta.uid;
            let hash = self.hasher.hash_one(uid);
            let uid_of = |other: &u32| &self.objects[*other as usize].metadata().uid;
            let doubled = enter(
                &mut self.by_uid,
                hash,
                number,
                |other| uid_of(other) == uid,
                |other| self.hasher.hash_one(uid_of(other)),
            );
            if let Some(other) = doubled {
                let problem = format!(
                    "{uid} is the UID of {} too ({}); a UID belongs to one object",
                    text_of(&self.objects[other as usize]),
                    self.origin(other)
                );
                return Err(Box::new(ManifestError {
                    object: Some(text_of(&object)),
                    path: Some(in_list(index, "metadata.uid")),
                    ..*self.of_document(problem)
                }));
            }
        }
        *self
            .counts
            .taken
            .entry(object.kind().name().to_owned())
            .or_default() += 1;
        self.objects.push(object);
        let file = self.files.len() as u32 - 1;
        self.origins.push(Origin {
            file,
            document: self.document,
        });
        if self.objects.len().is_multiple_of(OBJECTS_PER_SHRINK) {
            self.sharer.shrink();
        }
        Ok(())
    }

    fn hash_name(&self, object: &InputObject) -> u64 {
        hash_name(&self.hasher, object)
    }

    /// The place of an object taken before, e.g. `document 2 of web.yaml`.
    fn origin(&self, number: u32) -> String {
        let origin = self.origins[number as usize];
        if origin.file as usize + 1 == self.files.len() {
            format!("document {}", origin.document)
        } else {
            format!(
                "document {} of {}",
                origin.document, self.files[origin.file as usize]
            )
        }
    }

    fn of_object(
        &self,
        object: Option<String>,
        index: Option<usize>,
        error: DecodeError,
    ) -> Box<ManifestError> {
        let path = in_list(index, &error.path.0);
        let mut problem = error.problem;
        let found_scalar = ["the boolean", "the number"]
            .iter()
            .any(|found| problem.starts_with(&format!("expected a string, found {found}")));
        if self.is_yaml && found_scalar {
            problem.push_str("; quote it");
        }
        Box::new(ManifestError {
            object,
            path: (!path.is_empty()).then_some(path),
            ..*self.of_document(problem)
        })
    }
}

/// Enters a number under its hash, or gives the number of the equal one that is there.
fn enter(
    table: &mut HashTable<u32>,
    hash: u64,
    number: u32,
    same: impl FnMut(&u32) -> bool,
    rehash: impl Fn(&u32) -> u64,
) -> Option<u32> {
    match table.entry(hash, same, rehash) {
        Entry::Occupied(entry) => Some(*entry.get()),
        Entry::Vacant(entry) => {
            entry.insert(number);
            None
        }
    }
}

fn hash_name(hasher: &RandomState, object: &InputObject) -> u64 {
    let meta = object.metadata();
    hasher.hash_one((object.kind(), &*meta.namespace, meta.name.as_str()))
}

fn same_name(a: &InputObject, b: &InputObject) -> bool {
    let (meta_a, meta_b) = (a.metadata(), b.metadata());
    a.kind() == b.kind() && meta_a.name == meta_b.name && *meta_a.namespace == *meta_b.namespace
}

fn in_list(index: Option<usize>, path: &str) -> String {
    match index {
        Some(index) if path.is_empty() => format!("items[{index}]"),
        Some(index) => format!("items[{index}].{path}"),
        None => path.to_owned(),
    }
}

/// `ReplicaSet default/web`, `Node n1`.
fn text_of(object: &InputObject) -> String {
    let ObjectMeta {
        name, namespace, ..
    } = object.metadata();
    let kind = object.kind().name();
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

/// The same from JSON that may be anything; absent where it names nothing.
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
fn complete(mut item: Map<String, Value>, list: &Map<String, Value>) -> Map<String, Value> {
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
    Simulated(Kind),
    Other(String),
}

const SIMULATED: [Kind; 5] = [
    Kind::Namespace,
    Kind::Node,
    Kind::Pod,
    Kind::ReplicaSet,
    Kind::ReplicationController,
];

fn classify(members: &Map<String, Value>) -> Result<Classified, DecodeError> {
    let kind = required_text(members, "kind", "such as ReplicaSet")?;
    let api_version = required_text(members, "apiVersion", "such as apps/v1")?;
    let Some(known) = SIMULATED.into_iter().find(|known| known.name() == kind) else {
        return Ok(Classified::Other(kind.to_owned()));
    };
    if api_version == known.api_version() {
        return Ok(Classified::Simulated(known));
    }
    // Other groups may have kinds of these names; the groups that ever held ours are mistakes.
    match api_version.split_once('/').map_or("", |(group, _)| group) {
        "" | "apps" | "extensions" => Err(DecodeError {
            path: podstorm::object::FieldPath("apiVersion".into()),
            problem: format!(
                "{kind} is {} in Kubernetes 1.36, not {api_version:?}; change apiVersion",
                known.api_version()
            ),
        }),
        group => Ok(Classified::Other(format!("{kind}.{group}"))),
    }
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
            podstorm::object::decode::describe(other)
        ),
    };
    Err(DecodeError {
        path: podstorm::object::FieldPath(key.into()),
        problem,
    })
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
