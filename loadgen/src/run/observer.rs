//! The interface for observing the progress of a run.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_sim::clock::RealClock;

use super::metrics::Metrics;

/// Observes a run from the outside.
pub trait Observer: Sync {
    /// Called a few times per second of real time, and once when the run is over.
    fn progress(&self, progress: &Progress<'_>);

    /// Called once when nothing has been written for some seconds of real time, and again only
    /// after a write. `what` says which phase is not over and what it waits for.
    fn waits(&self, _what: &str) {}

    /// Called once before the run. `metrics` may be kept and read during the run.
    fn begins(&self, _metrics: &Metrics) {}

    /// Returns whether clients are served the run's cluster. This has a small cost, because the
    /// cluster keeps earlier states. Requires real time; ignored on the virtual engine.
    fn serves(&self) -> bool {
        false
    }

    /// Called once after [`begins`](Observer::begins) if [`serves`](Observer::serves) returns true.
    fn serve(&self, _cluster: &Arc<Cluster>, _clock: RealClock, _metrics: &Metrics) {}
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The name of the current phase.
    pub phase: &'a str,
    /// The index of the current phase, from 0.
    pub phase_index: usize,
    /// The number of phases.
    pub phase_count: usize,
    /// How many pods of the phase's target are done: handled by the current step, finished, removed
    /// if the number of pods decreases, and otherwise ready.
    pub done: u64,
    /// The number of pods of the phase's target; 0 while it is unknown.
    pub total: u64,
    /// The number of existing pods.
    pub pods: u64,
    /// The number of active pods that are ready.
    pub ready: u64,
    /// The number of pods that all workloads together desire.
    pub desired: u64,
    /// The number of pods created since the start, by any client.
    pub created: u64,
    /// The number of pods finally removed since the start.
    pub deleted: u64,
    /// The number of API calls by the controllers since the start.
    pub api_calls: u64,
    /// The number of keys that wait in the controllers' queues.
    pub queue_depth: usize,
    /// The engine time since the start, in seconds.
    pub engine_seconds: f64,
}

/// An observer that ignores everything.
impl Observer for () {
    fn progress(&self, _progress: &Progress<'_>) {}
}
