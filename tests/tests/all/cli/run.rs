//! Whole runs of the `loadgen` command: on success, at the time limit, and after Ctrl-C.

use podstorm_tests::command::{
    assert_refused, command, ended, holds, run, run_in, run_until_interrupted, run_with_stdin,
    stderr, stdout, told,
};
use serde_json::{Value, json};

use super::{EXAMPLE, EXAMPLES, folder, folder_of, json, json_in, names_in, read, write};

/// Returns the result of a run, which must succeed.
#[track_caller]
fn result_of(flags: &str) -> Value {
    json(&ended(&run(&format!("run --quiet --json - {flags}")), 0))
}

#[test]
fn up_down_can_be_audited_on_both_engines() {
    for engine in ["threads", "virtual"] {
        let result = result_of(&format!("--scenario up-down --engine {engine} --pods 500"));
        for what in ["created", "bound", "ready", "deleted", "peak"] {
            assert_eq!(result["pods"][what], 500, "{engine}: {what}");
        }
        assert_eq!(result["excess_pods_created"], 0);
        assert_eq!(result["writes"]["create pods"], 500);
        assert_eq!(result["outcome"]["converged"], true);
        assert_eq!(result["outcome"]["exit_code"], 0);
        assert_eq!(result["engine"], engine);
        assert_eq!(result["settings"]["size"]["replicasets"], 10);
        assert_eq!(result.get("host").is_some(), engine == "threads");
    }
    let result = result_of("--engine virtual --pods 50 --host-metrics");
    assert!(result["host"]["wall_seconds"].is_number());
}

#[test]
fn pods_wait_if_generated_nodes_are_too_small() {
    let resources = "image: 'shop/app:1', resources: {requests: {cpu: 600m, memory: 1Gi}}";
    let large = FLAKY.replace("image: 'shop/app:1'", resources);
    let folder = folder_of(&[("large.yaml", &large)]);
    for (flags, code, ready) in [
        ("--nodes 2 --node-cpu 1", 1, 2),
        ("--nodes 2 --node-cpu 2", 0, 3),
        ("--nodes 1 --node-memory 2Gi", 1, 2),
        ("--nodes 1 --node-memory 3Gi", 0, 3),
        ("--nodes 1", 0, 3),
    ] {
        let line = format!("run -f large.yaml --engine virtual {flags} -q --json r.json");
        ended(&run_in(&folder, &line), code);
        let result = json_in(&folder, "r.json");
        assert_eq!(result["pods"]["ready"], ready, "{flags}");
    }
    // Enough nodes are generated for the requests of generated pods.
    let sized = "--engine virtual --pods 500 --node-cpu 100m --node-memory 1Gi";
    let size = &result_of(sized)["settings"]["size"];
    assert_eq!(size["nodes"], 50);
    assert_eq!([&size["node_cpu"], &size["node_memory"]], ["100m", "1Gi"]);
}

/// A ReplicaSet whose containers fail once after one second, and are ready only later.
const FLAKY: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: flaky}
spec:
  replicas: 3
  selector: {matchLabels: {app: flaky}}
  template:
    metadata:
      labels: {app: flaky}
      annotations: {podstorm/script: 'run=1s,never exit=1 ready=3s'}
    spec: {containers: [{name: app, image: 'shop/app:1'}]}
";

#[test]
fn containers_that_fail_by_script_restart_in_their_pods() {
    let folder = folder_of(&[("flaky.yaml", FLAKY)]);
    let line = "run -f flaky.yaml --engine virtual --pod-startup-latency 2s -q --json r.json";
    ended(&run_in(&folder, line), 0);
    let result = json_in(&folder, "r.json");
    for what in ["created", "ready", "peak"] {
        assert_eq!(result["pods"][what], 3, "{what}");
    }
    let seconds = result["convergence_seconds"]["max"].as_f64().unwrap();
    // Started after two seconds, restarted one second later, ready after three more.
    assert!((5.9..6.1).contains(&seconds), "{seconds}");
}

#[test]
fn the_hardened_behaviour_is_shown_with_the_settings() {
    let yaml = stdout(&run(
        "run --scenario up-down --behaviour hardened --print-scenario",
    ));
    let mut lines = yaml.lines();
    assert!(lines.any(|line| line == "behaviour: hardened"), "{yaml}");
    for engine in ["virtual", "threads"] {
        let result = result_of(&format!("--behaviour hardened --pods 60 --engine {engine}"));
        assert_eq!(result["behaviour"], "hardened");
        assert_eq!(result["settings"]["behaviour"], "hardened");
        assert_eq!(result["excess_pods_created"], 0);
    }
    let report = run("run --scenario up-down --behaviour hardened --pods 60 --engine virtual");
    let text = format!("{}{}", stdout(&report), stderr(&report));
    holds(&text, "hardened behaviour");
}

#[test]
fn the_result_has_these_members() {
    let result = result_of("--engine virtual --pods 50");
    let names = "schema_version version scenario engine behaviour feature_gates seed settings outcome \
                 pods excess_pods_created wasted_work api_calls syncs convergence_seconds \
                 queue_duration_seconds work_duration_seconds events watch_events resource_version \
                 phases input";
    for name in names.split(' ') {
        assert!(result.get(name).is_some(), "{name}");
    }
    for quantile in ["p50", "p90", "p99", "p999", "max"] {
        let value = &result["convergence_seconds"][quantile];
        assert!(value.is_number(), "{quantile}");
    }
}

#[test]
fn a_virtual_run_depends_only_on_its_seed() {
    let bytes = |seed: u32| {
        let flags = "--engine virtual --pods 300 --api-latency p50=3ms,p99=40ms --watch-latency uniform:1ms,9ms";
        run(&format!("run -q --json - {flags} --seed {seed}")).stdout
    };
    let first = bytes(7);
    assert!(!first.is_empty());
    assert!(first == bytes(7), "the same seed gives the same bytes");
    assert!(first != bytes(8));
}

#[test]
fn quiet_prints_nothing_and_the_report_fits_one_screen() {
    assert_eq!(
        told(&run("run --scenario up-down -q --engine virtual --pods 50")),
        ""
    );
    let output = run("run --scenario up-down --engine virtual --pods 500 --upstream-defaults");
    let report = stdout(&output);
    assert!(report.starts_with("up-down: converged in "), "{report}");
    holds(&report, "20 QPS set the pace");
    assert!(report.lines().count() <= 30, "{report}");
    let fits = |line: &str| line.chars().count() <= 100;
    assert!(report.lines().all(fits), "{report}");
    // Without a terminal: plain lines, and nothing is redrawn.
    let said = stderr(&output);
    assert!(!said.contains(['\r', '\u{1b}']), "{said}");
    // The report moves to standard error to make room for the JSON.
    let output = run("run --scenario up-down --engine virtual --pods 50 --json -");
    json(&stdout(&output));
    holds(&stderr(&output), "converged");
}

#[test]
fn examples_run_unchanged() {
    let files = format!("-f {EXAMPLES}/frontend.yaml -f {EXAMPLES}/nginx-rc.yaml");
    let result = result_of(&format!("--engine virtual {files}"));
    assert_eq!(result["scenario"], "manifests");
    for kind in ["ReplicaSet", "ReplicationController", "Pod"] {
        assert_eq!(result["input"]["taken"][kind], 1);
    }
    // Three pods each, one of which the files contain already.
    assert_eq!(result["pods"]["created"], 5);
    assert_eq!(result["writes"]["import pods"], 1);
    assert_eq!(result["pods"]["adopted"], 1);
}

/// A run of objects from standard input.
const TO_JSON: &str = "run --engine virtual -f - --json -";

#[test]
fn a_dump_is_used_unchanged_and_other_kinds_are_counted() {
    let uid = |n: u32| format!("7f420cbd-206a-47ea-a64a-{n:012}");
    let pod = |n: u32| {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": format!("web-{n}"), "namespace": "shop", "uid": uid(n),
                "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": "web", "uid": uid(0), "controller": true}],
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-02T03:04:09Z"}]},
        })
    };
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let dump = json!({
        "apiVersion": "v1",
        "items": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet",
             "metadata": {"name": "web", "namespace": "shop", "uid": uid(0)},
             "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                      "template": template}},
            pod(1), pod(2), pod(3),
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
             "status": {"allocatable": {"pods": "10"}}},
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}},
        ],
        "kind": "List",
    });
    let output = run_with_stdin(TO_JSON, &dump.to_string());
    let result = json(&ended(&output, 0));
    assert_eq!(result["input"]["ignored"]["Service"], 1);
    assert_eq!(result["input"]["taken"]["Pod"], 3);
    let created = &result["pods"]["created"];
    assert_eq!(*created, 0, "no pods besides those of the dump");
    assert_eq!(result["input"]["pods"]["ready"], 3);
    assert_eq!(result["pods"]["deleted"], 1);
    holds(&stderr(&output), "Service: 1 (not simulated)");
}

#[test]
fn kinds_without_a_rust_type_are_read_and_can_own_pods() {
    let uid = |number: u32| format!("5a8d3c1e-9a42-4f6b-8c55-{number:012}");
    let pod = |number: u32, owner: u32| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("p-{number}"), "namespace": "shop", "uid": uid(number),
                "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "map",
                                     "uid": uid(owner), "controller": true}],
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        })
    };
    let map = |data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": "map", "namespace": "shop", "uid": uid(9)}})
    };
    let list =
        |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    // Only if there are other ConfigMaps is it visible that the owner does not exist.
    for (maps, deleted) in [(vec![], 0), (vec![map(json!({"a": "b"}))], 1)] {
        let items = [vec![pod(1, 9), pod(2, 8)], maps.clone()].concat();
        let result = json(&ended(&run_with_stdin(TO_JSON, &list(items)), 0));
        let taken = result["input"]["taken"]["ConfigMap"].as_u64();
        assert_eq!(taken.unwrap_or(0), maps.len() as u64);
        assert_eq!(result["pods"]["deleted"], deleted, "{maps:?}");
    }
    let items = vec![pod(1, 9), pod(2, 8), map(json!({}))];
    let output = run_with_stdin("run --dry-run -f -", &list(items));
    holds(&stdout(&output), "1 pod whose owner isn't in the files");
    let broken = list(vec![pod(1, 9), map(json!({"a": 1}))]);
    let words = "ConfigMap shop/map | data";
    assert_refused(&run_with_stdin(TO_JSON, &broken), words);
    let alone = list(vec![map(json!({}))]);
    let words = "nothing to simulate: found 1 ConfigMap";
    assert_refused(&run_with_stdin(TO_JSON, &alone), words);
}

#[test]
fn a_dump_is_summarized_with_its_unready_pods() {
    let folder = folder();
    for engine in ["threads", "virtual"] {
        let file = format!("-f {EXAMPLES}/{EXAMPLE}");
        let line = format!("run --engine {engine} --report page.html {file}");
        let report = ended(&run_in(&folder, &line), 0);
        let words = "12 pods wanted, 1 ReplicaSet, 4 nodes, 1 namespace | 0 pods were created | \
                     not ready ( | of them at the end too)";
        holds(&report, words);
        let page = read(&folder, "page.html");
        let words = "4 nodes, 1 namespace | Pods of the input | not ready";
        holds(&page, words);
    }
}

#[test]
fn a_dry_run_summarizes_the_files_and_runs_nothing() {
    let more = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\napiVersion: v1\nkind: Pod\n\
                metadata:\n  name: lost\n  ownerReferences:\n  - {apiVersion: apps/v1, kind: ReplicaSet, \
                name: gone, controller: true, uid: 5a8d3c1e-9a42-4f6b-8c55-0d7e62b1f9a4}\nspec: \
                {containers: [{name: c, image: i}]}\nstatus: {phase: Pending}\n";
    let folder = folder_of(&[("more.yaml", more)]);
    let files = format!("-f {EXAMPLES}/{EXAMPLE} -f more.yaml");
    let line = format!("run --dry-run --json result.json {files}");
    let text = told(&run_in(&folder, &line));
    let words = "Pod: 13, ReplicaSet: 1 | Service: 1 (not simulated) | 4 nodes | \
                 Pending without a node:  | ReplicaSet shop/web reports 0 pods, 0 ready, and has 12, | \
                 1 pod whose owner isn't in the files | nothing was run";
    holds(&text, words);
    assert_eq!(names_in(&folder), ["more.yaml"]);
}

#[test]
fn an_unknown_field_causes_a_warning_and_the_run_continues() {
    let text = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: web}\nspec:\n  replicaz: 3\n  \
                selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    \
                spec: {containers: [{name: c, image: i}]}\n";
    let output = run_with_stdin("run --engine virtual -f -", text);
    ended(&output, 0);
    let told = "warning: standard input: document 1 (ReplicaSet default/web): unknown field \
                \"spec.replicaz\" is ignored; did you mean replicas?\n";
    assert!(stderr(&output).starts_with(told), "{}", stderr(&output));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_reports_on_what_ran() {
    let folder = folder();
    // The run would take hours of real time; a signal ends it.
    let line = "run --scenario up-down --pods 1000 --kube-api-qps 1 --json result.json";
    let (output, rest) = run_until_interrupted(&folder, line);
    let report = ended(&output, 130);
    holds(&rest, "interrupted");
    let begin = "up-down: interrupted after ";
    assert!(report.starts_with(begin), "{report}");
    let result = json_in(&folder, "result.json");
    assert_eq!(result["outcome"]["exit_code"], 130);
    assert_eq!(names_in(&folder), ["result.json"]);
}

/// The report is written to a pipe without a reader.
#[test]
fn an_unread_report_does_no_harm() {
    let folder = folder();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command("run --scenario up-down --engine virtual --pods 50 --json result.json")
        .current_dir(&folder)
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    ended(&output, 0);
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    let result = json_in(&folder, "result.json");
    assert_eq!(result["scenario"], "up-down");
}

/// Returns the places in a text where a plural follows the number one.
fn plurals_of_one(text: &str) -> Vec<String> {
    let is_one = |word: &str| word.trim_start_matches('(') == "1";
    let is_plural = |word: &str| {
        let word = word.trim_end_matches([',', ';', ':', '.', ')']);
        let is_noun = word.len() > 3 && word.chars().all(char::is_alphabetic);
        is_noun && word.ends_with('s') && !word.ends_with("ss")
    };
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pairs = words.windows(2);
        let pairs = pairs.filter(|pair| is_one(pair[0]) && is_plural(pair[1]));
        found.extend(pairs.map(|pair| pair.join(" ")));
    }
    found
}

#[test]
fn the_number_one_has_no_plural() {
    assert_eq!(
        plurals_of_one("is 1 pods, 1 pod, 2 pods, (1 seeds)"),
        ["1 pods,", "(1 seeds)"]
    );
    let folder = folder_of(&[(
        "one.yaml",
        "name: one\nquestion: Q?\nsuccess: S.\nphases:\n- name: up\n  steps:\n  - createNamespaces\n",
    )]);
    let one = "--pods 1 --replicasets 1 --nodes 1 --namespaces 1";
    for (line, code) in [
        (format!("run --scenario up-down {one} --threads 1"), 0),
        (
            format!("run {one} --engine virtual --scenario stale-watch"),
            0,
        ),
        (
            format!(
                "run {one} --engine virtual --pod-startup-latency 9s --api-latency 5s --time-limit 12s"
            ),
            1,
        ),
        (
            "run --scenario up-down --pods 1 --replicasets 2".to_owned(),
            2,
        ),
        ("run --scenario up-down --pods 111 --nodes 1".to_owned(), 2),
        (
            format!("sweep --engine virtual {one} --vary burst-replicas=1 --seeds 1"),
            0,
        ),
        ("scenarios --check one.yaml".to_owned(), 0),
        ("fuzz --seeds 1 --threads 1".to_owned(), 0),
        (
            "fuzz --workload deployment --seeds 1 --threads 1".to_owned(),
            0,
        ),
        ("replay 1".to_owned(), 0),
    ] {
        let output = run_in(&folder, &line);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{line}: {}",
            stderr(&output)
        );
        let said = stdout(&output) + &stderr(&output);
        assert_eq!(plurals_of_one(&said), [""; 0], "{line}: {said}");
    }
}

#[test]
fn files_may_begin_with_a_byte_order_mark() {
    let phases = "phases:\n- name: up\n  steps:\n  - createNamespaces\n";
    let yaml = format!("\u{feff}name: marked\nquestion: Q?\nsuccess: S.\n{phases}");
    let toml = "\u{feff}name = \"marked\"\nquestion = \"Q?\"\nsuccess = \"S.\"\n\
                [[phases]]\nname = \"up\"\nsteps = [\"createNamespaces\"]\n";
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let pod = format!("\u{feff}{pod}");
    let folder = folder_of(&[("s.yaml", &yaml), ("s.toml", toml), ("pod.json", &pod)]);
    for check in ["s.yaml", "s.toml"] {
        let said = told(&run_in(&folder, &format!("scenarios --check {check}")));
        holds(&said, "scenario marked, 1 phase, 1 step");
    }
    let line = "run --engine virtual -f pod.json --quiet --json r.json";
    ended(&run_in(&folder, line), 0);
    let mark = |name: &str, text: String| write(&folder, name, format!("\u{feff}{text}"));
    mark("marked.json", read(&folder, "r.json"));
    let compared = ended(&run_in(&folder, "compare r.json marked.json"), 0);
    holds(&compared, "no regression");
    mark("seed.yaml", ended(&run("replay 1 --print-schedule"), 0));
    let replayed = ended(&run_in(&folder, "replay --schedule seed.yaml"), 0);
    holds(&replayed, "seed 1, ");
}
