//! The output of `loadgen run`: the result and its schema, the time series, the page, the test
//! report, the dashboard's file and the metrics.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use podstorm_tests::command::{command, ended, holds, run, run_in, send, stdout};
use serde_json::Value;
use tempfile::TempDir;

use super::{folder, folder_of, json, json_in, read, write};

/// Flags of a run on the virtual engine in which time passes.
const SLOW: &str = "--scenario up-down --engine virtual --pods 400 --api-latency p50=3ms,p99=40ms \
                    --watch-latency uniform:1ms,9ms --pod-startup-latency p50=800ms,p99=3s --quiet";

/// Returns a folder with the output of a run of [`SLOW`] with these flags.
#[track_caller]
fn slow(files: &str) -> TempDir {
    let folder = folder();
    ended(&run_in(&folder, &format!("run {SLOW} {files}")), 0);
    folder
}

fn schema() -> Value {
    json(&ended(&run("schema result"), 0))
}

/// Makes a schema require everything that it names and forbid everything else. Readers may accept
/// more than the schema; the writer must not write it.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                let optional = [
                    "host",
                    "answer",
                    "groups",
                    "pods_asked",
                    "node_cpu",
                    "node_memory",
                    "zones",
                    "note",
                    // Absent unless the run has such objects or flags.
                    "batch_jobs",
                    "statefulsets",
                    "controller_times",
                    "pod_failures",
                    "pod_run_time_ns",
                ];
                let names = properties
                    .keys()
                    .filter(|name| !optional.contains(&name.as_str()));
                let names: Vec<Value> = names.cloned().map(Value::String).collect();
                members.insert("required".into(), Value::Array(names));
                members.insert("additionalProperties".into(), Value::Bool(false));
            }
            members.values_mut().for_each(strict);
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

/// Returns ten nodes for 20 pods each, and ReplicaSets that fill them.
fn full_nodes() -> String {
    let node = |number: u32| {
        format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n{number}}}\n\
             status: {{allocatable: {{pods: '20'}}}}\n"
        )
    };
    let set = |number: u32| {
        let labels = format!("{{app: s{number}}}");
        format!(
            "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {{name: s{number}}}\n\
             spec:\n  replicas: 20\n  selector: {{matchLabels: {labels}}}\n  template:\n    \
             metadata: {{labels: {labels}}}\n    spec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let all: Vec<String> = (0..10).map(node).chain((0..10).map(set)).collect();
    all.join("---\n")
}

#[test]
fn the_note_names_the_bottleneck() {
    let folder = folder_of(&[("full.yaml", &full_nodes())]);
    let run = "run --engine virtual --upstream-defaults --pod-termination-latency 30s";
    let churn = "--scenario churn --churn-rate 10/s --duration 1m --json waits.json";
    // Deleted pods keep their places on nodes for 30 s.
    let report = ended(&run_in(&folder, &format!("{run} -f full.yaml {churn}")), 0);
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "places on nodes set the pace: | 200 pods at the peak; the nodes hold 200 pods | to read files)";
    holds(&report, words);
    let waits = json_in(&folder, "waits.json")["waits"].clone();
    let number = |name: &str| waits[name].as_f64().unwrap();
    let mean = number("place_seconds") / number("place_pods");
    assert!((25.0..=30.0).contains(&mean), "{waits}");
    assert_eq!(number("places"), 200.0);
    // With enough places, the client limit is the bottleneck.
    let roomy = full_nodes().replace("'20'", "'60'");
    write(&folder, "full.yaml", roomy);
    let report = ended(&run_in(&folder, &format!("{run} -f full.yaml {churn}")), 0);
    holds(
        &report,
        "note         the client limit of 20 QPS set the pace",
    );
    let waits = json_in(&folder, "waits.json")["waits"].clone();
    assert_eq!(waits["place_pods"], 0);
    assert_eq!(waits["places"], 0);
}

#[test]
fn the_published_schema_is_up_to_date() {
    let published = json_in("../loadgen/schemas", "result.schema.json");
    assert!(
        published == schema(),
        "out of date: loadgen schema result > loadgen/schemas/result.schema.json"
    );
    let described = published["properties"]["excess_pods_created"]["description"].as_str();
    assert!(described.is_some_and(|text| text.contains("largest desired")));
}

#[test]
fn results_of_both_engines_and_of_failures_match_the_schema() {
    let mut schema = schema();
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    for flags in [
        "--pods 300",
        "--pods 300 --engine virtual",
        "--pods 300 --engine virtual --host-metrics",
        "--scenario stale-watch --pods 100 --replicasets 5",
        "--scenario cl2-load --pods 300",
        "--pods 500 --engine virtual --api-latency 1s --time-limit 2s",
    ] {
        let mut result = json(&stdout(&run(&format!("run --quiet --json - {flags}"))));
        let problems: Vec<String> = validator
            .iter_errors(&result)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(problems, [""; 0], "{flags}");
        // The validator does reject invalid results.
        result["pods"]["created"] = Value::String("many".into());
        assert!(!validator.is_valid(&result));
    }
}

#[test]
fn the_time_series_is_complete_and_bounded() {
    let folder = slow("--json result.json --csv series.csv");
    let result = json_in(&folder, "result.json");
    let series = result["series"].as_object().unwrap();
    let column = |name: &str| -> Vec<f64> {
        let values = series[name].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let seconds = column("seconds");
    assert!((100..=1_026).contains(&seconds.len()), "{}", seconds.len());
    for column in series.values() {
        assert_eq!(column.as_array().unwrap().len(), seconds.len());
    }
    assert_eq!(seconds[0], 0.0);
    assert_eq!(seconds.last().copied(), result["elapsed_seconds"].as_f64());
    let rising = "seconds phase pods_created pods_deleted api_calls resource_version";
    for name in rising.split(' ') {
        assert!(column(name).is_sorted(), "{name}");
    }
    let most = |name: &str| column(name).into_iter().fold(0.0, f64::max);
    let pods = "pods_desired pods_existing pods_ready pods_created pods_deleted";
    for name in pods.split(' ') {
        assert_eq!(most(name), 400.0, "{name}");
    }
    assert!(most("queue_depth") >= 1.0);
    let calls = result["api_calls"].as_object().unwrap().values();
    let calls: u64 = calls.map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(most("api_calls"), calls as f64);
    let version = result["resource_version"].as_f64();
    assert_eq!(version, Some(most("resource_version")));

    // The CSV table has the same data.
    let text = read(&folder, "series.csv");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let first = ["seconds", "phase", "phase_name", "pods_desired"];
    assert_eq!(header[..4], first);
    // Columns have the same names in both.
    let mut named: Vec<&str> = header.clone();
    named.retain(|name| *name != "phase_name");
    named.sort_unstable();
    let series = result["series"].as_object().unwrap();
    let mut known: Vec<&str> = series.keys().map(String::as_str).collect();
    known.sort_unstable();
    assert_eq!(named, known);
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), seconds.len());
    assert!(rows.iter().all(|row| row.len() == header.len()));
    let last = rows.last().unwrap();
    let created = header.iter().position(|name| *name == "pods_created");
    assert_eq!(last[created.unwrap()], "400");
    assert_eq!(last[0].parse::<f64>().ok(), seconds.last().copied());
}

#[test]
fn histograms_add_up_and_the_slowest_pods_come_first() {
    let result = json_in(slow("--json result.json"), "result.json");
    for name in [
        "convergence_seconds",
        "pod_ready_seconds",
        "queue_duration_seconds",
        "work_duration_seconds",
    ] {
        let buckets = result["histograms"][name].as_array().unwrap();
        let many = buckets.len();
        assert!((2..=131).contains(&many), "{name}: {many}");
        let counts = buckets.iter().map(|it| it["count"].as_u64().unwrap());
        let count: u64 = counts.sum();
        assert_eq!(result[name]["count"].as_u64(), Some(count), "{name}");
    }
    let slowest = result["slowest_replicasets"].as_array().unwrap();
    assert_eq!(slowest.len(), 20);
    let seconds = slowest.iter().map(|one| one["seconds"].as_f64().unwrap());
    let seconds: Vec<f64> = seconds.collect();
    assert!(seconds.is_sorted_by(|a, b| a >= b));
    let max = result["convergence_seconds"]["max"].as_f64().unwrap();
    let most = seconds[0];
    assert!((most / max - 1.0).abs() < 0.002, "{most} and {max}");
    let namespace = slowest[0]["namespace"].as_str();
    assert_eq!(namespace.map(|name| &name[..5]), Some("load-"));
    assert_eq!(slowest[0]["converged"], true);
}

#[test]
fn a_result_names_its_settings_and_versions() {
    let result = |engine| {
        let line = format!("run --scenario up-down -q --json - --pods 50 --engine {engine}");
        json(&stdout(&run(&line)))
    };
    let (real, simulated) = (result("threads"), result("virtual"));
    for result in [&real, &simulated] {
        let build = &result["build"];
        let compiler = build["rustc"].as_str().unwrap();
        assert!(compiler.starts_with("rustc "), "{build}");
        if let Some(commit) = build["commit"].as_str() {
            assert!(commit.len() >= 7, "{build}");
        }
    }
    assert_eq!(real["build"], simulated["build"]);
    assert!(simulated.get("host").is_none());
    if cfg!(target_os = "linux") {
        for when in ["load_average_before", "load_average_after"] {
            let averages = real["host"][when].as_array();
            assert_eq!(averages.map(Vec::len), Some(3), "{when}");
        }
    }
}

#[test]
fn the_files_of_a_virtual_run_depend_only_on_its_seed() {
    let flags = "--json result.json --csv series.csv --report page.html --junit junit.xml \
                 --perf-dash perf.json";
    let (one, other) = (slow(flags), slow(flags));
    let files = flags.split(' ').filter(|word| !word.starts_with('-'));
    for file in files {
        assert!(read(&one, file) == read(&other, file), "{file} differs");
    }
}

#[test]
fn a_failing_run_writes_all_its_files_with_the_reason() {
    let folder = folder();
    let line = "run --scenario up-down --engine virtual --pods 500 --api-latency 100ms --time-limit 150ms --json r.json \
                --csv r.csv --report r.html --junit r.xml --perf-dash p.json";
    let report = ended(&run_in(&folder, line), 1);
    for file in ["r.json", "r.html", "r.xml"] {
        let reason = "the time limit of 0.15 s was reached";
        holds(&read(&folder, file), reason);
    }
    assert!(read(&folder, "r.csv").lines().count() > 2);
    holds(&read(&folder, "r.xml"), "<failure");
    let data = json_in(&folder, "p.json");
    assert_eq!(data["labels"]["exit_code"], "1");
    let result = json_in(&folder, "r.json");
    assert_eq!(result["outcome"]["exit_code"], 1);
    // The screen also states the failure and names the files.
    holds(&report, "FAILED");
    let mut lines = report.lines().map(str::trim_start);
    let line = lines.find(|line| line.starts_with("written"));
    let line = line.unwrap_or_else(|| panic!("{report}"));
    holds(line, "r.json | r.csv | r.html | r.xml | p.json");
    assert!(report.lines().count() <= 30, "{report}");
}

#[test]
fn junit_has_a_test_case_for_each_phase() {
    let folder = slow("--junit r.xml --json r.json");
    let text = read(&folder, "r.xml");
    let result = json_in(&folder, "r.json");
    let phases = result["phases"].as_array().unwrap();
    assert!(text.starts_with("<?xml"), "{text}");
    let cases = text.matches("<testcase").count();
    assert_eq!(cases, phases.len() + 1, "{text}");
    let words = "failures=\"0\" | phase 2: scale to 100 % | name=\"invariants\"";
    holds(&text, words);
}

#[test]
fn perf_dash_has_percentiles_in_milliseconds() {
    let folder = slow("--perf-dash p.json --json r.json");
    let data = json_in(&folder, "p.json");
    let result = json_in(&folder, "r.json");
    assert_eq!(data["version"], "v1");
    let items = data["dataItems"].as_array().unwrap();
    assert_eq!(items.len(), 4);
    let is_ready = |item: &&Value| item["labels"]["Metric"] == "pod_ready";
    let ready = items.iter().find(is_ready).unwrap();
    assert_eq!(ready["unit"], "ms");
    let seconds = result["pod_ready_seconds"]["p99"].as_f64().unwrap();
    let ms = ready["data"]["Perc99"].as_f64().unwrap();
    assert!((ms / 1e3 - seconds).abs() < 1e-9, "{ms} ms, {seconds} s");
}

#[test]
fn the_screen_has_colors_only_on_a_terminal() {
    let output = run("run --scenario up-down --engine virtual --pods 50");
    assert!(!stdout(&output).contains('\u{1b}'));
}

/// Sends a request to the server of a run. Returns the answer with its head.
fn ask(address: SocketAddr, path: &str, accept: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
#[cfg(unix)]
fn metrics_are_served_during_the_run() {
    // The run would take minutes of real time; a signal ends it.
    let line =
        "run --scenario up-down --pods 1000 --kube-api-qps 50 --quiet --metrics-addr 127.0.0.1:0";
    let mut child = command(line)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    errors
        .read_line(&mut line)
        .expect("a line with the address");
    let address = line
        .trim()
        .strip_prefix("metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"));
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    let number = |text: &str, series: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    // Prometheus prefers OpenMetrics; Kubernetes' components answer with the plain format.
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let scrape = || ask(address, "/metrics", accept).expect("an answer");
    let created = "rest_client_requests_total{code=\"201\",host=\"embedded\",method=\"POST\"}";
    // The run needs a moment to start.
    let mut text = scrape();
    let at_least = |text: &str, series: &str, least: f64| {
        number(text, series).is_some_and(|value| value >= least)
    };
    let is_under_way = |text: &str| {
        at_least(text, created, 1.0)
            && at_least(text, "workqueue_adds_total", 20.0)
            && at_least(text, "workqueue_unfinished_work_seconds", 0.001)
    };
    for _ in 0..100 {
        if is_under_way(&text) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        text = scrape();
    }
    let health = ask(address, "/healthz", "*/*").expect("an answer");
    let other = ask(address, "/", "*/*").expect("an answer");
    send("INT", &child);
    assert_eq!(child.wait().expect("an exit status").code(), Some(130));

    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    assert!(text.contains("text/plain; version=0.0.4"), "{text}");
    for series in [
        "workqueue_depth{name=\"replicaset\"}",
        "workqueue_adds_total{name=\"replicaset\"}",
        "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"1e-08\"}",
        "workqueue_queue_duration_seconds_bucket{name=\"replicaset\",le=\"9.999999999999999e-06\"}",
        "workqueue_work_duration_seconds_bucket{name=\"replicaset\",le=\"10\"}",
        "workqueue_work_duration_seconds_count{name=\"replicaset\"}",
        "workqueue_unfinished_work_seconds{name=\"replicaset\"}",
        "workqueue_longest_running_processor_seconds{name=\"replicaset\"}",
        "workqueue_retries_total{name=\"replicaset\"}",
        "replicaset_controller_sorting_deletion_age_ratio_bucket{le=\"0.25\"}",
        "replicaset_controller_stale_sync_skips_total{group=\"apps\",resource=\"replicasets\"}",
        "rest_client_rate_limiter_duration_seconds_bucket{host=\"embedded\",verb=\"POST\",le=\"0.005\"}",
        "rest_client_rate_limiter_duration_seconds_bucket{host=\"embedded\",verb=\"POST\",le=\"60\"}",
        "rest_client_rate_limiter_duration_seconds_sum{host=\"embedded\",verb=\"POST\"}",
        "store_resource_version{group=\"\",resource=\"pods\",version=\"v1\"}",
        "loadgen_pods{state=\"desired\"}",
        created,
    ] {
        let number = number(&text, series);
        assert!(number.is_some(), "{series} is missing in\n{text}");
    }
    assert!(is_under_way(&text), "{text}");
    assert!(health.ends_with("ok\n"), "{health}");
    assert!(other.starts_with("HTTP/1.1 404"), "{other}");
}
