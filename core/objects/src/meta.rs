//! Object metadata and owner references.

use std::sync::Arc;

use compact_str::CompactString;

use super::{Labels, OwnerReference, OwnerReferences, ResourceVersion, Rest, Str, Time, Uid};

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObjectMeta {
    /// The name. Names of up to 24 bytes take no allocation.
    pub name: CompactString,
    /// The prefix from which the server generates a name if `name` is empty.
    pub generate_name: Option<Str>,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// The UID, which the server sets at creation.
    pub uid: Uid,
    /// The version, which the server sets at every write.
    pub resource_version: ResourceVersion,
    /// The generation, which counts changes of the spec; 0 before the object is stored.
    pub generation: i64,
    /// The creation time, which the server sets.
    pub creation_timestamp: Time,
    /// The end of the grace period of the deletion; unset until deletion begins.
    pub deletion_timestamp: Time,
    /// The grace period of the deletion in progress, in seconds; absent if there is none.
    pub deletion_grace_period_seconds: OptionalSeconds,
    /// The labels.
    pub labels: Labels,
    /// The annotations.
    pub annotations: Labels,
    /// The owners. At most one of them is the controller.
    pub owner_references: OwnerReferences,
    /// The finalizers, all of which must be removed before the object can be; absent if none.
    pub finalizers: Option<Arc<Vec<Str>>>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// An optional number of seconds that takes no more space than the number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionalSeconds(i64);

impl OptionalSeconds {
    /// The absent number.
    pub const NONE: OptionalSeconds = OptionalSeconds(i64::MIN);

    /// Creates a number of seconds. The smallest `i64`, some 292 thousand million years ago, means
    /// absent.
    pub const fn new(seconds: i64) -> OptionalSeconds {
        OptionalSeconds(seconds)
    }

    /// Returns the number; `None` if absent.
    pub const fn get(self) -> Option<i64> {
        if self.0 == i64::MIN {
            None
        } else {
            Some(self.0)
        }
    }
}

impl Default for OptionalSeconds {
    fn default() -> Self {
        OptionalSeconds::NONE
    }
}

impl From<Option<i64>> for OptionalSeconds {
    fn from(seconds: Option<i64>) -> Self {
        seconds.map_or(OptionalSeconds::NONE, OptionalSeconds)
    }
}

impl std::fmt::Debug for OptionalSeconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl ObjectMeta {
    /// Drops `managedFields`. O(bytes of the unread members) if there are any.
    pub fn strip_for_cache(&mut self) {
        if !self.rest.is_empty() {
            self.rest = self.rest.without("managedFields");
        }
    }

    /// Returns the controller reference, which is the first owner reference whose `controller` is
    /// true; `None` if there is none.
    #[inline]
    pub fn controller(&self) -> Option<&Arc<OwnerReference>> {
        self.owner_references.controller()
    }

    /// Reports whether deletion has begun.
    pub fn is_deleting(&self) -> bool {
        !self.deletion_timestamp.is_unset()
    }

    /// Returns the finalizers; empty if absent.
    #[inline]
    pub fn finalizers(&self) -> &[Str] {
        self.finalizers.as_ref().map_or(&[], |names| names)
    }

    /// Reports whether the object has a finalizer with this name.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers().iter().any(|held| **held == *name)
    }

    /// Appends a finalizer unless it exists.
    pub fn add_finalizer(&mut self, name: &str) {
        if !self.has_finalizer(name) {
            Arc::make_mut(self.finalizers.get_or_insert_default()).push(name.into());
        }
    }

    /// Removes a finalizer, at any position.
    pub fn remove_finalizer(&mut self, name: &str) {
        let rest: Vec<Str> = self
            .finalizers()
            .iter()
            .filter(|held| ***held != *name)
            .cloned()
            .collect();
        self.finalizers = (!rest.is_empty()).then(|| Arc::new(rest));
    }
}
