//! The Deployments and ReplicaSets that the controller knows, each with what is derived from it once,
//! when it arrives.

use std::sync::Arc;

use podstorm_objects::{
    Deployment, Kind, ObjectMeta, ObjectReference, OwnerReference, ReplicaSet, Selector,
    SelectorError, Str, Uid,
};
use podstorm_runtime::claim::Owned;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::{Cached, Store};

use super::find_new::readable_revision;
use super::template::TemplateForm;
use crate::cache::PodCache;

/// A cached Deployment.
#[derive(Debug)]
pub(super) struct CachedDeployment {
    pub(super) object: Arc<Deployment>,
    /// The compiled selector, or the error of compiling it.
    pub(super) selector: Result<Arc<Selector>, SelectorError>,
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

impl Cached for CachedDeployment {
    type Object = Deployment;
    type Context = ();

    fn derive(object: Arc<Deployment>, _: KeyId, old: Option<&Self>, _: &()) -> Self {
        let (meta, spec) = (&object.metadata, &object.spec);
        let form = match old {
            Some(old) if old.object.spec.template == spec.template => old.form,
            _ => TemplateForm::of(&spec.template),
        };
        let selector = match old {
            Some(old) if old.object.spec.selector == spec.selector => old.selector.clone(),
            _ => Selector::compile(spec.selector.as_deref()).map(Arc::new),
        };
        CachedDeployment {
            selector,
            form,
            controller_ref: Arc::new(Kind::DEPLOYMENT.controller_reference(meta)),
            reference: Arc::new(ObjectReference::new(Kind::DEPLOYMENT, meta)),
            object,
        }
    }

    fn object(&self) -> &Arc<Deployment> {
        &self.object
    }

    fn selector(&self) -> Option<&Arc<Selector>> {
        self.selector.as_ref().ok()
    }
}

impl Cached for CachedSet {
    type Object = ReplicaSet;
    type Context = ();

    const BY_CONTROLLER: bool = true;
    const ORPHANS: bool = true;

    fn derive(object: Arc<ReplicaSet>, _: KeyId, old: Option<&Self>, _: &()) -> Self {
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

    fn object(&self) -> &Arc<ReplicaSet> {
        &self.object
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

/// All that is known, and the pods.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) deployments: Store<CachedDeployment>,
    pub(super) sets: Store<CachedSet>,
    pub(super) pods: Arc<PodCache>,
}

impl Caches {
    pub(super) fn new(pods: Arc<PodCache>) -> Caches {
        Caches {
            deployments: Store::default(),
            sets: Store::default(),
            pods,
        }
    }

    /// The Deployment to which a controller reference resolves: by name, of the same UID.
    pub(super) fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedDeployment>)> {
        let owner = meta.controller()?;
        let is_one = *owner.kind == *Kind::DEPLOYMENT.name();
        is_one.then(|| self.deployments.resolve(&meta.namespace, owner))?
    }

    /// The ReplicaSets that a Deployment could keep, release or adopt: those whose controller has that
    /// UID, and the orphans of its namespace.
    pub(super) fn candidates(&self, namespace: &Str, owner: &Uid) -> Vec<Arc<CachedSet>> {
        let (owned, orphans) = (self.sets.owned(owner), self.sets.orphans(namespace));
        let most = |hint: (usize, Option<usize>)| hint.1.unwrap_or(0);
        let mut found = Vec::with_capacity(most(owned.size_hint()) + most(orphans.size_hint()));
        owned.for_each(|(_, set)| found.push(set));
        orphans.for_each(|(_, set)| found.push(set));
        found
    }
}
