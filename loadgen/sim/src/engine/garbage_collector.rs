//! The garbage collector's part: lets the cluster's collector work in small portions.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use crate::executor::{Next, Task};

/// Most objects handled in one run.
const BATCH: usize = 500;

/// The garbage collector.
#[derive(Debug)]
pub(super) struct GarbageCollectorTask {
    cluster: Arc<Cluster>,
}

impl GarbageCollectorTask {
    /// A collector of this cluster, which has been told how to wake it.
    pub(super) fn new(cluster: Arc<Cluster>) -> GarbageCollectorTask {
        GarbageCollectorTask { cluster }
    }
}

impl Task for GarbageCollectorTask {
    fn run(&mut self, now: Now) -> Next {
        if self.cluster.collect_garbage(BATCH, now) == BATCH {
            Next::Again
        } else {
            Next::Idle
        }
    }
}
