//! The rules of a Job's status. Most hold for what has changed alone.
//!
//! Source: `validateJobStatus` and `ValidateJobStatusUpdate` of Kubernetes' `pkg/apis/batch/validation`, with
//! the options of `getStatusValidationOptions` in its `pkg/registry/batch/job`.

use podstorm_objects::cells::items;
use podstorm_objects::{Cause, DynamicObject, Time};
use serde_json::Value;

use super::indexes;
use crate::errors;
use crate::places::Places;
use crate::validation::{Checks, Field, IMMUTABLE};

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const CRITERIA_MET: &str = "SuccessCriteriaMet";

/// A status that is being written over another.
struct Write<'a> {
    spec: &'a Value,
    new: Field<'a>,
    old: &'a Value,
}

pub(super) fn validate(new: &DynamicObject, old: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    let write = Write {
        spec: checks.field(new, "spec").value,
        new: checks.field(new, "status"),
        old: checks.field(old, "status").value,
    };
    write.check_numbers();
    write.check_uncounted();
    write.check_end();
    write.check_indexes();
    write.check_changes();
    checks.found()
}

fn is_true(status: &Value, condition: &str) -> bool {
    items(status, "/conditions").any(|it| it["type"] == condition && it["status"] == "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, COMPLETE) || is_true(status, FAILED)
}

impl Write<'_> {
    fn wrong(&self, member: &str, detail: &str) {
        let field = self.new.at(member);
        match field.is_null() {
            true => field.invalid_as(0, detail),
            false => field.invalid(detail),
        }
    }

    /// Conditions that don't go together: the problem stands where a value would.
    fn contradict(&self, problem: &str) {
        let cause = errors::problem("status.conditions", problem);
        self.new.checks.push(cause);
    }

    fn number(&self, member: &str) -> i64 {
        self.new.at(member).number()
    }

    fn changed(&self, members: &[&str]) -> bool {
        let differs = |member: &&str| self.new.value[*member] != self.old[*member];
        members.iter().any(differs)
    }

    /// Whether the condition is in the new status.
    fn is(&self, condition: &str) -> bool {
        is_true(self.new.value, condition)
    }

    fn changed_condition(&self, conditions: &[&str]) -> bool {
        let differs = |condition: &&str| self.is(condition) != is_true(self.old, condition);
        conditions.iter().any(differs)
    }

    fn check_numbers(&self) {
        for member in ["active", "succeeded", "failed", "ready", "terminating"] {
            self.new.at(member).not_negative();
        }
        if !self.new.at("ready").is_null()
            && self.changed(&["ready", "active"])
            && self.number("ready") > self.number("active")
        {
            self.wrong("ready", "cannot set more ready pods than active");
        }
    }

    /// Pods that have ended and are not in the numbers yet: each is there once.
    fn check_uncounted(&self) {
        let mut seen: Places<&Value> = Places::default();
        let lists = self.new.at("uncountedTerminatedPods");
        for list in ["succeeded", "failed"] {
            for pod in lists.at(list).items() {
                if *pod.value == "" {
                    pod.invalid("must not be empty");
                } else if seen.contains(&pod.value) {
                    pod.duplicate();
                }
                seen.push(pod.value);
            }
        }
    }

    /// How a Job ends.
    fn check_end(&self) {
        let (complete, failed) = (self.is(COMPLETE), self.is(FAILED));
        let (target, met) = (self.is(FAILURE_TARGET), self.is(CRITERIA_MET));
        let finished = is_finished(self.new.value);
        let finishes = finished != is_finished(self.old);
        let completion = self.new.at("completionTime");
        let ends = self.changed_condition(&[COMPLETE]) || self.changed(&["completionTime"]);
        if self.changed_condition(&[COMPLETE, FAILED]) && complete && failed {
            self.contradict("cannot set Complete=True and Failed=true conditions");
        }
        if self.changed_condition(&[COMPLETE, FAILURE_TARGET]) && complete && target {
            self.contradict("cannot set Complete=True and FailureTarget=true conditions");
        }
        if ends && !completion.is_null() && !complete {
            completion
                .invalid("cannot set completionTime when there is no Complete=True condition");
        }
        if ends && completion.is_null() && complete {
            completion.required("completionTime is required for Complete jobs");
        }
        let start = self.new.at("startTime");
        let time = |field: &Field<'_>| field.text().parse::<Time>().ok()?.unix_nanos();
        if self.changed(&["startTime", "completionTime"])
            && let (Some(began), Some(ended)) = (time(&start), time(&completion))
            && ended < began
        {
            completion.invalid("completionTime cannot be set before startTime");
        }
        if self.changed_condition(&[FAILED]) && failed && !target {
            self.contradict(
                "cannot set Failed=True condition without the FailureTarget=true condition",
            );
        }
        if self.changed_condition(&[COMPLETE, CRITERIA_MET]) && complete && !met {
            self.contradict(
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            );
        }
        if met && failed {
            self.contradict("cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if met && target {
            self.contradict("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
        }
        for member in ["active", "terminating"] {
            if (finishes || self.changed(&[member])) && finished && self.number(member) > 0 {
                self.wrong(member, &format!("{member}>0 is invalid for finished job"));
            }
        }
        let suspended_without_pods = self.spec["suspend"] == true && self.spec["completions"] == 0;
        if (finishes || self.changed(&["startTime"]))
            && !suspended_without_pods
            && finished
            && start.is_null()
        {
            start.required("startTime is required for finished job");
        }
        let uncounted = self.new.at("uncountedTerminatedPods");
        let has = |list: &str| uncounted.at(list).items().next().is_some();
        if (finishes || self.changed(&["uncountedTerminatedPods"]))
            && finished
            && (has("succeeded") || has("failed"))
        {
            uncounted.invalid("uncountedTerminatedPods needs to be empty for finished job");
        }
    }

    fn check_indexes(&self) {
        let completions = self.spec["completions"].as_i64();
        let has_limit = !self.spec["backoffLimitPerIndex"].is_null();
        let completed = self.new.at("completedIndexes").text();
        let failed = self.new.at("failedIndexes").value.as_str();
        let (completed_change, failed_change) = (
            self.changed(&["completedIndexes"]),
            self.changed(&["failedIndexes"]),
        );
        let problem = |text: &str| indexes::count(text, completions?).err();
        if completed_change && let Some(problem) = problem(completed) {
            let detail = format!("error parsing completedIndexes: {problem}");
            self.wrong("completedIndexes", &detail);
        }
        if failed_change
            && has_limit
            && let Some(problem) = failed.and_then(problem)
        {
            let detail = format!("error parsing failedIndexes: {problem}");
            self.wrong("failedIndexes", &detail);
        }
        if completed_change && !completed.is_empty() && self.spec["completionMode"] != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            self.wrong("completedIndexes", detail);
        }
        if failed_change && failed.is_some() && !has_limit {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            self.wrong("failedIndexes", detail);
        }
        if (completed_change || failed_change)
            && let (Some(failed), Some(completions)) = (failed, completions)
            && let Some(index) = indexes::overlap(completed, failed, completions)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            self.wrong("failedIndexes", &detail);
        }
    }

    /// What may not be taken back.
    fn check_changes(&self) {
        let disabled = |condition| is_true(self.old, condition) && !self.is(condition);
        for condition in [FAILED, COMPLETE, FAILURE_TARGET] {
            if disabled(condition) {
                self.contradict(&format!(
                    "cannot disable the terminal {condition}=True condition"
                ));
            }
        }
        if disabled(CRITERIA_MET) {
            self.contradict("cannot disable the SuccessCriteriaMet=True condition");
        }
        let decreased = |member: &str| {
            let before = self.old[member].as_i64().unwrap_or(0);
            self.number(member) < before
        };
        if decreased("failed") {
            self.wrong("failed", "cannot decrease the failed counter");
        }
        let spec = self.spec;
        // An indexed Job can be made smaller.
        let shrinks =
            spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
        if !shrinks && decreased("succeeded") {
            self.wrong("succeeded", "cannot decrease the succeeded counter");
        }
        let stays_complete = is_true(self.old, COMPLETE) && self.is(COMPLETE);
        if stays_complete
            && !self.old["completionTime"].is_null()
            && self.changed(&["completionTime"])
        {
            self.wrong("completionTime", IMMUTABLE);
        }
        let start = self.new.at("startTime");
        if self.changed(&["startTime"])
            && !self.old["startTime"].is_null()
            && self.spec["suspend"] != true
        {
            start.required(match start.is_null() {
                true => "startTime cannot be removed for unsuspended job",
                false => "startTime cannot be modified for unsuspended job",
            });
        }
    }
}
