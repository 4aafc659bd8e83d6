//! Custom resources: what CustomResourceDefinitions do in a cluster.
//!
//! A definition is an object like any other; its row is in `row`. A write of a definition accepts
//! its names and serves the kinds that it describes, with rows from `described`. The deletion of a
//! definition deletes its objects and then the definition. All of that happens within the request,
//! while upstream's controllers do it some moments later.
//!
//! Lock order: the kinds that definitions describe (`Definitions::described`), then the stores of
//! the kinds without a Rust type, to drop the store of a removed kind. The lock on the rows is
//! taken with no other lock held.

mod check;
mod definition;
mod described;
mod names;
mod row;
mod schema;
mod structural;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use podstorm_objects::{
    ApiError, Cause, DynamicObject, Kind, Map, Now, Reason, ResourceType, ScalePaths, Str,
};
use serde_json::Value;

use self::described::Described;
use self::names::State;
use crate::field_manager::{ByServer, FieldManager, Manager};
use crate::store::KindStore;
use crate::store::counts::{Verb, WriteEffects};
use crate::update::{Update, prepare_and_validate};
use crate::validation::CLEANUP;
use crate::{Cluster, DeleteOptions, errors, meta};

pub(crate) use row::ROWS;
pub use structural::{default, prune};

/// The kind `apiextensions.k8s.io/v1` `CustomResourceDefinition`.
const DEFINITION: Kind = Kind::from_row(&ROWS[0]);

/// The kinds that the definitions of a cluster describe.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// The kinds by the name of the definition: the resource with its group.
    described: RwLock<BTreeMap<String, Served>>,
    /// Incremented with every change of the served kinds.
    generation: AtomicU64,
    /// The number of definitions being deleted. If it is 0, the removal of an object costs one
    /// check.
    terminating: AtomicU64,
}

#[derive(Clone, Debug)]
struct Served {
    kinds: Described,
    is_terminating: bool,
}

impl Cluster {
    /// Returns a number that changes with the set of served kinds.
    pub fn kinds_generation(&self) -> u64 {
        // Acquire: a thread that sees the number also sees the kinds.
        self.definitions.generation.load(Ordering::Acquire)
    }

    /// Returns the kinds that definitions describe, in every served version.
    pub fn custom_kinds(&self) -> Vec<Kind> {
        let described = self.definitions.described.read();
        let described = described.unwrap_or_else(PoisonError::into_inner);
        let served = described.values().flat_map(|it| it.kinds.served.clone());
        served.collect()
    }

    /// Returns the storage version of a custom kind. Returns any other kind unchanged.
    pub fn stored_kind(&self, kind: Kind) -> Kind {
        if kind.row().custom.is_none() {
            return kind;
        }
        let described = self.definitions.described.read();
        let described = described.unwrap_or_else(PoisonError::into_inner);
        let found = described.get(&*kind.group_resource());
        found.map_or(kind, |served| served.kinds.stored)
    }

    /// Handles a written definition: accepts its names and serves its kinds.
    pub(crate) fn definition_written(&self, name: &str, manager: Manager<'_>, now: Now) {
        let sync = |store: &KindStore<DynamicObject>| {
            let by_server = manager.map(ByServer);
            let manager = by_server.as_ref().map(|by| by as &dyn FieldManager);
            let mut taken = names::Taken::default();
            store.for_each(|other| {
                let is_other = other.metadata.name.as_str() != name;
                if is_other && group_of(other) == name.split_once('.').map(|(_, group)| group) {
                    taken.add(other);
                }
            });
            let accepted = self.modify(store, "", name, now, |old| {
                let mut new = DynamicObject::clone(old);
                names::accept(&mut new, &taken, now.wall());
                if new == **old {
                    return Ok(Update::Keep);
                }
                prepare_and_validate(self, &mut new, &**old, Verb::UpdateStatus, manager)?;
                Ok(Update::Write(
                    new,
                    WriteEffects::for_verb(Verb::UpdateStatus),
                ))
            });
            if let Ok(definition) = accepted {
                self.serve_definition(&definition, now);
            }
        };
        // Ignore the error: the kind is built in, so its store exists.
        let _ = self.with_dynamic_store(DEFINITION, sync);
    }

    /// Serves the kinds of a definition from a restored state, if its names were accepted.
    pub(crate) fn restore_definition(&self, definition: &DynamicObject, now: Now) {
        if names::is_true(definition, "Established") {
            self.serve_definition(definition, now);
        }
    }

    /// Serves the kinds of an established definition.
    fn serve_definition(&self, definition: &DynamicObject, now: Now) {
        let is_established = names::is_true(definition, "Established");
        let Some(kinds) = described::describe(definition).filter(|_| is_established) else {
            if definition.metadata.is_deleting() {
                self.finish_definition(definition.metadata.name.as_str(), now);
            }
            return;
        };
        let is_terminating = definition.metadata.is_deleting();
        if self.dynamic.serve_custom(kinds.stored).is_err() {
            return;
        }
        let described = self.definitions.described.write();
        let mut described = described.unwrap_or_else(PoisonError::into_inner);
        let name = definition.metadata.name.as_str().to_owned();
        let served = Served {
            kinds,
            is_terminating,
        };
        let old = described.insert(name, served);
        if is_terminating && old.is_none_or(|old| !old.is_terminating) {
            // Relaxed: the store's lock orders this write before the removal of an object by
            // another thread, which therefore sees the number.
            self.definitions.terminating.fetch_add(1, Ordering::Relaxed);
        }
        // Release: see `kinds_generation`.
        self.definitions.generation.fetch_add(1, Ordering::Release);
    }

    /// Deletes the objects of the definitions that are being deleted, then these definitions. Every
    /// write through [`Api`](crate::Api) does this, except an import; call this after the last
    /// import.
    pub fn end_definitions(&self, now: Now) {
        // Relaxed: see `serve_definition`.
        if self.definitions.terminating.load(Ordering::Relaxed) == 0 {
            return;
        }
        let ending: Vec<(String, Kind)> = {
            let described = self.definitions.described.read();
            let described = described.unwrap_or_else(PoisonError::into_inner);
            let ending = described.iter().filter(|(_, served)| served.is_terminating);
            ending
                .map(|(name, served)| (name.clone(), served.kinds.stored))
                .collect()
        };
        for (name, kind) in ending {
            if self.delete_objects(kind, now) == 0 {
                self.end_definition(&name, kind, now);
            }
        }
    }

    /// Deletes all objects of a kind. Returns how many remain because of finalizers.
    fn delete_objects(&self, kind: Kind, now: Now) -> u64 {
        let delete = |store: &KindStore<DynamicObject>| {
            let mut names: Vec<(Str, String)> = Vec::new();
            store.for_each(|object| {
                let metadata = &object.metadata;
                if !metadata.is_deleting() {
                    let name = metadata.name.as_str().to_owned();
                    names.push((metadata.namespace.clone(), name));
                }
            });
            for (namespace, name) in names {
                let effects = WriteEffects::for_verb(Verb::Delete);
                let options = DeleteOptions::default();
                // Ignore the error: another thread was faster.
                let _ = self.delete_in(store, &namespace, &name, &options, effects, now);
            }
            store.totals().live()
        };
        self.with_used_store(kind, delete).unwrap_or(0)
    }

    fn end_definition(&self, name: &str, kind: Kind, now: Now) {
        {
            let described = self.definitions.described.write();
            let mut described = described.unwrap_or_else(PoisonError::into_inner);
            if described.remove(name).is_none() {
                return;
            }
            self.dynamic.forget_custom(kind);
            // Relaxed and Release: see `serve_definition`.
            self.definitions.terminating.fetch_sub(1, Ordering::Relaxed);
            self.definitions.generation.fetch_add(1, Ordering::Release);
        }
        self.finish_definition(name, now);
    }

    /// Removes a definition that has no objects. Its names then become available to others.
    fn finish_definition(&self, name: &str, now: Now) {
        let mut waiting = Vec::new();
        let finish = |store: &KindStore<DynamicObject>| {
            // Ignore the error: a client may have removed the definition.
            let _ = self.modify(store, "", name, now, |old| {
                let mut new = DynamicObject::clone(old);
                let kept = old
                    .metadata
                    .finalizers()
                    .iter()
                    .filter(|it| &***it != CLEANUP);
                let kept: Vec<_> = kept.cloned().collect();
                new.metadata.finalizers = (!kept.is_empty()).then(|| kept.into());
                let done = State {
                    status: "False",
                    reason: "InstanceDeletionCompleted",
                    message: "removed all instances",
                };
                names::set(&mut new, "Terminating", done, now.wall());
                Ok(Update::Write(new, WriteEffects::for_verb(Verb::Update)))
            });
            store.for_each(|other| {
                if !names::is_true(other, "NamesAccepted") {
                    waiting.push(other.metadata.name.as_str().to_owned());
                }
            });
        };
        // Ignore the error: the kind is built in, so its store exists.
        let _ = self.with_dynamic_store(DEFINITION, finish);
        for other in waiting.iter().filter(|other| *other != name) {
            self.definition_written(other, None, now);
        }
    }

    /// Admits a new custom object.
    ///
    /// # Errors
    /// 405 if the definition is being deleted.
    pub(crate) fn admit_custom(&self, kind: Kind) -> Result<(), ApiError> {
        // Relaxed: see `serve_definition`.
        if kind.row().custom.is_none() || self.definitions.terminating.load(Ordering::Relaxed) == 0
        {
            return Ok(());
        }
        let described = self.definitions.described.read();
        let described = described.unwrap_or_else(PoisonError::into_inner);
        let found = described.get(&*kind.group_resource());
        match found.is_some_and(|served| served.is_terminating) {
            false => Ok(()),
            true => {
                let message = "create not allowed while custom resource definition is terminating";
                Err(ApiError::status(
                    405,
                    Reason::Other("MethodNotAllowed".into()),
                    message,
                ))
            }
        }
    }
}

fn group_of(definition: &DynamicObject) -> Option<&str> {
    definition.fields.get("spec")?.get("group")?.as_str()
}

/// Marks a definition as terminating, so that its objects are deleted.
pub(crate) fn begin_termination(definition: &mut DynamicObject, now: podstorm_objects::Time) {
    let metadata = &mut definition.metadata;
    if !meta::has_finalizer(metadata, CLEANUP) {
        let mut finalizers = metadata.finalizers().to_vec();
        finalizers.push(CLEANUP.into());
        metadata.finalizers = Some(finalizers.into());
    }
    let pending = State {
        status: "True",
        reason: "InstanceDeletionPending",
        message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin \
                  soon",
    };
    names::set(definition, "Terminating", pending, now);
}

/// Reports whether all objects of a terminating definition have been deleted.
pub(crate) fn is_ended(definition: &DynamicObject) -> bool {
    names::has(definition, "Terminating", "False")
}

/// Prunes a custom object and fills in its defaults.
pub(crate) fn shape(object: &mut DynamicObject) {
    if let Some(custom) = object.kind().row().custom {
        let schema = custom.schema.get();
        structural::prune(&schema, &mut object.fields);
        structural::default(&schema, &mut object.fields);
    }
}

/// Converts a custom object to another version of its kind, which may have another schema.
pub fn as_version(object: &DynamicObject, kind: Kind) -> DynamicObject {
    let mut object = object.clone().with_kind(kind);
    shape(&mut object);
    object
}

/// Returns the rules that a custom object breaks: those of its schema, then those of its scale.
pub(crate) fn validate(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let Some(custom) = new.kind().row().custom else {
        return Vec::new();
    };
    let whole = Value::Object(new.fields.clone());
    let before = old.map(|old| Value::Object(old.fields.clone()));
    let mut causes = check::check(&custom.schema.get(), &whole, before.as_ref());
    if let Some(scale) = custom.scale {
        check_scale(scale, &whole, &mut causes);
    }
    causes
}

/// Returns the number at a path; `None` if there is none.
///
/// # Errors
/// Returns the problem with the value.
pub(crate) fn number_at(
    path: &podstorm_objects::JsonPath,
    object: &Value,
) -> Result<Option<i64>, String> {
    match path.find(object).first() {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| {
            let kind = match value {
                Value::Number(_) => "float64",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                Value::Array(_) => "[]interface {}",
                _ => "map[string]interface {}",
            };
            format!(
                "{} accessor error: {value} is of the type {kind}, expected int64",
                path.text()
            )
        }),
    }
}

fn check_scale(scale: &ScalePaths, object: &Value, causes: &mut Vec<Cause>) {
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let mut wrong = |value: i64, why: &str| {
            causes.push(errors::invalid_value(path.text(), &value.into(), why));
        };
        match number_at(path, object) {
            Err(problem) => wrong(0, &problem),
            Ok(Some(number)) if number < 0 => wrong(number, "should be a non-negative integer"),
            Ok(Some(number)) if number > i64::from(i32::MAX) => {
                wrong(
                    number,
                    &format!("should be less than or equal to {}", i32::MAX),
                );
            }
            Ok(_) => {}
        }
    }
    if let Some(path) = &scale.selector
        && let Some(value) = path.find(object).first()
        && !value.is_string()
    {
        let why = format!(
            "{} accessor error: {value} is of another type, expected string",
            path.text()
        );
        causes.push(errors::invalid_value(path.text(), &"".into(), &why));
    }
}

/// Returns the kinds that a definition describes, in every served version, and their schemas,
/// which the return value keeps alive. Returns nothing for any other object. Does not check whether
/// another definition has the same names.
pub fn described_kinds(definition: &DynamicObject) -> (Vec<Kind>, Vec<Arc<Value>>) {
    if !is_definition(definition.kind().row()) {
        return Default::default();
    }
    let mut definition = definition.clone();
    (definition.kind().row().rules.default)(&mut definition);
    let spec = definition.fields.get("spec");
    let names = spec.map(|spec| spec["names"].clone()).unwrap_or_default();
    let status = serde_json::json!({"acceptedNames": names});
    definition.fields.insert("status".to_owned(), status);
    described::describe(&definition)
        .map(|it| (it.served, it.schemas))
        .unwrap_or_default()
}

/// Returns warnings to the client about the parts of its definition that are not enforced.
fn unenforced(definition: &Map) -> Vec<String> {
    let versions = definition
        .get("spec")
        .and_then(|spec| spec["versions"].as_array());
    let mut warnings = Vec::new();
    for (number, version) in versions.into_iter().flatten().enumerate() {
        let mut found = Vec::new();
        schema::with_rules(&version["schema"]["openAPIV3Schema"], "", &mut found);
        if !found.is_empty() {
            warnings.push(format!(
                "spec.versions[{number}].schema: x-kubernetes-validations are not enforced by this \
                 server: {}",
                found.join(", ")
            ));
        }
    }
    warnings
}

/// Reports whether a row is the row of CustomResourceDefinitions.
pub(crate) fn is_definition(row: &ResourceType) -> bool {
    std::ptr::eq(row, DEFINITION.row())
}

#[cfg(test)]
mod tests;
