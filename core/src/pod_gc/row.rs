//! The row of the pod garbage collector.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, NumberFlag, NumberForm, Pods, Write};
use podstorm_runtime::workqueue::{QueueRow, Workers};

use super::Controller;
use crate::controller::{ControllerType, Setup};

/// The number of ended pods above which the collector deletes ended pods. A number that is not
/// positive turns this off.
pub const TERMINATED_POD_GC_THRESHOLD: NumberFlag = NumberFlag {
    flag: "terminated-pod-gc-threshold",
    default: 12_500,
    form: NumberForm::Count,
    help: "Ended pods beyond this number are deleted; 0 keeps all",
};

/// The pod garbage collector, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodGc;

impl ControllerType for PodGc {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "pod-garbage-collector-controller",
        alias: "podgc",
        component: "pod-garbage-collector",
        purpose: "pod garbage collection",
        kind: Some(Kind::POD),
        reads: &[Kind::NODE],
        pods: Pods::All,
        writes: &[
            Write::new(Kind::POD, &["delete"]),
            Write {
                kind: Some(Kind::POD),
                subresource: "status",
                verbs: &["patch"],
            },
            Write::new(Kind::NODE, &["get"]),
        ],
        queues: &[QueueRow {
            workers: Workers::Number(1),
            ..QueueRow::new("pod_gc")
        }],
        numbers: &[TERMINATED_POD_GC_THRESHOLD],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let threshold = TERMINATED_POD_GC_THRESHOLD.value(&setup.numbers);
        Arc::new(Controller::new(threshold, informers))
    }
}
