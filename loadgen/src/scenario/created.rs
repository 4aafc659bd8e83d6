//! What a scenario creates: the kinds of its workloads, how, and by which flags they are sized.

use podstorm_objects::Kind;

use super::definition::{Create, Scenario, Step};
use crate::workloads::{self, Sizes};

impl Scenario {
    /// What it creates: kinds, and how.
    pub(crate) fn creations(&self) -> Vec<(Kind, Create)> {
        let steps = self.steps().into_iter();
        let created = steps.filter_map(|step| match step {
            Step::Create(kind, create) => Some((*kind, *create)),
            _ => None,
        });
        created.collect()
    }

    /// Whether it creates objects of that kind.
    pub(crate) fn creates(&self, kind: Kind) -> bool {
        self.creations().iter().any(|(created, _)| *created == kind)
    }

    /// Whether it creates workloads that own pods and are parts of nothing, or is about such.
    pub(crate) fn creates_free_owners(&self) -> bool {
        let is_free = |(kind, create): &(Kind, Create)| {
            !create.as_parts && workloads::pods_of(*kind).is_some()
        };
        self.has_free_owners() || self.creations().iter().any(is_free)
    }

    /// The kinds that it creates, in the order of their first steps, each with the flags that size it.
    pub(crate) fn sized_kinds(&self) -> Vec<(Kind, Sizes)> {
        let mut kinds: Vec<(Kind, Sizes)> = Vec::new();
        for (kind, _) in self.creations() {
            if kinds.iter().all(|(known, _)| *known != kind) {
                kinds.push((kind, workloads::sizes_of(kind)));
            }
        }
        if kinds.is_empty() {
            kinds.push(workloads::default_kind());
        }
        kinds
    }

    /// Whether it creates workloads of several kinds.
    pub(crate) fn is_mixed(&self) -> bool {
        self.sized_kinds().len() > 1
    }
}
