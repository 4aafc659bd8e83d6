//! The walkthroughs of this project's source documents with the real kubectl: what users of
//! ReplicaSets, ReplicationControllers, Deployments, StatefulSets, Jobs, pods and nodes do. Each
//! test is named after the number of its walkthrough. Most run with kubectl 1.32, the release in
//! the walkthroughs; those whose commands differ most run with both releases.

mod cluster;
mod deployment;
mod job;
mod replica_set;
mod replication_controller;
mod scale_down;
mod stateful_set;

use super::manifests::pod;
use super::served::Served;

/// The name and phase of every pod.
const PHASES: &str = "get pods --no-headers -o custom-columns=:metadata.name,:status.phase";

/// The owner references of all pods.
const ALL_OWNERS: &str = "get pods -o jsonpath='{.items[*].metadata.ownerReferences}'";

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// Returns the names of all pods, sorted.
#[track_caller]
fn names(served: &Served) -> Vec<String> {
    served.words("get pods -o jsonpath={.items[*].metadata.name}")
}

/// Returns the name of the pod at an index of the sorted names.
#[track_caller]
fn name_of(served: &Served, index: usize) -> String {
    names(served).swap_remove(index)
}

/// Returns the command that prints an object's owner references.
fn owners_of(object: &str) -> String {
    format!("get {object} -o jsonpath='{{.metadata.ownerReferences}}'")
}

/// Waits until exactly this number of pods exist, all running.
#[track_caller]
fn all_run(served: &Served, pods: usize) {
    served.comes_to(PHASES, |text| {
        count(text, "Running") == pods && text.lines().count() == pods
    });
}

/// Creates six running pods with a label: four on one node, two on another.
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

/// Advances the time of a server on the virtual engine.
#[track_caller]
fn pass(served: &Served, seconds: u32) {
    served.file("advance.json", &format!("{{\"seconds\": {seconds}}}"));
    served.run("create --raw /podstorm/clock/advance -f advance.json");
}

/// Makes a pod unready.
#[track_caller]
fn not_ready(served: &Served, pod: &str) {
    served.run(&format!(
        "annotate pod {pod} --overwrite podstorm/script=ready=never"
    ));
}

/// Changes a pod's status as if it had been ready since `time`.
#[track_caller]
fn old_since(served: &Served, pod: &str, time: &str) {
    let condition = format!("{{\"type\":\"Ready\",\"lastTransitionTime\":\"{time}\"}}");
    let patch = format!("'{{\"status\":{{\"conditions\":[{condition}]}}}}'");
    served.run(&format!("patch pod {pod} --subresource=status -p {patch}"));
}

/// Ends the container of a pod with an exit code.
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
