//! Pods that users create and remove under a name.

use podstorm_apiserver::DeleteOptions;
use podstorm_objects::{Pod, Resource};
use serde_json::json;

use super::{NAMESPACE, Player};

impl Player {
    /// Creates a pod without an owner, matched by that ReplicaSet's selector or by none.
    pub(super) fn create_named(&self, name: &str, set: Option<&str>, cost: Option<i32>) {
        let like = set.and_then(|set| self.sets.get(set));
        let labels = like.map_or_else(|| json!({}), |plan| json!({"app": plan.like}));
        let annotations = cost.map_or_else(
            || json!({}),
            |cost| json!({"controller.kubernetes.io/pod-deletion-cost": cost.to_string()}),
        );
        let pod = Pod::from_json(json!({
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        }))
        .expect("a pod of our own making");
        self.written(self.cluster().create(pod, self.site.now()));
    }

    /// Removes a pod without a grace period.
    pub(super) fn remove_named(&self, name: &str) {
        let options = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        let now = self.site.now();
        self.written(self.cluster().delete::<Pod>(NAMESPACE, name, &options, now));
    }
}
