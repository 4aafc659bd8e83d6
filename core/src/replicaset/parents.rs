//! The store of parents: ReplicaSets, or ReplicationControllers seen as such, by dense key, with
//! their compiled selectors, the group of their pods, and the body of the pods they create.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{
    Kind, Labels, ObjectReference, OwnerReference, Pod, ReplicaSet, ResourceVersion, Selector,
    SelectorError, Str, Uid,
};
use podstorm_runtime::cache::{NamespacedSelector, SelectorIndex};
use podstorm_runtime::intern::{AppendTable, DenseKey, FIXED_STATE, KeyId, KeyTable, ObjectKey};
use podstorm_runtime::primitives::{Mutex, MutexGuard, OnceLock, lock};
use smallvec::SmallVec;

use super::reconcile::pod_body;
use crate::cache::{Delta, Group, PodCache, StoreVersion};

/// The cached parents of one kind. One informer applies deltas; handlers and workers read.
#[derive(Debug)]
pub struct ParentStore {
    kind: Kind,
    pods: Arc<PodCache>,
    keys: KeyTable,
    slots: AppendTable<Mutex<Option<Arc<Parent>>>>,
    indexes: Mutex<Indexes>,
    version: StoreVersion,
}

#[derive(Debug)]
struct Indexes {
    selectors: SelectorIndex,
    /// Keys by the UID of the parent's own controller, e.g. its Deployment.
    by_controller: HashMap<Uid, Vec<KeyId>, RandomState>,
}

/// A cached parent with what is derived from it once.
#[derive(Debug)]
pub struct Parent {
    /// Its dense key.
    pub key: KeyId,
    /// The object.
    pub object: Arc<ReplicaSet>,
    /// Its namespace, as requests want it.
    pub namespace: Str,
    /// The compiled selector, or why there is none.
    pub selector: Result<Arc<Selector>, SelectorError>,
    /// The controller reference that its pods carry.
    pub owner: Arc<OwnerReference>,
    /// The pods that carry that reference.
    pub(crate) group: Arc<Group>,
    /// The pods of the namespace that nobody controls.
    pub(crate) orphans: Arc<Group>,
    /// The body of a pod to create; built when first needed.
    body: OnceLock<Arc<Pod>>,
    /// What Events about it say they are about; built when first needed.
    reference: OnceLock<Arc<ObjectReference>>,
}

/// What a delta did.
#[derive(Clone, Debug)]
pub struct ParentChange {
    /// The key concerned.
    pub key: KeyId,
    /// The object as the store had it.
    pub old: Option<Arc<Parent>>,
    /// The object as it is now; `None` when it is gone.
    pub new: Option<Arc<Parent>>,
    /// UID of the object in its last state, where it is gone.
    pub deleted_uid: Option<Uid>,
}

impl Parent {
    /// The body of a pod to create, the same for every pod.
    pub fn body(&self) -> &Arc<Pod> {
        self.body
            .get_or_init(|| Arc::new(pod_body(&self.object, &self.owner)))
    }

    /// The object in this version, for the Events about it; `kind` is its kind.
    pub fn reference(&self, kind: Kind) -> &Arc<ObjectReference> {
        self.reference
            .get_or_init(|| Arc::new(ObjectReference::new(kind, &self.object.metadata)))
    }
}

impl ParentStore {
    /// An empty store of that kind over those pods.
    pub fn new(kind: Kind, pods: Arc<PodCache>) -> ParentStore {
        ParentStore {
            kind,
            pods,
            keys: KeyTable::new(),
            slots: AppendTable::new(),
            indexes: Mutex::new(Indexes {
                selectors: SelectorIndex::default(),
                by_controller: HashMap::with_hasher(FIXED_STATE),
            }),
            version: StoreVersion::default(),
        }
    }

    /// The kind of the parents: ReplicaSet or ReplicationController.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The pods beneath.
    pub fn pods(&self) -> &Arc<PodCache> {
        &self.pods
    }

    /// The version that the store has reached.
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// The key of a name, numbered when it is new.
    pub fn intern(&self, namespace: &str, name: &str) -> KeyId {
        self.keys.intern(namespace, name)
    }

    /// The key of a name, if it has one.
    pub fn find(&self, namespace: &str, name: &str) -> Option<KeyId> {
        self.keys.find(namespace, name)
    }

    /// Gives the key of a parent that is gone to a name that has none; false when it has one.
    ///
    /// # Panics
    /// When the key has a parent, or is not of this store.
    pub(crate) fn rename(&self, key: KeyId, namespace: &str, name: &str) -> bool {
        assert!(self.get(key).is_none(), "a parent keeps its key");
        self.keys.rename(key, namespace, name)
    }

    /// The name of a key.
    pub fn name(&self, key: KeyId) -> ObjectKey {
        self.keys.key(key)
    }

    /// The parent of that key, where it is cached. One lock of that key's own.
    pub fn get(&self, key: KeyId) -> Option<Arc<Parent>> {
        lock(self.slots.get(key.index())?).clone()
    }

    /// Applies one event of the watch and says what it changed.
    pub fn apply(&self, delta: Delta<ReplicaSet>) -> ParentChange {
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
                ParentChange {
                    key,
                    old,
                    new: None,
                    deleted_uid: Some(meta.uid.clone()),
                }
            }
        }
    }

    /// The change that a tombstone stands for: the key leaves the store; handlers see
    /// `last_known`, and nothing when the tombstone holds no object.
    pub fn apply_tombstone(
        &self,
        namespace: &str,
        name: &str,
        last_known: Option<&ReplicaSet>,
    ) -> Option<ParentChange> {
        let old = self.swap(self.intern(namespace, name), None);
        let meta = &last_known?.metadata;
        // Handlers go by the name of the object they are shown.
        let key = self.intern(&meta.namespace, &meta.name);
        Some(ParentChange {
            key,
            old,
            new: None,
            deleted_uid: Some(meta.uid.clone()),
        })
    }

    /// Replaces the whole store by a list: missing parents first, in name order, as deleted in the
    /// state last cached; then the items in list order.
    pub fn replace(
        &self,
        items: Vec<Arc<ReplicaSet>>,
        version: &ResourceVersion,
    ) -> Vec<ParentChange> {
        self.version.before_list(version);
        let listed: std::collections::BTreeSet<KeyId> = items
            .iter()
            .map(|item| self.intern(&item.metadata.namespace, &item.metadata.name))
            .collect();
        let mut gone: Vec<Arc<Parent>> = self
            .all()
            .into_iter()
            .filter(|parent| !listed.contains(&parent.key))
            .collect();
        gone.sort_by_key(|parent| self.name(parent.key).to_string());
        let mut changes = Vec::with_capacity(gone.len() + items.len());
        for parent in gone {
            let uid = parent.object.metadata.uid.clone();
            let old = self.swap(parent.key, None);
            changes.push(ParentChange {
                key: parent.key,
                old,
                new: None,
                deleted_uid: Some(uid),
            });
        }
        changes.extend(items.into_iter().map(|item| self.put(item)));
        self.version.set(version);
        changes
    }

    /// The periodic resync: an update of every parent to itself, in key order.
    pub fn resync(&self) -> Vec<ParentChange> {
        let unchanged = |parent: Arc<Parent>| ParentChange {
            key: parent.key,
            old: Some(parent.clone()),
            new: Some(parent),
            deleted_uid: None,
        };
        self.all().into_iter().map(unchanged).collect()
    }

    /// Every cached parent, in key order.
    pub fn all(&self) -> Vec<Arc<Parent>> {
        (0..self.keys.len())
            .filter_map(|index| self.get(KeyId::from_index(index)))
            .collect()
    }

    /// The parents of a namespace whose selector is valid, not empty, and matches the labels, in
    /// name order. A pod without labels has none. O(labels + candidates); allocates only when
    /// there are more than four.
    pub fn matching(&self, namespace: &Str, labels: &Labels) -> SmallVec<[Arc<Parent>; 4]> {
        let mut found = SmallVec::new();
        if labels.is_empty() {
            return found;
        }
        let mut keys: SmallVec<[KeyId; 4]> = SmallVec::new();
        self.lock_indexes()
            .selectors
            .candidates(namespace, labels, |key| keys.push(key));
        for key in keys {
            if let Some(parent) = self.get(key)
                && let Ok(selector) = &parent.selector
                && !selector.is_empty()
                && selector.matches(labels)
            {
                found.push(parent);
            }
        }
        if found.len() > 1 {
            found.sort_by(|a: &Arc<Parent>, b| a.object.metadata.name.cmp(&b.object.metadata.name));
        }
        found
    }

    /// Fills `related` with the selectors of all parents that share this one's controller, itself
    /// included, each with its namespace; none when it has no controller. Selectors that don't
    /// compile are left out.
    pub(crate) fn related_selectors(&self, parent: &Parent, related: &mut Vec<NamespacedSelector>) {
        related.clear();
        // Upstream's index yields nothing for ReplicationControllers.
        let Some(controller) = parent.object.metadata.controller() else {
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

    fn put(&self, object: Arc<ReplicaSet>) -> ParentChange {
        let key = self.intern(&object.metadata.namespace, &object.metadata.name);
        let parent = Arc::new(self.parent_of(key, object, self.get(key).as_deref()));
        let old = self.swap(key, Some(parent.clone()));
        ParentChange {
            key,
            old,
            new: Some(parent),
            deleted_uid: None,
        }
    }

    /// Derives a parent, sharing with the old one what did not change.
    fn parent_of(&self, key: KeyId, object: Arc<ReplicaSet>, old: Option<&Parent>) -> Parent {
        let meta = &object.metadata;
        let old = old.filter(|old| old.object.metadata.uid == meta.uid);
        let selector = match old {
            Some(old) if old.object.spec.selector == object.spec.selector => old.selector.clone(),
            _ => Selector::compile(object.spec.selector.as_deref()).map(Arc::new),
        };
        if let Some(old) = old {
            let body = OnceLock::new();
            if Arc::ptr_eq(&old.object.spec.template, &object.spec.template)
                && let Some(built) = old.body.get()
            {
                body.get_or_init(|| built.clone());
            }
            return Parent {
                key,
                namespace: old.namespace.clone(),
                selector,
                owner: old.owner.clone(),
                group: old.group.clone(),
                orphans: old.orphans.clone(),
                body,
                reference: OnceLock::new(),
                object,
            };
        }
        let owner = Arc::new(self.kind.controller_reference(meta));
        Parent {
            key,
            namespace: meta.namespace.clone(),
            selector,
            group: self.pods.attach_parent(&meta.namespace, &owner, key),
            orphans: self.pods.orphans(&meta.namespace),
            owner,
            body: OnceLock::new(),
            reference: OnceLock::new(),
            object,
        }
    }

    /// Stores a parent (or none), keeps the indexes, and returns the one before.
    fn swap(&self, key: KeyId, new: Option<Arc<Parent>>) -> Option<Arc<Parent>> {
        let old = std::mem::replace(&mut *lock(self.slots.get_or_grow(key.index())), new.clone());
        let unchanged = match (&old, &new) {
            (Some(old), Some(new)) => {
                same_selector(old, new)
                    && old.object.metadata.controller() == new.object.metadata.controller()
                    && Arc::ptr_eq(&old.group, &new.group)
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
                .is_none_or(|new| !Arc::ptr_eq(&old.group, &new.group))
        {
            self.pods.detach_parent(&old.group);
        }
        old
    }

    fn lock_indexes(&self) -> MutexGuard<'_, Indexes> {
        lock(&self.indexes)
    }
}

fn same_selector(a: &Parent, b: &Parent) -> bool {
    match (&a.selector, &b.selector) {
        (Ok(a), Ok(b)) => Arc::ptr_eq(a, b),
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

impl Indexes {
    fn insert(&mut self, parent: &Parent) {
        let meta = &parent.object.metadata;
        if let Ok(selector) = &parent.selector {
            self.selectors.insert(&meta.namespace, selector, parent.key);
        }
        if let Some(controller) = meta.controller() {
            self.by_controller
                .entry(controller.uid.clone())
                .or_default()
                .push(parent.key);
        }
    }

    fn remove(&mut self, parent: &Parent) {
        let meta = &parent.object.metadata;
        if let Ok(selector) = &parent.selector {
            self.selectors.remove(&meta.namespace, selector, parent.key);
        }
        if let Some(controller) = meta.controller()
            && let Some(keys) = self.by_controller.get_mut(&controller.uid)
        {
            keys.retain(|held| *held != parent.key);
            if keys.is_empty() {
                self.by_controller.remove(&controller.uid);
            }
        }
    }
}
