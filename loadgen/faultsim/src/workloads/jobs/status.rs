//! The checker's view of a Job, computed from the specification, independently of the controller's
//! code.

use std::collections::BTreeSet;

use podstorm::job::pod::TRACKING_FINALIZER;
use podstorm_objects::{DynamicObject, Kind, Object, Pod, PodPhase, Time, Uid};
use serde_json::Value;

/// The conditions that lead to the end of a Job. The last two mark that it has finished.
pub(super) const ENDS: [&str; 4] = ["FailureTarget", "SuccessCriteriaMet", "Failed", "Complete"];

/// The checker's view of a Job.
#[derive(Clone, Debug)]
pub(super) struct Read<'a> {
    pub(super) job: &'a DynamicObject,
    pub(super) spec: &'a Value,
    pub(super) status: &'a Value,
}

impl<'a> Read<'a> {
    pub(super) fn from_object(job: &'a DynamicObject) -> Read<'a> {
        let part = |name| job.fields.get(name).unwrap_or(&Value::Null);
        Read {
            job,
            spec: part("spec"),
            status: part("status"),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.job.metadata.name
    }

    pub(super) fn count(&self, member: &str) -> i64 {
        self.status[member].as_i64().unwrap_or(0)
    }

    /// Returns a number in the spec; `None` if it is not set.
    pub(super) fn number(&self, member: &str) -> Option<i64> {
        self.spec[member].as_i64()
    }

    pub(super) fn parallelism(&self) -> i64 {
        self.number("parallelism").unwrap_or(1)
    }

    pub(super) fn is_indexed(&self) -> bool {
        self.spec["completionMode"] == "Indexed"
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec["suspend"] == true
    }

    /// Reports whether the Job's pods restart failed containers.
    pub(super) fn restarts(&self) -> bool {
        self.spec["template"]["spec"]["restartPolicy"] == "OnFailure"
    }

    /// Reports whether a pod is replaced only once it has failed.
    pub(super) fn replaces_failed(&self) -> bool {
        self.spec["podReplacementPolicy"] == "Failed"
    }

    /// Returns the UIDs in a list of uncounted pods.
    pub(super) fn listed(&self, list: &str) -> BTreeSet<Uid> {
        let list = self.status["uncountedTerminatedPods"][list].as_array();
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(Uid::new).collect()
    }

    /// Returns the condition of this type; `None` unless it is true.
    pub(super) fn condition(&self, kind: &str) -> Option<&'a Value> {
        let mut conditions = self.status["conditions"].as_array()?.iter();
        conditions.find(|it| it["type"] == kind && it["status"] == "True")
    }

    pub(super) fn has_finished(&self) -> bool {
        ENDS[2..].iter().any(|kind| self.condition(kind).is_some())
    }

    /// Returns the indexes in a member of the status.
    pub(super) fn indexes(&self, member: &str) -> BTreeSet<i64> {
        let text = self.status[member].as_str().unwrap_or_default();
        let parts = text.split(',').filter(|part| !part.is_empty());
        let number = |text: &str| text.parse::<i64>().expect("the server validates indexes");
        parts
            .flat_map(|part| match part.split_once('-') {
                Some((first, last)) => number(first)..=number(last),
                None => number(part)..=number(part),
            })
            .collect()
    }

    /// Returns the indexes in a member of the status that the Job still has. An elastic Job may
    /// lose indexes.
    pub(super) fn own_indexes(&self, member: &str) -> BTreeSet<i64> {
        let mut indexes = self.indexes(member);
        let completions = self.number("completions").unwrap_or(i64::MAX);
        indexes.retain(|index| *index < completions);
        indexes
    }

    /// Returns the number of successes, counted and listed ones together.
    pub(super) fn succeeded(&self) -> i64 {
        match self.is_indexed() {
            true => self.own_indexes("completedIndexes").len() as i64,
            false => self.count("succeeded") + self.listed("succeeded").len() as i64,
        }
    }

    /// Returns the number of failures, counted and listed ones together.
    pub(super) fn failed(&self) -> i64 {
        self.count("failed") + self.listed("failed").len() as i64
    }

    /// Returns the indexes that have succeeded or failed.
    pub(super) fn done_indexes(&self) -> BTreeSet<i64> {
        let mut done = self.own_indexes("completedIndexes");
        done.extend(self.own_indexes("failedIndexes"));
        done
    }

    /// Reports whether pods of the Job may have this index: it is below the completions, or the Job
    /// has no indexes.
    pub(super) fn has_index(&self, index: i64) -> bool {
        let completions = self.number("completions").unwrap_or(i64::MAX);
        !self.is_indexed() || (0..completions).contains(&index)
    }

    /// Returns the maximum number of active pods, including those of failed indexes.
    pub(super) fn most(&self) -> i64 {
        let completions = self.number("completions").unwrap_or(i64::MAX);
        let left = completions.saturating_sub(self.succeeded()).max(0);
        left.min(self.parallelism())
    }

    /// Returns the wanted number of active pods.
    pub(super) fn wanted(&self) -> i64 {
        let Some(completions) = self.number("completions") else {
            return self.parallelism();
        };
        let ended = match self.is_indexed() {
            true => self.done_indexes().len() as i64,
            false => self.succeeded(),
        };
        self.most().min((completions - ended).max(0))
    }

    /// Reports whether the counts in the status end the Job, at the latest once it has no active
    /// pods.
    pub(super) fn must_end(&self) -> bool {
        let (succeeded, failed_indexes) = (self.succeeded(), self.own_indexes("failedIndexes"));
        let failed_indexes = failed_indexes.len() as i64;
        let completions = self.number("completions").unwrap_or(i64::MAX);
        let is_past = |limit: Option<i64>, count| limit.is_some_and(|limit| count > limit);
        let limit = match self.number("backoffLimitPerIndex") {
            Some(_) => self.number("backoffLimit"),
            None => Some(self.number("backoffLimit").unwrap_or(6)),
        };
        let enough = self.spec["successPolicy"]["rules"][0]["succeededCount"].as_i64();
        succeeded >= completions
            || enough.is_some_and(|enough| succeeded >= enough)
            || is_past(limit, self.failed())
            || is_past(self.number("maxFailedIndexes"), failed_indexes)
            || failed_indexes > 0 && failed_indexes + succeeded >= completions
    }

    pub(super) fn start_ns(&self) -> Option<i64> {
        let start: Time = self.status["startTime"].as_str()?.parse().ok()?;
        Some(start.unix_seconds()? * 1_000_000_000)
    }

    /// Returns the action of the failure policy for a failed pod; `None` if no rule matches.
    pub(super) fn action(&self, pod: &Pod) -> Option<&'a str> {
        let code = exit_code(pod)?;
        let rules = self.spec["podFailurePolicy"]["rules"].as_array()?;
        let mut rules = rules.iter();
        let rule = rules.find(|rule| rule["onExitCodes"]["values"][0] == code)?;
        rule["action"].as_str()
    }
}

/// Returns the exit code of a pod that users made fail; `None` for any other pod.
fn exit_code(pod: &Pod) -> Option<i64> {
    let containers = &pod.to_json()["status"]["containerStatuses"];
    let code = containers[0]["state"]["terminated"]["exitCode"].as_i64()?;
    (code != 0).then_some(code)
}

/// Returns the number of restarts of a pod's containers.
pub(super) fn restarts_of(pod: &Pod) -> i64 {
    let all = pod.status.container_statuses.iter();
    all.map(|container| i64::from(container.restart_count))
        .sum()
}

pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.has_finalizer(TRACKING_FINALIZER)
}

/// Returns the index of a pod, or -1 if it has none.
pub(super) fn index_of(pod: &Pod) -> i64 {
    let annotations = &pod.metadata.annotations;
    let text = annotations.get("batch.kubernetes.io/job-completion-index");
    text.and_then(|text| text.parse().ok()).unwrap_or(-1)
}

/// Returns the UID of the controller of a pod; `None` if it has none.
pub(super) fn owner_of(pod: &Pod) -> Option<&Uid> {
    let owner = pod.metadata.controller()?;
    (*owner.kind == *Kind::JOB.name()).then_some(&owner.uid)
}

pub(super) fn has_succeeded(pod: &Pod) -> bool {
    pod.status.phase == PodPhase::Succeeded
}
