//! The TTL-after-finished controller: it deletes a Job and its pods `spec.ttlSecondsAfterFinished`
//! after the Job has finished.
//!
//! `job`: the members of a Job that the controller reads; `sync`: the steps of one sync. The store
//! shares each Job with the server instead of copying it, and a check reads only a few members.
//!
//! Expiry depends on two clocks: another process writes the time of the condition, and this process
//! reads the current time. If the clock of this process is ahead, a Job is deleted too early by the
//! difference. The UID precondition protects only a Job that replaces another one between the read
//! and the deletion. A Job that was recreated before the read is checked like any other.
//!
//! Source: Kubernetes' `pkg/controller/ttlafterfinished`.

mod job;
mod row;
mod sync;

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Now};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::metrics::{self, Family, Histogram, Value};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::controller::ControllerType as _;
use job::FinishedJob;

pub use row::TtlAfterFinished;

/// The bounds of the histogram of delays from the end of the TTL to the deletion: 0.1 s · 2^i for
/// i = 0..=13.
const DELETION_BOUNDS: [f64; 14] = [
    0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6, 819.2,
];

/// The TTL-after-finished controller. Other controllers may share its informers. A clone is a
/// handle to the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    jobs: Arc<Store<AnyObject>>,
    queue: RateLimitingQueue<KeyId>,
    /// The time in s from the end of the TTL to the accepted deletion.
    deletion_seconds: Histogram,
}

impl Controller {
    /// Creates a controller that reads Jobs from `informers`.
    pub fn new(informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            jobs: informers.store(Kind::JOB, || ()),
            queue: RateLimitingQueue::from_row(TtlAfterFinished::ROW.queues[0]),
            deletion_seconds: Histogram::new(&DELETION_BOUNDS),
        });
        informers.add_handler::<AnyObject>(Kind::JOB, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the key of a name. A new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.0.jobs.intern(namespace, name)
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queue
    }
}

impl Shared {
    /// Observes the delay of a deletion that the server has accepted.
    fn deleted(&self, expiry_ns: i128, now: Now) {
        let late_ns = i128::from(now.wall_ns) - expiry_ns;
        self.deletion_seconds.observe(late_ns as f64 / 1e9);
    }
}

/// Wakes a Job that was added, changed or listed if it has finished and has a TTL. If the TTL was
/// removed or raised, the key stays due at the earlier time, and the sync checks the Job again.
impl Handler<AnyObject> for Shared {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        let job = change.new.as_ref();
        if job.is_some_and(|job| FinishedJob::from_object(&***job).is_some()) {
            self.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.jobs.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        sync::run(Arc::clone(&self.0), key, calls)
    }

    fn families(&self) -> Vec<Family> {
        vec![Family::single(
            "ttl_after_finished_controller_job_deletion_duration_seconds",
            "Time from the end of a Job's TTL to its deletion in seconds.",
            metrics::Kind::Histogram,
            Vec::new(),
            Value::Histogram(self.0.deletion_seconds.snapshot()),
        )]
    }
}

#[cfg(test)]
mod tests;
