//! Observers of a run: what they hear while the run goes on.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_sim::clock::RealClock;

use super::metrics::Metrics;

/// Watches a run from outside.
pub trait Observer: Sync {
    /// Called a few times a second of real time, and once when the run is over.
    fn progress(&self, progress: &Progress<'_>);

    /// Called when nothing was written for some seconds of real time, once until something is: which phase
    /// is not over, and what it waits for.
    fn waits(&self, _what: &str) {}

    /// Called once, before anything runs: `metrics` may be kept, and read while the run goes on.
    fn begins(&self, _metrics: &Metrics) {}

    /// Whether the run's cluster is to be served to others, which costs it a little: it keeps older
    /// states. Its time is real then: on the virtual engine this is of no effect.
    fn serves(&self) -> bool {
        false
    }

    /// Called once after [`begins`](Observer::begins) where [`serves`](Observer::serves) says so.
    fn serve(&self, _cluster: &Arc<Cluster>, _clock: RealClock, _metrics: &Metrics) {}
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the phase.
    pub phase: &'a str,
    /// Its number, from 0.
    pub phase_index: usize,
    /// How many phases there are.
    pub phase_count: usize,
    /// Pods of the phase's target that are there (or gone, or were deleted from outside where that is
    /// what the phase does).
    pub done: u64,
    /// Pods of the phase's target; 0 while it is not known yet.
    pub total: u64,
    /// Pods that exist.
    pub pods: u64,
    /// Pods that are active and ready.
    pub ready: u64,
    /// Pods that all workloads together are to have.
    pub desired: u64,
    /// Pods created since the start, by any client.
    pub created: u64,
    /// Pods finally removed since the start.
    pub deleted: u64,
    /// API calls of the controllers since the start.
    pub api_calls: u64,
    /// Keys that wait in the controllers' queues.
    pub queue_depth: usize,
    /// Time of the engine since the start, seconds.
    pub engine_seconds: f64,
}

/// An observer that ignores everything.
impl Observer for () {
    fn progress(&self, _progress: &Progress<'_>) {}
}
