//! The number of pods that a Job runs, and its completion.

use super::*;

/// Advances the time second by second, and asserts that the Job never has more than `active_max`
/// active pods.
fn pass_with_at_most(served: &Served, job: &str, active_max: usize, seconds: u32) {
    for _ in 0..seconds {
        pass(served, 1);
        let active = pods_in(served, "Running").len() + pods_in(served, "Pending").len();
        assert!(active <= active_max, "{job}: {active} pods are active");
    }
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w104_one_pod_until_the_first_success() {
    with_one(STILL, |served| {
        served.apply(&job("once", "run=never", ""));
        assert_eq!(value(served, "once", ".spec.completions"), "1");
        assert_eq!(value(served, "once", ".spec.parallelism"), "1");
        pass(served, 2);
        let first = names(served);
        assert_eq!(first.len(), 1);
        end_container(served, &first[0], 1);
        pass(served, 13);
        let second = pods_in(served, "Running");
        assert_eq!((names(served).len(), second.len()), (2, 1));
        served.run(&format!("delete pod {} --wait=false", second[0]));
        pass(served, 40);
        let third = pods_in(served, "Running");
        assert_eq!(third.len(), 1);
        assert_eq!(counts(served, "once"), "1/1//2/0");
        end_container(served, &third[0], 0);
        pass(served, 3);
        assert_eq!(row(served, "once"), "once Complete 1/1");
        assert_eq!(counts(served, "once"), "/0/1/2/0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w105_a_fixed_number_of_completions() {
    with_one(STILL, |served| {
        served.apply(&job("five", "run=3s", "  completions: 5\n  parallelism: 2"));
        pass_with_at_most(served, "five", 2, 2);
        assert_eq!(row(served, "five"), "five Running 0/5");
        pass_with_at_most(served, "five", 2, 20);
        assert_eq!(row(served, "five"), "five Complete 5/5");
        assert_eq!(names(served).len(), 5);
        served.run("delete job five");
        served.apply(&job(
            "three",
            "run=3s",
            "  completions: 3\n  parallelism: 10",
        ));
        pass_with_at_most(served, "three", 3, 10);
        assert_eq!(row(served, "three"), "three Complete 3/3");
        assert_eq!(names(served).len(), 3);
        served.apply(&job("serial", "run=3s", "  completions: 5"));
        assert_eq!(value(served, "serial", ".spec.parallelism"), "1");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w106_a_work_queue() {
    with_one(STILL, |served| {
        served.apply(&job("queue", "run=never", "  parallelism: 3"));
        pass(served, 2);
        assert_eq!(value(served, "queue", ".spec.completions"), "");
        assert_eq!(
            row(served, "queue"),
            "queue Running 0/1 of 3".rsplit_once(" of").unwrap().0
        );
        served.shows("get jobs --no-headers", &["0/1 of 3"]);
        let pods = names(served);
        assert_eq!(pods.len(), 3);
        end_container(served, &pods[0], 0);
        pass(served, 3);
        served.shows("get jobs --no-headers", &["Running 1/1 of 3"]);
        end_container(served, &pods[1], 1);
        pass(served, 60);
        assert_eq!(
            names(served),
            pods,
            "nothing replaces a pod after the first success"
        );
        served.shows("get jobs --no-headers", &["Running 1/1 of 3"]);
        end_container(served, &pods[2], 0);
        pass(served, 3);
        served.shows("get jobs --no-headers", &["Complete 2/1 of 3"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w107_parallelism_of_zero_and_changes() {
    with_one(STILL, |served| {
        served.apply(&job("j", "run=never", "  completions: 9\n  parallelism: 0"));
        pass(served, 5);
        assert!(names(served).is_empty());
        assert_eq!(row(served, "j"), "j Running 0/9");
        patch(served, "j", "\"parallelism\":2");
        pass(served, 2);
        assert_eq!(pods_in(served, "Running").len(), 2);
        patch(served, "j", "\"parallelism\":1");
        pass(served, 35);
        assert_eq!(names(served).len(), 1);
        assert_eq!(counts(served, "j"), "1/1///0");
        served.run("create quota few --hard=pods=2");
        pass(served, 1);
        patch(served, "j", "\"parallelism\":4");
        pass(served, 3);
        assert_eq!(pods_in(served, "Running").len(), 2);
        let refused = events(served, "j", "FailedCreate");
        assert!(
            refused[0].starts_with("Error creating: pods \"j-"),
            "{refused:?}"
        );
        served.run("delete quota few");
        pass(served, 60);
        assert_eq!(pods_in(served, "Running").len(), 4);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w108_indexed() {
    with_one(STILL, |served| {
        let mode = "  completionMode: Indexed\n  completions: 3\n  parallelism: 3";
        served.apply(&job("idx", "run=never", mode));
        pass(served, 2);
        let pods = names(served);
        for (index, pod) in pods.iter().enumerate() {
            assert!(pod.starts_with(&format!("idx-{index}-")), "{pod}");
            let key = "batch\\.kubernetes\\.io/job-completion-index";
            let paths = format!(
                "{{.metadata.annotations.{key}}}/{{.metadata.labels.{key}}}/{{.spec.hostname}}/\
                 {{.spec.containers[0].env[0].name}}/{{.spec.containers[0].env[0].valueFrom.fieldRef.fieldPath}}"
            );
            let wanted = format!(
                "{index}/{index}/idx-{index}/JOB_COMPLETION_INDEX/\
                 metadata.labels['batch.kubernetes.io/job-completion-index']"
            );
            served.says(&format!("get pod {pod} -o jsonpath=\"{paths}\""), &wanted);
        }
        end_container(served, &pods[0], 0);
        end_container(served, &pods[2], 0);
        pass(served, 3);
        assert_eq!(value(served, "idx", ".status.completedIndexes"), "0,2");
        end_container(served, &pods[1], 1);
        pass(served, 15);
        let again = pods_in(served, "Running");
        assert!(
            again.len() == 1 && again[0].starts_with("idx-1-"),
            "{again:?}"
        );
        end_container(served, &again[0], 0);
        pass(served, 3);
        assert_eq!(value(served, "idx", ".status.completedIndexes"), "0-2");
        served.shows("describe job idx", &["Completed Indexes: 0-2"]);
        assert_eq!(row(served, "idx"), "idx Complete 3/3");
        // The lowest free indexes come first.
        let mode = "  completionMode: Indexed\n  completions: 9\n  parallelism: 2";
        served.apply(&job("low", "run=never", mode));
        pass(served, 2);
        let starts = |pods: &[String]| {
            pods.iter()
                .map(|pod| pod[..5].to_owned())
                .collect::<Vec<_>>()
        };
        let running = pods_in(served, "Running");
        assert_eq!(starts(&running), ["low-0", "low-1"]);
        end_container(served, &running[0], 0);
        pass(served, 3);
        assert_eq!(starts(&pods_in(served, "Running")), ["low-1", "low-2"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w109_two_pods_for_one_index() {
    with_one(STILL, |served| {
        let mode = "  completionMode: Indexed\n  completions: 2\n  parallelism: 2";
        served.apply(&job("idx", "run=never", mode));
        pass(served, 60);
        let pods = names(served);
        let uid = value(served, "idx", ".metadata.uid");
        let labels = format!("batch.kubernetes.io/controller-uid: {uid}, job-name: idx");
        let second = |name: &str, annotations: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{{labels}}}, annotations: \
                 {{{annotations}}}}}\nspec: {{restartPolicy: Never, containers: [{{name: c, image: 'busybox:1'}}]}}\n"
            )
        };
        let key = "batch.kubernetes.io/job-completion-index";
        for annotations in [format!("{key}: '1'"), format!("{key}: '7'"), String::new()] {
            served.file("pod.yaml", &second("late", &annotations));
            served.run("create -f pod.yaml");
            pass(served, 3);
            served.shows(
                "get events -o custom-columns=:.message",
                &["Deleted pod: late"],
            );
            pass(served, 40);
            assert_eq!(names(served), pods, "{annotations}");
        }
        for pod in &pods {
            end_container(served, pod, 0);
        }
        pass(served, 3);
        assert_eq!(counts(served, "idx"), "/0/2//0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w119_indexed_pods_find_each_other_by_name() {
    with_one(STILL, |served| {
        served.apply(
            "apiVersion: v1\nkind: Service\nmetadata: {name: mesh}\n\
             spec: {clusterIP: None, selector: {job-name: mesh}, ports: [{port: 80}]}\n",
        );
        let mode = "  completionMode: Indexed\n  completions: 4\n  parallelism: 4";
        let manifest = job("mesh", "run=never", mode);
        served.apply(&manifest.replace("{restartPolicy", "{subdomain: mesh, restartPolicy"));
        pass(served, 5);
        let hosts = "get endpointslices -o jsonpath={.items[*].endpoints[*].hostname}";
        let hosts: std::collections::BTreeSet<_> = served.words(hosts).into_iter().collect();
        let wanted = (0..4).map(|index| format!("mesh-{index}")).collect();
        assert_eq!(hosts, wanted);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w125_an_elastic_indexed_job() {
    with_one(STILL, |served| {
        let mode = "  completionMode: Indexed\n  completions: 3\n  parallelism: 3";
        served.apply(&job("idx", "run=never", mode));
        pass(served, 2);
        patch(served, "idx", "\"parallelism\":5,\"completions\":5");
        pass(served, 2);
        let pods = names(served);
        assert_eq!(pods.len(), 5);
        assert!(pods[4].starts_with("idx-4-"), "{pods:?}");
        end_container(served, &pods[0], 0);
        end_container(served, &pods[4], 0);
        pass(served, 3);
        assert_eq!(value(served, "idx", ".status.completedIndexes"), "0,4");
        patch(served, "idx", "\"parallelism\":2,\"completions\":2");
        pass(served, 40);
        assert_eq!(pods_in(served, "Running"), [pods[1].as_str()]);
        assert_eq!(value(served, "idx", ".status.completedIndexes"), "0");
        assert_eq!(counts(served, "idx"), "1/1/1//0");
        let tandem = "can only be modified in tandem with spec.parallelism";
        refuses_patch(served, "idx", "\"completions\":4", tandem);
        served.apply(&job("plain", "run=never", "  completions: 3"));
        refuses_patch(served, "plain", "\"completions\":4", "field is immutable");
    });
}
