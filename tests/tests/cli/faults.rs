//! The fault simulator and the scenario `stale-watch` on the command line: what users see of known
//! bugs, of seeds and of schedules, and what is refused.

use std::fs;
use std::process::Output;

use podstorm_tests::command::{
    assert_refused, run, run_in, run_until_interrupted, run_with_stdin, stderr, stdout, told,
};
use serde_json::Value;
use tempfile::TempDir;

use super::args;

/// The known bugs and the number that shows each with upstream's behaviour.
const BUGS: [(&str, &str); 9] = [
    ("m01-stale-watch", "10  pods created in excess"),
    ("m02-unseen-pods", "300.008 s  the longest a ReplicaSet"),
    (
        "m06-rejected-pods",
        "464  most pods created within a minute",
    ),
    ("m07-stale-restart", "7  pods created in excess"),
    ("m08-failed-pods", "210  most pods at once"),
    (
        "m09-terminating-namespace",
        "303.510 s  the longest a ReplicaSet",
    ),
    ("m10-lost-answers", "5  pods created in excess"),
    ("m11-delete-by-name", "1  deletes that met another pod"),
    ("m12-expectation-by-name", "1  deletes that left fewer pods"),
];

const GATE_ON: &str = "StaleControllerConsistencyReplicaSet=true";

/// A valid schedule, which tests break.
const SCHEDULE: &str = "\
version: 3
seed: 1
cluster:
  replica-sets:
    - {name: web, replicas: 3}
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

/// Replays a schedule of that text.
fn replay(text: &str, more: &[&str]) -> Output {
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("mine.yaml"), text).expect("the file is written");
    let mut arguments = vec!["replay", "--schedule", "mine.yaml"];
    arguments.extend(more);
    run_in(directory.path(), &arguments)
}

#[track_caller]
fn assert_spoilt_refused(from: &str, to: &str, words: &[&str]) {
    assert!(SCHEDULE.contains(from), "{from:?}");
    let mut all = vec!["mine.yaml"];
    all.extend(words);
    assert_refused(&replay(&SCHEDULE.replacen(from, to, 1), &[]), &all);
}

/// Runs `stale-watch`, which must succeed; its report and its result.
#[track_caller]
fn stale_watch(more: &[&str]) -> (String, Value) {
    let directory = TempDir::new().expect("a temporary directory");
    let mut arguments = vec!["run", "--scenario", "stale-watch", "--json", "result.json"];
    arguments.extend(more);
    let output = run_in(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let result = fs::read_to_string(directory.path().join("result.json")).expect("a result");
    let text = stdout(&output);
    // A command stays on one line.
    let fits = |line: &str| line.starts_with("    loadgen") || line.chars().count() <= 100;
    assert!(text.lines().all(fits), "{text}");
    (text, serde_json::from_str(&result).expect("JSON"))
}

#[test]
fn known_bugs_are_listed_with_their_threads() {
    let text = told(&run(&["bugs"]));
    for (name, _) in BUGS {
        assert!(text.contains(name), "{name}: {text}");
    }
    for thread in ["129795", "72593", "131116", "59848", "88851"] {
        assert!(
            text.contains(&format!("kubernetes#{thread}")),
            "{thread}: {text}"
        );
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn each_bug_is_told_by_its_figure_and_replayed_step_by_step() {
    for (name, figure) in BUGS {
        let id = &name[..3];
        let both = told(&run(&["bugs", id]));
        assert!(both.contains(figure), "{name}: {both}");
        assert!(both.contains("hardened"), "{name}: {both}");
        let upstream = told(&run(&["replay", "--bug", id]));
        assert!(upstream.contains("upstream behaviour: converged"), "{name}");
        assert!(upstream.contains("== disturb"), "{name}");
        assert!(upstream.contains(figure), "{name}");
        let hardened = told(&run(&["replay", "--bug", name, "--behaviour", "hardened"]));
        assert!(hardened.contains("hardened behaviour: converged"), "{name}");
        let is_left = matches!(id, "m06" | "m08");
        assert_eq!(hardened.contains(figure), is_left, "{name}");
    }
}

#[test]
fn a_printed_bug_is_a_schedule_to_edit() {
    let schedule = told(&run(&["replay", "--bug", "m10", "--print-schedule"]));
    let text = told(&replay(&schedule, &["--behaviour", "upstream"]));
    assert!(text.contains("5 in excess"), "{text}");
}

#[test]
fn a_bug_that_is_not_known_is_refused() {
    for arguments in [&["bugs", "m03"][..], &["replay", "--bug", "m99"]] {
        assert_refused(&run(arguments), &["no such bug", "m12-expectation-by-name"]);
    }
    assert_refused(
        &run(&["replay", "7", "--bug", "m01"]),
        &["cannot be used with"],
    );
    assert_refused(&run(&["replay"]), &["SEED"]);
}

#[test]
fn a_stale_watch_creates_every_pod_twice_without_the_gate() {
    let (text, result) = stale_watch(&[]);
    // One more for each of the forty ReplicaSets whose first answer was lost.
    assert_eq!(result["excess_pods_created"], 2_040);
    assert_eq!(result["phases"][2]["excess_pods_created"], 2_000);
    assert_eq!(result["engine"], "virtual");
    assert_eq!(
        result["feature_gates"]["StaleControllerConsistencyReplicaSet"],
        false
    );
    assert_eq!(result["outcome"]["converged"], true);
    for words in [
        "kubernetes#129795",
        "excess_pods_created 2,040 = 2,000",
        GATE_ON,
        "--behaviour hardened",
    ] {
        assert!(text.contains(words), "{words:?} is missing in: {text}");
    }
}

#[test]
fn the_gate_mends_the_stale_watch_and_not_the_lost_answers() {
    let (text, result) = stale_watch(&["--feature-gates", GATE_ON]);
    assert_eq!(result["excess_pods_created"], 40);
    assert_eq!(result["phases"][2]["excess_pods_created"], 0);
    assert!(text.contains("The gate does not mend that"), "{text}");
}

#[test]
fn the_hardened_behaviour_creates_none_in_excess() {
    for gates in [&[][..], &["--feature-gates", GATE_ON]] {
        let mut arguments = vec!["--behaviour", "hardened"];
        arguments.extend(gates);
        let (text, result) = stale_watch(&arguments);
        assert_eq!(result["excess_pods_created"], 0);
        assert_eq!(result["pods"]["created"], 4_000);
        assert!(text.contains("excess_pods_created 0"), "{text}");
    }
}

#[test]
fn a_stale_watch_is_sized_like_other_scenarios_and_repeats_exactly() {
    let sized = ["--pods", "100", "--replicasets", "4", "--seed", "7"];
    let (text, result) = stale_watch(&sized);
    assert_eq!(result["excess_pods_created"], 104);
    assert!(text.contains("--pods 100 --replicasets 4"), "{text}");
    assert_eq!(stale_watch(&sized).1, result);
    let slow = args(
        "--pods 100 --replicasets 4 --api-latency p50=5ms,p99=80ms --watch-latency
            uniform:1ms,50ms --pod-startup-latency 2s --kube-api-qps 20",
    );
    assert_eq!(stale_watch(&slow).1["excess_pods_created"], 104);
}

#[test]
fn a_stale_watch_needs_simulated_time() {
    let threads = ["run", "--scenario", "stale-watch", "--engine", "threads"];
    assert_refused(&run(&threads), &["only simulated time", "--engine virtual"]);
    let count = ["run", "--scenario", "stale-watch", "--threads", "2"];
    assert_refused(&run(&count), &["--threads"]);
}

#[test]
fn a_few_seeds_hold_and_one_is_shown_step_by_step() {
    let output = run(&["fuzz", "--seeds", "20"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).starts_with("playing 20 seeds on "),
        "{}",
        stderr(&output)
    );
    let text = stdout(&output);
    assert!(text.starts_with("20 seeds, "), "{text}");
    for words in ["upstream: 10 seeds", "hardened: 10 seeds", "F26"] {
        assert!(text.contains(words), "{words:?} is missing in: {text}");
    }
    let text = told(&run(&["replay", "7"]));
    for words in [
        "== disturb",
        "== heal",
        "== quiet",
        "seed 7, hardened behaviour",
    ] {
        assert!(text.contains(words), "{words:?} is missing in: {text}");
    }
    let only = told(&run(&args("fuzz --seeds 2 --fault F10,pod-kill --quiet")));
    assert!(only.is_empty(), "{only}");
}

#[test]
fn how_far_seeds_reach_is_told_with_the_least_met_pairs_first() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("reach.json");
    let arguments = ["fuzz", "--seeds", "40", "--json", path.to_str().unwrap()];
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for words in ["of 199 pairs met", "noticed"] {
        assert!(text.contains(words), "{words:?} is missing in: {text}");
    }
    let result: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let rows = |name: &str| result[name].as_array().unwrap().clone();
    let count = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let faults = rows("faults");
    assert_eq!(faults.len(), 26);
    for row in &faults {
        assert!(count(row, "noticed") <= count(row, "injected"), "{row}");
        assert!(
            count(row, "struck-while-busy") <= count(row, "struck"),
            "{row}"
        );
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
#[cfg(unix)]
fn an_interrupted_campaign_says_what_it_has_seen() {
    let directory = TempDir::new().unwrap();
    let arguments = ["fuzz", "--seeds", "10m", "--json", "fuzz.json"];
    let (output, rest) = run_until_interrupted(&arguments, directory.path());
    assert_eq!(output.status.code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted: stopping"), "{rest}");
    assert!(stdout(&output).contains(" seeds, "), "{}", stdout(&output));
    let text = fs::read_to_string(directory.path().join("fuzz.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["interrupted"], true);
    assert!(result["seeds"].as_u64().unwrap() < 10_000_000);
}

#[test]
fn what_fuzz_and_replay_do_not_know_is_refused() {
    for (arguments, words) in [
        (
            &["fuzz", "--fault", "earthquake"][..],
            "no such class of faults",
        ),
        (&["fuzz", "--fault", "F27"], "there are api-error"),
        (&["fuzz", "--behaviour", "wild"], "no such behaviour"),
        (&["fuzz", "--seeds", "-5"], "--seeds"),
        (&["fuzz", "--time", "5"], "--time"),
        (&["fuzz", "--time", "0s"], "--time 0s leaves no time"),
        (&["fuzz", "--failures", "0"], "at least 1"),
        (&["fuzz", "--threads", "1m"], "at most 4096"),
        (
            &["fuzz", "--first", "18446744073709551615", "--seeds", "2"],
            "--first 18446744073709551615 leaves no room for --seeds 2",
        ),
        (
            &["fuzz", "--keep", "/dev/null/x"],
            "--keep /dev/null/x: the folder can't be made",
        ),
        (
            &["fuzz", "--keep", "/proc"],
            "--keep /proc: nothing can be written there",
        ),
        (
            &["fuzz", "--json", "/proc/x/y.json"],
            "--json /proc/x/y.json",
        ),
        (&["replay", "seven"], "SEED"),
        (&["replay", "7", "--behaviour", "wild"], "no such behaviour"),
        (
            &["replay", "--schedule", "absent.yaml"],
            "absent.yaml can't be read",
        ),
        (&["replay", "--schedule", "/dev/zero"], "larger than 16 MiB"),
    ] {
        assert_refused(&run(arguments), &[words]);
    }
}

#[test]
fn a_schedule_of_ones_own_is_played() {
    let piped = ["replay", "--schedule", "-", "--behaviour", "hardened"];
    let piped = told(&run_with_stdin(&piped, SCHEDULE));
    assert!(piped.contains("6 pods created by controllers"), "{piped}");
    let text = told(&replay(SCHEDULE, &["--behaviour", "hardened"]));
    assert!(text.contains("6 pods created by controllers"), "{text}");
    assert!(text.contains("pod-kill"), "{text}");
}

#[test]
fn seeds_of_deployments_hold_and_one_is_shown_step_by_step() {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("reach.json");
    let mut arguments = args("fuzz --workload deployment --seeds 10 --json");
    arguments.push(path.to_str().expect("it is UTF-8"));
    let text = stdout(&run(&arguments));
    for words in [
        "10 seeds, ",
        "the first ReplicaSet of a Deployment is created",
    ] {
        assert!(text.contains(words), "{words:?} is missing in: {text}");
    }
    assert!(!text.contains("pairs met"), "{text}");
    let result: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        result["situations"]["the first ReplicaSet of a Deployment is created"],
        10
    );
    let replayed = told(&run(&args("replay 7 --workload deployment")));
    for words in [
        "sync 0.1 of web",
        "== disturb",
        "== quiet",
        "seed 7, hardened behaviour",
    ] {
        assert!(
            replayed.contains(words),
            "{words:?} is missing in: {replayed}"
        );
    }
    let other = told(&run(&["replay", "7"]));
    assert!(trace(&other) != trace(&replayed));
    assert_refused(
        &run(&args("fuzz --workload job")),
        &["no such workload", "replicaset and deployment"],
    );
}

/// The hash of what happened.
fn trace(replayed: &str) -> &str {
    let (_, after) = replayed.split_once("; trace ").expect("it tells its trace");
    &after[..32]
}

#[test]
fn a_schedule_of_deployments_is_printed_stored_and_replayed() {
    let printed = told(&run(&args(
        "replay 7 --workload deployment --print-schedule",
    )));
    let stored = told(&replay(&printed, &[]));
    let seed = told(&run(&args("replay 7 --workload deployment")));
    assert_eq!(trace(&stored), trace(&seed));
    let name = "name: web";
    assert!(printed.contains(name), "{printed}");
    let other = printed.replacen(name, "name: wob", 1);
    assert_refused(
        &replay(&other, &[]),
        &["mine.yaml", "there is no Deployment \"web\""],
    );
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().join("a.yaml");
    fs::write(&path, printed).expect("it can be written");
    let folder = directory.path().to_str().expect("it is UTF-8");
    let text = told(&run(&["replay", "--schedule", folder]));
    assert!(text.lines().all(|line| line.starts_with("ok ")), "{text}");
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// Each of these broke an invariant once; see `tests/RELIABILITY.md`.
#[test]
fn schedules_that_failed_once_hold_now() {
    let text = told(&run(&["replay", "--schedule", "schedules"]));
    let lines: Vec<&str> = text.lines().collect();
    let files = fs::read_dir("schedules").expect("the folder of schedules");
    assert_eq!(lines.len(), 2 * files.count(), "{text}");
    assert!(lines.iter().all(|line| line.starts_with("ok ")), "{text}");
}

#[test]
fn of_a_folder_the_schedule_that_fails_is_named() {
    let directory = TempDir::new().expect("a directory");
    let write = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).expect("it can be written");
    };
    let folder = directory.path().to_str().expect("it is UTF-8");
    let replay = || run(&["replay", "--schedule", folder]);
    assert_refused(&replay(), &["there is no schedule (*.yaml)", folder]);
    write("a.yaml", SCHEDULE);
    let broken = "  - at-ms: 0\n    action: {break: {stream: pods}}\n";
    let steps = SCHEDULE.find("steps:").expect("it has steps") + "steps:\n".len();
    write(
        "b.yaml",
        &format!("{}{broken}{}", &SCHEDULE[..steps], &SCHEDULE[steps..]),
    );
    let output = replay();
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).expect("it is UTF-8");
    let failed: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("FAILED"))
        .collect();
    assert_eq!(failed.len(), 2, "{text}");
    assert!(
        failed
            .iter()
            .all(|line| line.contains("b.yaml") && line.contains("L1 at")),
        "{text}"
    );
    write("c.yaml", "version: 1");
    assert_refused(&replay(), &["c.yaml"]);
}

#[test]
fn a_schedule_that_cannot_be_played_is_refused_with_its_place() {
    assert_spoilt_refused(
        "version: 3",
        "version: 1",
        &["version 1 | the program that wrote it"],
    );
    assert_spoilt_refused(
        "{replica-set: web",
        "{replica-set: wob",
        &["steps[0] | there is no ReplicaSet \"wob\" | web"],
    );
    assert_spoilt_refused(
        "percent: 100",
        "percent: 101",
        &["steps[0] | within 1 to 100"],
    );
    assert_spoilt_refused(
        "at-ms: 1000",
        "at-ms: 6000",
        &["steps[0] | after disturb-ms"],
    );
    assert_spoilt_refused("pod-kill", "earthquake", &["earthquake"]);
    assert_spoilt_refused("kill:", "tickle:", &["tickle"]);
    assert_spoilt_refused("nodes: 3", "nodes: 0", &["cluster.nodes"]);
    assert_spoilt_refused("steps:", "stops:", &["stops"]);
    assert_refused(&replay("", &[]), &["mine.yaml"]);
    assert_refused(&replay("version: [", &[]), &["mine.yaml"]);
}

#[test]
fn what_to_try_next_is_the_whole_command() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../loadgen/examples/frontend.yaml"
    );
    let directory = TempDir::new().expect("a temporary directory");
    let base = [
        "run",
        "--scenario",
        "stale-watch",
        "-f",
        file,
        "--seed",
        "7",
    ];
    let save = [&base[..], &["-q", "--save-baseline", "it's"]].concat();
    assert_refused(&run_in(directory.path(), &save), &["a baseline's name"]);
    let save = [
        &base[..],
        &["-q", "--save-baseline", "main", "--baseline-dir", "my base"],
    ]
    .concat();
    assert_eq!(run_in(directory.path(), &save).status.code(), Some(0));
    let more = [
        "--baseline",
        "main",
        "--baseline-dir",
        "my base",
        "--tolerance",
        "p99=10%",
        "--threshold",
        "excess < 50",
    ];
    let output = run_in(directory.path(), &[&base[..], &more].concat());
    let text = stdout(&output);
    let commands: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("    loadgen"))
        .collect();
    assert_eq!(commands.len(), 2, "{text}");
    for command in commands {
        let end = format!(
            " -f {file} --threshold 'excess < 50' --baseline main --baseline-dir 'my base' \
             --tolerance p99=10%"
        );
        assert!(
            command.contains(" --seed 7 ") && command.ends_with(&end),
            "{command}"
        );
        // A shell takes it, and it runs.
        let rest = command
            .trim()
            .strip_prefix("loadgen")
            .expect("it begins so");
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("\"$0\" {rest}")])
            .arg(podstorm_tests::command::loadgen())
            .current_dir(directory.path())
            .output()
            .expect("a shell");
        assert!(
            stdout(&shell).contains("baseline main"),
            "{}",
            stderr(&shell)
        );
    }
}
