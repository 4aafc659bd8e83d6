//! The embedded cluster: an API server in memory, with the guarantees a controller depends on.
//!
//! Every method takes `&self` and may be called from any thread; none reads a clock, `now` is
//! passed in. Objects travel as `Arc`s that the store, its watches and all callers share.
//!
//! A write goes: admission (its namespace exists), defaulting and validation, the rules of
//! metadata, all on a private copy and without a lock; then a short commit (`store`) that
//! assigns the version and appends the event to the kind's log (`log`); then, with no lock held,
//! the garbage collector takes note (`gc`) and drained watches are woken.
//!
//! Equal seeds and equal sequences of calls give equal objects, versions and events.

mod any;
mod api;
mod builtin;
pub mod checkers;
mod create;
pub mod defaulting;
mod delete;
mod dynamic;
pub mod errors;
mod finalizer;
mod gc;
mod kinds;
pub mod latency;
mod list;
mod meta;
mod name;
mod patch;
mod pods;
mod scale;
mod store;
mod strategic;
#[cfg(test)]
mod testing;
mod update;
pub mod validation;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_objects::{
    ApiError, Event, Kind, Namespace, Node, Pod, ReplicaSet, ReplicationController,
};

pub use api::Api;
pub use builtin::kind_named;
pub use delete::{DeleteOptions, Deletion, Propagation};
pub use list::{ListOptions, ListPage};
pub use patch::Patch;
pub use scale::{Scalable, Scale, ScaleUpdate};
pub use store::KindStore;
pub use store::counts::{PodTotals, WriteCounts};
pub use store::log::{Change, History};
pub use store::observe::{Commit, CommitObserver};
pub use store::quota::Quota;
pub use store::{ClusterResource, Strategy};
pub use strategic::{PatchProblem, json_merge, strategic_merge};
pub use watch::{AnyWatch, Poll, Watch, WatchFrom, WatchOptions};

use any::DynamicStores;
use gc::GarbageCollector;
use name::IdentityGenerator;
use pods::TemplateCache;
use store::Shared;
use store::lock::Lock;
use store::observe::Observed;
use store::owners::OwnerIndex;
use store::primitives::AtomicU64;

/// Wakes whoever waits for something to happen.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A request as the admission hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The kind to be created.
    pub kind: Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Its name; empty when the server is to make one.
    pub name: &'a str,
}

/// Decides whether an object may be created: the place of quota and other policies. The error is
/// the answer to the request.
pub type Admission = Arc<dyn Fn(&AdmissionRequest<'_>) -> Result<(), ApiError> + Send + Sync>;

/// How a cluster is made.
#[derive(Clone, Default)]
pub struct ClusterOptions {
    /// Seed of UIDs and generated names.
    pub seed: u64,
    /// How much of the past each kind's watches can go back to.
    pub history: History,
    /// Asked before every create, after the namespace was found.
    pub admission: Option<Admission>,
    /// Whether the state as of older versions is kept, as far back as `history` goes: for
    /// [`list_as_of`](Cluster::list_as_of) and [`WatchFrom::InitialAsOf`]. It costs a pointer an
    /// event, and every event keeps the object before it alive.
    pub keeps_past: bool,
    /// Looks at every committed write; without one, nothing is spent on it.
    pub observer: Option<Arc<dyn CommitObserver>>,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions")
            .field("seed", &self.seed)
            .field("history", &self.history)
            .field("admission", &self.admission.is_some())
            .field("keeps_past", &self.keeps_past)
            .field("observer", &self.observer.is_some())
            .finish()
    }
}

/// The embedded API server.
#[derive(Debug)]
pub struct Cluster {
    options: ClusterOptions,
    /// The last version assigned; every commit of any kind takes the next one.
    version: Arc<AtomicU64>,
    names: IdentityGenerator,
    owners: Arc<OwnerIndex>,
    garbage: GarbageCollector,
    templates: TemplateCache,
    lists: list::PagedLists,
    pub(crate) namespaces: KindStore<Namespace>,
    pub(crate) nodes: KindStore<Node>,
    pub(crate) pods: KindStore<Pod>,
    pub(crate) replica_sets: KindStore<ReplicaSet>,
    pub(crate) replication_controllers: KindStore<ReplicationController>,
    pub(crate) events: KindStore<Event>,
    /// The kinds without a type of their own.
    dynamic: DynamicStores,
}

impl Cluster {
    /// An empty cluster: no namespace either.
    pub fn new(options: ClusterOptions) -> Cluster {
        let observed = options.observer.clone().map(|observer| {
            Arc::new(Observed {
                turn: Lock::default(),
                observer,
            })
        });
        let shared = Shared {
            history: options.history,
            keeps_past: options.keeps_past,
            version: Arc::default(),
            owners: Arc::new(OwnerIndex::new()),
            observed,
        };
        Cluster {
            names: IdentityGenerator::new(options.seed),
            garbage: GarbageCollector::new(),
            templates: TemplateCache::new(),
            lists: list::PagedLists::new(),
            namespaces: KindStore::new(Kind::NAMESPACE, &shared),
            nodes: KindStore::new(Kind::NODE, &shared),
            pods: KindStore::new(Kind::POD, &shared),
            replica_sets: KindStore::new(Kind::REPLICA_SET, &shared),
            replication_controllers: KindStore::new(Kind::REPLICATION_CONTROLLER, &shared),
            events: KindStore::new(Kind::EVENT, &shared),
            options,
            version: shared.version.clone(),
            owners: shared.owners.clone(),
            dynamic: DynamicStores::new(shared),
        }
    }

    /// The last version the server has assigned, 0 before the first write.
    pub fn resource_version(&self) -> u64 {
        // Relaxed: a moment's reading; whoever needs more takes a list's version.
        self.version.load(Ordering::Relaxed)
    }

    /// The version of the last write of this kind, 0 before the first. A watch of the kind comes to
    /// it without a bookmark, which a list's version, the whole server's, may need.
    pub fn last_version<R: ClusterResource>(&self) -> u64 {
        R::store(self).log().last_version()
    }

    /// The number of objects of a kind.
    pub fn count<R: ClusterResource>(&self) -> u64 {
        R::store(self).totals().live()
    }

    /// What was written so far.
    pub fn write_counts(&self) -> WriteCounts {
        let mut counts = WriteCounts::default();
        self.for_each_store(|store| counts.add(store.kind(), &store.totals()));
        counts
    }

    /// Of what was written so far, what became of the pods: at the cost of one short lock.
    pub fn pod_totals(&self) -> PodTotals {
        PodTotals::of(&self.pods.totals())
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// 410 when the history does not reach back to the version asked for; 504 for the state as of
    /// a version that the server has not come to.
    pub fn watch<R: ClusterResource>(
        &self,
        from: WatchFrom,
        options: WatchOptions,
    ) -> Result<Watch<R>, ApiError> {
        self.watch_in(R::store(self), from, options)
    }

    pub(crate) fn watch_in<R: Strategy>(
        &self,
        store: &KindStore<R>,
        from: WatchFrom,
        options: WatchOptions,
    ) -> Result<Watch<R>, ApiError> {
        let log = store.log().clone();
        let waker = options.waker.clone();
        match from {
            WatchFrom::Version(version) => {
                let position = log
                    .open_behind(version, waker)
                    .map_err(|oldest| errors::expired(version, oldest))?;
                Ok(Watch::new(log, position, version, None, &options))
            }
            WatchFrom::Initial => {
                let (snapshot, position) = store.snapshot_and_watch(waker);
                let (after, objects) = (snapshot.version, Some(snapshot.objects));
                Ok(Watch::new(log, position, after, objects, &options))
            }
            WatchFrom::InitialAsOf(version) => {
                let (state, position) = store.as_of(None, version, Some(waker))?;
                let position = position.expect("a watch was asked for");
                let objects = Some(state.objects);
                Ok(Watch::new(log, position, version, objects, &options))
            }
        }
    }

    /// Forgets the event history of a kind, as compaction does: a watch opened behind an older
    /// version is answered 410.
    pub fn compact<R: ClusterResource>(&self) {
        R::store(self).log().compact();
    }
}
