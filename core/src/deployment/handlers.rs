//! The events that wake a Deployment: its own events, those of its ReplicaSets, and, with the
//! strategy `Recreate`, the deletion of a pod.
//!
//! Source: the event handlers in Kubernetes' `pkg/controller/deployment`. One difference: when a
//! pod is deleted, upstream asks the server for the ReplicaSets of the Deployment. This handler
//! makes no calls. The cached ReplicaSets suffice, because their later events wake the Deployment
//! anyway.

use podstorm_objects::{Kind, Now, ObjectMeta, Pod};
use podstorm_runtime::informer::Handler;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::owned::OwnedHandlers;
use podstorm_runtime::store::{Change, Keyed};

use super::Shared;
use super::cache::CachedDeployment;
use super::sizes::RECREATE;
use crate::replicaset::{Owner, OwnerChange};

/// Adds a Deployment's key after every change of the Deployment.
impl Handler<CachedDeployment> for Shared {
    fn handle(&self, change: &Change<CachedDeployment>, now: Now) {
        self.queue.add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

impl Handler<Owner> for Shared {
    fn handle(&self, change: &OwnerChange, now: Now) {
        let old = change.old.as_ref().map(|old| &old.object.metadata);
        let new = change.new.as_ref().map(|new| &new.object);
        if let Some(new) = new.or(change.last.as_ref()) {
            self.dependent_changed(old, &new.metadata, change.new.is_none(), now);
        }
    }
}

impl Shared {
    /// Handles a deleted pod. If the Deployment's strategy is `Recreate` and none of its pods is
    /// left, new pods can be created.
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

    /// Reports whether the Deployment's matching ReplicaSets have any pods, ended ones included.
    fn has_pods(&self, deployment: &CachedDeployment) -> bool {
        // A Deployment with a broken selector must not wake, so it counts as having pods. An absent
        // selector matches everything here, like an empty selector in a list request.
        let Ok(selector) = &deployment.selector else {
            return true;
        };
        let selects_all = deployment.object.spec.selector.is_none();
        let mut pods = 0;
        let uid = &deployment.object.metadata.uid;
        for (_, set) in self.caches.sets.owned(uid) {
            let meta = &set.object.metadata;
            if selects_all || selector.matches(&meta.labels) {
                pods += set.owned_pods.lock().len();
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
