//! An in-memory Kubernetes API server for tests of controllers: one process, no network, no etcd.
//! It provides what controllers depend on: resource versions and optimistic concurrency, list and
//! watch, defaulting and validation, graceful deletion, finalizers, garbage collection, namespaces,
//! quota, `/status` and `/scale`.
//!
//! ```
//! use podstorm_apiserver::{Cluster, ClusterOptions, WatchFrom, WatchOptions};
//! use podstorm_objects::{Namespace, Now, Pod, ReplicaSet, Resource, WatchEvent};
//! use serde_json::json;
//!
//! let cluster = Cluster::new(ClusterOptions::default());
//! let now = Now { mono_ns: 0, wall_ns: 1_767_225_600_000_000_000 };
//! cluster.create(Namespace::from_json(json!({"metadata": {"name": "shop"}}))?, now)?;
//!
//! let mut watch = cluster.watch::<Pod>(WatchFrom::Initial, WatchOptions::default())?;
//! let template = json!({
//!     "metadata": {"labels": {"app": "web"}},
//!     "spec": {"containers": [{"name": "app", "image": "shop/web:1"}]},
//! });
//! let replica_set = json!({
//!     "metadata": {"name": "web", "namespace": "shop"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template.clone()},
//! });
//! let replica_set = cluster.create(ReplicaSet::from_json(replica_set)?, now)?;
//! assert_eq!(replica_set.spec.replicas, Some(1), "a default value");
//!
//! let mut pod = template;
//! pod["metadata"]["generateName"] = json!("web-");
//! pod["metadata"]["namespace"] = json!("shop");
//! let pod = cluster.create(Pod::from_json(pod)?, now)?;
//!
//! let mut events = Vec::new();
//! watch.poll(100, now, &mut events);
//! // First the end of the initial state, which is empty; then the new pod.
//! assert!(matches!(&events[..], [WatchEvent::Bookmark { .. }, WatchEvent::Added(added)] if *added == pod));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every method takes `&self` and may be called from any thread. Methods read no clock: the time is
//! the argument `now`. Objects are `Arc`s that the store, its watches and all callers share. Equal
//! seeds and equal sequences of calls give equal objects, versions and events.
//!
//! A write is prepared on a private copy and without a lock: admission (the namespace exists),
//! defaulting, validation and the rules of metadata. A short commit (`store`) then assigns the
//! version and appends the event to the kind's log (`log`). After that, with no lock held, the
//! garbage collector (`gc`) is notified and drained watches are woken.
//!
//! The program that runs the cluster must call the garbage collector
//! ([`Cluster::collect_garbage`]). A client must empty the namespaces that are being deleted and
//! finalize them ([`Cluster::finalize`]).
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `store`, `watch`, `list`, `select`, `state` | the objects of one kind and the log of their events; watches; lists; selectors; a cluster's state as a value |
//! | `create`, `update`, `patch`, `scale`, `delete`, `pods` | write requests; `pods` has the frequent ones for pods, eviction, and the admission plugins |
//! | `builtin`, `dynamic`, `gated` | the built-in kinds, each with all that is its own; the strategy of the kinds without a Rust type |
//! | [`schemas`], `strategic` | the fields of Kubernetes' types (types, merge rules, defaults, values), and the strategic merge patch |
//! | [`validation`], [`errors`], `internal` | the validation rules; every error with upstream's text; values as messages quote them |
//! | [`custom`] | CustomResourceDefinitions: names, schemas, the rows of the kinds that they describe |
//! | `any`, `api` | stores and requests for kinds that are known only at run time; only `any` lists the six kinds with a Rust type |
//! | `quotas`, `ranges`, `default_class` | ResourceQuotas; LimitRanges; the default storage class of claims |
//! | `gc`, [`namespaces`], `finalizer` | the garbage collector; the server's part in the deletion of a namespace |
//! | [`limits`], [`time_limit`] | the maximum size of a document and the maximum duration of a request |
//! | [`latency`] | distributions of durations, among them the delay of watch events |
//! | `checkers` | for tests: checks commits, lists, watches and refusals against the server's history |

mod any;
mod api;
mod builtin;
#[cfg(test)]
mod checkers;
mod create;
pub mod custom;
mod default_class;
mod delete;
mod dynamic;
pub mod errors;
mod field_manager;
mod finalizer;
mod gated;
mod gc;
mod internal;
pub mod latency;
pub mod limits;
mod list;
mod meta;
mod name;
pub mod namespaces;
mod patch;
mod pods;
mod quotas;
mod ranges;
mod scale;
pub mod schemas;
mod select;
mod state;
mod store;
mod strategic;
#[cfg(test)]
mod testing;
pub mod time_limit;
mod update;
pub mod validation;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_objects::{
    ApiError, Event, Kind, Namespace, Node, Pod, ReplicaSet, ReplicationController,
};

pub use api::Api;
pub use builtin::{
    OTHER_VERSIONS, OtherVersion, column_description, kind_named, verbs, warnings_of,
};
pub use create::validate_loaded;
pub use delete::Deletion;
pub use field_manager::FieldManager;
pub use gc::GarbageItem;
pub use internal::quoted as internal_text;
pub use list::{ListOptions, ListPage, Select};
pub use meta::check_patched;
pub use patch::{Operation, Patch};
pub use pods::evict::{Eviction, EvictionCalls, EvictionRequest, evict};
pub use pods::{Annotations, Binding, NewPod, Plugin, Plugins, add_by_key};
pub use podstorm_objects::{
    DeleteOptions, PatchProblem, Places, Propagation, Scale, defaulting, go_text, json_merge,
};
pub use quotas::{pod_limits, pod_requests};
pub use scale::{Scalable, ScaleUpdate};
pub use select::Selectors;
pub use state::ClusterState;
pub use store::KindStore;
pub use store::counts::{PodTotals, WriteCounts};
pub use store::log::{Change, History};
pub use store::observe::{Commit, CommitObserver};
pub use store::{ClusterResource, Footprint, PodPart, Strategy};
pub use strategic::strategic_merge;
pub use watch::{AnyWatch, Poll, Seen, Watch, WatchFrom, WatchOptions};

use any::DynamicStores;
use gc::GarbageCollector;
use name::IdentityGenerator;
use pods::TemplateCache;
use store::Shared;
use store::lock::Lock;
use store::observe::Observed;
use store::owners::OwnerIndex;
use store::primitives::AtomicU64;

/// A closure that wakes a task.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A request as the admission hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// The kind of the new object.
    pub kind: Kind,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name; empty when the server generates one.
    pub name: &'a str,
}

/// A caller's admission policy: decides whether an object may be created. The error is returned to
/// the client.
pub type Admission = Arc<dyn Fn(&AdmissionRequest<'_>) -> Result<(), ApiError> + Send + Sync>;

/// Options of a cluster.
#[derive(Clone, Default)]
pub struct ClusterOptions {
    /// The seed for UIDs and generated names.
    pub seed: u64,
    /// How many past events each kind keeps for watches.
    pub history: History,
    /// The caller's admission policy. Called for every create and import, after the namespace
    /// check.
    pub admission: Option<Admission>,
    /// Whether past states are kept, as far back as `history` reaches, for
    /// [`list_as_of`](Cluster::list_as_of) and [`WatchFrom::InitialAsOf`]. This costs a pointer
    /// per event, and each event keeps the previous version of its object alive.
    pub keeps_past: bool,
    /// An observer of every commit. No observer means no cost.
    pub observer: Option<Arc<dyn CommitObserver>>,
    /// Turns the garbage collector off because a client collects the garbage: dependents
    /// outlive their owner, and the finalizers `orphan` and `foregroundDeletion` stay until the
    /// client removes them.
    pub leaves_garbage: bool,
    /// Leaves the recount of quotas to a client. Creates and updates are still charged, but
    /// deletions release nothing, and a quota whose status has no limits refuses nothing.
    pub leaves_quotas: bool,
    /// Whether the garbage collector writes Events about owner references to another namespace.
    pub records_gc_events: bool,
    /// Refuses privileged containers in pods and pod templates, like kube-apiserver with
    /// `--allow-privileged=false`.
    pub forbids_privileged: bool,
    /// Whether the pods that controllers create from templates are [admitted](Cluster::admit_pod)
    /// like the pods of other clients. Admission sets the priority and tolerations, which only
    /// clients read.
    pub admits_templates: bool,
    /// The enabled admission plugins.
    pub plugins: Plugins,
    /// Feature gates by name. A missing gate is off.
    pub feature_gates: BTreeMap<String, bool>,
    /// How long admission lets new pods tolerate an unreachable node, in seconds. Default: 300.
    pub unreachable_toleration_seconds: Option<i64>,
}

impl fmt::Debug for ClusterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterOptions")
            .field("seed", &self.seed)
            .field("history", &self.history)
            .field("admission", &self.admission.is_some())
            .field("keeps_past", &self.keeps_past)
            .field("observer", &self.observer.is_some())
            .field("leaves_garbage", &self.leaves_garbage)
            .field("leaves_quotas", &self.leaves_quotas)
            .field("records_gc_events", &self.records_gc_events)
            .field("forbids_privileged", &self.forbids_privileged)
            .field("admits_templates", &self.admits_templates)
            .field("plugins", &self.plugins)
            .field("feature_gates", &self.feature_gates)
            .field(
                "unreachable_toleration_seconds",
                &self.unreachable_toleration_seconds,
            )
            .finish()
    }
}

/// The embedded API server.
#[derive(Debug)]
pub struct Cluster {
    options: ClusterOptions,
    /// The last resource version. Each commit, of any kind, takes the next one.
    version: Arc<AtomicU64>,
    names: IdentityGenerator,
    owners: Arc<OwnerIndex>,
    garbage: GarbageCollector,
    terminations: namespaces::Terminations,
    templates: TemplateCache,
    pub(crate) seen: quotas::Seen,
    pub(crate) namespaces: KindStore<Namespace>,
    pub(crate) nodes: KindStore<Node>,
    pub(crate) pods: KindStore<Pod>,
    pub(crate) replica_sets: KindStore<ReplicaSet>,
    pub(crate) replication_controllers: KindStore<ReplicationController>,
    pub(crate) events: KindStore<Event>,
    /// The stores of the kinds without a Rust type.
    dynamic: DynamicStores,
    definitions: custom::Definitions,
}

impl Cluster {
    /// Creates an empty cluster, without any namespace.
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
            garbage: GarbageCollector::new(options.leaves_garbage),
            terminations: namespaces::Terminations::default(),
            templates: TemplateCache::new(),
            seen: quotas::Seen::default(),
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
            definitions: custom::Definitions::default(),
        }
    }

    /// Returns the last resource version that the server has assigned; 0 before the first write.
    pub fn resource_version(&self) -> u64 {
        // Relaxed: a snapshot that orders nothing; the version of a list is exact.
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the version of the last write of this kind; 0 before the first. A watch of the kind
    /// reaches this version by events alone. To reach the version of a list, which is that of the
    /// whole server, the watch may need a bookmark.
    pub fn last_version<R: ClusterResource>(&self) -> u64 {
        R::store(self).log().last_version()
    }

    /// Returns the number of objects of a kind.
    pub fn count<R: ClusterResource>(&self) -> u64 {
        R::store(self).totals().live()
    }

    /// Returns the counts of all commits so far.
    pub fn write_counts(&self) -> WriteCounts {
        let mut counts = WriteCounts::default();
        self.for_each_store(|store| counts.add(store.kind(), &store.totals()));
        counts
    }

    /// Returns the totals of pods, which [`write_counts`](Cluster::write_counts) includes as well.
    /// Takes one short lock.
    pub fn pod_totals(&self) -> PodTotals {
        PodTotals::from_writes(&self.pods.totals())
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// 410 when the history does not reach back to the version; 504 for a state at a version that
    /// the server has not reached.
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
                let position = position.expect("a watch was requested");
                let objects = Some(state.objects);
                Ok(Watch::new(log, position, version, objects, &options))
            }
        }
    }

    /// Compacts the event history of a kind: a watch from an older version gets a 410.
    pub fn compact<R: ClusterResource>(&self) {
        R::store(self).log().compact();
    }
}
