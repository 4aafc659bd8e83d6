//! The row of the disruption controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Pods, Write};
use podstorm_runtime::workqueue::{QueueRow, Workers};

use super::Controller;
use crate::controller::{ControllerType, Setup};

/// The disruption controller. It also reads the `/scale` of pods' controllers of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disruption;

/// Returns the row of a queue with one worker, as in upstream.
const fn queue(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(1),
        ..QueueRow::new(name)
    }
}

impl ControllerType for Disruption {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "disruption-controller",
        alias: "disruption",
        // The same as upstream's.
        component: "controllermanager",
        purpose: "PodDisruptionBudgets",
        kind: Some(Kind::POD_DISRUPTION_BUDGET),
        reads: &[
            Kind::REPLICA_SET,
            Kind::REPLICATION_CONTROLLER,
            Kind::DEPLOYMENT,
            Kind::STATEFUL_SET,
        ],
        pods: Pods::All,
        writes: &[
            Write::status(Kind::POD_DISRUPTION_BUDGET),
            Write::status(Kind::POD),
        ],
        queues: &[queue("disruption"), queue("stale_pod_disruption")],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        Arc::new(Controller::new(informers))
    }
}
