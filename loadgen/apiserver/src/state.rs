//! The state of a cluster as a value: taken at one version, and restored into a new cluster, which
//! continues from it.
//!
//! Objects are shared, not copied. Derived data is derived again, as when a server starts: the
//! kinds that definitions describe, the owner index, the garbage collector's work. The history for
//! watches and paginated lists starts with the new cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind, Now};

use crate::any::AnyStore;
use crate::name::IdentityGenerator;
use crate::store::counts::WriteTotals;
use crate::{Cluster, ClusterOptions, builtin, custom};

/// The maximum number of attempts to take a state. An attempt fails if its version is dropped from
/// the history in the meantime.
const ATTEMPTS: usize = 10;

/// All objects of a cluster at one version, with their UIDs and versions, and the state of the
/// generator of names and UIDs. Cloning copies one reference per object.
#[derive(Clone, Debug)]
pub struct ClusterState {
    version: u64,
    names: Arc<IdentityGenerator>,
    kinds: Vec<KindState>,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
struct KindState {
    kind: Kind,
    /// The objects, sorted by namespace and name.
    objects: Vec<AnyObject>,
    totals: WriteTotals,
    /// Whether an object of the kind ever existed.
    was_used: bool,
}

impl ClusterState {
    /// Returns the version of the state, which is that of the last write.
    pub fn resource_version(&self) -> u64 {
        self.version
    }

    /// Returns the number of objects.
    pub fn count(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects.len()).sum()
    }
}

impl Cluster {
    /// Returns the current state. Concurrent writes may continue but are not part of it.
    /// O(n log n); locks all shards of one kind at a time.
    ///
    /// # Errors
    /// 410 if writes are so fast that the history no longer reached back to the start of any of ten
    /// attempts. A cluster that does not [keep past states](ClusterOptions::keeps_past) must be
    /// idle.
    pub fn state(&self) -> Result<ClusterState, ApiError> {
        let mut taken = self.state_now();
        for _ in 1..ATTEMPTS {
            if taken.as_ref().is_err_and(|error| error.code == 410) {
                taken = self.state_now();
            }
        }
        taken
    }

    fn state_now(&self) -> Result<ClusterState, ApiError> {
        let version = self.resource_version();
        let mut kinds = Vec::new();
        let mut problem = None;
        self.for_each_store(|store| match kind_state(store, version) {
            Ok(state) => kinds.push(state),
            Err(error) => problem = Some(error),
        });
        match problem {
            Some(error) => Err(error),
            None => Ok(ClusterState {
                version,
                // Forked after the version was read, so that no UID of the state's objects is drawn
                // again.
                names: Arc::new(self.names.fork()),
                kinds,
            }),
        }
    }

    /// Creates a cluster that continues from a state: with the objects, UIDs and versions of the
    /// state, and its sequence of new names and UIDs. Ignores the seed in the options. A watch from
    /// a version older than the state gets a 410.
    ///
    /// # Errors
    /// 404 for a kind that this server doesn't know, because the state comes from a server with
    /// different kinds.
    pub fn restored(
        options: ClusterOptions,
        state: &ClusterState,
        now: Now,
    ) -> Result<Cluster, ApiError> {
        let mut cluster = Cluster::new(options);
        cluster.names = state.names.fork();
        // Definitions first, because they create the stores of their kinds.
        let (definitions, others): (Vec<_>, Vec<_>) = state
            .kinds
            .iter()
            .partition(|state| custom::is_definition(state.kind.row()));
        for kind in &definitions {
            cluster.restore(kind, state.version)?;
            let definitions = kind.objects.iter().cloned();
            for definition in definitions.filter_map(|it| it.downcast::<DynamicObject>()) {
                cluster.restore_definition(&definition, now);
            }
        }
        for kind in &others {
            if kind.kind.row().custom.is_none() && !builtin::is_built_in(kind.kind) {
                cluster.serve_kind(kind.kind)?;
            }
            cluster.restore(kind, state.version)?;
        }
        // Relaxed: no other thread has the cluster yet.
        cluster.version.store(state.version, Ordering::Relaxed);
        // Last, so that the code that handles an object finds all other objects.
        for kind in &state.kinds {
            cluster.with_store(kind.kind, |store| {
                store.notify(&cluster, &kind.objects, now)
            })?;
        }
        Ok(cluster)
    }

    fn restore(&self, state: &KindState, version: u64) -> Result<(), ApiError> {
        // A kind that was never used has no events that a watch could have missed.
        let version = if state.was_used { version } else { 0 };
        self.with_store(state.kind, |store| {
            store.restore(&state.objects, state.totals.clone(), version);
        })
    }
}

fn kind_state(store: &dyn AnyStore, version: u64) -> Result<KindState, ApiError> {
    let totals = store.totals();
    let (objects, _) = store.list_as_of(version)?;
    Ok(KindState {
        kind: store.kind(),
        totals: totals.with_live(objects.len() as u64),
        was_used: store.last_version() > 0,
        objects,
    })
}
