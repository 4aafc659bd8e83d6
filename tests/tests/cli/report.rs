//! What `loadgen run` leaves behind: the result and its schema, the time series, the page, the test
//! report, the dashboard's file and the metrics, each as its reader meets it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

use podstorm_tests::command::{loadgen, run, run_in, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

use super::{args, read};

/// Flags of a run in which time passes, on the virtual engine.
const SLOW: &str = "--engine virtual --pods 400 --api-latency p50=3ms,p99=40ms \
                    --watch-latency uniform:1ms,9ms --pod-startup-latency p50=800ms,p99=3s --quiet";

#[track_caller]
fn run_ok(directory: &Path, arguments: &[&str]) {
    let mut all = vec!["run"];
    all.extend(arguments);
    let output = run_in(directory, &all);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

fn schema() -> Value {
    let output = run(&["schema", "result"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("a schema is JSON")
}

/// Forbids what the schema does not name and asks for all that it does: readers may meet more than
/// a schema says, writers may not write it.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                let optional = ["host", "answer", "groups", "pods_asked", "note"];
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

#[test]
fn the_published_schema_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../loadgen/schemas/result.schema.json");
    let published: Value = serde_json::from_str(&read(&path)).expect("a schema is JSON");
    assert!(
        published == schema(),
        "out of date: loadgen schema result > loadgen/schemas/result.schema.json"
    );
    let described = published["properties"]["excess_pods_created"]["description"].as_str();
    assert!(described.is_some_and(|text| text.contains("largest desired")));
}

#[test]
fn results_of_both_engines_and_of_failures_fit_the_schema() {
    let mut schema = schema();
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).expect("it is a schema");
    for arguments in [
        &["--pods", "300"][..],
        &["--pods", "300", "--engine", "virtual"],
        &["--pods", "300", "--engine", "virtual", "--host-metrics"],
        &args("--scenario stale-watch --pods 100 --replicasets 5"),
        &["--scenario", "cl2-load", "--pods", "300"],
        &args("--pods 500 --engine virtual --api-latency 1s --time-limit 2s"),
    ] {
        let mut all = vec!["run", "--quiet", "--json", "-"];
        all.extend(arguments);
        let output = run(&all);
        let mut result: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let problems: Vec<String> = validator
            .iter_errors(&result)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(problems, [""; 0], "{arguments:?}");
        // And it can fail.
        result["pods"]["created"] = Value::String("many".into());
        assert!(!validator.is_valid(&result));
    }
}

#[test]
fn the_series_is_the_run_over_time_and_bounded() {
    let directory = TempDir::new().unwrap();
    let mut arguments = args(SLOW);
    arguments.extend(["--json", "result.json", "--csv", "series.csv"]);
    run_ok(directory.path(), &arguments);
    let result: Value = serde_json::from_str(&read(directory.path().join("result.json"))).unwrap();
    let series = result["series"].as_object().unwrap();
    let column = |name: &str| -> Vec<f64> {
        let values = series[name].as_array().unwrap();
        values.iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let seconds = column("seconds");
    assert!((100..=1_026).contains(&seconds.len()), "{}", seconds.len());
    assert!(
        series
            .values()
            .all(|column| column.as_array().unwrap().len() == seconds.len())
    );
    assert_eq!(seconds[0], 0.0);
    assert_eq!(seconds.last().copied(), result["elapsed_seconds"].as_f64());
    for name in args("seconds phase pods_created pods_deleted api_calls resource_version") {
        assert!(column(name).is_sorted(), "{name}");
    }
    let most = |name: &str| column(name).into_iter().fold(0.0, f64::max);
    for name in args("pods_desired pods_existing pods_ready pods_created pods_deleted") {
        assert_eq!(most(name), 400.0, "{name}");
    }
    assert!(most("queue_depth") >= 1.0);
    let calls: u64 = result["api_calls"]
        .as_object()
        .unwrap()
        .values()
        .map(|n| n.as_u64().unwrap())
        .sum();
    assert_eq!(most("api_calls"), calls as f64);
    assert_eq!(
        result["resource_version"].as_f64(),
        Some(most("resource_version"))
    );

    // The same, as a table.
    let text = read(directory.path().join("series.csv"));
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(
        header[..4],
        ["seconds", "phase", "phase_name", "pods_desired"]
    );
    // One name for one column, here and there.
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
    assert_eq!(
        last[header
            .iter()
            .position(|name| *name == "pods_created")
            .unwrap()],
        "400"
    );
    assert_eq!(last[0].parse::<f64>().ok(), seconds.last().copied());
}

#[test]
fn histograms_add_up_and_the_slowest_come_first() {
    let directory = TempDir::new().unwrap();
    let mut arguments = args(SLOW);
    arguments.extend(["--json", "result.json"]);
    run_ok(directory.path(), &arguments);
    let result: Value = serde_json::from_str(&read(directory.path().join("result.json"))).unwrap();
    for name in
        args("convergence_seconds pod_ready_seconds queue_duration_seconds work_duration_seconds")
    {
        let buckets = result["histograms"][name].as_array().unwrap();
        assert!(
            (2..=131).contains(&buckets.len()),
            "{name}: {}",
            buckets.len()
        );
        let count: u64 = buckets
            .iter()
            .map(|bucket| bucket["count"].as_u64().unwrap())
            .sum();
        assert_eq!(result[name]["count"].as_u64(), Some(count), "{name}");
    }
    let slowest = result["slowest_replicasets"].as_array().unwrap();
    assert_eq!(slowest.len(), 20);
    let seconds: Vec<f64> = slowest
        .iter()
        .map(|one| one["seconds"].as_f64().unwrap())
        .collect();
    assert!(seconds.is_sorted_by(|a, b| a >= b));
    let max = result["convergence_seconds"]["max"].as_f64().unwrap();
    assert!(
        (seconds[0] / max - 1.0).abs() < 0.002,
        "{} and {max}",
        seconds[0]
    );
    assert_eq!(
        slowest[0]["namespace"].as_str().map(|name| &name[..5]),
        Some("load-")
    );
    assert_eq!(slowest[0]["converged"], true);
}

#[test]
fn a_result_says_what_it_was_made_with() {
    let result = |engine| -> Value {
        let output = run(&[
            "run", "-q", "--json", "-", "--pods", "50", "--engine", engine,
        ]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (real, simulated) = (result("threads"), result("virtual"));
    for result in [&real, &simulated] {
        let build = &result["build"];
        assert!(
            build["rustc"].as_str().unwrap().starts_with("rustc "),
            "{build}"
        );
        if let Some(commit) = build["commit"].as_str() {
            assert!(commit.len() >= 7, "{build}");
        }
    }
    assert_eq!(real["build"], simulated["build"]);
    assert!(simulated.get("host").is_none());
    if cfg!(target_os = "linux") {
        for when in ["load_average_before", "load_average_after"] {
            assert_eq!(
                real["host"][when].as_array().map(Vec::len),
                Some(3),
                "{when}"
            );
        }
    }
}

#[test]
fn files_of_a_virtual_run_are_its_seed() {
    let directory = TempDir::new().unwrap();
    let files = args("result.json series.csv page.html junit.xml perf.json");
    let flags = ["--json", "--csv", "--report", "--junit", "--perf-dash"];
    let mut texts: Vec<Vec<String>> = Vec::new();
    for _ in 0..2 {
        let mut arguments = args(SLOW);
        for (flag, file) in flags.iter().zip(&files) {
            arguments.extend([flag, file]);
        }
        run_ok(directory.path(), &arguments);
        texts.push(
            files
                .iter()
                .map(|file| read(directory.path().join(file)))
                .collect(),
        );
    }
    for (number, file) in files.iter().enumerate() {
        assert!(texts[0][number] == texts[1][number], "{file} differs");
    }
}

#[test]
fn a_run_that_fails_leaves_all_its_files_with_the_reason() {
    let directory = TempDir::new().unwrap();
    let output = run_in(
        directory.path(),
        &args(
            "run --engine virtual --pods 500 --api-latency 100ms --time-limit 150ms --json r.json --csv r.csv --report r.html --junit r.xml --perf-dash p.json",
        ),
    );
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let reason = "the time limit of 0.15 s was reached";
    for file in ["r.json", "r.html", "r.xml"] {
        assert!(read(directory.path().join(file)).contains(reason), "{file}");
    }
    assert!(read(directory.path().join("r.csv")).lines().count() > 2);
    let junit = read(directory.path().join("r.xml"));
    assert!(junit.contains("<failure"), "{junit}");
    let data: Value = serde_json::from_str(&read(directory.path().join("p.json"))).unwrap();
    assert_eq!(data["labels"]["exit_code"], "1");
    // The screen names them.
    let report = stdout(&output);
    let line = report
        .lines()
        .find(|line| line.trim_start().starts_with("written"));
    let line = line.unwrap_or_else(|| panic!("{report}"));
    for file in ["r.json", "r.csv", "r.html", "r.xml", "p.json"] {
        assert!(line.contains(file), "{line}");
    }
    assert!(report.lines().count() <= 30, "{report}");
}

#[test]
fn junit_has_a_test_case_for_each_phase() {
    let directory = TempDir::new().unwrap();
    let mut arguments = args(SLOW);
    arguments.extend(["--junit", "r.xml", "--json", "r.json"]);
    run_ok(directory.path(), &arguments);
    let text = read(directory.path().join("r.xml"));
    let result: Value = serde_json::from_str(&read(directory.path().join("r.json"))).unwrap();
    let phases = result["phases"].as_array().unwrap();
    assert!(text.starts_with("<?xml"), "{text}");
    assert_eq!(
        text.matches("<testcase").count(),
        phases.len() + 1,
        "{text}"
    );
    assert!(text.contains("failures=\"0\""), "{text}");
    assert!(text.contains("phase 2: scale to 100 %"), "{text}");
    assert!(text.contains("name=\"invariants\""), "{text}");
}

#[test]
fn perf_dash_has_percentiles_in_milliseconds() {
    let directory = TempDir::new().unwrap();
    let mut arguments = args(SLOW);
    arguments.extend(["--perf-dash", "p.json", "--json", "r.json"]);
    run_ok(directory.path(), &arguments);
    let data: Value = serde_json::from_str(&read(directory.path().join("p.json"))).unwrap();
    let result: Value = serde_json::from_str(&read(directory.path().join("r.json"))).unwrap();
    assert_eq!(data["version"], "v1");
    let items = data["dataItems"].as_array().unwrap();
    assert_eq!(items.len(), 4);
    let ready = items
        .iter()
        .find(|item| item["labels"]["Metric"] == "pod_ready")
        .unwrap();
    assert_eq!(ready["unit"], "ms");
    let seconds = result["pod_ready_seconds"]["p99"].as_f64().unwrap();
    let ms = ready["data"]["Perc99"].as_f64().unwrap();
    assert!((ms / 1e3 - seconds).abs() < 1e-9, "{ms} ms, {seconds} s");
}

#[test]
fn outputs_are_known_to_be_writable_before_the_run() {
    let directory = TempDir::new().unwrap();
    for flag in ["--report", "--csv", "--junit", "--perf-dash"] {
        let output = run_in(directory.path(), &["run", flag, "no/such/file"]);
        assert_eq!(output.status.code(), Some(2), "{flag}");
        let text = stderr(&output);
        assert!(
            text.contains(flag) && text.contains("no directory no/such"),
            "{text}"
        );
    }
    for [a, b] in [
        ["--json", "--csv"],
        ["--report", "--junit"],
        ["--csv", "--perf-dash"],
    ] {
        let output = run_in(directory.path(), &["run", a, "same", b, "./same"]);
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        assert!(
            text.contains(a) && text.contains(b) && text.contains("name two files"),
            "{text}"
        );
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_screen_has_colours_on_a_terminal_only() {
    let arguments = ["run", "--engine", "virtual", "--pods", "50"];
    assert!(!stdout(&run(&arguments)).contains('\u{1b}'));
}

/// Asks the server of a run; the answer with its head.
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
fn metrics_are_served_while_the_run_goes_on() {
    // Minutes of work in real time: a signal ends it.
    let mut child = Command::new(loadgen())
        .args(["run", "--pods", "1000", "--kube-api-qps", "50", "--quiet"])
        .args(["--metrics-addr", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    let mut errors = BufReader::new(child.stderr.take().expect("it is piped"));
    errors.read_line(&mut line).expect("it says where");
    let address = line
        .trim()
        .strip_prefix("metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"));
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    let number = |text: &str, series: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    // Prometheus asks for OpenMetrics first; Kubernetes' components answer with the plain format.
    let accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    let scrape = || ask(address, "/metrics", accept).expect("it answers");
    let created = "rest_client_requests_total{code=\"201\",host=\"embedded\",method=\"POST\"}";
    // The run takes a moment to get going.
    let mut text = scrape();
    let at_least = |text: &str, series: &str, least: f64| {
        number(text, series).is_some_and(|value| value >= least)
    };
    for _ in 0..100 {
        let is_under_way = at_least(&text, created, 1.0)
            && at_least(&text, "workqueue_adds_total", 20.0)
            && at_least(&text, "workqueue_unfinished_work_seconds", 0.001);
        if is_under_way {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        text = scrape();
    }
    let health = ask(address, "/healthz", "*/*").expect("it answers");
    let other = ask(address, "/", "*/*").expect("it answers");
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.is_ok_and(|status| status.success()));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));

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
        assert!(
            number(&text, series).is_some(),
            "{series} is missing in\n{text}"
        );
    }
    assert!(at_least(&text, "workqueue_adds_total", 20.0), "{text}");
    assert!(
        at_least(&text, "workqueue_unfinished_work_seconds", 0.001),
        "{text}"
    );
    assert!(health.ends_with("ok\n"), "{health}");
    assert!(other.starts_with("HTTP/1.1 404"), "{other}");
}

#[test]
fn a_port_that_is_in_use_is_told_before_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = run(&["run", "--pods", "1m", "--metrics-addr", &address]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let text = stderr(&output);
    assert!(
        text.contains("--metrics-addr") && text.contains(&address),
        "{text}"
    );
    assert!(text.contains("is in use"), "{text}");
    let output = run(&["run", "--metrics-addr", "9090"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("127.0.0.1:9090"),
        "{}",
        stderr(&output)
    );
}
