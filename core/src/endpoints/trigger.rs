//! Since when a change has waited that endpoints are about to show: the annotation by which others measure
//! how long it took.
//!
//! Source: `TriggerTimeTracker` of Kubernetes' `k8s.io/endpointslice`.

use std::collections::BTreeSet;

use compact_str::CompactString;
use hashbrown::HashTable;
use podstorm_objects::{ObjectMeta, Time};

use super::selected::Selected;
use super::slices::Index;

/// The annotation.
pub(super) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What the last sync of a Service saw.
#[derive(Debug)]
pub(super) struct Triggers {
    /// When the Service was created.
    service: Time,
    /// By the hash of its name: when each pod became ready or stopped to be.
    pods: HashTable<(u64, CompactString, Time)>,
    /// The endpoints of the slices.
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
    /// Takes down what this sync sees; the oldest of the changes since the last one, if there is any. Allocates for
    /// new pods alone.
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
