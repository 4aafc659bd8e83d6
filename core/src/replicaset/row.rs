//! The rows of ReplicaSets and ReplicationControllers, whose controllers share one implementation.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, Gate, Pods, WorkersFlag, Write};
use podstorm_runtime::workqueue::QueueRow;

use super::{Controller, ControllerOptions, Gates};
use crate::controller::{ControllerType, Setup};

/// `PodDeletionCost`: the annotation counts in ranking.
pub const POD_DELETION_COST: Gate = Gate::on("PodDeletionCost");
/// `DeploymentReplicaSetTerminatingReplicas`: `status.terminatingReplicas` is maintained.
pub const TERMINATING_REPLICAS: Gate = Gate::on("DeploymentReplicaSetTerminatingReplicas");
/// `StaleControllerConsistencyReplicaSet`: a sync waits until the caches show its last writes.
pub const STALE_CONSISTENCY: Gate = Gate::on("StaleControllerConsistencyReplicaSet");
/// `LogarithmicScaleDown`: ranking treats pods of about the same age as equally old.
const LOGARITHMIC_SCALE_DOWN: Gate = Gate {
    locked_since: Some("1.31"),
    ..Gate::on("LogarithmicScaleDown")
};

/// The writes of both controllers to pods.
const PODS: Write = Write::new(Kind::POD, &["create", "delete", "patch"]);

/// The ReplicaSet controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSets;

impl ControllerType for ReplicaSets {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "replicaset-controller",
        alias: "replicaset",
        component: "replicaset-controller",
        purpose: "ReplicaSets",
        kind: Some(Kind::REPLICA_SET),
        pods: Pods::OwnedBy(Kind::REPLICA_SET),
        writes: &[
            PODS,
            Write::new(Kind::REPLICA_SET, &["get"]),
            Write::status(Kind::REPLICA_SET),
        ],
        queues: &[QueueRow::new("replicaset")],
        workers: Some(WorkersFlag {
            flag: "concurrent-replicaset-syncs",
            default: 5,
        }),
        gates: &[
            TERMINATING_REPLICAS,
            LOGARITHMIC_SCALE_DOWN,
            POD_DELETION_COST,
            STALE_CONSISTENCY,
        ],
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        make(Kind::REPLICA_SET, setup, informers)
    }
}

/// The ReplicationController controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug)]
pub struct ReplicationControllers;

impl ControllerType for ReplicationControllers {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "replicationcontroller-controller",
        alias: "replicationcontroller",
        component: "replication-controller",
        purpose: "ReplicationControllers",
        kind: Some(Kind::REPLICATION_CONTROLLER),
        pods: Pods::OwnedBy(Kind::REPLICATION_CONTROLLER),
        writes: &[
            PODS,
            Write::new(Kind::REPLICATION_CONTROLLER, &["get"]),
            Write::status(Kind::REPLICATION_CONTROLLER),
        ],
        queues: &[QueueRow::new("replicationmanager")],
        workers: Some(WorkersFlag {
            flag: "concurrent-rc-syncs",
            default: 5,
        }),
        gates: &[
            TERMINATING_REPLICAS,
            LOGARITHMIC_SCALE_DOWN,
            POD_DELETION_COST,
        ],
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        make(Kind::REPLICATION_CONTROLLER, setup, informers)
    }
}

fn make(kind: Kind, setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
    let options = ControllerOptions {
        kind,
        burst_replicas: setup.burst_replicas,
        gates: Gates::from_flags(&setup.feature_gates),
        policy: setup.policy,
    };
    Controller::new(options, informers)
}

/// Returns the row of the controller of that kind.
///
/// # Panics
/// Panics if the kind is neither ReplicaSet nor ReplicationController.
pub(super) fn row_of(kind: Kind) -> &'static ControllerRow {
    let rows = [ReplicaSets::ROW, ReplicationControllers::ROW];
    let row = rows.into_iter().find(|row| row.kind == Some(kind));
    row.expect("the kind must be ReplicaSet or ReplicationController")
}

impl Gates {
    /// Returns the gates with the values in `set`. The others have their defaults.
    pub fn from_flags(set: &BTreeMap<String, bool>) -> Gates {
        Gates {
            pod_deletion_cost: POD_DELETION_COST.is_on(set),
            terminating_replicas: TERMINATING_REPLICAS.is_on(set),
            stale_controller_consistency: STALE_CONSISTENCY.is_on(set),
        }
    }
}

impl Default for Gates {
    /// Enables all gates, as Kubernetes 1.36 does.
    fn default() -> Self {
        Gates::from_flags(&BTreeMap::new())
    }
}
