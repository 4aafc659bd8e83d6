//! The rows of the EndpointSlice controller and the Endpoints controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Pods, Write};
use podstorm_runtime::workqueue::{QueueRow, RetryDelay, Workers};

use super::Controller;
use crate::controller::{ControllerType, Setup};

/// The maximum number of consecutive retries of a failed key.
pub(super) const RETRIES_MAX: u32 = 15;

/// The number of workers: upstream's default of `--concurrent-service-endpoint-syncs`,
/// `--concurrent-endpoint-syncs` and `--mirroring-concurrent-service-endpoint-syncs`.
pub(super) const WORKERS: usize = 5;

/// The controller that writes EndpointSlices, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointSlices;

/// The controller that writes Endpoints, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointsOfServices;

impl ControllerType for EndpointSlices {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "endpointslice-controller",
        alias: "endpointslice",
        component: "endpoint-slice-controller",
        purpose: "EndpointSlices of Services",
        kind: Some(Kind::SERVICE),
        reads: &[Kind::ENDPOINT_SLICE, Kind::NODE],
        pods: Pods::All,
        writes: &[Write::new(
            Kind::ENDPOINT_SLICE,
            &["create", "delete", "update"],
        )],
        queues: &[QueueRow {
            delay: RetryDelay::Exponential {
                base_ns: 1_000_000_000,
                max_ns: 1_000_000_000_000,
                bucket: true,
            },
            retries_max: Some(RETRIES_MAX),
            workers: Workers::Number(WORKERS),
            ..QueueRow::new("endpoint_slice")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let queue = EndpointSlices::ROW.queues[0];
        Arc::new(Controller::of_slices(queue, informers))
    }
}

impl ControllerType for EndpointsOfServices {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "endpoints-controller",
        alias: "endpoint",
        component: "endpoint-controller",
        purpose: "Endpoints of Services",
        kind: Some(Kind::SERVICE),
        reads: &[Kind::ENDPOINTS],
        pods: Pods::All,
        writes: &[Write::new(Kind::ENDPOINTS, &["create", "delete", "update"])],
        queues: &[QueueRow {
            retries_max: Some(RETRIES_MAX),
            workers: Workers::Number(WORKERS),
            ..QueueRow::new("endpoint")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let queue = EndpointsOfServices::ROW.queues[0];
        Arc::new(Controller::of_endpoints(queue, informers))
    }
}
