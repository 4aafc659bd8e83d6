//! What a run was like over time: samples in columns, distributions in buckets, and the slowest
//! ReplicaSets.

use schemars::JsonSchema;
use serde::Serialize;

/// Samples of the run, a column each: entry i of every column belongs to one moment. There are at
/// most about 1,000, however long the run: where more would be taken, the distances grow.
///
/// A sample says what was true up to the moment of the next. On the virtual engine samples are
/// taken by simulated time and by work done, so that there are some where no simulated time passes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// Engine time since the start, seconds; never descending.
    pub seconds: Vec<f64>,
    /// The phase, as its place in `phases`.
    pub phase: Vec<usize>,
    /// Pods that all ReplicaSets and ReplicationControllers together are to have.
    pub pods_desired: Vec<u64>,
    /// Pods that exist.
    pub pods_existing: Vec<u64>,
    /// Pods that are active and ready.
    pub pods_ready: Vec<u64>,
    /// Pods created so far, by any client.
    pub pods_created: Vec<u64>,
    /// Pods finally removed so far.
    pub pods_deleted: Vec<u64>,
    /// Keys that wait in the controllers' queues (`workqueue_depth`).
    pub queue_depth: Vec<u64>,
    /// Keys that are to be added to the queues later: retries after failures, and checks of
    /// availability.
    pub queue_delayed: Vec<u64>,
    /// API calls of the controllers so far, their Event writes included.
    pub api_calls: Vec<u64>,
    /// The server's resource version: writes of everybody so far.
    pub resource_version: Vec<u64>,
}

impl Series {
    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.seconds.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }
}

/// The distributions behind the quantiles of the same names, as histograms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Histograms {
    /// Of `convergence_seconds`.
    pub convergence_seconds: Vec<Bucket>,
    /// Of `pod_ready_seconds`.
    pub pod_ready_seconds: Vec<Bucket>,
    /// Of `queue_duration_seconds`.
    pub queue_duration_seconds: Vec<Bucket>,
    /// Of `work_duration_seconds`.
    pub work_duration_seconds: Vec<Bucket>,
}

/// One bucket of a histogram; the buckets ascend without a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bucket {
    /// Values above this, seconds; in the first bucket also values equal to it.
    pub above: f64,
    /// Values up to this and equal to it, seconds.
    pub up_to: f64,
    /// How many values.
    pub count: u64,
}

/// How long one ReplicaSet or ReplicationController took to converge once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "SlowReplicaSet")]
pub struct SlowWorkload {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// From the change to its pods and its exact status, or to the end of the run, seconds.
    pub seconds: f64,
    /// The phase in which that was over.
    pub phase: String,
    /// Whether it was over before the run was.
    pub converged: bool,
}
