//! Jobs in runs, their scenarios at small sizes, and `loadgen explain --job`.

use podstorm_tests::command::{assert_refused, ended, holds, run, run_with_stdin, told};
use serde_json::{Value, json};

use super::EXAMPLES;
use super::serve::{Serving, until};

/// The time at which the example is explained.
const LOOKED_AT: &str = "2026-03-01T12:10:00Z";

/// Returns the result of a run, which must succeed.
#[track_caller]
fn result(flags: &str) -> Value {
    let line = format!("run -q --json - --engine virtual {flags}");
    super::json(&ended(&run(&line), 0))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn job(spec: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, namespace: shop}}\nspec:\n  {spec}\n  template:\n    \
         spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}\n"
    )
}

#[test]
fn a_job_farm_completes_and_wastes_only_failed_pods() {
    let farm = |more: &str| {
        result(&format!(
            "--scenario job-farm --batch-jobs 20 --completions 10 {more}"
        ))
    };
    let usual = farm("--pod-failures 10%");
    let finished = &usual["finished"];
    assert_eq!(
        [
            &finished["complete"],
            &finished["failed"],
            &finished["open"]
        ],
        [20, 0, 0]
    );
    assert_eq!(finished["pods_succeeded"], 200);
    let failed = number(&finished["pods_failed"]);
    assert!((5.0..60.0).contains(&failed), "{finished}");
    assert_eq!(finished["pods_wasted"], finished["pods_failed"]);
    assert_eq!(finished["pods_created"], usual["pods"]["created"]);
    assert_eq!(usual["finish_seconds"]["count"], 20);
    assert!(
        usual["answer"]
            .as_str()
            .unwrap()
            .starts_with("20 Jobs were complete and 0 failed")
    );
    let sound = farm("--pod-failures 0%");
    assert_eq!(sound["finished"]["pods_wasted"], 0);
    let took = |result: &Value| number(&result["phases"][1]["seconds"]);
    // An index waits ten seconds after its first failure.
    assert!(took(&usual) > took(&sound) + 10.0);
    // Finished pods are collected for the batch period before they are counted.
    let patient = farm("--pod-failures 0% --job-batch-period 60s");
    assert!(took(&patient) > took(&sound) + 40.0, "{}", took(&patient));
    assert_eq!(
        patient["settings"]["controller_times"]["job-batch-period"],
        60_000_000_000_u64
    );
    // Creates, patches and Events share the client limit.
    let slow = farm("--pod-failures 0% --kube-api-qps 5 --kube-api-burst 5");
    assert!(
        took(&slow) > 3.0 * took(&sound),
        "{} {}",
        took(&slow),
        took(&sound)
    );
}

#[test]
fn a_retry_storm_ends_one_pod_over_the_back_off_limit() {
    for (limit, pods, seconds) in [
        ("", 7.0, 630.0),
        ("--backoff-limit 2", 3.0, 30.0),
        ("--backoff-limit 0", 1.0, 0.0),
    ] {
        let result = result(&format!("--scenario retry-storm --batch-jobs 10 {limit}"));
        let finished = &result["finished"];
        assert_eq!([&finished["complete"], &finished["failed"]], [0, 10]);
        assert_eq!(number(&finished["pods_created"]), 10.0 * pods);
        assert_eq!(finished["pods_wasted"], finished["pods_created"]);
        // The back-off delays, and for each pod its start and one second in which changes are
        // collected.
        let took = number(&result["finish_seconds"]["p50"]);
        assert!((seconds..seconds + 5.0 * pods).contains(&took), "{took}");
    }
}

#[test]
fn an_unpullable_image_never_reaches_the_back_off_limit() {
    let example =
        std::fs::read_to_string(format!("{EXAMPLES}/bad-image.yaml")).expect("the example");
    let line = "run -q --json - --engine virtual -f -";
    let failed = super::json(&ended(&run_with_stdin(line, &example), 0));
    let finished = &failed["finished"];
    assert_eq!([&finished["complete"], &finished["failed"]], [0, 1]);
    // No failure is counted while the pod waits.
    assert_eq!(finished["pods_created"], 1);
    let took = number(&failed["finish_seconds"]["p50"]);
    assert!((15.0..20.0).contains(&took), "{took}");
    // A program that fails immediately reaches the limit with its first pod.
    let fails = example.replace("pull=fail", "exit=1");
    let met = super::json(&ended(&run_with_stdin(line, &fails), 0));
    assert_eq!(met["finished"]["pods_created"], 1);
    assert!(number(&met["finish_seconds"]["p50"]) < 10.0);
    // Without a deadline the Job stays active.
    let endless = example.replace("activeDeadlineSeconds: 15", "parallelism: 1");
    let line = format!("{line} --time-limit 2h");
    let open = super::json(&ended(&run_with_stdin(&line, &endless), 1));
    assert_eq!(open["finished"]["open"], 1);
    assert_eq!(open["finished"]["pods_created"], 1);
}

#[test]
fn an_array_job_is_limited_by_the_work_of_single_syncs() {
    let array = |more: &str| {
        result(&format!(
            "--scenario array-job --completions 1200 --parallelism 700 --pod-failures 0% {more}"
        ))
    };
    let usual = array("");
    assert_eq!(usual["finished"]["pods_succeeded"], 1_200);
    assert_eq!(usual["finished"]["pods_wasted"], 0);
    assert_eq!(usual["settings"]["size"]["batch_jobs"], 1);
    assert_eq!(usual["settings"]["parallelism"], 700);
    // There is one key, so more workers change nothing.
    let wide = array("--concurrent-job-syncs 50");
    assert_eq!(wide["phases"][1]["seconds"], usual["phases"][1]["seconds"]);
}

#[test]
fn jobs_of_files_end_by_run_time_or_are_named_as_running() {
    let text = job("completions: 3\n  parallelism: 2");
    let line = "run -q --json - --engine virtual -f -";
    let done = super::json(&ended(
        &run_with_stdin(&format!("{line} --pod-run-time 3s"), &text),
        0,
    ));
    assert_eq!(done["finished"]["complete"], 1);
    assert_eq!(done["pods"]["created"], 3);
    let open = super::json(&ended(&run_with_stdin(line, &text), 1));
    let reason = open["outcome"]["reason"].as_str().unwrap();
    holds(
        reason,
        "1 of 1 Job not over, among them shop/j: 0 succeeded of 3, 2 active. Pods that keep running end by --pod-run-time",
    );
    // A suspended Job has nothing to do.
    let suspended = job("suspend: true");
    let rest = super::json(&ended(&run_with_stdin(line, &suspended), 0));
    assert_eq!(rest["pods"]["created"], 0);
    // A script ends them too.
    let scripted = text.replace(
        "    spec: {r",
        "    metadata: {annotations: {podstorm/script: exit=3}}\n    spec: {r",
    );
    let failed = super::json(&ended(&run_with_stdin(line, &scripted), 0));
    assert_eq!(failed["finished"]["failed"], 1);
    assert_eq!(failed["finished"]["pods_succeeded"], 0);
}

#[test]
fn invalid_jobs_are_refused_with_place_and_rule() {
    for (spec, words) in [
        (
            "completions: -3",
            "document 1 (Job shop/j) | spec.completions | greater than or equal to 0",
        ),
        (
            "parallelism: -1",
            "spec.parallelism | greater than or equal to 0",
        ),
        (
            "completions: 99999999999",
            "spec.completions | a 32-bit integer, found 99999999999",
        ),
        ("completions: \"3\"", "spec.completions | a 32-bit integer"),
        (
            "completionMode: Indexed\n  parallelism: 2",
            "spec.completions | when completion mode is Indexed",
        ),
        ("completionMode: Sorted", "spec.completionMode | NonIndexed"),
        (
            "completionMode: Indexed\n  completions: 5\n  parallelism: 100001",
            "spec.parallelism | less than or equal to 100000",
        ),
        (
            "completionMode: Indexed\n  completions: 100001\n  backoffLimitPerIndex: 1",
            "spec.maxFailedIndexes | must be specified when completions is above 100000",
        ),
        (
            "successPolicy: {rules: [{succeededCount: 1}]}",
            "spec.successPolicy | requires indexed completion mode",
        ),
        (
            "podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1]}}]}",
            "rules[0].action | backoffLimitPerIndex",
        ),
    ] {
        assert_refused(&run_with_stdin("run -f -", &job(spec)), words);
    }
    for (flags, words) in [
        (
            "--scenario job-farm --parallelism 0",
            "--parallelism 0 | no Job would finish",
        ),
        (
            "--scenario job-farm --parallelism -1",
            "--parallelism | from 0 to 2147483647",
        ),
        (
            "--scenario job-farm --completions 0",
            "--completions | at least 1",
        ),
        (
            "--scenario up-down --completions 5",
            "--completions | generates none",
        ),
        (
            "--scenario up-down --pod-failures 5%",
            "--pod-failures | add --pod-run-time",
        ),
        (
            "--scenario node-failure --pod-run-time 5s",
            "--pod-run-time | lets nodes fail",
        ),
    ] {
        assert_refused(&run(&format!("run {flags}")), words);
    }
}

#[test]
fn two_jobs_with_one_selector_cause_a_warning() {
    let one = job("manualSelector: true\n  selector: {matchLabels: {app: x}}").replace(
        "    spec: {r",
        "    metadata: {labels: {app: x}}\n    spec: {r",
    );
    let both = format!("{one}---\n{}", one.replace("name: j,", "name: k,"));
    let output = run_with_stdin(
        "run --engine virtual --pod-run-time 1s --time-limit 1m -f -",
        &both,
    );
    holds(
        &podstorm_tests::command::stderr(&output),
        "the Jobs j and k in shop have one selector",
    );
}

/// Returns the explanation of the example.
fn explained(more: &str) -> String {
    let line = format!("explain -f {EXAMPLES}/job.yaml --now {LOOKED_AT} --job render {more}");
    told(&run(&line))
}

#[test]
fn a_job_is_explained_by_its_rules_pods_indexes_and_times() {
    let text = explained("");
    for words in [
        "Job shop/render is running at 2026-03-01T12:10:00Z: 2 of 10 completions, 3 failed, parallelism 4",
        "creates no pod for 10s: index 2, the first without a pod, waits, and no other is looked at",
        "ImagePullBackOff of registry.example/render:1.0",
        "2026-03-01T13:00:00Z  activeDeadlineSeconds ends the Job then",
        "waits 10s more after failure 2 of the index",
        "failed with exit code 42 matching FailIndex rule at index 0; not counted yet",
        "When the parallelism falls to 0, pods go in this order",
        "ready for a shorter time",
    ] {
        holds(&text, words);
    }
    let document = super::json(&explained("-o json --parallelism 1"));
    assert_eq!(document["state"], "running");
    assert_eq!(document["retries"][0]["index"], 2);
    assert_eq!(document["retries"][0]["time"], "2026-03-01T12:10:10Z");
    assert_eq!(document["failures"][1]["rule"], "FailIndex");
    let removals = document["removals"].as_array().unwrap().iter();
    let removals: Vec<&Value> = removals.map(|removal| &removal["pod"]).collect();
    assert_eq!(
        removals,
        [&json!("render-5-c8r4z"), &json!("render-6-v3n6j")]
    );
}

#[test]
fn questions_without_meaning_for_jobs_are_refused() {
    let explain = format!("explain -f {EXAMPLES}/job.yaml");
    for (more, words) in [
        ("--job rendr", "no Job \"rendr\" | shop/render"),
        (
            "--job render --prefer a=b",
            "--prefer | Jobs ignore deletion costs",
        ),
        ("--job render --image i:2", "--image | has no rollouts"),
        ("--job render --parallelism -1", "--replicas"),
    ] {
        assert_refused(&run(&format!("{explain} {more}")), words);
    }
    let rollout = format!("explain -f {EXAMPLES}/rollout.yaml --job web");
    assert_refused(&run(&rollout), "no Job | kubectl get jobs,pods");
}

#[test]
fn a_sweep_over_job_sizes_shows_end_times_and_waste() {
    let line = "sweep --scenario job-farm --batch-jobs 5 --completions 10 --vary parallelism=1,10 --jobs 2";
    let table = ended(&run(line), 0);
    for words in ["finish_seconds p99", "finished.pods_wasted", "parallelism"] {
        holds(&table, words);
    }
}

#[test]
fn metrics_of_the_job_controller_are_served() {
    let folder = super::folder();
    let serving = Serving::start(&folder, "serve --listen localhost:0", false);
    let create = |name: &str, spec: Value| {
        let job = json!({"metadata": {"name": name}, "spec": spec});
        let path = "/apis/batch/v1/namespaces/default/jobs";
        let lines = "content-type: application/json\r\n";
        let answer = serving.ask("POST", path, lines, &job.to_string());
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    };
    let template = json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    create(
        "pi",
        json!({"completions": 2, "parallelism": 2, "template": template}),
    );
    for number in 0..102 {
        let manager = format!("example.com/m{number:03}");
        let spec = json!({"managedBy": manager, "template": template});
        create(&format!("foreign-{number}"), spec);
    }
    let foreign = "job_controller_jobs_by_external_controller_total";
    let mut text = String::new();
    until(
        || {
            text = serving.get("/metrics");
            let others = format!("{foreign}{{controller_name=\"other\"}} 2");
            let created =
                "job_controller_job_pods_creation_total{reason=\"new\",status=\"succeeded\"} 2";
            text.contains(created) && text.contains(&others)
        },
        "some pods are not counted",
    );
    for words in [
        "# TYPE job_controller_job_sync_duration_seconds histogram",
        "job_controller_job_sync_duration_seconds_bucket{completion_mode=\"NonIndexed\",result=\"success\",action=\"pods_created\",le=\"+Inf\"} ",
        "job_controller_job_syncs_total{completion_mode=\"NonIndexed\",result=\"success\",action=\"pods_created\"} ",
    ] {
        holds(&text, words);
    }
    let known = format!("{foreign}{{controller_name=\"example.com/m099\"}} 1");
    holds(&text, &known);
    let series = text.lines().filter(|line| line.starts_with(foreign));
    assert_eq!(
        series.count(),
        101,
        "a hundred names and one for all others"
    );
}
