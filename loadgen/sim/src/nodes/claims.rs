//! The scheduler's view of the claims that a pod names. A pod waits for its unbound claims, is
//! bound to a node that can mount its volumes, and gets volumes on this node for claims whose class
//! waits for the first consumer.
//!
//! A pod that waits for a claim is retried when the claim changes.
//!
//! Source: `PreFilter`, `Filter` and `PreBind` of Kubernetes'
//! `pkg/scheduler/framework/plugins/volumebinding`, 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::client::WatchEvent;
use podstorm::volumes::{BOUND_BY_CONTROLLER, NO_PROVISIONER, best_volume, owner_problem};
use podstorm_apiserver::{AnyWatch, Cluster, WatchFrom, WatchOptions};
use podstorm_objects::{DynamicObject, Kind, Node, Now, Object, Pod, PodClaim, Str};
use serde_json::{Value, json};

use super::asks::{NodeTerm, items};
use super::scheduler::Waiting;
use crate::executor::Waker;

/// The annotation that marks a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation that names the node of a claim's first pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The maximum number of events taken in one poll.
const BATCH: usize = 1_000;

/// The namespace and name of a claim.
pub(super) type ClaimKey = (Str, Str);

/// The claims of a cluster. The watches are opened only when they are needed.
pub(super) struct Claims {
    cluster: Arc<Cluster>,
    waker: Waker,
    claims: Option<AnyWatch>,
    /// Whether the watch of claims has been opened but not been read.
    is_unseen: bool,
    /// The watch of volumes, opened for the first claim whose class waits for a consumer.
    volumes: Option<AnyWatch>,
    events: Vec<WatchEvent<dyn Object>>,
    /// The pods that wait for each claim.
    waiting: BTreeMap<ClaimKey, Vec<Waiting>>,
    /// The volumes that are not reserved for a claim, by name.
    free: BTreeMap<Str, Arc<DynamicObject>>,
    /// The volumes reserved for claims that are not bound yet.
    reserved: BTreeMap<ClaimKey, Str>,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// The state of a pod's claims.
pub(super) enum State {
    /// All claims of the pod are bound. Holds the nodes that can mount the volumes.
    Bound(Vec<Reach>),
    /// No node can take the pod, for this reason, until this claim changes.
    Refused(String, ClaimKey),
    /// These claims will be bound once a node is selected. Also holds the nodes that can mount the
    /// volumes.
    Late(Vec<Arc<DynamicObject>>, Vec<Reach>),
}

/// The nodes that can mount a volume of a pod.
#[derive(Debug)]
pub(super) struct Reach {
    /// The terms, of which a node must match one.
    terms: Vec<NodeTerm>,
    /// The reason why other nodes can't take the pod.
    pub(super) reason: &'static str,
}

impl Reach {
    pub(super) fn has(&self, node: &Node) -> bool {
        self.terms.iter().any(|term| term.is_met(node))
    }
}

impl Claims {
    pub(super) fn new(cluster: Arc<Cluster>, waker: Waker) -> Claims {
        Claims {
            cluster,
            waker,
            claims: None,
            is_unseen: false,
            volumes: None,
            events: Vec::new(),
            waiting: BTreeMap::new(),
            free: BTreeMap::new(),
            reserved: BTreeMap::new(),
        }
    }

    /// Makes a pod wait for a claim. The watch of claims begins with the current state, so that no
    /// change since the claims were read is missed.
    pub(super) fn wait(&mut self, claim: ClaimKey, pod: Waiting) {
        self.waiting.entry(claim).or_default().push(pod);
        if self.claims.is_none() {
            self.claims = self.watch(Kind::PERSISTENT_VOLUME_CLAIM);
            self.is_unseen = true;
        }
    }

    /// Reports whether [`see`](Claims::see) must be called immediately: a watch that has not been
    /// read does not wake the scheduler.
    pub(super) fn is_unseen(&self) -> bool {
        self.is_unseen
    }

    /// Reports whether any pod waits for a claim.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Removes and returns all waiting pods.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        std::mem::take(&mut self.waiting).into_values().flatten()
    }

    /// Returns the pods that wait for claims that have changed since the last call, and whether a
    /// volume may now be available to other pods.
    pub(super) fn see(&mut self, now: Now) -> (Vec<Waiting>, bool) {
        let mut woken = Vec::new();
        self.is_unseen = false;
        let is_open = poll(&mut self.claims, &mut self.events, now);
        for event in self.events.drain(..) {
            if let Some((claim, _)) = object(&event) {
                let meta = claim.metadata();
                let key = (meta.namespace.clone(), Str::from(meta.name.as_str()));
                woken.extend(self.waiting.remove(&key).into_iter().flatten());
            }
        }
        if !is_open {
            // The watch is opened again for the next waiting pod.
            woken.extend(self.take_waiting());
        }
        (woken, self.see_volumes(now))
    }

    /// Updates the free volumes. Returns whether there may be new ones.
    fn see_volumes(&mut self, now: Now) -> bool {
        let is_open = poll(&mut self.volumes, &mut self.events, now);
        let mut is_news = !is_open;
        for event in self.events.drain(..) {
            let Some((volume, is_there)) = object(&event) else {
                continue;
            };
            let name = Str::from(volume.metadata().name.as_str());
            if !is_there {
                self.reserved.retain(|_, reserved| *reserved != name);
            }
            let volume = Arc::clone(volume).downcast::<DynamicObject>();
            let free = volume.filter(|it| is_there && part(it, "spec")["claimRef"].is_null());
            match free {
                Some(volume) => {
                    is_news = true;
                    self.free.insert(name, volume);
                }
                None => drop(self.free.remove(&name)),
            }
        }
        is_news
    }

    fn watch(&self, kind: Kind) -> Option<AnyWatch> {
        let options = WatchOptions {
            waker: Some(Arc::clone(&self.waker)),
            ..WatchOptions::default()
        };
        self.cluster
            .api(kind)
            .watch(WatchFrom::Initial, options)
            .ok()
    }

    fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let found = self.cluster.api(kind).get(namespace, name).ok();
        found.and_then(|it| it.downcast::<DynamicObject>())
    }

    /// Returns the state of a pod's claims. For a pod without claims, this costs a search of its
    /// spec.
    pub(super) fn state(&mut self, pod: &Pod, now: Now) -> State {
        let claims = pod.spec.claims(&pod.metadata.name);
        let (mut late, mut reach, mut unbound) = (Vec::new(), Vec::new(), None);
        for PodClaim { name, template } in claims {
            let key = (pod.metadata.namespace.clone(), name);
            let (namespace, name) = (&*key.0, &*key.1);
            let found = self.get(Kind::PERSISTENT_VOLUME_CLAIM, namespace, name);
            let Some(claim) = found else {
                let why = match template {
                    None => format!("persistentvolumeclaim {name:?} not found"),
                    Some(_) => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                    ),
                };
                return State::Refused(why, key);
            };
            if claim.metadata.is_deleting() {
                let why = format!("persistentvolumeclaim {name:?} is being deleted");
                return State::Refused(why, key);
            }
            if template.is_some()
                && let Some(why) = owner_problem(&claim, pod)
            {
                return State::Refused(why, key);
            }
            let volume = part(&claim, "spec")["volumeName"].as_str().unwrap_or("");
            let is_bound = claim.metadata.annotations.get(BIND_COMPLETED).is_some();
            if !volume.is_empty() && is_bound {
                reach.extend(self.reach_of_volume(volume));
                self.reserved.remove(&key);
                continue;
            }
            // The node was selected when the volume was reserved.
            if self.reserved.contains_key(&key) {
                late.push(claim);
                continue;
            }
            let class = volume.is_empty().then(|| self.late_class(&claim)).flatten();
            match class {
                Some(class) => {
                    reach.extend(self.reach_of_class(&class, &claim, now));
                    late.push(claim);
                }
                None => unbound = Some(key),
            }
        }
        match unbound {
            Some(key) => {
                let why = "pod has unbound immediate PersistentVolumeClaims";
                State::Refused(why.to_owned(), key)
            }
            None if late.is_empty() => State::Bound(reach),
            None => State::Late(late, reach),
        }
    }

    /// Returns the nodes that can mount a volume; `None` if all nodes can.
    fn reach_of_volume(&self, name: &str) -> Option<Reach> {
        let Some(volume) = self.get(Kind::PERSISTENT_VOLUME, "", name) else {
            return Some(Reach {
                terms: Vec::new(),
                reason: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            });
        };
        let terms = affinity(&volume)?;
        let reason = "node(s) didn't match PersistentVolume's node affinity";
        Some(Reach { terms, reason })
    }

    /// Returns the nodes on which a claim of the class can get a volume; `None` if all nodes are
    /// possible.
    fn reach_of_class(
        &mut self,
        class: &DynamicObject,
        claim: &DynamicObject,
        now: Now,
    ) -> Option<Reach> {
        if self.volumes.is_none() {
            self.volumes = self.watch(Kind::PERSISTENT_VOLUME);
        }
        self.see_volumes(now);
        let mut terms = Vec::new();
        for volume in self.free.values() {
            if best_volume([volume].into_iter(), claim, false).is_some() {
                terms.extend(affinity(volume)?);
            }
        }
        if is_provisioned(class) {
            let topologies = class.fields.get("allowedTopologies");
            let topologies = topologies.filter(|it| items(it).next().is_some())?;
            terms.extend(items(topologies).map(NodeTerm::of_topology));
        }
        let reason = "node(s) didn't find available persistent volumes to bind";
        Some(Reach { terms, reason })
    }

    /// Returns the class of a claim if its binding waits for the first consumer, or else `None`.
    fn late_class(&self, claim: &DynamicObject) -> Option<Arc<DynamicObject>> {
        let class = part(claim, "spec")["storageClassName"].as_str()?;
        let class = self.get(Kind::STORAGE_CLASS, "", class)?;
        let mode = class.fields.get("volumeBindingMode");
        mode.is_some_and(|mode| mode == "WaitForFirstConsumer")
            .then_some(class)
    }

    /// Records the selected node on claims, or reserves free volumes for them. A write that failed
    /// because of a conflict is repeated at the pod's next attempt, which the conflicting change
    /// triggers.
    pub(super) fn select(&mut self, claims: &[Arc<DynamicObject>], node: &str, now: Now) {
        let Ok(place) = self.cluster.get::<Node>("", node) else {
            return;
        };
        for claim in claims {
            let meta = &claim.metadata;
            let key = (meta.namespace.clone(), Str::from(meta.name.as_str()));
            if self.reserved.contains_key(&key) {
                continue;
            }
            let is_there = |it: &Vec<NodeTerm>| it.iter().any(|term| term.is_met(&place));
            let free = self.free.values();
            let near = free.filter(|it| affinity(it).as_ref().is_none_or(is_there));
            if let Some(volume) = best_volume(near, claim, false) {
                if self.reserve(&volume, claim, now).is_some() {
                    let name = volume.metadata.name.as_str();
                    self.reserved.insert(key, name.into());
                }
                continue;
            }
            let class = self.late_class(claim);
            let annotations = &claim.metadata.annotations;
            let is_selected = annotations.get(SELECTED_NODE).is_some();
            if is_selected || !class.is_some_and(|class| is_provisioned(&class)) {
                continue;
            }
            let mut selected = DynamicObject::clone(claim);
            selected.metadata.annotations = annotations.with(SELECTED_NODE, node);
            let api = self.cluster.api(Kind::PERSISTENT_VOLUME_CLAIM);
            let _again_when_it_has_changed = api.update(Arc::new(selected), now);
        }
    }

    /// Reserves a free volume for a claim; the binder then completes the binding. `None` if the
    /// write fails.
    fn reserve(&mut self, volume: &DynamicObject, claim: &DynamicObject, now: Now) -> Option<()> {
        let meta = &claim.metadata;
        let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": &*meta.namespace, "name": &*meta.name, "uid": meta.uid.to_string(),
            "resourceVersion": meta.resource_version.to_string()});
        let mut reserved = volume.clone();
        let annotations = &mut reserved.metadata.annotations;
        *annotations = annotations.with(BOUND_BY_CONTROLLER, "yes");
        reserved.fields.get_mut("spec")?["claimRef"] = reference;
        self.free.remove(volume.metadata.name.as_str());
        let api = self.cluster.api(Kind::PERSISTENT_VOLUME);
        api.update(Arc::new(reserved), now).ok().map(drop)
    }
}

/// Takes the events of a watch, and drops a watch that has ended. Returns whether the watch has not
/// ended.
fn poll(watch: &mut Option<AnyWatch>, events: &mut Vec<WatchEvent<dyn Object>>, now: Now) -> bool {
    if let Some(open) = watch {
        while open.poll(BATCH, now, events).more {}
    }
    let has_ended = events.iter().any(|it| matches!(it, WatchEvent::Error(_)));
    if has_ended {
        *watch = None;
    }
    !has_ended
}

/// Returns the object of an event, and whether the object still exists.
fn object(event: &WatchEvent<dyn Object>) -> Option<(&Arc<dyn Object>, bool)> {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => Some((object, true)),
        WatchEvent::Deleted(object) => Some((object, false)),
        WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => None,
    }
}

fn part<'o>(object: &'o DynamicObject, name: &str) -> &'o Value {
    object.fields.get(name).unwrap_or(&Value::Null)
}

/// Returns the terms of which a node must match one to mount the volume, or `None` if every node
/// can mount it.
fn affinity(volume: &DynamicObject) -> Option<Vec<NodeTerm>> {
    let required = &part(volume, "spec")["nodeAffinity"]["required"];
    let terms = required.get("nodeSelectorTerms")?;
    Some(items(terms).map(NodeTerm::from_value).collect())
}

/// Reports whether the class has a provisioner.
fn is_provisioned(class: &DynamicObject) -> bool {
    part(class, "provisioner") != NO_PROVISIONER
}
