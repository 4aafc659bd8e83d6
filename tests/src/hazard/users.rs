//! What users, nodes and other controllers do in a scenario.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::object::{Pod, ReplicaSet, Resource, Str};
use podstorm_apiserver::{DeleteOptions, Patch, Propagation, ScaleUpdate};
use serde_json::{Value, json};

use super::objects;
use super::scene::Scene;
use crate::harness::NAMESPACE;

impl Scene {
    /// Creates a ReplicaSet.
    ///
    /// # Panics
    /// When it can't be read or is refused.
    pub fn create_set(&self, object: Value) -> Arc<ReplicaSet> {
        let object = ReplicaSet::from_json(object).expect("a ReplicaSet of our own making");
        let created = self.cluster().create(object, self.now());
        created.expect("the ReplicaSet is accepted")
    }

    /// Creates a pod.
    ///
    /// # Panics
    /// When it can't be read or is refused.
    pub fn create_pod(&self, object: Value) -> Arc<Pod> {
        let object = Pod::from_json(object).expect("a pod of our own making");
        let created = self.cluster().create(object, self.now());
        created.expect("the pod is accepted")
    }

    /// Merges JSON into a ReplicaSet.
    ///
    /// # Panics
    /// When it is refused.
    pub fn patch_set(&self, name: &str, patch: Value) -> Arc<ReplicaSet> {
        let patched = self
            .cluster()
            .patch(NAMESPACE, name, &merge(patch), self.now());
        patched.expect("the patch is accepted")
    }

    /// Merges JSON into the status of a ReplicaSet.
    ///
    /// # Panics
    /// When it is refused.
    pub fn patch_set_status(&self, name: &str, status: Value) {
        let patch = merge(json!({"status": status}));
        self.cluster()
            .patch_status::<ReplicaSet>(NAMESPACE, name, &patch, self.now())
            .expect("the patch is accepted");
    }

    /// Changes an annotation of a ReplicaSet, so that its key is heard of.
    ///
    /// # Panics
    /// When it is not there.
    pub fn touch(&self, name: &str) {
        let version = self.set(name).metadata.resource_version.to_string();
        self.patch_set(
            name,
            json!({"metadata": {"annotations": {"touched-at": version}}}),
        );
    }

    /// Sets `spec.replicas`.
    ///
    /// # Panics
    /// When it is refused.
    pub fn scale(&self, name: &str, replicas: i32) {
        let update = ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        self.cluster()
            .update_scale::<ReplicaSet>(NAMESPACE, name, &update, self.now())
            .expect("the scale is accepted");
    }

    /// Deletes a ReplicaSet, or begins to.
    ///
    /// # Panics
    /// When it is refused.
    pub fn delete_set(&self, name: &str, propagation: Propagation) {
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        self.cluster()
            .delete::<ReplicaSet>(NAMESPACE, name, &options, self.now())
            .expect("the deletion is accepted");
    }

    /// Merges JSON into a pod.
    ///
    /// # Panics
    /// When it is refused.
    pub fn patch_pod(&self, name: &str, patch: Value) {
        self.try_patch_pod(name, patch)
            .expect("the patch is accepted");
    }

    /// Merges JSON into a pod.
    ///
    /// # Errors
    /// The server's answer.
    pub fn try_patch_pod(&self, name: &str, patch: Value) -> Result<Arc<Pod>, ApiError> {
        self.cluster()
            .patch(NAMESPACE, name, &merge(patch), self.now())
    }

    /// Merges JSON into the status of a pod.
    ///
    /// # Panics
    /// When it is refused.
    pub fn patch_pod_status(&self, name: &str, status: Value) {
        let patch = merge(json!({"status": status}));
        self.cluster()
            .patch_status::<Pod>(NAMESPACE, name, &patch, self.now())
            .expect("the patch is accepted");
    }

    /// A pod is running and ready, from now on.
    ///
    /// # Panics
    /// When it is refused.
    pub fn make_ready(&self, name: &str) {
        let since = self.now().wall().to_string();
        self.ready_since(name, true, Some(&since));
    }

    /// A pod is running, and ready or not since then.
    ///
    /// # Panics
    /// When it is refused.
    pub fn ready_since(&self, name: &str, ready: bool, since: Option<&str>) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
        self.patch_pod_status(name, json!({"phase": "Running", "conditions": [condition]}));
    }

    /// Binds a pod to a node.
    ///
    /// # Panics
    /// When it is refused.
    pub fn bind(&self, name: &str, node: &str) {
        self.cluster()
            .bind(NAMESPACE, name, &Str::from(node), self.now())
            .expect("the binding is accepted");
    }

    /// Deletes a pod with the grace that it has.
    ///
    /// # Panics
    /// When it is refused.
    pub fn delete_pod(&self, name: &str) {
        self.delete_pod_within(name, None);
    }

    /// Deletes a pod at once.
    ///
    /// # Panics
    /// When it is refused.
    pub fn kill_pod(&self, name: &str) {
        self.delete_pod_within(name, Some(0));
    }

    fn delete_pod_within(&self, name: &str, grace_period_seconds: Option<i64>) {
        let options = DeleteOptions {
            grace_period_seconds,
            ..DeleteOptions::default()
        };
        self.cluster()
            .delete::<Pod>(NAMESPACE, name, &options, self.now())
            .expect("the deletion is accepted");
    }

    /// A user makes a pod that carries the ReplicaSet as its controller.
    ///
    /// # Panics
    /// When it is refused.
    pub fn forge_pod(&self, name: &str, set: &str) -> Arc<Pod> {
        let uid = self.set(set).metadata.uid.clone();
        self.create_pod(objects::pod_of(name, set, &uid))
    }
}

fn merge(patch: Value) -> Patch {
    match patch {
        Value::Object(map) => Patch::Merge(map),
        other => panic!("a patch is an object, not {other}"),
    }
}
