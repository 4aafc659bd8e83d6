//! What the server counts of its writes, so that a run can be audited.

use std::collections::BTreeMap;

use podstorm_objects::Kind;

use super::log::Change;

/// What a committed revision was written by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Create,
    /// The object was there before the run: it is loaded, and nobody creates it.
    Import,
    Update,
    UpdateStatus,
    UpdateScale,
    Patch,
    PatchStatus,
    Bind,
    Delete,
}

impl Verb {
    const ALL: [Verb; 9] = [
        Verb::Create,
        Verb::Import,
        Verb::Update,
        Verb::UpdateStatus,
        Verb::UpdateScale,
        Verb::Patch,
        Verb::PatchStatus,
        Verb::Bind,
        Verb::Delete,
    ];

    /// The verb and the subresource, as requests name them.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Verb::Create => ("create", ""),
            Verb::Import => ("import", ""),
            Verb::Update => ("update", ""),
            Verb::UpdateStatus => ("update", "/status"),
            Verb::UpdateScale => ("update", "/scale"),
            Verb::Patch => ("patch", ""),
            Verb::PatchStatus => ("patch", "/status"),
            Verb::Bind => ("create", "/binding"),
            Verb::Delete => ("delete", ""),
        }
    }
}

/// What one revision counts as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteEffects {
    pub(crate) verb: Verb,
    /// The pod was bound by it.
    pub(crate) bound: bool,
    /// The pod became ready by it.
    pub(crate) ready: bool,
    /// The object got a controller.
    pub(crate) adopted: bool,
    /// The object lost its controller.
    pub(crate) released: bool,
}

impl WriteEffects {
    pub(crate) const fn of(verb: Verb) -> WriteEffects {
        WriteEffects {
            verb,
            bound: false,
            ready: false,
            adopted: false,
            released: false,
        }
    }
}

/// The running totals of one kind; part of its log, under its lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteTotals {
    writes: [u64; Verb::ALL.len()],
    imported: u64,
    created: u64,
    bound: u64,
    ready: u64,
    deleted: u64,
    adopted: u64,
    released: u64,
    peak: u64,
}

impl WriteTotals {
    pub(crate) fn count(&mut self, change: Change, effects: &WriteEffects) {
        self.writes[effects.verb as usize] += 1;
        match change {
            Change::Added => {
                match effects.verb {
                    Verb::Import => self.imported += 1,
                    _ => self.created += 1,
                }
                self.peak = self.peak.max(self.live());
            }
            Change::Deleted => self.deleted += 1,
            Change::Modified => {}
        }
        self.bound += u64::from(effects.bound);
        self.ready += u64::from(effects.ready);
        self.adopted += u64::from(effects.adopted);
        self.released += u64::from(effects.released);
    }

    /// How many objects there are.
    pub(crate) fn live(&self) -> u64 {
        self.imported + self.created - self.deleted
    }
}

/// The writes the server committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Revisions by verb and resource, e.g. `create pods`, `create pods/binding`,
    /// `update replicasets/status`; `import pods` for those that were there before. A deletion that is first marked and then carried out is two.
    /// They add up to the server's resource version.
    pub writes: BTreeMap<String, u64>,
    /// What became of the pods.
    pub pods: PodTotals,
}

/// Totals over all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodTotals {
    /// Pods that exist.
    pub existing: u64,
    /// Created, by whomever; without those that were imported.
    pub created: u64,
    /// Bound to a node by a binding.
    pub bound: u64,
    /// Status writes that made a pod ready that was not.
    pub ready: u64,
    /// Finally removed.
    pub deleted: u64,
    /// Writes that gave a pod a controller it had not.
    pub adopted: u64,
    /// Writes that took a pod's controller away.
    pub released: u64,
    /// Most that existed at once.
    pub peak: u64,
}

impl WriteCounts {
    pub(crate) fn add(&mut self, kind: Kind, totals: &WriteTotals) {
        for verb in Verb::ALL {
            let count = totals.writes[verb as usize];
            if count > 0 {
                let (word, subresource) = verb.words();
                let key = format!("{word} {}{subresource}", kind.resource());
                *self.writes.entry(key).or_default() += count;
            }
        }
        if kind == Kind::POD {
            self.pods = PodTotals::of(totals);
        }
    }
}

impl PodTotals {
    pub(crate) fn of(totals: &WriteTotals) -> PodTotals {
        PodTotals {
            existing: totals.live(),
            created: totals.created,
            bound: totals.bound,
            ready: totals.ready,
            deleted: totals.deleted,
            adopted: totals.adopted,
            released: totals.released,
            peak: totals.peak,
        }
    }
}
