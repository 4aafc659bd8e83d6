//! The row of the node lifecycle controller, and the flags for its numbers.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{ControllerRow, NumberFlag, NumberForm, Pods, Write};
use podstorm_runtime::workqueue::{QueueRow, Workers};

use super::{Controller, Options};
use crate::controller::{ControllerType, Setup};

const SECOND_NS: i64 = 1_000_000_000;

/// The time between rounds over all nodes, in ns.
pub const NODE_MONITOR_PERIOD: NumberFlag = NumberFlag {
    flag: "node-monitor-period",
    default: 5 * SECOND_NS,
    form: NumberForm::Time,
    help: "How often the node-lifecycle controller checks all nodes",
};

/// The time in ns for which a node may be silent before its conditions become `Unknown`.
pub const NODE_MONITOR_GRACE_PERIOD: NumberFlag = NumberFlag {
    flag: "node-monitor-grace-period",
    default: 50 * SECOND_NS,
    form: NumberForm::Time,
    help: "How long a node may be silent before it is Unknown and unreachable",
};

/// The time in ns for which a node that has never reported its readiness may be silent.
pub const NODE_STARTUP_GRACE_PERIOD: NumberFlag = NumberFlag {
    flag: "node-startup-grace-period",
    default: 60 * SECOND_NS,
    form: NumberForm::Time,
    help: "The same for a node that has never reported",
};

/// The maximum rate of `NoExecute` taints in a zone, in millionths of a node per second.
pub const NODE_EVICTION_RATE: NumberFlag = NumberFlag {
    flag: "node-eviction-rate",
    default: 100_000,
    form: NumberForm::Millionths,
    help: "Rate of NoExecute taints in a zone, in nodes per second",
};

/// The rate for a large zone with many nodes that are not ready, in the same unit.
pub const SECONDARY_NODE_EVICTION_RATE: NumberFlag = NumberFlag {
    flag: "secondary-node-eviction-rate",
    default: 10_000,
    form: NumberForm::Millionths,
    help: "The same for a large unhealthy zone; nodes of a small unhealthy zone get no taints",
};

/// The share of nodes that are not ready, in millionths, at which a zone is unhealthy.
pub const UNHEALTHY_ZONE_THRESHOLD: NumberFlag = NumberFlag {
    flag: "unhealthy-zone-threshold",
    default: 550_000,
    form: NumberForm::Millionths,
    help: "Share of nodes, at least 3, that are not ready in an unhealthy zone",
};

/// The number of nodes above which a zone is large.
pub const LARGE_CLUSTER_SIZE_THRESHOLD: NumberFlag = NumberFlag {
    flag: "large-cluster-size-threshold",
    default: 50,
    form: NumberForm::Count,
    help: "Number of nodes above which a zone is large",
};

/// The node lifecycle controller, which marks nodes that are silent or not ready, and their pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLifecycle;

impl ControllerType for NodeLifecycle {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "node-lifecycle-controller",
        alias: "nodelifecycle",
        component: "node-controller",
        purpose: "nodes that are silent or not ready",
        // The same kind as every controller that handles pods because of their nodes.
        kind: Some(Kind::POD),
        reads: &[Kind::NODE, Kind::LEASE],
        pods: Pods::All,
        writes: &[
            Write::new(Kind::NODE, &["get", "patch"]),
            Write::status(Kind::NODE),
            Write::status(Kind::POD),
        ],
        queues: &[
            // Upstream has 8 workers for nodes and 4 for pods.
            QueueRow {
                workers: Workers::Number(8),
                ..QueueRow::new("node_lifecycle_controller")
            },
            QueueRow {
                workers: Workers::Number(1),
                ..QueueRow::new("node_lifecycle_rounds")
            },
        ],
        numbers: &[
            NODE_MONITOR_PERIOD,
            NODE_MONITOR_GRACE_PERIOD,
            NODE_STARTUP_GRACE_PERIOD,
            NODE_EVICTION_RATE,
            SECONDARY_NODE_EVICTION_RATE,
            UNHEALTHY_ZONE_THRESHOLD,
            LARGE_CLUSTER_SIZE_THRESHOLD,
        ],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let number = |flag: NumberFlag| flag.value(&setup.numbers);
        let options = Options {
            period_ns: number(NODE_MONITOR_PERIOD).max(1),
            grace_ns: number(NODE_MONITOR_GRACE_PERIOD),
            startup_grace_ns: number(NODE_STARTUP_GRACE_PERIOD),
            rate: number(NODE_EVICTION_RATE),
            secondary_rate: number(SECONDARY_NODE_EVICTION_RATE),
            unhealthy_share: number(UNHEALTHY_ZONE_THRESHOLD),
            large_zone: number(LARGE_CLUSTER_SIZE_THRESHOLD),
            goes_on: setup.goes_on,
        };
        Arc::new(Controller::new(options, informers))
    }
}
