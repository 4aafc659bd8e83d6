//! Stores of any kind, for the garbage collector and for requests whose kind is known only at run
//! time. Also holds the stores of kinds without a Rust type.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{
    AnyObject, ApiError, DecodeError, DynamicObject, Event, Kind, Namespace, Node, Now, Object,
    ObjectMeta, OwnerReference, Pod, Reason, ReplicaSet, ReplicationController, ResourceVersion,
    Str, Uid, hash_state,
};
use serde_json::Value;
use smallvec::SmallVec;

use crate::Places;
use crate::field_manager::Writing;
use crate::store::counts::{WriteEffects, WriteTotals};
use crate::store::owners::ObjectKey;
use crate::store::{KindStore, Shared, Strategy};
use crate::{
    AnyWatch, Cluster, ClusterResource, DeleteOptions, Deletion, ListOptions, ListPage, Patch,
    WatchFrom, WatchOptions, builtin, errors, schemas,
};

/// A store whose kind is known only at run time. Each method carries out the request of the same
/// name.
pub(crate) trait AnyStore: Debug + Send + Sync {
    fn kind(&self) -> Kind;
    fn totals(&self) -> WriteTotals;
    /// See [`KindStore::restore`].
    fn restore(&self, objects: &[AnyObject], totals: WriteTotals, version: u64);
    /// Tells the services of the kind and the garbage collector about objects, as if they were new.
    fn notify(&self, cluster: &Cluster, objects: &[AnyObject], now: Now);
    fn last_version(&self) -> u64;
    fn compact(&self);
    fn index_owners(&self);
    fn set_has_owners(&self);

    /// Returns the namespaces of the objects of this kind with these UIDs. O(n).
    fn namespaces_of(&self, uids: &Places<&Uid>) -> HashMap<Uid, Str, RandomState>;

    /// Returns the size of an object as [`Footprint`](crate::Footprint) counts it; `None` if there
    /// is no such object.
    fn bytes(&self, namespace: &str, name: &str) -> Option<usize>;

    /// Calls `read` with the metadata of an object, if there is such an object.
    fn inspect_metadata(&self, namespace: &str, name: &str, read: &mut dyn FnMut(&ObjectMeta));

    /// See `gc::collect`.
    fn check(&self, cluster: &Cluster, key: &ObjectKey, now: Now);
    fn orphan_dependents(&self, cluster: &Cluster, key: &ObjectKey, now: Now);
    fn strip_owner(&self, cluster: &Cluster, key: &ObjectKey, owner: &Uid, now: Now);

    /// Reads an object of `kind`, a version of this kind.
    fn read(&self, kind: Kind, value: Value) -> Result<AnyObject, DecodeError>;
    fn create(
        &self,
        to: &Cluster,
        object: AnyObject,
        writing: Writing<'_>,
        now: Now,
    ) -> Result<AnyObject, ApiError>;
    fn import(&self, to: &Cluster, object: AnyObject, now: Now) -> Result<AnyObject, ApiError>;
    fn put(
        &self,
        to: &Cluster,
        object: AnyObject,
        writing: Writing<'_>,
        now: Now,
    ) -> Result<AnyObject, ApiError>;
    fn patch(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        patch: &Patch,
        writing: Writing<'_>,
        now: Now,
    ) -> Result<AnyObject, ApiError>;
    fn get(&self, namespace: &str, name: &str) -> Result<AnyObject, ApiError>;
    fn list(
        &self,
        cluster: &Cluster,
        options: &ListOptions<'_>,
    ) -> Result<ListPage<dyn Object>, ApiError>;
    fn list_as_of(&self, version: u64) -> Result<(Vec<AnyObject>, ResourceVersion), ApiError>;
    fn watch(
        &self,
        cluster: &Cluster,
        from: WatchFrom,
        options: WatchOptions,
    ) -> Result<AnyWatch, ApiError>;
    fn delete(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        effects: WriteEffects,
        now: Now,
    ) -> Result<Deletion<dyn Object>, ApiError>;
}

impl<R: Strategy> AnyStore for KindStore<R> {
    fn kind(&self) -> Kind {
        KindStore::kind(self)
    }

    fn totals(&self) -> WriteTotals {
        KindStore::totals(self)
    }

    fn restore(&self, objects: &[AnyObject], totals: WriteTotals, version: u64) {
        let objects = objects.iter().filter_map(|it| it.clone().downcast::<R>());
        KindStore::restore(self, objects, totals, version);
    }

    fn notify(&self, cluster: &Cluster, objects: &[AnyObject], now: Now) {
        for object in objects.iter().filter_map(|it| it.downcast_ref::<R>()) {
            cluster.notify_gc(self, None, Some(object), now);
        }
    }

    fn last_version(&self) -> u64 {
        self.log().last_version()
    }

    fn compact(&self) {
        self.log().compact();
    }

    fn index_owners(&self) {
        KindStore::index_owners(self);
    }

    fn set_has_owners(&self) {
        KindStore::set_has_owners(self);
    }

    fn namespaces_of(&self, uids: &Places<&Uid>) -> HashMap<Uid, Str, RandomState> {
        let mut found = HashMap::with_hasher(hash_state());
        self.for_each(|object| {
            let metadata = object.metadata();
            if uids.contains(&&metadata.uid) {
                found.insert(metadata.uid.clone(), metadata.namespace.clone());
            }
        });
        found
    }

    fn bytes(&self, namespace: &str, name: &str) -> Option<usize> {
        let object = self.read(&self.key(namespace, name))?;
        Some(object.bytes())
    }

    fn inspect_metadata(&self, namespace: &str, name: &str, read: &mut dyn FnMut(&ObjectMeta)) {
        self.inspect(&self.key(namespace, name), |object| read(object.metadata()));
    }

    fn check(&self, cluster: &Cluster, key: &ObjectKey, now: Now) {
        cluster.check(self, key, now);
    }

    fn orphan_dependents(&self, cluster: &Cluster, key: &ObjectKey, now: Now) {
        cluster.orphan_dependents(self, key, now);
    }

    fn strip_owner(&self, cluster: &Cluster, key: &ObjectKey, owner: &Uid, now: Now) {
        cluster.strip_owner(self, key, owner, now);
    }

    fn read(&self, kind: Kind, mut value: Value) -> Result<AnyObject, DecodeError> {
        if let Value::Object(members) = &mut value {
            schemas::fill(kind, members);
        }
        Ok(Arc::new(R::read(kind, value)?))
    }

    fn create(
        &self,
        to: &Cluster,
        object: AnyObject,
        writing: Writing<'_>,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        Ok(to.create_in(self, self.owned(object)?, writing, now)?)
    }

    fn import(&self, to: &Cluster, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        Ok(to.import_in(self, self.owned(object)?, now)?)
    }

    fn put(
        &self,
        to: &Cluster,
        object: AnyObject,
        writing: Writing<'_>,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        Ok(to.put(self, self.owned(object)?, writing, now)?)
    }

    fn patch(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        patch: &Patch,
        writing: Writing<'_>,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        Ok(cluster.apply_patch(self, namespace, name, patch, writing, now)?)
    }

    fn get(&self, namespace: &str, name: &str) -> Result<AnyObject, ApiError> {
        Ok(KindStore::get(self, namespace, name)?)
    }

    fn list(
        &self,
        cluster: &Cluster,
        options: &ListOptions<'_>,
    ) -> Result<ListPage<dyn Object>, ApiError> {
        let page = cluster.list_page_in(self, options)?;
        Ok(ListPage {
            items: page
                .items
                .into_iter()
                .map(|item| item as AnyObject)
                .collect(),
            resource_version: page.resource_version,
            continue_token: page.continue_token,
            remaining: page.remaining,
        })
    }

    fn list_as_of(&self, version: u64) -> Result<(Vec<AnyObject>, ResourceVersion), ApiError> {
        let (state, _) = self.as_of(None, version, None)?;
        let objects = state.objects.into_iter().map(|item| item as AnyObject);
        Ok((objects.collect(), ResourceVersion::Number(state.version)))
    }

    fn watch(
        &self,
        cluster: &Cluster,
        from: WatchFrom,
        options: WatchOptions,
    ) -> Result<AnyWatch, ApiError> {
        Ok(AnyWatch::new(cluster.watch_in(self, from, options)?))
    }

    fn delete(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        effects: WriteEffects,
        now: Now,
    ) -> Result<Deletion<dyn Object>, ApiError> {
        let Deletion { object, removed } =
            cluster.delete_in(self, namespace, name, options, effects, now)?;
        Ok(Deletion { object, removed })
    }
}

impl<R: Strategy> KindStore<R> {
    /// Checks that the object is of this store's kind, and converts it to its Rust type.
    fn owned(&self, object: AnyObject) -> Result<R, ApiError> {
        let found = object.kind();
        match object.downcast::<R>() {
            Some(object) if found == self.kind() => {
                Ok(Arc::unwrap_or_clone(object).of_kind(self.kind()))
            }
            _ => Err(errors::bad_request(format!(
                "the object provided is a {}, expected a {}",
                found.name(),
                self.kind().name()
            ))),
        }
    }
}

/// The stores of the kinds without a Rust type.
#[derive(Debug)]
pub(crate) struct DynamicStores {
    /// The state that all stores of the cluster share.
    shared: Shared,
    /// The stores of the added kinds, and of the built-in kinds that have been used. A kind gets
    /// its store at its first use.
    stores: RwLock<BTreeMap<Kind, LazyStore>>,
    /// Whether an owner of a served kind exists in this cluster or not at all.
    holds_all_owners: AtomicBool,
}

type LazyStore = Arc<OnceLock<KindStore<DynamicObject>>>;

impl DynamicStores {
    pub(crate) fn new(shared: Shared) -> DynamicStores {
        DynamicStores {
            shared,
            stores: RwLock::default(),
            holds_all_owners: AtomicBool::new(false),
        }
    }

    /// Returns the store of a kind, and the kind with the row that has the rules; the row of the
    /// caller's kind may lack them. `None` if the kind is not served.
    fn get(&self, kind: Kind) -> Option<(Kind, LazyStore)> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, store)) = stores.get_key_value(&kind) {
            return Some((*known, store.clone()));
        }
        drop(stores);
        let known = builtin::kinds().find(|known| *known == kind)?;
        let mut stores = self.stores.write().unwrap_or_else(PoisonError::into_inner);
        Some((known, stores.entry(known).or_default().clone()))
    }

    fn make(&self, kind: Kind) -> KindStore<DynamicObject> {
        let store = KindStore::new(kind, &self.shared);
        // Indexed from the first object on, because the other stores may be indexed already.
        store.index_owners();
        store
    }

    /// Returns the stores in use. Allocates if there are more than 16.
    fn all(&self) -> SmallVec<[LazyStore; 16]> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        let used = stores.values().filter(|store| store.get().is_some());
        used.cloned().collect()
    }

    /// Serves a custom kind. `kind` is its storage version.
    ///
    /// # Errors
    /// The kind is built in, or was added by [`Cluster::serve_kind`].
    pub(crate) fn serve_custom(&self, kind: Kind) -> Result<(), ()> {
        if builtin::is_built_in(kind) {
            return Err(());
        }
        let mut stores = self.stores.write().unwrap_or_else(PoisonError::into_inner);
        // The key must refer to the newest row.
        let store = stores.remove_entry(&kind);
        if store
            .as_ref()
            .is_some_and(|(known, _)| known.row().custom.is_none())
        {
            stores.extend(store);
            return Err(());
        }
        stores.insert(kind, store.map(|(_, store)| store).unwrap_or_default());
        Ok(())
    }

    /// Drops the store of a custom kind.
    pub(crate) fn forget_custom(&self, kind: Kind) {
        let mut stores = self.stores.write().unwrap_or_else(PoisonError::into_inner);
        stores.remove(&kind);
    }

    /// Returns the kind that an owner reference names; `None` if the cluster never held an object
    /// of the kind. Such an owner may exist elsewhere, so the cluster can't know whether it still
    /// exists, unless the cluster [holds all owners](Cluster::set_holds_all_owners).
    fn kind_of(&self, owner: &OwnerReference) -> Option<Kind> {
        // Relaxed: set once, before the requests that depend on the flag.
        if self.holds_all_owners.load(Ordering::Relaxed) {
            let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
            let added = stores.keys().copied();
            return added
                .chain(builtin::kinds())
                .find(|kind| is_kind_of(*kind, owner));
        }
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        let (kind, store) = stores.iter().find(|(kind, _)| is_kind_of(**kind, owner))?;
        let held_any = store
            .get()
            .is_some_and(|store| store.log().last_version() > 0);
        held_any.then_some(*kind)
    }
}

fn is_kind_of(kind: Kind, owner: &OwnerReference) -> bool {
    kind.name() == &*owner.kind && kind.is_of_group(&owner.api_version)
}

impl Cluster {
    /// Adds a kind, like a CustomResourceDefinition: its objects are stored, watched, collected
    /// with their owners, deleted with their namespace and counted for quota.
    ///
    /// # Errors
    /// 409 when a kind of this group and resource is already served.
    pub fn serve_kind(&self, kind: Kind) -> Result<(), ApiError> {
        let taken = || {
            let what = format!("{} is already served", kind.group_resource());
            Err(ApiError::status(409, Reason::AlreadyExists, what))
        };
        if builtin::is_built_in(kind) {
            return taken();
        }
        let stores = self.dynamic.stores.write();
        let mut stores = stores.unwrap_or_else(PoisonError::into_inner);
        if stores.contains_key(&kind) {
            return taken();
        }
        stores.insert(kind, LazyStore::default());
        Ok(())
    }

    /// Declares that an owner of a served kind exists in this cluster or not at all. Before this
    /// call, an owner counts as existing if the cluster never held an object of its kind, so that a
    /// cluster can load objects without the owners of its workloads.
    pub fn set_holds_all_owners(&self) {
        // Relaxed: see `kind_of`.
        self.dynamic.holds_all_owners.store(true, Ordering::Relaxed);
    }

    /// Returns the kinds that the server serves, those with a Rust type first. A custom kind is
    /// in its storage version.
    pub fn kinds(&self) -> Vec<Kind> {
        let stores = self.dynamic.stores.read();
        let stores = stores.unwrap_or_else(PoisonError::into_inner);
        let is_added = |kind: &Kind| !builtin::is_built_in(*kind);
        let added = stores.keys().copied().filter(is_added);
        builtin::all_kinds().chain(added).collect()
    }

    fn typed_stores(&self) -> [&dyn AnyStore; Kind::TYPED.len()] {
        // In the order of `Kind::TYPED`.
        [
            &self.namespaces,
            &self.nodes,
            &self.pods,
            &self.replica_sets,
            &self.replication_controllers,
            &self.events,
        ]
    }

    fn typed_store(&self, kind: Kind) -> Option<&dyn AnyStore> {
        // Usually both are the same row.
        let is_row = |known: &Kind| std::ptr::eq(known.row(), kind.row());
        let all = || Kind::TYPED.iter();
        let at = all()
            .position(is_row)
            .or_else(|| all().position(|known| *known == kind))?;
        Some(self.typed_stores()[at])
    }

    /// Calls `act` with the store of a kind. No lock is held during the call.
    ///
    /// # Errors
    /// 404 if the kind is not served.
    pub(crate) fn with_store<T>(
        &self,
        kind: Kind,
        act: impl FnOnce(&dyn AnyStore) -> T,
    ) -> Result<T, ApiError> {
        if let Some(store) = self.typed_store(kind) {
            return Ok(act(store));
        }
        match self.dynamic.get(kind) {
            Some((known, store)) => Ok(act(store.get_or_init(|| self.dynamic.make(known)))),
            None => Err(errors::unknown_resource()),
        }
    }

    /// Calls `act` with the store of a kind without a Rust type.
    ///
    /// # Errors
    /// 404 for any other kind.
    pub(crate) fn with_dynamic_store<T>(
        &self,
        kind: Kind,
        act: impl FnOnce(&KindStore<DynamicObject>) -> T,
    ) -> Result<T, ApiError> {
        let (known, store) = self
            .dynamic
            .get(kind)
            .ok_or_else(errors::unknown_resource)?;
        Ok(act(store.get_or_init(|| self.dynamic.make(known))))
    }

    /// Like [`with_dynamic_store`](Cluster::with_dynamic_store), but skips a store that was never
    /// used: such a store is empty.
    pub(crate) fn with_used_store<T>(
        &self,
        kind: Kind,
        act: impl FnOnce(&KindStore<DynamicObject>) -> T,
    ) -> Option<T> {
        let stores = self.dynamic.stores.read();
        let stores = stores.unwrap_or_else(PoisonError::into_inner);
        let store = stores.get(&kind)?.clone();
        drop(stores);
        store.get().map(act)
    }

    /// Calls `act` with every store that may hold objects, typed kinds first. No lock is held
    /// during the calls.
    pub(crate) fn for_each_store(&self, mut act: impl FnMut(&dyn AnyStore)) {
        self.typed_stores().into_iter().for_each(&mut act);
        for store in self.dynamic.all() {
            if let Some(store) = store.get() {
                act(store);
            }
        }
    }

    /// Returns the kind that an owner reference names; `None` if the cluster can't know whether
    /// the owner exists.
    #[inline]
    pub(crate) fn kind_of(&self, owner: &OwnerReference) -> Option<Kind> {
        Kind::TYPED
            .into_iter()
            .find(|kind| is_kind_of(*kind, owner))
            .or_else(|| self.dynamic.kind_of(owner))
    }
}

/// Implements `ClusterResource` for the kinds with a Rust type.
macro_rules! stores {
    ($($kind:ty: $field:ident),+) => {
        $(impl ClusterResource for $kind {
            fn store(cluster: &Cluster) -> &KindStore<Self> {
                &cluster.$field
            }
        })+
    };
}

stores! {
    Namespace: namespaces, Node: nodes, Event: events, Pod: pods, ReplicaSet: replica_sets,
    ReplicationController: replication_controllers
}
