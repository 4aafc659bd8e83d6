//! The owners of an object's fields, as in `metadata.managedFields`, and how writes change them.
//!
//! Source: `managedfields` of `k8s.io/apimachinery`, `merge` of
//! `sigs.k8s.io/structured-merge-diff`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::schema::Type;
use super::set::{self, FieldSet};
use super::walk::{self, Difference};

/// The maximum number of owners whose operation is not apply. The oldest are merged into one.
const UPDATERS_MAX: usize = 10;
/// The owner into which the oldest owners are merged.
const ANCIENT: &str = "ancient-changes";
/// The owner of the fields that existed before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The operation by which an owner acquired its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// The identity of an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) operation: Operation,
    pub(super) manager: String,
    /// Empty for an applier, which is the same owner in all versions.
    version: String,
    pub(super) subresource: String,
}

impl Owner {
    pub(super) fn new(
        operation: Operation,
        manager: &str,
        api_version: &str,
        subresource: &str,
    ) -> Owner {
        let version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Owner {
            operation,
            manager: manager.to_owned(),
            version: version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Returns the conflict about a field of this owner.
    pub(super) fn conflict(&self, path: &[&str]) -> Conflict {
        Conflict {
            owner: self.shown(),
            fields: FieldSet::from_path(path),
        }
    }

    /// Formats the owner for messages about conflicts.
    fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text += &format!(" using {}", self.version);
        }
        text
    }
}

/// The fields of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    /// The `apiVersion` in which the fields were written.
    api_version: String,
    /// When the owner last acquired a field, in RFC 3339.
    time: Option<String>,
    pub(super) fields: FieldSet,
}

/// Fields of another owner that an apply would change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The owner as messages name it.
    pub(super) owner: String,
    pub(super) fields: FieldSet,
}

/// The differences between a written object and the stored one, by version. Each version is
/// compared only once, regardless of how many owners have fields in it.
pub(super) struct Differences<'a> {
    /// Compares the objects in a version; `None` if the version is not served.
    compare: &'a dyn Fn(&str) -> Option<Difference>,
    known: RefCell<BTreeMap<String, Option<Rc<Compared>>>>,
}

/// A difference, and the set of added and changed fields in it.
pub(super) struct Compared {
    pub(super) difference: Difference,
    written: FieldSet,
}

impl<'a> Differences<'a> {
    pub(super) fn new(compare: &'a dyn Fn(&str) -> Option<Difference>) -> Differences<'a> {
        Differences {
            compare,
            known: RefCell::default(),
        }
    }

    pub(super) fn at(&self, version: &str) -> Option<Rc<Compared>> {
        if let Some(known) = self.known.borrow().get(version) {
            return known.clone();
        }
        let compared = |difference: Difference| {
            let written = difference.written();
            Rc::new(Compared {
                difference,
                written,
            })
        };
        let found = (self.compare)(version).map(compared);
        let mut known = self.known.borrow_mut();
        known.insert(version.to_owned(), found.clone());
        found
    }
}

/// The owners of an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners(BTreeMap<Owner, Owned>);

impl Owners {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads `managedFields`. `None` if an entry is invalid.
    pub(super) fn read(list: &Value) -> Option<Owners> {
        let mut owners = Owners::default();
        for entry in list.as_array().into_iter().flatten() {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or("");
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::from_fields_v1(fields)?,
            };
            let owner = Owner::new(operation, text("manager"), api_version, text("subresource"));
            let owned = Owned {
                api_version: api_version.to_owned(),
                time: Some(text("time"))
                    .filter(|time| !time.is_empty())
                    .map(str::to_owned),
                fields,
            };
            owners.0.insert(owner, owned);
        }
        Some(owners)
    }

    /// Formats the owners as `managedFields`: appliers first, then by time, with sorted members.
    pub(super) fn to_text(&self) -> String {
        let mut sorted: Vec<(&Owner, &Owned)> = self.0.iter().collect();
        sorted.sort_by_key(|(owner, owned)| (owner.operation, &owned.time, *owner));
        let mut out = String::from("[");
        for (number, (owner, owned)) in sorted.into_iter().enumerate() {
            out.push_str(if number == 0 { "" } else { "," });
            out.push_str("{\"apiVersion\":");
            set::write_text(&owned.api_version, &mut out);
            out.push_str(",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
            owned.fields.write_fields_v1(&mut out);
            out.push_str(",\"manager\":");
            set::write_text(&owner.manager, &mut out);
            out.push_str(",\"operation\":");
            set::write_text(owner.operation.name(), &mut out);
            if !owner.subresource.is_empty() {
                out.push_str(",\"subresource\":");
                set::write_text(&owner.subresource, &mut out);
            }
            if let Some(time) = &owned.time {
                out.push_str(",\"time\":");
                set::write_text(time, &mut out);
            }
            out.push('}');
        }
        out.push(']');
        out
    }

    /// Reports whether both are equal except for times.
    pub(super) fn same_but_times(&self, other: &Owners) -> bool {
        let untimed = |owners: &Owners| {
            let each = owners.0.iter();
            each.map(|(owner, owned)| {
                (
                    owner.clone(),
                    owned.api_version.clone(),
                    owned.fields.clone(),
                )
            })
            .collect::<Vec<_>>()
        };
        untimed(self) == untimed(other)
    }

    /// Returns the owners of the field at this path or of any field below it.
    pub(super) fn of_path(&self, path: &[&str]) -> impl Iterator<Item = &Owner> {
        let reaches = |(_, owned): &(&Owner, &Owned)| owned.fields.reaches(path);
        self.0.iter().filter(reaches).map(|(owner, _)| owner)
    }

    /// Removes a field from all its owners. An owner that has no other fields is removed.
    pub(super) fn release(&mut self, path: &[&str]) {
        let field = FieldSet::from_path(path);
        self.0.retain(|_, owned| {
            owned.fields = owned.fields.without_all(&field);
            !owned.fields.is_empty()
        });
    }

    /// Adds an owner of a field.
    pub(super) fn add_path(&mut self, path: &[&str], owner: Owner, api_version: &str) {
        self.add(owner, api_version, &FieldSet::from_path(path));
    }

    fn add(&mut self, owner: Owner, api_version: &str, fields: &FieldSet) -> &mut Owned {
        let owned = self.0.entry(owner).or_insert_with(|| Owned {
            api_version: api_version.to_owned(),
            time: None,
            fields: FieldSet::default(),
        });
        owned.fields = std::mem::take(&mut owned.fields).union(fields);
        owned
    }

    /// Records an update: the writer becomes the only owner of the fields that it changed.
    pub(super) fn update(&mut self, writer: Owner, version: &str, at: &Differences<'_>, now: &str) {
        let Some(own) = at.at(version) else {
            return;
        };
        let all_taken = self.take_over(None, at, true);
        debug_assert!(all_taken.is_ok(), "a forced write has no conflicts");
        let fields = without_identity(&own.written);
        if !fields.is_empty() {
            self.add(writer, version, &fields).time = Some(now.to_owned());
        }
        self.merge_oldest();
    }

    /// Takes the fields that the write changed or removed away from all owners except `writer`.
    /// Changed fields of other owners are conflicts unless `force` is set.
    fn take_over(
        &mut self,
        writer: Option<&Owner>,
        at: &Differences<'_>,
        force: bool,
    ) -> Result<(), Vec<Conflict>> {
        let mut conflicts = Vec::new();
        let mut left = BTreeMap::new();
        for (owner, owned) in &self.0 {
            if Some(owner) == writer {
                left.insert(owner.clone(), owned.clone());
                continue;
            }
            // If the version is no longer served, the fields lose their owner.
            let Some(found) = at.at(&owned.api_version) else {
                continue;
            };
            let taken = owned.fields.intersection(&found.written);
            if !taken.is_empty() {
                conflicts.push(Conflict {
                    owner: owner.shown(),
                    fields: taken.clone(),
                });
            }
            let fields = owned
                .fields
                .without(&taken)
                .without_all(&found.difference.removed);
            if !fields.is_empty() {
                let owned = Owned {
                    fields,
                    ..owned.clone()
                };
                left.insert(owner.clone(), owned);
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        self.0 = left;
        Ok(())
    }

    /// Merges the oldest updaters until there are at most [`UPDATERS_MAX`].
    fn merge_oldest(&mut self) {
        let updaters = self
            .0
            .iter()
            .filter(|(owner, _)| owner.operation == Operation::Update);
        let mut updaters: Vec<(Option<String>, Owner)> = updaters
            .map(|(owner, owned)| (owned.time.clone(), owner.clone()))
            .collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut first_of: BTreeMap<String, Owner> = BTreeMap::new();
        for (time, owner) in updaters {
            if count <= UPDATERS_MAX {
                return;
            }
            let version = owner.version.clone();
            let Some(first) = first_of.get(&version) else {
                first_of.insert(version, owner);
                continue;
            };
            let ancient = Owner::new(Operation::Update, ANCIENT, &version, "");
            let (Some(merged), Some(mut bucket)) = (
                self.0.remove(&owner),
                self.0.remove(&ancient).or_else(|| self.0.remove(first)),
            ) else {
                continue;
            };
            bucket.fields = bucket.fields.union(&merged.fields);
            bucket.time = time;
            self.0.insert(ancient, bucket);
            count -= 1;
        }
    }
}

/// An apply: the manager, its configuration, and the options.
pub(super) struct Application<'a> {
    pub(super) applier: Owner,
    pub(super) api_version: &'a str,
    pub(super) of: Type<'a>,
    pub(super) config: &'a Value,
    /// The fields that the request never writes.
    pub(super) ignored: &'a FieldSet,
    pub(super) force: bool,
    pub(super) now: &'a str,
}

impl Application<'_> {
    /// Applies the configuration to the stored object. Returns the result and its owners.
    /// `difference` compares the stored object with another one in the form of a version.
    pub(super) fn apply(
        &self,
        stored: &Value,
        mut owners: Owners,
        difference: &dyn Fn(&Value, &str) -> Option<Difference>,
    ) -> Result<(Value, Owners), Vec<Conflict>> {
        let last = owners.0.get(&self.applier).cloned();
        let fields = walk::fields_of(self.config, self.of).without_all(self.ignored);
        let owned = Owned {
            api_version: self.api_version.to_owned(),
            time: last.as_ref().and_then(|last| last.time.clone()),
            fields,
        };
        owners.0.insert(self.applier.clone(), owned);
        let mut object = walk::merged(stored, self.config, self.of);
        if let Some(last) = last.filter(|last| !last.fields.is_empty()) {
            object = self.pruned(&object, &owners, &last.fields);
        }
        let compare = |version: &str| difference(&object, version);
        let at = Differences::new(&compare);
        owners.take_over(Some(&self.applier), &at, self.force)?;
        let is_new = at
            .at(self.api_version)
            .is_some_and(|own| !own.difference.is_none());
        if let Some(owned) = owners.0.get_mut(&self.applier) {
            owned.fields = without_identity(&owned.fields);
            if is_new {
                owned.time = Some(self.now.to_owned());
            }
        }
        owners.0.retain(|_, owned| !owned.fields.is_empty());
        owners.merge_oldest();
        Ok((object, owners))
    }

    /// Returns the object without the fields that the applier owned before and no manager owns now.
    fn pruned(&self, object: &Value, owners: &Owners, last: &FieldSet) -> Value {
        let of = self.of;
        let left = walk::removed(object, &last.with_structs(of), of);
        let all = walk::fields_of(object, of).with_structs(of);
        let left = walk::fields_of(&left, of).with_structs(of);
        let owned = owners
            .0
            .values()
            .fold(FieldSet::default(), |all, owned| all.union(&owned.fields));
        // Fields that other managers own, and fields below them, are kept.
        let gone = all.without(&left.union(&owned.with_structs(of)));
        let kept = walk::removed(object, &gone, of);
        let kept = walk::fields_of(&kept, of).with_structs(of);
        let gone = all.without(&kept).intersection(&last.with_structs(of));
        walk::removed(object, &gone, of)
    }
}

impl Owners {
    /// Returns the owners of an object that was never applied: one owner has all its fields.
    pub(super) fn before_first_apply(fields: &FieldSet, api_version: &str, now: &str) -> Owners {
        let owner = Owner::new(Operation::Update, BEFORE_FIRST_APPLY, api_version, "");
        let owned = Owned {
            api_version: api_version.to_owned(),
            time: Some(now.to_owned()),
            fields: without_identity(fields),
        };
        Owners(BTreeMap::from([(owner, owned)]))
    }
}

/// Removes the fields that never have an owner: those that identify an object, and those that the
/// server sets.
fn without_identity(fields: &FieldSet) -> FieldSet {
    const OF_METADATA: [&str; 11] = [
        "name",
        "namespace",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let mut identity = FieldSet::default();
    for name in ["apiVersion", "kind", "metadata"] {
        identity = identity.union(&FieldSet::from_path(&[name]));
    }
    for name in OF_METADATA {
        identity = identity.union(&FieldSet::from_path(&["metadata", name]));
    }
    fields.without(&identity)
}
