//! The taint eviction controller: it deletes pods that do not, or no longer, tolerate a `NoExecute`
//! taint of their node.
//!
//! `evictions`: the pods to delete and their times; `sync`: the requests that delete a pod. The
//! queue has a key for each pod with a scheduled eviction, and one for Events, because handlers
//! can't record Events.
//!
//! One lock guards the state of nodes and pods. It is not held across a call or while the pod cache
//! is read.
//!
//! As in upstream, a deleted pod that is still running is deleted again when the taints of its node
//! change.
//!
//! Source: Kubernetes' `pkg/controller/tainteviction`.

mod evictions;
mod row;
mod sync;

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{Kind, Node, Now, Object, ObjectReference, Pod, Str, Uid};
use podstorm_runtime::client::{EventIntent, EventMessage, EventType};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, MutexGuard, lock};
use podstorm_runtime::store::Change;
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::ControllerType as _;
use crate::node::{self, NO_EXECUTE, Taint, node_of};
use crate::pod_key::PodKey;
use evictions::{EVENTS, Evictions, Tolerated};

pub use row::TaintEviction;

/// The taint eviction controller. Other controllers may share its informers. A clone is a handle to
/// the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    pods: Arc<PodCache>,
    queue: RateLimitingQueue<KeyId>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The `NoExecute` taints of each node that has any, by node name.
    tainted: BTreeMap<Str, Vec<Taint>>,
    evictions: Evictions,
    /// The Events that the next sync will record.
    events: Vec<EventIntent>,
}

impl Controller {
    /// Creates a controller that reads nodes and pods from `informers`.
    pub fn new(informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            pods: Arc::clone(informers.pods()),
            queue: RateLimitingQueue::from_row(TaintEviction::ROW.queues[0]),
            state: Mutex::default(),
        });
        let _read_by_the_handler = informers.store::<Arc<Node>>(Kind::NODE, || ());
        informers.add_handler::<Arc<Node>>(Kind::NODE, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queue
    }
}

/// Builds an Event about a pod. As upstream, its reference has no UID.
fn event(pod: &PodKey, text: String) -> EventIntent {
    let reference = ObjectReference {
        kind: Kind::POD,
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: Uid::default(),
        resource_version: Default::default(),
    };
    EventIntent {
        regarding: Arc::new(reference),
        kind: EventType::Normal,
        reason: "TaintManagerEviction",
        message: EventMessage::Text(text.into()),
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Handles a node whose `NoExecute` taints are now `taints`.
    fn tainted(&self, node: &Str, taints: Vec<Taint>, now: Now) {
        {
            let mut state = self.lock();
            match taints.is_empty() {
                true => drop(state.tainted.remove(node)),
                false => drop(state.tainted.insert(node.clone(), taints.clone())),
            }
        }
        // The taints are stored first, so that a pod that is bound now is seen either here or by
        // its own handler.
        let mut pods = Vec::new();
        self.pods.for_each(|pod| {
            if node_of(pod) == Some(node) {
                pods.push(Arc::clone(pod));
            }
        });
        // Sorted, because the cache is unordered.
        pods.sort_by_cached_key(|pod| PodKey::of(pod));
        for pod in pods {
            self.decide(&pod, &taints, now);
        }
    }

    /// Decides whether and when to evict a pod on a node with these taints.
    fn decide(&self, pod: &Pod, taints: &[Taint], now: Now) {
        let tolerated = match taints.is_empty() {
            true => Tolerated::Always,
            false => Tolerated::new(taints, &node::tolerations(&pod.spec)),
        };
        let name = PodKey::of(pod);
        let mut state = self.lock();
        let decision = state.evictions.decide(&name, tolerated, now.mono_ns);
        if decision.is_cancelled {
            self.cancelled(&mut state, &name, now);
        }
        drop(state);
        if let Some((key, after_ns)) = decision.add {
            self.queue.add_after(key, after_ns, now.mono_ns);
        }
    }

    fn cancelled(&self, state: &mut State, pod: &PodKey, now: Now) {
        let text = format!("Cancelling deletion of Pod {pod}");
        state.events.push(event(pod, text));
        self.queue.add(EVENTS, now.mono_ns);
    }

    /// Handles a pod that changed from `old` to `new`.
    fn changed(&self, old: Option<&Pod>, new: &Pod, now: Now) {
        let Some(node) = node_of(new) else { return };
        let is_same = |old: &Pod| {
            let has_same = Arc::ptr_eq(&old.spec, &new.spec)
                || node::tolerations(&old.spec) == node::tolerations(&new.spec);
            node_of(old) == Some(node) && has_same
        };
        let Some(taints) = self.lock().tainted.get(node).cloned() else {
            return;
        };
        if !old.is_some_and(is_same) {
            self.decide(new, &taints, now);
        }
    }

    fn gone(&self, pod: &Pod, now: Now) {
        let name = PodKey::of(pod);
        let mut state = self.lock();
        if state.evictions.cancel(&name) {
            self.cancelled(&mut state, &name, now);
        }
    }
}

impl Handler<Arc<Node>> for Shared {
    fn handle(&self, change: &Change<Arc<Node>>, now: Now) {
        let of = |node: Option<&Arc<Arc<Node>>>| -> Vec<Taint> {
            let taints = node.map(|node| node::taints(node)).unwrap_or_default();
            let taints = taints.into_iter();
            taints.filter(|taint| taint.effect == NO_EXECUTE).collect()
        };
        match &change.new {
            Some(node) => {
                let taints = of(Some(node));
                if taints != of(change.old.as_ref()) {
                    self.tainted(&node.metadata.name.as_str().into(), taints, now);
                }
            }
            // The pods of a deleted node stay; the pod garbage collector deletes them.
            None => {
                if let Some(last) = &change.last {
                    let name = last.metadata().name.as_str();
                    self.lock().tainted.remove(name);
                }
            }
        }
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        let state = self.0.lock();
        match state.evictions.pod(key) {
            Some(pod) => pod.to_object_key(),
            None => ObjectKey {
                namespace: Str::default(),
                name: "events".into(),
            },
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        match change.deleted {
            true => self.0.gone(&change.new, now),
            false => self.0.changed(change.old.as_deref(), &change.new, now),
        }
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        let mut pods = self.0.pods.filled_by(listed);
        pods.sort_by_cached_key(|pod| PodKey::of(pod));
        for pod in pods {
            self.0.changed(None, &pod, now);
        }
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        sync::run(Arc::clone(&self.0), key, calls)
    }
}

#[cfg(test)]
mod tests;
