//! Scenarios on the command line: those that are built in, printed and run again as files, the user's
//! files in YAML and TOML, their schema, and what is refused with its place.

use std::fs;
use std::path::Path;

use podstorm_tests::command::{assert_refused as assert_refused_run, run, run_in, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

use super::args;

/// A user's scenario with every kind of member.
const OWN: &str = r#"
name = "shop"
question = "Does the shop's cluster hold its pods?"

[settings]
engine = "virtual"
pods = "200"
pod-startup-latency = "2s"

[podTemplate.metadata.labels]
team = "shop"

[podTemplate.spec]
containers = [{name = "web", image = "registry.example/shop:1"}]

[[phases]]
name = "set up"
steps = ["createNamespaces", "createNodes", {createReplicaSets = {replicas = 0}}]

[[phases]]
name = "one after the other"
steps = [{scale = {replicas = "100%", load = {qpsLoad = {qps = 2}}}}]

[thresholds]
pod_ready_latency = ["max < 3s"]
"#;

fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

#[track_caller]
fn result(args: &[&str], folder: &Path) -> Value {
    let mut all = vec!["run", "-q", "--json", "-"];
    all.extend(args);
    let output = run_in(folder, &all);
    assert!(output.status.code() != Some(2), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("a result is JSON")
}

/// Asserts that a scenario file is refused with one message that holds every word.
#[track_caller]
fn assert_refused(name: &str, text: &str, words: &[&str]) {
    let folder = folder();
    fs::write(folder.path().join(name), text).expect("the folder can be written");
    for args in [
        ["run", "--scenario", name].as_slice(),
        &["scenarios", "--check", name],
    ] {
        let output = run_in(folder.path(), args);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        for word in words.iter().flat_map(|words| words.split(" | ")) {
            assert!(told.contains(word), "{word:?} is missing in: {told}");
        }
        assert!(!told.contains("panicked"), "{told}");
    }
}

#[test]
fn every_built_in_scenario_is_listed_and_printed_as_a_file_that_runs_the_same() {
    let folder = folder();
    let list = stdout(&run(&["scenarios"]));
    for name in ["scale-down", "relabel", "kubelet-reject"] {
        assert!(list.contains(name));
        let text = stdout(&run(&["scenarios", "--print", name]));
        assert!(text.starts_with("# "), "{text}");
        fs::write(folder.path().join("own.yaml"), text).expect("the folder can be written");
        let size = ["--engine", "virtual", "--pods", "200"];
        let built_in = result(&[&["--scenario", name], &size[..]].concat(), folder.path());
        let mut own = result(
            &[&["--scenario", "own.yaml"], &size[..]].concat(),
            folder.path(),
        );
        // A file's scenario is in the result as a whole; all else is the same.
        assert_eq!(own["settings"]["scenario"]["name"], name);
        own["settings"]["scenario"] = built_in["settings"]["scenario"].clone();
        assert_eq!(own, built_in, "{name}");
    }
}

#[test]
fn a_scenario_of_ones_own_runs_with_its_settings_and_flags_win() {
    let folder = folder();
    fs::write(folder.path().join("shop.toml"), OWN).expect("the folder can be written");
    let own = result(&["--scenario", "shop.toml"], folder.path());
    assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
    assert_eq!(own["pods"]["created"], 200);
    // Four ReplicaSets, two a second, the last after one and a half seconds; then a start.
    assert_eq!(own["phases"][1]["seconds"], 3.5);
    assert_eq!(own["thresholds"][0]["met"], true);
    let flags = ["--pods", "100", "--pod-startup-latency", "4s"];
    let other = result(
        &[&["--scenario", "shop.toml"], &flags[..]].concat(),
        folder.path(),
    );
    assert_eq!(other["pods"]["created"], 100);
    assert_eq!(
        other["outcome"]["exit_code"], 1,
        "pods take longer than allowed"
    );
    assert_eq!(other["thresholds"][0]["met"], false);
}

#[test]
fn a_threshold_may_end_the_run() {
    let folder = folder();
    let text = OWN.replace(
        r#"["max < 3s"]"#,
        r#"[{threshold = "max < 1s", abortOnFail = true}]"#,
    );
    fs::write(folder.path().join("shop.toml"), text).expect("the folder can be written");
    let own = result(&["--scenario", "shop.toml"], folder.path());
    assert_eq!(own["outcome"]["exit_code"], 1);
    let reason = own["outcome"]["reason"].as_str().unwrap_or("");
    assert!(reason.contains("abortOnFail"), "{reason}");
    assert!(reason.contains("max < 1s"), "{reason}");
    assert!(own["elapsed_seconds"].as_f64() < Some(3.5));
    // A count ends it too, with less than half of what would come.
    let text = OWN.replace(
        r#"pod_ready_latency = ["max < 3s"]"#,
        r#"pods_created = [{threshold = "<= 80", abortOnFail = true}]"#,
    );
    fs::write(folder.path().join("shop.toml"), text).expect("the folder can be written");
    let own = result(
        &["--scenario", "shop.toml", "--replicasets", "20"],
        folder.path(),
    );
    let reason = own["outcome"]["reason"].as_str().unwrap_or("");
    assert!(reason.contains("pods_created <= 80"), "{reason}");
    let created = own["pods"]["created"].as_u64().unwrap_or(0);
    assert!((81..=110).contains(&created), "{created} pods");
}

/// A ReplicationController and a ReplicaSet of one name.
const WEB: &str = "\
apiVersion: v1
kind: ReplicationController
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {old: web}
  template:
    metadata: {labels: {old: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

/// Pods that a phase of a result has created and removed.
fn pods_of(result: &Value, phase: usize) -> (u64, u64) {
    let count = |name: &str| result["phases"][phase][name].as_u64().unwrap_or(u64::MAX);
    (count("pods_created"), count("pods_deleted"))
}

#[test]
fn replication_controllers_of_files_are_recreated_and_their_pods_relabelled() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("web.yaml"), WEB).expect("the folder can be written");
    let over = |scenario| {
        let engine = ["--engine", "virtual", "-f", "web.yaml"];
        let own = result(&[&["--scenario", scenario], &engine[..]].concat(), path);
        assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
        own
    };
    let own = over("recreate");
    assert_eq!(pods_of(&own, 1), (14, 14), "those of both kinds");
    assert_eq!(own["pods"]["adopted"], 0);
    let all = "name: all\nquestion: q?\nphases:\n- name: load\n  steps: [createNodes, loadInput]\n\
               - name: relabel\n  steps: [relabelPods: {pods: 100%}]\n";
    fs::write(path.join("all.yaml"), all).expect("the folder can be written");
    let own = over("all.yaml");
    assert_eq!(pods_of(&own, 1), (14, 0), "those of both kinds");
    assert_eq!(own["pods"]["released"], 14);
    let statuses = "name: all\nquestion: q?\nphases:\n- name: load\n\
                    \x20 steps: [loadInput]\n- name: write\n  steps: [writeStatuses]\n";
    fs::write(path.join("statuses.yaml"), statuses).expect("the folder can be written");
    assert_eq!(pods_of(&over("statuses.yaml"), 1), (0, 0));
}

#[test]
fn replica_sets_of_files_are_rolled_out_and_replication_controllers_are_not() {
    let folder = folder();
    let path = folder.path();
    // An older revision, kept to go back to.
    let older = WEB.split("---\n").nth(1).expect("the ReplicaSet");
    let older = older.replace("web", "older").replace("10", "0");
    let files = format!("{WEB}---\n{older}");
    fs::write(path.join("web.yaml"), files).expect("the folder can be written");
    let rollout = ["--scenario", "rollout-storm", "--engine", "virtual", "-f"];
    let own = result(&[&rollout[..], &["web.yaml"]].concat(), path);
    assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
    assert_eq!(pods_of(&own, 1), (10, 10), "the ReplicaSet's alone");
    assert_eq!(own["writes"]["import replicasets"], 2);
    assert_eq!(own["writes"]["create replicasets"], 1, "a successor");
    let answer = own["answer"].as_str().unwrap_or("");
    assert!(!answer.contains("roll-outs"), "{answer}");

    let alone = WEB
        .split("---\n")
        .next()
        .expect("the ReplicationController");
    fs::write(path.join("rc.yaml"), alone).expect("the folder can be written");
    let arguments = [&["run"], &rollout[..], &["rc.yaml"]].concat();
    assert_refused_run(
        &run_in(path, &arguments),
        &["rollout-storm | ReplicationControllers only | ReplicaSets"],
    );
}

#[test]
fn a_scenario_runs_over_objects_from_files() {
    let folder = folder();
    fs::write(folder.path().join("web.yaml"), WEB).expect("the folder can be written");
    let own = result(
        &args("-f web.yaml --scenario up-down --engine virtual"),
        folder.path(),
    );
    assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
    let deleted: Vec<u64> = (0..4)
        .map(|phase| own["phases"][phase]["pods_deleted"].as_u64().unwrap_or(99))
        .collect();
    assert_eq!(deleted, [0, 0, 7, 7], "half of 10 and of 4, then the rest");
    // One that makes its own pods can't.
    let output = run_in(folder.path(), &args("run -f web.yaml --scenario adoption"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("-f"), "{}", stderr(&output));
}

#[test]
fn the_published_schema_is_that_of_the_program_and_holds_for_every_scenario() {
    let printed = stdout(&run(&["schema", "scenario"]));
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/schemas/scenario.schema.json");
    let published = fs::read_to_string(path).expect("the schema is there");
    assert_eq!(
        printed, published,
        "publish it anew: loadgen schema scenario > loadgen/schemas/scenario.schema.json"
    );
    let schema: Value = serde_json::from_str(&printed).expect("a schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    let list = stdout(&run(&["scenarios"]));
    let names = list.lines().take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let text = stdout(&run(&["scenarios", "--print", name]));
        let value: Value = serde_saphyr::from_str(&text).expect("it is YAML");
        if let Err(error) = validator.validate(&value) {
            panic!("{name}: {error} at {}", error.instance_path());
        }
    }
    let wrong: Value = serde_json::json!({"name": "x", "question": "?", "phases": [{"name": 3}]});
    assert!(validator.validate(&wrong).is_err());
}

#[test]
fn mistakes_are_told_with_their_place() {
    let start = "name: x\nquestion: q?\n";
    let phases = "phases:\n- name: a\n";
    for (text, words) in [
        (
            format!("{start}{phases}  steps:\n  - scal: {{}}\n"),
            ["bad.yaml:6:5", "scale"],
        ),
        (
            format!("{start}{phases}  steps:\n  - scale: {{of: 1}}\n"),
            ["bad.yaml:6", "replicas"],
        ),
        (
            format!("{start}settings: {{pods: 10q}}\n{phases}"),
            ["bad.yaml:3:18", "10k"].map(|w| if w == "10k" { "100k" } else { w }),
        ),
        (
            format!("{start}settings: {{podz: 10}}\n{phases}"),
            ["bad.yaml:3", "pods"],
        ),
        (
            format!("{start}{phases}  until: convergd\n"),
            ["bad.yaml:5:10", "converged"],
        ),
        (
            format!("{start}thresholds: {{pod_redy: [p99 < 5s]}}\n{phases}"),
            ["bad.yaml:3", "pod_ready"],
        ),
        (
            format!("{start}thresholds: {{pod_ready: [p98 < 5s]}}\n{phases}"),
            ["bad.yaml:3", "p99"],
        ),
        (
            format!("{start}answer: '{{{{ x'\n{phases}"),
            ["bad.yaml:3", "answer"],
        ),
        (
            format!("{start}settings: {{feature-gates: {{Foo: true}}}}\n{phases}"),
            ["bad.yaml:3", "PodDeletionCost"],
        ),
        (
            format!("{start}groups: [{{podsPerReplicaSet: 3, share: 20%}}]\n{phases}"),
            ["bad.yaml:3", "100%"],
        ),
        (
            format!("{start}podTemplate: {{spec: {{containers: 5}}}}\n{phases}"),
            ["bad.yaml:3", "podTemplate.spec.containers"],
        ),
        (
            format!("{start}phases: []\n"),
            ["bad.yaml:3", "at least one phase"],
        ),
        (
            format!("name: My Scenario\nquestion: q?\n{phases}"),
            ["bad.yaml:1", "lower-case"],
        ),
        (
            String::new(),
            ["bad.yaml", "name"].map(|w| if w == "name" { "" } else { w }),
        ),
        ("name: [".to_owned(), ["bad.yaml", ""]),
    ] {
        assert_refused("bad.yaml", &text, &words);
    }
    let steps =
        "name = \"x\"\nquestion = \"q?\"\n[[phases]]\nname = \"a\"\nsteps = [{wait = \"5\"}]\n";
    assert_refused("bad.toml", steps, &["bad.toml:5:18", "5s"]);
    let deep = "repeat: {times: 1000, steps: [".repeat(12);
    let deep = format!("{start}{phases}  steps:\n  - {deep}{}\n", "]}".repeat(12));
    assert_refused("bad.yaml", &deep, &["bad.yaml"]);
}

#[test]
fn what_is_no_scenario_is_refused_before_anything_runs() {
    for (args, words) in [
        (
            vec!["run", "--scenario", "nope.yaml"],
            vec!["nope.yaml", "no such file"],
        ),
        (vec!["run", "--scenario", "."], vec!["no such scenario"]),
        (vec!["run", "--scenario", "./"], vec!["directory"]),
        (
            vec!["run", "--scenario", "churm"],
            vec!["Did you mean churn?"],
        ),
        (
            vec!["scenarios", "--print", "churm"],
            vec!["Did you mean churn?"],
        ),
        (vec!["run", "--scenario", "manifests"], vec!["-f FILE"]),
        (
            vec!["run", "--scenario", "stale-watch", "--engine", "threads"],
            vec!["virtual"],
        ),
        (
            vec!["run", "--scenario", "up-down", "--burst", "5"],
            vec!["--burst", "up-down"],
        ),
        (
            vec!["run", "--scenario", "cl2-load", "--replicasets", "5"],
            vec!["groups"],
        ),
        (
            args("run --scenario kubelet-reject --pod-startup-latency 0s"),
            vec!["--pod-startup-latency"],
        ),
        (vec!["run", "--api-errors", "95%"], vec!["90%"]),
        (vec!["run", "--api-errors", "0.05"], vec!["1%"]),
    ] {
        let output = run(&args);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        for word in words {
            assert!(told.contains(word), "{word:?} is missing in: {told}");
        }
    }
}

#[test]
fn a_mixed_day_is_a_day_however_many_replicasets_there_are() {
    let folder = folder();
    // A thousand of them, as in 50,000 pods.
    let sizes = args("--scenario mixed-day --pods 2k --replicasets 1k");
    let result = result(&sizes, folder.path());
    assert_eq!(result["outcome"]["exit_code"], 0, "{}", result["outcome"]);
    let hours = result["elapsed_seconds"].as_f64().expect("a number") / 3_600.0;
    assert!((23.0..24.0).contains(&hours), "{hours}");
}
