//! The interfaces of the driver: what it gets from the other parts of a run, what it shows during
//! the run, and what it returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use podstorm_objects::Now;
use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use podstorm_sim::executor::Waker;
use podstorm_sim::faults::Connection;
use podstorm_sim::nodes::NodeControl;

use crate::result::{Finished, IncompleteRollouts, Phase, SlowWorkload};

/// The scenario's access to the controllers and their connection.
pub(crate) struct Controllers {
    /// Set to let the informers start; see `wake`.
    pub(crate) started: Arc<AtomicBool>,
    /// The wakers of the informers, to be called after `started` was set.
    pub(crate) wake: Vec<Waker>,
    /// The controllers' connection; `None` unless the scenario disturbs it.
    pub(crate) connection: Option<Arc<Connection>>,
    /// The control over the nodes; `None` unless the run needs it, for example for node faults.
    pub(crate) nodes: Option<Arc<NodeControl>>,
    /// Records when each phase begins.
    pub(crate) times: Arc<PhaseTimes>,
    /// Returns whether at least this many syncs have finished, no sync is in progress, and no key
    /// is waiting.
    pub(crate) rests_after: Box<dyn Fn(u64) -> bool + Send>,
    /// Returns whether any key will be retried because its last sync failed.
    pub(crate) retries: Box<dyn Fn() -> bool + Send>,
    /// Returns the number of pods in the controllers' caches; if the caches differ, the smallest.
    pub(crate) pods_cached: Box<dyn Fn() -> usize + Send>,
    /// Called when a phase begins.
    pub(crate) phase_begins: Option<Box<dyn Fn(Now) + Send>>,
}

/// The position in the scenario, for progress and metrics. Written by the driver, read at any time
/// by others.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The index of the current phase.
    pub(crate) phase: AtomicUsize,
    /// How many pods of the phase's target are done: handled by the current step, finished, removed
    /// if the number of pods decreases, and otherwise ready.
    pub(crate) done: AtomicU64,
    /// The number of pods of the phase's target; 0 while it is unknown.
    pub(crate) total: AtomicU64,
    /// The number of existing pods.
    pub(crate) pods: AtomicU64,
    /// The number of active pods that are ready.
    pub(crate) ready: AtomicU64,
    /// The number of pods that all owners together desire.
    pub(crate) desired: AtomicU64,
}

/// The results of the scenario.
#[derive(Debug)]
pub(crate) struct Report {
    /// The results of the phases; the last phase may be incomplete.
    pub(crate) phases: Vec<Phase>,
    /// Whether all phases are done and met their conditions.
    pub(crate) converged: bool,
    /// Descriptions of the failures.
    pub(crate) failures: Vec<String>,
    /// Descriptions of impossible states, in which the store contradicts its watch events.
    pub(crate) violations: Vec<String>,
    /// See `Tracker::excess`.
    pub(crate) excess: u64,
    /// The number of owned pods that were removed before they were ever ready.
    pub(crate) surplus: u64,
    /// The number of active pods that were not ready in the files and still are not.
    pub(crate) still_not_ready: u64,
    /// The rollouts from files that were not complete at the end.
    pub(crate) incomplete_rollouts: IncompleteRollouts,
    /// Time from the write of an owner's spec, or from a change of its pods from outside, until the
    /// owner had its pods and an exact status, ns. Grouped by the phase in which it began.
    pub(crate) convergence: ByPhase,
    /// Time from the write of a spec until its rollout was complete, ns; by the phase in which it
    /// began.
    pub(crate) rollouts: ByPhase,
    /// Totals of the workloads that finish.
    pub(crate) finished: Finished,
    /// Time from the creation of such a workload until it finished, ns; by the phase in which it
    /// began.
    pub(crate) finishes: ByPhase,
    /// Time from the creation of a pod until it was ready, ns; by the phase in which it began.
    pub(crate) pod_ready: ByPhase,
    /// The slowest convergences, including unfinished ones, in descending order.
    pub(crate) slowest: Vec<SlowWorkload>,
}
