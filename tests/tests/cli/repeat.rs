//! The command by which a report says how to repeat its run: run, it gives the same result to the byte,
//! for every built-in scenario, for the user's files, and for objects from files.

use std::fs;
use std::path::Path;

use podstorm_loadgen::scenario::Scenario;
use podstorm_tests::command::{run_in, stderr};
use tempfile::TempDir;

use super::{args, shell_words};

/// A scenario with groups, whose sizes round the number of pods, and settings of its own.
const GROUPS: &str = "\
name: own-groups
question: Are the groups the same again?
settings:
  engine: virtual
  pods: 300
  kube-api-qps: 100
  kube-api-burst: 100
  min-ready-seconds: 2s
groups:
- {podsPerReplicaSet: 70, share: 40%}
- {podsPerReplicaSet: 9, share: 60%}
phases:
- name: create
  steps: [createNamespaces, createNodes, loadInput, createReplicaSets: {replicas: 100%}]
- name: half
  steps: [scale: {replicas: 50%}]
thresholds:
  excess_pods_created: [== 0]
";

/// A scenario whose settings decide the size by the number of ReplicaSets.
const SIZED: &str = "\
name: own-sizes
question: Is the size the same again?
settings: {replicasets: 40, pods-per-replicaset: 10, api-errors: 3%}
phases:
- name: create
  steps: [createNamespaces, createNodes, createReplicaSets: {replicas: 100%}]
";

/// A scenario for nothing but what files bring.
const OVER_FILES: &str = "\
name: own-input
question: Does the dump scale?
phases:
- name: load
  steps: [createNamespaces, createNodes, loadInput]
- name: half
  steps: [scale: {replicas: 50%}]
";

/// Objects, their node included.
const DUMP: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {pods: '30'}}
";

fn folder() -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, text) in [
        ("groups.yaml", GROUPS),
        ("sizes.yaml", SIZED),
        ("over files.yaml", OVER_FILES),
        ("dump.yaml", DUMP),
    ] {
        fs::write(folder.path().join(name), text).expect("the folder can be written");
    }
    folder
}

/// Runs with those arguments: the result, and the command that the report names.
#[track_caller]
fn run(arguments: &[String], folder: &Path) -> (String, String) {
    let mut all = args("run -q --json result.json --report page.html");
    all.extend(arguments.iter().map(String::as_str));
    let output = run_in(folder, &all);
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 1)),
        "{arguments:?}: {code:?}: {}",
        stderr(&output)
    );
    let read = |name| fs::read_to_string(folder.join(name)).expect("the run has written it");
    let page = read("page.html");
    let begin = page.find("<pre id=\"command\"").expect("the page has it");
    let code = &page[begin..];
    let code = &code[code.find("<code>").expect("a begin") + 6..];
    let command = &code[..code.find("</code>").expect("an end")];
    let mut command = command.to_owned();
    for (entity, c) in [
        ("&#x27;", "'"),
        ("&#39;", "'"),
        ("&#x2f;", "/"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ] {
        command = command.replace(entity, c);
    }
    (read("result.json"), command)
}

/// Asserts that the named command gives the same result and names itself.
#[track_caller]
fn assert_repeats(arguments: &str, folder: &Path) -> String {
    let (result, command) = run(&shell_words(arguments), folder);
    let named = shell_words(&command);
    assert_eq!(named[..2], ["loadgen", "run"], "{command}");
    let (again, itself) = run(&named[2..], folder);
    let lines = result.lines().zip(again.lines());
    if let Some((first, second)) = lines.into_iter().find(|(first, second)| first != second) {
        panic!("{arguments}: {command}: {first} and then {second}");
    }
    assert!(result == again, "{arguments}: {command}: one is longer");
    assert_eq!(itself, command, "{arguments}");
    command
}

#[test]
fn every_built_in_scenario_is_repeated_to_the_byte() {
    let folder = folder();
    for name in Scenario::names() {
        let what = match name {
            "manifests" => "-f dump.yaml".to_owned(),
            "churn" => "--scenario churn --duration 5s --pods 300".to_owned(),
            "kubelet-reject" => format!("--scenario {name} --pods 60"),
            name => format!("--scenario {name} --pods 300"),
        };
        let command = assert_repeats(
            &format!("{what} --seed 3 --engine virtual --pod-startup-latency p50=1s,p99=3s"),
            folder.path(),
        );
        let has_groups = name == "cl2-load";
        assert_eq!(
            command.contains(" --replicasets "),
            !has_groups && name != "manifests",
            "{command}"
        );
    }
}

#[test]
fn scenarios_from_files_are_repeated_to_the_byte() {
    let folder = folder();
    for arguments in [
        "--scenario groups.yaml",
        "--scenario groups.yaml --pods 431 --nodes 40 --kube-api-burst 7",
        "--scenario groups.yaml --upstream-defaults --min-ready-seconds 0s",
        "--scenario sizes.yaml --engine virtual",
        "--scenario ./sizes.yaml --engine virtual --pods 400 --pods-per-replicaset 20",
        "--scenario sizes.yaml --engine virtual --replicasets 17 --api-errors 33.333333333%",
    ] {
        let command = assert_repeats(arguments, folder.path());
        assert!(command.contains(".yaml"), "{command}");
    }
}

#[test]
fn runs_of_objects_from_files_are_repeated_to_the_byte() {
    let folder = folder();
    for arguments in [
        "-f dump.yaml",
        "-f dump.yaml --nodes 1",
        "-f dump.yaml --scenario recreate",
        "-f dump.yaml --scenario 'over files.yaml'",
        "-f dump.yaml --scenario groups.yaml --kube-api-qps 100",
    ] {
        let arguments = format!("{arguments} --engine virtual --seed 9");
        let command = assert_repeats(&arguments, folder.path());
        assert!(command.ends_with(" -f dump.yaml"), "{command}");
        assert_eq!(
            command.contains("--scenario"),
            arguments.contains("--scenario"),
            "{command}"
        );
    }
}

#[test]
fn what_a_result_is_judged_by_is_repeated_too() {
    let folder = folder();
    let command = assert_repeats(
        "--engine virtual --pods 100 --threshold 'pod_ready_latency p99 < 1ns' \
         --threshold 'phase{scale to 100 %} < 1h'",
        folder.path(),
    );
    assert!(
        command.contains("--threshold 'phase{scale to 100 %}"),
        "{command}"
    );
}
