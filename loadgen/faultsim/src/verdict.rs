//! What came of a run.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_sim::faults::FaultClass;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the reliability plan: `S1` to `S14`, `L1` to `L5`, `I1` to `I10`.
    pub invariant: &'static str,
    /// What happened, for a person.
    pub text: String,
    /// When, ns of the run.
    pub at_ns: i64,
    /// The server's version then.
    pub version: u64,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} at {:.3} s, version {}: {}",
            self.invariant,
            self.at_ns as f64 / 1e9,
            self.version,
            self.text
        )
    }
}

/// How often a class of faults was injected, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Struck {
    /// Steps of schedules.
    pub injected: u64,
    /// Those of them that changed what a controller saw or did.
    pub noticed: u64,
    /// How often they struck: each request that met one, and all others once.
    pub struck: u64,
    /// How often they did when a controller had something to do.
    pub mattered: u64,
}

impl Struck {
    /// Adds another count.
    pub fn add(&mut self, other: &Struck) {
        self.injected += other.injected;
        self.noticed += other.noticed;
        self.struck += other.struck;
        self.mattered += other.mattered;
    }
}

/// What a controller had against it: pods in excess are judged by that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conditions {
    /// One controller, which did not die, whose watches kept the API's promise, and whose creates were
    /// carried out once each. Whatever else went wrong, it can make up for.
    #[default]
    Kept,
    /// As before, but controllers died and others took their place, one at a time.
    Crashed,
    /// Controllers ran side by side, a watch lost an event or sent one from the past, or a layer
    /// below sent a create again whose first try was carried out too: what no controller can make up for
    /// alone.
    Broken,
}

impl Conditions {
    /// All of them, in the order of their numbers.
    pub const ALL: [Conditions; 3] = [Conditions::Kept, Conditions::Crashed, Conditions::Broken];

    /// For a person, after "in seeds".
    pub fn description(self) -> &'static str {
        match self {
            Conditions::Kept => {
                "of one controller, which did not die, watches that kept their promise, and creates \
                 carried out once"
            }
            Conditions::Crashed => "in which controllers also died",
            Conditions::Broken => {
                "with controllers side by side, watches that lose or repeat events, or creates \
                 carried out twice"
            }
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The first invariant that did not hold; the run stopped there.
    pub violation: Option<Violation>,
    /// Faults by class.
    pub faults: BTreeMap<FaultClass, Struck>,
    /// Which faults met which step of a controller's work.
    pub pairs: BTreeSet<(FaultClass, &'static str)>,
    /// Situations that a good set of seeds should show at least once.
    pub sometimes: BTreeSet<&'static str>,
    /// How often the reference model was compared, operation by operation and in the end state
    /// alone.
    pub compared: [u64; 2],
    /// Pods created by controllers beyond what any of their reasons explains: the known deviations
    /// of the upstream behaviour.
    pub excess_pods_created: u64,
    /// Pod creates of controllers that were committed.
    pub creates: u64,
    /// Pod deletes of controllers that were committed.
    pub deletes: u64,
    /// Writes whose outcome the controller could not know.
    pub ambiguous_writes: u64,
    /// Whether a controller died in the run.
    pub crashed: bool,
    /// What the controllers had against them.
    pub conditions: Conditions,
    /// Syncs begun.
    pub syncs: u64,
    /// The longest time in which an owner of pods had other than the wanted number of active pods and
    /// no controller wrote a pod for it, ns.
    pub longest_idle_ns: i64,
    /// Most pods created by controllers within a minute.
    pub most_creates_per_minute: u64,
    /// Most pods that existed at once, ended ones included.
    pub peak_pods: u64,
    /// Deletes that met another pod than the one that was chosen, of the same name.
    pub wrong_pods_deleted: u64,
    /// Deletes that left an owner of pods fewer active pods than it wanted at any time since the version
    /// read.
    pub deletes_below_wanted: u64,
    /// What else the workload counts, in words. Where there is something, the figures above say little of the workload.
    pub figures: Vec<(&'static str, u64)>,
    /// From the end of the faults to the moment since when everything was as wanted, ns; absent
    /// when that never came.
    pub converged_after_ns: Option<i64>,
    /// Simulated time, ns.
    pub simulated_ns: i64,
    /// A hash of everything that was committed and asked for, in order.
    pub trace: u128,
}

impl Verdict {
    /// Whether every invariant held and everything converged.
    pub fn is_good(&self) -> bool {
        self.violation.is_none()
    }
}
