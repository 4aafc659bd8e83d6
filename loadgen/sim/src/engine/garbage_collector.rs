//! The garbage collector's task: runs the cluster's collector in small batches.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::Builder;
use crate::executor::{Next, Task};

/// Adds its task.
pub(super) fn add(builder: &mut Builder) {
    let cluster = Arc::clone(&builder.cluster);
    builder.add(|_, waker| {
        cluster.set_gc_waker(Some(waker));
        GarbageCollectorTask(Arc::clone(&cluster))
    });
}

/// Most objects handled in one run.
const BATCH: usize = 500;

/// The garbage collector of a cluster. The cluster's GC waker must wake this task.
#[derive(Debug)]
pub(super) struct GarbageCollectorTask(pub(super) Arc<Cluster>);

impl Task for GarbageCollectorTask {
    fn run(&mut self, now: Now) -> Next {
        if self.0.collect_garbage(BATCH, now) == BATCH {
            Next::Again
        } else {
            Next::Idle
        }
    }
}
