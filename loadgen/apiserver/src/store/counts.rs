//! Counts of the server's commits, for the audit of a run.

use std::collections::BTreeMap;

use podstorm_objects::Kind;

use super::log::Change;

/// The request that caused a commit.
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

/// Every verb with the method and subresource of its requests.
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

/// The properties of a write that the totals count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteEffects {
    pub(crate) verb: Verb,
    /// Whether to run every step except the commit.
    pub(crate) dry_run: bool,
    /// Whether the write binds the pod.
    pub(crate) bound: bool,
    /// Whether the write gives the object a controller.
    pub(crate) adopted: bool,
    /// Whether the write removes the object's controller.
    pub(crate) released: bool,
}

impl WriteEffects {
    pub(crate) const fn for_verb(verb: Verb) -> WriteEffects {
        WriteEffects {
            verb,
            dry_run: false,
            bound: false,
            adopted: false,
            released: false,
        }
    }
}

/// The running totals of one kind. The kind's log contains them, under its lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteTotals {
    writes: [u64; VERBS.len()],
    imported: u64,
    created: u64,
    bound: u64,
    /// The number of writes that made a pod ready; `live_ready` is the number of ready pods.
    ready: u64,
    live_ready: u64,
    deleted: u64,
    adopted: u64,
    released: u64,
    peak: u64,
}

impl WriteTotals {
    /// Counts a commit. The flags state whether the object was a ready pod before, and is one
    /// after.
    pub(crate) fn count(
        &mut self,
        change: Change,
        effects: &WriteEffects,
        was_ready: bool,
        is_ready: bool,
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

    /// Sets the number of ready pods.
    pub(crate) fn with_live_ready(self, live_ready: u64) -> WriteTotals {
        WriteTotals { live_ready, ..self }
    }

    /// Sets the number of existing objects by counting the difference as creates or deletions.
    pub(crate) fn with_live(mut self, live: u64) -> WriteTotals {
        let (more, less) = (
            live.saturating_sub(self.live()),
            self.live().saturating_sub(live),
        );
        self.created += more;
        self.deleted += less;
        self
    }

    /// Returns the number of existing objects.
    pub(crate) fn live(&self) -> u64 {
        self.imported + self.created - self.deleted
    }
}

/// Counts of the server's commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// The number of commits by verb and resource, e.g. `create pods`, `create pods/binding`,
    /// `update replicasets/status`, `import pods`. A deletion that first marks the object counts as
    /// two. The sum of all is the server's resource version.
    pub writes: BTreeMap<String, u64>,
    /// Totals of pods.
    pub pods: PodTotals,
}

/// Totals over all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodTotals {
    /// The number of pods.
    pub existing: u64,
    /// The number of pods that are active and ready.
    pub existing_ready: u64,
    /// The number of pods created by any client, without imported ones.
    pub created: u64,
    /// The number of pods bound to a node.
    pub bound: u64,
    /// The number of status writes that made an active pod ready.
    pub ready: u64,
    /// The number of pods removed.
    pub deleted: u64,
    /// The number of writes that gave a pod a new controller.
    pub adopted: u64,
    /// The number of writes that removed a pod's controller.
    pub released: u64,
    /// The highest number of pods at one time.
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
            self.pods = PodTotals::from_writes(totals);
        }
    }
}

impl PodTotals {
    pub(crate) fn from_writes(totals: &WriteTotals) -> PodTotals {
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
