//! Validation of a Job's status. Most rules apply only to changed fields.
//!
//! Source: `validateJobStatus` and `ValidateJobStatusUpdate` of Kubernetes' `pkg/apis/batch/validation`, with
//! the options of `getStatusValidationOptions` in its `pkg/registry/batch/job`.

use podstorm_objects::cells::items;
use podstorm_objects::{Cause, DynamicObject, Time};
use serde_json::Value;

use super::indexes;
use crate::Places;
use crate::errors;
use crate::validation::{Checks, Field, IMMUTABLE};

const COMPLETE: &str = "Complete";
const FAILED: &str = "Failed";
const FAILURE_TARGET: &str = "FailureTarget";
const CRITERIA_MET: &str = "SuccessCriteriaMet";
const SUSPENDED: &str = "Suspended";

/// An update of a Job's status.
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

    /// Reports contradicting conditions. The message contains the problem in place of a value.
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

    /// Reports whether a condition is true in the new status.
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

    /// Checks the ended pods that the counters do not include yet: each occurs once.
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

    /// Checks the conditions and times of a Job that has ended.
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

    /// Checks that the update does not revoke anything irrevocable.
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
        if is_true(self.old, COMPLETE) && !is_true(self.old, CRITERIA_MET) && self.is(CRITERIA_MET)
        {
            self.contradict(
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            );
        }
        let decreased = |member: &str| {
            let before = self.old[member].as_i64().unwrap_or(0);
            self.number(member) < before
        };
        if decreased("failed") {
            self.wrong("failed", "cannot decrease the failed counter");
        }
        let spec = self.spec;
        // An indexed Job may be scaled down.
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
        // A resumed Job starts again. The old start time may still be set if the Job was resumed
        // before the controller saw the end of all its pods (kubernetes#134769).
        let resumes = disabled(SUSPENDED);
        if self.changed(&["startTime"])
            && !self.old["startTime"].is_null()
            && self.spec["suspend"] != true
            && !resumes
        {
            start.required(match start.is_null() {
                true => "startTime cannot be removed for unsuspended job",
                false => "startTime cannot be modified for unsuspended job",
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Kind;
    use serde_json::json;

    use super::*;

    const EARLY: &str = "2026-01-01T00:00:00Z";
    const LATE: &str = "2026-01-01T00:01:00Z";

    fn job(spec: &Value, status: Value) -> DynamicObject {
        let object =
            json!({"metadata": {"name": "pi", "namespace": "n"}, "spec": spec, "status": status});
        DynamicObject::from_json(Kind::JOB, object).expect("a Job")
    }

    /// Returns the wrong fields in a write of `new` over `old`.
    fn wrong(spec: &Value, old: Value, new: Value) -> Vec<String> {
        let causes = validate(&job(spec, new), &job(spec, old));
        let member = |cause: &Cause| cause.field.trim_start_matches("status.").to_owned();
        causes.iter().map(member).collect()
    }

    /// Returns a status with these conditions: each is true, except that `!Type` is false.
    fn with(conditions: &[&str], mut status: Value) -> Value {
        let condition = |kind: &&str| match kind.strip_prefix('!') {
            Some(kind) => json!({"type": kind, "status": "False"}),
            None => json!({"type": kind, "status": "True"}),
        };
        status["conditions"] = conditions.iter().map(condition).collect();
        status
    }

    #[test]
    fn a_job_ends_once_and_for_one_reason_only() {
        let started = || json!({"startTime": EARLY});
        let completed = || json!({"startTime": EARLY, "completionTime": LATE});
        let failing = || with(&["FailureTarget"], started());
        let succeeding = || with(&["SuccessCriteriaMet"], started());
        let ends = ["SuccessCriteriaMet", "Complete"];
        let fails = ["FailureTarget", "Failed"];
        let and = |mut status: Value, member: &str, value: Value| {
            status[member] = value;
            status
        };
        let listed = || json!({"failed": ["a"]});
        const C: &str = "conditions";
        let rows: [(Value, Value, &[&str]); 19] = [
            (
                started(),
                with(&["Complete", "Failed"], completed()),
                &[C, C, C],
            ),
            (started(), with(&["Complete"], completed()), &[C]),
            (started(), with(&["Failed"], started()), &[C]),
            (
                started(),
                with(&["Complete", "FailureTarget"], completed()),
                &[C, C],
            ),
            (succeeding(), with(&ends, completed()), &[]),
            (failing(), with(&fails, started()), &[]),
            (
                failing(),
                with(&["FailureTarget", "SuccessCriteriaMet"], started()),
                &[C],
            ),
            (
                with(&["Complete"], completed()),
                with(&ends, completed()),
                &[C],
            ),
            (
                with(&["Complete"], completed()),
                completed(),
                &["completionTime", C],
            ),
            (with(&["Failed"], started()), started(), &[C]),
            (failing(), started(), &[C]),
            (succeeding(), started(), &[C]),
            (succeeding(), with(&ends, started()), &["completionTime"]),
            (started(), completed(), &["completionTime"]),
            (completed(), and(completed(), "active", json!(1)), &[]),
            (
                with(&fails[..1], json!({})),
                with(&fails, json!({})),
                &["startTime"],
            ),
            (
                failing(),
                with(&fails, and(started(), "active", json!(1))),
                &["active"],
            ),
            (
                failing(),
                with(&fails, and(started(), "terminating", json!(1))),
                &["terminating"],
            ),
            (
                and(failing(), "uncountedTerminatedPods", listed()),
                with(&fails, and(started(), "uncountedTerminatedPods", listed())),
                &["uncountedTerminatedPods"],
            ),
        ];
        for (old, new, wanted) in rows {
            let text = format!("{new} over {old}");
            assert_eq!(wrong(&json!({}), old, new), wanted, "{text}");
        }
        let suspended = json!({"suspend": true, "completions": 0});
        let new = with(&ends, json!({"completionTime": LATE}));
        assert_eq!(wrong(&suspended, json!({}), new), [""; 0]);
    }

    #[test]
    fn times_are_immutable_except_the_start_of_a_resumed_job() {
        let (runs, suspended) = (json!({"suspend": false}), json!({"suspend": true}));
        let at = |start: &str| json!({"startTime": start});
        let rows: [(&Value, Value, Value, &[&str]); 7] = [
            (&runs, json!({}), at(EARLY), &[]),
            (&runs, at(EARLY), at(LATE), &["startTime"]),
            (&runs, at(EARLY), json!({}), &["startTime"]),
            (&suspended, at(EARLY), json!({}), &[]),
            (
                &runs,
                with(&["Suspended"], at(EARLY)),
                with(&["!Suspended"], at(LATE)),
                &[],
            ),
            (
                &runs,
                with(&["Suspended"], at(EARLY)),
                with(&["Suspended"], at(LATE)),
                &["startTime"],
            ),
            (
                &runs,
                with(&["SuccessCriteriaMet"], at(LATE)),
                with(
                    &["SuccessCriteriaMet", "Complete"],
                    json!({"startTime": LATE, "completionTime": EARLY}),
                ),
                &["completionTime"],
            ),
        ];
        for (spec, old, new, wanted) in rows {
            let text = format!("{new} over {old}");
            assert_eq!(wrong(spec, old, new), wanted, "{text}");
        }
    }

    #[test]
    fn counters_and_indexes_only_grow_and_do_not_overlap() {
        let plain = json!({"completions": 5, "parallelism": 2});
        let indexed = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
        let elastic = json!({"completions": 5, "parallelism": 5, "completionMode": "Indexed"});
        let limited =
            json!({"completions": 5, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
        let rows: [(&Value, Value, Value, &[&str]); 13] = [
            (
                &plain,
                json!({"failed": 3}),
                json!({"failed": 1}),
                &["failed"],
            ),
            (
                &plain,
                json!({"succeeded": 3}),
                json!({"succeeded": 1}),
                &["succeeded"],
            ),
            (
                &indexed,
                json!({"succeeded": 3}),
                json!({"succeeded": 1}),
                &["succeeded"],
            ),
            (
                &elastic,
                json!({"succeeded": 3}),
                json!({"succeeded": 1}),
                &[],
            ),
            (
                &plain,
                json!({}),
                json!({"active": 1, "ready": 2}),
                &["ready"],
            ),
            (
                &plain,
                json!({"active": 1, "ready": 2}),
                json!({"active": 1, "ready": 2, "succeeded": 1}),
                &[],
            ),
            (
                &plain,
                json!({}),
                json!({"completedIndexes": "0"}),
                &["completedIndexes"],
            ),
            (
                &indexed,
                json!({}),
                json!({"completedIndexes": "0,x"}),
                &["completedIndexes"],
            ),
            (
                &indexed,
                json!({"completedIndexes": "0,x"}),
                json!({"completedIndexes": "0,x", "active": 1}),
                &[],
            ),
            (
                &indexed,
                json!({}),
                json!({"failedIndexes": "0"}),
                &["failedIndexes"],
            ),
            (
                &limited,
                json!({}),
                json!({"failedIndexes": "x"}),
                &["failedIndexes"],
            ),
            (
                &limited,
                json!({"failedIndexes": "0,2", "completedIndexes": "3,4"}),
                json!({"failedIndexes": "0,2", "completedIndexes": "2-4"}),
                &["failedIndexes"],
            ),
            (
                &limited,
                json!({"failedIndexes": "0,2", "completedIndexes": "2-4"}),
                json!({"failedIndexes": "0,2", "completedIndexes": "2-4", "active": 1}),
                &[],
            ),
        ];
        for (spec, old, new, wanted) in rows {
            let text = format!("{new} over {old}");
            assert_eq!(wrong(spec, old, new), wanted, "{text}");
        }
    }
}
