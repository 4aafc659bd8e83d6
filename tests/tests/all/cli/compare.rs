//! `run --threshold`, `run --baseline` and `loadgen compare`.

use std::path::Path;
use std::process::Output;

use podstorm_tests::command::{ended, holds, run, run_in, run_with_stdin, stdout};
use tempfile::TempDir;

use super::{assert_section_refused, folder, json, json_in, read, write};

/// A small run on the virtual engine, throttled by its client so that its durations are not zero.
const SMALL: &str = "run --scenario up-down --engine virtual --pods 200 --kube-api-qps 50 --quiet";

/// Runs [`SMALL`] with further flags, which may replace the scenario.
fn small(folder: impl AsRef<Path>, more: &str) -> Output {
    let line = match more.contains("--scenario") {
        true => SMALL.replace("--scenario up-down ", ""),
        false => SMALL.to_owned(),
    };
    run_in(folder, &format!("{line} {more}"))
}

/// Writes a result of [`SMALL`] with further flags.
#[track_caller]
fn result(folder: &TempDir, file: &str, more: &str) {
    ended(&small(folder, &format!("--json {file} {more}")), 0);
}

/// Runs `compare`, which must exit with `code`. Returns its output.
#[track_caller]
fn compare(folder: &TempDir, line: &str, code: i32) -> String {
    ended(&run_in(folder, &format!("compare {line}")), code)
}

/// Returns a folder with two results, the second with a slow API.
fn base_and_slow() -> TempDir {
    let folder = folder();
    result(&folder, "base.json", "");
    result(&folder, "slow.json", "--api-latency 5s");
    folder
}

#[test]
fn an_unmet_threshold_fails_the_run_and_is_named() {
    let folder = folder();
    let flags = "--threshold 'pod_ready_latency p(99)<5s' --json result.json \
                 --threshold 'api_calls{create pods 201}: < 100'";
    ended(&small(&folder, flags), 1);
    let result = json_in(&folder, "result.json");
    let outcomes = &result["thresholds"];
    assert_eq!(outcomes[0]["threshold"], "pod_ready_latency p99 < 5s");
    assert_eq!(outcomes[0]["met"], true);
    assert_eq!(outcomes[1]["met"], false);
    assert_eq!(outcomes[1]["value"], 200.0);
    assert_eq!(result["outcome"]["exit_code"], 1);
    let reason = "threshold not met: api_calls{create pods 201} < 100 (200)";
    assert_eq!(result["outcome"]["reason"], reason);

    let flags = "--threshold 'excess == 0' --threshold 'api_calls{delete nodes 200} > 1'";
    let report = run(&format!(
        "run --scenario up-down --engine virtual --pods 200 {flags}"
    ));
    let words = "met: excess == 0 (0) | NOT MET: api_calls{delete nodes 200} > 1 (";
    holds(&stdout(&report), words);
}

#[test]
fn invalid_thresholds_are_refused_before_the_run() {
    assert_section_refused("thresholds", folder());
}

#[test]
fn metrics_are_listed() {
    let words = "pod_ready_seconds | pod_ready_latency | phase{NAME}.seconds | p999";
    holds(&stdout(&run("metrics")), words);
}

#[test]
fn two_results_are_compared_and_a_regression_is_an_exit_code() {
    let folder = base_and_slow();
    let compare = |line: &str, code| compare(&folder, line, code);
    holds(&compare("base.json base.json", 0), "no regression");
    let text = compare("base.json slow.json", 1);
    holds(&text, "--api-latency: 0s -> 5s | the metrics are exact");
    let is_work = |line: &&str| line.contains("work_duration_seconds p99");
    let work = text.lines().find(is_work);
    assert!(
        work.is_some_and(|line| line.ends_with("REGRESSION")),
        "{text}"
    );
    let faster = compare("slow.json base.json --figure sync_work.p99", 0);
    holds(&faster, "1 better");
    let elapsed = "base.json slow.json --figure elapsed --tolerance";
    compare(&format!("{elapsed} elapsed=1h"), 0);
    compare(&format!("{elapsed} 0%"), 1);
}

#[test]
fn comparisons_are_printed_as_text_and_json() {
    let folder = base_and_slow();
    let shown = |flags: &str| compare(&folder, &format!("base.json slow.json {flags}"), 1);
    let json = json(&shown("--output json"));
    assert_eq!(json["base"], "base.json");
    assert!(json["regressions"].as_u64().expect("a number") > 0);
    let markdown = shown("--output markdown");
    assert!(markdown.starts_with("### "), "{markdown}");
    holds(&markdown, "| **REGRESSION** |");
    assert_eq!(shown("-q"), "");
}

#[test]
fn several_seeds_get_a_significance_test() {
    let folder = folder();
    let mut lines = [String::new(), String::new()];
    for seed in 1..=4 {
        for (side, latency) in lines.iter_mut().zip(["p50=1ms,p99=9ms", "p50=5s,p99=9s"]) {
            let flags = format!("--api-latency {latency} --seed {seed}");
            result(&folder, "one.json", &flags);
            side.push_str(&read(&folder, "one.json"));
        }
    }
    write(&folder, "base.jsonl", &lines[0]);
    write(&folder, "new.jsonl", &lines[1]);
    let text = compare(&folder, "--base base.jsonl --new new.jsonl -o json", 1);
    let json = json(&text);
    let method = json["method"].as_str().expect("a text");
    holds(method, "Mann-Whitney U test, exact");
    let mut rows = json["figures"].as_array().expect("rows").iter();
    let work = rows.find(|row| row["figure"] == "work_duration_seconds p99");
    let work = work.expect("a row");
    assert_eq!(work["verdict"], "regression");
    let p_value = work["p_value"].as_f64().expect("a number");
    assert!((p_value - 2.0 / 70.0).abs() < 1e-9, "{p_value}");
}

#[test]
fn results_that_cannot_be_compared_are_refused() {
    let folder = folder();
    result(&folder, "base.json", "");
    result(&folder, "burst.json", "--scenario burst");
    let fewer = "run --scenario up-down --engine virtual --quiet --pods 100 --json fewer.json";
    ended(&run_in(&folder, fewer), 0);
    for (name, text) in [
        ("empty.json", ""),
        ("text.json", "hello"),
        ("other.json", "{\"a\": 1}"),
    ] {
        write(&folder, name, text);
    }
    write(&folder, "raw.json", [0xff, 0xfe]);
    let base = read(&folder, "base.json");
    let newer = base.replace("\"schema_version\": 3", "\"schema_version\": 99");
    write(&folder, "newer.json", newer);
    assert_section_refused("compare", &folder);
    assert_eq!(read(&folder, "base.json"), base);
    for (other, words) in [
        ("burst.json", "because of --force"),
        (
            "fewer.json",
            "--pods: 200 -> 100 (compared because of --force)",
        ),
    ] {
        let forced = run_in(&folder, &format!("compare base.json {other} --force"));
        holds(&stdout(&forced), words);
    }
}

#[test]
fn a_result_can_come_from_standard_input() {
    let folder = folder();
    result(&folder, "base.json", "");
    let file = folder.path().join("base.json");
    let line = format!("compare {} -", file.display());
    ended(&run_with_stdin(&line, &read(&folder, "base.json")), 0);
}

#[test]
fn a_run_is_compared_with_a_baseline() {
    let folder = folder();
    let baselines = folder.path().join(".loadgen/baselines");
    ended(&small(&folder, "--save-baseline main"), 0);
    assert!(baselines.join("main.json").exists());
    ended(&small(&folder, "--baseline main"), 0);

    let slow = "--baseline main --api-latency 5s --json slow.json --save-baseline slow";
    ended(&small(&folder, slow), 1);
    let result = json_in(&folder, "slow.json");
    assert_eq!(result["outcome"]["exit_code"], 1);
    let reason = result["outcome"]["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("worse than the baseline main: "),
        "{reason}"
    );
    assert!(baselines.join("slow.json").exists());

    let loud = format!("{} --baseline main", SMALL.replace(" --quiet", ""));
    let report = stdout(&run_in(&folder, &loud));
    holds(&report, "base     baseline main, seed 1");
}

#[test]
fn invalid_baselines_are_refused_before_the_run() {
    let folder = folder();
    small(&folder, "--save-baseline main");
    write(&folder, "file", "");
    assert_section_refused("baselines", &folder);
    let failed = "--save-baseline bad --threshold 'excess > 5'";
    ended(&small(&folder, failed), 1);
    assert!(!folder.path().join(".loadgen/baselines/bad.json").exists());
}

#[test]
fn settings_are_named_by_their_flags_and_in_their_units() {
    let folder = folder();
    result(&folder, "base.json", "");
    let more = "--time-limit 90m --api-latency 5ms --kube-api-burst 40";
    result(&folder, "new.json", more);
    let said = stdout(&run_in(&folder, "compare base.json new.json"));
    holds(&said, "--time-limit:  | -> 1h30m");
    holds(
        &said,
        "--api-latency: 0s -> 5ms | --kube-api-burst: 30 -> 40",
    );
    assert!(!said.contains("settings."), "{said}");
}

#[test]
fn a_comparison_is_written_as_a_page() {
    let folder = base_and_slow();
    compare(&folder, "base.json slow.json --report page.html", 1);
    let words = "REGRESSION | base.json, seed 1 | --api-latency: 0s -&gt; 5s | </html>";
    holds(&read(&folder, "page.html"), words);
    let page = compare(&folder, "base.json slow.json --report -", 1);
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(!page.contains("method   "));
}
