//! The disruption controller: keeps the status of PodDisruptionBudgets, which evictions ask, and
//! takes the condition `DisruptionTarget` back from pods that were not deleted.
//!
//! Commits of budgets and pods notify the controller after
//! their locks are released and put keys into a queue; [`Cluster::sync_disruptions`] syncs them
//! later, by requests of its own. A sync reads the budget and the pods as they are then. So either
//! it sees a pod's commit, or the commit's notification comes later and queues the key again.
//!
//! The controller is on while it has a waker. Until a budget exists or a pod is about to be evicted,
//! a pod's commit costs the reading of one flag.
//!
//! Lock order: the state, then shards of stores.

mod budget;
mod controllers;
mod decide;
mod queue;
pub(crate) mod target;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use compact_str::CompactString;
use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind, Now, Pod, Selector, Str};

use crate::store::KindStore;
use crate::store::counts::{Verb, WriteEffects};
use crate::store::lock::Lock;
use crate::update::{Update, prepare_and_validate};
use crate::{Cluster, Waker, builtin, errors};
use queue::{Queue, SyncKey};

pub(crate) use budget::SYNC_FAILED;
pub use budget::{Amount, Budget, BudgetStatus, Condition, DELETION_TIMEOUT_NS};
pub use controllers::{Controllers, PodController};
pub use decide::{Decision, DisruptionEvent, decide, fail_safe};
pub use target::stale_from_ns;

/// The controller's state.
#[derive(Debug, Default)]
pub(super) struct DisruptionController {
    /// Whether commits of pods are looked at. Set under the lock of the state, before the first
    /// key is queued.
    watches_pods: AtomicBool,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    /// The controller is on while there is one.
    waker: Option<Waker>,
    /// The compiled selectors of budgets by namespace and name; budgets with invalid ones match
    /// no pod.
    budgets: BTreeMap<Str, BTreeMap<CompactString, Selector>>,
    queue: Queue,
    events: Vec<DisruptionEvent>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("budgets", &self.budgets.len())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// What came of [`Cluster::sync_disruptions`].
#[derive(Debug, Default)]
pub struct DisruptionSyncs {
    /// The number of syncs.
    pub done: usize,
    /// When the next key is due, in monotonic ns; `None` when no key waits. In the past when one
    /// is due already.
    pub next_due_ns: Option<i64>,
    /// What to record, in order.
    pub events: Vec<DisruptionEvent>,
}

impl Cluster {
    /// Turns the disruption controller on, with a waker that is called when there is something to
    /// sync, or off.
    pub fn set_disruption_waker(&self, waker: Option<Waker>) {
        let on = waker.is_some();
        let mut state = self.disruption.state.lock();
        *state = State {
            waker,
            ..State::default()
        };
        self.disruption.watches_pods.store(false, Ordering::Relaxed);
        drop(state);
        if on {
            // What is there already.
            for budget in self.budgets(None) {
                self.notify_disruption_of_budget(&budget);
            }
            let mut targets = Vec::new();
            self.for_each::<Pod>(|pod| {
                if target::stale_from_ns(pod).is_some() {
                    targets.push(pod.clone());
                }
            });
            for pod in targets {
                self.expect_disruption_targets();
                self.notify_disruption_of_pod(&pod, false);
            }
        }
    }

    /// The budgets of a namespace or of all, sorted by namespace and name.
    pub(crate) fn budgets(&self, namespace: Option<&str>) -> Vec<Arc<DynamicObject>> {
        let list = |store: &KindStore<DynamicObject>| store.snapshot(namespace).objects;
        self.with_used_store(builtin::BUDGET, list)
            .unwrap_or_default()
    }

    /// The stored budget of that name.
    ///
    /// # Errors
    /// 404.
    pub(crate) fn budget(&self, namespace: &str, name: &str) -> Result<Budget, ApiError> {
        let get = |store: &KindStore<DynamicObject>| store.get(namespace, name);
        let stored = self.with_used_store(builtin::BUDGET, get);
        let stored = stored.unwrap_or_else(|| Err(errors::not_found(builtin::BUDGET, name)))?;
        Ok(Budget::of(&stored))
    }

    /// Notifies the controller of a commit of a budget. The caller holds no lock.
    pub(crate) fn notify_disruption_of_budget(&self, budget: &DynamicObject) {
        let mut state = self.disruption.state.lock();
        if state.waker.is_none() {
            return;
        }
        self.disruption.watches_pods.store(true, Ordering::Relaxed);
        let (namespace, name) = (&budget.metadata.namespace, &budget.metadata.name);
        // Read under the lock: of two notifications the later one finds the later state.
        let stored = self.budget(namespace, name).ok();
        let selector = stored.and_then(|stored| stored.compiled().ok());
        let in_namespace = state.budgets.entry(namespace.clone()).or_default();
        match selector {
            Some(selector) => drop(in_namespace.insert(name.clone(), selector)),
            None => drop(in_namespace.remove(name)),
        }
        state.add(SyncKey::Budget(namespace.clone(), name.clone()));
    }

    /// Notifies the controller of a commit of a pod: its new state, or the last one of a removed
    /// pod. The caller holds no lock.
    #[inline]
    pub(crate) fn notify_disruption_of_pod(&self, pod: &Pod, removed: bool) {
        // Relaxed: the flag is set before the keys of the first budget or pod are queued, and the
        // locks of the stores order a commit that misses it before the sync.
        if self.disruption.watches_pods.load(Ordering::Relaxed) {
            self.see_pod(pod, removed);
        }
    }

    #[cold]
    fn see_pod(&self, pod: &Pod, removed: bool) {
        let metadata = &pod.metadata;
        let mut state = self.disruption.state.lock();
        let budgets = state.budgets.get(&metadata.namespace);
        let mut matching = budgets
            .into_iter()
            .flatten()
            .filter(|(_, selector)| selector.matches(&metadata.labels))
            .map(|(name, _)| name);
        if let Some(first) = matching.next().cloned() {
            let several = matching.next().is_some();
            if several {
                let message = format!(
                    "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {first:?} \
                     arbitrarily.",
                    &*metadata.namespace, &*metadata.name
                );
                let reason = "MultiplePodDisruptionBudgets";
                let event = DisruptionEvent::about_pod(pod, reason, message);
                state.events.push(event);
            }
            state.add(SyncKey::Budget(metadata.namespace.clone(), first));
        }
        let key = SyncKey::Pod(metadata.namespace.clone(), metadata.name.clone());
        if removed || metadata.is_deleting() {
            state.queue.cancel(&key);
        } else if let Some(due_ns) = target::stale_from_ns(pod) {
            state.add_at(key, due_ns);
        }
    }

    /// Has the commits of pods looked at from now on, if the controller is on: a pod is about to be
    /// evicted.
    pub(crate) fn expect_disruption_targets(&self) {
        let state = self.disruption.state.lock();
        if state.waker.is_some() {
            self.disruption.watches_pods.store(true, Ordering::Relaxed);
        }
    }

    /// Looks at an object that a client has written: a pod may be about to be disrupted.
    pub(crate) fn notice_written(&self, written: &AnyObject) {
        if written.kind() == Kind::POD
            && let Some(pod) = written.clone().downcast::<Pod>()
        {
            self.notice_disruption_target(&pod);
        }
    }

    fn notice_disruption_target(&self, pod: &Pod) {
        if !self.disruption.watches_pods.load(Ordering::Relaxed)
            && target::stale_from_ns(pod).is_some()
        {
            self.expect_disruption_targets();
            self.notify_disruption_of_pod(pod, false);
        }
    }

    /// Syncs up to `max` keys of the disruption controller that are due.
    pub fn sync_disruptions(&self, max: usize, now: Now) -> DisruptionSyncs {
        let mut syncs = DisruptionSyncs::default();
        while syncs.done < max {
            let next = self.disruption.state.lock().queue.pop(now.wall_ns);
            let Some(key) = next else { break };
            syncs.done += 1;
            let synced = match &key {
                SyncKey::Budget(namespace, name) => {
                    self.sync_budget(namespace, name, &mut syncs.events, now)
                }
                SyncKey::Pod(namespace, name) => self.spare_pod(namespace, name, now),
            };
            let mut state = self.disruption.state.lock();
            match synced {
                Ok(recheck_after_ns) => state.queue.done(key, recheck_after_ns, now.wall_ns),
                Err(_) => state.queue.retry(key, now.wall_ns),
            }
        }
        let mut state = self.disruption.state.lock();
        state.events.append(&mut syncs.events);
        syncs.events = std::mem::take(&mut state.events);
        let due_ns = state.queue.next_due_ns();
        // From the wall clock to the monotonic one.
        syncs.next_due_ns = due_ns.map(|due_ns| {
            let left_ns = due_ns.saturating_sub(now.wall_ns);
            now.mono_ns.saturating_add(left_ns)
        });
        syncs
    }

    /// Syncs a budget; returns when to do it again, ns from now.
    fn sync_budget(
        &self,
        namespace: &Str,
        name: &str,
        events: &mut Vec<DisruptionEvent>,
        now: Now,
    ) -> Result<Option<i64>, ApiError> {
        let Ok(mut budget) = self.budget(namespace, name) else {
            // It is gone.
            return Ok(None);
        };
        let mut pods = Vec::new();
        if let Ok(selector) = budget.compiled() {
            self.for_each::<Pod>(|pod| {
                let metadata = &pod.metadata;
                if metadata.namespace == *namespace && selector.matches(&metadata.labels) {
                    pods.push(pod.clone());
                }
            });
        }
        pods.sort_unstable_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let decision = decide(&budget, &pods, self, now);
        events.extend(decision.events);
        let Some(status) = decision.status else {
            return Ok(decision.recheck_after_ns);
        };
        let before = std::mem::replace(&mut budget.status, status);
        match self.put_budget_status(&budget, now) {
            Ok(()) => Ok(decision.recheck_after_ns),
            Err(error) if error.code == 409 => Err(error),
            Err(error) => {
                budget.status = fail_safe(&before, &error.message, now);
                self.put_budget_status(&budget, now).map(|()| None)
            }
        }
    }

    /// Writes the status of a budget, at the version that was read.
    ///
    /// # Errors
    /// As [`update_status`](Cluster::update_status).
    pub(crate) fn put_budget_status(&self, budget: &Budget, now: Now) -> Result<(), ApiError> {
        let object = Arc::new(budget.status_update());
        self.api(builtin::BUDGET).update_status(object, now)?;
        Ok(())
    }

    /// Takes the condition back from a pod whose deletion has not begun in time.
    fn spare_pod(&self, namespace: &str, name: &str, now: Now) -> Result<Option<i64>, ApiError> {
        let effects = WriteEffects::of(Verb::UpdateStatus);
        let mut left_ns = None;
        let written = self.modify(&self.pods, namespace, name, now, |old| {
            left_ns = target::stale_from_ns(old).map(|at_ns| at_ns.saturating_sub(now.wall_ns));
            if left_ns.is_none_or(|left_ns| left_ns > 0) {
                return Ok(Update::Keep);
            }
            left_ns = None;
            let mut new = target::spared(old, now);
            prepare_and_validate(self, &mut new, &**old, effects.verb, None)?;
            Ok(Update::Write(new, effects))
        });
        match written {
            // It is gone.
            Err(error) if error.is_not_found() => Ok(None),
            written => written.map(|_| left_ns),
        }
    }
}

impl State {
    fn add(&mut self, key: SyncKey) {
        if self.queue.add(key) {
            self.wake();
        }
    }

    fn add_at(&mut self, key: SyncKey, due_ns: i64) {
        if self.queue.add_at(key, due_ns) {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker();
        }
    }
}

#[cfg(test)]
mod tests;
