//! The interfaces of the driver: what it gets from the rest of a run, what it shows during the run,
//! and what it returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use podstorm_objects::Now;
use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use podstorm_sim::executor::Waker;
use podstorm_sim::faults::Connection;
use podstorm_sim::nodes::NodeControl;

use crate::result::{Finished, IncompleteRollouts, Phase, SlowWorkload};

/// The scenario's access to the controllers.
pub(crate) struct Controllers {
    /// Set to let the informers start; see `wake`.
    pub(crate) started: Arc<AtomicBool>,
    /// Wakes the informers after `started` was set.
    pub(crate) wake: Vec<Waker>,
    /// The controllers' connection, if the scenario disturbs it.
    pub(crate) connection: Option<Arc<Connection>>,
    /// The nodes, if the scenario lets them fail.
    pub(crate) nodes: Option<Arc<NodeControl>>,
    /// Where to record when each phase begins.
    pub(crate) times: Arc<PhaseTimes>,
    /// Returns whether at least this many syncs have finished, none is in progress, and no key
    /// waits.
    pub(crate) rests_after: Box<dyn Fn(u64) -> bool + Send>,
    /// Returns whether a key will be retried because its last sync failed.
    pub(crate) retries: Box<dyn Fn() -> bool + Send>,
    /// Returns how many pods the controllers' caches have; the smallest number.
    pub(crate) pods_cached: Box<dyn Fn() -> usize + Send>,
    /// Called when a phase begins.
    pub(crate) phase_begins: Option<Box<dyn Fn(Now) + Send>>,
}

/// The position of the scenario, for progress and metrics. Written by the driver, read at any time.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The current phase.
    pub(crate) phase: AtomicUsize,
    /// Pods of the phase's target that exist (or are removed, or were deleted if this is the
    /// target).
    pub(crate) done: AtomicU64,
    /// Pods of the phase's target.
    pub(crate) total: AtomicU64,
    /// Pods that exist.
    pub(crate) pods: AtomicU64,
    /// Pods that are active and ready.
    pub(crate) ready: AtomicU64,
    /// Pods that all owners together desire.
    pub(crate) desired: AtomicU64,
}

/// The findings of the scenario.
#[derive(Debug)]
pub(crate) struct Report {
    /// The phases; the last one may be incomplete.
    pub(crate) phases: Vec<Phase>,
    /// Whether all phases are done and their conditions were met.
    pub(crate) converged: bool,
    /// Failures, in words.
    pub(crate) failures: Vec<String>,
    /// Impossible states: the store contradicts its watch events.
    pub(crate) violations: Vec<String>,
    /// See `Tracker::excess`.
    pub(crate) excess: u64,
    /// Owned pods that were removed before they were ever ready.
    pub(crate) surplus: u64,
    /// Pods that files brought active and not ready, and that still aren't ready.
    pub(crate) still_not_ready: u64,
    /// Rollouts of files that were not complete at the end.
    pub(crate) incomplete_rollouts: IncompleteRollouts,
    /// Time from the write of an owner's spec (or a change of its pods from outside) until it had
    /// its pods and an exact status, ns; by the phase in which it began.
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
    /// The slowest convergences, including unfinished ones; the slowest first.
    pub(crate) slowest: Vec<SlowWorkload>,
}
