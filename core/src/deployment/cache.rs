//! The cached Deployments and ReplicaSets. Each Deployment has values derived once, when it
//! arrives. The store of ReplicaSets is shared with the ReplicaSet controller.

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, Deployment, Kind, ObjectMeta, ObjectReference, OwnerReference, Selector,
    SelectorError, Str, Uid,
};
use podstorm_runtime::informer::{Informed, Informers};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::{Cached, Store};

use crate::replicaset::owners;
use crate::replicaset::{Owner, OwnerStore};
use crate::template::TemplateForm;

/// A cached Deployment.
#[derive(Debug)]
pub(crate) struct CachedDeployment {
    pub(crate) object: Arc<Deployment>,
    /// The compiled selector, or the compile error.
    pub(super) selector: Result<Arc<Selector>, SelectorError>,
    /// The comparable form of the template.
    pub(super) form: TemplateForm,
    /// The controller reference that the Deployment's ReplicaSets carry.
    pub(super) controller_ref: Arc<OwnerReference>,
    /// The reference that Events about the Deployment carry.
    pub(super) reference: Arc<ObjectReference>,
}

impl Cached for CachedDeployment {
    type Object = Deployment;
    type Context = ();

    fn derive(object: Arc<Deployment>, _: KeyId, old: Option<&Self>, _: &()) -> Self {
        let (meta, spec) = (&object.metadata, &object.spec);
        let form = match old {
            Some(old) if old.object.spec.template == spec.template => old.form,
            _ => TemplateForm::from_template(&spec.template),
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

impl Informed for CachedDeployment {
    fn read(object: AnyObject) -> Option<Arc<Deployment>> {
        Deployment::from_object(&object)
    }
}

/// The stores that the controller reads. Each cached ReplicaSet leads to its pods.
#[derive(Debug)]
pub(super) struct Caches {
    pub(super) deployments: Arc<Store<CachedDeployment>>,
    pub(super) sets: Arc<OwnerStore>,
}

impl Caches {
    pub(super) fn new(informers: &mut Informers) -> Caches {
        Caches {
            deployments: informers.store(Kind::DEPLOYMENT, || ()),
            sets: owners::store(Kind::REPLICA_SET, informers),
        }
    }

    /// Returns the cached Deployment to which the controller reference resolves by name and UID, if
    /// any.
    pub(super) fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedDeployment>)> {
        let owner = meta.controller()?;
        let is_one = *owner.kind == *Kind::DEPLOYMENT.name();
        is_one.then(|| self.deployments.resolve(&meta.namespace, owner))?
    }

    /// Returns the ReplicaSets that a Deployment could keep, release or adopt: those whose
    /// controller has the UID `owner`, and the orphans of the namespace.
    pub(super) fn candidates(&self, namespace: &Str, owner: &Uid) -> Vec<Arc<Owner>> {
        let (owned, orphans) = (self.sets.owned(owner), self.sets.orphans(namespace));
        let most = |hint: (usize, Option<usize>)| hint.1.unwrap_or(0);
        let mut found = Vec::with_capacity(most(owned.size_hint()) + most(orphans.size_hint()));
        owned.for_each(|(_, set)| found.push(set));
        orphans.for_each(|(_, set)| found.push(set));
        found
    }
}
