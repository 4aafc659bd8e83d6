//! The row of the Job controller.

use std::sync::Arc;

use podstorm_objects::Kind;
use podstorm_runtime::informer::Informers;
use podstorm_runtime::row::{
    ControllerRow, Gate, NumberFlag, NumberForm, Pods, WorkersFlag, Write,
};
use podstorm_runtime::workqueue::{QueueRow, RetryDelay};

use super::{Controller, ControllerOptions, SECOND_NS};
use crate::controller::{ControllerType, Setup};

/// The Job controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jobs;

/// A sync waits until the caches show its last writes.
const STALE_CONSISTENCY: Gate = Gate::on("StaleControllerConsistencyJob");

/// Suspending a Job clears its start time.
const SUSPENDED_JOBS_CHANGE: Gate = Gate::on("MutableSchedulingDirectivesForSuspendedJobs");

/// How long changes of a Job's pods are collected before a sync. Upstream has no flag for this.
const BATCH_PERIOD: NumberFlag = NumberFlag {
    flag: "job-batch-period",
    default: SECOND_NS,
    form: NumberForm::Time,
    help: "How long changes of a Job's pods are batched before its sync; upstream has no flag for it",
};

const fn queue(name: &'static str) -> QueueRow {
    QueueRow {
        delay: RetryDelay::Exponential {
            base_ns: SECOND_NS,
            max_ns: 60 * SECOND_NS,
            bucket: false,
        },
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
            Write::new(Kind::POD, &["create", "delete", "patch"]),
            Write::new(Kind::JOB, &["get"]),
            Write::status(Kind::JOB),
        ],
        queues: &[queue("job"), queue("job_orphan_pod")],
        workers: Some(WorkersFlag {
            flag: "concurrent-job-syncs",
            default: 5,
        }),
        numbers: &[BATCH_PERIOD],
        gates: &[STALE_CONSISTENCY, SUSPENDED_JOBS_CHANGE],
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let options = ControllerOptions {
            waits_for_caches: STALE_CONSISTENCY.is_on(&setup.feature_gates),
            suspending_clears_start_time: SUSPENDED_JOBS_CHANGE.is_on(&setup.feature_gates),
            batch_ns: BATCH_PERIOD.value(&setup.numbers),
            count_gone_pods_once: setup.policy.count_gone_pods_once,
            retry_orphans: setup.policy.retry_orphans,
            tell_active_in_backoff: setup.policy.tell_active_in_backoff,
            keep_first_outcome: setup.policy.keep_first_outcome,
            uncounted_max: setup.burst_replicas,
            burst: setup.burst_replicas,
        };
        Arc::new(Controller::new(options, informers))
    }
}
