//! The status of a StatefulSet. Every sync computes it by counting the pods.

use podstorm_objects::DynamicObject;
use serde_json::{Value, json};

use super::pods::{SetPod, revision_number};
use super::spec::SetSpec;
use crate::replicaset::reconcile::is_available;

/// The status that a sync computes. Like upstream, writing it drops all members that others have
/// added, including conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) observed_generation: i64,
    pub(super) replicas: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) current: i64,
    pub(super) updated: i64,
    pub(super) current_revision: String,
    pub(super) update_revision: String,
    pub(super) collision_count: i32,
}

/// The criteria by which a pod counts as available or healthy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Health {
    pub(super) min_ready_seconds: i32,
    pub(super) now_ns: i64,
}

impl Health {
    /// Reports whether a pod has been ready for long enough, whatever its phase is.
    pub(super) fn is_available(self, pod: &SetPod) -> bool {
        let since = || pod.pod.ready_time();
        pod.is_ready
            && (self.min_ready_seconds == 0
                || is_available(since(), self.min_ready_seconds, self.now_ns))
    }

    /// Reports whether a pod is not available or is terminating.
    pub(super) fn is_unavailable(self, pod: &SetPod) -> bool {
        !self.is_available(pod) || pod.is_deleting
    }

    /// Reports whether a pod is running and has been ready for long enough.
    pub(super) fn is_healthy(self, pod: &SetPod) -> bool {
        pod.is_running_and_ready() && self.is_available(pod)
    }
}

impl Status {
    /// Reads the status of an object.
    pub(super) fn read(object: &DynamicObject) -> Status {
        let status = object.fields.get("status").unwrap_or(&Value::Null);
        let number = |name: &str| status[name].as_i64().unwrap_or(0);
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        Status {
            observed_generation: number("observedGeneration"),
            replicas: number("replicas"),
            ready: number("readyReplicas"),
            available: number("availableReplicas"),
            current: number("currentReplicas"),
            updated: number("updatedReplicas"),
            current_revision: text("currentRevision"),
            update_revision: text("updateRevision"),
            collision_count: i32::try_from(number("collisionCount")).unwrap_or(i32::MAX),
        }
    }

    /// Returns the status in the JSON form in which it is written.
    pub(super) fn to_json(&self) -> Value {
        let mut status = json!({
            "replicas": self.replicas,
            "availableReplicas": self.available,
            "collisionCount": self.collision_count,
        });
        let numbers = [
            ("observedGeneration", self.observed_generation),
            ("readyReplicas", self.ready),
            ("currentReplicas", self.current),
            ("updatedReplicas", self.updated),
        ];
        for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
            status[name] = number.into();
        }
        let texts = [
            ("currentRevision", &self.current_revision),
            ("updateRevision", &self.update_revision),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            status[name] = text.as_str().into();
        }
        status
    }

    /// Replaces the counts with those of these pods.
    pub(super) fn count<'p>(&mut self, pods: impl IntoIterator<Item = &'p SetPod>, health: Health) {
        (self.replicas, self.ready, self.available) = (0, 0, 0);
        (self.current, self.updated) = (0, 0);
        let current = revision_number(&self.current_revision);
        let updated = revision_number(&self.update_revision);
        for pod in pods {
            if pod.is_running_and_ready() {
                self.ready += 1;
                self.available += i64::from(health.is_available(pod));
            }
            if pod.is_created() {
                self.replicas += 1;
                if !pod.is_deleting {
                    self.current += i64::from(pod.revision == current);
                    self.updated += i64::from(pod.revision == updated);
                }
            }
        }
    }

    /// Completes a rolling update if all pods exist and are updated and ready. With `available`
    /// set, all pods must be available, too.
    pub(super) fn complete_rolling_update(&mut self, spec: &SetSpec, available: bool) {
        let last = if available {
            self.available
        } else {
            self.ready
        };
        let counts = [self.updated, self.ready, self.replicas, last];
        if spec.strategy.is_rolling && counts.iter().all(|count| *count == spec.replicas) {
            self.current = self.updated;
            self.current_revision.clone_from(&self.update_revision);
        }
    }

    /// Reports whether the stored status differs from this one. Ignores the collision count, so a
    /// change of only that count is not written.
    pub(super) fn differs_from(&self, stored: &Status) -> bool {
        fn compared(it: &Status) -> impl PartialEq {
            let counts = [it.replicas, it.ready, it.available, it.current, it.updated];
            (counts, &it.current_revision, &it.update_revision)
        }
        self.observed_generation > stored.observed_generation || compared(self) != compared(stored)
    }
}
