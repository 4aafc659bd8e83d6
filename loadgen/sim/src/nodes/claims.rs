//! What the scheduler looks at of the claims that a pod names: a pod waits for claims that are not bound, goes where
//! its volumes can be mounted, and gets volumes there for those of its claims whose class waits for that.
//!
//! A pod that waits for a claim is tried again when the claim changes.
//!
//! Source: `PreFilter`, `Filter` and `PreBind` of Kubernetes' `pkg/scheduler/framework/plugins/volumebinding`, 1.36.

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

/// On a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// On a claim whose first pod is to run on this node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Most events taken in one poll.
const BATCH: usize = 1_000;

/// Namespace and name of a claim.
pub(super) type ClaimKey = (Str, Str);

/// The claims of a cluster. Nothing is watched before a pod waits for one.
pub(super) struct Claims {
    cluster: Arc<Cluster>,
    waker: Waker,
    claims: Option<AnyWatch>,
    /// Whether that watch is new.
    is_unseen: bool,
    /// Watched once a claim's class waits for its first pod.
    volumes: Option<AnyWatch>,
    events: Vec<WatchEvent<dyn Object>>,
    /// The pods that wait for each claim.
    waiting: BTreeMap<ClaimKey, Vec<Waiting>>,
    /// The volumes that no claim has, by name.
    free: BTreeMap<Str, Arc<DynamicObject>>,
    /// The volume that was reserved for each claim that is not bound yet.
    reserved: BTreeMap<ClaimKey, Str>,
}

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claims")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

/// The state of the claims of a pod.
pub(super) enum State {
    /// All are bound, if there are any.
    Bound(Vec<Reach>),
    /// No node takes the pod, for this reason, until the claim has changed.
    Refused(String, ClaimKey),
    /// These are bound when a node is selected.
    Late(Vec<Arc<DynamicObject>>, Vec<Reach>),
}

/// The nodes on which a volume of a pod can be.
#[derive(Debug)]
pub(super) struct Reach {
    /// One of them holds for each of the nodes.
    terms: Vec<NodeTerm>,
    /// Why others refuse the pod.
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

    /// Has a pod wait for a claim. From now on changes of claims are seen. The initial state of the watch is too, so
    /// that nothing is missed that has changed since the claims were read.
    pub(super) fn wait(&mut self, claim: ClaimKey, pod: Waiting) {
        self.waiting.entry(claim).or_default().push(pod);
        if self.claims.is_none() {
            self.claims = self.watch(Kind::PERSISTENT_VOLUME_CLAIM);
            self.is_unseen = true;
        }
    }

    /// Whether to [look](Claims::see) at once: a watch that has not been read wakes nothing.
    pub(super) fn is_unseen(&self) -> bool {
        self.is_unseen
    }

    /// Whether a pod waits for a claim.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// All pods that wait.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        std::mem::take(&mut self.waiting).into_values().flatten()
    }

    /// The pods that wait for claims that have changed since the last time; whether other pods may be in reach of a
    /// volume now.
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
            // The watch begins again with the next pod that waits.
            woken.extend(self.take_waiting());
        }
        (woken, self.see_volumes(now))
    }

    /// Takes in which volumes are free; whether there are more of them.
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

    /// The state of a pod's claims. A pod without claims costs a search of its spec.
    pub(super) fn of(&mut self, pod: &Pod, now: Now) -> State {
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
            // The node was chosen when the volume was reserved.
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

    /// Where a volume can be mounted; nothing where it can everywhere.
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

    /// Where a claim of a class can get a volume; nothing where it can everywhere.
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

    /// The class of a claim that is bound when its first pod has a node.
    fn late_class(&self, claim: &DynamicObject) -> Option<Arc<DynamicObject>> {
        let class = part(claim, "spec")["storageClassName"].as_str()?;
        let class = self.get(Kind::STORAGE_CLASS, "", class)?;
        let mode = class.fields.get("volumeBindingMode");
        mode.is_some_and(|mode| mode == "WaitForFirstConsumer")
            .then_some(class)
    }

    /// Says of claims on which node they are needed, or gives them volumes there that are free. A write that is too
    /// late is made when the pod is looked at again: the change that came before it wakes the pod.
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

    /// Reserves a free volume for a claim; the binder does the rest.
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

/// Takes the events of a watch. An ended one is closed; returns whether it was not.
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

/// The object of an event, and whether it is there.
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

/// The terms of which a node meets one that can mount the volume; `None` where every node can.
fn affinity(volume: &DynamicObject) -> Option<Vec<NodeTerm>> {
    let required = &part(volume, "spec")["nodeAffinity"]["required"];
    let terms = required.get("nodeSelectorTerms")?;
    Some(items(terms).map(NodeTerm::of).collect())
}

/// Whether volumes of the class are made for its claims.
fn is_provisioned(class: &DynamicObject) -> bool {
    part(class, "provisioner") != NO_PROVISIONER
}
