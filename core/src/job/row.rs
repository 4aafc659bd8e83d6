//! The row of the controller of Jobs.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Pods, Write};
use podstorm_runtime::workqueue::{QueueRow, RetryDelay, Workers};

use super::{Controller, ControllerOptions, SECOND_NS};
use crate::controller::{ControllerType, Setup};

/// The controller of Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs;

const fn queue(name: &'static str) -> QueueRow {
    QueueRow {
        delay: RetryDelay::Exponential {
            base_ns: SECOND_NS,
            max_ns: 60 * SECOND_NS,
            bucket: false,
        },
        workers: Workers::Number(5),
        ..QueueRow::new(name)
    }
}

impl ControllerType for Jobs {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "job-controller",
        alias: "job",
        component: "job-controller",
        purpose: "Jobs",
        kind: Some(Kind::JOB),
        pods: Pods::OwnedBy(Kind::JOB),
        writes: &[
            Write::of(Kind::POD, &["create", "delete", "patch"]),
            Write::of(Kind::JOB, &["get"]),
            Write::status(Kind::JOB),
        ],
        queues: &[queue("job"), queue("job_orphan_pod")],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let options = ControllerOptions::default();
        Arc::new(Controller::new(options, informers))
    }
}
