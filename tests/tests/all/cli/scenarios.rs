//! Scenarios on the command line: built-in ones, printed and run again as files; the user's files
//! in YAML and TOML; their schema; and invalid ones, refused with their place.

use std::path::Path;

use podstorm_tests::command::{assert_refused, ended, holds, run, run_in, stderr, stdout};
use serde_json::Value;

use super::{assert_section_refused, folder, folder_of, json, read, refused, write};

/// A custom scenario with every kind of member.
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

#[track_caller]
fn result(folder: impl AsRef<Path>, flags: &str) -> Value {
    let output = run_in(folder, &format!("run -q --json - {flags}"));
    assert!(output.status.code() != Some(2), "{}", stderr(&output));
    json(&stdout(&output))
}

/// Asserts that a scenario file is refused with a message that contains every word.
#[track_caller]
fn assert_file_refused(name: &str, text: &str, words: &str) {
    let folder = folder_of(&[(name, text)]);
    for command in ["run --scenario", "scenarios --check"] {
        let output = run_in(&folder, &format!("{command} {name}"));
        ended(&output, 2);
        let told = stderr(&output);
        holds(&told, words);
        assert!(!told.contains("panicked"), "{told}");
    }
}

#[test]
fn printed_built_in_scenarios_run_the_same() {
    let folder = folder();
    let list = stdout(&run("scenarios"));
    for name in ["scale-down", "relabel", "kubelet-reject"] {
        holds(&list, name);
        let text = stdout(&run(&format!("scenarios --print {name}")));
        assert!(text.starts_with("# "), "{text}");
        write(&folder, "own.yaml", text);
        let run = |scenario: &str| {
            let flags = format!("--scenario {scenario} --engine virtual --pods 200");
            result(&folder, &flags)
        };
        let (built_in, mut own) = (run(name), run("own.yaml"));
        // The result contains the whole scenario of a file; everything else is the same.
        assert_eq!(own["settings"]["scenario"]["name"], name);
        own["settings"]["scenario"] = built_in["settings"]["scenario"].clone();
        assert_eq!(own, built_in, "{name}");
    }
}

#[test]
fn a_custom_scenario_has_settings_that_flags_override() {
    let folder = folder_of(&[("shop.toml", OWN)]);
    let own = result(&folder, "--scenario shop.toml");
    assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
    assert_eq!(own["pods"]["created"], 200);
    // Four ReplicaSets, two per second, the last one after 1.5 s; then a pod's start.
    assert_eq!(own["phases"][1]["seconds"], 3.5);
    assert_eq!(own["thresholds"][0]["met"], true);
    let flags = "--scenario shop.toml --pods 100 --pod-startup-latency 4s";
    let other = result(&folder, flags);
    assert_eq!(other["pods"]["created"], 100);
    let code = &other["outcome"]["exit_code"];
    assert_eq!(*code, 1, "pods take longer than allowed");
    assert_eq!(other["thresholds"][0]["met"], false);
}

#[test]
fn a_threshold_may_end_the_run() {
    let text = OWN.replace(
        r#"["max < 3s"]"#,
        r#"[{threshold = "max < 1s", abortOnFail = true}]"#,
    );
    let folder = folder_of(&[("shop.toml", &text)]);
    let own = result(&folder, "--scenario shop.toml");
    assert_eq!(own["outcome"]["exit_code"], 1);
    let reason = own["outcome"]["reason"].as_str().unwrap_or("");
    holds(reason, "abortOnFail | max < 1s");
    assert!(own["elapsed_seconds"].as_f64() < Some(3.5));
    // A threshold on a count ends the run too, with less than half of the pods.
    let text = OWN.replace(
        r#"pod_ready_latency = ["max < 3s"]"#,
        r#"pods_created = [{threshold = "<= 80", abortOnFail = true}]"#,
    );
    write(&folder, "shop.toml", text);
    let own = result(&folder, "--scenario shop.toml --replicasets 20");
    let reason = own["outcome"]["reason"].as_str().unwrap_or("");
    holds(reason, "pods_created <= 80");
    let created = own["pods"]["created"].as_u64().unwrap_or(0);
    assert!((81..=110).contains(&created), "{created} pods");
}

/// A ReplicationController and a ReplicaSet with the same name.
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

/// Returns the pods that a phase of a result has created and deleted.
fn pods_of(result: &Value, phase: usize) -> (u64, u64) {
    let count = |name: &str| result["phases"][phase][name].as_u64().unwrap_or(u64::MAX);
    (count("pods_created"), count("pods_deleted"))
}

#[test]
fn scenarios_recreate_and_relabel_replication_controllers() {
    let all = "name: all\nquestion: q?\nphases:\n- name: load\n  steps: [createNodes, loadInput]\n\
               - name: relabel\n  steps: [relabelPods: {pods: 100%}]\n";
    let statuses = "name: all\nquestion: q?\nphases:\n- name: load\n\
                    \x20 steps: [loadInput]\n- name: write\n  steps: [writeStatuses]\n";
    let folder = folder_of(&[
        ("web.yaml", WEB),
        ("all.yaml", all),
        ("statuses.yaml", statuses),
    ]);
    let over = |scenario: &str| {
        let flags = format!("--scenario {scenario} --engine virtual -f web.yaml");
        let own = result(&folder, &flags);
        assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
        own
    };
    let own = over("recreate");
    assert_eq!(pods_of(&own, 1), (14, 14), "the pods of both kinds");
    assert_eq!(own["pods"]["adopted"], 0);
    let own = over("all.yaml");
    assert_eq!(pods_of(&own, 1), (14, 0), "the pods of both kinds");
    assert_eq!(own["pods"]["released"], 14);
    assert_eq!(pods_of(&over("statuses.yaml"), 1), (0, 0));
}

#[test]
fn only_replica_sets_of_files_are_rolled_out() {
    let (controller, set) = WEB.split_once("---\n").expect("two documents");
    // An older revision, kept for a rollback.
    let older = set.replace("web", "older").replace("10", "0");
    let files = format!("{WEB}---\n{older}");
    let folder = folder_of(&[("web.yaml", &files), ("rc.yaml", controller)]);
    let rollout = "--scenario rollout-storm --engine virtual -f";
    let own = result(&folder, &format!("{rollout} web.yaml"));
    assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
    assert_eq!(pods_of(&own, 1), (10, 10), "only the ReplicaSet's pods");
    assert_eq!(own["writes"]["import replicasets"], 2);
    assert_eq!(own["writes"]["create replicasets"], 1, "a successor");
    let answer = own["answer"].as_str().unwrap_or("");
    assert!(!answer.contains("roll-outs"), "{answer}");

    let output = run_in(&folder, &format!("run {rollout} rc.yaml"));
    let words = "rollout-storm | ReplicaSets | the files have none";
    assert_refused(&output, words);
}

#[test]
fn a_scenario_runs_over_objects_from_files() {
    let folder = folder_of(&[("web.yaml", WEB)]);
    let own = result(&folder, "-f web.yaml --scenario up-down --engine virtual");
    assert_eq!(own["outcome"]["exit_code"], 0, "{}", own["outcome"]);
    let deleted = [0, 1, 2, 3].map(|phase| pods_of(&own, phase).1);
    assert_eq!(deleted, [0, 0, 7, 7], "half of 10 and of 4, then the rest");
    // A scenario that creates its own pods cannot run on files.
    let output = run_in(&folder, "run -f web.yaml --scenario adoption");
    assert_refused(&output, "-f");
}

#[test]
fn the_published_schema_is_up_to_date_and_always_holds() {
    let printed = stdout(&run("schema scenario"));
    let published = read("../loadgen/schemas", "scenario.schema.json");
    assert_eq!(
        printed, published,
        "publish it again: loadgen schema scenario > loadgen/schemas/scenario.schema.json"
    );
    let validator = jsonschema::validator_for(&json(&printed)).expect("a valid schema");
    let list = stdout(&run("scenarios"));
    let names = list.lines().take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.split_whitespace().next()) {
        let text = stdout(&run(&format!("scenarios --print {name}")));
        let value: Value = serde_saphyr::from_str(&text).expect("valid YAML");
        if let Err(error) = validator.validate(&value) {
            panic!("{name}: {error} at {}", error.instance_path());
        }
    }
    let wrong: Value = serde_json::json!({"name": "x", "question": "?", "phases": [{"name": 3}]});
    assert!(validator.validate(&wrong).is_err());
}

#[test]
fn errors_have_their_place() {
    let start = "name: x\nquestion: q?\n";
    for [text, words] in refused("broken scenarios") {
        assert_file_refused("bad.yaml", &format!("{start}{text}"), &words);
    }
    let unnamed = "name: My Scenario\nquestion: q?\nphases:\n- name: a\n";
    for (text, words) in [
        (unnamed, "bad.yaml:1 | lower-case"),
        ("", "bad.yaml"),
        ("name: [", "bad.yaml"),
    ] {
        assert_file_refused("bad.yaml", text, words);
    }
    let steps =
        "name = \"x\"\nquestion = \"q?\"\n[[phases]]\nname = \"a\"\nsteps = [{wait = \"5\"}]\n";
    assert_file_refused("bad.toml", steps, "bad.toml:5:18 | 5s");
    let deep = "repeat: {times: 1000, steps: [".repeat(12);
    let deep = format!(
        "phases:\n- name: a\n  steps:\n  - {deep}{}\n",
        "]}".repeat(12)
    );
    assert_file_refused("bad.yaml", &format!("{start}{deep}"), "bad.yaml");
}

#[test]
fn invalid_scenarios_are_refused_before_the_run() {
    assert_section_refused("scenarios", folder());
}

#[test]
fn numbered_steps_and_groups_need_workloads_of_one_kind() {
    let text = |more: &str, step: &str| {
        format!(
            "name: mine\nquestion: Q?\n{more}phases:\n- name: set up\n  steps:\n  - createStatefulSets: {{replicas: 1}}\n  \
             - createJobs: {{replicas: 1}}\n{step}"
        )
    };
    let scale = text("", "  - scale: {replicas: 2}\n");
    let words = "mine.yaml:3: phases: | creates workloads of several kinds | scale";
    assert_file_refused("mine.yaml", &scale, words);
    let groups = text("groups: [{podsEach: 5, share: 100%}]\n", "");
    let words = "mine.yaml:3: groups: | workloads of one kind";
    assert_file_refused("mine.yaml", &groups, words);
}

#[test]
fn a_mixed_day_lasts_a_day_for_any_number_of_replicasets() {
    // A thousand ReplicaSets, as with 50,000 pods.
    let result = result(".", "--scenario mixed-day --pods 2k --replicasets 1k");
    assert_eq!(result["outcome"]["exit_code"], 0, "{}", result["outcome"]);
    let hours = result["elapsed_seconds"].as_f64().expect("a number") / 3_600.0;
    assert!((23.0..24.0).contains(&hours), "{hours}");
}
