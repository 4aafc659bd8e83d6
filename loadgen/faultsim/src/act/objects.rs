//! What users and others do to objects.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::{DeleteOptions, Patch, Propagation};
use podstorm_objects::{OwnerReference, Pod, Resource, Uid};
use serde_json::{Value, json};

use super::super::action::{Death, Dependents, Tampering};
use super::super::workloads::members;
use super::{Later, NAMESPACE, Player, STUCK, ready};

impl Player {
    pub(super) fn scale(&mut self, name: &str, replicas: i32) {
        if let Some(plan) = self.sets.get_mut(name) {
            plan.replicas = replicas;
        }
        let (kind, now) = (self.kind_of(name), self.site.now());
        self.written(kind.scale(self.cluster(), name, replicas, now));
    }

    pub(super) fn touch(&mut self, name: &str) {
        self.touches += 1;
        let touched = self.touches.to_string();
        self.patch_set(
            name,
            json!({"metadata": {"annotations": {"podstorm.example/touched": touched}}}),
        );
    }

    /// Touches every ReplicaSet once.
    pub(crate) fn touch_all(&mut self) {
        let names: Vec<String> = self.sets.keys().cloned().collect();
        for name in names {
            self.touch(&name);
        }
    }

    pub(super) fn patch_set(&self, name: &str, patch: Value) {
        let (kind, now) = (self.kind_of(name), self.site.now());
        self.written(kind.patch(self.cluster(), name, members(patch), now));
    }

    pub(super) fn patch_pod(&self, pod: &Pod, patch: Value) {
        let patch = Patch::Merge(members(patch));
        let (name, now) = (&pod.metadata.name, self.site.now());
        self.written(self.cluster().patch::<Pod>(NAMESPACE, name, &patch, now));
    }

    pub(super) fn patch_pod_status(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(members(patch));
        let now = self.site.now();
        self.written(
            self.cluster()
                .patch_status::<Pod>(NAMESPACE, name, &patch, now),
        );
    }

    /// A write by hand: where the object is gone, or another rule forbids it, it does not happen.
    pub(super) fn written<T>(&self, outcome: Result<T, ApiError>) {
        if let Err(error) = outcome {
            self.judge.note(|| format!("  (refused: {error})"));
        }
    }

    pub(super) fn delete_set(&mut self, name: &str, propagation: Dependents) {
        let options = DeleteOptions {
            propagation: Some(match propagation {
                Dependents::Orphan => Propagation::Orphan,
                Dependents::Background => Propagation::Background,
                Dependents::Foreground => Propagation::Foreground,
            }),
            ..DeleteOptions::default()
        };
        let (kind, now) = (self.kind_of(name), self.site.now());
        self.written(kind.delete(self.cluster(), name, &options, now));
    }

    pub(super) fn create_orphans(&mut self, name: &str, pods: u32) {
        let Some(like) = self.sets.get(name).map(|plan| plan.like.clone()) else {
            return;
        };
        for _ in 0..pods {
            let pod = Pod::from_json(json!({
                "metadata": {
                    "generateName": "bare-",
                    "namespace": NAMESPACE,
                    "labels": {"app": like},
                },
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            }))
            .expect("a pod of our own making");
            self.written(self.cluster().create(pod, self.site.now()));
        }
    }

    /// The pods of a ReplicaSet that pass, so many of a hundred, by name.
    pub(super) fn some_pods(
        &self,
        name: &str,
        percent: u32,
        pass: impl Fn(&Pod) -> bool,
    ) -> Vec<Arc<Pod>> {
        let Ok(set) = self.kind_of(name).get(self.cluster(), name) else {
            return Vec::new();
        };
        let (pods, _) = self.cluster().list::<Pod>(Some(NAMESPACE));
        let mut own: Vec<Arc<Pod>> = super::super::workloads::owned_by(&set, &pods)
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
                json!({"status": {"phase": phase, "conditions": ready}})
            };
            match how {
                Death::Failed => self.patch_pod_status(name, ended("Failed")),
                Death::Succeeded => self.patch_pod_status(name, ended("Succeeded")),
                Death::Deleted | Death::Removed => {
                    let options = DeleteOptions {
                        grace_period_seconds: (how == Death::Removed).then_some(0),
                        ..DeleteOptions::default()
                    };
                    let now = self.site.now();
                    self.written(self.cluster().delete::<Pod>(NAMESPACE, name, &options, now));
                }
            }
        }
    }

    pub(super) fn flap(&mut self, name: &str, percent: u32) {
        let mut pods = Vec::new();
        for pod in self.some_pods(name, percent, |pod| pod.is_active() && pod.is_ready()) {
            let status = json!({"status": {"conditions": [ready(false, &self.site)]}});
            self.patch_pod_status(&pod.metadata.name, status);
            pods.push((pod.metadata.name.to_string(), pod.metadata.uid.clone()));
        }
        self.wish_ms(self.world.startup_ms, Later::Ready { pods });
    }

    pub(super) fn ready_again(&mut self, pods: &[(String, Uid)]) {
        for (name, uid) in pods {
            let live = self.cluster().get::<Pod>(NAMESPACE, name);
            if live.is_ok_and(|pod| pod.metadata.uid == *uid && pod.is_active()) {
                let status = json!({"status": {"conditions": [ready(true, &self.site)]}});
                self.patch_pod_status(name, status);
            }
        }
    }

    pub(super) fn unstick(&mut self) {
        let (pods, _) = self.cluster().list::<Pod>(Some(NAMESPACE));
        for pod in pods {
            if pod
                .metadata
                .finalizers()
                .iter()
                .any(|name| **name == *STUCK)
            {
                self.patch_pod(&pod, json!({"metadata": {"finalizers": null}}));
            }
        }
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
                return self.patch_pod(pod, json!({"metadata": {"labels": {"app": "elsewhere"}}}));
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
        self.written(self.cluster().update(changed, self.site.now()));
    }
}
