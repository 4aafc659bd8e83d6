//! The row of the taint eviction controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Pods, Write};
use podstorm_runtime::workqueue::{QueueRow, Workers};

use super::Controller;
use crate::controller::{ControllerType, Setup};

/// The taint eviction controller, which deletes pods that do not tolerate the `NoExecute` taints of
/// their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaintEviction;

impl ControllerType for TaintEviction {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "taint-eviction-controller",
        // Upstream has no older name.
        alias: "taint-eviction-controller",
        component: "taint-eviction-controller",
        purpose: "pods on nodes with NoExecute taints",
        kind: Some(Kind::POD),
        reads: &[Kind::NODE],
        pods: Pods::All,
        writes: &[
            Write::new(Kind::POD, &["get", "delete"]),
            Write {
                kind: Some(Kind::POD),
                subresource: "status",
                verbs: &["patch"],
            },
        ],
        queues: &[QueueRow {
            // Upstream's number of workers for updates of pods.
            workers: Workers::Number(8),
            ..QueueRow::new("taint_eviction")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        Arc::new(Controller::new(informers))
    }
}
