//! The rules of a Job's status. Most hold for what has changed alone.
//!
//! Source: `validateJobStatus` and `ValidateJobStatusUpdate` of Kubernetes' `pkg/apis/batch/validation`, with
//! the options of `getStatusValidationOptions` in its `pkg/registry/batch/job`.

use podstorm_objects::cells::items;
use podstorm_objects::{Cause, DynamicObject, Time};
use serde_json::Value;

use super::indexes;
use crate::errors::{invalid_value, required};

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const CRITERIA_MET: &str = "SuccessCriteriaMet";

/// A status that is being written over another.
struct Write<'a> {
    spec: &'a Value,
    new: &'a Value,
    old: &'a Value,
    causes: Vec<Cause>,
}

pub(super) fn validate(new: &DynamicObject, old: &DynamicObject) -> Vec<Cause> {
    let none = Value::Null;
    let member = |job: &'_ DynamicObject, name| job.fields.get(name).cloned().unwrap_or_default();
    let (spec, new, old) = (
        new.fields.get("spec").unwrap_or(&none),
        member(new, "status"),
        member(old, "status"),
    );
    let mut write = Write {
        spec,
        new: &new,
        old: &old,
        causes: Vec::new(),
    };
    write.check_numbers();
    write.check_uncounted();
    write.check_end();
    write.check_indexes();
    write.check_changes();
    write.causes
}

fn is_true(status: &Value, condition: &str) -> bool {
    items(status, "/conditions").any(|it| it["type"] == condition && it["status"] == "True")
}

fn is_finished(status: &Value) -> bool {
    is_true(status, COMPLETE) || is_true(status, FAILED)
}

fn has_uncounted(status: &Value) -> bool {
    let pods = &status["uncountedTerminatedPods"];
    ["/succeeded", "/failed"].into_iter().any(|list| {
        pods.pointer(list)
            .and_then(Value::as_array)
            .is_some_and(|it| !it.is_empty())
    })
}

impl Write<'_> {
    fn wrong(&mut self, member: &str, detail: &str) {
        let value = match &self.new[member] {
            Value::Null => Value::from(0),
            value => value.clone(),
        };
        let field = format!("status.{member}");
        self.causes.push(invalid_value(field, &value, detail));
    }

    /// Conditions that don't go together: the problem stands where a value would.
    fn contradict(&mut self, problem: &str) {
        self.causes.push(Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {problem}"),
            field: "status.conditions".to_owned(),
        });
    }

    fn number(&self, member: &str) -> i64 {
        self.new[member].as_i64().unwrap_or(0)
    }

    fn changed(&self, members: &[&str]) -> bool {
        members
            .iter()
            .any(|member| self.new[*member] != self.old[*member])
    }

    fn changed_condition(&self, conditions: &[&str]) -> bool {
        let differs =
            |condition: &&str| is_true(self.new, condition) != is_true(self.old, condition);
        conditions.iter().any(differs)
    }

    fn check_numbers(&mut self) {
        for member in ["active", "succeeded", "failed", "ready", "terminating"] {
            if self.number(member) < 0 {
                self.wrong(member, "must be greater than or equal to 0");
            }
        }
        if !self.new["ready"].is_null()
            && self.changed(&["ready", "active"])
            && self.number("ready") > self.number("active")
        {
            self.wrong("ready", "cannot set more ready pods than active");
        }
    }

    /// Pods that have ended and are not in the numbers yet: each is there once.
    fn check_uncounted(&mut self) {
        let mut seen: Vec<&Value> = Vec::new();
        for list in ["succeeded", "failed"] {
            let pods = &self.new["uncountedTerminatedPods"][list];
            for (index, pod) in pods.as_array().into_iter().flatten().enumerate() {
                let field = format!("status.uncountedTerminatedPods.{list}[{index}]");
                if *pod == "" {
                    self.causes
                        .push(invalid_value(field, pod, "must not be empty"));
                } else if seen.contains(&pod) {
                    self.causes.push(Cause {
                        reason: "FieldValueDuplicate".to_owned(),
                        message: format!("Duplicate value: {pod}"),
                        field,
                    });
                }
                seen.push(pod);
            }
        }
    }

    /// How a Job ends.
    fn check_end(&mut self) {
        let is = |condition: &str| is_true(self.new, condition);
        let (complete, failed) = (is(COMPLETE), is(FAILED));
        let (target, met) = (is(FAILURE_TARGET), is(CRITERIA_MET));
        let finishes = is_finished(self.new) != is_finished(self.old);
        let finished = is_finished(self.new);
        let has_completion = !self.new["completionTime"].is_null();
        let ends = self.changed_condition(&[COMPLETE]) || self.changed(&["completionTime"]);
        if self.changed_condition(&[COMPLETE, FAILED]) && complete && failed {
            self.contradict("cannot set Complete=True and Failed=true conditions");
        }
        if self.changed_condition(&[COMPLETE, FAILURE_TARGET]) && complete && target {
            self.contradict("cannot set Complete=True and FailureTarget=true conditions");
        }
        if ends && has_completion && !complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            self.wrong("completionTime", detail);
        }
        if ends && !has_completion && complete {
            let detail = "completionTime is required for Complete jobs";
            self.causes.push(required("status.completionTime", detail));
        }
        let time = |member: &str| {
            self.new[member]
                .as_str()?
                .parse::<Time>()
                .ok()?
                .unix_nanos()
        };
        if self.changed(&["startTime", "completionTime"])
            && let (Some(start), Some(end)) = (time("startTime"), time("completionTime"))
            && end < start
        {
            self.wrong(
                "completionTime",
                "completionTime cannot be set before startTime",
            );
        }
        if self.changed_condition(&[FAILED]) && failed && !target {
            let problem =
                "cannot set Failed=True condition without the FailureTarget=true condition";
            self.contradict(problem);
        }
        if self.changed_condition(&[COMPLETE, CRITERIA_MET]) && complete && !met {
            let problem =
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            self.contradict(problem);
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
            && self.new["startTime"].is_null()
        {
            let detail = "startTime is required for finished job";
            self.causes.push(required("status.startTime", detail));
        }
        if (finishes || self.changed(&["uncountedTerminatedPods"]))
            && finished
            && has_uncounted(self.new)
        {
            let detail = "uncountedTerminatedPods needs to be empty for finished job";
            self.wrong("uncountedTerminatedPods", detail);
        }
    }

    fn check_indexes(&mut self) {
        let completions = self.spec["completions"].as_i64();
        let has_limit = !self.spec["backoffLimitPerIndex"].is_null();
        let text = |member: &str| self.new[member].as_str();
        let completed = text("completedIndexes").unwrap_or("").to_owned();
        let failed = text("failedIndexes").map(str::to_owned);
        let (completed_change, failed_change) = (
            self.changed(&["completedIndexes"]),
            self.changed(&["failedIndexes"]),
        );
        let problem = |text: &str| indexes::count(text, completions?).err();
        if completed_change && let Some(problem) = problem(&completed) {
            let detail = format!("error parsing completedIndexes: {problem}");
            self.wrong("completedIndexes", &detail);
        }
        if failed_change
            && has_limit
            && let Some(problem) = failed.as_deref().and_then(problem)
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
            && let (Some(failed), Some(completions)) = (&failed, completions)
            && indexes::overlap(&completed, failed, completions)
        {
            let detail = "failedIndexes and completedIndexes overlap";
            self.wrong("failedIndexes", detail);
        }
    }

    /// What may not be taken back.
    fn check_changes(&mut self) {
        let disabled = |condition| is_true(self.old, condition) && !is_true(self.new, condition);
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
        let (new, old) = (self.new, self.old);
        let count = |status: &Value, member: &str| status[member].as_i64().unwrap_or(0);
        let decreased = |member: &str| count(new, member) < count(old, member);
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
        let was_complete = is_true(self.old, COMPLETE) && is_true(self.new, COMPLETE);
        if was_complete
            && !self.old["completionTime"].is_null()
            && self.changed(&["completionTime"])
        {
            self.wrong("completionTime", "field is immutable");
        }
        if self.changed(&["startTime"])
            && !self.old["startTime"].is_null()
            && self.spec["suspend"] != true
        {
            let detail = match self.new["startTime"].is_null() {
                true => "startTime cannot be removed for unsuspended job",
                false => "startTime cannot be modified for unsuspended job",
            };
            self.causes.push(required("status.startTime", detail));
        }
    }
}
