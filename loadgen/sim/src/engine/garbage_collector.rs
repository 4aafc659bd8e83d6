//! The task of the controllers inside the server. It handles the collector's queue in small
//! batches; the garbage collector and the quota counter both add items to that queue.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::Builder;
use crate::executor::{Next, Task};
use crate::options::EngineKind;

/// Adds the task, unless the other controller inside the server has already added it.
pub(super) fn add(builder: &mut Builder) {
    let cluster = Arc::clone(&builder.cluster);
    if cluster.has_gc_waker() {
        return;
    }
    let delay_ns = match builder.options.engine {
        EngineKind::Threads => BEGINS_AFTER_NS,
        EngineKind::Virtual => 0,
    };
    builder.add(|_, waker| {
        cluster.set_gc_waker(Some(waker));
        GarbageCollectorTask {
            cluster: Arc::clone(&cluster),
            delay_ns,
            begins_ns: None,
        }
    });
}

/// The maximum number of objects handled in one run of the task.
const BATCH: usize = 500;

/// The delay between a commit and the collector's work on the threads engine, ns. Upstream's
/// collector receives commits through watches, and reads an object and its owners from the server
/// before it deletes; by then, controllers have received the commit. With a faster collector, a
/// ReplicaSet whose pods are being collected would replace them whenever the operating system
/// suspends an informer's thread. Virtual time has no such pauses, and needs no delay.
const BEGINS_AFTER_NS: i64 = 10_000_000;

/// The task that runs the controllers inside the server. The cluster's GC waker wakes it.
#[derive(Debug)]
struct GarbageCollectorTask {
    cluster: Arc<Cluster>,
    /// The delay from the waking commit to the start of the work, ns.
    delay_ns: i64,
    /// The time at which the work for the last wake-up starts, ns; `None` if no work is pending.
    begins_ns: Option<i64>,
}

impl Task for GarbageCollectorTask {
    fn run(&mut self, now: Now) -> Next {
        let begins_ns = *self.begins_ns.get_or_insert(now.mono_ns + self.delay_ns);
        if now.mono_ns < begins_ns {
            return Next::At(begins_ns);
        }
        if self.cluster.collect_garbage(BATCH, now) == BATCH {
            return Next::Again;
        }
        self.begins_ns = None;
        Next::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_is_collected_after_the_delay() {
        let mut task = GarbageCollectorTask {
            cluster: Arc::new(Cluster::new(Default::default())),
            delay_ns: 10,
            begins_ns: None,
        };
        let mut at = |mono_ns| {
            task.run(Now {
                mono_ns,
                wall_ns: 0,
            })
        };
        assert_eq!(at(100), Next::At(110));
        assert_eq!(at(105), Next::At(110), "another commit");
        assert_eq!(at(110), Next::Idle);
        assert_eq!(at(200), Next::At(210));
    }
}
