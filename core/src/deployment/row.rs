//! The row of the Deployment controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Pods, WorkersFlag, Write};
use podstorm_runtime::workqueue::QueueRow;

use super::limits::RETRIES_MAX;
use super::{Controller, ControllerOptions};
use crate::controller::{ControllerType, Setup};
use crate::replicaset::TERMINATING_REPLICAS;

/// The Deployment controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployments;

impl ControllerType for Deployments {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "deployment-controller",
        alias: "deployment",
        component: "deployment-controller",
        purpose: "Deployments",
        kind: Some(Kind::DEPLOYMENT),
        reads: &[Kind::REPLICA_SET],
        pods: Pods::OwnedBy(Kind::REPLICA_SET),
        writes: &[
            Write::new(
                Kind::REPLICA_SET,
                &["create", "delete", "get", "patch", "update"],
            ),
            Write::new(Kind::DEPLOYMENT, &["get", "update"]),
            Write::status(Kind::DEPLOYMENT),
        ],
        queues: &[QueueRow {
            // After sixteen consecutive failures, a key waits for the next event.
            retries_max: Some(RETRIES_MAX),
            ..QueueRow::new("deployment")
        }],
        workers: Some(WorkersFlag {
            flag: "concurrent-deployment-syncs",
            default: 5,
        }),
        gates: &[TERMINATING_REPLICAS],
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let options = ControllerOptions {
            terminating_replicas: TERMINATING_REPLICAS.is_on(&setup.feature_gates),
        };
        Arc::new(Controller::new(options, informers))
    }
}
