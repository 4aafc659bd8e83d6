//! The namespace controller: it empties a namespace that is being deleted, pods first, and then
//! removes the finalizer that holds the namespace.
//!
//! `sync`: the steps of one sync; `content`: the deletion of all objects of one kind; `conditions`:
//! the conditions in the namespace's status. The controller asks the server for the kinds, so
//! objects of custom kinds are deleted, too.
//!
//! A sync reports the remaining objects in five conditions. It estimates the remaining time from
//! the grace periods of pods or from finalizers, and the next sync is due after half of that time.
//! An object that remains without a grace period or finalizer is an error, and the sync is retried.
//!
//! The server refuses new objects in the namespace. Requests that it admitted earlier may still be
//! in flight, so the first sync waits for [`FIRST_AFTER_NS`].
//!
//! Source: Kubernetes' `pkg/controller/namespace`.

mod conditions;
mod content;
mod row;
mod sync;

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Now, Time};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{AtomicBool, Ordering};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, RateLimitingQueue};

use crate::controller::ControllerType as _;

pub use row::Namespaces;
pub use sync::{Outcome, Stopped, sync};

/// The time in ns from the notification that a namespace is being deleted to its first sync.
pub const FIRST_AFTER_NS: i64 = 5_000_000_000;

const SECOND_NS: i64 = 1_000_000_000;

/// The time in ns from a removal to the next sync of a [hastened](Controller::hasten) controller.
/// All removals in that time share one sync.
pub const SOON_NS: i64 = 100_000_000;

/// How long a hastened controller repeats its syncs even without removals, in ns from the start of
/// the deletion. By then, requests that were admitted earlier have arrived.
const SETTLED_AFTER_NS: i64 = 1_000_000_000;

/// The namespace controller. Other controllers may share its informers. A clone is a handle to the
/// same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    namespaces: Arc<Store<AnyObject>>,
    queue: RateLimitingQueue<KeyId>,
    /// Whether removals are reported; see [`Controller::hasten`].
    hastened: AtomicBool,
}

impl Controller {
    /// Creates a controller that reads namespaces from `informers`.
    pub fn new(informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            namespaces: informers.store(Kind::NAMESPACE, || ()),
            queue: RateLimitingQueue::from_row(Namespaces::ROW.queues[0]),
            hastened: AtomicBool::new(false),
        });
        informers.add_handler::<AnyObject>(Kind::NAMESPACE, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the key of a name. A new name gets a new key.
    pub fn key(&self, name: &str) -> KeyId {
        self.0.namespaces.intern("", name)
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queue
    }

    /// Drops upstream's delays from now on: a namespace is synced immediately, repeatedly in the
    /// first second, and soon after each [removal](Controller::removed). For simulated clusters,
    /// which report removals and whose requests don't fail.
    pub fn hasten(&self) {
        // Relaxed: the flag is set before the controller runs.
        self.0.hastened.store(true, Ordering::Relaxed);
    }

    /// Tells a [hastened](Controller::hasten) controller that an object was removed from a
    /// namespace that is being deleted. Returns whether the queue's timer must be reset, as
    /// [`RateLimitingQueue::add_after`] does.
    pub fn removed(&self, namespace: &str, now: Now) -> bool {
        let key = self.key(namespace);
        self.0.queue.add_after(key, SOON_NS, now.mono_ns)
    }
}

impl Shared {
    fn is_hastened(&self) -> bool {
        self.hastened.load(Ordering::Relaxed)
    }
}

/// Queues a namespace that is being deleted, after a delay. Ignores all other changes.
impl Handler<AnyObject> for Shared {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        let namespace = change.new.as_ref();
        if namespace.is_some_and(|namespace| namespace.metadata().is_deleting()) {
            let delay_ns = if self.is_hastened() {
                0
            } else {
                FIRST_AFTER_NS
            };
            self.queue.add_after(change.key, delay_ns, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

/// Returns how a hastened controller ends a sync that leaves the namespace not empty.
fn hastened_end(begun: Time, now: Now) -> End {
    let begun_ns = begun.unix_nanos().unwrap_or(now.wall_ns);
    match now.wall_ns - begun_ns < SETTLED_AFTER_NS {
        true => End::After(SOON_NS),
        false => End::Forget,
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.namespaces.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            let Some(cached) = shared.namespaces.get(key) else {
                return Ok(End::Forget);
            };
            let metadata = cached.metadata();
            let (name, begun) = (metadata.name.clone(), metadata.deletion_timestamp);
            let outcome = self::sync(&name, &calls).await;
            if shared.is_hastened() && outcome != Ok(Outcome::Done) {
                return Ok(hastened_end(begun, calls.now()));
            }
            let outcome = outcome.map_err(|stopped| SyncFailure {
                label: "failed",
                message: stopped.to_string(),
                is_final: false,
            })?;
            Ok(match outcome.again_after_seconds() {
                None => End::Forget,
                Some(seconds) => End::After(seconds.saturating_mul(SECOND_NS)),
            })
        }
    }
}

#[cfg(test)]
mod tests;
