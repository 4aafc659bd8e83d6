//! What the driver is given of the rest of a run, what it shows while it plays, and what it leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use podstorm_objects::Now;
use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use podstorm_sim::executor::Waker;
use podstorm_sim::faults::Connection;
use podstorm_sim::nodes::NodeControl;

use crate::result::{Finished, IncompleteRollouts, Phase, SlowWorkload};

/// The scenario's hold on the controllers.
pub(crate) struct Controllers {
    /// Set to let the informers begin; see `wake`.
    pub(crate) started: Arc<AtomicBool>,
    /// Wakes the informers after `started` was set.
    pub(crate) wake: Vec<Waker>,
    /// The controller's connection, where the scenario disturbs it.
    pub(crate) connection: Option<Arc<Connection>>,
    /// The nodes, where the scenario lets them fail.
    pub(crate) nodes: Option<Arc<NodeControl>>,
    /// Where to write down when each phase begins.
    pub(crate) times: Arc<PhaseTimes>,
    /// Whether at least that many syncs have been finished, none is under way, and no key waits.
    pub(crate) rests_after: Box<dyn Fn(u64) -> bool + Send>,
    /// Whether a key is to be retried because its last sync failed.
    pub(crate) retries: Box<dyn Fn() -> bool + Send>,
    /// How many pods the controllers' caches have, the smallest number.
    pub(crate) pods_cached: Box<dyn Fn() -> usize + Send>,
    /// Called when a phase begins.
    pub(crate) phase_begins: Option<Box<dyn Fn(Now) + Send>>,
}

/// How far the scenario is, for progress and metrics. Written by the driver, read at any time.
#[derive(Debug, Default)]
pub(crate) struct Position {
    /// The current phase.
    pub(crate) phase: AtomicUsize,
    /// Pods of the phase's target that are there (or gone, or were deleted where that is the target).
    pub(crate) done: AtomicU64,
    /// Pods of the phase's target.
    pub(crate) total: AtomicU64,
    /// Pods that exist.
    pub(crate) pods: AtomicU64,
    /// Pods that are active and ready.
    pub(crate) ready: AtomicU64,
    /// Pods that all owners together are to have.
    pub(crate) desired: AtomicU64,
}

/// What the scenario found out.
#[derive(Debug)]
pub(crate) struct Report {
    /// The phases, the last of them perhaps cut short.
    pub(crate) phases: Vec<Phase>,
    /// Whether all phases are done and their conditions were met.
    pub(crate) converged: bool,
    /// What did not go as it should, in words.
    pub(crate) failures: Vec<String>,
    /// What can't be: the store contradicts what it told its watchers.
    pub(crate) violations: Vec<String>,
    /// See `Tracker::excess`.
    pub(crate) excess: u64,
    /// Owned pods that went before they were ever ready.
    pub(crate) surplus: u64,
    /// Pods of files that came active and not ready, and still are.
    pub(crate) still_not_ready: u64,
    /// Rollouts of files that were not complete at the end.
    pub(crate) incomplete_rollouts: IncompleteRollouts,
    /// From the moment an owner's spec was written (or its pods were touched from outside) to the
    /// moment it had its pods and an exact status, ns; by the phase in which that began.
    pub(crate) convergence: ByPhase,
    /// From the moment a spec was written to the moment its rollout was complete, ns; the
    /// same.
    pub(crate) rollouts: ByPhase,
    /// What the objects that end have come to.
    pub(crate) finished: Finished,
    /// From the moment such an object was created to its end, ns; the same.
    pub(crate) finishes: ByPhase,
    /// From a pod's creation to its being ready, ns; the same.
    pub(crate) pod_ready: ByPhase,
    /// The slowest convergences, and those that were not over; the slowest first.
    pub(crate) slowest: Vec<SlowWorkload>,
}
