//! Pods that are created and deleted in order, keep their identity, and wait for each other.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w67_components_and_ordered_start() {
    with_each(STILL, |served| {
        served.file("web.yaml", &web("ready=5s", "  replicas: 3"));
        served.shows(
            "apply -f web.yaml",
            &["service/nginx created", "statefulset.apps/web created"],
        );
        for (there, ready) in [("0:0.8", 0), ("0:0.8 1:0.8", 1), ("0:0.8 1:0.8 2:0.8", 2)] {
            assert_eq!(pods(served), there);
            let row = format!("web {ready}/3");
            served.tabulates("get sts", &format!("NAME READY\n{row}"));
            let wait = format!("Waiting for {} pods to be ready...", 3 - ready);
            served.shows("rollout status sts/web --watch=false", &[&wait]);
            pass(served, 4);
            assert_eq!(pods(served), there, "the next pod waits");
            pass(served, 2);
        }
        served.tabulates("get sts", "NAME READY\nweb 3/3");
        served.says(
            "rollout status sts/web --watch=false",
            "partitioned roll out complete: 3 new pods have been updated...",
        );
        served.says("get svc nginx -o jsonpath={.spec.clusterIP}", "None");
        let told = events(served, "SuccessfulCreate");
        assert_eq!(told.len(), 6, "{told:?}");
        for ordinal in 0..3 {
            let pod = format!("Pod web-{ordinal} in StatefulSet web");
            for text in [
                format!("Create Claim www-web-{ordinal} {pod} success"),
                format!("Create {pod} successful"),
            ] {
                assert!(told.contains(&text), "{told:?}");
            }
        }
        for member in [
            "replicas",
            "readyReplicas",
            "availableReplicas",
            "currentReplicas",
            "updatedReplicas",
        ] {
            assert_eq!(value(served, &format!(".status.{member}")), "3", "{member}");
        }
        assert_eq!(value(served, ".status.collisionCount"), "0");
        let current = value(served, ".status.currentRevision");
        assert!(current.starts_with("web-"), "{current}");
        assert_eq!(value(served, ".status.updateRevision"), current);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w68_pod_identity_and_labels() {
    with_one(STILL, |served| {
        up(served, "", "  replicas: 2", 2);
        let of_pod = |path: &str| served.run(&format!("get pod web-1 -o jsonpath='{{{path}}}'"));
        assert_eq!(of_pod(".metadata.labels.app"), "nginx");
        let label = |name: &str| of_pod(&format!(".metadata.labels.{name}"));
        assert_eq!(label(r"statefulset\.kubernetes\.io/pod-name"), "web-1");
        assert_eq!(label(r"apps\.kubernetes\.io/pod-index"), "1");
        let revision = value(served, ".status.currentRevision");
        assert_eq!(label("controller-revision-hash"), revision);
        assert_eq!(of_pod(".spec.hostname"), "web-1");
        assert_eq!(of_pod(".spec.subdomain"), "nginx");
        // The recorded requests of upstream's controller have the prefix, although the walkthrough
        // claims otherwise.
        assert_eq!(of_pod(".metadata.generateName"), "web-");
        assert_eq!(of_pod(".metadata.ownerReferences[*].name"), "web");
        assert_eq!(of_pod(".metadata.ownerReferences[*].kind"), "StatefulSet");
        served.apply(
            "
apiVersion: v1
kind: Service
metadata: {name: one}
spec: {selector: {statefulset.kubernetes.io/pod-name: web-1}, ports: [{port: 80}]}
",
        );
        pass(served, 5);
        let targets = "get endpointslices -l kubernetes.io/service-name=one \
                       -o jsonpath='{.items[*].endpoints[*].targetRef.name}'";
        served.says(targets, "web-1");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w69_the_identity_is_sticky() {
    with_one(STILL, |served| {
        up(served, "stop=10s", "  replicas: 3", 3);
        let before = ["web-0", "web-1", "web-2"].map(|pod| uid(served, &format!("pod/{pod}")));
        let claim = uid(served, "pvc/www-web-1");
        served.run("delete pod web-1 --wait=false");
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.8* 2:0.8");
        assert_eq!(uid(served, "pod/web-1"), before[1]);
        pass(served, 10);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
        assert_ne!(uid(served, "pod/web-1"), before[1]);
        assert_eq!(uid(served, "pvc/www-web-1"), claim);
        for ordinal in [0, 2] {
            let kept = uid(served, &format!("pod/web-{ordinal}"));
            assert_eq!(kept, before[ordinal]);
        }
        // A failed pod is replaced under its name.
        let failed = r#"'{"status":{"phase":"Failed"}}'"#;
        served.run(&format!("patch pod web-0 --subresource=status -p {failed}"));
        pass(served, 20);
        assert_ne!(uid(served, "pod/web-0"), before[0]);
        assert_eq!(value(served, ".status.readyReplicas"), "3");
        // A pod of a lost node stays terminating until a client removes it.
        served.run("annotate pod web-1 --overwrite podstorm/script=stop=never");
        let lost = uid(served, "pod/web-1");
        served.run("delete pod web-1 --wait=false --grace-period=3600");
        pass(served, 300);
        assert_eq!(pods(served), "0:0.8 1:0.8* 2:0.8");
        served.run("delete pod web-1 --force --grace-period=0 --wait=false");
        pass(served, 10);
        assert_ne!(uid(served, "pod/web-1"), lost);
        assert_eq!(value(served, ".status.readyReplicas"), "3");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w71_start_ordinal() {
    with_one(STILL, |served| {
        let ordinals = "  replicas: 3\n  ordinals: {start: 5}";
        up(served, "ready=5s", ordinals, 3);
        assert_eq!(pods(served), "5:0.8 6:0.8 7:0.8");
        patch(served, r#""ordinals":{"start":6}"#);
        pass(served, 1);
        assert_eq!(pods(served), "5:0.8 6:0.8 7:0.8 8:0.8");
        pass(served, 10);
        assert_eq!(pods(served), "6:0.8 7:0.8 8:0.8");
        served.refuses(
            r#"patch sts web -p '{"spec":{"ordinals":{"start":-1}}}'"#,
            &["spec.ordinals.start: Invalid value: -1"],
        );
        patch(served, r#""ordinals":null"#);
        for _ in 0..6 {
            pass(served, 10);
        }
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w72_a_failure_during_startup() {
    with_one(STILL, |served| {
        served.apply(&web("", "  replicas: 3\n  minReadySeconds: 20"));
        pass(served, 25);
        assert_eq!(names(served), ["web-0", "web-1"]);
        let first = uid(served, "pod/web-0");
        let failed = r#"'{"status":{"phase":"Failed"}}'"#;
        served.run(&format!("patch pod web-0 --subresource=status -p {failed}"));
        pass(served, 10);
        assert_ne!(uid(served, "pod/web-0"), first);
        pass(served, 8);
        // By now web-1 is available, and web-0 is not.
        assert_eq!(names(served), ["web-0", "web-1"]);
        pass(served, 15);
        assert_eq!(names(served), ["web-0", "web-1", "web-2"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w73_ordered_scale_down() {
    with_one(STILL, |served| {
        up(served, "stop=9s", "  replicas: 3", 3);
        patch(served, r#""replicas":1"#);
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8*");
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.8*");
        pass(served, 10);
        assert_eq!(pods(served), "0:0.8");
        let told = events(served, "SuccessfulDelete");
        let of = |ordinal| format!("Delete Pod web-{ordinal} in StatefulSet web successful");
        assert_eq!(told, [of(2), of(1)]);
        // An unready pod blocks the deletion of the next one.
        served.run("scale sts web --replicas=3");
        for _ in 0..3 {
            pass(served, 10);
        }
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
        patch(served, r#""replicas":1"#);
        pass(served, 5);
        not_ready(served, "web-0");
        pass(served, 60);
        assert_eq!(pods(served), "0:0.8 1:0.8");
        served.run("annotate pod web-0 --overwrite podstorm/script=ready=0");
        pass(served, 15);
        assert_eq!(pods(served), "0:0.8");
        // It also blocks creation.
        not_ready(served, "web-0");
        pass(served, 1);
        served.run("scale sts web --replicas=2");
        pass(served, 60);
        assert_eq!(pods(served), "0:0.8");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w74_deletion_is_unordered() {
    with_one(STILL, |served| {
        up(served, "stop=9s", "  replicas: 3", 3);
        served.run("delete sts web --wait=false");
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8* 1:0.8* 2:0.8*");
        pass(served, 10);
        assert_eq!(pods(served), "");
        assert_eq!(served.words("get pvc -o name").len(), 3);
        served.apply(&web("stop=9s", "  replicas: 3"));
        for _ in 0..3 {
            pass(served, 10);
        }
        let before = ["web-0", "web-1", "web-2"].map(|pod| uid(served, &format!("pod/{pod}")));
        served.run("delete sts web --cascade=orphan --wait=false");
        pass(served, 30);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
        served.apply(&web("stop=9s", "  replicas: 3"));
        pass(served, 10);
        let after = ["web-0", "web-1", "web-2"].map(|pod| uid(served, &format!("pod/{pod}")));
        assert_eq!(after, before, "the pods are adopted");
        assert_eq!(value(served, ".status.readyReplicas"), "3");
        served.run("scale sts web --replicas=0");
        for there in ["0:0.8 1:0.8 2:0.8*", "0:0.8 1:0.8*", "0:0.8*"] {
            pass(served, 5);
            assert_eq!(pods(served), there);
            pass(served, 5);
        }
        assert_eq!(pods(served), "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w76_parallel() {
    with_one(STILL, |served| {
        let parallel = "  replicas: 5\n  podManagementPolicy: Parallel";
        served.apply(&web("ready=20s stop=9s", parallel));
        pass(served, 1);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8 3:0.8 4:0.8");
        served.run("scale sts web --replicas=1");
        pass(served, 1);
        assert_eq!(pods(served), "0:0.8 1:0.8* 2:0.8* 3:0.8* 4:0.8*");
        served.run("scale sts web --replicas=3");
        pass(served, 40);
        set_image(served, "0.21");
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8*");
        pass(served, 10);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.21");
        pass(served, 20);
        assert_eq!(pods(served), "0:0.8 1:0.8* 2:0.21");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w79_min_ready_seconds() {
    with_one(STILL, |served| {
        served.apply(&web("", "  replicas: 2\n  minReadySeconds: 10"));
        pass(served, 8);
        assert_eq!(names(served), ["web-0"]);
        assert_eq!(value(served, ".status.readyReplicas"), "1");
        assert_eq!(value(served, ".status.availableReplicas"), "0");
        pass(served, 4);
        assert_eq!(names(served), ["web-0", "web-1"]);
        assert_eq!(value(served, ".status.availableReplicas"), "1");
        pass(served, 15);
        assert_eq!(value(served, ".status.availableReplicas"), "2");
        set_image(served, "0.21");
        pass(served, 8);
        assert_eq!(pods(served), "0:0.8 1:0.21");
        pass(served, 20);
        assert_eq!(pods(served), "0:0.21 1:0.21");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w84_replicas_and_apply() {
    with_one(STILL, |served| {
        let manifest = web("", "  replicas: 3");
        up(served, "", "  replicas: 3", 3);
        served.says(
            "scale statefulset web --replicas=5",
            "statefulset.apps/web scaled",
        );
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8 3:0.8 4:0.8");
        served.apply(&manifest);
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
        served.run("delete sts web --wait=false");
        served.apply(&web("", ""));
        assert_eq!(value(served, ".spec.replicas"), "1");
    });
}
