//! The state as of an older version: what an API server answers whose cache lags behind.

use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashSet;
use podstorm_objects::{ApiError, ResourceVersion, Str};

use super::log::{Position, Unavailable, Undo};
use super::{ClusterResource, Strategy};
use super::{KindStore, Snapshot, sorted};
use crate::{Cluster, Waker, errors};

/// Fixed seeds: what iterates is sorted, and runs stay repeatable down to the allocations.
const HASHER: ahash::RandomState = ahash::RandomState::with_seeds(1, 2, 3, 4);

impl Cluster {
    /// All objects of a kind (or of one namespace) as they were at `version`, sorted by namespace
    /// and name, and that version. O(n log n) for what exists now plus what happened since.
    ///
    /// # Errors
    /// 410 when the history does not reach back so far, as when the cluster
    /// [keeps no past](crate::ClusterOptions::keeps_past); 504 for a version that the server has
    /// not come to.
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
    /// The state as of `version`, and a position behind it for a watch where one is asked for.
    ///
    /// # Errors
    /// 410 and 504 as [`Cluster::list_as_of`].
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

/// The present objects with the events since taken back.
fn undone<R: Strategy>(
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
    // By name: an object made anew under a name has nothing to do with what had it before.
    let mut changed = HashSet::with_capacity_and_hasher(undo.len(), HASHER);
    let mut before = Vec::new();
    for event in undo {
        // The first event on a name since then knows what was there.
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
