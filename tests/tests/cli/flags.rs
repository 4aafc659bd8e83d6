//! Flags and files that are wrong: one clear message, exit code 2, and nothing half-written is left
//! behind.

use std::fs;
use std::process::{Command, Stdio};

use podstorm_tests::command::{
    assert_refused, loadgen, run, run_in, run_with_stdin, stderr, stdout,
};
use pprof::protos::Message;
use tempfile::TempDir;

use super::{REPLICA_SET, args, names_in};

/// Asserts that a run with these flags is refused.
#[track_caller]
fn assert_flags_refused(arguments: &[&str], words: &[&str]) {
    let mut all = vec!["run"];
    all.extend(arguments);
    assert_refused(&run(&all), words);
}

/// The same of a line of flags, with the words between bars.
#[track_caller]
fn refused(flags: &str, words: &str) {
    assert_flags_refused(&args(flags), &[words]);
}

/// Runs a file of that text; the words must be in the message beside the file's name.
#[track_caller]
fn assert_file_refused(name: &str, text: impl AsRef<[u8]>, words: &[&str]) {
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join(name), text).expect("the file is written");
    let output = run_in(
        directory.path(),
        &["run", "-f", name, "--json", "result.json"],
    );
    let mut all = vec![name];
    all.extend(words);
    assert_refused(&output, &all);
    assert_eq!(names_in(directory.path()), [name], "nothing is left behind");
}

#[track_caller]
fn assert_spoilt_refused(from: &str, to: &str, words: &[&str]) {
    assert!(REPLICA_SET.contains(from), "{from:?}");
    assert_file_refused("web.yaml", REPLICA_SET.replacen(from, to, 1), words);
}

#[test]
fn no_arguments_print_the_help_and_fail() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("Usage: loadgen"),
        "{}",
        stderr(&output)
    );
    for arguments in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty());
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn scenarios_are_listed_with_their_questions() {
    let output = run(&["scenarios"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    for name in args("up-down scale-up scale-down burst churn adoption cold-start") {
        let line = text.lines().find(|line| line.starts_with(name));
        assert!(
            line.is_some_and(|line| line.contains('?')),
            "{name}: {text}"
        );
    }
}

#[test]
fn unknown_flags_and_words_are_refused() {
    refused("--nonsense", "--nonsense");
    assert_refused(&run(&["dance"]), &["dance"]);
    refused("--scenario none", "--scenario | up-down | cold-start");
    refused("--engine steam", "--engine | threads | virtual");
    refused("--behaviour careful", "--behaviour | upstream | hardened");
    refused("--seed x", "--seed");
    refused("--feature-gates Nope=true", "Nope | PodDeletionCost");
    refused("--feature-gates PodDeletionCost=1.5", "true or false");
    refused("--feature-gates LogarithmicScaleDown=false", "locked");
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let words = ["--upstream-defaults", "--kube-api-qps"];
    assert_flags_refused(&["--upstream-defaults", "--kube-api-qps", "50"], &words);
    refused("--kube-api-burst 50", "--kube-api-qps");
    refused("--engine virtual --threads 2", "--threads | virtual");
    refused("--scenario manifests", "-f");
    refused("--scenario adoption -f x.yaml", "adoption | -f");
    refused("--pods 5k -f x.yaml", "--pods | -f");
    refused("--churn-rate 5/s", "--churn-rate | up-down");
    let three = args("--pods 100 --replicasets 3 --pods-per-replicaset 10");
    assert_flags_refused(
        &three,
        &["--pods | --replicasets | --pods-per-replicaset | 30"],
    );
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let size_flags = args("--pods --replicasets --pods-per-replicaset --nodes --namespaces");
    for flag in size_flags
        .into_iter()
        .chain(["--pods-per-node", "--burst-replicas", "--threads"])
    {
        assert_flags_refused(&[flag, "0"], &[flag, "at least 1"]);
        assert_flags_refused(&[flag, "-3"], &[flag, "negative"]);
        assert_flags_refused(&[flag, "many"], &[flag, "whole number"]);
        assert_flags_refused(&[flag, "99999999999999999999999"], &[flag, "too large"]);
    }
    refused("--pods 4000m", "memory | TB");
    refused("--pods 99999999999m", "--pods");
    refused("--pods 1000 --nodes 9", "too small | --nodes 10");
    refused("--pods 3 --replicasets 4", "at least one pod");
    refused("--kube-api-qps 0", "more than zero");
    refused("--kube-api-qps nan", "--kube-api-qps");
}

#[test]
fn numbers_without_their_unit_are_refused() {
    let durations = ["--duration", "--time-limit", "--min-ready-seconds"];
    let latencies = ["--pod-startup-latency", "--api-latency", "--watch-latency"];
    for flag in durations.into_iter().chain(latencies) {
        assert_flags_refused(&[flag, "5"], &[flag, "unit is missing", "5ms", "5s"]);
        assert_flags_refused(&[flag, "-5s"], &[flag, "negative"]);
        assert_flags_refused(&[flag, "5 moons"], &[flag, "unknown unit"]);
    }
    refused("--churn-rate 20", "--churn-rate | 20/s");
    refused("--api-latency p50=3,p99=4ms", "unit is missing");
    refused("--api-latency p50=5ms,p99=4ms", "larger than p99");
    refused("--min-ready-seconds 1500ms", "whole seconds");
}

#[test]
fn broken_text_is_placed_by_line_and_column() {
    assert_spoilt_refused(
        "matchLabels: {app: web}",
        "matchLabels: {app: web",
        &["document 1 | line  | column "],
    );
    let second = format!("{REPLICA_SET}---\nkind: [\n");
    assert_file_refused("web.yaml", second, &["document 2", "line 1"]);
    assert_file_refused("web.yml", "a:\n\t- b\n", &["document 1", "line 2"]);
    assert_file_refused(
        "x.json",
        "{\"kind\": \"Pod\",\n \"spec\": }",
        &["document 1 | line 2"],
    );
    assert_file_refused("x.json", "{\"kind\": \"Pod\"", &["document 1", "line 1"]);
    assert_file_refused("x.yaml", b"a: \xff\n", &["document 1", "line 1", "UTF-8"]);
    assert_spoilt_refused(
        "  replicas: 3",
        "  replicas: 3\n  replicas: 4",
        &["replicas"],
    );
}

#[test]
fn documents_that_are_no_objects_are_refused() {
    assert_file_refused("x.yaml", "just text\n", &["document 1", "object"]);
    assert_file_refused("x.yaml", "- a\n- b\n", &["document 1", "object"]);
    assert_file_refused("x.yaml", "", &["no document"]);
    assert_file_refused("x.yaml", "# a comment\n---\n", &["no document"]);
    assert_file_refused("x.json", " \n", &["no document"]);
    assert_spoilt_refused("kind: ReplicaSet\n", "", &["document 1", "kind", "missing"]);
    assert_spoilt_refused(
        "apiVersion: apps/v1\n",
        "",
        &["apiVersion | missing | apps/v1"],
    );
    assert_spoilt_refused("apps/v1", "extensions/v1beta1", &["apiVersion", "apps/v1"]);
    let stateful = REPLICA_SET.replace("ReplicaSet", "StatefulSet");
    assert_file_refused("x.yaml", stateful, &["1 StatefulSet", "ReplicaSet"]);
}

#[test]
fn wrong_types_are_named_by_their_field() {
    assert_spoilt_refused(
        "replicas: 3",
        "replicas: three",
        &["document 1 | ReplicaSet web | spec.replicas | integer | three"],
    );
    assert_spoilt_refused("replicas: 3", "replicas: 2.5", &["spec.replicas", "2.5"]);
    assert_spoilt_refused("replicas: 3", "replicas: 99999999999", &["spec.replicas"]);
    assert_spoilt_refused(
        "labels: {app: web}",
        "labels: {app: yes}",
        &["metadata.labels | app | true"],
    );
    assert_spoilt_refused(
        "- {name: c, image: registry.example/web}",
        "  name: c",
        &["spec.template.spec.containers"],
    );
    assert_spoilt_refused(
        "{name: c, image:",
        "{name: 7, image:",
        &["spec.template.spec.containers[0].name"],
    );
    let list = r#"{"apiVersion":"v1","items":[
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
         "spec":{"containers":[{"name":"c","image":"i"}]}},
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},
         "spec":{"containers":[{"name":"c","image":"i"}]},"status":{"conditions":[3]}}],
        "kind":"List"}"#;
    assert_file_refused(
        "pods.json",
        list,
        &["document 1 | Pod b | items[1].status.conditions[0]"],
    );
}

#[test]
fn objects_that_the_api_server_would_refuse_are_refused() {
    assert_spoilt_refused(
        "labels: {app: web}\n    spec",
        "labels: {app: other}\n    spec",
        &["document 1 | ReplicaSet web | spec.template.metadata.labels | selector"],
    );
    assert_spoilt_refused("name: web", "name: Web_1", &["metadata.name", "Web_1"]);
    assert_spoilt_refused("name: web\n", "{}\n", &["document 1"]);
    assert_spoilt_refused("  name: web\n", "", &["metadata.name"]);
    assert_spoilt_refused(
        "labels: {app: web}",
        "labels: {app: 'no blanks'}",
        &["metadata.labels | no blanks"],
    );
    assert_spoilt_refused(
        "labels: {app: web}",
        "labels: {'-a-': web}",
        &["metadata.labels"],
    );
    assert_spoilt_refused("replicas: 3", "replicas: -1", &["spec.replicas"]);
    assert_spoilt_refused(
        "  selector:\n    matchLabels: {app: web}\n",
        "",
        &["spec.selector"],
    );
    assert_spoilt_refused(
        "name: web\n",
        "name: web\n  uid: not-a-uid\n",
        &["metadata.uid | not-a-uid"],
    );
    assert_spoilt_refused(
        "name: web\n",
        "name: web\n  uid: 7\n",
        &["metadata.uid | 7"],
    );
    assert_spoilt_refused(
        "name: web\n",
        "name: web\n  creationTimestamp: yesterday\n",
        &["metadata.creationTimestamp | yesterday"],
    );
}

#[test]
fn two_objects_of_one_name_are_refused() {
    let twice = format!("{REPLICA_SET}---\n{REPLICA_SET}");
    assert_file_refused(
        "web.yaml",
        twice,
        &["document 2 | ReplicaSet default/web | twice | document 1"],
    );
    let other_namespace = REPLICA_SET.replace("name: web", "name: web\n  namespace: default");
    let twice = format!("{REPLICA_SET}---\n{other_namespace}");
    assert_file_refused("web.yaml", twice, &["document 2", "twice"]);

    let directory = TempDir::new().unwrap();
    for name in ["a.yaml", "b.yaml"] {
        fs::write(directory.path().join(name), REPLICA_SET).unwrap();
    }
    let output = run_in(directory.path(), &["run", "-f", "a.yaml", "-f", "b.yaml"]);
    assert_refused(&output, &["b.yaml", "document 1", "twice", "a.yaml"]);
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    assert_refused(
        &run_in(path, &["run", "-f", "none.yaml"]),
        &["none.yaml | no such file"],
    );
    assert_refused(&run_in(path, &["run", "-f", "."]), &["directory"]);
    assert_refused(
        &run_in(path, &["run", "-f", "-"]),
        &["standard input | no document"],
    );
    assert_refused(
        &run_in(path, &["run", "-f", "-", "-f", "-"]),
        &["standard input"],
    );
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    fs::create_dir(path.join("taken")).unwrap();
    fs::write(path.join("web.yaml"), REPLICA_SET).unwrap();
    fs::write(path.join("file"), "").unwrap();
    for (output, word) in [
        ("taken", "directory"),
        ("new/", "directory"),
        ("new/.", "directory"),
        ("none/result.json", "no directory none"),
        ("file/result.json", "can't be written"),
        ("web.yaml", "would overwrite the file that -f reads"),
    ] {
        for flag in ["--json", "--flamegraph", "--pprof", "--folded"] {
            let result = run_in(path, &["run", "-f", "web.yaml", flag, output]);
            assert_refused(&result, &[flag, output, word]);
        }
    }
    assert_eq!(names_in(path), ["file", "taken", "web.yaml"]);
    assert_eq!(
        fs::read_to_string(path.join("web.yaml")).unwrap(),
        REPLICA_SET
    );
}

#[test]
fn two_outputs_in_one_place_are_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    fs::create_dir(path.join("sub")).unwrap();
    for (one, other) in [
        ("--flamegraph", "--pprof"),
        ("--json", "--folded"),
        ("--folded", "--flamegraph"),
    ] {
        let result = run_in(path, &["run", one, "out", other, "sub/../out"]);
        assert_refused(&result, &[one, other, "out", "name two files"]);
        let result = run_in(path, &["run", one, "-", other, "-"]);
        assert_refused(&result, &[one, other, "standard output"]);
    }
    assert_eq!(names_in(path), ["sub"]);
}

#[test]
fn a_sampling_rate_must_make_sense() {
    for rate in ["0", "-1", "1001", "often"] {
        assert_flags_refused(
            &["--folded", "-", "--profile-hertz", rate],
            &["--profile-hertz"],
        );
    }
    refused("--profile-hertz 99", "--flamegraph | --folded");
}

/// A run of some tenths of a second of processor time, profiled in each form.
#[test]
fn a_profiled_run_leaves_flamegraph_profile_and_stacks() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let arguments = "run -q --engine virtual --pods 20k --flamegraph f.svg --pprof f.pb \
                     --folded f.txt --json f.json";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let output = run_in(path, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(names_in(path), ["f.json", "f.pb", "f.svg", "f.txt"]);

    let stacks = fs::read_to_string(path.join("f.txt")).unwrap();
    let mut samples = 0;
    for line in stacks.lines() {
        let (_, count) = line.rsplit_once(' ').expect("a stack and its samples");
        samples += count.parse::<u64>().expect("samples are a number");
    }
    assert!(samples > 0);
    // Unwound to the root, and from there on named.
    let rooted = stacks
        .lines()
        .filter(|line| line.contains("podstorm_loadgen::run::run;"));
    assert!(
        rooted.count() * 10 >= stacks.lines().count() * 9,
        "{}",
        stacks.lines().next().unwrap_or_default()
    );

    let svg = fs::read_to_string(path.join("f.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    assert!(svg.contains("podstorm_loadgen::run::run ("));
    assert!(svg.contains("--engine virtual"), "the title is the command");

    let profile = pprof::protos::Profile::decode(&*fs::read(path.join("f.pb")).unwrap());
    let profile = profile.expect("a profile of pprof");
    let counted: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
    assert_eq!(u64::try_from(counted).unwrap(), samples);
    let names = profile.string_table;
    assert!(
        names.iter().any(|name| name.starts_with("podstorm::")),
        "{names:?}"
    );
}

#[test]
fn a_run_too_short_to_be_sampled_says_so() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    fs::write(path.join("web.yaml"), REPLICA_SET).unwrap();
    fs::write(path.join("f.svg"), "an older one").unwrap();
    let arguments = args("run -q -f web.yaml --engine virtual --flamegraph f.svg");
    let output = run_in(path, &[&arguments[..], &["--profile-hertz", "1"]].concat());
    assert_refused(&output, &["no sample", "1000.0 ms", "--profile-hertz"]);
    assert_eq!(names_in(path), ["f.svg", "web.yaml"]);
    assert_eq!(
        fs::read_to_string(path.join("f.svg")).unwrap(),
        "an older one"
    );
}

#[test]
fn effective_settings_are_printed_and_read_back() {
    let output = run(&args(
        "run --pods 5k --api-latency 5ms --print-scenario=json",
    ));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let settings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(settings["pods"], 5_000);
    assert_eq!(settings["replicasets"], 100);
    assert_eq!(settings["nodes"], 250);
    assert_eq!(settings["api-latency"], "5ms");
    assert_eq!(settings["behaviour"], "upstream");
    let yaml = stdout(&run(&["run", "--pods", "5k", "--print-scenario"]));
    assert!(yaml.lines().any(|line| line == "pods: 5000"), "{yaml}");
}

/// A closed pipe, made before the command starts so that no timing decides.
#[test]
fn a_closed_pipe_ends_quietly() {
    for arguments in [
        &["--help"][..],
        &["scenarios"],
        &["run", "--print-scenario"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(loadgen())
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(stderr(&output), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn standard_input_is_read_in_either_format() {
    let arguments = ["run", "-f", "-", "--print-scenario=json"];
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    for text in [
        REPLICA_SET,
        json,
        &format!("\n  {json}{}", json.replace("\"a\"", "\"b\"")),
    ] {
        let output = run_with_stdin(&arguments, text);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = run_with_stdin(&arguments, "{\"kind\": ");
    assert_refused(&output, &["standard input", "document 1", "line 1"]);
}
