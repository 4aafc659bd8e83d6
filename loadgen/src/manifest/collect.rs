//! Collects the objects of all files: refuses duplicates, shares equal parts, counts the objects
//! that are left out.

use std::collections::BTreeMap;
use std::io;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use podstorm_apiserver::custom;
use podstorm_located::Place;
use podstorm_objects::json::Tape;
use podstorm_objects::{Kind, Sharer};
use serde_json::{Map, Value};

use super::Kinds;
use super::check::CheckedSpecs;
use super::decode::{self, Decoded, LeftOut, Why, Wrong};
use super::document::{Document, is_list_kind};
use super::error::ManifestError;
use super::unknown::{self, Field, Found};
use crate::input::{InputCounts, InputObject, described};
use crate::units::count_for_people;

/// The origin of an object, for the error about a second object with the same name.
#[derive(Clone, Copy, Debug)]
struct Origin {
    file: u32,
    document: u64,
}

/// Where an object that may be an item of a list came from.
#[derive(Clone, Copy, Debug)]
struct ItemOrigin {
    origin: Origin,
    /// The number of the item, if the document is a list.
    index: Option<usize>,
}

/// The origins of the objects in files.
#[derive(Clone, Debug, Default)]
pub struct Places {
    files: Vec<String>,
    /// The origin of each object, by the object's number.
    origins: Vec<Origin>,
}

impl Places {
    /// Returns an error about object `number`, with its file and document. `object` is the kind and
    /// name of the object. `None` if there is no object with this number.
    pub fn error(&self, number: usize, object: &str, problem: String) -> Option<ManifestError> {
        let origin = self.origins.get(number)?;
        let file = self.files.get(origin.file as usize)?;
        Some(ManifestError {
            document: Some(origin.document),
            object: Some(object.to_owned()),
            ..*ManifestError::of_file(file, problem)
        })
    }
}

/// The objects collected so far.
#[derive(Debug)]
pub(super) struct Collector {
    objects: Vec<InputObject>,
    origins: Vec<Origin>,
    files: Vec<String>,
    /// Indexes into `objects` by kind, namespace and name.
    by_name: HashTable<u32>,
    /// Indexes into `objects` by UID, for objects that have one.
    by_uid: HashTable<u32>,
    /// The seeds are fixed, so that runs do not differ from one another.
    hasher: RandomState,
    sharer: Sharer,
    /// The pod specs that need no further validation; the decoders share them.
    pub(super) checked: CheckedSpecs,
    counts: InputCounts,
    /// Objects whose kinds a CustomResourceDefinition in the files may define.
    undefined: Vec<Undefined>,
    /// The objects that are left out, by kind and version.
    left_out: BTreeMap<String, LeftOutOfKind>,
    /// The number of objects that are left out and whose kinds are not in `left_out`.
    left_out_besides: u64,
    /// The unknown fields that were removed from objects.
    dropped: Found,
    /// The current file, as an index into `files`.
    file: usize,
    /// The number of non-empty documents in the current file so far.
    document: u64,
    /// Whether the current file is YAML, where an unquoted string may parse as another type.
    is_yaml: bool,
}

/// An object whose kind a CustomResourceDefinition may define anywhere in the files.
#[derive(Debug)]
struct Undefined {
    at: ItemOrigin,
    left: LeftOut,
    members: Map<String, Value>,
}

/// The objects of one kind that are left out.
#[derive(Debug)]
struct LeftOutOfKind {
    first: LeftOut,
    at: ItemOrigin,
    count: u64,
}

/// The maximum number of left-out kinds with their own warning; all others share one.
const LEFT_OUT_KINDS_MAX: usize = 50;

/// How many objects to collect before equal parts are shared again.
const OBJECTS_PER_SHRINK: usize = 10_000;

/// The error about a document that has items although its kind is not that of a list.
pub(super) const NO_LIST: &str =
    "a document with items must be a List; write kind: List or remove items";

/// Items without a kind, with their numbers. They get the kind from their list.
pub(super) type Kindless = Vec<(usize, Map<String, Value>)>;

impl Collector {
    pub(super) fn new(kinds: Kinds) -> Collector {
        Collector {
            objects: Vec::new(),
            origins: Vec::new(),
            files: Vec::new(),
            by_name: HashTable::new(),
            by_uid: HashTable::new(),
            hasher: RandomState::with_seeds(1, 2, 3, 4),
            sharer: Sharer::default(),
            checked: CheckedSpecs::new(kinds),
            counts: InputCounts::default(),
            undefined: Vec::new(),
            left_out: BTreeMap::new(),
            left_out_besides: 0,
            dropped: Found::new(),
            file: 0,
            document: 0,
            is_yaml: false,
        }
    }

    /// Starts a file, to which the following documents belong.
    pub(super) fn begin_file(&mut self, file: &str) {
        self.file = self.files.len();
        self.files.push(file.to_owned());
        self.document = 0;
    }

    /// Sets whether the current file is YAML, where an unquoted string may parse as another type.
    pub(super) fn is_yaml(&mut self, is_yaml: bool) {
        self.is_yaml = is_yaml;
    }

    /// Ends a file. A file without documents is an error.
    pub(super) fn end_file(&mut self) -> Result<(), Box<ManifestError>> {
        if self.document == 0 {
            return Err(
                self.of_file("contains no document; expected Kubernetes objects as YAML or JSON")
            );
        }
        Ok(())
    }

    /// Describes the objects that are left out: one line per kind and version, with the first
    /// object.
    pub(super) fn left_out(&self) -> Vec<String> {
        let kinds = self.left_out.iter();
        let mut lines: Vec<String> = kinds
            .map(|(kind, of_kind)| {
                let LeftOut { name, why, .. } = &of_kind.first;
                let between = if name.is_empty() { "" } else { " " };
                let why = match why {
                    Why::IsPast => {
                        "Events describe the past, and the simulation writes new ones".to_owned()
                    }
                    Why::OtherVersion(known) => format!(
                        "Kubernetes 1.36 has {} as {}",
                        known.name(),
                        known.api_version()
                    ),
                    Why::UnknownKind => {
                        "neither Kubernetes 1.36 nor a CustomResourceDefinition of the \
                                         files has objects of this kind"
                            .to_owned()
                    }
                };
                let more = match of_kind.count - 1 {
                    0 => String::new(),
                    more => format!("; so are {} more of this kind", count_for_people(more)),
                };
                let ItemOrigin { origin, index } = of_kind.at;
                let place = ManifestError {
                    document: Some(origin.document),
                    object: Some(format!("{kind}{between}{name}")),
                    path: index.map(|index| in_list(Some(index), "")),
                    ..*ManifestError::of_file(
                        &self.files[origin.file as usize],
                        format!("is left out: {why}{more}"),
                    )
                };
                place.to_string()
            })
            .collect();
        if self.left_out_besides > 0 {
            let count = count_for_people(self.left_out_besides);
            lines.push(format!("{count} objects of other kinds are also left out"));
        }
        lines
    }

    fn leave_out(&mut self, left: LeftOut, at: ItemOrigin) {
        *self.counts.ignored.entry(left.kind.clone()).or_default() += 1;
        if let Some(known) = self.left_out.get_mut(&left.type_text) {
            known.count += 1;
        } else if self.left_out.len() == LEFT_OUT_KINDS_MAX {
            self.left_out_besides += 1;
        } else {
            let of_kind = LeftOutOfKind {
                at,
                count: 1,
                first: left,
            };
            let kind = of_kind.first.type_text.clone();
            self.left_out.insert(kind, of_kind);
        }
    }

    /// Returns the fields that Kubernetes doesn't know. Each is reported once, with the first
    /// object that has it.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut found = unknown::find(&self.objects);
        for (field, (number, count)) in &self.dropped {
            let known = found.entry(field.clone()).or_insert((*number, 0));
            *known = (known.0.min(*number), known.1 + count);
        }
        let told = found.into_iter().map(|((_, field), (number, count))| {
            let origin = self.origins[number];
            let mut text = format!(
                "{}: document {} ({}): unknown field {:?} is ignored",
                self.files[origin.file as usize],
                origin.document,
                described(self.objects[number].as_object()),
                field.path,
            );
            if let Some(meant) = field.meant {
                text.push_str(&format!("; did you mean {meant}?"));
            }
            if count > 1 {
                text.push_str(&format!("; in {} objects", count_for_people(count)));
            }
            text
        });
        told.collect()
    }

    /// Called after the last file: takes the objects whose kinds the files define, regardless of
    /// the order, and leaves out the others.
    pub(super) fn end(&mut self) -> Result<(), Box<ManifestError>> {
        let dynamic = self.objects.iter().filter_map(|object| match object {
            InputObject::Dynamic(object) => Some(&**object),
            _ => None,
        });
        let described = dynamic.map(custom::described_kinds);
        let (described, _schemas): (Vec<_>, Vec<_>) = described.unzip();
        let described: Vec<Kind> = described.into_iter().flatten().collect();
        for undefined in std::mem::take(&mut self.undefined) {
            let Undefined { at, left, members } = undefined;
            let ItemOrigin { origin, index } = at;
            let text = |member: &str| members.get(member).and_then(Value::as_str);
            let (kind, version) = (text("kind"), text("apiVersion"));
            let is_its = |of: &&Kind| (kind, version) == (Some(of.name()), Some(of.api_version()));
            let Some(kind) = described.iter().find(is_its) else {
                self.leave_out(left, at);
                continue;
            };
            (self.file, self.document) = (origin.file as usize, origin.document);
            let value = Value::Object(members);
            let decoded = decode::of_kind(*kind, Tape::new(&value).root(), &self.checked);
            let (object, unknown) = decoded.map_err(|error| {
                let wrong = Wrong {
                    position: None,
                    object: Some(format!("{} {}", kind.name(), left.name)),
                    path: error.path.0,
                    problem: error.problem,
                };
                self.of_object(index, wrong)
            })?;
            self.store(object, unknown, index)?;
        }
        Ok(())
    }

    /// Returns the objects, the counts by kind, and the origin of each object.
    pub(super) fn into_parts(self) -> (Vec<InputObject>, InputCounts, Places) {
        let places = Places {
            files: self.files,
            origins: self.origins,
        };
        (self.objects, self.counts, places)
    }

    /// Creates an error about the current file as a whole.
    pub(super) fn of_file(&self, problem: &str) -> Box<ManifestError> {
        let file = self.files.get(self.file).map_or("", String::as_str);
        ManifestError::of_file(file, problem)
    }

    /// Creates the error for a file that can't be read beyond `bytes`.
    pub(super) fn unreadable(&self, error: &io::Error, bytes: u64) -> Box<ManifestError> {
        let problem = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("the gzip data ends too early, after {bytes} bytes of text: it was cut off")
            }
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                format!("the gzip data is damaged, after {bytes} bytes of text: {error}")
            }
            io::ErrorKind::FileTooLarge => error.to_string(),
            _ => format!("can't be read: {error}"),
        };
        self.of_file(&problem)
    }

    /// Creates an error at a position of the current document.
    pub(super) fn at(&self, position: Option<Place>, problem: String) -> Box<ManifestError> {
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

    /// Starts a document of the current file.
    pub(super) fn begin_document(&mut self) {
        self.document += 1;
    }

    /// Ends a document whose items have been taken. `kindless` are the items that get their kind
    /// from the list.
    pub(super) fn end_document(
        &mut self,
        document: Document,
        kindless: Kindless,
    ) -> Result<(), Box<ManifestError>> {
        match document {
            Document::Empty => {
                self.document -= 1;
                Ok(())
            }
            Document::Object(members) => match decode_members(members, None, &self.checked) {
                Decoded::Kindless(_) => unreachable!("only items of lists have no kind"),
                decoded => self.take(decoded, None).map(drop),
            },
            Document::List(members) => {
                if !members.get("kind").is_some_and(is_list_kind) {
                    return Err(Box::new(ManifestError {
                        path: Some("kind".into()),
                        ..*self.of_document(match members.contains_key("kind") {
                            true => NO_LIST.to_owned(),
                            false => format!(
                                "{NO_LIST} (a dump has its kind behind the items: one without was \
                                 cut off)"
                            ),
                        })
                    }));
                }
                kindless.into_iter().try_for_each(|(index, item)| {
                    let decoded = decode_members(item, Some(&members), &self.checked);
                    self.take(decoded, Some(index)).map(drop)
                })
            }
        }
    }

    /// Takes the decoded items of a list in order. The first one has the index `first_index`.
    /// Returns the items without a kind. `in_file` converts a position within an item to one in the
    /// file. An error comes with the position of its item in `decoded`.
    pub(super) fn take_items(
        &mut self,
        first_index: usize,
        decoded: Vec<Decoded>,
        in_file: impl Fn(usize, Place) -> Place,
    ) -> Result<Kindless, (usize, Box<ManifestError>)> {
        let mut kindless = Vec::new();
        for (at, mut decoded) in decoded.into_iter().enumerate() {
            if let Decoded::Wrong(Wrong {
                position: Some(position),
                ..
            }) = &mut decoded
            {
                *position = in_file(at, *position);
            }
            let index = first_index + at;
            let taken = self.take(decoded, Some(index));
            if let Some(item) = taken.map_err(|error| (at, error))? {
                kindless.push((index, item));
            }
        }
        Ok(kindless)
    }

    /// Takes a decoded object. If it has no kind, returns its members instead.
    fn take(
        &mut self,
        decoded: Decoded,
        index: Option<usize>,
    ) -> Result<Option<Map<String, Value>>, Box<ManifestError>> {
        match decoded {
            Decoded::Object(mut object, unknown) => {
                self.share_all(&mut object);
                self.store(object, unknown, index).map(|()| None)
            }
            Decoded::Custom(left, members) => {
                let at = self.item(index);
                self.undefined.push(Undefined { at, left, members });
                Ok(None)
            }
            Decoded::LeftOut(left) => {
                self.leave_out(left, self.item(index));
                Ok(None)
            }
            Decoded::Kindless(item) => Ok(Some(item)),
            Decoded::Wrong(wrong) => Err(self.of_object(index, wrong)),
        }
    }

    fn share_all(&mut self, object: &mut InputObject) {
        match object {
            InputObject::Pod(pod) => self.sharer.share_pod(pod),
            InputObject::Owner(owner) => owner.share(&mut self.sharer),
            _ => {}
        }
    }

    fn store(
        &mut self,
        object: InputObject,
        unknown: Vec<Field>,
        index: Option<usize>,
    ) -> Result<(), Box<ManifestError>> {
        let number = self.objects.len() as u32;
        let meta = object.metadata();
        let doubled = if meta.name.is_empty() {
            None
        } else {
            let hash = hash_name(&self.hasher, &object);
            let same = |other: &u32| same_name(&self.objects[*other as usize], &object);
            let rehash = |other: &u32| hash_name(&self.hasher, &self.objects[*other as usize]);
            enter(&mut self.by_name, hash, number, same, rehash)
        };
        if let Some(other) = doubled {
            let problem = format!(
                "is a duplicate of {}; remove or rename one of the two",
                self.origin(other)
            );
            return Err(Box::new(ManifestError {
                object: Some(described(object.as_object())),
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
                    "{uid} is also the UID of {} ({}); UIDs must be unique",
                    described(self.objects[other as usize].as_object()),
                    self.origin(other)
                );
                return Err(Box::new(ManifestError {
                    object: Some(described(object.as_object())),
                    path: Some(in_list(index, "metadata.uid")),
                    ..*self.of_document(problem)
                }));
            }
        }
        unknown::add(&mut self.dropped, number as usize, &object, unknown);
        let kind = object.kind().name().to_owned();
        *self.counts.taken.entry(kind).or_default() += 1;
        self.objects.push(object);
        self.origins.push(self.here());
        if self.objects.len().is_multiple_of(OBJECTS_PER_SHRINK) {
            self.sharer.shrink();
        }
        Ok(())
    }

    /// Returns the origin of objects in the current document.
    fn here(&self) -> Origin {
        Origin {
            file: self.file as u32,
            document: self.document,
        }
    }

    /// Returns an item of the current document, or the object that the document is.
    fn item(&self, index: Option<usize>) -> ItemOrigin {
        ItemOrigin {
            origin: self.here(),
            index,
        }
    }

    /// Describes the origin of an earlier object: `document 2 of web.yaml`.
    fn origin(&self, number: u32) -> String {
        let Origin { file, document } = self.origins[number as usize];
        match file as usize == self.file {
            true => format!("document {document}"),
            false => format!("document {document} of {}", self.files[file as usize]),
        }
    }

    fn of_object(&self, index: Option<usize>, wrong: Wrong) -> Box<ManifestError> {
        let path = in_list(index, &wrong.path);
        let mut problem = wrong.problem;
        let found_scalar = ["the boolean", "the number"]
            .iter()
            .any(|found| problem.starts_with(&format!("expected a string, found {found}")));
        if self.is_yaml && found_scalar {
            problem.push_str("; quote it");
        }
        Box::new(ManifestError {
            position: wrong.position,
            object: wrong.object,
            path: (!path.is_empty()).then_some(path),
            ..*self.of_document(problem)
        })
    }
}

/// Decodes the object with these members.
fn decode_members(
    members: Map<String, Value>,
    list: Option<&Map<String, Value>>,
    checked: &CheckedSpecs,
) -> Decoded {
    let value = Value::Object(members);
    decode::object(Tape::new(&value).root(), list, checked)
}

/// Inserts a number under its hash, or returns the number of an equal entry.
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
