//! The verdict of a run: violations, counts of faults, and metrics.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_sim::faults::FaultClass;

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant in the reliability plan: `S1` to `S14`, `L1` to `L5`, `I1` to
    /// `I10`.
    pub invariant: &'static str,
    /// A description of the violation.
    pub text: String,
    /// The time of the violation, ns of the run.
    pub at_ns: i64,
    /// The server's version at the time of the violation.
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

/// How many faults of a class were injected, and how many had an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Struck {
    /// The number of steps with a fault of the class in schedules.
    pub injected: u64,
    /// The number of these steps that changed what a controller saw or did.
    pub noticed: u64,
    /// The number of hits: one for each request that a fault hit, and one for any other fault.
    pub struck: u64,
    /// The number of hits while a controller had work to do.
    pub mattered: u64,
}

impl Struck {
    /// Adds the counts of other runs.
    pub fn add(&mut self, other: &Struck) {
        self.injected += other.injected;
        self.noticed += other.noticed;
        self.struck += other.struck;
        self.mattered += other.mattered;
    }
}

/// The conditions under which the controllers of a run worked. Excess pods are judged by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Conditions {
    /// One controller ran and did not die, its watches kept the API's promise, and each of its
    /// creates was carried out once. The controller can compensate for any other fault.
    #[default]
    Kept,
    /// Like `Kept`, except that controllers died and were replaced, one at a time.
    Crashed,
    /// Controllers ran concurrently, a watch lost an event or replayed an old one, or a lower layer
    /// resent a create whose first attempt was also carried out. No controller can compensate for
    /// these faults on its own.
    Broken,
}

impl Conditions {
    /// All conditions, in the order of their discriminants.
    pub const ALL: [Conditions; 3] = [Conditions::Kept, Conditions::Crashed, Conditions::Broken];

    /// Returns the description, which continues "in seeds …".
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

/// The verdict of a run.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The first violation, at which the run stopped; `None` if there was none.
    pub violation: Option<Violation>,
    /// The counts of faults by class.
    pub faults: BTreeMap<FaultClass, Struck>,
    /// The pairs of fault classes and affected steps of a controller's work that occurred.
    pub pairs: BTreeSet<(FaultClass, &'static str)>,
    /// The situations that occurred, of those that a good set of seeds should cover.
    pub sometimes: BTreeSet<&'static str>,
    /// The number of comparisons with the reference model: of every operation, and of only the
    /// final state.
    pub compared: [u64; 2],
    /// The number of pods that controllers created without a reason, which are known deviations of
    /// upstream's behaviour.
    pub excess_pods_created: u64,
    /// The number of pods that controllers created.
    pub creates: u64,
    /// The number of pods that controllers deleted.
    pub deletes: u64,
    /// The number of writes whose outcome the controller could not know.
    pub ambiguous_writes: u64,
    /// Whether a controller died.
    pub crashed: bool,
    /// The conditions under which the controllers worked.
    pub conditions: Conditions,
    /// The number of syncs that began.
    pub syncs: u64,
    /// The longest time in which an owner did not have the wanted number of active pods and no
    /// controller wrote a pod for it, ns.
    pub longest_idle_ns: i64,
    /// The maximum number of pods that controllers created within a minute.
    pub most_creates_per_minute: u64,
    /// The maximum number of pods that existed at the same time, including pods that had ended.
    pub peak_pods: u64,
    /// The number of deletes that removed a pod other than the selected one, with the same name.
    pub wrong_pods_deleted: u64,
    /// The number of deletes that left an owner with fewer active pods than it wanted at any time
    /// since the version that was read.
    pub deletes_below_wanted: u64,
    /// Other counters of the workload, with descriptions. If there are any, the counters above are
    /// not meaningful for the workload.
    pub figures: Vec<(&'static str, u64)>,
    /// The time from the end of the faults to permanent convergence, ns; `None` if the run did not
    /// converge.
    pub converged_after_ns: Option<i64>,
    /// The simulated time, ns.
    pub simulated_ns: i64,
    /// A hash of all commits and requests, in order.
    pub trace: u128,
}

impl Verdict {
    /// Reports whether every invariant held and the run converged.
    pub fn is_good(&self) -> bool {
        self.violation.is_none()
    }
}
