//! The Deployments and ReplicaSets that the controller knows, each with what is derived from it once,
//! when it arrives.

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, Deployment, Kind, Labels, ObjectMeta, ObjectReference, OwnerReference, ReplicaSet,
    Selector, SelectorError, Str,
};
use podstorm_runtime::cache::SelectorIndex;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::objects::ObjectStore;
use podstorm_runtime::owned::{Owned, OwnedObjects};
use podstorm_runtime::primitives::{Mutex, lock};

use super::find_new::readable_revision;
use super::template::TemplateForm;
use crate::cache::{Delta, PodCache};

/// A cached Deployment.
#[derive(Debug)]
pub(super) struct CachedDeployment {
    pub(super) object: Arc<Deployment>,
    /// The compiled selector, or the error of compiling it.
    pub(super) selector: Result<Selector, SelectorError>,
    /// Its template, to be compared with others.
    pub(super) form: TemplateForm,
    /// The controller reference of its ReplicaSets.
    pub(super) controller_ref: Arc<OwnerReference>,
    /// The reference that Events about it carry.
    pub(super) reference: Arc<ObjectReference>,
}

/// A cached ReplicaSet.
#[derive(Debug)]
pub(super) struct CachedSet {
    pub(super) object: Arc<ReplicaSet>,
    /// Its template, to be compared with others.
    pub(super) form: TemplateForm,
    /// Its revision, 0 without one; `None` if that can't be read.
    pub(super) revision: Option<i64>,
}

impl Owned for CachedDeployment {
    fn kind(&self) -> Kind {
        Kind::DEPLOYMENT
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

impl Owned for CachedSet {
    fn kind(&self) -> Kind {
        Kind::REPLICA_SET
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

impl CachedSet {
    /// Of an object that is not cached, or takes the place of `old`, whose form it shares if the
    /// template is the same.
    pub(super) fn of(object: Arc<ReplicaSet>, old: Option<&CachedSet>) -> CachedSet {
        let template = &object.spec.template;
        let form = match old {
            Some(old) if old.object.spec.template == *template => old.form,
            _ => TemplateForm::of(template),
        };
        CachedSet {
            revision: readable_revision(&object.metadata),
            object,
            form,
        }
    }
}

/// All that is known, and the pods.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) deployments: ObjectStore<CachedDeployment>,
    selectors: Mutex<SelectorIndex>,
    pub(super) sets: OwnedObjects<CachedSet>,
    pub(super) pods: Arc<PodCache>,
}

impl Caches {
    pub(super) fn new(pods: Arc<PodCache>) -> Caches {
        Caches {
            deployments: ObjectStore::default(),
            selectors: Mutex::default(),
            sets: OwnedObjects::default(),
            pods,
        }
    }

    /// The Deployment that an object is, with what is derived from it.
    pub(super) fn derive_deployment(&self, object: &AnyObject) -> Option<Arc<CachedDeployment>> {
        let object = Deployment::of(object)?;
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = self.deployments.find(&meta.namespace, &meta.name);
        let old = key.and_then(|key| self.deployments.get(key));
        let form = match &old {
            Some(old) if old.object.spec.template == spec.template => old.form,
            _ => TemplateForm::of(&spec.template),
        };
        Some(Arc::new(CachedDeployment {
            selector: Selector::compile(spec.selector.as_deref()),
            form,
            controller_ref: Arc::new(Kind::DEPLOYMENT.controller_reference(meta)),
            reference: Arc::new(ObjectReference::new(Kind::DEPLOYMENT, meta)),
            object,
        }))
    }

    /// The ReplicaSet that an object is, with what is derived from it.
    pub(super) fn derive_set(&self, object: &AnyObject) -> Option<Arc<CachedSet>> {
        let object: Arc<ReplicaSet> = object.clone().downcast()?;
        let meta = &object.metadata;
        let old = self.sets.get(&meta.namespace, &meta.name);
        Some(Arc::new(CachedSet::of(object, old.as_deref())))
    }

    /// Applies a change of a Deployment and returns its key.
    pub(super) fn apply(&self, delta: Delta<CachedDeployment>) -> KeyId {
        let (meta, new) = match &delta {
            Delta::Applied(new) => (new.metadata(), Some(Arc::clone(new))),
            Delta::Deleted(last) => (last.metadata(), None),
        };
        let key = self.deployments.key(&meta.namespace, &meta.name);
        let old = self.deployments.get(key);
        {
            let mut selectors = lock(&self.selectors);
            for (deployment, is_new) in [(&old, false), (&new, true)] {
                if let Some(deployment) = deployment
                    && let Ok(selector) = &deployment.selector
                {
                    let namespace = &deployment.object.metadata.namespace;
                    if is_new {
                        selectors.insert(namespace, selector, key);
                    } else {
                        selectors.remove(namespace, selector, key);
                    }
                }
            }
        }
        self.deployments.apply(delta)
    }

    /// The Deployment to which a controller reference resolves: by name, of the same UID.
    pub(super) fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedDeployment>)> {
        let owner = meta.controller()?;
        if *owner.kind != *Kind::DEPLOYMENT.name() {
            return None;
        }
        let key = self.deployments.find(&meta.namespace, &owner.name)?;
        let found = self.deployments.get(key)?;
        (found.object.metadata.uid == owner.uid).then_some((key, found))
    }

    /// The Deployments whose selector matches these labels, in name order. Nothing matches an object
    /// without labels, and an empty or broken selector matches nothing.
    pub(super) fn matching(&self, namespace: &Str, labels: &Labels) -> Vec<KeyId> {
        if labels.is_empty() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        lock(&self.selectors).candidates(namespace, labels, |key| keys.push(key));
        keys.retain(|key| {
            let found = self.deployments.get(*key);
            found.is_some_and(|found| match &found.selector {
                Ok(selector) => !selector.is_empty() && selector.matches(labels),
                Err(_) => false,
            })
        });
        keys.sort_by_cached_key(|key| self.deployments.name(*key).name);
        keys
    }
}
