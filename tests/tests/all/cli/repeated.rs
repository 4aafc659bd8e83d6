//! `loadgen run --runs`: the summary of runs with several seeds.

use podstorm_tests::command::{ended, holds, run_in};
use serde_json::Value;

use super::{assert_section_refused, folder, json_in, read};

/// A small run whose calls and pods take random times.
const RANDOM: &str =
    "--scenario up-down --engine virtual --pods 100 --pod-startup-latency p50=1s,p99=3s";

/// Returns a line of the summary.
#[track_caller]
fn line<'a>(document: &'a Value, figure: &str) -> &'a Value {
    let mut lines = document["summary"].as_array().expect("lines").iter();
    let line = lines.find(|line| line["figure"] == figure);
    line.unwrap_or_else(|| panic!("{figure} is missing"))
}

#[test]
fn each_of_several_virtual_runs_equals_a_run_of_its_seed() {
    let folder = folder();
    let line_of_all = format!("run {RANDOM} --runs 3 --seed 4 --json all.json");
    let text = ended(&run_in(&folder, &line_of_all), 0);
    let words = "up-down: 3 runs done\nvirtual engine, seeds 4 to 6\n | the median run, seed | deviation | \
                 \n elapsed_seconds  | \n phase{scale to 50 %}.seconds  | \n host.wall_seconds  | \
                 --seed ";
    holds(&text, words);
    let all = json_in(&folder, "all.json");
    assert_eq!(all["complete"], true);
    let mut elapsed = Vec::new();
    for (result, seed) in all["results"].as_array().expect("results").iter().zip(4..) {
        let alone = format!("run {RANDOM} --seed {seed} -q --json one.json");
        ended(&run_in(&folder, &alone), 0);
        assert_eq!(&json_in(&folder, "one.json"), result);
        elapsed.extend(result["elapsed_seconds"].as_f64());
    }
    let mean = elapsed.iter().sum::<f64>() / 3.0;
    let summed = line(&all, "elapsed_seconds");
    assert!((summed["mean"].as_f64().expect("a number") - mean).abs() < 1e-9);
    assert!(summed["deviation"].as_f64() > Some(0.0));
    assert_eq!(summed["runs"], 3);
    let before = read(&folder, "all.json");
    ended(&run_in(&folder, &format!("{line_of_all} --quiet")), 0);
    assert_eq!(read(&folder, "all.json"), before);
    // The seed in the text is the one of the median run.
    elapsed.sort_by(f64::total_cmp);
    let is_median = |result: &&Value| result["elapsed_seconds"] == elapsed[1];
    let mut results = all["results"].as_array().expect("results").iter();
    let median = &results.find(is_median).expect("the median run")["seed"];
    holds(&text, &format!("the median run, seed {median}: "));
}

#[test]
fn runs_on_threads_report_the_cost_of_each() {
    let folder = folder();
    let line_of_two = "run --scenario up-down --engine threads --pods 300 --runs 2 --json -";
    let output = run_in(&folder, line_of_two);
    let all = super::json(&ended(&output, 0));
    let results = all["results"].as_array().expect("results");
    let seeds: Vec<&Value> = results.iter().map(|result| &result["seed"]).collect();
    assert_eq!(seeds, [1, 2]);
    for result in results {
        let host = &result["host"];
        let number = |name: &str| host[name].as_f64().expect("a number");
        // Excludes earlier runs of the process; CPU time is counted in hundredths of a second.
        let most = number("wall_seconds") * number("cpus") + 0.03;
        assert!(number("cpu_seconds") <= most, "{host}");
    }
    assert_eq!(line(&all, "host.pods_per_second")["runs"], 2);
    // The text goes to the other stream than the document.
    holds(
        &podstorm_tests::command::stderr(&output),
        "2 runs done | seeds 1 to 2",
    );
}

#[test]
fn a_single_run_has_no_deviation() {
    let folder = folder();
    let text = ended(
        &run_in(
            &folder,
            &format!("run {RANDOM} --runs 1 --host-metrics --json all.json"),
        ),
        0,
    );
    holds(&text, "1 run done\nvirtual engine, seed 1\n");
    let all = json_in(&folder, "all.json");
    assert_eq!(line(&all, "elapsed_seconds")["deviation"], Value::Null);
    assert_eq!(line(&all, "host.wall_seconds")["runs"], 1);
}

#[test]
fn two_files_of_several_runs_get_a_significance_test() {
    let folder = folder();
    for (file, latency) in [
        ("base.json", "p50=1ms,p99=9ms"),
        ("new.json", "p50=5s,p99=9s"),
    ] {
        let line = format!("run {RANDOM} --api-latency {latency} --runs 4 -q --json {file}");
        ended(&run_in(&folder, &line), 0);
    }
    let compared = run_in(
        &folder,
        "compare base.json new.json --figure elapsed -o json",
    );
    let compared = super::json(&ended(&compared, 1));
    let p_value = compared["figures"][0]["p_value"]
        .as_f64()
        .expect("a number");
    assert!((p_value - 2.0 / 70.0).abs() < 1e-9, "{p_value}");
}

#[test]
fn the_exit_code_is_that_of_the_worst_run() {
    let folder = folder();
    let line = format!("run {RANDOM} --runs 7 --threshold 'elapsed < 1s'");
    let text = ended(&run_in(&folder, &line), 1);
    let words = "FAILED: 7 of 7 runs | seed 5: threshold not met: elapsed < 1s | \nand 2 more\n";
    holds(&text, words);
}

#[test]
#[cfg(unix)]
fn an_interruption_summarizes_the_finished_runs() {
    let folder = folder();
    let line = format!("run {RANDOM} --runs 1000 --json all.json");
    let (output, _) = podstorm_tests::command::run_until_interrupted(&folder, &line);
    holds(&ended(&output, 130), "INTERRUPTED: ");
    assert_eq!(json_in(&folder, "all.json")["complete"], false);
}

#[test]
fn outputs_of_one_run_are_refused_for_several() {
    assert_section_refused("runs", folder());
}
