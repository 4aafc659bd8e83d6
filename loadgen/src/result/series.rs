//! The run over time: samples in columns, distributions in buckets, and the slowest convergences.

use schemars::JsonSchema;
use serde::Serialize;

/// Samples of the run, in one column per value: entry i of every column belongs to the same time.
/// There are at most about 1,000 samples, however long the run is: the distance between them grows.
///
/// A sample is valid until the time of the next one. On the virtual engine, samples are taken by
/// simulated time and by work done, so that there are samples even where no simulated time passes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// Engine time since the start, seconds; never decreases.
    pub seconds: Vec<f64>,
    /// The current phase, as an index into `phases`.
    pub phase: Vec<usize>,
    /// Pods that all ReplicaSets and ReplicationControllers together desire.
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
    /// Keys that will be added to the queues later: retries after failures, and checks for
    /// availability.
    pub queue_delayed: Vec<u64>,
    /// API calls of the controllers so far, including those that write Events.
    pub api_calls: Vec<u64>,
    /// The server's resource version: the writes of all clients so far.
    pub resource_version: Vec<u64>,
}

impl Series {
    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.seconds.len()
    }

    /// Reports whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }
}

/// The distributions behind the quantiles of the same names, as histograms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Histograms {
    /// Histogram of `convergence_seconds`.
    pub convergence_seconds: Vec<Bucket>,
    /// Histogram of `pod_ready_seconds`.
    pub pod_ready_seconds: Vec<Bucket>,
    /// Histogram of `queue_duration_seconds`.
    pub queue_duration_seconds: Vec<Bucket>,
    /// Histogram of `work_duration_seconds`.
    pub work_duration_seconds: Vec<Bucket>,
}

/// A bucket of a histogram. The buckets are in ascending order, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bucket {
    /// Exclusive lower bound, seconds; inclusive in the first bucket.
    pub above: f64,
    /// Inclusive upper bound, seconds.
    pub up_to: f64,
    /// Number of values in the bucket.
    pub count: u64,
}

/// A convergence of a ReplicaSet or ReplicationController.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "SlowReplicaSet")]
pub struct SlowWorkload {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Time from the change until the object had its pods and an exact status, or until the end of
    /// the run, seconds.
    pub seconds: f64,
    /// The phase in which the convergence ended.
    pub phase: String,
    /// Whether the object converged before the run ended.
    pub converged: bool,
}
