//! The store of owners: ReplicaSets, or ReplicationControllers converted to ReplicaSets. An entry
//! has the compiled selector, the owned pods and, built on first use, the pod from the template
//! and the template's comparable form. All workloads that read ReplicaSets share the store.

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, Kind, ObjectMeta, ObjectReference, OwnerReference, Pod, ReplicaSet, Selector,
    SelectorError, Str,
};
use podstorm_runtime::cache::NamespacedSelector;
use podstorm_runtime::claim::Owned;
use podstorm_runtime::informer::{Informed, Informers};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::OnceLock;
use podstorm_runtime::store::{Cached, Change, Store};

use super::adapter::as_replica_set;
use super::reconcile::pod_from_template;
use crate::cache::{OwnedPods, PodCache};
use crate::template::TemplateForm;

/// The cached owners of one kind.
pub type OwnerStore = Store<Owner>;

/// A change of a cached owner.
pub type OwnerChange = Change<Owner>;

/// The kind and the pod cache that every cached owner is attached to.
#[derive(Debug)]
pub struct OwnerContext {
    /// The kind of the owners: ReplicaSet or ReplicationController.
    pub kind: Kind,
    /// The cache of the owners' pods.
    pub pods: Arc<PodCache>,
}

/// A cached owner and the values derived from it once.
#[derive(Debug)]
pub struct Owner {
    /// The dense key of the owner.
    pub key: KeyId,
    /// The ReplicaSet, possibly converted from a ReplicationController.
    pub object: Arc<ReplicaSet>,
    /// The namespace of the owner, in the type that requests use.
    pub namespace: Str,
    /// The compiled selector, or the compile error.
    pub selector: Result<Arc<Selector>, SelectorError>,
    /// The controller reference that the owner's pods carry.
    pub controller_ref: Arc<OwnerReference>,
    /// The pods with that controller reference.
    pub(crate) owned_pods: Arc<OwnedPods>,
    /// The orphans in the owner's namespace.
    pub(crate) orphans: Arc<OwnedPods>,
    /// The pod to create, built from the template on first use.
    pod_from_template: OnceLock<Arc<Pod>>,
    /// The comparable form of the template, built on first use. Only Deployments compare templates.
    template_form: OnceLock<TemplateForm>,
    /// The revision that Deployments read from the annotations, parsed on first use.
    revision: OnceLock<Option<i64>>,
    /// The reference that Events about the owner carry, built on first use.
    reference: OnceLock<Arc<ObjectReference>>,
}

/// Returns the store of the owners of this kind. A controller manager has one store per kind.
pub(crate) fn store(kind: Kind, informers: &mut Informers) -> Arc<OwnerStore> {
    let pods = Arc::clone(informers.pods());
    informers.store(kind, || OwnerContext { kind, pods })
}

impl Owner {
    /// Returns the pod to create, built from the template. All pods share it.
    pub fn pod_from_template(&self) -> &Arc<Pod> {
        self.pod_from_template
            .get_or_init(|| Arc::new(pod_from_template(&self.object, &self.controller_ref)))
    }

    /// Returns the comparable form of the template. O(1), but O(bytes) on the first call.
    pub fn template_form(&self) -> &TemplateForm {
        self.template_form
            .get_or_init(|| TemplateForm::from_template(&self.object.spec.template))
    }

    /// Returns the revision that `read` finds in the metadata. `read` runs once per version.
    pub(crate) fn revision(&self, read: impl FnOnce(&ObjectMeta) -> Option<i64>) -> Option<i64> {
        *self.revision.get_or_init(|| read(&self.object.metadata))
    }

    /// Returns the reference to this version of the object, for Events. `kind` is the owner's kind.
    pub fn reference(&self, kind: Kind) -> &Arc<ObjectReference> {
        self.reference
            .get_or_init(|| Arc::new(ObjectReference::new(kind, &self.object.metadata)))
    }
}

impl Cached for Owner {
    type Object = ReplicaSet;
    type Context = OwnerContext;

    /// Ranking reads the selectors of siblings.
    const BY_CONTROLLER: bool = true;

    /// A Deployment can adopt orphaned ReplicaSets.
    const ORPHANS: bool = true;

    fn derive(
        object: Arc<ReplicaSet>,
        key: KeyId,
        old: Option<&Owner>,
        context: &OwnerContext,
    ) -> Owner {
        let meta = &object.metadata;
        let old = old.filter(|old| old.object.metadata.uid == meta.uid);
        let selector = match old {
            Some(old) if old.object.spec.selector == object.spec.selector => old.selector.clone(),
            _ => Selector::compile(object.spec.selector.as_deref()).map(Arc::new),
        };
        if let Some(old) = old {
            let (was, is) = (&old.object.spec.template, &object.spec.template);
            let made = Some(old).filter(|_| Arc::ptr_eq(was, is) || was == is);
            return Owner {
                key,
                namespace: old.namespace.clone(),
                selector,
                controller_ref: old.controller_ref.clone(),
                owned_pods: old.owned_pods.clone(),
                orphans: old.orphans.clone(),
                pod_from_template: kept(made.map(|old| &old.pod_from_template)),
                template_form: kept(made.map(|old| &old.template_form)),
                revision: OnceLock::new(),
                reference: OnceLock::new(),
                object,
            };
        }
        let pods = &context.pods;
        let controller_ref = Arc::new(context.kind.controller_reference(meta));
        Owner {
            key,
            namespace: meta.namespace.clone(),
            selector,
            owned_pods: pods.attach_owner(&meta.namespace, &controller_ref, key),
            orphans: pods.orphans(&meta.namespace),
            controller_ref,
            pod_from_template: OnceLock::new(),
            template_form: OnceLock::new(),
            revision: OnceLock::new(),
            reference: OnceLock::new(),
            object,
        }
    }

    fn object(&self) -> &Arc<ReplicaSet> {
        &self.object
    }

    fn selector(&self) -> Option<&Arc<Selector>> {
        self.selector.as_ref().ok()
    }

    fn replaced(&self, new: Option<&Owner>, context: &OwnerContext) {
        if !new.is_some_and(|new| Arc::ptr_eq(&self.owned_pods, &new.owned_pods)) {
            context.pods.detach_owner(&self.owned_pods);
        }
    }
}

/// Copies a value that was built for the previous version, if there is one.
fn kept<T: Clone>(made: Option<&OnceLock<T>>) -> OnceLock<T> {
    let kept = OnceLock::new();
    if let Some(value) = made.and_then(OnceLock::get) {
        kept.get_or_init(|| value.clone());
    }
    kept
}

impl Informed for Owner {
    fn read(object: AnyObject) -> Option<Arc<ReplicaSet>> {
        as_replica_set(&object)
    }
}

impl Owned for Owner {
    fn kind(&self) -> Kind {
        Kind::REPLICA_SET
    }

    fn metadata(&self) -> &ObjectMeta {
        &self.object.metadata
    }
}

/// Fills `related` with the selectors and namespaces of all owners that have the same controller
/// as `owner`, `owner` included. Leaves it empty if `owner` has no controller. Skips selectors that
/// don't compile.
pub(super) fn related_selectors(
    owners: &OwnerStore,
    owner: &Owner,
    related: &mut Vec<NamespacedSelector>,
) {
    related.clear();
    // Upstream's index is empty for ReplicationControllers.
    if owners.context().kind != Kind::REPLICA_SET {
        return;
    }
    if let Some(controller) = owner.object.metadata.controller() {
        let siblings = owners.owned(&controller.uid);
        related.extend(siblings.filter_map(|(_, sibling)| {
            let selector = sibling.selector.as_ref().ok()?;
            Some(NamespacedSelector::new(&sibling.namespace, selector))
        }));
    }
}
