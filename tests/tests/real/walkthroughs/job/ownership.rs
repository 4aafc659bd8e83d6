//! Pods that change owners, and the tracking finalizer.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w123_adoption_with_a_manual_selector() {
    with_one(STILL, |served| {
        served.apply(&job(
            "old",
            "run=never",
            "  completions: 2\n  parallelism: 2",
        ));
        pass(served, 2);
        let uid = value(served, "old", ".metadata.uid");
        served.run("delete jobs/old --cascade=orphan");
        pass(served, 3);
        let pods = names(served);
        assert_eq!(pods_in(served, "Running"), pods);
        assert_eq!(finalizers(served), "");
        let label = format!("{{batch.kubernetes.io/controller-uid: {uid}}}");
        let manifest = |manual: &str| {
            let members = format!(
                "  completions: 2\n  parallelism: 2\n{manual}  selector: {{matchLabels: {label}}}"
            );
            let manifest = job("new", "run=never", &members);
            manifest
                .replace(
                    "metadata: {annotations",
                    &format!("metadata: {{labels: {label}, annotations"),
                )
                .replace("busybox:1", "busybox:2")
        };
        served.refuses_manifest(&manifest(""), &["spec.selector"]);
        let manual = "  manualSelector: true\n";
        let without = manifest(manual).replace(&format!("labels: {label}, "), "");
        served.refuses_manifest(&without, &["spec.template.metadata.labels"]);
        served.apply(&manifest(manual));
        pass(served, 3);
        assert_eq!(names(served), pods);
        let owners = "get pods -o jsonpath={.items[*].metadata.ownerReferences[*].name}";
        served.says(owners, "new new");
        assert_eq!(
            count(&finalizers(served), "batch.kubernetes.io/job-tracking"),
            2
        );
        end_container(served, &pods[0], 1);
        pass(served, 15);
        let images = "get pods --sort-by=.metadata.creationTimestamp -o \
                      jsonpath={.items[*].spec.containers[0].image}";
        served.says(images, "busybox:1 busybox:1 busybox:2");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w124_a_pod_stays_until_it_is_counted() {
    with_one(STILL, |served| {
        let start = |controllers: &str, file: Option<&str>| {
            let mut arguments = vec!["--engine", "virtual", "--snapshot", "all.json", controllers];
            arguments.extend(file.iter().flat_map(|file| ["-f", file]));
            served.another(&arguments)
        };
        let file = |served: &Served| served.path("all.json").display().to_string();
        let mut first = start("--controllers=*", None);
        first.apply(&job("kept", "run=never", ""));
        pass(&first, 2);
        assert!(finalizers(&first).contains("batch.kubernetes.io/job-tracking"));
        first.stop();
        // Without the Job controller, a pod ends and is deleted.
        let mut second = start("--controllers=*,-job-controller", Some(&file(&first)));
        let pod = names(&second).swap_remove(0);
        end_container(&second, &pod, 0);
        second.run(&format!("delete pod {pod} --wait=false"));
        pass(&second, 60);
        assert_eq!(names(&second), [pod.as_str()]);
        assert_eq!(value(&second, "kept", ".status.succeeded"), "");
        second.stop();
        // When the controller returns, the pod is counted and removed.
        let third = start("--controllers=*", Some(&file(&second)));
        pass(&third, 5);
        assert_eq!(row(&third, "kept"), "kept Complete 1/1");
        assert!(names(&third).is_empty());
    });
}
