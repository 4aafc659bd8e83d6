//! `loadgen sweep`.

use std::io::Read;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use podstorm_tests::command::{
    assert_refused, command, ended, holds, run_in, send, stderr, stdout,
};
use serde_json::Value;

use super::{assert_section_refused, folder, json_in, read};

/// A grid of 2 x 3 small runs.
const GRID: &str = "sweep --scenario up-down --kube-api-burst 1 --replicasets 4 \
                    --vary pods=20,40 --vary kube-api-qps=5,10,20";

fn grid(folder: impl AsRef<Path>, more: &str) -> Output {
    run_in(folder, &format!("{GRID} {more}"))
}

#[test]
fn the_thresholds_of_a_scenario_apply_to_all_its_cells() {
    let folder = folder();
    let of = |flags: &str, code| {
        let output = run_in(&folder, &format!("sweep --pods 100 --vary {flags}"));
        ended(&output, code)
    };
    let text = of("pod-startup-latency=1s,9s --scenario cl2-load", 0);
    let words = "1 meet pod_ready_latency p99 < 5s | cheapest of them: pod-startup-latency=1s";
    holds(&text, words);
    // A threshold that no cell meets.
    of("pod-startup-latency=8s,9s --scenario cl2-load", 1);
    // Different scenarios have no common threshold.
    let varied = "scenario=cl2-load,scale-up --pod-startup-latency 9s";
    let text = of(varied, 0);
    assert!(!text.contains("pod_ready_latency p99 <"), "{text}");
}

#[test]
fn every_combination_is_run_and_reported() {
    let folder = folder();
    let files = "--csv s.csv --json s.json --report s.html --seeds 2";
    let table = ended(&grid(&folder, files), 0);
    holds(&table, "6 cells, medians of 2 seeds, 1 to 2");

    let csv = read(&folder, "s.csv");
    assert_eq!(csv.lines().count(), 7, "{csv}");
    let begin = "pods,kube-api-qps,convergence p99,";
    assert!(csv.starts_with(begin), "{csv}");

    let json = json_in(&folder, "s.json");
    let cells = json["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 6);
    let last = &cells[5]["results"][1];
    assert_eq!(last["seed"], 2);
    assert_eq!(last["engine"], "virtual");
    assert_eq!(last["settings"]["size"]["pods"], 40);
    assert_eq!(last["settings"]["controller"]["kube_api_qps"], 20.0);
    assert_eq!(last["settings"]["controller"]["kube_api_burst"], 1);
    assert!(last.get("host").is_none());
    // A cell equals a run with its flags.
    let alone = "run --scenario up-down --engine virtual --kube-api-burst 1 --replicasets 4 --pods 40 --kube-api-qps 20 \
                 --seed 2 --json run.json -q";
    ended(&run_in(&folder, alone), 0);
    let alone: Value = json_in(&folder, "run.json");
    assert_eq!(&alone, last);

    let page = read(&folder, "s.html");
    holds(&page, "<svg class=\"heat\"");
    assert!(!page.contains("http"), "the page loads external content");
}

#[test]
fn the_outcome_does_not_depend_on_the_number_of_jobs() {
    let folder = folder();
    let with = |jobs: u32| {
        let files = "--csv s.csv --json s.json --report s.html";
        let output = grid(&folder, &format!("{files} --jobs {jobs}"));
        let files = ["s.csv", "s.json", "s.html"].map(|file| read(&folder, file));
        (stdout(&output), files)
    };
    assert_eq!(with(1), with(5));
}

#[test]
fn the_cheapest_cell_that_meets_the_thresholds_is_named() {
    let folder = folder();
    let output = grid(&folder, "--threshold 'elapsed < 11s' --figure elapsed");
    let table = ended(&output, 0);
    let is_cheapest = |line: &&str| line.ends_with("<- cheapest that meets all");
    let marked = table.lines().find(is_cheapest);
    let is_right = marked.is_some_and(|line| line.starts_with(" 20    10 "));
    assert!(is_right, "{table}");
    let words = "cheapest of them: pods=20, kube-api-qps=10\n    loadgen run ";
    holds(&table, words);

    let none = grid(&folder, "--threshold 'elapsed < 1ms' -q");
    assert_eq!(ended(&none, 1), "");
}

#[test]
fn values_with_commas_and_flags_without_values_can_vary() {
    let line = "sweep --scenario up-down --pods 20 --vary api-latency=p50=1ms,p99=2ms;5ms --vary \
                upstream-defaults=true,false --vary behaviour=upstream,hardened --csv -";
    let output = run_in(folder(), line);
    let csv = ended(&output, 0);
    assert_eq!(csv.lines().count(), 9, "{csv}");
    holds(&csv, "\"p50=1ms,p99=2ms\",false,hardened,");
    holds(&stderr(&output), "8 cells, seed 1");
}

#[test]
fn invalid_grids_are_refused() {
    let folder = folder();
    assert_section_refused("sweep", &folder);
    let many: Vec<String> = (1..=101).map(|value| value.to_string()).collect();
    let many = many.join(",");
    let line = format!("sweep --vary seed={many} --vary burst-replicas={many}");
    assert_refused(&run_in(&folder, &line), "101 x 101 | at most 10000");
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_reports_the_finished_cells() {
    let folder = folder();
    let seeds: Vec<String> = (1..=2_000).map(|seed| seed.to_string()).collect();
    let seeds = seeds.join(",");
    let mut child = command(&format!(
        "sweep --scenario up-down --pods 500 --vary seed={seeds} --csv s.csv"
    ))
    .current_dir(&folder)
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the command starts");
    let mut errors = child.stderr.take().expect("a pipe");
    // The command writes its first line once it handles interrupts.
    errors.read_exact(&mut [0]).expect("a line of output");
    std::thread::sleep(Duration::from_millis(500));
    send("INT", &child);
    let output = child.wait_with_output().expect("an exit status");
    holds(&ended(&output, 130), "INTERRUPTED: ");
    let records = read(&folder, "s.csv").lines().count();
    assert!((2..2_000).contains(&records), "{records}");
}

#[test]
fn a_sweep_without_elapsed_time_explains_why() {
    let words = "No time passed: on the virtual engine";
    let sweep = |more: &str| {
        let line = format!("sweep --scenario up-down --pods 20 --vary burst-replicas=1,500 {more}");
        ended(&run_in(folder(), &line), 0)
    };
    holds(&sweep(""), &format!("{words} | --api-latency"));
    let text = sweep("--api-latency 5ms");
    assert!(!text.contains(words), "{text}");
}
