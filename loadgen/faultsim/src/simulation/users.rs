//! Actions of users and of other clients on objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::{DeleteOptions, Patch, Propagation, ScaleUpdate};
use podstorm_objects::{AnyObject, Kind, OwnerReference, Pod, Resource, Uid};
use serde_json::{Value, json};

use super::super::action::{Death, Dependents, Tampering};
use super::super::objects::{members, pod, touched, with};
use super::owners::owned_by;
use super::{Later, NAMESPACE, STUCK, Simulation, ready};

impl Simulation {
    /// A user sets the number of replicas.
    pub fn scale(&mut self, name: &str, replicas: i32) {
        if let Some(plan) = self.plans.get_mut(name) {
            plan.replicas = replicas;
        }
        let update = ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        let now = self.harness.now();
        self.ask(name, |api| api.update_scale(NAMESPACE, name, &update, now));
    }

    /// A user changes an annotation of an owner of pods, which wakes its key.
    pub fn touch(&mut self, name: &str) {
        self.touches += 1;
        self.patch_owner(name, touched(self.touches));
    }

    /// Touches every owner of pods once.
    pub(crate) fn touch_all(&mut self) {
        let there = self.all_owners();
        let there = there.iter().map(|owner| owner.metadata());
        let there = there.filter(|metadata| *metadata.namespace == *NAMESPACE);
        let mut names: BTreeSet<String> = there.map(|it| it.name.to_string()).collect();
        names.extend(self.plans.keys().cloned());
        names.iter().for_each(|name| self.touch(name));
    }

    /// Merges JSON into an owner of pods, as a user.
    pub fn patch_owner(&self, name: &str, patch: Value) {
        let (patch, now) = (Patch::Merge(members(patch)), self.harness.now());
        self.ask(name, |api| api.patch(NAMESPACE, name, &patch, now));
    }

    /// Merges JSON into a pod, as a user.
    pub fn patch_pod(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(members(patch));
        let now = self.harness.now();
        self.written(self.cluster().patch::<Pod>(NAMESPACE, name, &patch, now));
    }

    /// Merges JSON into the status of a pod, as a user.
    pub fn patch_pod_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(members(json!({"status": status})));
        let (cluster, now) = (self.cluster(), self.harness.now());
        self.written(cluster.patch_status::<Pod>(NAMESPACE, name, &patch, now));
    }

    /// A user creates an object in the namespace of the simulation. Returns the stored object, or
    /// `None` if the server rejects the request.
    ///
    /// # Panics
    /// Panics if the object is invalid for its kind.
    pub fn create_object(&self, kind: Kind, mut object: Value) -> Option<AnyObject> {
        if kind.is_namespaced() {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        let api = self.cluster().api(kind);
        let object = api.read(object);
        let object = object
            .expect("the server serves the kind")
            .expect("the object is valid for its kind");
        let created = api.create(object, self.harness.now());
        let object = created.as_ref().ok().cloned();
        self.written(created);
        object
    }

    /// A user merges JSON into an object in the namespace.
    pub fn patch_object(&self, kind: Kind, name: &str, patch: Value) {
        let (patch, now) = (Patch::Merge(members(patch)), self.harness.now());
        self.written(self.cluster().api(kind).patch(NAMESPACE, name, &patch, now));
    }

    /// Another client merges JSON into the status of an object in the namespace.
    pub fn patch_object_status(&self, kind: Kind, name: &str, status: Value) {
        let patch = Patch::Merge(members(json!({"status": status})));
        let (api, now) = (self.cluster().api(kind), self.harness.now());
        self.written(api.patch_status(NAMESPACE, name, &patch, now));
    }

    /// A user deletes an object in the namespace.
    pub fn delete_object(&self, kind: Kind, name: &str, dependents: Dependents) {
        let options = DeleteOptions {
            propagation: Some(dependents.policy()),
            ..DeleteOptions::default()
        };
        let now = self.harness.now();
        self.written(
            self.cluster()
                .api(kind)
                .delete(NAMESPACE, name, &options, now),
        );
    }

    /// Handles the outcome of a user's write. A write that is rejected, because the object was
    /// deleted or a rule forbids the write, has no effect. In a scripted simulation, a rejected
    /// write panics.
    pub(crate) fn written<T>(&self, outcome: Result<T, ApiError>) {
        if let Err(error) = outcome {
            assert!(!self.is_scripted, "a script's write is rejected: {error}");
            self.checker.note(|| format!("  (refused: {error})"));
        }
    }

    /// Writes the status of an owner of pods with one replica too many.
    pub(super) fn miscount(&self, name: &str) {
        self.ask(name, |api| {
            let said = &api.get(NAMESPACE, name)?.to_json()["status"]["replicas"];
            let status = json!({"status": {"replicas": said.as_i64().unwrap_or(0) + 1}});
            let (patch, now) = (Patch::Merge(members(status)), self.harness.now());
            api.patch_status(NAMESPACE, name, &patch, now)
        });
    }

    /// A user deletes an owner of pods.
    pub fn delete_owner(&self, name: &str, propagation: Propagation) {
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        let now = self.harness.now();
        self.ask(name, |api| api.delete(NAMESPACE, name, &options, now));
    }

    /// A user deletes a pod, with its own or the given grace period.
    pub fn delete_pod(&self, name: &str, grace_period_seconds: Option<i64>) {
        let options = DeleteOptions {
            grace_period_seconds,
            ..DeleteOptions::default()
        };
        let now = self.harness.now();
        self.written(self.cluster().delete::<Pod>(NAMESPACE, name, &options, now));
    }

    /// A user creates a pod.
    ///
    /// # Panics
    /// Panics if the pod is invalid.
    pub fn create_pod(&self, pod: Value) {
        let pod = Pod::from_json(pod).expect("the pod is valid");
        self.written(self.cluster().create(pod, self.harness.now()));
    }

    /// Creates a pod without an owner. The selector of `owner` matches the pod; without `owner`, no
    /// selector does.
    pub(super) fn create_named(&self, name: &str, owner: Option<&str>, cost: Option<i32>) {
        let like = owner.and_then(|owner| self.plans.get(owner));
        let labels = like.map_or_else(|| json!({"app": null}), |plan| json!({"app": plan.like}));
        let cost = cost.map(|cost| cost.to_string());
        let annotations = json!({"controller.kubernetes.io/pod-deletion-cost": cost});
        let metadata = json!({"labels": labels, "annotations": annotations});
        self.create_pod(with(pod(name, ""), json!({"metadata": metadata})));
    }

    pub(super) fn create_orphans(&self, name: &str, pods: u32) {
        let Some(plan) = self.plans.get(name) else {
            return;
        };
        let generated = json!({"metadata": {"name": null, "generateName": "bare-"}});
        let orphan = with(pod("", &plan.like), generated);
        (0..pods).for_each(|_| self.create_pod(orphan.clone()));
    }

    /// Returns the first pods of an owner for which `pass` returns true, in name order: the given
    /// percentage of them, rounded up.
    pub(super) fn some_pods(
        &self,
        name: &str,
        percent: u32,
        pass: impl Fn(&Pod) -> bool,
    ) -> Vec<Arc<Pod>> {
        let Some(owner) = self.owner(name) else {
            return Vec::new();
        };
        let (pods, _) = self.cluster().list::<Pod>(Some(NAMESPACE));
        let mut own: Vec<Arc<Pod>> = owned_by(owner.metadata(), &pods)
            .filter(|pod| pass(pod))
            .cloned()
            .collect();
        let count = (own.len() * percent as usize).div_ceil(100);
        own.truncate(count);
        own
    }

    pub(super) fn kill(&mut self, name: &str, percent: u32, how: Death) {
        for pod in self.some_pods(name, percent, Pod::is_active) {
            let name = &*pod.metadata.name;
            let ended = |phase: &str| {
                let ready = json!([{"type": "Ready", "status": "False"}]);
                json!({"phase": phase, "conditions": ready})
            };
            match how {
                Death::Failed => self.patch_pod_status(name, ended("Failed")),
                Death::Succeeded => self.patch_pod_status(name, ended("Succeeded")),
                Death::Deleted => self.delete_pod(name, None),
                Death::Removed => self.delete_pod(name, Some(0)),
            }
        }
    }

    pub(super) fn flap(&mut self, name: &str, percent: u32) {
        let mut pods = Vec::new();
        for pod in self.some_pods(name, percent, |pod| pod.is_active() && pod.is_ready()) {
            let status = json!({"conditions": [ready(false, &self.harness)]});
            self.patch_pod_status(&pod.metadata.name, status);
            pods.push((pod.metadata.name.to_string(), pod.metadata.uid.clone()));
        }
        self.after_ms(self.planned.startup_ms, Later::Ready { pods });
    }

    pub(super) fn ready_again(&mut self, pods: &[(String, Uid)]) {
        for (name, uid) in pods {
            let live = self.cluster().get::<Pod>(NAMESPACE, name);
            if live.is_ok_and(|pod| pod.metadata.uid == *uid && pod.is_active()) {
                let status = json!({"conditions": [ready(true, &self.harness)]});
                self.patch_pod_status(name, status);
            }
        }
    }

    pub(super) fn unstick(&mut self) {
        let (pods, _) = self.cluster().list::<Pod>(Some(NAMESPACE));
        let is_stuck = |pod: &&Arc<Pod>| pod.metadata.has_finalizer(STUCK);
        for pod in pods.iter().filter(is_stuck) {
            self.stick(pod, false);
        }
    }

    /// Adds or removes the finalizer that keeps a pod from being removed. Other finalizers stay.
    pub(super) fn stick(&self, pod: &Pod, is_stuck: bool) {
        let others = pod.metadata.finalizers().iter().map(|name| &**name);
        let others = others.filter(|name| *name != STUCK);
        let finalizers: Vec<&str> = others.chain(is_stuck.then_some(STUCK)).collect();
        let finalizers = match finalizers.is_empty() {
            true => Value::Null,
            false => json!(finalizers),
        };
        let patch = json!({"metadata": {"finalizers": finalizers}});
        self.patch_pod(&pod.metadata.name, patch);
    }

    pub(super) fn tamper(&mut self, name: &str, nth: u32, how: Tampering) {
        let pods = self.some_pods(name, 100, Pod::is_active);
        let Some(pod) = pods.get(nth as usize % pods.len().max(1)) else {
            return;
        };
        let mut changed = Pod::clone(pod);
        let owner = pod.metadata.controller().cloned();
        let with = |change: &dyn Fn(&mut OwnerReference)| {
            let mut owner = OwnerReference::clone(owner.as_deref()?);
            change(&mut owner);
            Some(Arc::new(owner))
        };
        let owner = match how {
            Tampering::Relabel => {
                let labels = json!({"metadata": {"labels": {"app": "elsewhere"}}});
                return self.patch_pod(&pod.metadata.name, labels);
            }
            Tampering::Orphan => None,
            Tampering::NotController => with(&|owner| owner.controller = Some(false)),
            Tampering::DanglingUid => with(&|owner| owner.uid = Uid::new("gone")),
            Tampering::WrongKind => with(&|owner| {
                owner.kind = "StatefulSet".into();
                owner.uid = Uid::new("gone");
            }),
            Tampering::ForeignController => with(&|owner| {
                owner.kind = "Job".into();
                owner.api_version = "batch/v1".into();
                owner.name = "foreign".into();
                owner.uid = Uid::new("foreign");
            }),
        };
        changed.metadata.owner_references = owner.into_iter().collect();
        self.written(self.cluster().update(changed, self.harness.now()));
    }
}
