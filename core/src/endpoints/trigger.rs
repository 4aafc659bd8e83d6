//! The time of the change that caused a write of endpoints. The write has this time in an
//! annotation, by which clients measure the latency of endpoints.
//!
//! Source: `TriggerTimeTracker` of Kubernetes' `k8s.io/endpointslice`.

use std::collections::BTreeSet;

use compact_str::CompactString;
use hashbrown::HashTable;
use podstorm_objects::{ObjectMeta, Time};

use super::selected::Selected;
use super::slices::Index;

/// The annotation that holds the time.
pub(super) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The state of a Service and its pods that the last sync saw.
#[derive(Debug)]
pub(super) struct Triggers {
    /// The creation time of the Service.
    service: Time,
    /// The time at which each pod last became ready or ceased to be ready, by the hash of its
    /// name.
    pods: HashTable<(u64, CompactString, Time)>,
    /// The index of the endpoints in the Service's slices.
    pub(super) index: Index,
}

impl Default for Triggers {
    fn default() -> Triggers {
        Triggers {
            service: Time::UNSET,
            pods: HashTable::new(),
            index: Index::default(),
        }
    }
}

impl Triggers {
    /// Records the state that this sync sees. Returns the time of the oldest change since the last
    /// sync; `None` if there was no change. Allocates only for new pods.
    pub(super) fn changed(&mut self, service: &ObjectMeta, pods: &[Selected]) -> Option<Time> {
        let mut oldest = Some(service.creation_timestamp).filter(|at| *at > self.service);
        for selected in pods {
            let (name, at) = (&selected.pod.metadata.name, selected.pod.ready_time());
            let is_it = |known: &(u64, CompactString, Time)| known.1 == *name;
            let before = match self.pods.find_mut(selected.hash, is_it) {
                Some((_, _, known)) => std::mem::replace(known, at),
                None => {
                    let new = (selected.hash, name.clone(), at);
                    self.pods.insert_unique(selected.hash, new, |known| known.0);
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
            self.pods.retain(|(_, name, _)| known.contains(name));
        }
        self.service = service.creation_timestamp;
        oldest.filter(|at| *at != Time::UNSET)
    }
}
