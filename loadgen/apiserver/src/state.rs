//! The state of a cluster as a value: taken as of one version, and put into a cluster that goes on from it.
//!
//! Objects are shared, not copied. What can be derived from them is derived again, as by a server that starts: what
//! definitions describe, which object owns which, what the garbage collector has to look at. The history of watches
//! and lists in pages begin with the new cluster.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind, Now};

use crate::any::AnyStore;
use crate::name::IdentityGenerator;
use crate::store::counts::WriteTotals;
use crate::{Cluster, ClusterOptions, builtin, custom};

/// How often a state is taken again because its version was forgotten meanwhile.
const ATTEMPTS: usize = 10;

/// All objects of a cluster as of one version, with their UIDs and versions, and the state from which it makes names
/// and UIDs. Cloning copies a reference for each object.
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
    /// Sorted by namespace and name.
    objects: Vec<AnyObject>,
    totals: WriteTotals,
    /// Whether there ever was an object.
    was_used: bool,
}

impl ClusterState {
    /// The version as of which it is: that of the last write.
    pub fn resource_version(&self) -> u64 {
        self.version
    }

    /// The number of objects.
    pub fn count(&self) -> usize {
        self.kinds.iter().map(|kind| kind.objects.len()).sum()
    }
}

impl Cluster {
    /// The state as of now. Writes go on meanwhile; those that come later are not in it. O(n log n), with all shards
    /// of one kind locked at a time.
    ///
    /// # Errors
    /// 410 where writes come so fast that the history did not reach back to the beginning of any of ten attempts.
    /// A cluster that does not [keep the past](ClusterOptions::keeps_past) needs to be at rest.
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
                // Behind the version: no object of the state has a UID that is drawn again.
                names: Arc::new(self.names.fork()),
                kinds,
            }),
        }
    }

    /// A cluster that goes on from a state: with its objects, UIDs and versions, and the names and UIDs that come next.
    /// The seed of the options is not used. A watch from an older version than that of the state gets 410.
    ///
    /// # Errors
    /// 404 for a kind that this server doesn't know: the state is of a server with other kinds.
    pub fn restored(
        options: ClusterOptions,
        state: &ClusterState,
        now: Now,
    ) -> Result<Cluster, ApiError> {
        let mut cluster = Cluster::new(options);
        cluster.names = state.names.fork();
        // Definitions come first, since they bring the stores of their kinds.
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
        // Only now: what looks at an object finds all others.
        for kind in &state.kinds {
            cluster.with_store(kind.kind, |store| {
                store.notify(&cluster, &kind.objects, now)
            })?;
        }
        Ok(cluster)
    }

    fn restore(&self, state: &KindState, version: u64) -> Result<(), ApiError> {
        // A kind without a past has nothing that a watch could have missed.
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
