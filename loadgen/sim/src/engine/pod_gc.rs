//! Pod garbage collection as a task: a round every 20 s.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_apiserver::podgc::{PodCollector, ROUND_EVERY_NS};
use podstorm_objects::Now;

use super::Builder;
use crate::executor::{Next, Task};

/// Adds its task.
pub(super) fn add(builder: &mut Builder) {
    let cluster = Arc::clone(&builder.cluster);
    let threshold = builder.options.services.terminated_pod_gc_threshold;
    builder.add(|_, _| PodGcTask::new(cluster, threshold));
}

/// The pod garbage collector of a cluster. A cluster with it never comes to rest.
#[derive(Debug)]
pub(super) struct PodGcTask {
    cluster: Arc<Cluster>,
    collector: PodCollector,
    /// When the next round is due.
    due_ns: i64,
}

impl PodGcTask {
    pub(super) fn new(cluster: Arc<Cluster>, threshold: i64) -> PodGcTask {
        PodGcTask {
            cluster,
            collector: PodCollector::new(threshold),
            due_ns: i64::MIN,
        }
    }
}

impl Task for PodGcTask {
    fn run(&mut self, now: Now) -> Next {
        if self.due_ns <= now.mono_ns {
            // What failed is tried again by the next round.
            self.collector.round(&self.cluster, now);
            self.due_ns = now.mono_ns.saturating_add(ROUND_EVERY_NS);
        }
        Next::At(self.due_ns)
    }
}
