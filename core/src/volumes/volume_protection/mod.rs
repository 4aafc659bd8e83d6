//! Volume protection: it keeps a volume that is bound to a claim until the claim releases it.

use std::sync::Arc;

use podstorm_objects::{Kind, Now};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, QueueRow, RateLimitingQueue, Workers};

use super::{Cached, awaits_finalizer, put_finalizer, text};
use crate::controller::{ControllerType, Setup};

const FINALIZER: &str = "kubernetes.io/pv-protection";

/// The volume protection controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentVolumeProtection;

/// The controller that protects volumes. A clone is a handle to the same controller.
#[derive(Clone, Debug)]
pub struct VolumeProtection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    volumes: Arc<Store<Cached>>,
    queue: RateLimitingQueue<KeyId>,
}

impl ControllerType for PersistentVolumeProtection {
    type Workload = VolumeProtection;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "persistentvolume-protection-controller",
        alias: "pv-protection",
        component: "persistentvolume-protection-controller",
        purpose: "protection of bound volumes",
        kind: Some(Kind::PERSISTENT_VOLUME),
        writes: &[Write::new(Kind::PERSISTENT_VOLUME, &["update"])],
        queues: &[QueueRow {
            workers: Workers::Number(1),
            ..QueueRow::new("pvprotection")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<VolumeProtection> {
        let shared = Arc::new(Shared {
            volumes: informers.store(Kind::PERSISTENT_VOLUME, || ()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
        });
        informers.add_handler::<Cached>(Kind::PERSISTENT_VOLUME, Arc::clone(&shared) as _);
        Arc::new(VolumeProtection(shared))
    }
}

impl Handler<Cached> for Shared {
    fn handle(&self, change: &Change<Cached>, now: Now) {
        let new = change.new.as_ref();
        if new.is_some_and(|new| awaits_finalizer(new, FINALIZER)) {
            self.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(volume) = shared.volumes.get(key) else {
        return Ok(End::Forget);
    };
    let is_held = volume.metadata.has_finalizer(FINALIZER);
    match volume.metadata.is_deleting() {
        true if is_held && text(&volume, "/status/phase") != "Bound" => {
            put_finalizer(&volume, FINALIZER, false, &calls).await?;
        }
        false if !is_held => put_finalizer(&volume, FINALIZER, true, &calls).await?,
        _ => {}
    }
    Ok(End::Forget)
}

impl AsyncWorkload for VolumeProtection {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.volumes.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}

#[cfg(test)]
mod tests;
