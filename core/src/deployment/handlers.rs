//! What wakes a Deployment: events of its own, of its ReplicaSets, and the end of a pod where pods are
//! recreated.
//!
//! Source: the event handlers in Kubernetes' `pkg/controller/deployment`. One difference: upstream asks
//! the server for the ReplicaSets of a Deployment when a pod ends; a handler makes no calls here, and the
//! cached ones serve as well, because a later event of theirs wakes the Deployment anyway.

use podstorm_objects::{AnyObject, Kind, Now, Object, Pod, ResourceVersion};
use podstorm_runtime::owned::OwnedChange;

use super::Shared;
use super::cache::{CachedDeployment, CachedSet};
use super::sizes::RECREATE;
use crate::cache::Delta;

impl Shared {
    /// Whatever happens to a Deployment wakes it.
    pub(super) fn deployment_changed(&self, delta: Delta<dyn Object>, now: Now) {
        let derive = |object: &AnyObject| self.caches.derive_deployment(object);
        // The informer of this kind delivers no other kind.
        let delta = match &delta {
            Delta::Applied(object) => derive(object).map(Delta::Applied),
            Delta::Deleted(object) => derive(object).map(Delta::Deleted),
        };
        if let Some(delta) = delta {
            let key = self.caches.apply(delta);
            self.queue.add(key, now.mono_ns);
        }
    }

    /// All Deployments: those that are gone are woken first, in the order of their keys.
    pub(super) fn deployments_listed(
        &self,
        objects: &[AnyObject],
        version: &ResourceVersion,
        now: Now,
    ) {
        let deployments = &self.caches.deployments;
        let derive = |object: &AnyObject| self.caches.derive_deployment(object);
        let listed: Vec<_> = objects.iter().filter_map(derive).collect();
        let named: std::collections::BTreeSet<_> = listed
            .iter()
            .map(|it| &it.object.metadata)
            .map(|meta| deployments.key(&meta.namespace, &meta.name))
            .collect();
        let gone = deployments.keys().filter(|key| !named.contains(key));
        let gone: Vec<_> = gone.filter_map(|key| deployments.get(key)).collect();
        deployments.version().before_list(version);
        let gone = gone.into_iter().map(Delta::Deleted);
        for delta in gone.chain(listed.into_iter().map(Delta::Applied)) {
            let key = self.caches.apply(delta);
            self.queue.add(key, now.mono_ns);
        }
        deployments.bookmark(version);
    }

    pub(super) fn replica_set_changed(&self, delta: Delta<dyn Object>, now: Now) {
        let (Delta::Applied(object) | Delta::Deleted(object)) = &delta;
        let Some(set) = self.caches.derive_set(object) else {
            return;
        };
        let change = match delta {
            Delta::Applied(_) => self.caches.sets.put(set),
            Delta::Deleted(_) => self.caches.sets.remove(set),
        };
        self.handle_set(&change, now);
    }

    pub(super) fn replica_sets_listed(
        &self,
        objects: &[AnyObject],
        version: &ResourceVersion,
        now: Now,
    ) {
        let derive = |object: &AnyObject| self.caches.derive_set(object);
        let listed = objects.iter().filter_map(derive).collect();
        for change in self.caches.sets.replace(listed, version) {
            self.handle_set(&change, now);
        }
    }

    fn handle_set(&self, change: &OwnedChange<CachedSet>, now: Now) {
        let new = &change.new.object.metadata;
        match &change.old {
            _ if change.deleted => self.wake_owner(&change.new, now),
            None if new.is_deleting() => self.wake_owner(&change.new, now),
            None if new.controller().is_some() => self.wake_owner(&change.new, now),
            None => self.wake_matching(&change.new, now),
            Some(old) => self.set_updated(old, &change.new, now),
        }
    }

    fn set_updated(&self, old: &CachedSet, new: &CachedSet, now: Now) {
        let (was, is) = (&old.object.metadata, &new.object.metadata);
        if was.resource_version == is.resource_version {
            return;
        }
        let controller_changed = was.controller() != is.controller();
        if controller_changed {
            self.wake_owner(old, now);
        }
        if is.controller().is_some() {
            self.wake_owner(new, now);
        } else if controller_changed || was.labels != is.labels {
            self.wake_matching(new, now);
        }
    }

    fn wake_owner(&self, set: &CachedSet, now: Now) {
        if let Some((key, _)) = self.caches.resolve(&set.object.metadata) {
            self.queue.add(key, now.mono_ns);
        }
    }

    fn wake_matching(&self, set: &CachedSet, now: Now) {
        let meta = &set.object.metadata;
        for key in self.caches.matching(&meta.namespace, &meta.labels) {
            self.queue.add(key, now.mono_ns);
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
        let set = self.caches.sets.get(&pod.metadata.namespace, &owner.name);
        let Some(set) = set.filter(|set| set.object.metadata.uid == owner.uid) else {
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
        self.caches.sets.for_each_owned(uid, |set| {
            let meta = &set.object.metadata;
            if selects_all || selector.matches(&meta.labels) {
                let owner = Kind::REPLICA_SET.controller_reference(meta);
                let owned = self.caches.pods.owned_by(&meta.namespace, &owner);
                pods += owned.map_or(0, |owned| owned.lock().len());
            }
        });
        pods > 0
    }
}
