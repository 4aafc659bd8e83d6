//! The row of the namespace controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::limits::BACKOFF_BASE_NS;
use podstorm_runtime::row::{ControllerRow, RunsIn, WorkersFlag, Write};
use podstorm_runtime::workqueue::{QueueRow, RetryDelay};

use super::Controller;
use crate::controller::{ControllerType, Setup};

/// The maximum delay after a failure, in ns.
///
/// Source: `nsControllerRateLimiter` in Kubernetes' `pkg/controller/namespace`.
const RETRY_MAX_NS: i64 = 60_000_000_000;

/// The namespace controller, which empties namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces;

impl ControllerType for Namespaces {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "namespace-controller",
        alias: "namespace",
        component: "namespace-controller",
        purpose: "the end of namespaces that are being deleted",
        kind: Some(Kind::NAMESPACE),
        writes: &[
            Write::new(Kind::NAMESPACE, &["get"]),
            Write::status(Kind::NAMESPACE),
            Write::update_of(Kind::NAMESPACE, "finalize"),
            Write::of_every_kind(&["delete", "deletecollection", "list"]),
        ],
        queues: &[QueueRow {
            delay: RetryDelay::Exponential {
                base_ns: BACKOFF_BASE_NS,
                max_ns: RETRY_MAX_NS,
                bucket: true,
            },
            ..QueueRow::new("namespace")
        }],
        workers: Some(WorkersFlag {
            flag: "concurrent-namespace-syncs",
            default: 10,
        }),
        runs_in: RunsIn::Cluster,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        Arc::new(Controller::new(informers))
    }
}
