//! Tests of the explanations of artificial Jobs, one for each rule.

use podstorm_objects::Time;
use serde_json::json;

use super::*;

const NOW: i64 = 1_772_367_000; // 2026-03-01T12:10:00Z

fn now() -> Now {
    Now {
        mono_ns: 0,
        wall_ns: NOW * 1_000_000_000,
    }
}

fn at(seconds: i64) -> String {
    Time::from_unix_seconds(NOW + seconds).to_string()
}

fn job(spec: Value, status: Value) -> Arc<DynamicObject> {
    let mut job = json!({"metadata": {"name": "j", "namespace": "n", "uid": "7c0c1e0e-5f0b-4c38-9f0c-2b9d3c1f4b01"},
        "spec": {"selector": {"matchLabels": {"app": "j"}}}, "status": status});
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    Arc::new(DynamicObject::from_json(Kind::JOB, job).unwrap())
}

/// Returns a pod that started `ago` seconds before now. If it has an exit code, it ends now.
fn pod(name: &str, index: i64, exit: Option<i64>, ago: i64) -> Arc<Pod> {
    let state = match exit {
        Some(code) => json!({"terminated": {"exitCode": code, "finishedAt": at(0)}}),
        None => json!({"running": {}}),
    };
    let phase = match exit {
        Some(0) => "Succeeded",
        Some(_) => "Failed",
        None => "Running",
    };
    let pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("00000000-0000-4000-8000-{:0>12}", name),
            "labels": {"app": "j"}, "finalizers": ["batch.kubernetes.io/job-tracking"],
            "creationTimestamp": at(-ago),
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": true,
                "uid": "7c0c1e0e-5f0b-4c38-9f0c-2b9d3c1f4b01"}]},
        "spec": {"nodeName": "x", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false,
            "restartCount": 0, "state": state}]}});
    Arc::new(podstorm_objects::Resource::from_json(pod).unwrap())
}

fn asked(job: Arc<DynamicObject>, pods: Vec<Arc<Pod>>, to: Option<i32>) -> Answer {
    let found = Found {
        job,
        pods,
        rivals: Vec::new(),
    };
    explain(&found, to, now())
}

#[test]
fn the_whole_job_waits_after_consecutive_failures() {
    let pods = vec![pod("1", -1, Some(1), 60), pod("2", -1, Some(1), 50)];
    let answer = asked(
        job(json!({"completions": 2, "parallelism": 1}), json!({})),
        pods,
        None,
    );
    assert_eq!(answer.failed, 2);
    assert_eq!(answer.next[0].rule, "back-off");
    assert_eq!(answer.next[0].time, Some(at(20)));
    assert_eq!(answer.retries[0].time, Some(at(20)));
    assert!(answer.retries[0].why.contains("after failure 2 in a row"));
}

#[test]
fn the_reason_of_a_failure_names_rule_and_pod() {
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    let spec = json!({"completions": 2, "parallelism": 1, "podFailurePolicy": policy});
    let pods = vec![pod("1", -1, Some(1), 60), pod("2", -1, Some(42), 50)];
    let answer = asked(job(spec, json!({})), pods, None);
    let why = &answer.why[0];
    assert_eq!(
        (&*why.rule, why.pod.as_deref()),
        ("PodFailurePolicy", Some("2"))
    );
    assert!(
        why.why
            .contains("exit code 42 matching FailJob rule at index 0"),
        "{why:?}"
    );
    assert!(answer.retries.is_empty());
    let failures: Vec<&str> = answer.failures.iter().map(|it| &*it.rule).collect();
    assert_eq!(failures, ["Count", "FailJob"]);
    // The same Job, but without the policy.
    let pods = vec![pod("1", -1, Some(1), 60), pod("2", -1, Some(42), 50)];
    let spec = json!({"completions": 2, "parallelism": 1, "backoffLimit": 1});
    let answer = asked(job(spec, json!({})), pods, None);
    assert_eq!(answer.why[0].rule, "BackoffLimitExceeded");
    assert!(
        answer.why[0].why.ends_with("2 pods failed, backoffLimit 1"),
        "{:?}",
        answer.why
    );
}

#[test]
fn pods_go_by_index_rules_and_then_by_rank() {
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed"});
    let pods = vec![
        pod("1", 0, None, 100),
        pod("2", 1, None, 30),
        pod("3", 7, None, 90),
        pod("4", 0, None, 20),
        pod("5", 2, None, 50),
    ];
    let answer = asked(job(spec, json!({})), pods, Some(1));
    let removals = answer.removals.iter();
    let removals: Vec<(&str, &str)> = removals.map(|it| (&*it.pod, it.rule)).collect();
    let expected = [
        ("4", "repeated-index"),
        ("3", "surplus-index"),
        ("2", "surplus"),
        ("5", "surplus"),
    ];
    assert_eq!(removals, expected);
    assert_eq!(answer.removals[2].why, "created later");
    // The next sync deletes the first two, regardless of the parallelism.
    assert_eq!(answer.next[0].why, "deletes 2 pods");
}

#[test]
fn each_index_waits_by_itself() {
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2});
    let pods = vec![
        pod("1", 0, None, 100),
        pod("2", 1, Some(1), 30),
        pod("3", 2, Some(1), 90),
    ];
    let answer = asked(job(spec, json!({})), pods, None);
    let retries = answer.retries.iter().map(|it| (it.index, it.time.clone()));
    let retries: Vec<_> = retries.collect();
    assert_eq!(retries, [(Some(1), Some(at(10))), (Some(2), Some(at(10)))]);
    assert_eq!(answer.next[0].rule, "back-off");
}

#[test]
fn finished_or_foreign_jobs_are_ignored() {
    let failed = json!({"conditions": [{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded",
        "message": "late"}, {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "late"}],
        "startTime": at(-60)});
    let answer = asked(job(json!({"completions": 1}), failed), Vec::new(), None);
    assert_eq!(
        (answer.state, &*answer.next[0].rule),
        ("failed", "finished")
    );
    assert_eq!(answer.why[0].rule, "DeadlineExceeded");
    assert!(answer.why[0].why.contains("having started at"));
    let foreign = job(
        json!({"completions": 1, "managedBy": "example.com/other"}),
        json!({}),
    );
    let answer = asked(foreign, Vec::new(), None);
    assert_eq!(
        (answer.state, &*answer.next[0].rule),
        ("ignored", "managed-by")
    );
}
