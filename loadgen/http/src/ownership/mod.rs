//! Server-side apply and field ownership: `metadata.managedFields` of every object that is written
//! over HTTP or applied in process. Other in-process writes, such as those of controllers, neither
//! own fields nor change their owners.
//!
//! Source: <https://kubernetes.io/docs/reference/using-api/server-side-apply/>.

mod apply;
mod owners;
mod schema;
mod set;
mod walk;

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use podstorm_apiserver::FieldManager;
use podstorm_objects::{ApiError, Kind, Object};
use serde_json::{Map, Value};

pub(crate) use self::apply::with_group;
pub(crate) use self::set::{PathElement, entry, member};

use self::owners::{Differences, Operation, Owner, Owners};
use self::schema::{Type, schema_of};
use self::set::FieldSet;
use self::walk::Difference;
use crate::call::Call;
use crate::decode::go_quoted;
use crate::query::{cause, options_invalid};
use crate::route::Target;
use crate::texts::Texts;
use crate::{patched, view};

/// The maximum length of a field manager's name in bytes.
const MANAGER_MAX: usize = 128;
/// The member of the metadata that contains the owners.
pub(crate) const MANAGED: &str = "managedFields";

/// Returns the path of the field that `/scale` changes.
fn replicas_way(kind: Kind) -> Vec<&'static str> {
    let scale = kind.row().custom.and_then(|custom| custom.scale);
    let way = scale.and_then(|scale| scale.spec_replicas.members());
    way.unwrap_or_else(|| vec!["spec", "replicas"])
}

/// Returns the field manager of a request: `fieldManager`, or the first part of the user agent if
/// the parameter is absent.
///
/// # Errors
/// 422 if the name is too long or has unprintable characters.
pub(crate) fn manager(call: &Call<'_>, options: &str) -> Result<String, ApiError> {
    let named = call.query.text("fieldManager");
    let refused = |reason: &str, message: String| {
        Err(options_invalid(
            options,
            cause("fieldManager", reason, message),
        ))
    };
    if named.len() > MANAGER_MAX {
        let message = format!("Too long: may not be more than {MANAGER_MAX} bytes");
        return refused("FieldValueTooLong", message);
    }
    if let Some((at, wrong)) = named.chars().enumerate().find(|(_, it)| !is_printed(*it)) {
        let message = format!(
            "Invalid value: {}: invalid character U+{:04X} (at position {at})",
            go_quoted(named),
            u32::from(wrong)
        );
        return refused("FieldValueInvalid", message);
    }
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let agent = call.headers.get(http::header::USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
    let program = agent.split('/').next().unwrap_or("");
    let printed = program.chars().filter(|it| is_printed(*it));
    Ok(printed.take(MANAGER_MAX).collect())
}

fn is_printed(character: char) -> bool {
    !character.is_control() && (character == ' ' || !character.is_whitespace())
}

/// The field manager of a request. The cluster calls it for each write.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    texts: &'a Texts,
    manager: String,
    /// The kind in the request, which may be a view, i.e. another version of the stored kind.
    kind: Kind,
    subresource: &'a str,
    /// The operation. In an apply, the object already contains its new owners.
    operation: Operation,
    now: String,
    /// The paths of the fields that admission added.
    pub(crate) admitted: Vec<Vec<String>>,
    /// The strict decoder's messages about the text of a patch.
    pub(crate) doubled: Vec<String>,
    /// Whether unknown members are an error: `fieldValidation=Strict`.
    is_strict: bool,
    /// The strict decoder's messages about a patch and its result.
    unknown: Mutex<Vec<String>>,
    /// The generation of the object before the write; set during the write.
    generation: AtomicI64,
}

/// The generation before a write if the object did not exist.
const NO_GENERATION: i64 = -1;

impl<'a> Writer<'a> {
    /// Returns the field manager of a create, update or patch.
    ///
    /// # Errors
    /// The same as [`manager`].
    pub(crate) fn updating(
        call: &'a Call<'_>,
        target: &'a Target,
        options: &str,
    ) -> Result<Writer<'a>, ApiError> {
        Ok(Writer {
            texts: &call.server.0.texts,
            manager: manager(call, options)?,
            kind: target.kind,
            subresource: &target.subresource,
            operation: Operation::Update,
            now: call.now.wall().to_string(),
            admitted: Vec::new(),
            doubled: Vec::new(),
            is_strict: call.query.text("fieldValidation") == "Strict",
            unknown: Mutex::default(),
            generation: AtomicI64::new(NO_GENERATION),
        })
    }

    /// Returns the field manager of an apply.
    ///
    /// # Errors
    /// The same as [`manager`].
    pub(crate) fn applying(call: &'a Call<'_>, target: &'a Target) -> Result<Writer<'a>, ApiError> {
        Ok(Writer {
            operation: Operation::Apply,
            ..Writer::updating(call, target, "PatchOptions")?
        })
    }

    /// Reports whether the write created the object or changed its spec. Always true for kinds
    /// without a generation.
    pub(crate) fn has_changed_spec(&self, written: &dyn Object) -> bool {
        // Relaxed: stored by the same thread.
        !written.kind().row().has_generation
            || self.generation.load(Relaxed) != written.metadata().generation
    }

    /// Returns the messages about unknown members in a patch's result, as warnings.
    pub(crate) fn unknown_fields(&self) -> Vec<String> {
        let unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        unknown.clone()
    }

    fn owner(&self) -> Owner {
        let version = self.kind.api_version();
        Owner::new(self.operation, &self.manager, version, self.subresource)
    }

    /// Records a scale: if the number of replicas has changed, the field loses its owners, and an
    /// applier becomes its owner.
    fn scaled(&self, old: &dyn Object, new: &mut dyn Object) {
        let way = replicas_way(self.kind);
        let replicas = |object: &dyn Object| {
            let json = object.to_json();
            way.iter()
                .try_fold(&json, |value, name| value.get(name))
                .cloned()
        };
        let mut owners = owners_of(&*new).unwrap_or_default();
        if replicas(old) != replicas(&*new) {
            owners.release(&way);
        }
        if self.operation == Operation::Apply {
            owners.add_path(&way, self.owner(), self.kind.api_version());
        }
        set_owners(new, &owners);
    }
}

impl FieldManager for Writer<'_> {
    fn kind(&self) -> Option<Kind> {
        Some(self.kind)
    }

    fn written(&self, old: Option<&dyn Object>, new: &mut dyn Object) {
        let generation = old.map_or(NO_GENERATION, |old| old.metadata().generation);
        self.generation.store(generation, Relaxed);
        match (self.operation, self.subresource, old) {
            (_, "scale", Some(old)) => self.scaled(old, new),
            (Operation::Apply, _, Some(old)) => self.keep_times(old, new),
            (Operation::Apply, _, None) => {}
            (Operation::Update, ..) => self.updated(old, new),
        }
        self.texts.share(&mut new.metadata_mut().rest);
    }

    fn written_by_server(&self, old: Option<&dyn Object>, new: &mut dyn Object) {
        let server = Writer {
            texts: self.texts,
            manager: "kube-apiserver".to_owned(),
            kind: self.kind,
            subresource: "status",
            operation: Operation::Update,
            now: self.now.clone(),
            is_strict: false,
            doubled: Vec::new(),
            unknown: Mutex::default(),
            generation: AtomicI64::new(NO_GENERATION),
            admitted: Vec::new(),
        };
        server.written(old, new);
    }

    fn complete(&self, document: &mut Value) {
        view::fill(self.kind, document);
    }

    fn patched(
        &self,
        patch: Option<(&Map<String, Value>, bool)>,
        document: &mut Value,
    ) -> Result<(), ApiError> {
        let Value::Object(members) = document else {
            return Ok(());
        };
        // Applied configurations have already been checked.
        if self.operation == Operation::Apply {
            return Ok(());
        }
        let found = patched::check(self.kind, patch, &self.doubled, self.is_strict, members)?;
        *self.unknown.lock().unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }
}

impl Writer<'_> {
    /// Keeps the times of the owners if an apply changes nothing. Compares the objects after
    /// defaulting.
    ///
    /// Source: `IgnoreManagedFieldsTimestampsTransformer` of Kubernetes' apiserver.
    fn keep_times(&self, old: &dyn Object, new: &mut dyn Object) {
        let noted = |object: &dyn Object| object.metadata().rest.get(MANAGED);
        if noted(old) == noted(&*new) {
            return;
        }
        let (Some(before), Some(after)) = (owners_of(old), owners_of(&*new)) else {
            return;
        };
        let schema = schema_of(self.kind);
        let of = Type::from_schema(&schema);
        let form = |object: &dyn Object| plain(view::json(self.kind, object), self.kind);
        let is_same = || Difference::between(&form(old), &form(&*new), of).is_none();
        if before.same_but_times(&after) && is_same() {
            set_owners(new, &before);
        }
    }

    /// Records an update: the writer becomes the owner of the fields that differ from the stored
    /// object.
    fn updated(&self, old: Option<&dyn Object>, new: &mut dyn Object) {
        let given = new.metadata().rest.get(MANAGED);
        let stored = old.and_then(owners_of);
        let given = match given {
            // A single empty entry is a request to reset the owners.
            Some(Value::Array(entries)) if is_reset(&entries) && self.subresource.is_empty() => {
                Some(Owners::default())
            }
            Some(given) if self.subresource.is_empty() => Owners::read(&given)
                .filter(|owners| !owners.is_empty())
                .or(stored.clone()),
            _ => stored.clone(),
        };
        let mut owners = given.unwrap_or_default();
        set_owners(new, &Owners::default());
        let is_new = old.is_none();
        if owners.is_empty() && !is_new {
            // The object has no owners yet: tracking starts at the first apply.
            return;
        }
        let mut ignored = ignored(self.kind, self.subresource);
        self.admitted.iter().for_each(|path| ignored.insert(path));
        let compare = |version: &str| {
            let kind = view::at_version(self.kind, version)?;
            let schema = schema_of(kind);
            let of = Type::from_schema(&schema);
            let old = old.map_or_else(|| Map::new().into(), |old| view::json(kind, old));
            let (old, new) = (plain(old, kind), plain(view::json(kind, &*new), kind));
            Some(Difference::between(&old, &new, of).ignoring(&ignored))
        };
        let version = self.kind.api_version();
        let at = Differences::new(&compare);
        owners.update(self.owner(), version, &at, &self.now);
        let unchanged = at.at(version).is_some_and(|own| own.difference.is_none());
        match stored {
            // A write that changes nothing keeps the times.
            Some(stored) if unchanged && stored.same_but_times(&owners) => set_owners(new, &stored),
            _ => set_owners(new, &owners),
        }
    }
}

/// Returns the object in the form for comparisons: without owners, and with the members that Go
/// writes even if they are empty.
fn plain(object: Value, kind: Kind) -> Value {
    let mut object = without_owners(object);
    view::fill(kind, &mut object);
    object
}

fn without_owners(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(MANAGED);
    }
    object
}

fn is_reset(entries: &[Value]) -> bool {
    matches!(entries, [Value::Object(entry)] if entry.is_empty())
}

/// Returns the owners of an object, or `None` if it has none or they are invalid.
fn owners_of(object: &dyn Object) -> Option<Owners> {
    Owners::read(&object.metadata().rest.get(MANAGED)?)
}

fn set_owners(object: &mut dyn Object, owners: &Owners) {
    let metadata = object.metadata_mut();
    metadata.rest = match owners.is_empty() {
        true => metadata.rest.without(MANAGED),
        false => metadata.rest.with_text(MANAGED, &owners.to_text()),
    };
}

/// Returns the fields that a request never writes, even if its body contains them.
///
/// Source: `GetResetFields` of the strategies in Kubernetes' `pkg/registry`.
fn ignored(kind: Kind, subresource: &str) -> FieldSet {
    let status = match kind.row().has_status {
        true => FieldSet::from_path(&["status"]),
        false => FieldSet::default(),
    };
    let spec = FieldSet::from_path(&["spec"]);
    match (subresource, kind.name()) {
        ("status", "Deployment") => spec.union(&FieldSet::from_path(&["metadata", "labels"])),
        ("status", "Pod") => ["deletionTimestamp", "ownerReferences"]
            .iter()
            .fold(spec, |all, name| {
                all.union(&FieldSet::from_path(&["metadata", name]))
            }),
        ("status", _) => spec,
        ("", _) => status,
        _ => FieldSet::default(),
    }
}
