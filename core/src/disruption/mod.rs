//! The disruption controller: it maintains the status of PodDisruptionBudgets, which evictions
//! check, and removes the condition `DisruptionTarget` from pods that were not deleted.
//!
//! `cache`: the stores that the controller reads; `selected`: the pods of each budget and their
//! counts, updated with every change of a pod. The cost of a sync therefore depends on the
//! controllers and evicted pods of the budget, not on all pods of the cluster. `sync` and `decide`:
//! one sync of a budget; `targets`: the second queue, for pods.
//!
//! One lock guards the state of pods. It is held for one change or one count, and taken before the
//! locks of the pod cache, of the name of a key, and of a queue's delays.
//!
//! As in upstream, a pod that several budgets select wakes only the first one by name, and scaling
//! a controller wakes no budget.
//!
//! Source: Kubernetes' `pkg/controller/disruption`.

mod cache;
mod decide;
mod row;
mod selected;
mod sync;
mod targets;

use std::sync::Arc;

use podstorm_objects::disruption::stale_from_ns;
use podstorm_objects::{Kind, Now, ObjectReference, Pod};
use podstorm_runtime::client::{EventIntent, EventType};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{AtomicBool, Mutex, MutexGuard, Ordering, lock};
use podstorm_runtime::store::{Change, Keyed};
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::ControllerType as _;
use crate::pod_key::PodKey;
use cache::{CachedBudget, Caches};
use selected::SelectedPods;
use targets::Targets;

pub use row::Disruption;

/// The index of the queue of budgets.
const BUDGETS: usize = 0;

/// The index of the queue of pods with the condition.
const TARGETS: usize = 1;

/// The disruption controller. Other controllers may share its informers. A clone is a handle to the
/// same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    caches: Caches,
    pods: Arc<PodCache>,
    queues: [RateLimitingQueue<KeyId>; 2],
    /// Whether any budget can select pods. Written under the lock of the state. The handler of pods
    /// reads it without the lock, so a cluster without budgets takes no lock.
    has_budgets: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    selected: SelectedPods,
    targets: Targets,
    /// The Events about pods that the next sync will record, because handlers can't record Events.
    events: Vec<EventIntent>,
}

impl Controller {
    /// Creates a controller that reads budgets, pods and the pods' controllers from `informers`.
    pub fn new(informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            caches: Caches::new(informers),
            pods: Arc::clone(informers.pods()),
            queues: [BUDGETS, TARGETS]
                .map(|at| RateLimitingQueue::from_row(Disruption::ROW.queues[at])),
            has_budgets: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let kind = Kind::POD_DISRUPTION_BUDGET;
        informers.add_handler::<CachedBudget>(kind, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the queue of budgets.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queues[BUDGETS]
    }

    /// Returns the queue of pods with the condition.
    pub fn targets(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queues[TARGETS]
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn take_events(&self) -> Vec<EventIntent> {
        std::mem::take(&mut self.lock().events)
    }

    /// Applies a change of a pod from `old` to `new`, where `None` means that the pod does not
    /// exist.
    fn apply(&self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>, now: Now) {
        let was_target = old.is_some_and(|old| stale_from_ns(old).is_some());
        let stale_ns = new.and_then(|new| stale_from_ns(new));
        // Relaxed: the cache changed before this load, and a budget reads the cache after its
        // store. The locks of the cache order these two steps.
        let has_budgets = self.has_budgets.load(Ordering::Relaxed);
        if !has_budgets && !was_target && stale_ns.is_none() {
            return;
        }
        let state = &mut *self.lock();
        let budgets = state.selected.apply(old, new);
        let Some(pod) = new.or(old) else { return };
        if let Some(first) = self.first(&budgets) {
            if budgets.len() > 1 {
                state.events.push(self.matches_several(pod, first));
            }
            self.queues[BUDGETS].add(first, now.mono_ns);
        }
        match stale_ns {
            Some(stale_ns) => {
                let key = state.targets.key(pod);
                let delay_ns = stale_ns.saturating_sub(now.wall_ns);
                self.queues[TARGETS].add_after(key, delay_ns, now.mono_ns);
            }
            None if was_target => state.targets.free(pod),
            None => {}
        }
    }

    /// Returns the first of these budgets by name; `None` if there are none.
    fn first(&self, budgets: &[KeyId]) -> Option<KeyId> {
        match budgets {
            [] => None,
            [one] => Some(*one),
            all => {
                let name = |key: &&KeyId| self.caches.budgets.name(**key).name;
                all.iter().min_by_key(name).copied()
            }
        }
    }

    fn matches_several(&self, pod: &Pod, chosen: KeyId) -> EventIntent {
        let (meta, name) = (&pod.metadata, self.caches.budgets.name(chosen).name);
        let text = format!(
            "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
            &*meta.namespace, &*meta.name, &*name
        );
        let reference = Arc::new(ObjectReference::new(Kind::POD, meta));
        let reason = "MultiplePodDisruptionBudgets";
        sync::event_about(&reference, EventType::Warning, reason, text)
    }
}

/// Adds a budget's key after every change of the budget.
impl Handler<CachedBudget> for Shared {
    fn handle(&self, change: &Change<CachedBudget>, now: Now) {
        let new = change.new.as_ref();
        let selector = new.and_then(|new| {
            let selector = new.selector.as_ref().ok()?;
            Some((&new.budget.metadata.namespace, selector))
        });
        let mut state = self.lock();
        if selector.is_some() {
            // Set before the budget reads the pods, so a change of a pod is seen by one of the two.
            self.has_budgets.store(true, Ordering::Relaxed);
        }
        state.selected.set_budget(change.key, selector, &self.pods);
        let has_budgets = !state.selected.is_empty();
        self.has_budgets.store(has_budgets, Ordering::Relaxed);
        drop(state);
        self.queues[BUDGETS].add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queues[BUDGETS])
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        if queue == BUDGETS {
            return self.0.caches.budgets.name(key);
        }
        let state = self.0.lock();
        let pod = state.targets.pod(key).map(PodKey::to_object_key);
        pod.unwrap_or_default()
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queues
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        let new = Some(&change.new).filter(|_| !change.deleted);
        // The deletion of an unknown pod also wakes the budget that selects its last state.
        let old = match change.deleted {
            true => change.old.as_ref().or(Some(&change.new)),
            false => change.old.as_ref(),
        };
        self.0.apply(old, new, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        for pod in self.0.pods.filled_by(listed) {
            self.0.apply(None, Some(&pod), now);
        }
    }

    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            match queue {
                BUDGETS => sync::run(shared, key, calls).await,
                _ => targets::spare(shared, key, calls).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
