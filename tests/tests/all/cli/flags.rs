//! Invalid flags and files: one clear message, exit code 2, and no partial output.

use std::fs;
use std::process::Stdio;

use podstorm_loadgen::scenario::Scenario;
use podstorm_tests::command::{
    assert_refused, command, ended, holds, run, run_in, run_with_stdin, stderr, stdout,
};
use pprof::protos::Message;

use super::{
    REPLICA_SET, assert_section_refused, folder, folder_of, json, names_in, read, refused, write,
};

/// Runs a file with this text, and asserts that the message contains the words and the file's name.
#[track_caller]
fn assert_file_refused(name: &str, text: impl AsRef<[u8]>, words: &str) {
    let folder = folder();
    write(&folder, name, text);
    let output = run_in(&folder, &format!("run -f {name} --json result.json"));
    assert_refused(&output, &format!("{name} | {words}"));
    assert_eq!(names_in(&folder), [name], "no output remains");
}

#[test]
fn no_arguments_print_the_help_and_fail() {
    let output = run("");
    ended(&output, 2);
    holds(&stderr(&output), "Usage: loadgen");
    for line in ["--help", "run --help", "--version"] {
        let output = run(line);
        assert!(!ended(&output, 0).is_empty());
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn scenarios_are_listed_with_their_questions() {
    let text = ended(&run("scenarios"), 0);
    for name in Scenario::names() {
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(name));
        let is_question = line.is_some_and(|line| line.contains('?'));
        assert!(is_question, "{name}: {text}");
    }
}

#[test]
fn invalid_flags_and_words_are_refused() {
    assert_section_refused("flags", folder());
    let unlike = run("dance");
    assert!(!stderr(&unlike).contains("tip"), "{}", stderr(&unlike));
    // The maximum of pods per node takes no more memory than any other value.
    ended(
        &run("run --scenario up-down -q --pods 20 --pods-per-node 4294967295"),
        0,
    );
}

#[test]
fn invalid_values_of_flags_are_refused() {
    const SIZES: &str = "--pods --replicasets --pods-per-replicaset --nodes --zones --namespaces \
                         --pods-per-node --burst-replicas --threads";
    const DURATIONS: &str = "--duration --time-limit --min-ready-seconds --pod-startup-latency \
                             --api-latency --watch-latency";
    for (flags, value, words) in [
        (SIZES, "0", "at least 1"),
        (SIZES, "-3", "negative"),
        (SIZES, "many", "whole number"),
        (SIZES, "99999999999999999999999", "too large"),
        (DURATIONS, "5", "unit is missing | 5ms | 5s"),
        (DURATIONS, "-5s", "negative"),
        (DURATIONS, "'5 moons'", "unknown unit"),
    ] {
        for flag in flags.split_whitespace() {
            let output = run(&format!("run {flag} {value}"));
            assert_refused(&output, &format!("{flag} | {words}"));
        }
    }
}

#[test]
fn files_without_valid_objects_are_refused_with_the_place() {
    for [from, to, words] in refused("broken manifests") {
        assert!(REPLICA_SET.contains(&from), "{from:?}");
        assert_file_refused("web.yaml", REPLICA_SET.replacen(&from, &to, 1), &words);
    }
    for [name, text, words] in refused("broken files") {
        assert_file_refused(&name, text, &words);
    }
    let second = format!("{REPLICA_SET}---\nkind: [\n");
    assert_file_refused("web.yaml", second, "document 2 | line 1");
    let not_utf8 = "document 1 | line 1 | UTF-8";
    assert_file_refused("x.yaml", b"a: \xff\n", not_utf8);
    let daemons = REPLICA_SET.replace("ReplicaSet", "DaemonSet");
    assert_file_refused("x.yaml", daemons, "1 DaemonSet | ReplicaSet");
    let list = r#"{"apiVersion":"v1","items":[
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
         "spec":{"containers":[{"name":"c","image":"i"}]}},
        {"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},
         "spec":{"containers":[{"name":"c","image":"i"}]},"status":{"conditions":[3]}}],
        "kind":"List"}"#;
    let place = "document 1 | Pod b | items[1].status.conditions[0]";
    assert_file_refused("pods.json", list, place);
    let words = "document 2 | ReplicaSet default/web | is a duplicate of document 1";
    let twice = format!("{REPLICA_SET}---\n{REPLICA_SET}");
    assert_file_refused("web.yaml", twice, words);
    let other_namespace = REPLICA_SET.replace("name: web", "name: web\n  namespace: default");
    let twice = format!("{REPLICA_SET}---\n{other_namespace}");
    assert_file_refused("web.yaml", twice, "document 2 | is a duplicate");
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_run() {
    let folder = folder_of(&[("web.yaml", REPLICA_SET), ("file", "")]);
    fs::create_dir(folder.path().join("taken")).unwrap();
    for (output, words) in [
        ("taken", "directory"),
        ("new/", "directory"),
        ("new/.", "directory"),
        ("none/such/result.json", "no directory none/such"),
        ("file/result.json", "can't be written"),
        ("web.yaml", "would overwrite the file that -f reads"),
    ] {
        for flag in [
            "--json",
            "--flamegraph",
            "--pprof",
            "--folded",
            "--report",
            "--csv",
            "--junit",
            "--perf-dash",
        ] {
            let result = run_in(&folder, &format!("run -f web.yaml {flag} {output}"));
            assert_refused(&result, &format!("{flag} | {output} | {words}"));
        }
    }
    assert_eq!(names_in(&folder), ["file", "taken", "web.yaml"]);
    assert_eq!(read(&folder, "web.yaml"), REPLICA_SET);
}

/// A run of some tenths of a second of CPU time, profiled in each format.
#[test]
fn a_profiled_run_leaves_flamegraph_profile_and_stacks() {
    let folder = folder();
    let line = "run --scenario up-down -q --engine virtual --pods 20k --flamegraph f.svg --pprof f.pb \
                --folded f.txt --json f.json";
    ended(&run_in(&folder, line), 0);
    assert_eq!(names_in(&folder), ["f.json", "f.pb", "f.svg", "f.txt"]);

    let stacks = read(&folder, "f.txt");
    let mut samples = 0;
    for line in stacks.lines() {
        let (_, count) = line
            .rsplit_once(' ')
            .expect("a stack and its number of samples");
        samples += count.parse::<u64>().expect("a number of samples");
    }
    assert!(samples > 0);
    // Unwound to the root, with symbols from there on.
    let is_rooted = |line: &&str| line.contains("podstorm_loadgen::run::run;");
    let rooted = stacks.lines().filter(is_rooted).count();
    let first = stacks.lines().next().unwrap_or_default();
    assert!(rooted * 10 >= stacks.lines().count() * 9, "{first}");

    let svg = read(&folder, "f.svg");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    assert!(svg.contains("podstorm_loadgen::run::run ("));
    assert!(svg.contains("--engine virtual"), "the title is the command");

    let profile = pprof::protos::Profile::decode(&*fs::read(folder.path().join("f.pb")).unwrap());
    let profile = profile.expect("a profile of pprof");
    let counted: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
    assert_eq!(u64::try_from(counted).unwrap(), samples);
    let names = profile.string_table;
    let is_own = |name: &String| name.starts_with("podstorm::");
    assert!(names.iter().any(is_own), "{names:?}");
}

#[test]
fn a_run_too_short_to_be_sampled_is_reported() {
    let folder = folder_of(&[("web.yaml", REPLICA_SET), ("f.svg", "an older one")]);
    let line = "run -q -f web.yaml --engine virtual --flamegraph f.svg --profile-hertz 1";
    let words = "no sample | 1000.0 ms | --profile-hertz";
    assert_refused(&run_in(&folder, line), words);
    assert_eq!(names_in(&folder), ["f.svg", "web.yaml"]);
    assert_eq!(read(&folder, "f.svg"), "an older one");
}

#[test]
fn effective_settings_are_printed_and_read_back() {
    let output = run("run --scenario up-down --pods 5k --api-latency 5ms --print-scenario=json");
    let settings = json(&ended(&output, 0));
    assert_eq!(settings["pods"], 5_000);
    assert_eq!(settings["replicasets"], 100);
    assert_eq!(settings["nodes"], 250);
    assert_eq!(settings["api-latency"], "5ms");
    assert_eq!(settings["behaviour"], "upstream");
    let yaml = stdout(&run("run --scenario up-down --pods 5k --print-scenario"));
    assert!(yaml.lines().any(|line| line == "pods: 5000"), "{yaml}");
}

/// The pipe is closed before the command starts, so the test does not depend on timing.
#[test]
fn a_closed_pipe_ends_quietly() {
    for line in ["--help", "scenarios", "run --print-scenario"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(line);
        let output = command.stdout(writer).stderr(Stdio::piped()).output();
        let output = output.unwrap();
        assert_eq!(stderr(&output), "", "{line}");
        ended(&output, 0);
    }
}

#[test]
fn standard_input_may_have_either_format() {
    let line = "run -f - --print-scenario=json";
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let two = format!("\n  {json}{}", json.replace("\"a\"", "\"b\""));
    for text in [REPLICA_SET, json, &two] {
        ended(&run_with_stdin(line, text), 0);
    }
    let words = "standard input | document 1 | line 1";
    assert_refused(&run_with_stdin(line, "{\"kind\": "), words);
}
