//! The state at a past version, as an API server whose cache lags would serve it.

use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashSet;
use podstorm_objects::{ApiError, ResourceVersion, Str, hash_state};

use super::log::{Position, Unavailable, Undo};
use super::{ClusterResource, Strategy};
use super::{KindStore, Snapshot, sorted};
use crate::{Cluster, Waker, errors};

impl Cluster {
    /// Returns all objects of a kind, or of one namespace, at `version`, sorted by namespace and
    /// name, and that version. O(n log n) in the objects that exist now and the events since the
    /// version.
    ///
    /// # Errors
    /// 410 if the history does not reach back to the version, or the cluster does not [keep past
    /// states](crate::ClusterOptions::keeps_past); 504 for a version that the server has not
    /// reached.
    pub fn list_as_of<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<(Vec<Arc<R>>, ResourceVersion), ApiError> {
        let (state, _) = R::store(self).as_of(namespace, version, None)?;
        Ok((state.objects, ResourceVersion::Number(state.version)))
    }
}

impl<R: Strategy> KindStore<R> {
    /// Returns the state at `version`, and a watch position after it if a watch is requested.
    ///
    /// # Errors
    /// The same as [`Cluster::list_as_of`].
    pub(crate) fn as_of(
        &self,
        namespace: Option<&str>,
        version: u64,
        watch: Option<Option<Waker>>,
    ) -> Result<(Snapshot<R>, Option<Position<R>>), ApiError> {
        let (present, past) = self.collect(namespace, || self.log().undo(version, watch));
        let past = past.map_err(|reason| match reason {
            Unavailable::NotYet { current } => errors::version_too_large(version, current),
            Unavailable::Forgotten { oldest } => errors::expired(version, oldest),
        })?;
        let objects = sorted(undone(present, past.undo, namespace));
        Ok((Snapshot { objects, version }, past.position))
    }
}

/// Returns the current objects with the later events undone.
pub(super) fn undone<R: Strategy>(
    mut objects: Vec<Arc<R>>,
    undo: Vec<Undo<R>>,
    namespace: Option<&str>,
) -> Vec<Arc<R>> {
    if undo.is_empty() {
        return objects;
    }
    let key = |object: &R| -> (Str, CompactString) {
        let metadata = object.metadata();
        (metadata.namespace.clone(), metadata.name.clone())
    };
    // By name, because a recreated object has nothing to do with the earlier object of that name.
    let mut changed = HashSet::with_capacity_and_hasher(undo.len(), hash_state());
    let mut before = Vec::new();
    for event in undo {
        // Before the first later event of a name, the object was as at the version.
        if changed.insert(key(&event.after)) {
            before.extend(event.before);
        }
    }
    objects.retain(|object| !changed.contains(&key(object)));
    let wanted = |object: &Arc<R>| {
        namespace.is_none_or(|namespace| &*object.metadata().namespace == namespace)
    };
    objects.extend(before.into_iter().filter(wanted));
    objects
}

#[cfg(test)]
mod tests;
