//! Jobs through kubectl: created, awaited, inspected, suspended, deleted.

use crate::served::with_each;

/// Returns the manifest of a Job whose pods follow a script.
fn job(name: &str, script: &str, spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
{spec}
  template:
    metadata: {{annotations: {{podstorm/script: '{script}'}}}}
    spec: {{restartPolicy: Never, containers: [{{name: c, image: 'busybox:1'}}]}}
"
    )
}

#[test]
#[ignore = "needs kubectl"]
fn a_completed_job_reports_its_completion() {
    with_each(&["--pod-run-time", "1s"], |served| {
        served.run("create job hello --image=busybox:1 -- echo hello");
        served.run("wait --for=condition=Complete job/hello --timeout=60s");
        let rows = served.run("get jobs");
        let row: Vec<&str> = rows
            .lines()
            .nth(1)
            .unwrap_or("")
            .split_whitespace()
            .collect();
        assert_eq!(row[..3], ["hello", "Complete", "1/1"], "{rows}");
        let described = served.run("describe job hello");
        for text in [
            "Pods Statuses: 0 Active (0 Ready)",
            "1 Succeeded / 0 Failed",
            "SuccessfulCreate",
            "Completed",
        ] {
            assert!(described.contains(text), "{text}: {described}");
        }
        let left = "get pods -l job-name=hello -o jsonpath={.items[*].metadata.finalizers}";
        served.becomes(left, "");
        served.run("delete job hello --timeout=60s");
        served.becomes("get pods -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl"]
fn each_index_succeeds_once() {
    with_each(&[], |served| {
        let spec = "  completionMode: Indexed\n  completions: 7\n  parallelism: 3";
        served.apply(&job("array", "run=1s", spec));
        served.run("wait --for=condition=Complete job/array --timeout=90s");
        let status = "get job array -o jsonpath={.status.completedIndexes}:{.status.succeeded}";
        assert_eq!(served.run(status), "0-6:7");
        let names = "get pods -o jsonpath={.items[*].spec.hostname}";
        let mut names: Vec<String> = served.run(names).split(' ').map(str::to_owned).collect();
        names.sort();
        let wanted = (0..7).map(|index| format!("array-{index}"));
        assert_eq!(names, wanted.collect::<Vec<_>>());
    });
}

#[test]
#[ignore = "needs kubectl"]
fn a_failed_job_reports_the_reason() {
    with_each(&[], |served| {
        served.apply(&job("limit", "exit=3", "  backoffLimit: 0"));
        served.apply(&job(
            "late",
            "run=never stop=0s",
            "  activeDeadlineSeconds: 2",
        ));
        let policy = "  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}";
        served.apply(&job("policy", "exit=42", policy));
        for (name, reason) in [
            ("limit", "BackoffLimitExceeded"),
            ("late", "DeadlineExceeded"),
            ("policy", "PodFailurePolicy"),
        ] {
            served.run(&format!(
                "wait --for=condition=Failed job/{name} --timeout=60s"
            ));
            let of = r#"-o jsonpath='{.status.conditions[?(@.type=="Failed")].reason}'"#;
            assert_eq!(served.run(&format!("get job {name} {of}")), reason);
        }
        served.becomes("get pods --field-selector=status.phase=Running -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl"]
fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    with_each(&[], |served| {
        let spec = "  completions: 4\n  parallelism: 2\n  suspend: true";
        served.apply(&job("pause", "run=2s", spec));
        served.run("wait --for=condition=Suspended job/pause --timeout=60s");
        assert_eq!(served.run("get pods -o name"), "");
        served.run(r#"patch job pause --type=merge -p '{"spec":{"suspend":false}}'"#);
        served.becomes("get job pause -o jsonpath={.status.active}", "2");
        served.run(r#"patch job pause --type=merge -p '{"spec":{"suspend":true}}'"#);
        served.run("wait --for=condition=Suspended job/pause --timeout=60s");
        served.becomes("get pods --field-selector=status.phase=Running -o name", "");
        served.run(r#"patch job pause --type=merge -p '{"spec":{"suspend":false}}'"#);
        served.run("wait --for=condition=Complete job/pause --timeout=90s");
    });
}
