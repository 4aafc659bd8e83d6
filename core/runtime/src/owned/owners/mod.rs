//! The owners that a workload syncs, for workloads whose kind owns pods and possibly other objects:
//! the store of the owners, the queue of their keys, and the expectations about their pods. A
//! controller that uses [`Owners`] contains only the decisions of a sync.
//!
//! Source: the common parts of the controllers in Kubernetes' `pkg/controller`: informer handlers,
//! work queue, `UIDTrackingControllerExpectations`, `slowStartBatch`.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Now, Object, ObjectMeta, Pod};

use super::{OwnedHandlers, OwnedPod};
use crate::cache::{PodCache, PodChange};
use crate::client::{Answer, Request};
use crate::driver::Calls;
use crate::expectations::Expectations;
use crate::informer::{Handler, Informed, Informers};
use crate::intern::KeyId;
use crate::store::{Change, Keyed, Store};
use crate::workqueue::{QueueRow, RateLimitingQueue};

/// The owners of one kind.
pub struct Owners<T: Informed> {
    kind: Kind,
    store: Arc<Store<T>>,
    pods: Arc<PodCache>,
    queue: RateLimitingQueue<KeyId>,
    /// The names of the pods that were created or deleted but whose event the cache does not have
    /// yet.
    expectations: Expectations<KeyId, String>,
}

impl<T: Informed> Debug for Owners<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owners")
            .field("kind", &self.kind)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl<T: Informed<Context: Default>> Owners<T> {
    /// Creates the owners of this kind from the kind's informer. Every change of an owner adds its
    /// key to the queue.
    pub fn new(kind: Kind, queue: QueueRow, informers: &mut Informers) -> Arc<Owners<T>> {
        let owners = Arc::new(Owners {
            kind,
            store: informers.store::<T>(kind, T::Context::default),
            pods: Arc::clone(informers.pods()),
            queue: RateLimitingQueue::from_row(queue),
            expectations: Expectations::new(),
        });
        informers.add_handler::<T>(kind, Arc::clone(&owners) as _);
        owners
    }

    /// Returns the store of another kind whose objects the owners own. Every change of such an
    /// object adds its owner's key to the queue.
    pub fn owning<D>(self: &Arc<Self>, kind: Kind, informers: &mut Informers) -> Arc<Store<D>>
    where
        D: Informed<Context: Default>,
    {
        let store = informers.store::<D>(kind, D::Context::default);
        informers.add_handler::<D>(kind, Arc::new(Dependents(Arc::clone(self))));
        store
    }
}

impl<T: Informed> Owners<T> {
    /// Returns the store that has the owners.
    pub fn store(&self) -> &Arc<Store<T>> {
        &self.store
    }

    /// Returns the queue of the owners' keys.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.queue
    }

    /// Handles a change of a pod; [`Workload::pod_changed`](crate::driver::Workload::pod_changed)
    /// calls this.
    pub fn pod_changed(&self, change: &PodChange, now: Now) {
        let (old, new) = OwnedPod::states(change);
        self.dependent_changed(old, new, change.deleted, now);
    }

    /// Reports whether the cache shows all creations and deletions of pods for the owner. A sync
    /// must check this before it [reads the pods](Owners::active_pods).
    pub fn is_settled(&self, key: KeyId, now: Now) -> bool {
        self.expectations.satisfied(key, now.mono_ns)
    }

    /// Returns an owner's pods that neither have ended nor are being deleted, in no particular
    /// order. O(the owner's pods).
    pub fn active_pods(&self, owner: &ObjectMeta) -> Vec<Arc<Pod>> {
        let reference = self.kind.controller_reference(owner);
        let Some(owned) = self.pods.owned_by(&owner.namespace, &reference) else {
            return Vec::new();
        };
        let members = owned.lock();
        let active = members.iter().filter(|(_, member)| member.is_active());
        active.map(|(pod, _)| Arc::clone(pod)).collect()
    }

    /// Creates `count` pods for an owner, in batches of 1, 2, 4, … up to the first batch with a
    /// failure. `pod` needs neither a namespace nor an owner reference. The owner is
    /// [settled](Owners::is_settled) once the cache shows the pods.
    ///
    /// # Errors
    /// Returns the first refusal. Pods that were refused, or not requested, are not awaited.
    pub fn create_pods(
        &self,
        calls: &Calls,
        key: KeyId,
        owner: &ObjectMeta,
        mut pod: Pod,
        count: usize,
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        let reference = self.kind.controller_reference(owner);
        pod.metadata.owner_references.push(Arc::new(reference));
        let pod = Arc::new(pod);
        let expected = i64::try_from(count).unwrap_or(i64::MAX);
        self.expectations
            .expect_creations(key, expected, calls.now().mono_ns);
        let namespace = owner.namespace.clone();
        let create = move |_| Request::CreatePod {
            namespace: namespace.clone(),
            pod: Arc::clone(&pod),
            name: None,
        };
        async move {
            let started = calls.slow_start(count, create).await;
            let answers = started.answers.iter();
            let created = answers.filter(|it| matches!(it, Answer::Pod(_))).count();
            let never = i64::try_from(count - created).unwrap_or(i64::MAX);
            self.expectations.creations_observed(key, never);
            started.first_error().cloned().map_or(Ok(()), Err)
        }
    }

    /// Deletes pods of an owner concurrently, each with its UID as a precondition. The owner is
    /// [settled](Owners::is_settled) once the cache shows the deletions.
    ///
    /// # Errors
    /// Returns the first refusal. A pod that does not exist is not an error.
    pub fn delete_pods(
        &self,
        calls: &Calls,
        key: KeyId,
        pods: &[Arc<Pod>],
    ) -> impl Future<Output = Result<(), ApiError>> + Send {
        let names = pods.iter().map(|pod| pod.metadata.name.to_string());
        self.expectations
            .expect_deletions(key, names, calls.now().mono_ns);
        let delete = |pod: &Arc<Pod>| Request::DeletePod {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: Some(pod.metadata.uid.clone()),
        };
        let requests: Vec<Request> = pods.iter().map(delete).collect();
        async move {
            let answers = calls.batch(requests).await;
            let mut outcome = Ok(());
            for (pod, answer) in pods.iter().zip(answers) {
                if let Answer::Failed(error) = answer {
                    self.deletion_observed(key, &pod.metadata);
                    if !error.is_not_found() {
                        outcome = outcome.and(Err(error));
                    }
                }
            }
            outcome
        }
    }

    /// Returns the key of the cached owner to which the object's controller reference resolves.
    fn owner_of(&self, object: &ObjectMeta) -> Option<KeyId> {
        let reference = object.controller()?;
        let is_ours = *reference.kind == *self.kind.name();
        let found = is_ours.then(|| self.store.resolve(&object.namespace, reference));
        found.flatten().map(|(key, _)| key)
    }
}

impl<T: Informed> Handler<T> for Owners<T> {
    fn handle(&self, change: &Change<T>, now: Now) {
        let uid = |form: &Option<Arc<T>>| {
            let form = form.as_ref();
            form.map(|form| form.object().metadata().uid.clone())
        };
        if uid(&change.old) != uid(&change.new) {
            // The pods of a deleted owner are no longer awaited.
            self.expectations.delete(change.key);
        }
        self.queue.add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl<T: Informed> Keyed for Owners<T> {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queue.is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.queue.forget(key);
        self.expectations.delete(key);
    }
}

impl<T: Informed> OwnedHandlers for Owners<T> {
    type Dependent<'a> = OwnedPod<'a>;

    const ENDS_GRACEFULLY: bool = true;

    fn owner(&self, pod: OwnedPod<'_>) -> Option<KeyId> {
        self.owner_of(&pod.pod.metadata)
    }

    /// Does nothing, because the owners adopt no orphans.
    fn wake_matching(&self, _: &ObjectMeta, _: Now) {}

    fn wake(&self, owner: KeyId, now: Now) {
        self.queue.add(owner, now.mono_ns);
    }

    fn creation_observed(&self, owner: KeyId) {
        self.expectations.creation_observed(owner);
    }

    fn deletion_observed(&self, owner: KeyId, pod: &ObjectMeta) {
        self.expectations
            .deletion_observed(owner, pod.name.as_str());
    }
}

/// The handler for owned objects other than pods.
struct Dependents<T: Informed>(Arc<Owners<T>>);

impl<T: Informed> OwnedHandlers for Dependents<T> {
    type Dependent<'a> = &'a ObjectMeta;

    const ENDS_GRACEFULLY: bool = false;

    fn owner(&self, object: &ObjectMeta) -> Option<KeyId> {
        self.0.owner_of(object)
    }

    fn wake_matching(&self, _: &ObjectMeta, _: Now) {}

    fn wake(&self, owner: KeyId, now: Now) {
        self.0.wake(owner, now);
    }
}

impl<T: Informed, D: Informed> Handler<D> for Dependents<T> {
    fn handle(&self, change: &Change<D>, now: Now) {
        let meta = |form: &Arc<D>| Arc::clone(form.object());
        let old = change.old.as_ref().map(meta);
        let new = change.new.as_ref().map(meta);
        let last = change.last.clone();
        let Some(state) = new.as_ref().or(last.as_ref()) else {
            return;
        };
        let old = old.as_ref().map(|old| old.metadata());
        self.dependent_changed(old, state.metadata(), new.is_none(), now);
    }
}

#[cfg(test)]
mod tests;
