//! Walkthroughs of Jobs: W101 to W125. Virtual time stands still unless a test advances it. The Job
//! controller collects changes for one second, so a test advances the time by a few seconds before
//! it reads the result.

mod completions;
mod deadlines;
mod failures;
mod ownership;
mod policies;
mod rejections;
mod run;
mod suspension;

use super::super::served::{Served, with_each, with_one};
use super::{count, end_container, names, pass};

/// The flags of a server whose virtual time stands still.
const STILL: &[&str] = &["--engine", "virtual"];

/// Returns the manifest of a Job whose pods follow a script. `members` are further lines of the
/// Job's spec.
fn job(name: &str, script: &str, members: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
{members}
  template:
    metadata: {{annotations: {{podstorm/script: '{script}'}}}}
    spec: {{restartPolicy: Never, containers: [{{name: main, image: 'busybox:1'}}]}}
"
    )
}

/// Returns the value at a JSONPath in a Job.
#[track_caller]
fn value(served: &Served, job: &str, path: &str) -> String {
    served.run(&format!("get job {job} -o jsonpath='{{{path}}}'"))
}

/// Returns the pod counts in a Job's status, separated by slashes: active, ready, succeeded,
/// failed, terminating. An absent count is empty.
#[track_caller]
fn counts(served: &Served, job: &str) -> String {
    let names = ["active", "ready", "succeeded", "failed", "terminating"];
    let path = names.map(|name| format!("{{.status.{name}}}")).join("/");
    served.run(&format!("get job {job} -o jsonpath='{path}'"))
}

/// Returns a Job's name, status and completions from the table that kubectl prints.
#[track_caller]
fn row(served: &Served, job: &str) -> String {
    let line = served.run(&format!("get jobs {job} --no-headers"));
    let words: Vec<&str> = line.split(' ').take(3).collect();
    words.join(" ")
}

/// Returns the types and reasons of the conditions that are True.
#[track_caller]
fn conditions(served: &Served, job: &str) -> String {
    let item = "{range .status.conditions[?(@.status==\"True\")]}{.type} {.reason}{\"\\n\"}{end}";
    served.run(&format!("get job {job} -o jsonpath='{item}'"))
}

/// Returns the messages of a Job's events with the given reason.
#[track_caller]
fn events(served: &Served, job: &str, reason: &str) -> Vec<String> {
    let line = format!(
        "get events --no-headers -o custom-columns=:.message \
         --field-selector involvedObject.name={job},reason={reason}"
    );
    served.run(&line).lines().map(str::to_owned).collect()
}

/// Returns the names of the pods in a phase, sorted.
#[track_caller]
fn pods_in(served: &Served, phase: &str) -> Vec<String> {
    let line = "get pods -o jsonpath={.items[*].metadata.name} --field-selector";
    served.words(&format!("{line} status.phase={phase}"))
}

/// Merges members into the spec of a Job.
#[track_caller]
fn patch(served: &Served, job: &str, members: &str) {
    let line = format!("patch job {job} -p '{{\"spec\":{{{members}}}}}'");
    served.says(&line, &format!("job.batch/{job} patched"));
}

/// Asserts that a patch of the spec of a Job is refused.
#[track_caller]
fn refuses_patch(served: &Served, job: &str, members: &str, why: &str) {
    let line = format!("patch job {job} -p '{{\"spec\":{{{members}}}}}'");
    served.refuses(&line, &[why]);
}

/// Returns the remaining finalizers of the pods.
#[track_caller]
fn finalizers(served: &Served) -> String {
    served.run("get pods -o jsonpath={.items[*].metadata.finalizers}")
}
