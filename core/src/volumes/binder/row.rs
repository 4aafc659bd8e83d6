//! The row of the binder.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::workqueue::{QueueRow, Workers};

use super::Binder;
use crate::controller::{ControllerType, Setup};

/// The binder, which binds claims to volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentVolumeBinder;

/// Returns the row of a queue with one worker, as in upstream.
const fn queue(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(1),
        ..QueueRow::new(name)
    }
}

impl ControllerType for PersistentVolumeBinder {
    type Workload = Binder;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "persistentvolume-binder-controller",
        alias: "persistentvolume-binder",
        component: "persistentvolume-controller",
        purpose: "claims and their volumes",
        kind: Some(Kind::PERSISTENT_VOLUME_CLAIM),
        reads: &[Kind::PERSISTENT_VOLUME, Kind::STORAGE_CLASS],
        writes: &[
            Write::new(Kind::PERSISTENT_VOLUME_CLAIM, &["get", "update"]),
            Write::status(Kind::PERSISTENT_VOLUME_CLAIM),
            Write::new(Kind::PERSISTENT_VOLUME, &["update"]),
            Write::status(Kind::PERSISTENT_VOLUME),
        ],
        queues: &[queue("claims"), queue("volumes")],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Binder> {
        Arc::new(Binder::new(informers))
    }
}
