//! The row of the TTL-after-finished controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, WorkersFlag, Write};
use podstorm_runtime::workqueue::QueueRow;

use super::Controller;
use crate::controller::{ControllerType, Setup};

/// The TTL-after-finished controller, which deletes finished Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlAfterFinished;

impl ControllerType for TtlAfterFinished {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "ttl-after-finished-controller",
        alias: "ttl-after-finished",
        component: "ttl-after-finished-controller",
        purpose: "finished Jobs",
        kind: Some(Kind::JOB),
        writes: &[Write::new(Kind::JOB, &["delete", "get"])],
        queues: &[QueueRow::new("ttl_jobs_to_delete")],
        workers: Some(WorkersFlag {
            flag: "concurrent-ttl-after-finished-syncs",
            default: 5,
        }),
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        Arc::new(Controller::new(informers))
    }
}
