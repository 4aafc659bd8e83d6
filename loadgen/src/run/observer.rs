//! Observers of a run, which receive its progress.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_sim::clock::RealClock;

use super::metrics::Metrics;

/// Observes a run from outside.
pub trait Observer: Sync {
    /// Called a few times per second of real time, and once when the run is over.
    fn progress(&self, progress: &Progress<'_>);

    /// Called once when nothing was written for some seconds of real time, until something is
    /// written again: which phase is not over, and what it waits for.
    fn waits(&self, _what: &str) {}

    /// Called once, before the run: `metrics` may be kept and read during the run.
    fn begins(&self, _metrics: &Metrics) {}

    /// Returns whether the run's cluster is served to clients, which has a small cost: it keeps
    /// older states. Needs real time; ignored on the virtual engine.
    fn serves(&self) -> bool {
        false
    }

    /// Called once after [`begins`](Observer::begins) if [`serves`](Observer::serves) returns true.
    fn serve(&self, _cluster: &Arc<Cluster>, _clock: RealClock, _metrics: &Metrics) {}
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The name of the phase.
    pub phase: &'a str,
    /// The number of the phase, from 0.
    pub phase_index: usize,
    /// The number of phases.
    pub phase_count: usize,
    /// Pods of the phase's target that exist (or are removed, or were deleted from outside if this
    /// is the purpose of the phase).
    pub done: u64,
    /// Pods of the phase's target; 0 while it is unknown.
    pub total: u64,
    /// Pods that exist.
    pub pods: u64,
    /// Pods that are active and ready.
    pub ready: u64,
    /// Pods that all workloads together desire.
    pub desired: u64,
    /// Pods created since the start, by any client.
    pub created: u64,
    /// Pods finally removed since the start.
    pub deleted: u64,
    /// API calls of the controllers since the start.
    pub api_calls: u64,
    /// Keys that wait in the controllers' queues.
    pub queue_depth: usize,
    /// Engine time since the start, seconds.
    pub engine_seconds: f64,
}

/// Ignores everything.
impl Observer for () {
    fn progress(&self, _progress: &Progress<'_>) {}
}
