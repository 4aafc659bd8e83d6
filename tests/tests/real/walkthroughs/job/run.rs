//! A Job that runs to completion, its labels, its logs, and what remains.

use super::*;

const PI: &str = "3.14159265358979";

/// Creates the example of the documentation, whose pods run for 10 s.
fn pi(served: &Served) {
    let manifest = job("pi", "run=10s", "  backoffLimit: 4");
    let manifest = manifest.replace(
        "annotations: {",
        &format!("annotations: {{podstorm/log: '{PI}', "),
    );
    served.file("job.yaml", &manifest);
    served.says("apply -f job.yaml", "job.batch/pi created");
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w101_run_pi() {
    with_each(STILL, |served| {
        pi(served);
        pass(served, 2);
        served.shows("get jobs", &["NAME STATUS COMPLETIONS DURATION AGE"]);
        assert_eq!(row(served, "pi"), "pi Running 0/1");
        assert_eq!(counts(served, "pi"), "1/1///0");
        assert_eq!(value(served, "pi", ".status.uncountedTerminatedPods"), "{}");
        let followed = served.beside("logs -f job/pi", "log");
        followed.shows(PI);
        pass(served, 12);
        followed.ends();
        assert_eq!(row(served, "pi"), "pi Complete 1/1");
        served.shows("get pods --no-headers", &["0/1 Completed 0"]);
        let selector = "get pods --selector=batch.kubernetes.io/job-name=pi \
                        --output=jsonpath={.items[*].metadata.name}";
        let pod = served.run(selector);
        assert!(pod.starts_with("pi-") && pod.len() == 8, "{pod}");
        served.says(&format!("logs {pod}"), PI);
        served.shows("logs jobs/pi", &[PI]);
        let uid = value(served, "pi", ".metadata.uid");
        served.shows(
            "describe job pi",
            &[
                &format!("Selector: batch.kubernetes.io/controller-uid={uid}"),
                "Parallelism: 1\nCompletions: 1\nCompletion Mode: NonIndexed\nSuspend: false\nBackoff Limit: 4",
                "Start Time:",
                "Completed At:",
                "Duration: 1",
                "Pods Statuses: 0 Active (0 Ready) / 1 Succeeded / 0 Failed",
                &format!("job-controller Created pod: {pod}"),
                "job-controller Job completed",
            ],
        );
        assert_eq!(counts(served, "pi"), "/0/1//0");
        assert_ne!(value(served, "pi", ".status.completionTime"), "");
        let reached = "CompletionsReached";
        let both = format!("SuccessCriteriaMet {reached}\nComplete {reached}");
        assert_eq!(conditions(served, "pi"), both);
        let message = ".status.conditions[*].message";
        let told = "Reached expected number of succeeded pods";
        assert_eq!(value(served, "pi", message), format!("{told} {told}"));
        pass(served, 3600);
        assert_eq!(names(served), [pod]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w102_labels_and_selector() {
    with_one(STILL, |served| {
        for name in ["one", "two"] {
            served.apply(&job(name, "run=5s", ""));
        }
        pass(served, 10);
        for name in ["one", "two"] {
            let uid = value(served, name, ".metadata.uid");
            let labels = [
                format!("\"batch.kubernetes.io/controller-uid\":\"{uid}\""),
                format!("\"batch.kubernetes.io/job-name\":\"{name}\""),
                format!("\"controller-uid\":\"{uid}\""),
                format!("\"job-name\":\"{name}\""),
            ];
            let all = format!("{{{}}}", labels.join(","));
            assert_eq!(value(served, name, ".metadata.labels"), all);
            assert_eq!(value(served, name, ".spec.template.metadata.labels"), all);
            let pods =
                format!("get pods -l job-name={name} -o jsonpath={{.items[*].metadata.labels}}");
            assert_eq!(served.run(&pods), all);
            let selector = format!("{{{}}}", labels[0]);
            assert_eq!(value(served, name, ".spec.selector.matchLabels"), selector);
            assert_eq!(counts(served, name), "/0/1//0");
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w117_finished_jobs_stay_until_they_are_deleted() {
    with_each(STILL, |served| {
        pi(served);
        pass(served, 20);
        served.says("delete jobs/pi", "job.batch \"pi\" deleted");
        assert!(names(served).is_empty());
        pi(served);
        pass(served, 20);
        served.says("delete -f job.yaml", "job.batch \"pi\" deleted");
        assert!(names(served).is_empty());
        // Without a policy, the API leaves the pods.
        pi(served);
        pass(served, 20);
        let (status, answer) =
            served.rest("DELETE", "/apis/batch/v1/namespaces/default/jobs/pi", "");
        assert_eq!(status, 200, "{answer}");
        let warning = "child pods are preserved by default when jobs are deleted; set \
                       propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                       suppress this warning";
        assert!(answer.contains(warning), "{answer}");
        pass(served, 5);
        served.refuses("get job pi", &["NotFound"]);
        assert_eq!(names(served).len(), 1);
        assert_eq!(
            served.run("get pods -o jsonpath={.items[*].metadata.ownerReferences}"),
            ""
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn orphaned_pods_are_collected_above_a_threshold() {
    let few = ["--engine", "virtual", "--terminated-pod-gc-threshold", "1"];
    with_one(&few, |served| {
        served.apply(&job("many", "run=1s", "  completions: 3\n  parallelism: 3"));
        pass(served, 10);
        served.run("delete job many --cascade=orphan");
        pass(served, 60);
        assert_eq!(names(served).len(), 1);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_job_is_deleted_with_its_pods_in_either_mode() {
    with_one(STILL, |served| {
        for cascade in ["foreground", "background"] {
            served.apply(&job(
                "serving",
                "run=never stop=1s",
                "  parallelism: 3\n  completions: 3",
            ));
            pass(served, 2);
            assert_eq!(names(served).len(), 3);
            served.run(&format!(
                "delete job serving --cascade={cascade} --wait=false"
            ));
            let is_there = served.run("get jobs -o name --ignore-not-found");
            let wanted = if cascade == "foreground" {
                "job.batch/serving"
            } else {
                ""
            };
            assert_eq!(is_there, wanted, "{cascade}");
            pass(served, 5);
            assert!(names(served).is_empty(), "{cascade}: {:?}", names(served));
            assert_eq!(served.run("get jobs -o name"), "");
        }
    });
}

/// The steps of a Helm hook: delete the previous Job, create the Job, wait for one of two
/// conditions, and delete a successful hook.
#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_helm_hook_runs_to_completion() {
    with_each(&[], |served| {
        let hook = |script: &str| {
            let annotations = "annotations: {helm.sh/hook: pre-install, \
                               helm.sh/hook-delete-policy: 'before-hook-creation,hook-succeeded'}";
            job("migrate", script, "  backoffLimit: 0").replace(
                "{name: migrate}",
                &format!("{{name: migrate, {annotations}}}"),
            )
        };
        served.file("hook.yaml", &hook("exit=1"));
        let rows = "get jobs --field-selector metadata.name=migrate --watch-only --no-headers -o \
                    custom-columns=:.status.conditions[*].type";
        let watched = served.beside(rows, "rows");
        served.run("create -f hook.yaml");
        watched.shows("FailureTarget,Failed");
        served.run("logs job/migrate");
        served.run("delete job migrate --cascade=background --timeout=20s");
        served.file("hook.yaml", &hook("run=500ms"));
        served.run("create -f hook.yaml");
        watched.shows("SuccessCriteriaMet,Complete");
        served.run("delete job migrate --cascade=background --timeout=20s");
        served.becomes("get pods -o name", "");
    });
}
