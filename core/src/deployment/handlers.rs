//! What wakes a Deployment: events of its own, of its ReplicaSets, and the end of a pod where pods are
//! recreated.
//!
//! Source: the event handlers in Kubernetes' `pkg/controller/deployment`. One difference: upstream asks
//! the server for the ReplicaSets of a Deployment when a pod ends; a handler makes no calls here, and the
//! cached ones serve as well, because a later event of theirs wakes the Deployment anyway.

use podstorm_objects::{
    AnyObject, Deployment, Kind, Now, Object, ObjectMeta, Pod, ResourceVersion,
};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::owned::OwnedHandlers;
use podstorm_runtime::store::{Change, Keyed};

use super::Shared;
use super::cache::{CachedDeployment, CachedSet};
use super::sizes::RECREATE;
use crate::cache::Delta;

/// No key of a ReplicaSet is kept anywhere.
struct NoKeys;

impl Keyed for NoKeys {
    fn is_idle(&self, _: KeyId) -> bool {
        true
    }

    fn forget(&self, _: KeyId) {}
}

impl Shared {
    /// Whatever happens to a Deployment wakes it.
    pub(super) fn deployment_changed(&self, delta: Delta<dyn Object>, now: Now) {
        // The informer of this kind delivers no other kind.
        if let Some(delta) = delta.filter_map(|object| Deployment::of(&object)) {
            let change = self.caches.deployments.apply(delta, &self.queue, now);
            self.queue.add(change.key, now.mono_ns);
        }
    }

    /// All Deployments: those that are gone are woken first.
    pub(super) fn deployments_listed(
        &self,
        objects: &[AnyObject],
        version: &ResourceVersion,
        now: Now,
    ) {
        let listed = objects.iter().filter_map(Deployment::of).collect();
        let deployments = &self.caches.deployments;
        for change in deployments.replace(listed, version, &self.queue, now) {
            self.queue.add(change.key, now.mono_ns);
        }
    }

    pub(super) fn replica_set_changed(&self, delta: Delta<dyn Object>, now: Now) {
        if let Some(delta) = delta.filter_map(|object| object.downcast()) {
            let change = self.caches.sets.apply(delta, &NoKeys, now);
            self.handle_set(&change, now);
        }
    }

    pub(super) fn replica_sets_listed(
        &self,
        objects: Vec<AnyObject>,
        version: &ResourceVersion,
        now: Now,
    ) {
        let listed = objects.into_iter().filter_map(|it| it.downcast());
        let sets = &self.caches.sets;
        for change in sets.replace(listed.collect(), version, &NoKeys, now) {
            self.handle_set(&change, now);
        }
    }

    fn handle_set(&self, change: &Change<CachedSet>, now: Now) {
        let old = change.old.as_ref().map(|old| &old.object.metadata);
        let new = change.new.as_ref().map(|new| &new.object);
        if let Some(new) = new.or(change.last.as_ref()) {
            self.dependent_changed(old, &new.metadata, change.new.is_none(), now);
        }
    }

    /// A pod is gone. If its Deployment recreates pods, and none of the old ones is left, new ones can
    /// be created.
    pub(super) fn pod_deleted(&self, pod: &Pod, now: Now) {
        let Some(owner) = pod.metadata.controller() else {
            return;
        };
        if *owner.kind != *Kind::REPLICA_SET.name() {
            return;
        }
        let Some((_, set)) = self.caches.sets.resolve(&pod.metadata.namespace, owner) else {
            return;
        };
        if let Some((key, deployment)) = self.caches.resolve(&set.object.metadata)
            && *deployment.object.spec.strategy.kind == *RECREATE
            && !self.has_pods(&deployment)
        {
            self.queue.add(key, now.mono_ns);
        }
    }

    /// Whether ReplicaSets of a Deployment that its selector matches have pods, ended ones included.
    fn has_pods(&self, deployment: &CachedDeployment) -> bool {
        // A broken selector selects nothing to count, and nothing is done then; an absent one selects
        // everything here, as an empty text does in a list.
        let Ok(selector) = &deployment.selector else {
            return true;
        };
        let selects_all = deployment.object.spec.selector.is_none();
        let mut pods = 0;
        let uid = &deployment.object.metadata.uid;
        for (_, set) in self.caches.sets.owned(uid) {
            let meta = &set.object.metadata;
            if selects_all || selector.matches(&meta.labels) {
                let owner = Kind::REPLICA_SET.controller_reference(meta);
                let owned = self.caches.pods.owned_by(&meta.namespace, &owner);
                pods += owned.map_or(0, |owned| owned.lock().len());
            }
        }
        pods > 0
    }
}

impl OwnedHandlers for Shared {
    type Dependent<'a> = &'a ObjectMeta;

    const ENDS_GRACEFULLY: bool = false;

    fn owner(&self, set: &ObjectMeta) -> Option<KeyId> {
        self.caches.resolve(set).map(|(key, _)| key)
    }

    fn wake_matching(&self, set: &ObjectMeta, now: Now) {
        let deployments = &self.caches.deployments;
        for (key, _) in deployments.matching(&set.namespace, &set.labels) {
            self.wake(key, now);
        }
    }

    fn wake(&self, deployment: KeyId, now: Now) {
        self.queue.add(deployment, now.mono_ns);
    }
}
