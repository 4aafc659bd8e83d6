//! Whole runs through the `loadgen` command: what a user gets when all goes well, when time runs
//! out, and when Ctrl-C is pressed.

use std::fs;
use std::path::Path;

use podstorm_tests::command::{run, run_in, run_with_stdin, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

use super::args;

/// Runs with `--json -` and gives the result.
#[track_caller]
fn result_of(arguments: &[&str]) -> Value {
    let mut all = vec!["run", "--quiet", "--json", "-"];
    all.extend(arguments);
    let output = run(&all);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    serde_json::from_slice(&output.stdout).expect("standard output is JSON alone")
}

#[test]
fn up_down_can_be_audited_on_both_engines() {
    for engine in ["threads", "virtual"] {
        let result = result_of(&["--engine", engine, "--pods", "500"]);
        for what in ["created", "bound", "ready", "deleted", "peak"] {
            assert_eq!(result["pods"][what], 500, "{engine}: {what}");
        }
        assert_eq!(result["excess_pods_created"], 0);
        assert_eq!(result["writes"]["create pods"], 500);
        assert_eq!(result["outcome"]["converged"], true);
        assert_eq!(result["outcome"]["exit_code"], 0);
        assert_eq!(result["engine"], engine);
        assert_eq!(result["settings"]["size"]["replicasets"], 10);
        assert_eq!(result.get("host").is_some(), engine == "threads");
    }
    let result = result_of(&["--engine", "virtual", "--pods", "50", "--host-metrics"]);
    assert!(result["host"]["wall_seconds"].is_number());
}

#[test]
fn the_hardened_behaviour_is_named_wherever_settings_are() {
    let arguments = ["run", "--behaviour", "hardened"];
    let printed = |format| stdout(&run(&[&arguments[..], &[format]].concat()));
    let yaml = printed("--print-scenario");
    assert!(
        yaml.lines().any(|line| line == "behaviour: hardened"),
        "{yaml}"
    );
    for engine in ["virtual", "threads"] {
        let size = ["--pods", "60", "--engine", engine, "--json", "-", "--quiet"];
        let output = run(&[&arguments[..], &size].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["behaviour"], "hardened");
        assert_eq!(result["settings"]["behaviour"], "hardened");
        assert_eq!(result["excess_pods_created"], 0);
    }
    let report = run(&[&arguments[..], &["--pods", "60", "--engine", "virtual"]].concat());
    let text = format!("{}{}", stdout(&report), stderr(&report));
    assert!(text.contains("hardened behaviour"), "{text}");
}

#[test]
fn the_result_has_its_members_by_name() {
    let result = result_of(&["--engine", "virtual", "--pods", "50"]);
    for name in args(
        "schema_version version scenario engine behaviour feature_gates seed settings outcome
            pods excess_pods_created wasted_work api_calls syncs convergence_seconds
            queue_duration_seconds work_duration_seconds events watch_events resource_version
            phases input",
    ) {
        assert!(result.get(name).is_some(), "{name}");
    }
    for quantile in ["p50", "p90", "p99", "p999", "max"] {
        assert!(
            result["convergence_seconds"][quantile].is_number(),
            "{quantile}"
        );
    }
}

#[test]
fn a_virtual_run_is_its_seed() {
    let bytes = |seed: &str| {
        let arguments = [
            "run",
            "-q",
            "--json",
            "-",
            "--engine",
            "virtual",
            "--pods",
            "300",
            "--seed",
            seed,
            "--api-latency",
            "p50=3ms,p99=40ms",
            "--watch-latency",
            "uniform:1ms,9ms",
        ];
        run(&arguments).stdout
    };
    let first = bytes("7");
    assert!(!first.is_empty());
    assert!(first == bytes("7"), "the same seed gives the same bytes");
    assert!(first != bytes("8"));
}

#[test]
fn every_scenario_meets_its_condition() {
    for scenario in args("up-down scale-up scale-down burst churn adoption cold-start") {
        let result = result_of(&[
            "--engine",
            "virtual",
            "--pods",
            "400",
            "--scenario",
            scenario,
        ]);
        assert_eq!(result["scenario"], scenario);
        assert_eq!(result["outcome"]["converged"], true, "{scenario}");
    }
}

#[test]
fn a_run_that_is_not_done_in_time_fails_and_reports() {
    let directory = TempDir::new().unwrap();
    let output = run_in(
        directory.path(),
        &args(
            "run --engine virtual --pods 500 --api-latency 100ms --time-limit 150ms --json result.json",
        ),
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("FAILED"), "{}", stdout(&output));
    let result = read_json(&directory.path().join("result.json"));
    assert_eq!(result["outcome"]["exit_code"], 1);
    assert_ne!(result["outcome"]["reason"], "");
}

#[test]
fn quiet_is_quiet_and_loud_is_one_screen() {
    let output = run(&["run", "-q", "--engine", "virtual", "--pods", "50"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        (stdout(&output), stderr(&output)),
        (String::new(), String::new())
    );
    let output = run(&args("run --engine virtual --pods 500 --upstream-defaults"));
    let report = stdout(&output);
    assert!(report.starts_with("up-down: converged in "), "{report}");
    assert!(report.contains("20 QPS set the pace"), "{report}");
    assert!(report.lines().count() <= 30, "{report}");
    assert!(
        report.lines().all(|line| line.chars().count() <= 100),
        "{report}"
    );
    // Not a terminal: plain lines, nothing redrawn.
    assert!(
        !stderr(&output).contains(['\r', '\u{1b}']),
        "{}",
        stderr(&output)
    );
    // The report makes way for the JSON.
    let output = run(&["run", "--engine", "virtual", "--pods", "50", "--json", "-"]);
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
    assert!(stderr(&output).contains("converged"), "{}", stderr(&output));
}

#[test]
fn examples_run_as_they_are() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/examples");
    let files = ["frontend.yaml", "nginx-rc.yaml"].map(|name| examples.join(name));
    let files = files.each_ref().map(|path| path.to_str().unwrap());
    let result = result_of(&["--engine", "virtual", "-f", files[0], "-f", files[1]]);
    assert_eq!(result["scenario"], "manifests");
    assert_eq!(result["input"]["taken"]["ReplicaSet"], 1);
    assert_eq!(result["input"]["taken"]["ReplicationController"], 1);
    assert_eq!(result["input"]["taken"]["Pod"], 1);
    // Three and three, one of them by hand, which the files bring.
    assert_eq!(result["pods"]["created"], 5);
    assert_eq!(result["writes"]["import pods"], 1);
    assert_eq!(result["pods"]["adopted"], 1);
}

#[test]
fn a_dump_is_taken_as_it_is_and_the_rest_is_counted() {
    let uid = |n: u32| format!("7f420cbd-206a-47ea-a64a-{n:012}");
    let pod = |n: u32| {
        serde_json::json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("web-{n}"), "namespace": "shop", "uid": uid(n),
                "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": "web", "uid": uid(0), "controller": true}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-02T03:04:09Z"}]},
        })
    };
    let template = serde_json::json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let dump = serde_json::json!({
        "apiVersion": "v1",
        "items": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet",
             "metadata": {"name": "web", "namespace": "shop", "uid": uid(0)},
             "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                      "template": template}},
            pod(1), pod(2), pod(3),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
             "status": {"allocatable": {"pods": "10"}}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}},
        ],
        "kind": "List",
    });
    let arguments = ["run", "--engine", "virtual", "-f", "-", "--json", "-"];
    let output = run_with_stdin(&arguments, &dump.to_string());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["input"]["ignored"]["Service"], 1);
    assert_eq!(result["input"]["taken"]["Pod"], 3);
    assert_eq!(
        result["pods"]["created"], 0,
        "none beside those of the dump"
    );
    assert_eq!(result["input"]["pods"]["ready"], 3);
    assert_eq!(result["pods"]["deleted"], 1);
    assert!(
        stderr(&output).contains("Service: 1 (not simulated)"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn kinds_without_a_type_of_their_own_are_taken_from_a_dump_and_own_pods() {
    let uid = |number: u32| format!("5a8d3c1e-9a42-4f6b-8c55-{number:012}");
    let pod = |number: u32, owner: u32| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("p-{number}"), "namespace": "shop", "uid": uid(number),
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "map",
                                     "uid": uid(owner), "controller": true}],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })
    };
    let map = |data: Value| {
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "map", "namespace": "shop", "uid": uid(9)}})
    };
    let list = |items: Vec<Value>| {
        serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    };
    let arguments = ["run", "--engine", "virtual", "-f", "-", "--json", "-"];
    // Whether the map of the other pods is gone shows only where there are any.
    for (items, deleted) in [
        (vec![pod(1, 9), pod(2, 8)], 0),
        (
            vec![pod(1, 9), pod(2, 8), map(serde_json::json!({"a": "b"}))],
            1,
        ),
    ] {
        let maps = items.len() - 2;
        let output = run_with_stdin(&arguments, &list(items));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        let taken = &result["input"]["taken"]["ConfigMap"];
        assert_eq!(taken.as_u64().unwrap_or(0), maps as u64);
        assert_eq!(result["pods"]["deleted"], deleted, "{maps}");
    }
    let items = vec![pod(1, 9), pod(2, 8), map(serde_json::json!({}))];
    let output = run_with_stdin(&["run", "--dry-run", "-f", "-"], &list(items));
    let words = "1 pods whose owner isn't in the files";
    assert!(stdout(&output).contains(words), "{}", stdout(&output));
    let broken = list(vec![pod(1, 9), map(serde_json::json!({"a": 1}))]);
    let output = run_with_stdin(&arguments, &broken);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    for words in ["ConfigMap shop/map", "data"] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let output = run_with_stdin(&arguments, &list(vec![map(serde_json::json!({}))]));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let words = "nothing to simulate: found 1 ConfigMap";
    assert!(stderr(&output).contains(words), "{}", stderr(&output));
}

#[test]
fn a_dump_is_counted_in_report_and_page_with_the_pods_that_came_unready() {
    let billing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/examples/billing.yaml");
    let folder = TempDir::new().expect("a directory");
    for engine in ["threads", "virtual"] {
        let arguments = ["run", "--engine", engine, "--report", "page.html", "-f"];
        let output = run_in(
            folder.path(),
            &[&arguments[..], &[billing.to_str().unwrap()]].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report = stdout(&output);
        for words in [
            "12 pods wanted, 1 ReplicaSet, 4 nodes, 1 namespace",
            "0 pods were created",
            "not ready (",
            "of them at the end too)",
        ] {
            assert!(report.contains(words), "{words}: {report}");
        }
        let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
        for words in ["4 nodes, 1 namespace", "Pods of the input", "not ready"] {
            assert!(page.contains(words), "{words}");
        }
    }
}

#[test]
fn a_dry_run_says_what_the_files_hold_and_runs_nothing() {
    let billing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/examples/billing.yaml");
    let folder = TempDir::new().expect("a directory");
    let more = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\napiVersion: v1\nkind: Pod\n\
                metadata:\n  name: lost\n  ownerReferences:\n  - {apiVersion: apps/v1, kind: ReplicaSet, \
                name: gone, controller: true, uid: 5a8d3c1e-9a42-4f6b-8c55-0d7e62b1f9a4}\nspec: \
                {containers: [{name: c, image: i}]}\nstatus: {phase: Pending}\n";
    fs::write(folder.path().join("more.yaml"), more).expect("the file is written");
    let files = ["-f", billing.to_str().unwrap(), "-f", "more.yaml"];
    let arguments = [&["run", "--dry-run", "--json", "result.json"], &files[..]].concat();
    let output = run_in(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    let text = stdout(&output);
    for words in [
        "Pod: 13, ReplicaSet: 1",
        "Service: 1 (not simulated)",
        "4 nodes",
        "Pending without a node: ",
        "ReplicaSet shop/web says 0 pods, 0 ready, and has 12,",
        "1 pods whose owner isn't in the files",
        "nothing was run",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!folder.path().join("result.json").exists());
    let output = run(&["run", "--dry-run"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "without files there is nothing to sum up"
    );
}

#[test]
fn an_unknown_field_is_warned_of_and_the_run_goes_on() {
    let text = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  replicaz: 3\n  \
                selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    \
                spec: {containers: [{name: c, image: i}]}\n";
    let arguments = ["run", "--engine", "virtual", "-f", "-"];
    let output = run_with_stdin(&arguments, text);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = "warning: standard input: document 1 (ReplicaSet default/web): unknown field \
                \"spec.replicaz\" is left unread; did you mean replicas?\n";
    assert!(stderr(&output).starts_with(told), "{}", stderr(&output));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_reports_on_what_ran() {
    let directory = TempDir::new().unwrap();
    // Hours of work in real time: a signal ends it.
    let arguments = args("run --pods 1000 --kube-api-qps 1 --json result.json");
    let (output, rest) =
        podstorm_tests::command::run_until_interrupted(&arguments, directory.path());
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
    assert!(
        stdout(&output).starts_with("up-down: interrupted after "),
        "{}",
        stdout(&output)
    );
    let result = read_json(&directory.path().join("result.json"));
    assert_eq!(result["outcome"]["exit_code"], 130);
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing but the result"
    );
}

/// The report meets a pipe without a reader.
#[test]
fn a_report_that_nobody_reads_harms_nothing() {
    let directory = TempDir::new().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(podstorm_tests::command::loadgen())
        .args(args("run --engine virtual --pods 50 --json result.json"))
        .current_dir(directory.path())
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    assert_eq!(
        read_json(&directory.path().join("result.json"))["scenario"],
        "up-down"
    );
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("the result is there");
    serde_json::from_str(&text).expect("the result is JSON")
}
