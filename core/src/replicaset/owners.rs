//! The store of owners: ReplicaSets, or ReplicationControllers converted to ReplicaSets, by dense
//! key. Each has its compiled selector, its owned pods, and the pod from its template.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{
    Kind, Labels, ObjectReference, OwnerReference, Pod, ReplicaSet, ResourceVersion, Selector,
    SelectorError, Str, Uid, hash_state,
};
use podstorm_runtime::cache::{NamespacedSelector, SelectorIndex};
use podstorm_runtime::intern::{AppendTable, DenseKey, KeyId, KeyTable, ObjectKey};
use podstorm_runtime::primitives::{Mutex, MutexGuard, OnceLock, lock};
use smallvec::SmallVec;

use super::reconcile::pod_from_template;
use crate::cache::{Delta, OwnedPods, PodCache, StoreVersion};

/// The cached owners of one kind. One informer applies deltas; handlers and workers read.
#[derive(Debug)]
pub struct OwnerStore {
    kind: Kind,
    pods: Arc<PodCache>,
    keys: KeyTable,
    slots: AppendTable<Mutex<Option<Arc<Owner>>>>,
    indexes: Mutex<Indexes>,
    version: StoreVersion,
}

#[derive(Debug)]
struct Indexes {
    selectors: SelectorIndex,
    /// Keys by the UID of the owner's own controller, e.g. its Deployment.
    by_controller: HashMap<Uid, Vec<KeyId>, RandomState>,
}

/// A cached owner with the values that are derived from it once.
#[derive(Debug)]
pub struct Owner {
    /// Its dense key.
    pub key: KeyId,
    /// The object.
    pub object: Arc<ReplicaSet>,
    /// Its namespace, as requests need it.
    pub namespace: Str,
    /// The compiled selector, or the error of compiling it.
    pub selector: Result<Arc<Selector>, SelectorError>,
    /// The controller reference of its pods.
    pub controller_ref: Arc<OwnerReference>,
    /// The pods with that controller reference.
    pub(crate) owned_pods: Arc<OwnedPods>,
    /// The orphans of the namespace.
    pub(crate) orphans: Arc<OwnedPods>,
    /// The pod to create, made from the template when first needed.
    pod_from_template: OnceLock<Arc<Pod>>,
    /// The reference that Events about the owner carry, made when first needed.
    reference: OnceLock<Arc<ObjectReference>>,
}

/// The change that a delta made.
#[derive(Clone, Debug)]
pub struct OwnerChange {
    /// The owner's key.
    pub key: KeyId,
    /// The owner as the store had it.
    pub old: Option<Arc<Owner>>,
    /// The owner now; `None` if it is gone.
    pub new: Option<Arc<Owner>>,
    /// UID of the object in its last state, if it is gone.
    pub deleted_uid: Option<Uid>,
}

impl Owner {
    /// The pod to create, made from the template. The same for every pod.
    pub fn pod_from_template(&self) -> &Arc<Pod> {
        self.pod_from_template
            .get_or_init(|| Arc::new(pod_from_template(&self.object, &self.controller_ref)))
    }

    /// The reference to the object in this version, for Events about it; `kind` is its kind.
    pub fn reference(&self, kind: Kind) -> &Arc<ObjectReference> {
        self.reference
            .get_or_init(|| Arc::new(ObjectReference::new(kind, &self.object.metadata)))
    }
}

impl OwnerStore {
    /// An empty store of this kind over these pods.
    pub fn new(kind: Kind, pods: Arc<PodCache>) -> OwnerStore {
        OwnerStore {
            kind,
            pods,
            keys: KeyTable::new(),
            slots: AppendTable::new(),
            indexes: Mutex::new(Indexes {
                selectors: SelectorIndex::default(),
                by_controller: HashMap::with_hasher(hash_state()),
            }),
            version: StoreVersion::default(),
        }
    }

    /// The kind of the owners: ReplicaSet or ReplicationController.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The pod cache.
    pub fn pods(&self) -> &Arc<PodCache> {
        &self.pods
    }

    /// The version that the store has reached.
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// The key of a name; a new name gets a new key.
    pub fn intern(&self, namespace: &str, name: &str) -> KeyId {
        self.keys.intern(namespace, name)
    }

    /// The key of a name, if it has one.
    pub fn find(&self, namespace: &str, name: &str) -> Option<KeyId> {
        self.keys.find(namespace, name)
    }

    /// Gives the key of an owner that is gone to a name without a key. Returns false if the name
    /// has a key.
    ///
    /// # Panics
    /// The key has an owner, or is not of this store.
    pub(crate) fn rename(&self, key: KeyId, namespace: &str, name: &str) -> bool {
        assert!(self.get(key).is_none(), "a owner keeps its key");
        self.keys.rename(key, namespace, name)
    }

    /// The name of a key.
    pub fn name(&self, key: KeyId) -> ObjectKey {
        self.keys.key(key)
    }

    /// The owner of this key, if it is cached. Takes only the lock of this key.
    pub fn get(&self, key: KeyId) -> Option<Arc<Owner>> {
        lock(self.slots.get(key.index())?).clone()
    }

    /// Applies a watch event and returns what it changed.
    pub fn apply(&self, delta: Delta<ReplicaSet>) -> OwnerChange {
        match delta {
            Delta::Applied(object) => {
                let version = object.metadata.resource_version.clone();
                let change = self.put(object);
                self.version.set(&version);
                change
            }
            Delta::Deleted(object) => {
                let meta = &object.metadata;
                let key = self.intern(&meta.namespace, &meta.name);
                let old = self.swap(key, None);
                self.version.set(&meta.resource_version);
                OwnerChange {
                    key,
                    old,
                    new: None,
                    deleted_uid: Some(meta.uid.clone()),
                }
            }
        }
    }

    /// Applies a tombstone: the owner leaves the store. The handlers get `last_known`; they get
    /// nothing if the tombstone has no object.
    pub fn apply_tombstone(
        &self,
        namespace: &str,
        name: &str,
        last_known: Option<&ReplicaSet>,
    ) -> Option<OwnerChange> {
        let old = self.swap(self.intern(namespace, name), None);
        let meta = &last_known?.metadata;
        // Handlers use the name of the object that they get.
        let key = self.intern(&meta.namespace, &meta.name);
        Some(OwnerChange {
            key,
            old,
            new: None,
            deleted_uid: Some(meta.uid.clone()),
        })
    }

    /// Replaces the whole store by a list. Owners missing from the list come first, in name order,
    /// as deleted in the state last cached; then the items in list order.
    pub fn replace(
        &self,
        items: Vec<Arc<ReplicaSet>>,
        version: &ResourceVersion,
    ) -> Vec<OwnerChange> {
        self.version.before_list(version);
        let listed: std::collections::BTreeSet<KeyId> = items
            .iter()
            .map(|item| self.intern(&item.metadata.namespace, &item.metadata.name))
            .collect();
        let mut gone: Vec<Arc<Owner>> = self
            .all()
            .into_iter()
            .filter(|owner| !listed.contains(&owner.key))
            .collect();
        gone.sort_by_key(|owner| self.name(owner.key).to_string());
        let mut changes = Vec::with_capacity(gone.len() + items.len());
        for owner in gone {
            let uid = owner.object.metadata.uid.clone();
            let old = self.swap(owner.key, None);
            changes.push(OwnerChange {
                key: owner.key,
                old,
                new: None,
                deleted_uid: Some(uid),
            });
        }
        changes.extend(items.into_iter().map(|item| self.put(item)));
        self.version.set(version);
        changes
    }

    /// The periodic resync: an update of every owner to itself, in key order.
    pub fn resync(&self) -> Vec<OwnerChange> {
        let unchanged = |owner: Arc<Owner>| OwnerChange {
            key: owner.key,
            old: Some(owner.clone()),
            new: Some(owner),
            deleted_uid: None,
        };
        self.all().into_iter().map(unchanged).collect()
    }

    /// Every cached owner, in key order.
    pub fn all(&self) -> Vec<Arc<Owner>> {
        (0..self.keys.len())
            .filter_map(|index| self.get(KeyId::from_index(index)))
            .collect()
    }

    /// The owners of a namespace whose selector is valid, not empty, and matches the labels, in
    /// name order. Nothing matches a pod without labels. O(labels + candidates). Allocates only for
    /// more than four owners.
    pub fn matching(&self, namespace: &Str, labels: &Labels) -> SmallVec<[Arc<Owner>; 4]> {
        let mut found = SmallVec::new();
        if labels.is_empty() {
            return found;
        }
        let mut keys: SmallVec<[KeyId; 4]> = SmallVec::new();
        self.lock_indexes()
            .selectors
            .candidates(namespace, labels, |key| keys.push(key));
        for key in keys {
            if let Some(owner) = self.get(key)
                && let Ok(selector) = &owner.selector
                && !selector.is_empty()
                && selector.matches(labels)
            {
                found.push(owner);
            }
        }
        if found.len() > 1 {
            found.sort_by(|a: &Arc<Owner>, b| a.object.metadata.name.cmp(&b.object.metadata.name));
        }
        found
    }

    /// Fills `related` with the selectors and namespaces of all owners that have the same
    /// controller as this one, itself included. Empty if it has no controller. Selectors that don't
    /// compile are left out.
    pub(crate) fn related_selectors(&self, owner: &Owner, related: &mut Vec<NamespacedSelector>) {
        related.clear();
        // Upstream's index is empty for ReplicationControllers.
        let Some(controller) = owner.object.metadata.controller() else {
            return;
        };
        if self.kind != Kind::REPLICA_SET {
            return;
        }
        let mut keys: SmallVec<[KeyId; 32]> = SmallVec::new();
        if let Some(siblings) = self.lock_indexes().by_controller.get(&controller.uid) {
            keys.extend_from_slice(siblings);
        }
        for key in keys {
            if let Some(sibling) = self.get(key)
                && let Ok(selector) = &sibling.selector
            {
                let namespace = sibling.object.metadata.namespace.clone();
                related.push((namespace, selector.clone()));
            }
        }
    }

    fn put(&self, object: Arc<ReplicaSet>) -> OwnerChange {
        let key = self.intern(&object.metadata.namespace, &object.metadata.name);
        let owner = Arc::new(self.derive_owner(key, object, self.get(key).as_deref()));
        let old = self.swap(key, Some(owner.clone()));
        OwnerChange {
            key,
            old,
            new: Some(owner),
            deleted_uid: None,
        }
    }

    /// Derives an owner. Values that did not change are shared with the old one.
    fn derive_owner(&self, key: KeyId, object: Arc<ReplicaSet>, old: Option<&Owner>) -> Owner {
        let meta = &object.metadata;
        let old = old.filter(|old| old.object.metadata.uid == meta.uid);
        let selector = match old {
            Some(old) if old.object.spec.selector == object.spec.selector => old.selector.clone(),
            _ => Selector::compile(object.spec.selector.as_deref()).map(Arc::new),
        };
        if let Some(old) = old {
            let pod_from_template = OnceLock::new();
            if Arc::ptr_eq(&old.object.spec.template, &object.spec.template)
                && let Some(built) = old.pod_from_template.get()
            {
                pod_from_template.get_or_init(|| built.clone());
            }
            return Owner {
                key,
                namespace: old.namespace.clone(),
                selector,
                controller_ref: old.controller_ref.clone(),
                owned_pods: old.owned_pods.clone(),
                orphans: old.orphans.clone(),
                pod_from_template,
                reference: OnceLock::new(),
                object,
            };
        }
        let controller_ref = Arc::new(self.kind.controller_reference(meta));
        Owner {
            key,
            namespace: meta.namespace.clone(),
            selector,
            owned_pods: self
                .pods
                .attach_owner(&meta.namespace, &controller_ref, key),
            orphans: self.pods.orphans(&meta.namespace),
            controller_ref,
            pod_from_template: OnceLock::new(),
            reference: OnceLock::new(),
            object,
        }
    }

    /// Stores an owner or none, updates the indexes, and returns the old owner.
    fn swap(&self, key: KeyId, new: Option<Arc<Owner>>) -> Option<Arc<Owner>> {
        let old = std::mem::replace(&mut *lock(self.slots.get_or_grow(key.index())), new.clone());
        let unchanged = match (&old, &new) {
            (Some(old), Some(new)) => {
                same_selector(old, new)
                    && old.object.metadata.controller() == new.object.metadata.controller()
                    && Arc::ptr_eq(&old.owned_pods, &new.owned_pods)
            }
            _ => false,
        };
        if unchanged {
            return old;
        }
        {
            let mut indexes = self.lock_indexes();
            if let Some(old) = &old {
                indexes.remove(old);
            }
            if let Some(new) = &new {
                indexes.insert(new);
            }
        }
        if let Some(old) = &old
            && new
                .as_ref()
                .is_none_or(|new| !Arc::ptr_eq(&old.owned_pods, &new.owned_pods))
        {
            self.pods.detach_owner(&old.owned_pods);
        }
        old
    }

    fn lock_indexes(&self) -> MutexGuard<'_, Indexes> {
        lock(&self.indexes)
    }
}

fn same_selector(a: &Owner, b: &Owner) -> bool {
    match (&a.selector, &b.selector) {
        (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

impl Indexes {
    fn insert(&mut self, owner: &Owner) {
        let meta = &owner.object.metadata;
        if let Ok(selector) = &owner.selector {
            self.selectors.insert(&meta.namespace, selector, owner.key);
        }
        if let Some(controller) = meta.controller() {
            self.by_controller
                .entry(controller.uid.clone())
                .or_default()
                .push(owner.key);
        }
    }

    fn remove(&mut self, owner: &Owner) {
        let meta = &owner.object.metadata;
        if let Ok(selector) = &owner.selector {
            self.selectors.remove(&meta.namespace, selector, owner.key);
        }
        if let Some(controller) = meta.controller()
            && let Some(keys) = self.by_controller.get_mut(&controller.uid)
        {
            keys.retain(|held| *held != owner.key);
            if keys.is_empty() {
                self.by_controller.remove(&controller.uid);
            }
        }
    }
}
