//! The fault simulator and the scenario `stale-watch` on the command line: known bugs, seeds,
//! schedules, and refused input.

use std::process::Output;

use podstorm_sim::faults::FaultClass;
use podstorm_tests::command::{
    assert_refused, command, ended, holds, run, run_in, run_until_interrupted, run_with_stdin,
    stderr, stdout, told,
};
use serde_json::Value;

use super::{EXAMPLES, assert_section_refused, folder, folder_of, json_in, refused, write};

/// The known bugs, each with the number that shows it under upstream's behaviour.
const BUGS: [(&str, &str); 16] = [
    ("m01-stale-watch", "10  pods created in excess"),
    (
        "m02-unseen-pods",
        "300.008 s  longest time that a ReplicaSet",
    ),
    (
        "m06-rejected-pods",
        "464  most pods created within a minute",
    ),
    ("m07-stale-restart", "7  pods created in excess"),
    ("m08-failed-pods", "210  most pods at once"),
    (
        "m09-terminating-namespace",
        "303.510 s  longest time that a ReplicaSet",
    ),
    ("m10-lost-answers", "5  pods created in excess"),
    ("m11-delete-by-name", "1  deletes that hit a pod other"),
    (
        "m12-expectation-by-name",
        "1  deletes that left too few pods",
    ),
    ("m13-no-active-pods", "4  statuses rejected as invalid"),
    ("m14-gone-pod", "2  pods counted again"),
    ("m15-orphans-kept", "684  longest time that an ended pod"),
    ("m16-two-outcomes", "13  statuses rejected as invalid"),
    ("m17-broken-pod", "660  longest time that a broken pod"),
    ("m18-broken-budget", "660  longest time that a broken pod"),
    ("m19-early-completion", "1  rollouts completed too early"),
];

const GATE_ON: &str = "StaleControllerConsistencyReplicaSet=true";

/// A valid schedule, which tests modify.
const SCHEDULE: &str = "\
version: 4
workload: replicaset
seed: 1
objects:
  - {name: web, replicas: 3}
cluster:
  nodes: 3
  workers: 2
  burst-replicas: 500
  api-ms: 5
  watch-ms: 5
  startup-ms: 100
  termination-ms: 100
disturb-ms: 5000
steps:
  - at-ms: 1000
    class: pod-kill
    action: {kill: {replica-set: web, percent: 100, how: deleted}}
";

/// Replays the schedule in `text`.
fn replay(text: &str, more: &str) -> Output {
    let folder = folder_of(&[("mine.yaml", text)]);
    run_in(&folder, &format!("replay --schedule mine.yaml {more}"))
}

/// Runs `stale-watch`, which must succeed. Returns its report and its result.
#[track_caller]
fn stale_watch(more: &str) -> (String, Value) {
    let folder = folder();
    let line = format!("run --scenario stale-watch --json result.json {more}");
    let text = ended(&run_in(&folder, &line), 0);
    // Each command is on one line.
    let fits = |line: &str| line.starts_with("    loadgen") || line.chars().count() <= 100;
    assert!(text.lines().all(fits), "{text}");
    (text, json_in(&folder, "result.json"))
}

#[test]
fn known_bugs_are_listed_with_their_threads() {
    let text = told(&run("bugs"));
    for (name, _) in BUGS {
        holds(&text, name);
    }
    for thread in ["129795", "72593", "131116", "59848", "88851"] {
        holds(&text, &format!("kubernetes#{thread}"));
    }
    let fits = |line: &str| line.chars().count() <= 100;
    assert!(text.lines().all(fits), "{text}");
}

#[test]
fn each_bug_shows_its_number_and_is_replayed_stepwise() {
    for (name, figure) in BUGS {
        let id = &name[..3];
        let both = told(&run(&format!("bugs {id}")));
        holds(&both, &format!("{figure} | hardened"));
        let upstream = told(&run(&format!("replay --bug {id}")));
        let words = "upstream behaviour: converged | == disturb";
        holds(&upstream, &format!("{words} | {figure}"));
        let line = format!("replay --bug {name} --behaviour hardened");
        let hardened = told(&run(&line));
        holds(&hardened, "hardened behaviour: converged");
        let is_left = matches!(id, "m06" | "m08");
        assert_eq!(hardened.contains(figure), is_left, "{name}");
    }
}

#[test]
fn a_printed_bug_is_an_editable_schedule() {
    let schedule = told(&run("replay --bug m10 --print-schedule"));
    let text = told(&replay(&schedule, "--behaviour upstream"));
    holds(&text, "5 in excess");
}

#[test]
fn unknown_bugs_classes_and_schedules_are_refused() {
    assert_section_refused("fault simulator", folder());
}

#[test]
fn a_stale_watch_creates_every_pod_twice_without_the_gate() {
    let (text, result) = stale_watch("");
    // One more for each of the forty ReplicaSets whose first answer was lost.
    assert_eq!(result["excess_pods_created"], 2_040);
    assert_eq!(result["phases"][2]["excess_pods_created"], 2_000);
    assert_eq!(result["engine"], "virtual");
    let gate = &result["feature_gates"]["StaleControllerConsistencyReplicaSet"];
    assert_eq!(gate, false);
    assert_eq!(result["outcome"]["converged"], true);
    let words = "kubernetes#129795 | excess_pods_created 2,040 = 2,000 | --behaviour hardened";
    holds(&text, words);
    holds(&text, GATE_ON);
}

#[test]
fn the_gate_fixes_the_stale_watch_but_not_lost_answers() {
    let (text, result) = stale_watch(&format!("--feature-gates {GATE_ON}"));
    assert_eq!(result["excess_pods_created"], 40);
    assert_eq!(result["phases"][2]["excess_pods_created"], 0);
    holds(&text, "The gate does not prevent this");
}

#[test]
fn the_hardened_behaviour_creates_no_excess_pods() {
    for gates in ["".to_owned(), format!("--feature-gates {GATE_ON}")] {
        let (text, result) = stale_watch(&format!("--behaviour hardened {gates}"));
        assert_eq!(result["excess_pods_created"], 0);
        assert_eq!(result["pods"]["created"], 4_000);
        holds(&text, "excess_pods_created 0");
    }
}

#[test]
fn stale_watch_has_the_usual_sizes_and_is_reproducible() {
    let sized = "--pods 100 --replicasets 4 --seed 7";
    let (text, result) = stale_watch(sized);
    assert_eq!(result["excess_pods_created"], 104);
    holds(&text, "--pods 100 --replicasets 4");
    assert_eq!(stale_watch(sized).1, result);
    let slow = "--pods 100 --replicasets 4 --api-latency p50=5ms,p99=80ms --watch-latency \
                uniform:1ms,50ms --pod-startup-latency 2s --kube-api-qps 20";
    assert_eq!(stale_watch(slow).1["excess_pods_created"], 104);
}

#[test]
fn some_seeds_pass_and_one_is_shown_stepwise() {
    let output = run("fuzz --seeds 20");
    let text = ended(&output, 0);
    let said = stderr(&output);
    assert!(said.starts_with("playing 20 seeds on "), "{said}");
    assert!(text.starts_with("20 seeds, "), "{text}");
    holds(&text, "upstream: 10 seeds | hardened: 10 seeds | F26");
    let text = told(&run("replay 7"));
    let words = "== disturb | == heal | == quiet | seed 7, hardened behaviour";
    holds(&text, words);
    let only = told(&run("fuzz --seeds 2 --fault F10,pod-kill --quiet"));
    assert!(only.is_empty(), "{only}");
}

#[test]
fn reach_is_reported_with_the_rarest_pairs_first() {
    let folder = folder();
    let output = run_in(&folder, "fuzz --seeds 40 --json reach.json");
    holds(&ended(&output, 0), "of 199 pairs met | noticed");
    let result = json_in(&folder, "reach.json");
    let rows = |name: &str| result[name].as_array().unwrap().clone();
    let count = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let faults = rows("faults");
    assert_eq!(faults.len(), 26);
    for row in &faults {
        for (some, all) in [("noticed", "injected"), ("struck-while-busy", "struck")] {
            assert!(count(row, some) <= count(row, all), "{row}");
        }
    }
    assert!(faults.iter().any(|row| count(row, "noticed") > 0));
    let pairs = rows("pairs");
    let seeds: Vec<u64> = pairs.iter().map(|row| count(row, "seeds")).collect();
    assert!(seeds.is_sorted() && seeds.iter().all(|seeds| *seeds <= 40));
    let last = pairs.last().unwrap();
    let rate = last["per-million-seeds"].as_f64().unwrap();
    assert!((rate - count(last, "seeds") as f64 * 25_000.0).abs() < 0.1);
    let behaviours = rows("behaviours");
    let controllers = |row: &Value| count(row, "seeds-with-replication-controllers");
    assert!(behaviours.iter().map(controllers).sum::<u64>() > 0);
}

#[test]
fn every_class_strikes_every_workload() {
    let all = FaultClass::ALL.map(FaultClass::name);
    let folder = folder();
    for workload in ["replicaset", "deployment", "ttl-after-finished"] {
        let line = format!("fuzz --workload {workload} --seeds 60 --json of.json --quiet");
        ended(&run_in(&folder, &line), 0);
        let faults = json_in(&folder, "of.json")["faults"].clone();
        let rows = faults.as_array().expect("a row for each class");
        let names: Vec<&str> = rows
            .iter()
            .filter_map(|row| row["class"].as_str())
            .collect();
        assert_eq!(names, all);
        for row in rows {
            assert!(row["injected"].as_u64() > Some(0), "{workload}: {row}");
        }
    }
}

#[test]
#[cfg(unix)]
fn an_interrupted_campaign_reports_what_it_has_seen() {
    let folder = folder();
    let (output, rest) = run_until_interrupted(&folder, "fuzz --seeds 10m --json fuzz.json");
    holds(&ended(&output, 130), " seeds, ");
    holds(&rest, "interrupted: stopping");
    let result = json_in(&folder, "fuzz.json");
    assert_eq!(result["interrupted"], true);
    assert!(result["seeds"].as_u64().unwrap() < 10_000_000);
}

#[test]
fn a_custom_schedule_is_played() {
    let piped = "replay --schedule - --behaviour hardened";
    let piped = told(&run_with_stdin(piped, SCHEDULE));
    holds(&piped, "6 pods created by controllers");
    let text = told(&replay(SCHEDULE, "--behaviour hardened"));
    holds(&text, "6 pods created by controllers | pod-kill");
}

#[test]
fn seeds_of_deployments_pass_and_one_is_shown_stepwise() {
    const SITUATION: &str = "the first ReplicaSet of a Deployment is created";
    let folder = folder();
    let line = "fuzz --workload deployment --seeds 10 --json reach.json";
    let text = stdout(&run_in(&folder, line));
    holds(&text, &format!("10 seeds,  | {SITUATION}"));
    holds(&text, "faults x steps: | pairs met");
    let result = json_in(&folder, "reach.json");
    assert_eq!(result["situations"][SITUATION], 10);
    let replayed = told(&run("replay 7 --workload deployment"));
    let words = "sync 0.1 of web | == disturb | == quiet | seed 7, hardened behaviour";
    holds(&replayed, words);
    let other = told(&run("replay 7"));
    assert!(trace(&other) != trace(&replayed));
}

/// Returns the hash of the trace.
fn trace(replayed: &str) -> &str {
    let (_, after) = replayed.split_once("; trace ").expect("a trace");
    &after[..32]
}

#[test]
fn a_schedule_of_deployments_is_printed_stored_and_replayed() {
    let printed = told(&run("replay 7 --workload deployment --print-schedule"));
    let stored = told(&replay(&printed, ""));
    let seed = told(&run("replay 7 --workload deployment"));
    assert_eq!(trace(&stored), trace(&seed));
    let name = "name: web";
    holds(&printed, name);
    let other = printed.replacen(name, "name: wob", 1);
    let words = "mine.yaml | no Deployment \"web\"";
    assert_refused(&replay(&other, ""), words);
    let folder = folder_of(&[("a.yaml", &printed)]);
    let text = told(&run_in(&folder, "replay --schedule ."));
    assert!(text.lines().all(|line| line.starts_with("ok ")), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn the_failing_schedule_of_a_folder_is_named() {
    let (before, steps) = SCHEDULE
        .split_once("steps:\n")
        .expect("a schedule with steps");
    let broken = "  - at-ms: 0\n    action: {break: {stream: pods}}\n";
    let broken = format!("{before}steps:\n{broken}{steps}");
    let folder = folder_of(&[("a.yaml", SCHEDULE), ("b.yaml", &broken)]);
    let replay = || run_in(&folder, "replay --schedule .");
    let text = ended(&replay(), 3);
    let failed = text.lines().filter(|line| line.starts_with("FAILED"));
    let failed: Vec<&str> = failed.collect();
    assert_eq!(failed.len(), 2, "{text}");
    for line in failed {
        holds(line, "b.yaml | L1 at");
    }
    write(&folder, "c.yaml", "version: 1");
    assert_refused(&replay(), "c.yaml");
}

#[test]
fn an_invalid_schedule_is_refused_with_its_place() {
    for [from, to, words] in refused("broken schedules") {
        assert!(SCHEDULE.contains(&from), "{from:?}");
        let text = SCHEDULE.replacen(&from, &to, 1);
        assert_refused(&replay(&text, ""), &format!("mine.yaml | {words}"));
    }
    for text in ["", "version: ["] {
        assert_refused(&replay(text, ""), "mine.yaml");
    }
}

#[test]
fn the_suggested_command_is_complete() {
    let file = format!("{EXAMPLES}/frontend.yaml");
    let folder = folder();
    let base = format!("run --scenario stale-watch -f {file} --seed 7");
    let mut quoted = command(&format!("{base} -q --save-baseline"));
    let quoted = quoted.arg("it's").output().expect("the command starts");
    assert_refused(&quoted, "the name of a baseline");
    let save = format!("{base} -q --save-baseline main --baseline-dir 'my base'");
    ended(&run_in(&folder, &save), 0);
    let judged =
        "--threshold 'excess < 50' --baseline main --baseline-dir 'my base' --tolerance p99=10%";
    let text = stdout(&run_in(&folder, &format!("{base} {judged}")));
    let commands = text.lines().filter(|line| line.starts_with("    loadgen"));
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands.len(), 2, "{text}");
    for command in commands {
        let end = format!(" -f {file} {judged}");
        let is_whole = command.contains(" --seed 7 ") && command.ends_with(&end);
        assert!(is_whole, "{command}");
        // The command is valid in a shell, and it runs.
        let rest = command.trim().strip_prefix("loadgen");
        let rest = rest.expect("a loadgen command");
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("\"$0\" {rest}")])
            .arg(podstorm_tests::command::loadgen())
            .current_dir(&folder)
            .output()
            .expect("a shell");
        let (told, said) = (stderr(&shell), stdout(&shell));
        assert!(said.contains("baseline main"), "{told}");
    }
}
