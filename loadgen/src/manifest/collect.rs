//! From JSON values to checked objects: kinds told apart, namespaces defaulted, objects decoded
//! and validated, doubles refused, the rest counted.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use podstorm::object::{
    DecodeError, Kind, Namespace, Node, ObjectMeta, Pod, ReplicaSet, ReplicationController,
    Resource,
};
use serde_json::{Map, Value};

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
#[derive(Debug, Default)]
pub(super) struct Collector {
    objects: Vec<InputObject>,
    origins: Vec<Origin>,
    files: Vec<String>,
    /// Indexes into `objects` by kind, namespace and name; and by UID.
    by_name: HashTable<u32>,
    by_uid: HashTable<u32>,
    hasher: FixedHasher,
    counts: InputCounts,
    document: u64,
}

/// ahash with fixed seeds: nothing about a run may differ from one time to the next.
#[derive(Clone, Debug)]
struct FixedHasher(ahash::RandomState);

impl Default for FixedHasher {
    fn default() -> Self {
        FixedHasher(ahash::RandomState::with_seeds(1, 2, 3, 4))
    }
}
