//! Counts of the server's commits, so that a run can be audited.

use std::collections::BTreeMap;

use podstorm_objects::Kind;

use super::log::Change;

/// The request that a commit belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Create,
    /// The object is imported from another cluster.
    Import,
    Update,
    UpdateStatus,
    UpdateScale,
    UpdateEphemeralContainers,
    UpdateResources,
    Patch,
    PatchStatus,
    Bind,
    Delete,
}

/// Every verb with its name and its subresource, as requests name them.
const VERBS: [(Verb, &str, &str); 11] = [
    (Verb::Create, "create", ""),
    (Verb::Import, "import", ""),
    (Verb::Update, "update", ""),
    (Verb::UpdateStatus, "update", "/status"),
    (Verb::UpdateScale, "update", "/scale"),
    (
        Verb::UpdateEphemeralContainers,
        "update",
        "/ephemeralcontainers",
    ),
    (Verb::UpdateResources, "update", "/resize"),
    (Verb::Patch, "patch", ""),
    (Verb::PatchStatus, "patch", "/status"),
    (Verb::Bind, "create", "/binding"),
    (Verb::Delete, "delete", ""),
];

/// The effects of one commit, for the totals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteEffects {
    pub(crate) verb: Verb,
    /// Everything is done but the commit.
    pub(crate) dry_run: bool,
    /// The pod was bound.
    pub(crate) bound: bool,
    /// The object got a controller.
    pub(crate) adopted: bool,
    /// The object lost its controller.
    pub(crate) released: bool,
}

impl WriteEffects {
    pub(crate) const fn of(verb: Verb) -> WriteEffects {
        WriteEffects {
            verb,
            dry_run: false,
            bound: false,
            adopted: false,
            released: false,
        }
    }
}

/// The running totals of one kind; part of its log, under its lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteTotals {
    writes: [u64; VERBS.len()],
    imported: u64,
    created: u64,
    bound: u64,
    /// Writes that made a pod ready, and pods that are ready.
    ready: u64,
    live_ready: u64,
    deleted: u64,
    adopted: u64,
    released: u64,
    peak: u64,
}

impl WriteTotals {
    /// Counts a commit: the object was a ready pod before it, and is one after it.
    pub(crate) fn count(
        &mut self,
        change: Change,
        effects: &WriteEffects,
        (was_ready, is_ready): (bool, bool),
    ) {
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
            Change::Modified => self.ready += u64::from(!was_ready && is_ready),
        }
        self.live_ready += u64::from(is_ready);
        self.live_ready -= u64::from(was_ready);
        self.bound += u64::from(effects.bound);
        self.adopted += u64::from(effects.adopted);
        self.released += u64::from(effects.released);
    }

    /// The same totals where that many ready pods exist.
    pub(crate) fn with_live_ready(self, live_ready: u64) -> WriteTotals {
        WriteTotals { live_ready, ..self }
    }

    /// The same totals for that many existing objects: creates or deletions that came in between are counted.
    pub(crate) fn with_live(mut self, live: u64) -> WriteTotals {
        let (more, less) = (
            live.saturating_sub(self.live()),
            self.live().saturating_sub(live),
        );
        self.created += more;
        self.deleted += less;
        self
    }

    /// The number of existing objects.
    pub(crate) fn live(&self) -> u64 {
        self.imported + self.created - self.deleted
    }
}

/// Counts of the server's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Commits by verb and resource, e.g. `create pods`, `create pods/binding`, `update
    /// replicasets/status`, `import pods`. A deletion that is first marked and then carried out
    /// counts as two. The sum is the server's resource version.
    pub writes: BTreeMap<String, u64>,
    /// Totals of pods.
    pub pods: PodTotals,
}

/// Totals over all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodTotals {
    /// Pods that exist.
    pub existing: u64,
    /// Pods that are active and ready.
    pub existing_ready: u64,
    /// Created by any client, without imported ones.
    pub created: u64,
    /// Bound to a node.
    pub bound: u64,
    /// Status writes that made an active pod ready.
    pub ready: u64,
    /// Removed.
    pub deleted: u64,
    /// Writes that gave a pod another controller than before.
    pub adopted: u64,
    /// Writes that removed a pod's controller.
    pub released: u64,
    /// Most existing pods at one time.
    pub peak: u64,
}

impl WriteCounts {
    pub(crate) fn add(&mut self, kind: Kind, totals: &WriteTotals) {
        for (verb, word, subresource) in VERBS {
            let count = totals.writes[verb as usize];
            if count > 0 {
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
            existing_ready: totals.live_ready,
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
