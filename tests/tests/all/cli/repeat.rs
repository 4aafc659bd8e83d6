//! The command in a report that repeats its run: it reproduces the result byte for byte, for every
//! built-in scenario, for the user's files, and for objects from files.

use podstorm_loadgen::scenario::Scenario;
use podstorm_tests::command::{holds, run_in, stderr};
use tempfile::TempDir;

use super::{folder_of, read};

/// A scenario with groups, whose sizes round the number of pods, and with its own settings.
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

/// A scenario whose settings derive the size from the number of ReplicaSets.
const SIZED: &str = "\
name: own-sizes
question: Is the size the same again?
settings: {replicasets: 40, pods-per-replicaset: 10, api-errors: 3%}
phases:
- name: create
  steps: [createNamespaces, createNodes, createReplicaSets: {replicas: 100%}]
";

/// A scenario that works only on objects from files.
const OVER_FILES: &str = "\
name: own-input
question: Does the dump scale?
phases:
- name: load
  steps: [createNamespaces, createNodes, loadInput]
- name: half
  steps: [scale: {replicas: 50%}]
";

/// Objects with their node.
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
    folder_of(&[
        ("groups.yaml", GROUPS),
        ("sizes.yaml", SIZED),
        ("over files.yaml", OVER_FILES),
        ("dump.yaml", DUMP),
    ])
}

/// Runs with those flags. Returns the result, and the command in the report.
#[track_caller]
fn run(flags: &str, folder: &TempDir) -> (String, String) {
    let line = format!("run -q --json result.json --report page.html {flags}");
    let output = run_in(folder, &line);
    let code = output.status.code();
    let told = stderr(&output);
    assert!(matches!(code, Some(0 | 1)), "{flags}: {code:?}: {told}");
    let page = read(folder, "page.html");
    let begin = page
        .find("<pre id=\"command\"")
        .expect("the page has the command");
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
    (read(folder, "result.json"), command)
}

/// Asserts that the command reproduces the result and its own text.
#[track_caller]
fn assert_repeats(arguments: &str, folder: &TempDir) -> String {
    let (result, command) = run(arguments, folder);
    let flags = command.strip_prefix("loadgen run ");
    let (again, itself) = run(flags.expect("a run command"), folder);
    let lines = result.lines().zip(again.lines());
    if let Some((first, second)) = lines.into_iter().find(|(first, second)| first != second) {
        panic!("{arguments}: {command}: {first} and then {second}");
    }
    assert!(result == again, "{arguments}: {command}: one is longer");
    assert_eq!(itself, command, "{arguments}");
    command
}

#[test]
fn every_built_in_scenario_is_reproducible() {
    let folder = folder();
    for name in Scenario::names() {
        let what = match name {
            "manifests" => "-f dump.yaml".to_owned(),
            "churn" => "--scenario churn --duration 5s --pods 300".to_owned(),
            // As many initial Jobs as others have pods.
            "job-farm" | "retry-storm" => format!("--scenario {name} --pods 300 --batch-jobs 30"),
            "node-drain" => format!("--scenario {name} --pods 240 --statefulsets 12"),
            "statefulset-upgrade" | "stuck-upgrade" | "zone-loss" => {
                format!("--scenario {name} --pods 60 --statefulsets 12")
            }
            "kubelet-reject" => format!("--scenario {name} --pods 60"),
            name => format!("--scenario {name} --pods 300"),
        };
        let line = format!("{what} --seed 3 --engine virtual --pod-startup-latency p50=1s,p99=3s");
        let command = assert_repeats(&line, &folder);
        let is_mixed = name == "node-drain";
        let has_jobs = is_mixed || ["job-farm", "retry-storm", "array-job"].contains(&name);
        let stateful = ["statefulset-upgrade", "stuck-upgrade", "zone-loss"];
        let is_stateful = is_mixed || stateful.contains(&name);
        let has_sets =
            is_mixed || name != "cl2-load" && name != "manifests" && !has_jobs && !is_stateful;
        assert_eq!(command.contains(" --replicasets "), has_sets, "{command}");
        assert_eq!(command.contains(" --batch-jobs "), has_jobs, "{command}");
        assert_eq!(
            command.contains(" --statefulsets "),
            is_stateful,
            "{command}"
        );
    }
}

#[test]
fn scenarios_from_files_are_reproducible() {
    let folder = folder();
    for arguments in [
        "--scenario groups.yaml",
        "--scenario groups.yaml --pods 431 --nodes 40 --kube-api-burst 7",
        "--scenario groups.yaml --upstream-defaults --min-ready-seconds 0s",
        "--scenario sizes.yaml --engine virtual",
        "--scenario ./sizes.yaml --engine virtual --pods 400 --pods-per-replicaset 20",
        "--scenario sizes.yaml --engine virtual --replicasets 17 --api-errors 33.333333333%",
    ] {
        let command = assert_repeats(arguments, &folder);
        assert!(command.contains(".yaml"), "{command}");
    }
}

#[test]
fn runs_of_objects_from_files_are_reproducible() {
    let folder = folder();
    for arguments in [
        "-f dump.yaml",
        "-f dump.yaml --nodes 1",
        "-f dump.yaml --scenario recreate",
        "-f dump.yaml --scenario 'over files.yaml'",
        "-f dump.yaml --scenario groups.yaml --kube-api-qps 100",
    ] {
        let arguments = format!("{arguments} --engine virtual --seed 9");
        let command = assert_repeats(&arguments, &folder);
        assert!(command.ends_with(" -f dump.yaml"), "{command}");
        let [named, given] = [&command, &arguments].map(|line| line.contains("--scenario"));
        assert_eq!(named, given, "{command}");
    }
}

#[test]
fn thresholds_are_part_of_the_command() {
    let folder = folder();
    let line = "--engine virtual --pods 100 --threshold 'pod_ready_latency p99 < 1ns' \
                --threshold 'phase{scale to 100 %} < 1h'";
    let command = assert_repeats(line, &folder);
    holds(&command, "--threshold 'phase{scale to 100 %}");
}
