//! What the scheduler looks at of the claims that a pod names: a pod waits for claims that are not bound, and
//! says where the volumes of those are needed whose class waits for that.
//!
//! Source: `PreFilter` and `PreBind` of Kubernetes' `pkg/scheduler/framework/plugins/volumebinding`.

use std::sync::Arc;

use podstorm::client::WatchEvent;
use podstorm::volumes::owner_problem;
use podstorm_apiserver::{AnyWatch, Cluster, WatchFrom, WatchOptions};
use podstorm_objects::{DynamicObject, Kind, Now, Object, Pod, PodClaim};
use serde_json::Value;

use crate::executor::Waker;

/// On a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// On a claim whose first pod is to run on this node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Most events taken in one poll.
const BATCH: usize = 1_000;

/// The claims of a cluster. Nothing is watched before a pod waits for one.
pub(super) struct Claims {
    cluster: Arc<Cluster>,
    waker: Waker,
    watch: Option<AnyWatch>,
    events: Vec<WatchEvent<dyn Object>>,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims")
            .field("watched", &self.watch.is_some())
            .finish_non_exhaustive()
    }
}

/// The state of the claims of a pod.
pub(super) enum State {
    /// All are bound, if there are any.
    Bound,
    /// No node takes the pod, for this reason.
    Refused(String),
    /// These are bound when a node is selected.
    Late(Vec<Arc<DynamicObject>>),
}

impl Claims {
    pub(super) fn new(cluster: Arc<Cluster>, waker: Waker) -> Claims {
        Claims {
            cluster,
            waker,
            watch: None,
            events: Vec::new(),
        }
    }

    /// Whether claims for which pods wait may have changed since the last time.
    pub(super) fn have_changed(&mut self, now: Now) -> bool {
        let Some(watch) = &mut self.watch else {
            return false;
        };
        while watch.poll(BATCH, now, &mut self.events).more {}
        let mut is_news = false;
        for event in self.events.drain(..) {
            match event {
                WatchEvent::Bookmark { .. } => {}
                // The watch begins again with the next pod that waits.
                WatchEvent::Error(_) => {
                    self.watch = None;
                    return true;
                }
                _ => is_news = true,
            }
        }
        is_news
    }

    /// The state of a pod's claims. A pod without claims costs a search of its spec.
    pub(super) fn of(&mut self, pod: &Pod) -> State {
        let claims = pod.spec.claims(&pod.metadata.name);
        if claims.is_empty() {
            return State::Bound;
        }
        let (mut late, mut is_unbound) = (Vec::new(), false);
        for PodClaim { name, template } in claims {
            let api = self.cluster.api(Kind::PERSISTENT_VOLUME_CLAIM);
            let claim = api.get(&pod.metadata.namespace, &name);
            let claim = claim.ok().and_then(|it| it.downcast::<DynamicObject>());
            let Some(claim) = claim else {
                let why = match template {
                    None => format!("persistentvolumeclaim {:?} not found", &*name),
                    Some(_) => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim {:?}",
                        &*name
                    ),
                };
                return self.wait(State::Refused(why));
            };
            if claim.metadata.is_deleting() {
                let why = format!("persistentvolumeclaim {:?} is being deleted", &*name);
                return self.wait(State::Refused(why));
            }
            if template.is_some()
                && let Some(why) = owner_problem(&claim, pod)
            {
                return self.wait(State::Refused(why));
            }
            let volume = spec(&claim)["volumeName"].as_str().unwrap_or("");
            let is_bound = claim.metadata.annotations.get(BIND_COMPLETED).is_some();
            if !volume.is_empty() && is_bound {
                continue;
            }
            match volume.is_empty() && self.waits_for_consumer(&claim) {
                true => late.push(claim),
                false => is_unbound = true,
            }
        }
        match (is_unbound, late.is_empty()) {
            (true, _) => {
                let why = "pod has unbound immediate PersistentVolumeClaims";
                self.wait(State::Refused(why.to_owned()))
            }
            (false, false) => self.wait(State::Late(late)),
            (false, true) => State::Bound,
        }
    }

    /// From now on changes of claims are news. The initial state of the watch is too, so that nothing is missed
    /// that has changed since the claims were read.
    fn wait(&mut self, state: State) -> State {
        if self.watch.is_none() {
            let options = WatchOptions {
                waker: Some(Arc::clone(&self.waker)),
                ..WatchOptions::default()
            };
            let api = self.cluster.api(Kind::PERSISTENT_VOLUME_CLAIM);
            self.watch = api.watch(WatchFrom::Initial, options).ok();
        }
        state
    }

    fn waits_for_consumer(&self, claim: &DynamicObject) -> bool {
        let Some(class) = spec(claim)["storageClassName"].as_str() else {
            return false;
        };
        let class = self.cluster.api(Kind::STORAGE_CLASS).get("", class);
        let class = class.ok().and_then(|it| it.downcast::<DynamicObject>());
        class.is_some_and(|class| {
            let mode = class.fields.get("volumeBindingMode");
            mode.is_some_and(|mode| mode == "WaitForFirstConsumer")
        })
    }

    /// Says of claims on which node they are needed. A write that is too late is made when the pod is looked at
    /// again: the change that came before it wakes the pod.
    pub(super) fn select(&self, claims: &[Arc<DynamicObject>], node: &str, now: Now) {
        let api = self.cluster.api(Kind::PERSISTENT_VOLUME_CLAIM);
        for claim in claims {
            let annotations = &claim.metadata.annotations;
            if annotations.get(SELECTED_NODE).is_some() {
                continue;
            }
            let mut selected = DynamicObject::clone(claim);
            selected.metadata.annotations = annotations.with(SELECTED_NODE, node);
            let _again_when_it_has_changed = api.update(Arc::new(selected), now);
        }
    }
}

fn spec(claim: &DynamicObject) -> &Value {
    claim.fields.get("spec").unwrap_or(&Value::Null)
}
