//! The workloads that a scenario creates: their kinds, how they are created, and the flags that
//! size them.

use podstorm_objects::Kind;

use super::definition::{Create, Scenario, ScenarioStep};
use crate::workloads::{self, SizedKind};

impl Scenario {
    /// Returns the kinds that the scenario creates, each with how it creates them.
    pub(crate) fn creations(&self) -> Vec<(Kind, Create)> {
        let steps = self.steps().into_iter();
        let created = steps.filter_map(|step| match step {
            ScenarioStep::Create(kind, create) => Some((*kind, *create)),
            _ => None,
        });
        created.collect()
    }

    /// Reports whether the scenario creates objects of this kind.
    pub(crate) fn creates(&self, kind: Kind) -> bool {
        self.creations().iter().any(|(created, _)| *created == kind)
    }

    /// Reports whether the scenario creates workloads that own pods and have no owner, or has steps
    /// that act on such workloads.
    pub(crate) fn creates_free_owners(&self) -> bool {
        let is_free = |(kind, create): &(Kind, Create)| {
            !create.as_parts && workloads::pods_of(*kind).is_some()
        };
        self.has_free_owners() || self.creations().iter().any(is_free)
    }

    /// Returns the kinds that the scenario creates, ordered by their first steps, each with the
    /// flags that size its workloads.
    pub(crate) fn sized_kinds(&self) -> Vec<SizedKind> {
        let mut kinds: Vec<SizedKind> = Vec::new();
        for (kind, _) in self.creations() {
            if kinds.iter().all(|known| known.kind != kind) {
                kinds.push(SizedKind::of(kind));
            }
        }
        if kinds.is_empty() {
            kinds.push(SizedKind::default());
        }
        kinds
    }

    /// Reports whether the scenario creates workloads of several kinds.
    pub(crate) fn is_mixed(&self) -> bool {
        self.sized_kinds().len() > 1
    }
}
