//! `run --threshold`, `run --baseline` and `loadgen compare` as their users meet them.

use std::fs;
use std::path::Path;
use std::process::Output;

use podstorm_tests::command::{assert_refused, run, run_in, run_with_stdin, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

use super::args;

/// A small run on the virtual engine, stalled by its client so that times are no zeros.
const SMALL: &str = "run --engine virtual --pods 200 --kube-api-qps 50 --quiet";

fn directory() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

/// Runs [`SMALL`] with further flags.
fn small(directory: &Path, more: &[&str]) -> Output {
    let all: Vec<&str> = args(SMALL)
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    run_in(directory, &all)
}

/// Writes a result of [`SMALL`] with further flags.
#[track_caller]
fn write(directory: &Path, file: &str, more: &[&str]) {
    let mut all = vec!["--json", file];
    all.extend(more);
    let output = small(directory, &all);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_threshold_that_is_not_met_fails_the_run_and_is_named() {
    let directory = directory();
    let flags = [
        "--threshold",
        "pod_ready_latency p(99)<5s",
        "--threshold",
        "api_calls{create pods 201}: < 100",
        "--json",
        "result.json",
    ];
    let output = small(directory.path(), &flags);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let text = fs::read_to_string(directory.path().join("result.json")).expect("a result");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    let outcomes = &result["thresholds"];
    assert_eq!(outcomes[0]["threshold"], "pod_ready_latency p99 < 5s");
    assert_eq!(outcomes[0]["met"], true);
    assert_eq!(outcomes[1]["met"], false);
    assert_eq!(outcomes[1]["value"], 200.0);
    assert_eq!(result["outcome"]["exit_code"], 1);
    let reason = result["outcome"]["reason"].as_str().expect("a reason");
    assert_eq!(
        reason,
        "threshold not met: api_calls{create pods 201} < 100 (200)"
    );

    let report = stdout(&run(&[
        "run",
        "--engine",
        "virtual",
        "--pods",
        "200",
        "--threshold",
        "excess == 0",
        "--threshold",
        "api_calls{delete nodes 200} > 1",
    ]));
    assert!(report.contains("met: excess == 0 (0)"), "{report}");
    assert!(
        report.contains("NOT MET: api_calls{delete nodes 200} > 1 ("),
        "{report}"
    );
}

#[test]
fn thresholds_that_are_none_are_refused_before_the_run() {
    for (threshold, words) in [
        ("pod_redy p99 < 5s", "did you mean pod_ready"),
        ("pod_ready p95 < 5s", "recorded are count, mean, p50"),
        ("pod_ready p99 < 5", "a unit is missing"),
        ("pod_ready p99", "has no comparison"),
        ("", "the name of a metric is missing"),
        ("wall < 5s", "--host-metrics"),
        (
            "phase{nope} < 1s",
            "there are set up, scale to 100 %, scale to 50 %, scale to 0",
        ),
        ("phase{scale to 0 %} < 1s", "scale to 100 % or scale to 0?)"),
    ] {
        let output = small(Path::new("."), &["--threshold", threshold]);
        assert_refused(&output, &["--threshold", words]);
    }
}

#[test]
fn figures_are_listed() {
    let text = stdout(&run(&["metrics"]));
    for name in args("pod_ready_seconds pod_ready_latency phase{NAME}.seconds p999") {
        assert!(text.contains(name), "{name}: {text}");
    }
}

#[test]
fn two_results_are_compared_and_a_regression_is_an_exit_code() {
    let directory = directory();
    let path = directory.path();
    write(path, "base.json", &[]);
    write(path, "slow.json", &["--api-latency", "5s"]);

    let same = run_in(path, &["compare", "base.json", "base.json"]);
    assert_eq!(same.status.code(), Some(0));
    assert!(stdout(&same).contains("no regression"), "{}", stdout(&same));

    let slower = run_in(path, &["compare", "base.json", "slow.json"]);
    assert_eq!(slower.status.code(), Some(1));
    let text = stdout(&slower);
    assert!(text.contains("--api-latency: 0s -> 5s"), "{text}");
    assert!(text.contains("the metrics are exact"), "{text}");
    let work = text
        .lines()
        .find(|line| line.contains("work_duration_seconds p99"));
    assert!(
        work.is_some_and(|line| line.ends_with("REGRESSION")),
        "{text}"
    );

    let faster = run_in(
        path,
        &args("compare slow.json base.json --figure sync_work.p99"),
    );
    assert_eq!(faster.status.code(), Some(0));
    assert!(stdout(&faster).contains("1 better"), "{}", stdout(&faster));

    let figure = ["--figure", "elapsed"];
    let with = |tolerance: &str| {
        let mut all = vec![
            "compare",
            "base.json",
            "slow.json",
            "--tolerance",
            tolerance,
        ];
        all.extend(figure);
        run_in(path, &all).status.code()
    };
    assert_eq!(with("elapsed=1h"), Some(0));
    assert_eq!(with("0%"), Some(1));
}

#[test]
fn comparisons_are_written_for_people_and_programs() {
    let directory = directory();
    let path = directory.path();
    write(path, "base.json", &[]);
    write(path, "slow.json", &["--api-latency", "5s"]);
    let pair = ["compare", "base.json", "slow.json", "--output"];
    let shown = |format| {
        let all: Vec<&str> = pair.iter().copied().chain([format]).collect();
        stdout(&run_in(path, &all))
    };
    let json: Value = serde_json::from_str(&shown("json")).expect("JSON");
    assert_eq!(json["base"], "base.json");
    assert!(json["regressions"].as_u64().expect("a number") > 0);
    let markdown = shown("markdown");
    assert!(markdown.starts_with("### "), "{markdown}");
    assert!(markdown.contains("| **REGRESSION** |"), "{markdown}");
    let quiet = run_in(path, &["compare", "base.json", "slow.json", "-q"]);
    assert_eq!(
        (quiet.status.code(), stdout(&quiet).as_str()),
        (Some(1), "")
    );
}

#[test]
fn several_seeds_are_judged_by_a_test_of_significance() {
    let directory = directory();
    let path = directory.path();
    let mut lines = [String::new(), String::new()];
    for seed in ["1", "2", "3", "4"] {
        for (side, latency) in lines.iter_mut().zip(["p50=1ms,p99=9ms", "p50=5s,p99=9s"]) {
            write(
                path,
                "one.json",
                &["--api-latency", latency, "--seed", seed],
            );
            side.push_str(&fs::read_to_string(path.join("one.json")).expect("a result"));
        }
    }
    fs::write(path.join("base.jsonl"), &lines[0]).expect("written");
    fs::write(path.join("new.jsonl"), &lines[1]).expect("written");
    let sides = args("compare --base base.jsonl --new new.jsonl -o json");
    let output = run_in(path, &sides);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let method = json["method"].as_str().expect("a text");
    assert!(method.contains("Mann-Whitney U test, exact"), "{method}");
    let rows = json["figures"].as_array().expect("rows");
    let work = rows
        .iter()
        .find(|row| row["figure"] == "work_duration_seconds p99");
    let work = work.expect("a row");
    assert_eq!(work["verdict"], "regression");
    let p_value = work["p_value"].as_f64().expect("a number");
    assert!((p_value - 2.0 / 70.0).abs() < 1e-9, "{p_value}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let directory = directory();
    let path = directory.path();
    write(path, "base.json", &[]);
    write(path, "burst.json", &["--scenario", "burst"]);
    fs::write(path.join("empty.json"), "").expect("written");
    fs::write(path.join("text.json"), "hello").expect("written");
    fs::write(path.join("other.json"), "{\"a\": 1}").expect("written");
    fs::write(path.join("raw.json"), [0xff, 0xfe]).expect("written");
    let base = fs::read_to_string(path.join("base.json")).expect("a result");
    let newer = base.replace("\"schema_version\": 2", "\"schema_version\": 99");
    fs::write(path.join("newer.json"), newer).expect("written");
    for (arguments, words) in [
        (
            &["base.json", "burst.json"][..],
            &["scenario is up-down in base.json", "burst", "--force"][..],
        ),
        (
            &["base.json", "newer.json"],
            &["newer.json", "schema_version is 99", "--force"],
        ),
        (&["base.json", "none.json"], &["none.json", "no such file"]),
        (&["base.json", "."], &["is a directory"]),
        (
            &["base.json", "empty.json"],
            &["empty.json", "holds no result"],
        ),
        (
            &["base.json", "text.json"],
            &["text.json", "is no JSON", "line 1"],
        ),
        (
            &["base.json", "other.json"],
            &["other.json", "schema_version is missing"],
        ),
        (&["base.json", "raw.json"], &["raw.json", "is no text"]),
        (&["base.json"], &["two files are compared"]),
        (&[], &["BASE NEW"]),
        (&["--new", "base.json"], &["without --base"]),
        (
            &["base.json", "base.json", "--base", "base.json"],
            &["not both"],
        ),
        (
            &["--base", "base.json", "burst.json", "--new", "base.json"],
            &["the base holds results of different things", "scenario"],
        ),
        (&["-", "-"], &["once only"]),
        (
            &["base.json", "base.json", "--tolerance", "5"],
            &["--tolerance", "5%"],
        ),
        (
            &["base.json", "base.json", "--tolerance", "p98=5%"],
            &["no metric \"p98\""],
        ),
        (
            &["base.json", "base.json", "--figure", "elapse"],
            &["did you mean elapsed"],
        ),
        (
            &["base.json", "base.json", "--figure", "wall"],
            &["none of the results has it"],
        ),
    ] {
        let all: Vec<&str> = ["compare"].iter().chain(arguments).copied().collect();
        assert_refused(&run_in(path, &all), words);
    }
    let forced = run_in(path, &["compare", "base.json", "burst.json", "--force"]);
    assert!(
        stdout(&forced).contains("because of --force"),
        "{}",
        stdout(&forced)
    );
}

#[test]
fn a_result_comes_through_standard_input() {
    let directory = directory();
    let path = directory.path();
    write(path, "base.json", &[]);
    let text = fs::read_to_string(path.join("base.json")).expect("a result");
    let file = path.join("base.json");
    let file = file.to_str().expect("a text");
    let output = run_with_stdin(&["compare", file, "-"], &text);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_run_is_compared_with_a_baseline() {
    let directory = directory();
    let path = directory.path();
    let saved = small(path, &["--save-baseline", "main"]);
    assert_eq!(saved.status.code(), Some(0), "{}", stderr(&saved));
    assert!(path.join(".loadgen/baselines/main.json").exists());

    let same = small(path, &["--baseline", "main"]);
    assert_eq!(same.status.code(), Some(0), "{}", stderr(&same));

    let slow = args("--baseline main --api-latency 5s --json slow.json --save-baseline slow");
    let slower = small(path, &slow);
    assert_eq!(slower.status.code(), Some(1), "{}", stderr(&slower));
    let text = fs::read_to_string(path.join("slow.json")).expect("a result");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(result["outcome"]["exit_code"], 1);
    let reason = result["outcome"]["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("worse than the baseline main: "),
        "{reason}"
    );
    assert!(path.join(".loadgen/baselines/slow.json").exists());

    let loud: Vec<&str> = args(SMALL)[..7]
        .iter()
        .copied()
        .chain(["--baseline", "main"])
        .collect();
    let report = stdout(&run_in(path, &loud));
    assert!(
        report.contains("base     baseline main, seed 1"),
        "{report}"
    );
}

#[test]
fn baselines_that_cannot_be_are_refused_before_the_run() {
    let directory = directory();
    let path = directory.path();
    small(path, &["--save-baseline", "main"]);
    fs::write(path.join("file"), "").expect("written");
    for (arguments, words) in [
        (
            &["--baseline", "mian"][..],
            &["no baseline mian", "there are main"][..],
        ),
        (&["--baseline", "a/b"], &["letters, digits"]),
        (
            &["--baseline", "main", "--scenario", "burst"],
            &["of something else", "scenario"],
        ),
        (
            &["--baseline", "main", "--save-baseline", "main"],
            &["would replace"],
        ),
        (&["--tolerance", "5%"], &["--baseline"]),
        (
            &["--save-baseline", "x", "--baseline-dir", "file/x"],
            &["--baseline-dir", "file/x"],
        ),
        (
            &args("--save-baseline x --json .loadgen/baselines/x.json"),
            &["--json", "--save-baseline", "name two files"],
        ),
    ] {
        assert_refused(&small(path, arguments), words);
    }
    let failed = small(
        path,
        &["--save-baseline", "bad", "--threshold", "excess > 5"],
    );
    assert_eq!(failed.status.code(), Some(1));
    assert!(!path.join(".loadgen/baselines/bad.json").exists());
}

#[test]
fn clusters_of_other_sizes_are_not_compared_unasked() {
    let directory = directory();
    for (file, pods) in [("base.json", "200"), ("new.json", "100")] {
        let engine = ["run", "--engine", "virtual", "--quiet"];
        let all = [&engine[..], &["--pods", pods, "--json", file]].concat();
        let output = run_in(directory.path(), &all);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let output = run_in(directory.path(), &["compare", "base.json", "new.json"]);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let said = stderr(&output);
    for words in ["--pods is 200 in base.json and 100 in new.json", "--force"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let forced = ["compare", "base.json", "new.json", "--force"];
    let output = run_in(directory.path(), &forced);
    assert!(
        stdout(&output).contains("--pods: 200 -> 100 (compared because of --force)"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn settings_are_named_by_their_flags_and_in_their_units() {
    let directory = directory();
    write(directory.path(), "base.json", &[]);
    let more = args("--time-limit 90m --api-latency 5ms --kube-api-burst 40");
    write(directory.path(), "new.json", &more);
    let output = run_in(directory.path(), &["compare", "base.json", "new.json"]);
    let said = stdout(&output);
    for words in [
        "--time-limit: ",
        "-> 1h30m",
        "--api-latency: 0s -> 5ms",
        "--kube-api-burst: 30 -> 40",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("settings."), "{said}");
}

#[test]
fn a_comparison_is_left_as_a_page() {
    let directory = directory();
    write(directory.path(), "base.json", &[]);
    write(directory.path(), "new.json", &["--api-latency", "5s"]);
    let arguments = ["compare", "base.json", "new.json", "--report", "page.html"];
    let output = run_in(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let page = std::fs::read_to_string(directory.path().join("page.html")).unwrap();
    for words in [
        "REGRESSION",
        "base.json, seed 1",
        "--api-latency: 0s -&gt; 5s",
        "</html>",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    // An input is never written over, and nothing is left of a comparison that was refused.
    let base = std::fs::read(directory.path().join("base.json")).unwrap();
    for (report, words) in [
        (
            "base.json",
            "would overwrite the file that the comparison reads",
        ),
        ("none/page.html", "there is no directory none"),
    ] {
        let arguments = ["compare", "base.json", "new.json", "--report", report];
        let output = run_in(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!(
        std::fs::read(directory.path().join("base.json")).unwrap(),
        base
    );
    let arguments = ["compare", "base.json", "new.json", "--report", "-"];
    let output = run_in(directory.path(), &arguments);
    assert!(stdout(&output).starts_with("<!DOCTYPE html>"));
    assert!(!stdout(&output).contains("method   "));
}
