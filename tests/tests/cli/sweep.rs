//! `loadgen sweep` as its users meet it.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use podstorm_tests::command::{assert_refused, loadgen, run_in, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

use super::args;

/// A grid of 2 x 3 small runs.
const GRID: &str = "sweep --kube-api-burst 1 --replicasets 4 \
                    --vary pods=20,40 --vary kube-api-qps=5,10,20";

fn directory() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn grid(directory: &Path, more: &[&str]) -> Output {
    let all: Vec<&str> = args(GRID).into_iter().chain(more.iter().copied()).collect();
    run_in(directory, &all)
}

fn read(directory: &Path, file: &str) -> String {
    fs::read_to_string(directory.join(file)).expect("the file is there")
}

#[test]
fn the_thresholds_of_a_scenario_hold_for_every_cell_of_it() {
    let directory = directory();
    let of = |vary: &str, more: &[&str]| {
        let mut arguments = vec!["sweep", "--pods", "100", "--vary", vary];
        arguments.extend(more);
        let output = run_in(directory.path(), &arguments);
        (output.status.code(), stdout(&output))
    };
    let startup = "pod-startup-latency=1s,9s";
    let (code, text) = of(startup, &["--scenario", "cl2-load"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("1 meet pod_ready_latency p99 < 5s"), "{text}");
    assert!(
        text.contains("cheapest of them: pod-startup-latency=1s"),
        "{text}"
    );
    // One that is kept by no cell.
    let (code, text) = of("pod-startup-latency=8s,9s", &["--scenario", "cl2-load"]);
    assert_eq!(code, Some(1), "{text}");
    // Scenarios that are varied have no threshold in common.
    let (code, text) = of(
        "scenario=cl2-load,scale-up",
        &["--pod-startup-latency", "9s"],
    );
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("pod_ready_latency p99 <"), "{text}");
}

#[test]
fn every_combination_is_run_and_written() {
    let directory = directory();
    let path = directory.path();
    let files = [
        "--csv", "s.csv", "--json", "s.json", "--report", "s.html", "--seeds", "2",
    ];
    let output = grid(path, &files);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(
        table.contains("6 cells, medians of 2 seeds, 1 to 2"),
        "{table}"
    );

    let csv = read(path, "s.csv");
    assert_eq!(csv.lines().count(), 7, "{csv}");
    assert!(
        csv.starts_with("pods,kube-api-qps,convergence p99,"),
        "{csv}"
    );

    let json: Value = serde_json::from_str(&read(path, "s.json")).expect("JSON");
    let cells = json["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6);
    let last = &cells[5]["results"][1];
    assert_eq!(
        (&last["seed"], &last["engine"]),
        (&Value::from(2), &Value::from("virtual"))
    );
    assert_eq!(last["settings"]["size"]["pods"], 40);
    assert_eq!(last["settings"]["controller"]["kube_api_qps"], 20.0);
    assert_eq!(last["settings"]["controller"]["kube_api_burst"], 1);
    assert!(last.get("host").is_none());
    // A cell is the run that its flags say.
    let alone = args(
        "run --engine virtual --kube-api-burst 1 --replicasets 4 --pods 40 --kube-api-qps 20
            --seed 2 --json run.json -q",
    );
    assert_eq!(run_in(path, &alone).status.code(), Some(0));
    let alone: Value = serde_json::from_str(&read(path, "run.json")).expect("JSON");
    assert_eq!(&alone, last);

    let page = read(path, "s.html");
    assert!(page.contains("<svg class=\"heat\""));
    assert!(!page.contains("http"), "the page reaches out");
}

#[test]
fn the_outcome_does_not_depend_on_the_number_of_jobs() {
    let directory = directory();
    let path = directory.path();
    let with = |jobs| {
        let files = [
            "--csv", "s.csv", "--json", "s.json", "--report", "s.html", "--jobs", jobs,
        ];
        let output = grid(path, &files);
        let files = ["s.csv", "s.json", "s.html"].map(|file| read(path, file));
        (stdout(&output), files)
    };
    assert_eq!(with("1"), with("5"));
}

#[test]
fn the_cheapest_cell_that_keeps_the_thresholds_is_named() {
    let directory = directory();
    let path = directory.path();
    let output = grid(
        path,
        &["--threshold", "elapsed < 11s", "--figure", "elapsed"],
    );
    let table = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{table}");
    let marked = table
        .lines()
        .find(|line| line.ends_with("<- cheapest that meets all"));
    assert!(
        marked.is_some_and(|line| line.starts_with(" 20    10 ")),
        "{table}"
    );
    assert!(
        table.contains("cheapest of them: pods=20, kube-api-qps=10\n    loadgen run "),
        "{table}"
    );

    let none = grid(path, &["--threshold", "elapsed < 1ms", "-q"]);
    assert_eq!((none.status.code(), stdout(&none).as_str()), (Some(1), ""));
}

#[test]
fn values_may_hold_commas_and_flags_without_values_vary_too() {
    let directory = directory();
    let path = directory.path();
    let arguments = args(
        "sweep --pods 20 --vary api-latency=p50=1ms,p99=2ms;5ms --vary
            upstream-defaults=true,false --vary behaviour=upstream,hardened --csv -",
    );
    let output = run_in(path, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let csv = stdout(&output);
    assert_eq!(csv.lines().count(), 9, "{csv}");
    assert!(csv.contains("\"p50=1ms,p99=2ms\",false,hardened,"), "{csv}");
    assert!(
        stderr(&output).contains("8 cells, seed 1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn grids_that_cannot_be_are_refused() {
    let directory = directory();
    let path = directory.path();
    let many: Vec<String> = (1..=101).map(|value| value.to_string()).collect();
    let many = |name: &str| format!("{name}={}", many.join(","));
    let (seeds, bursts) = (many("seed"), many("burst-replicas"));
    for (arguments, words) in [
        (&[][..], &["nothing is varied", "--vary"][..]),
        (&["--vary", "pods"], &["the values are missing"]),
        (&["--vary", "pods="], &["the values are missing"]),
        (
            &["--vary", "podz=1,2"],
            &["no flag --podz", "did you mean pods"],
        ),
        (&["--vary", "json=a,b"], &["--json does not shape a run"]),
        (&["--vary", "pods=1,2,1"], &["1 is given twice"]),
        (
            &["--vary", "pods=1k,1000"],
            &["pods=1k", "pods=1000", "one and the same run"],
        ),
        (
            &["--vary", "pods=10,x"],
            &["--vary pods", "'x'", "expected a whole number"],
        ),
        (
            &["--vary", "api-latency=p50=1ms,p99=2ms"],
            &["--vary api-latency", "parted by ;"],
        ),
        (&["--vary", "upstream-defaults=yes"], &["true or false"]),
        (
            &["--vary", "engine=virtual,steam"],
            &["--vary engine", "steam"],
        ),
        (
            &["--pods", "10", "--vary", "pods=1,2"],
            &["--pods is given and varied too"],
        ),
        (
            &["--upstream-defaults", "--vary", "kube-api-qps=20,50"],
            &["cell kube-api-qps=50", "--upstream-defaults"],
        ),
        (
            &["--vary", &seeds, "--vary", &bursts],
            &["101 x 101", "at most 10000"],
        ),
        (
            &["--vary", "pods=1,2", "--seeds", "1m"],
            &["more than 100000 runs"],
        ),
        (
            &["--vary", "seed=1,2", "--seeds", "2"],
            &["--seeds", "--vary seed"],
        ),
        (
            &["--vary", "pods=1,2", "--threshold", "elapsed < 5"],
            &["a unit is missing"],
        ),
        (
            &["--vary", "pods=1,2", "--figure", "wall"],
            &["--figure wall", "metric of the machine"],
        ),
        (
            &["--vary", "pods=1,2", "--csv", "none/x.csv"],
            &["--csv", "no directory none"],
        ),
        (
            &["--vary", "pods=1,2", "--csv", "a", "--json", "a"],
            &["name two files"],
        ),
    ] {
        let all: Vec<&str> = ["sweep"].iter().chain(arguments).copied().collect();
        assert_refused(&run_in(path, &all), words);
    }
    assert_eq!(
        fs::read_dir(path).expect("readable").count(),
        0,
        "nothing is left behind"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_reports_what_has_run() {
    let directory = directory();
    let seeds: Vec<String> = (1..=2_000).map(|seed| seed.to_string()).collect();
    let seeds = format!("seed={}", seeds.join(","));
    let mut child = Command::new(loadgen())
        .args(["sweep", "--pods", "500", "--vary", &seeds, "--csv", "s.csv"])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut errors = child.stderr.take().expect("it is piped");
    // Its first line is written once it watches for interrupts.
    errors.read_exact(&mut [0]).expect("it says something");
    std::thread::sleep(Duration::from_millis(500));
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let table = stdout(&output);
    assert_eq!(output.status.code(), Some(130), "{table}");
    assert!(table.contains("INTERRUPTED: "), "{table}");
    let records = read(directory.path(), "s.csv").lines().count();
    assert!((2..2_000).contains(&records), "{records}");
}

#[test]
fn a_sweep_in_which_no_time_passes_says_why() {
    let directory = directory();
    let words = "No time passed: on the virtual engine";
    let sweep = |more: &[&str]| {
        let base = ["sweep", "--pods", "20", "--vary", "burst-replicas=1,500"];
        let output = run_in(directory.path(), &[&base[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let text = sweep(&[]);
    assert!(
        text.contains(words) && text.contains("--api-latency"),
        "{text}"
    );
    let text = sweep(&["--api-latency", "5ms"]);
    assert!(!text.contains(words), "{text}");
}

#[test]
fn a_threshold_on_a_phase_that_some_cell_has_not_is_refused_before_the_sweep() {
    let directory = directory();
    let arguments = [
        "sweep",
        "--pods",
        "20",
        "--vary",
        "burst=5,7",
        "--scenario",
        "burst",
        "--threshold",
        "phase{5 more on one} < 1s",
    ];
    let output = run_in(directory.path(), &arguments);
    assert_refused(&output, &["the scenario burst has no phase", "there are"]);
}
