//! Describes the findings about a Job in words.

use std::sync::Arc;

use podstorm::job::decisions::{Decisions, PlannedChange, RemovalRule, Retry, Skipped};
use podstorm::job::pod::{Rank, TRACKING_FINALIZER};
use podstorm_objects::{DynamicObject, Now, Pod};
use podstorm_sim::nodes::{problem, why_unready};

use super::Finding;
use crate::units::{NS_PER_SECOND, counted, duration_text};
use crate::workloads::replicaset::explain::find::some_of;

fn finding(rule: &str, why: impl Into<String>) -> Finding {
    Finding {
        rule: rule.to_owned(),
        why: why.into(),
        ..Finding::default()
    }
}

fn pods(count: i64) -> String {
    counted(u64::try_from(count).unwrap_or(0), "pod")
}

fn after(now: Now, left_ns: i64) -> String {
    now.plus_ns(left_ns).wall().to_string()
}

/// Formats a wait in whole seconds, rounded up so that the wait is over then.
fn wait(left_ns: i64) -> String {
    let seconds = left_ns.saturating_add(NS_PER_SECOND - 1) / NS_PER_SECOND;
    duration_text(seconds * NS_PER_SECOND)
}

/// Formats the first indexes of a list: `3, 5, 8`.
fn listed(indexes: &[i64]) -> String {
    some_of(&indexes.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// Returns the state of a Job as a single word.
pub(super) fn state(decisions: &Decisions, job: &DynamicObject) -> &'static str {
    let is_suspended = job
        .fields
        .get("spec")
        .is_some_and(|spec| spec["suspend"] == true);
    match (&decisions.end, decisions.skipped) {
        (_, Some(Skipped::Foreign | Skipped::UnknownMode)) => "ignored",
        (Some(end), Some(Skipped::Finished)) if end.is_success => "complete",
        (Some(_), Some(Skipped::Finished)) => "failed",
        _ if is_suspended => "suspended",
        _ => "running",
    }
}

/// Describes the actions of the next sync.
pub(super) fn next(decisions: &Decisions, now: Now) -> Vec<Finding> {
    match (decisions.skipped, &decisions.end) {
        (Some(Skipped::Finished), _) => {
            return vec![finding("finished", "a finished Job needs no action")];
        }
        (Some(Skipped::Foreign), _) => {
            let why = "spec.managedBy names another controller: this one ignores the Job";
            return vec![finding("managed-by", why)];
        }
        (Some(Skipped::UnknownMode), _) => {
            return vec![finding(
                "completion-mode",
                "spec.completionMode is unknown: syncs do nothing",
            )];
        }
        (None, Some(end)) => {
            let kind = if end.is_success { "Complete" } else { "Failed" };
            let active = pods(decisions.active);
            let why = match (decisions.active, decisions.terminating) {
                (0, 0) => format!("the Job becomes {kind}: {}", end.message),
                (0, _) => format!(
                    "the Job becomes {kind} after the removal of {}: {}",
                    pods(decisions.terminating),
                    end.message
                ),
                _ => format!(
                    "deletes {active}; the Job becomes {kind} once all have ended: {}",
                    end.message
                ),
            };
            return vec![Finding {
                pod: end.pod.clone(),
                ..finding(&end.reason, why)
            }];
        }
        (None, None) => {}
    }
    let next = match &decisions.step {
        PlannedChange::Delete(removed) if removed.is_empty() => {
            finding("suspended", "no pod is active, and none is created")
        }
        PlannedChange::Delete(removed) => {
            let why = format!("deletes {}", counted(removed.len() as u64, "pod"));
            finding(removed[0].1.as_str(), why)
        }
        PlannedChange::Create { count: 0, .. } => {
            finding("back-off", "creates no pod: every index that is left waits")
        }
        PlannedChange::Create { count, indexes } => {
            let of = match indexes.is_empty() {
                true => String::new(),
                false => format!(" of the indexes {}", listed(indexes)),
            };
            let room = format!(
                "{} active, parallelism {}",
                decisions.active, decisions.parallelism
            );
            finding(
                "create",
                format!("creates {}{of}: {room}", counted(*count as u64, "pod")),
            )
        }
        PlannedChange::Wait { left_ns, indexes } => {
            let because = match &indexes[..] {
                [] => String::new(),
                [index] => format!(
                    ": index {index}, the first without a pod, waits, and no other is looked at"
                ),
                all => format!(
                    ": the indexes {}, the first without pods, wait, and no other is looked at",
                    listed(all)
                ),
            };
            let index = if let [index] = indexes[..] {
                Some(index)
            } else {
                None
            };
            Finding {
                index,
                time: Some(after(now, *left_ns)),
                ..finding(
                    "back-off",
                    format!("creates no pod for {}{because}", wait(*left_ns)),
                )
            }
        }
        PlannedChange::Nothing => finding("none", "creates and deletes no pod"),
    };
    vec![next]
}

/// Describes why a Job failed or does not finish.
pub(super) fn why(decisions: &Decisions, all: &[Arc<Pod>], now: Now) -> Vec<Finding> {
    if let Some(end) = &decisions.end {
        let detail = match &*end.reason {
            "BackoffLimitExceeded" => format!(
                "{}: {} failed, backoffLimit {}",
                end.message,
                pods(decisions.failed),
                decisions.backoff_limit
            ),
            "MaxFailedIndexesExceeded" | "FailedIndexes" => format!(
                "{}: {}",
                end.message,
                decisions.failed_indexes.as_deref().unwrap_or_default()
            ),
            "DeadlineExceeded" => match decisions.start {
                Some(start) => format!("{}, having started at {start}", end.message),
                None => end.message.clone(),
            },
            _ => end.message.clone(),
        };
        return vec![Finding {
            pod: end.pod.clone(),
            ..finding(&end.reason, detail)
        }];
    }
    let mut found = Vec::new();
    if decisions.parallelism == 0 {
        found.push(finding(
            "parallelism",
            "spec.parallelism is 0: no pod is created",
        ));
    }
    for retry in decisions
        .retries
        .iter()
        .filter(|retry| retry.left_ns > 0)
        .take(1)
    {
        found.push(retried(retry, now));
    }
    let active = all.iter().filter(|pod| pod.is_active());
    let own = active.filter(|pod| pod.metadata.has_finalizer(TRACKING_FINALIZER));
    for pod in own.filter(|pod| !pod.is_ready()) {
        let stuck = problem(pod);
        let rule = match (&stuck, &pod.node_name) {
            (Some(_), _) => "stuck-pod",
            (None, None) => "unscheduled-pod",
            (None, Some(_)) => "starting-pod",
        };
        let why = stuck.unwrap_or_else(|| why_unready(pod));
        found.push(Finding {
            pod: Some(pod.metadata.name.to_string()),
            ..finding(rule, why.as_str())
        });
    }
    if decisions.terminating > 0 {
        let why = format!(
            "{} terminating: a Job ends when they no longer exist",
            pods(decisions.terminating)
        );
        found.push(finding("terminating-pods", why));
    }
    if let Some(left_ns) = decisions.deadline_left_ns {
        found.push(Finding {
            time: Some(after(now, left_ns)),
            ..finding("deadline", "activeDeadlineSeconds ends the Job then")
        });
    }
    if decisions.ready > 0 {
        found.push(finding(
            "running-pods",
            format!(
                "{} run: the Job ends when enough have succeeded",
                pods(decisions.ready)
            ),
        ));
    }
    found
}

/// Describes which pods are recreated after failures, and when.
pub(super) fn retries(decisions: &Decisions, now: Now) -> Vec<Finding> {
    let all = decisions.retries.iter();
    all.map(|retry| retried(retry, now)).collect()
}

fn retried(retry: &Retry, now: Now) -> Finding {
    let rule = match retry.index {
        Some(_) => "back-off-of-index",
        None => "back-off",
    };
    let number = format!("failure {}", retry.failures);
    let why = match (retry.left_ns, retry.index) {
        (0, _) => format!("the wait after {number} is over"),
        (left_ns, Some(_)) => format!("waits {} more after {number} of the index", wait(left_ns)),
        (left_ns, None) => format!(
            "no pod is created for {} after {number} in a row",
            wait(left_ns)
        ),
    };
    Finding {
        pod: retry.pod.clone(),
        index: retry.index,
        time: Some(after(now, retry.left_ns)),
        ..finding(rule, why)
    }
}

/// Describes the failed pods and the rules that match them.
pub(super) fn failures(decisions: &Decisions) -> Vec<Finding> {
    let all = decisions.failures.iter().map(|failed| {
        let exit = match failed.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "no exit code".to_owned(),
        };
        let counted = match failed.is_counted {
            true => "counted",
            false => "not counted yet",
        };
        let (rule, why) = match &failed.rule {
            Some(met) => (met.action.as_str(), format!("{}; {counted}", met.message)),
            None => (
                "Count",
                format!("{exit}; matches no rule of a policy; {counted}"),
            ),
        };
        Finding {
            pod: Some(failed.pod.metadata.name.to_string()),
            index: (failed.index >= 0).then_some(failed.index),
            time: Some(failed.finished.to_string()),
            ..finding(rule, why)
        }
    });
    all.collect()
}

/// Describes why a pod is deleted before the next one.
pub(super) fn removal(rule: RemovalRule, pod: &Pod, next: Option<&Arc<Pod>>) -> String {
    match rule {
        RemovalRule::Suspended => "the Job is suspended".to_owned(),
        RemovalRule::UnknownIndex => "its index can't be parsed".to_owned(),
        RemovalRule::SurplusIndex => "its index is not below the completions".to_owned(),
        RemovalRule::RepeatedIndex => "another pod of its index is ranked higher".to_owned(),
        RemovalRule::Surplus => match next {
            None => "the last".to_owned(),
            Some(next) => match Rank::from_pod(pod).rule(Rank::from_pod(next)) {
                Some(rule) => rule.to_owned(),
                None => "tied with the next".to_owned(),
            },
        },
    }
}

/// Returns other remarks about a Job.
pub(super) fn notes(decisions: &Decisions, all: &[Arc<Pod>]) -> Vec<String> {
    let mut notes = Vec::new();
    if !decisions.retries.is_empty() {
        notes.push(
            "The waits are those of a controller that saw all these pods end: its memory of failures is lost when it \
             restarts."
                .to_owned(),
        );
    }
    if all.is_empty() && decisions.active + decisions.failed + decisions.succeeded > 0 {
        notes.push(
            "The input has no pods: dump them too, kubectl get jobs,pods -A -o json.".to_owned(),
        );
    }
    notes
}
