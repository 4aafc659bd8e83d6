//! The row of the StatefulSet controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Gate, Pods, WorkersFlag, Write};
use podstorm_runtime::workqueue::QueueRow;

use super::{Controller, ControllerOptions};
use crate::controller::{ControllerType, Setup};
use crate::policy::Policy;

/// The StatefulSet controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatefulSets;

/// A sync waits until the caches show its last writes.
const STALE_CONSISTENCY: Gate = Gate::on("StaleControllerConsistencyStatefulSet");

/// Revisions are compared by the templates that they restore.
const SEMANTIC_COMPARISON: Gate = Gate::on("StatefulSetSemanticRevisionComparison");

/// A rolling update may make more than one pod unavailable if the set allows it.
const MAX_UNAVAILABLE: Gate = Gate::off("MaxUnavailableStatefulSet");

impl ControllerType for StatefulSets {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "statefulset-controller",
        alias: "statefulset",
        component: "statefulset-controller",
        purpose: "StatefulSets",
        kind: Some(Kind::STATEFUL_SET),
        reads: &[Kind::PERSISTENT_VOLUME_CLAIM, Kind::CONTROLLER_REVISION],
        pods: Pods::OwnedBy(Kind::STATEFUL_SET),
        writes: &[
            Write::new(Kind::STATEFUL_SET, &["get"]),
            Write::status(Kind::STATEFUL_SET),
            Write::new(Kind::POD, &["create", "delete", "patch", "update"]),
            Write::new(Kind::PERSISTENT_VOLUME_CLAIM, &["create", "update"]),
            Write::new(
                Kind::CONTROLLER_REVISION,
                &["create", "delete", "get", "patch", "update"],
            ),
        ],
        queues: &[QueueRow::new("statefulset")],
        workers: Some(WorkersFlag {
            flag: "concurrent-statefulset-syncs",
            default: 5,
        }),
        gates: &[STALE_CONSISTENCY, SEMANTIC_COMPARISON, MAX_UNAVAILABLE],
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let options = StatefulSets::options(&setup.feature_gates, &setup.policy);
        Arc::new(Controller::new(options, informers))
    }
}

impl StatefulSets {
    /// Returns the options that follow from these gates and this policy.
    pub fn options(gates: &BTreeMap<String, bool>, policy: &Policy) -> ControllerOptions {
        ControllerOptions {
            waits_for_caches: STALE_CONSISTENCY.is_on(gates),
            compares_templates: SEMANTIC_COMPARISON.is_on(gates),
            uses_max_unavailable: MAX_UNAVAILABLE.is_on(gates),
            replace_broken_pods: policy.replace_broken_pods,
            complete_when_available: policy.complete_when_available,
        }
    }
}
