//! The walk-throughs of the documents that this project goes back to, with the real kubectl: what a
//! user of ReplicaSets, ReplicationControllers, Deployments, StatefulSets, Jobs, pods and nodes tries. Each test is named after the
//! number of its walk-through. Those of other kinds come with their controllers. Most run with kubectl
//! 1.32, of which the walk-throughs speak; those whose commands differ most run with both releases.

mod cluster;
mod deployment;
mod job;
mod replica_set;
mod replication_controller;
mod scale_down;
mod stateful_set;

use super::manifests::pod;
use super::served::Served;

/// Name and phase of every pod.
const PHASES: &str = "get pods --no-headers -o custom-columns=:metadata.name,:status.phase";

/// What all pods name as their owners.
const ALL_OWNERS: &str = "get pods -o jsonpath='{.items[*].metadata.ownerReferences}'";

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The names of all pods, sorted.
#[track_caller]
fn names(served: &Served) -> Vec<String> {
    served.words("get pods -o jsonpath={.items[*].metadata.name}")
}

/// The name of one pod in the order of their names.
#[track_caller]
fn name_of(served: &Served, index: usize) -> String {
    names(served).swap_remove(index)
}

/// How to look at the owners that an object names.
fn owners_of(object: &str) -> String {
    format!("get {object} -o jsonpath='{{.metadata.ownerReferences}}'")
}

/// Waits until so many pods run, and there are no others.
#[track_caller]
fn all_run(served: &Served, pods: usize) {
    served.comes_to(PHASES, |text| {
        count(text, "Running") == pods && text.lines().count() == pods
    });
}

/// Six pods of that label that run: four on one node, two on another.
#[track_caller]
fn place_six(served: &Served, label: &str) {
    let place = |number: usize| {
        let node = if number < 4 { "node-1" } else { "node-2" };
        let labels = format!("labels: {{{label}}}");
        pod(&format!("p{number}"), &labels, &format!("nodeName: {node}"))
    };
    let pods: Vec<String> = (0..6).map(place).collect();
    served.apply(&pods.join("---"));
    served.run("wait --for=condition=Ready pods --all");
}

/// Moves the time of a server on the virtual engine.
#[track_caller]
fn pass(served: &Served, seconds: u32) {
    served.file("advance.json", &format!("{{\"seconds\": {seconds}}}"));
    served.run("create --raw /podstorm/clock/advance -f advance.json");
}

/// Makes a pod not ready.
#[track_caller]
fn not_ready(served: &Served, pod: &str) {
    served.run(&format!(
        "annotate pod {pod} --overwrite podstorm/script=ready=never"
    ));
}

/// Makes a pod as if it had been ready since then.
#[track_caller]
fn old_since(served: &Served, pod: &str, time: &str) {
    let condition = format!("{{\"type\":\"Ready\",\"lastTransitionTime\":\"{time}\"}}");
    let patch = format!("'{{\"status\":{{\"conditions\":[{condition}]}}}}'");
    served.run(&format!("patch pod {pod} --subresource=status -p {patch}"));
}

/// Has the container of a pod end with that code.
#[track_caller]
fn end_container(served: &Served, pod: &str, code: i32) {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let end = format!("{{\"terminated\":{{\"exitCode\":{code},\"reason\":\"{reason}\"}}}}");
    let patch = format!(
        "'[{{\"op\":\"replace\",\"path\":\"/status/containerStatuses/0/state\",\"value\":{end}}}]'"
    );
    served.run(&format!(
        "patch pod {pod} --subresource=status --type=json -p {patch}"
    ));
}
