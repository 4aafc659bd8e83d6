//! The result of a run, as `--json` writes it: names and units are part of its schema.

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

/// The version of the schema; raised when a member changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 3;

/// Everything a run found out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunResult {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of this program.
    pub version: String,
    /// What it was built from.
    pub build: Build,
    /// The scenario.
    pub scenario: String,
    /// The question that the scenario asks.
    pub question: String,
    /// What this run answers; absent where it did not come to its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// `virtual` or `threads`.
    pub engine: String,
    /// `upstream` or `hardened`.
    pub behaviour: String,
    /// Every feature gate.
    pub feature_gates: BTreeMap<String, bool>,
    /// The seed.
    pub seed: u64,
    /// The full settings.
    pub settings: Settings,
    /// How it ended.
    pub outcome: Outcome,
    /// What the scenario's other settings would have taken.
    pub alternatives: Vec<Alternative>,
    /// Pods over the whole run.
    pub pods: PodCounts,
    /// Pods the controller created above the largest desired count since the version it had read.
    pub excess_pods_created: u64,
    /// Work that came to nothing.
    pub wasted_work: WastedWork,
    /// What the workloads that end, such as Jobs, have come to.
    pub finished: Finished,
    /// What was waited for.
    pub waits: Waits,
    /// API calls of the controller by `verb resource outcome`: api_calls{create pods 201}.
    pub api_calls: BTreeMap<String, u64>,
    /// Writes that the server committed, by `verb resource`: writes{update pods}.
    pub writes: BTreeMap<String, u64>,
    /// Syncs by outcome: syncs{ok}.
    pub syncs: BTreeMap<String, u64>,
    /// From the moment a ReplicaSet's spec changed, or it lost what it had, to the moment it had
    /// converged, seconds. This and the four below are of what began in a phase that is measured: not
    /// in one with `set_up`. `phases` has them for each phase.
    pub convergence_seconds: Quantiles,
    /// From a pod's creation to its being ready, seconds.
    pub pod_ready_seconds: Quantiles,
    /// From the moment a Deployment's spec changed to the moment its rollout was complete, as `kubectl
    /// rollout status` sees it, seconds.
    pub rollout_seconds: Quantiles,
    /// From the moment a workload that ends, such as a Job, was created to its end, seconds.
    pub finish_seconds: Quantiles,
    /// From adding a key to the work queue to taking it, seconds. The metric
    /// `workqueue_queue_duration_seconds` counts the same in buckets.
    pub queue_duration_seconds: Quantiles,
    /// From taking a key to the end of its sync, seconds. `workqueue_work_duration_seconds` counts the same.
    pub work_duration_seconds: Quantiles,
    /// The distributions of the four above.
    pub histograms: Histograms,
    /// The 20 slowest convergences, the slowest first; what had not converged at the end counts
    /// with what it had taken by then.
    #[serde(rename = "slowest_replicasets")]
    pub slowest_workloads: Vec<SlowWorkload>,
    /// Kubernetes Events by `type reason`: events{Warning FailedCreate}. They are counted as recorded, before
    /// correlation.
    pub events: BTreeMap<String, u64>,
    /// What became of the Events.
    pub event_writer: EventWriterCounts,
    /// Watch events delivered to the controller's caches.
    pub watch_events: u64,
    /// The server's last resource version.
    pub resource_version: u64,
    /// Engine time from start to end, seconds (simulated on the virtual engine).
    pub elapsed_seconds: f64,
    /// Each phase of the scenario.
    pub phases: Vec<Phase>,
    /// What came of each `--threshold`, in their order.
    pub thresholds: Vec<ThresholdOutcome>,
    /// How the run went, over time.
    pub series: Series,
    /// What `-f` brought: objects taken by kind, documents left by kind.
    pub input: InputCounts,
    /// Of the Deployments that `-f` brought, those whose rollouts were not complete when the run ended.
    pub incomplete_rollouts: IncompleteRollouts,
    /// The machine and what it spent; absent from a virtual run unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

/// The same scenario with other settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// What they are: `100 QPS`.
    pub with: String,
    /// Engine time of the phases that do not only set the cluster up, seconds; absent where the condition was not
    /// met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Of the pods that were asked for when one of these phases began, those that were missing or not ready at once, at
    /// most.
    pub pods_down_peak: u64,
}

impl Alternative {
    /// What a run with these settings came to.
    pub fn of(with: String, result: &RunResult) -> Alternative {
        let phases = result.phases.iter().filter(|phase| !phase.set_up);
        let down = phases.clone().map(|phase| phase.pods_down_peak).max();
        let seconds = phases.map(|phase| phase.seconds).sum();
        Alternative {
            with,
            pods_down_peak: down.unwrap_or(0),
            seconds: result.outcome.converged.then_some(seconds),
        }
    }

    /// `100 QPS: 17 min 53 s`, and `, at most 20 pods down` where some were.
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
    /// Whether every ReplicaSet had its pods and an exact status at the end; 1 where it is a number.
    pub converged: bool,
    /// The process exit code.
    pub exit_code: u8,
    /// Why, in words; empty when all is well.
    pub reason: String,
    /// Broken invariants.
    pub violations: Vec<String>,
}

impl Outcome {
    /// Adds a reason why a run that may be well otherwise is not: it exits with 1 where it would have
    /// exited with 0.
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
    /// Created in the run, by any client. Pods that `-f` brought were there before.
    pub created: u64,
    /// Bound to a node.
    pub bound: u64,
    /// Became ready.
    pub ready: u64,
    /// Finally removed.
    pub deleted: u64,
    /// Adopted by a ReplicaSet.
    pub adopted: u64,
    /// Released by a ReplicaSet.
    pub released: u64,
    /// Most pods that existed at once.
    pub peak: u64,
}

/// Work that came to nothing.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct WastedWork {
    /// Syncs that asked for no API call.
    pub syncs_without_requests: u64,
    /// Syncs refused by the read-your-writes gate.
    pub stale_sync_skips: u64,
    /// Deletes answered 404.
    pub deletes_not_found: u64,
    /// Status writes answered 409.
    pub status_conflicts: u64,
    /// Owned pods that went before they were ever ready.
    pub pods_never_ready: u64,
}

/// What the workloads that end, such as Jobs, have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finished {
    /// Those that are complete.
    pub complete: u64,
    /// Those that have failed.
    pub failed: u64,
    /// Those that are not over.
    pub open: u64,
    /// Pods that were created for them.
    pub pods_created: u64,
    /// Pods, or indexes, that count as succeeded.
    pub pods_succeeded: u64,
    /// Pods that count as failed.
    pub pods_failed: u64,
    /// Pods whose work did not count: of those created, all but as many as succeeded.
    pub pods_wasted: u64,
}

impl Finished {
    /// `10 complete, 1 failed; 1,023 pods created, 1,000 succeeded, 21 failed, 23 wasted`; `None` where there are no
    /// such workloads.
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

/// What was waited for, over the whole run. Seconds are sums over all that waited at the same time: divided by
/// `elapsed_seconds` they are how many waited on average.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Waits {
    /// Pods that found no place on a node when they were to be bound.
    pub place_pods: u64,
    /// Time that pods waited for a place on a node until they were bound or deleted, seconds.
    pub place_seconds: f64,
    /// Most pods that waited for a place on a node at once.
    pub place_pods_peak: u64,
    /// How many pods the open nodes took in all when most pods waited; 0 where none did.
    pub places: u64,
    /// API calls of syncs that could wait: there was a client limit or a latency.
    pub calls: u64,
    /// Time that these calls waited for the client limit, seconds.
    pub client_limit_seconds: f64,
    /// Time from sending these calls to their answers, seconds.
    pub api_seconds: f64,
    /// Keys that were taken from the work queues.
    pub worker_keys: u64,
    /// Time that keys were queued while all workers were busy, seconds.
    pub worker_seconds: f64,
    /// Time that workers were busy with syncs, seconds.
    pub sync_seconds: f64,
    /// Time of `sync_seconds` in which a call of the sync waited for the client limit, seconds.
    pub sync_limited_seconds: f64,
    /// Time of `sync_seconds` in which a call of the sync waited for the client limit or its answer, seconds.
    pub sync_waiting_seconds: f64,
}

/// What became of the Events.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EventWriterCounts {
    /// Events that were written to the server after correlation, new ones and repeated ones.
    pub written: u64,
    /// Events that were dropped because a queue was full.
    pub dropped: u64,
}

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Quantiles {
    /// How many values.
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
    /// Largest.
    pub max: f64,
}

/// One phase of a scenario.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Phase {
    /// Its name, e.g. `scale to 100 %`.
    pub name: String,
    /// Whether it only set the cluster up: nothing that began in it is in the distributions of the
    /// whole run.
    pub set_up: bool,
    /// Engine time at which it began, seconds.
    pub began_seconds: f64,
    /// Engine time from its first write to its condition met, seconds. Loading what `-f` brought
    /// comes before it.
    pub seconds: f64,
    /// Pods created during it.
    pub pods_created: u64,
    /// Pods removed during it.
    pub pods_deleted: u64,
    /// Of `excess_pods_created`, those created during it.
    pub excess_pods_created: u64,
    /// Whether its condition was met.
    pub converged: bool,
    /// Of the syncs that began in it, those that asked for no API call; `work_duration_seconds` has
    /// their number.
    pub syncs_without_requests: u64,
    /// Convergences that began in it, seconds.
    pub convergence_seconds: Quantiles,
    /// Of the pods created in it, seconds.
    pub pod_ready_seconds: Quantiles,
    /// Rollouts that began in it, seconds.
    pub rollout_seconds: Quantiles,
    /// Rollouts that were past their progress deadline when it was over.
    pub rollouts_failed: u64,
    /// Of the pods that all owners together asked for when it began, those that were missing or not ready at once, at
    /// most.
    pub pods_down_peak: u64,
    /// The same of one owner.
    pub pods_down_of_one_peak: u64,
    /// Nodes that a drain has left as they were, with pods that budgets or finalizers hold.
    pub nodes_held: u64,
    /// What happened to the workloads of each kind, by its name. The pods of a Deployment's ReplicaSets are the
    /// Deployment's.
    pub workloads: BTreeMap<String, KindInPhase>,
    /// Of the keys added in it, seconds.
    pub queue_duration_seconds: Quantiles,
    /// Of the syncs that began in it, seconds.
    pub work_duration_seconds: Quantiles,
}

/// The workloads of a kind in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KindInPhase {
    /// Pods of theirs that a drain has evicted.
    pub pods_evicted: u64,
    /// Of the pods that one of them asked for when the phase began, those that were missing or not ready at once, at
    /// most.
    pub pods_down_of_one_peak: u64,
}

/// Rollouts of files that were not complete when the run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IncompleteRollouts {
    /// How many.
    pub count: u64,
    /// The first of them, at most 20.
    pub shown: Vec<IncompleteRollout>,
}

/// A rollout that was not complete, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IncompleteRollout {
    /// The Deployment's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The reason: `2 pods can't become ready: CrashLoopBackOff`.
    pub reason: String,
}

impl IncompleteRollouts {
    /// The lines of a report: `303 not complete, as they came`, then a line for each of the first `most`.
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

/// The machine and what it spent.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Host {
    /// Real time, seconds, with the reading of files.
    pub wall_seconds: f64,
    /// Real time of `wall_seconds` in which files were read, seconds.
    pub load_seconds: f64,
    /// CPU time of the process during the run, seconds.
    pub cpu_seconds: f64,
    /// CPU time of all other processes of the machine during the run, seconds, where it can be read and the process may
    /// use every processor: what else the machine was busy with.
    pub other_cpu_seconds: Option<f64>,
    /// Most memory resident in the process up to the end of the run, bytes.
    pub peak_memory_bytes: u64,
    /// Pod writes (creations and final deletions) per second of wall time without the reading of files.
    pub pods_per_second: f64,
    /// Processors available.
    pub cpus: usize,
    /// Processor model, where it can be read.
    pub cpu_model: String,
    /// Operating system and architecture.
    pub platform: String,
    /// The binary's allocator.
    pub allocator: String,
    /// Memory of the machine, bytes; 0 where it can't be read.
    pub memory_bytes: u64,
    /// Load averages of the machine over 1, 5 and 15 minutes before the run, where they can be
    /// read: what else it was busy with.
    pub load_average_before: Option<[f64; 3]>,
    /// The same after the run.
    pub load_average_after: Option<[f64; 3]>,
}
