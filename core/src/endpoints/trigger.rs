//! Since when a change has waited that endpoints are about to show: the annotation by which others measure
//! how long it took.
//!
//! Source: `TriggerTimeTracker` of Kubernetes' `k8s.io/endpointslice`.

use std::collections::BTreeSet;

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::HashMap;
use podstorm_objects::{ObjectMeta, Time, hash_state};

use super::selected::Selected;

/// The annotation.
pub(super) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What the last sync of a Service saw.
#[derive(Debug)]
pub(super) struct Triggers {
    /// When the Service was created.
    service: Time,
    /// When each pod became ready or stopped to be, by name.
    pods: HashMap<CompactString, Time, RandomState>,
}

impl Default for Triggers {
    fn default() -> Triggers {
        Triggers {
            service: Time::UNSET,
            pods: HashMap::with_hasher(hash_state()),
        }
    }
}

impl Triggers {
    /// Takes down what this sync sees; the oldest of the changes since the last one, if there is any. Allocates for
    /// new pods alone.
    pub(super) fn changed(&mut self, service: &ObjectMeta, pods: &[Selected]) -> Option<Time> {
        let mut oldest = Some(service.creation_timestamp).filter(|at| *at > self.service);
        for selected in pods {
            let (name, at) = (&selected.pod.metadata.name, selected.pod.ready_time());
            let before = match self.pods.get_mut(name) {
                Some(known) => std::mem::replace(known, at),
                None => {
                    self.pods.insert(name.clone(), at);
                    Time::UNSET
                }
            };
            if at > before {
                oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
            }
        }
        if self.pods.len() > pods.len() {
            let known = pods.iter().map(|selected| &selected.pod.metadata.name);
            let known: BTreeSet<&CompactString> = known.collect();
            self.pods.retain(|name, _| known.contains(name));
        }
        self.service = service.creation_timestamp;
        oldest.filter(|at| *at != Time::UNSET)
    }
}
