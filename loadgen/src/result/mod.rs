//! The result of a run, as `--json` writes it. Names and units are part of the schema.

mod build;
mod series;
pub mod thresholds;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::input::InputCounts;
use crate::metrics::ThresholdOutcome;
use crate::settings::Settings;
use crate::units::{count_for_people, counted, seconds_for_people};

pub use build::Build;
pub use series::{Bucket, Histograms, Series, SlowWorkload};

/// The version of the schema; incremented when a member changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 3;

/// The result of a run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of this program.
    pub version: String,
    /// The build of this program.
    pub build: Build,
    /// The scenario.
    pub scenario: String,
    /// The question that the scenario asks.
    pub question: String,
    /// The answer of this run; absent if the run missed its end condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// `virtual` or `threads`.
    pub engine: String,
    /// `upstream` or `hardened`.
    pub behaviour: String,
    /// Every feature gate, and whether it is on.
    pub feature_gates: BTreeMap<String, bool>,
    /// The seed of all random choices.
    pub seed: u64,
    /// All settings of the run.
    pub settings: Settings,
    /// How the run ended.
    pub outcome: Outcome,
    /// Results of the same scenario with alternative settings.
    pub alternatives: Vec<Alternative>,
    /// Pods over the whole run.
    pub pods: PodCounts,
    /// Pods that a controller created above the largest desired count since the version it had
    /// read.
    pub excess_pods_created: u64,
    /// Work that had no effect.
    pub wasted_work: WastedWork,
    /// Totals of the workloads that finish, such as Jobs.
    pub finished: Finished,
    /// The waits of pods, API calls, keys and workers.
    pub waits: Waits,
    /// API calls of the controllers by `verb resource outcome`: api_calls{create pods 201}.
    pub api_calls: BTreeMap<String, u64>,
    /// Writes that the server committed, by `verb resource`: writes{update pods}.
    pub writes: BTreeMap<String, u64>,
    /// Syncs by outcome: syncs{ok}.
    pub syncs: BTreeMap<String, u64>,
    /// Time from a change of a ReplicaSet's spec, or a loss of its pods, until it converged,
    /// seconds. This and the next five distributions include only what began in a measured phase,
    /// not in one with `set_up`. `phases` has them for each phase.
    pub convergence_seconds: Quantiles,
    /// Time from the creation of a pod until it was ready, seconds.
    pub pod_ready_seconds: Quantiles,
    /// Time from a change of a Deployment's spec until its rollout was complete, as
    /// `kubectl rollout status` sees it, seconds.
    pub rollout_seconds: Quantiles,
    /// Time from the creation of a workload that finishes, such as a Job, until it finished,
    /// seconds.
    pub finish_seconds: Quantiles,
    /// Time from adding a key to the work queue to taking it, seconds. The metric
    /// `workqueue_queue_duration_seconds` has the same values in buckets.
    pub queue_duration_seconds: Quantiles,
    /// Time from taking a key to the end of its sync, seconds. `workqueue_work_duration_seconds`
    /// has the same values.
    pub work_duration_seconds: Quantiles,
    /// Histograms of four of these distributions.
    pub histograms: Histograms,
    /// The 20 slowest convergences, the slowest first; those that had not converged at the end
    /// count with the time until then.
    #[serde(rename = "slowest_replicasets")]
    pub slowest_workloads: Vec<SlowWorkload>,
    /// Kubernetes Events by `type reason`: events{Warning FailedCreate}. They are counted when they
    /// are recorded, before correlation.
    pub events: BTreeMap<String, u64>,
    /// How many Events were written and dropped.
    pub event_writer: EventWriterCounts,
    /// Watch events that were delivered to the controllers' caches.
    pub watch_events: u64,
    /// The server's last resource version.
    pub resource_version: u64,
    /// Engine time from start to end, seconds (simulated on the virtual engine).
    pub elapsed_seconds: f64,
    /// The results of each phase of the scenario.
    pub phases: Vec<Phase>,
    /// The outcome of each `--threshold`, in the order of the command line.
    pub thresholds: Vec<ThresholdOutcome>,
    /// The run over time.
    pub series: Series,
    /// The objects from `-f`, by kind: those that were taken and those that were left out.
    pub input: InputCounts,
    /// Rollouts of Deployments from `-f` that were not complete when the run ended.
    pub incomplete_rollouts: IncompleteRollouts,
    /// The machine, and the resources that the run used; absent from virtual runs by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

/// The result of the same scenario with other settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// A description of these settings: `100 QPS`.
    pub with: String,
    /// Engine time of the measured phases, without those that only set up the cluster, seconds;
    /// absent if the run missed its end condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The maximum number of pods that were missing or not ready at the same time, among those that
    /// were desired when one of these phases began.
    pub pods_down_peak: u64,
}

impl Alternative {
    /// Returns the result of a run with these settings.
    pub fn new(with: String, result: &RunResult) -> Alternative {
        let phases = result.phases.iter().filter(|phase| !phase.set_up);
        let down = phases.clone().map(|phase| phase.pods_down_peak).max();
        let seconds = phases.map(|phase| phase.seconds).sum();
        Alternative {
            with,
            pods_down_peak: down.unwrap_or(0),
            seconds: result.outcome.converged.then_some(seconds),
        }
    }

    /// Formats `100 QPS: 17 min 53 s`, with `, at most 20 pods down` if any were.
    pub fn in_words(&self) -> String {
        let took = self.seconds.map(seconds_for_people);
        let took = took.as_deref().unwrap_or("not done in time");
        let down = match self.pods_down_peak {
            0 => String::new(),
            down => format!(", at most {} down", counted(down, "pod")),
        };
        format!("{}: {took}{down}", self.with)
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Outcome {
    /// Whether every ReplicaSet had its pods and an exact status at the end; 1 or 0 where a number
    /// is needed.
    pub converged: bool,
    /// The process exit code.
    pub exit_code: u8,
    /// The reason for a failure, in words; empty on success.
    pub reason: String,
    /// Descriptions of the broken invariants.
    pub violations: Vec<String>,
}

impl Outcome {
    /// Adds a reason why the run failed. The exit code becomes 1 if it was 0.
    pub fn fail(&mut self, reason: &str) {
        if self.exit_code == 0 {
            self.exit_code = 1;
        }
        if !self.reason.is_empty() {
            self.reason.push_str("; ");
        }
        self.reason.push_str(reason);
    }
}

/// Counts of pods.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PodCounts {
    /// Pods created during the run, by any client. Pods from `-f` existed before.
    pub created: u64,
    /// Pods bound to a node.
    pub bound: u64,
    /// Pods that became ready.
    pub ready: u64,
    /// Pods finally removed.
    pub deleted: u64,
    /// Pods adopted by a ReplicaSet.
    pub adopted: u64,
    /// Pods released by a ReplicaSet.
    pub released: u64,
    /// The maximum number of pods that existed at the same time.
    pub peak: u64,
}

/// Work that had no effect.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WastedWork {
    /// Syncs that made no API call.
    pub syncs_without_requests: u64,
    /// Syncs refused by the read-your-writes gate.
    pub stale_sync_skips: u64,
    /// Deletes that were answered with 404.
    pub deletes_not_found: u64,
    /// Status writes that were answered with 409.
    pub status_conflicts: u64,
    /// Owned pods that were removed before they were ever ready.
    pub pods_never_ready: u64,
}

/// Totals of the workloads that finish, such as Jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finished {
    /// Workloads that have completed.
    pub complete: u64,
    /// Workloads that have failed.
    pub failed: u64,
    /// Workloads that have not finished.
    pub open: u64,
    /// Pods created for these workloads.
    pub pods_created: u64,
    /// Pods, or indexes, that count as succeeded.
    pub pods_succeeded: u64,
    /// Pods that count as failed.
    pub pods_failed: u64,
    /// Pods whose work did not count: created pods minus succeeded ones.
    pub pods_wasted: u64,
}

impl Finished {
    /// Formats `10 complete, 1 failed; 1,023 pods created, 1,000 succeeded, 21 failed, 23 wasted`;
    /// `None` if there are no workloads that finish.
    pub(crate) fn in_words(&self) -> Option<String> {
        let (open, pods) = (
            count_for_people(self.open),
            counted(self.pods_created, "pod"),
        );
        let open = match self.open {
            0 => String::new(),
            _ => format!(", {open} not over"),
        };
        (self.complete + self.failed + self.open > 0).then(|| {
            format!(
                "{} complete, {} failed{open}; {pods} created, {} succeeded, {} failed, {} wasted",
                count_for_people(self.complete),
                count_for_people(self.failed),
                count_for_people(self.pods_succeeded),
                count_for_people(self.pods_failed),
                count_for_people(self.pods_wasted),
            )
        })
    }
}

/// The waits during the whole run. Times are sums over everything that waited: divided by
/// `elapsed_seconds`, they give the average number that waited.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Waits {
    /// Pods for which no node had a place when they were to be bound.
    pub place_pods: u64,
    /// Time that pods waited for a place on a node until they were bound or deleted, seconds.
    pub place_seconds: f64,
    /// The maximum number of pods that waited for a place on a node at the same time.
    pub place_pods_peak: u64,
    /// The total capacity, in pods, of the schedulable nodes when the maximum number of pods
    /// waited; 0 if none waited.
    pub places: u64,
    /// API calls of syncs that could have to wait, because there was a client limit or a latency.
    pub calls: u64,
    /// Time that these calls waited for the client limit, seconds.
    pub client_limit_seconds: f64,
    /// Time from sending these calls to their answers, seconds.
    pub api_seconds: f64,
    /// Keys taken from the work queues.
    pub worker_keys: u64,
    /// Time that keys were queued while all workers were busy, seconds.
    pub worker_seconds: f64,
    /// Time that workers were busy with syncs, seconds.
    pub sync_seconds: f64,
    /// Part of `sync_seconds` in which a call of the sync waited for the client limit, seconds.
    pub sync_limited_seconds: f64,
    /// Part of `sync_seconds` in which a call of the sync waited for the client limit or its
    /// answer, seconds.
    pub sync_waiting_seconds: f64,
}

/// How many Events were written and dropped.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EventWriterCounts {
    /// Events written to the server after correlation, both new and repeated ones.
    pub written: u64,
    /// Events that were dropped because a queue was full.
    pub dropped: u64,
}

/// The statistics of a distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest value.
    pub max: f64,
}

/// A phase of a scenario.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Phase {
    /// The name of the phase, such as `scale to 100 %`.
    pub name: String,
    /// Whether the phase only set up the cluster: nothing that began in it is in the distributions
    /// of the whole run.
    pub set_up: bool,
    /// Engine time at which the phase began, seconds.
    pub began_seconds: f64,
    /// Engine time from the first write of the phase until its condition was met, seconds. Loading
    /// the objects of `-f` comes before that.
    pub seconds: f64,
    /// Pods created during the phase.
    pub pods_created: u64,
    /// Pods removed during the phase.
    pub pods_deleted: u64,
    /// Excess pods created during the phase.
    pub excess_pods_created: u64,
    /// Whether the condition of the phase was met.
    pub converged: bool,
    /// Syncs that began in the phase and made no API call; `work_duration_seconds` has the number
    /// of all its syncs.
    pub syncs_without_requests: u64,
    /// Time of the convergences that began in the phase, seconds.
    pub convergence_seconds: Quantiles,
    /// Time until ready of the pods that were created in the phase, seconds.
    pub pod_ready_seconds: Quantiles,
    /// Time of the rollouts that began in the phase, seconds.
    pub rollout_seconds: Quantiles,
    /// Rollouts that were past their progress deadline at the end of the phase.
    pub rollouts_failed: u64,
    /// The maximum number of pods that were missing or not ready at the same time, among those that
    /// all owners desired when the phase began.
    pub pods_down_peak: u64,
    /// The maximum number of pods of one owner that were missing or not ready at the same time,
    /// counted in the same way.
    pub pods_down_of_one_peak: u64,
    /// Nodes that a drain skipped, because budgets or finalizers hold their pods.
    pub nodes_held: u64,
    /// The workloads of each kind, by the name of the kind. The pods of a Deployment's ReplicaSets
    /// count for the Deployment.
    pub workloads: BTreeMap<String, KindInPhase>,
    /// Time in the queue of the keys that were added in the phase, seconds.
    pub queue_duration_seconds: Quantiles,
    /// Time of the syncs that began in the phase, seconds.
    pub work_duration_seconds: Quantiles,
}

/// The workloads of a kind in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KindInPhase {
    /// The pods of these workloads that a drain evicted.
    pub pods_evicted: u64,
    /// The maximum number of pods of one workload that were missing or not ready at the same time,
    /// among those that the workload desired when the phase began.
    pub pods_down_of_one_peak: u64,
}

/// Rollouts from files that were not complete when the run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IncompleteRollouts {
    /// The number of incomplete rollouts.
    pub count: u64,
    /// The first incomplete rollouts, at most 20.
    pub shown: Vec<IncompleteRollout>,
}

/// An incomplete rollout and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IncompleteRollout {
    /// The Deployment's namespace.
    pub namespace: String,
    /// The Deployment's name.
    pub name: String,
    /// The reason: `2 pods can't become ready: CrashLoopBackOff`.
    pub reason: String,
}

impl IncompleteRollouts {
    /// Formats lines for a report: `303 not complete, as they came`, then one line for each of the
    /// first `most` rollouts.
    pub fn lines(&self, most: usize) -> Vec<String> {
        if self.count == 0 {
            return Vec::new();
        }
        let mut lines = vec![format!(
            "{} not complete, as the files had it:",
            count_for_people(self.count)
        )];
        let shown = self.shown.iter().take(most).map(|rollout| {
            let IncompleteRollout {
                namespace,
                name,
                reason,
            } = rollout;
            format!("{namespace}/{name}: {reason}")
        });
        lines.extend(shown);
        let more = self.count - (lines.len() as u64 - 1);
        if more > 0 {
            lines.push(format!("and {} more", count_for_people(more)));
        }
        lines
    }
}

/// The machine and the resources that the run used.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Host {
    /// Real time, including the time for reading files, seconds.
    pub wall_seconds: f64,
    /// Part of `wall_seconds` in which files were read, seconds.
    pub load_seconds: f64,
    /// CPU time of the process during the run, seconds.
    pub cpu_seconds: f64,
    /// CPU time of all other processes on the machine during the run, seconds; absent if it can't
    /// be read or the process may not use every processor.
    pub other_cpu_seconds: Option<f64>,
    /// Peak resident memory of the process up to the end of the run, bytes.
    pub peak_memory_bytes: u64,
    /// Pod writes (creations and final deletions) per second of real time, without the time for
    /// reading files.
    pub pods_per_second: f64,
    /// Number of available processors.
    pub cpus: usize,
    /// Processor model; empty if it can't be read.
    pub cpu_model: String,
    /// Operating system and architecture.
    pub platform: String,
    /// The allocator of the binary.
    pub allocator: String,
    /// Memory of the machine, bytes; 0 if it can't be read.
    pub memory_bytes: u64,
    /// Load averages of the machine over 1, 5 and 15 minutes before the run, which show its other
    /// load; absent if they can't be read.
    pub load_average_before: Option<[f64; 3]>,
    /// Load averages after the run; absent if they can't be read.
    pub load_average_after: Option<[f64; 3]>,
}
