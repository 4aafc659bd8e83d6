//! Since when a change has waited that endpoints are about to show: the annotation by which others measure
//! how long it took.
//!
//! Source: `TriggerTimeTracker` of Kubernetes' `k8s.io/endpointslice`.

use std::collections::BTreeMap;

use podstorm_objects::{ObjectMeta, Time};

use super::selected::Selected;

/// The annotation.
pub(super) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What the last sync of a Service saw.
#[derive(Debug, Default)]
pub(super) struct Triggers {
    /// When the Service was created.
    service: Time,
    /// When each pod became ready or stopped to be, by name.
    pods: BTreeMap<String, Time>,
}

impl Triggers {
    /// Takes down what this sync sees; the oldest of the changes since the last one, if there is any.
    pub(super) fn changed(&mut self, service: &ObjectMeta, pods: &[Selected]) -> Option<Time> {
        let now = pods.iter().map(|selected| {
            let pod = &selected.pod;
            (pod.metadata.name.to_string(), pod.ready_time())
        });
        let now: BTreeMap<String, Time> = now.collect();
        let of_pods = now.iter().filter_map(|(name, at)| {
            let before = self.pods.get(name).copied().unwrap_or(Time::UNSET);
            (*at > before).then_some(*at)
        });
        let of_service = Some(service.creation_timestamp).filter(|at| *at > self.service);
        let oldest = of_pods
            .chain(of_service)
            .filter(|at| *at != Time::UNSET)
            .min();
        self.pods = now;
        self.service = service.creation_timestamp;
        oldest
    }
}
