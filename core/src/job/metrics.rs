//! The Job controller's metrics, under upstream's names.
//!
//! Source: `metrics` in Kubernetes' `pkg/controller/job`.

use std::borrow::Cow;

use podstorm_objects::{Kind, Pod};
use podstorm_runtime::metrics::{self, Counter, Family, Histogram, Labelled, Value};

use super::pod::TRACKING_FINALIZER;

/// Upper bounds of the sync duration in s: 0.004 * 2^i for i = 0..15.
const SYNC_BOUNDS: [f64; 15] = [
    0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
    32.768, 65.536,
];

/// The metrics of one Job controller.
#[derive(Debug)]
pub(super) struct Metrics {
    /// The durations of syncs that read pods, by mode, result and action.
    syncs: Labelled<Histogram, 3>,
    /// The number of ended Jobs, by mode, result and reason.
    pub(super) finished: Labelled<Counter, 3>,
    /// The number of counted pods, by mode and result.
    pub(super) pods_finished: Labelled<Counter, 2>,
    /// The number of counted indexes, by result and scope of the back-off limit.
    pub(super) indexes_finished: Labelled<Counter, 2>,
    /// The number of attempts to create a pod, by reason and result.
    pub(super) pods_created: Labelled<Counter, 2>,
    /// The number of failed pods that matched a rule of the failure policy, by the rule's action.
    pub(super) policy_met: Labelled<Counter, 1>,
    /// The number of new Jobs that another controller manages, by the name of that controller.
    foreign: Labelled<Counter, 1>,
    /// The number of times that a pod became, or ceased to be, an ended pod with the tracking
    /// finalizer.
    waiting: Labelled<Counter, 1>,
    /// The number of syncs that waited for the caches, by the kind that lagged.
    stale: Labelled<Counter, 2>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            syncs: Labelled::new(
                "job_controller_job_sync_duration_seconds",
                "Duration of a sync of a Job in seconds.",
                ["completion_mode", "result", "action"],
                || Histogram::new(&SYNC_BOUNDS),
            ),
            finished: counter(
                "job_controller_jobs_finished_total",
                "Jobs that have finished.",
                ["completion_mode", "result", "reason"],
            ),
            pods_finished: counter(
                "job_controller_job_pods_finished_total",
                "Pods that the status of their Job counts.",
                ["completion_mode", "result"],
            ),
            indexes_finished: counter(
                "job_controller_job_finished_indexes_total",
                "Indexes that the status of their Job counts.",
                ["status", "backoffLimit"],
            ),
            pods_created: counter(
                "job_controller_job_pods_creation_total",
                "Pods that the controller tried to create. As upstream, a failed attempt also counts as succeeded.",
                ["reason", "status"],
            ),
            policy_met: counter(
                "job_controller_pod_failures_handled_by_failure_policy_total",
                "Failed pods that matched a rule of the failure policy of their Job.",
                ["action"],
            ),
            foreign: counter(
                "job_controller_jobs_by_external_controller_total",
                "Jobs that another controller manages.",
                ["controller_name"],
            ),
            waiting: counter(
                "job_controller_terminated_pods_tracking_finalizer_total",
                "Ended pods that gained or lost the tracking finalizer.",
                ["event"],
            ),
            stale: counter(
                "job_controller_stale_sync_skips_total",
                "Syncs postponed because the cache lagged the controller's own writes.",
                ["group", "resource"],
            ),
        }
    }
}

fn counter<const N: usize>(
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
) -> Labelled<Counter, N> {
    Labelled::new(name, help, labels, Counter::default)
}

impl Metrics {
    /// Counts a sync that read the pods of its Job.
    pub(super) fn synced(
        &self,
        mode: &'static str,
        has_succeeded: bool,
        action: &'static str,
        taken_ns: i64,
    ) {
        let result = if has_succeeded { "success" } else { "error" };
        let labels = [mode, result, action].map(Cow::Borrowed);
        self.syncs.series(labels).observe(taken_ns as f64 / 1e9);
    }

    /// Counts a new Job that another controller manages. Users choose the names of controllers, so
    /// all names after the first 100 count as `other`. No controller can have the name `other`: the
    /// server requires a domain prefix.
    #[cold]
    pub(super) fn came(&self, manager: &str) {
        self.foreign.series([manager.to_owned().into()]).increment();
    }

    /// Counts a change by which a pod becomes, or ceases to be, an ended pod with the finalizer.
    #[inline]
    pub(super) fn pod_changed(&self, old: Option<&Pod>, new: Option<&Pod>) {
        let is_waiting = |pod: Option<&Pod>| {
            pod.is_some_and(|pod| {
                pod.status.phase.is_terminal() && pod.metadata.has_finalizer(TRACKING_FINALIZER)
            })
        };
        match (is_waiting(old), is_waiting(new)) {
            (false, true) => self.tracked(1),
            (true, false) => self.waiting.add(["delete"], 1),
            _ => {}
        }
    }

    /// Counts `count` ended pods that a list found with the finalizer.
    pub(super) fn tracked(&self, count: u64) {
        self.waiting.add(["add"], count);
    }

    /// Counts a sync that waits until the cache of a kind shows the controller's writes.
    pub(super) fn skipped(&self, kind: Kind) {
        self.stale.add([kind.group(), kind.resource()], 1);
    }

    /// Returns all metrics with their current values.
    pub(super) fn families(&self) -> Vec<Family> {
        let seconds = self.syncs.family();
        let mut syncs = seconds.clone();
        syncs.name = "job_controller_job_syncs_total";
        syncs.help = "Syncs of Jobs.";
        syncs.kind = metrics::Kind::Counter;
        for series in &mut syncs.series {
            if let Value::Histogram(all) = &series.value {
                series.value = Value::Number(all.count() as f64);
            }
        }
        vec![
            syncs,
            seconds,
            self.finished.family(),
            self.pods_finished.family(),
            self.indexes_finished.family(),
            self.pods_created.family(),
            self.policy_met.family(),
            self.foreign.family(),
            self.waiting.family(),
            self.stale.family(),
        ]
    }
}
