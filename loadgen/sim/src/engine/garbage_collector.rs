//! The task of the controllers that are parts of the server: handles the collector's queue in small batches. Both
//! the garbage collector and the count of what quotas use add items to that queue.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::Builder;
use crate::executor::{Next, Task};
use crate::options::EngineKind;

/// Adds the task, unless another of these controllers has added it.
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

/// Most objects handled in one run.
const BATCH: usize = 500;

/// How long after a commit the collector begins on threads, ns. Upstream's collector hears of commits
/// through watches, and reads an object and its owners from the server before it deletes: controllers have
/// heard of the commit by then. Were the collector faster, a ReplicaSet whose pods are collected would replace
/// them where the operating system keeps the thread of an informer for a while. In virtual time nothing is kept,
/// and time may stand still.
const BEGINS_AFTER_NS: i64 = 10_000_000;

/// The garbage collector of a cluster. The cluster's GC waker must wake this task.
#[derive(Debug)]
struct GarbageCollectorTask {
    cluster: Arc<Cluster>,
    /// From the commit that wakes it to its beginning, ns.
    delay_ns: i64,
    /// When it begins with what it was woken for, ns.
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
    fn it_begins_when_its_delay_is_over_and_waits_anew_for_the_next_commit() {
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
