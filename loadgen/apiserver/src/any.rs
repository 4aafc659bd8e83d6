//! Stores of any kind: what the garbage collector and requests for a kind that is known only when they come
//! need of one, and the stores of the kinds without a type of their own.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::{Arc, PoisonError, RwLock};

use podstorm_objects::{
    AnyObject, ApiError, DecodeError, DynamicObject, Kind, Now, Object, ObjectMeta, OwnerReference,
    Reason, ResourceVersion, Uid, WatchEvent,
};
use serde_json::Value;

use crate::store::counts::{TallyTotals, Verb};
use crate::store::owners::ObjectKey;
use crate::store::quota::Quota;
use crate::store::{KindStore, Shared, Strategy};
use crate::{
    Cluster, DeleteOptions, Deletion, ListOptions, ListPage, Patch, Poll, Watch, WatchFrom,
    WatchOptions, errors,
};

/// A store whose kind is not known where it is used. What it does to an object is what the requests of
/// the same name do.
pub(crate) trait AnyStore: Debug + Send + Sync {
    fn kind(&self) -> Kind;
    fn totals(&self) -> TallyTotals;
    fn last_version(&self) -> u64;
    fn index_owners(&self);
    fn set_has_owners(&self);
    fn set_quota(&self, namespace: &str, limit: Option<u64>);
    fn quota(&self, namespace: &str) -> Option<Quota>;

    /// Calls `read` with the metadata of an object that is there.
    fn inspect_metadata(&self, namespace: &str, name: &str, read: &mut dyn FnMut(&ObjectMeta));

    /// See `gc::collect`.
    fn check(&self, cluster: &Cluster, key: &ObjectKey, now: Now);
    fn orphan_dependents(&self, cluster: &Cluster, key: &ObjectKey, now: Now);
    fn strip_owner(&self, cluster: &Cluster, key: &ObjectKey, owner: &Uid, now: Now);

    /// See `gc::namespace`.
    fn delete_all(&self, cluster: &Cluster, namespace: &str, now: Now) -> (u64, bool);

    fn read(&self, value: Value) -> Result<AnyObject, DecodeError>;
    fn create(&self, to: &Cluster, object: AnyObject, now: Now) -> Result<AnyObject, ApiError>;
    fn import(&self, to: &Cluster, object: AnyObject, now: Now) -> Result<AnyObject, ApiError>;
    fn put(
        &self,
        to: &Cluster,
        object: AnyObject,
        verb: Verb,
        now: Now,
    ) -> Result<AnyObject, ApiError>;
    fn patch(
        &self,
        cluster: &Cluster,
        at: (&str, &str),
        patch: &Patch,
        verb: Verb,
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
        at: (&str, &str),
        options: &DeleteOptions,
        now: Now,
    ) -> Result<Deletion<dyn Object>, ApiError>;
}

impl<R: Strategy> AnyStore for KindStore<R> {
    fn kind(&self) -> Kind {
        KindStore::kind(self)
    }

    fn totals(&self) -> TallyTotals {
        KindStore::totals(self)
    }

    fn last_version(&self) -> u64 {
        self.log().last_version()
    }

    fn index_owners(&self) {
        KindStore::index_owners(self);
    }

    fn set_has_owners(&self) {
        KindStore::set_has_owners(self);
    }

    fn set_quota(&self, namespace: &str, limit: Option<u64>) {
        KindStore::set_quota(self, namespace, limit);
    }

    fn quota(&self, namespace: &str) -> Option<Quota> {
        self.quotas().of(namespace)
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

    fn delete_all(&self, cluster: &Cluster, namespace: &str, now: Now) -> (u64, bool) {
        cluster.delete_all(self, namespace, now)
    }

    fn read(&self, value: Value) -> Result<AnyObject, DecodeError> {
        Ok(Arc::new(R::read(KindStore::kind(self), value)?))
    }

    fn create(&self, to: &Cluster, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        Ok(to.create_in(self, self.owned(object)?, now)?)
    }

    fn import(&self, to: &Cluster, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        Ok(to.import_in(self, self.owned(object)?, now)?)
    }

    fn put(
        &self,
        to: &Cluster,
        object: AnyObject,
        verb: Verb,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        Ok(to.put(self, self.owned(object)?, verb, now)?)
    }

    fn patch(
        &self,
        cluster: &Cluster,
        at: (&str, &str),
        patch: &Patch,
        verb: Verb,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        Ok(cluster.apply_patch(self, at, patch, verb, now)?)
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
        at: (&str, &str),
        options: &DeleteOptions,
        now: Now,
    ) -> Result<Deletion<dyn Object>, ApiError> {
        let Deletion { object, removed } = cluster.delete_in(self, at, options, now)?;
        Ok(Deletion { object, removed })
    }
}

impl<R: Strategy> KindStore<R> {
    /// The object as one of this kind, to be changed.
    fn owned(&self, object: AnyObject) -> Result<R, ApiError> {
        let found = object.kind();
        match object.downcast::<R>() {
            Some(object) if found == self.kind() => Ok(Arc::unwrap_or_clone(object)),
            _ => Err(errors::bad_request(format!(
                "the object provided is a {}, a {} is wanted",
                found.name(),
                self.kind().name()
            ))),
        }
    }
}

/// The stores of the kinds without a type of their own.
#[derive(Debug)]
pub(crate) struct DynamicStores {
    /// What a new store is made with.
    shared: Shared,
    stores: RwLock<BTreeMap<Kind, Arc<KindStore<DynamicObject>>>>,
}

impl DynamicStores {
    pub(crate) fn new(shared: Shared) -> DynamicStores {
        DynamicStores {
            shared,
            stores: RwLock::default(),
        }
    }

    fn get(&self, kind: Kind) -> Option<Arc<KindStore<DynamicObject>>> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.get(&kind).cloned()
    }

    fn all(&self) -> Vec<Arc<KindStore<DynamicObject>>> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.values().cloned().collect()
    }

    fn kind_of(&self, owner: &OwnerReference) -> Option<Kind> {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        stores.keys().copied().find(|kind| is_kind_of(*kind, owner))
    }
}

fn is_kind_of(kind: Kind, owner: &OwnerReference) -> bool {
    kind.name() == &*owner.kind && kind.is_of_group(&owner.api_version)
}

impl Cluster {
    /// Serves objects of a kind without a type of its own from now on, like those that every cluster
    /// serves: they are stored, watched, collected with their owners, deleted with their
    /// namespace and counted for quota.
    ///
    /// # Errors
    /// 409 when a kind of that group and resource is served already.
    pub fn serve_kind(&self, kind: Kind) -> Result<(), ApiError> {
        let taken = || {
            let what = format!("{} is served already", kind.group_resource());
            Err(ApiError::status(409, Reason::AlreadyExists, what))
        };
        if self.typed_store(kind).is_some() {
            return taken();
        }
        let store = KindStore::new(kind, &self.dynamic.shared);
        // From its first object on: whether the others are indexed by now can't be told here.
        store.index_owners();
        let stores = self.dynamic.stores.write();
        let mut stores = stores.unwrap_or_else(PoisonError::into_inner);
        if stores.contains_key(&kind) {
            return taken();
        }
        stores.insert(kind, Arc::new(store));
        Ok(())
    }

    /// The kinds that the server serves: first those with a type of their own.
    pub fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        self.each_store(|store| kinds.push(store.kind()));
        kinds
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
        let at = Kind::TYPED.iter().position(|known| *known == kind)?;
        Some(self.typed_stores()[at])
    }

    /// Lets `act` have the store of a kind; no lock is held meanwhile.
    ///
    /// # Errors
    /// 404 for a kind that is not served.
    pub(crate) fn on_store<T>(
        &self,
        kind: Kind,
        act: impl FnOnce(&dyn AnyStore) -> T,
    ) -> Result<T, ApiError> {
        if let Some(store) = self.typed_store(kind) {
            return Ok(act(store));
        }
        match self.dynamic.get(kind) {
            Some(store) => Ok(act(&*store)),
            None => Err(errors::unknown_resource()),
        }
    }

    /// Every store, those of typed kinds first; no lock is held meanwhile.
    pub(crate) fn each_store(&self, mut act: impl FnMut(&dyn AnyStore)) {
        self.typed_stores().into_iter().for_each(&mut act);
        for store in self.dynamic.all() {
            act(&*store);
        }
    }

    /// The served kind that an owner reference names; `None` for others.
    #[inline]
    pub(crate) fn kind_of(&self, owner: &OwnerReference) -> Option<Kind> {
        let typed = Kind::TYPED.into_iter();
        typed
            .into_iter()
            .find(|kind| is_kind_of(*kind, owner))
            .or_else(|| self.dynamic.kind_of(owner))
    }
}

/// A [`Watch`] of a kind that is known only when it is opened.
pub struct AnyWatch(Box<dyn Erased>);

trait Erased: Send {
    fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<dyn Object>>) -> Poll;
    fn request_bookmark(&mut self);
    fn is_ended(&self) -> bool;
}

struct Typed<R: Strategy> {
    watch: Watch<R>,
    /// Empty between polls.
    events: Vec<WatchEvent<R>>,
}

impl<R: Strategy> Erased for Typed<R> {
    fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<dyn Object>>) -> Poll {
        let poll = self.watch.poll(max, now, &mut self.events);
        out.extend(self.events.drain(..).map(WatchEvent::erased));
        poll
    }

    fn request_bookmark(&mut self) {
        self.watch.request_bookmark();
    }

    fn is_ended(&self) -> bool {
        self.watch.is_ended()
    }
}

impl AnyWatch {
    pub(crate) fn new<R: Strategy>(watch: Watch<R>) -> AnyWatch {
        let events = Vec::new();
        AnyWatch(Box::new(Typed { watch, events }))
    }

    /// See [`Watch::poll`].
    pub fn poll(&mut self, max: usize, now: Now, out: &mut Vec<WatchEvent<dyn Object>>) -> Poll {
        self.0.poll(max, now, out)
    }

    /// See [`Watch::request_bookmark`].
    pub fn request_bookmark(&mut self) {
        self.0.request_bookmark();
    }

    /// See [`Watch::is_ended`].
    pub fn is_ended(&self) -> bool {
        self.0.is_ended()
    }
}

impl fmt::Debug for AnyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyWatch").finish_non_exhaustive()
    }
}
