//! The history of all commits, and the rules that it must obey by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use podstorm_objects::{AnyObject, Kind, Object, Uid};

use super::{Violation, Violations};
use crate::{Change, Commit, CommitObserver};

/// A recorder of every commit of a cluster. Keeps every state of every object in memory.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    records: Mutex<Vec<Commit>>,
}

impl Recorder {
    /// Returns the history so far. O(commits).
    pub(crate) fn history(&self) -> History {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        History::new(records.clone())
    }
}

impl CommitObserver for Recorder {
    fn committed(&self, commit: &Commit) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(commit.clone());
    }
}

/// The kind, namespace and name of an object: the sort key of states.
pub(super) type Key = (Kind, String, String);

pub(super) fn key_of(object: &dyn Object) -> Key {
    let metadata = object.metadata();
    (
        object.kind(),
        metadata.namespace.to_string(),
        metadata.name.to_string(),
    )
}

/// Reports whether two objects are equal in all members.
pub(super) fn same(a: &dyn Object, b: &dyn Object) -> bool {
    a == b
}

/// Describes an object briefly, for messages.
pub(super) fn shown(object: &dyn Object) -> String {
    let metadata = object.metadata();
    format!(
        "{} {}/{} at {}",
        object.kind().name(),
        &*metadata.namespace,
        metadata.name,
        metadata.resource_version
    )
}

/// All commits of a cluster, from the first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    records: Vec<Commit>,
}

impl History {
    /// Creates a history of these commits, in the order in which they were observed.
    pub(crate) fn new(records: Vec<Commit>) -> History {
        History { records }
    }

    /// Returns the commits.
    pub(crate) fn records(&self) -> &[Commit] {
        &self.records
    }

    /// Returns the version of the last commit; 0 before the first.
    pub(crate) fn last_version(&self) -> u64 {
        self.records.last().map_or(0, |record| record.version)
    }

    /// Returns the commits of a kind after `version`, in order.
    pub(super) fn since(&self, kind: Kind, version: u64) -> impl Iterator<Item = &Commit> {
        let from = self
            .records
            .partition_point(|record| record.version <= version);
        let of_kind = move |record: &&Commit| record.new.kind() == kind;
        self.records[from..].iter().filter(of_kind)
    }

    /// Returns the objects of a kind at `version`, sorted by namespace and name. Replays the
    /// commits. O(commits).
    pub(crate) fn state_at(&self, kind: Kind, version: u64) -> Vec<&AnyObject> {
        let mut state: BTreeMap<Key, &AnyObject> = BTreeMap::new();
        for record in self.records.iter().take_while(|it| it.version <= version) {
            let object = &*record.new;
            if object.kind() != kind {
                continue;
            }
            if record.change == Change::Deleted {
                state.remove(&key_of(object));
            } else {
                state.insert(key_of(object), &record.new);
            }
        }
        state.into_values().collect()
    }

    /// Checks the rules of versions, identity and metadata. Versions are dense, and each object has
    /// the version of its commit. Every write starts from the previous state, so that no write is
    /// lost. UIDs are unique. Creation times are constant, generations never decrease, and
    /// deletions are not undone. A write without a change is not committed.
    pub(crate) fn check(&self) -> Vec<Violation> {
        let mut broken = Violations::default();
        let mut state: BTreeMap<Key, &AnyObject> = BTreeMap::new();
        let mut uids: BTreeSet<&Uid> = BTreeSet::new();
        for (record, expected) in self.records.iter().zip(1..) {
            let new = &*record.new;
            let name = || shown(new);
            let version = record.version;
            broken.unless(version == expected, "dense versions", || {
                format!("found {version} instead of {expected}")
            });
            broken.unless(
                new.metadata().resource_version.number() == Some(version),
                "own version",
                || format!("{} was committed with version {version}", name()),
            );
            let key = key_of(new);
            let live = state.get(&key).copied();
            let old = record.old.as_ref();
            let follows = match (old, live) {
                (None, None) => record.change == Change::Added,
                (Some(old), Some(live)) => record.change != Change::Added && same(&**old, &**live),
                _ => false,
            };
            broken.unless(follows, "no lost update", || {
                let state = live.map_or("nothing".into(), |live| shown(&**live));
                let start = old.map_or("nothing".into(), |old| shown(&**old));
                let change = record.change;
                format!(
                    "{change:?} {} starts from {start}, but {state} is stored",
                    name()
                )
            });
            match old {
                Some(old) => check_step(&**old, record, &mut broken),
                None => {
                    let fresh = uids.insert(&new.metadata().uid);
                    broken.unless(fresh, "unique UID", || format!("{} reuses a UID", name()));
                }
            }
            if record.change == Change::Deleted {
                state.remove(&key);
            } else {
                state.insert(key, &record.new);
            }
        }
        broken.0
    }
}

/// Checks the rules of metadata between two consecutive states of an object.
fn check_step(old: &dyn Object, record: &Commit, broken: &mut Violations) {
    let new = &*record.new;
    let (before, after) = (old.metadata(), new.metadata());
    let name = || shown(new);
    broken.unless(before.uid == after.uid, "same UID", || {
        format!("{} had {}, has {}", name(), before.uid, after.uid)
    });
    broken.unless(
        before.creation_timestamp == after.creation_timestamp,
        "creation time",
        || format!("{} changes its creation time", name()),
    );
    broken.unless(
        !before.is_deleting() || after.is_deleting(),
        "deletion stays",
        || format!("{} is no longer being deleted", name()),
    );
    broken.unless(before.generation <= after.generation, "generation", || {
        let (before, after) = (before.generation, after.generation);
        format!("{} went from {before} to {after}", name())
    });
    if record.change == Change::Modified {
        let members = |object: &dyn Object| {
            let mut json = object.to_json();
            if let Some(metadata) = json["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            json
        };
        broken.unless(members(new) != members(old), "no empty write", || {
            format!("{} differs only in its version", name())
        });
    }
}
