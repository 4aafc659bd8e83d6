//! Updates, partitions, rollbacks, and the revision history.

use super::*;

/// Returns the names and numbers of the revisions, sorted by number.
#[track_caller]
fn revisions(served: &Served) -> Vec<String> {
    let line = "get controllerrevisions --sort-by=.revision --no-headers \
                -o custom-columns=:.revision,:.metadata.name";
    served.run(line).lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w77_on_delete() {
    with_one(STILL, |served| {
        let on_delete = "  replicas: 3\n  updateStrategy: {type: OnDelete}";
        up(served, "", on_delete, 3);
        set_image(served, "0.21");
        pass(served, 30);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
        assert_ne!(
            value(served, ".status.updateRevision"),
            value(served, ".status.currentRevision")
        );
        assert_eq!(value(served, ".status.updatedReplicas"), "");
        served.run("delete pod web-1 --wait=false");
        pass(served, 5);
        assert_eq!(pods(served), "0:0.8 1:0.21 2:0.8");
        assert_eq!(value(served, ".status.updatedReplicas"), "1");
        served.refuses(
            "rollout status sts/web --watch=false",
            &["error: rollout status is only available for RollingUpdate strategy type"],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w78_rolling_update() {
    with_each(STILL, |served| {
        up(served, "ready=5s stop=4s", "  replicas: 3", 3);
        set_image(served, "0.21");
        for (leaving, new, updated) in [
            ("0:0.8 1:0.8 2:0.8*", "0:0.8 1:0.8 2:0.21", 1),
            ("0:0.8 1:0.8* 2:0.21", "0:0.8 1:0.21 2:0.21", 2),
            ("0:0.8* 1:0.21 2:0.21", "0:0.21 1:0.21 2:0.21", 3),
        ] {
            pass(served, 2);
            assert_eq!(pods(served), leaving);
            pass(served, 4);
            assert_eq!(pods(served), new);
            if updated < 3 {
                let told = "Waiting for 1 pods to be ready...";
                served.shows("rollout status sts/web --watch=false", &[told]);
            }
            pass(served, 3);
        }
        pass(served, 5);
        served.says(
            "rollout status sts/web --watch=false",
            "partitioned roll out complete: 3 new pods have been updated...",
        );
        let update = value(served, ".status.updateRevision");
        assert_eq!(value(served, ".status.currentRevision"), update);
        let kept = revisions(served);
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert_eq!(kept[1], format!("2 {update}"));
        served.tabulates(
            "get controllerrevisions --sort-by=.revision",
            &format!(
                "NAME CONTROLLER REVISION\n{} statefulset.apps/web 1\n{update} statefulset.apps/web 2",
                kept[0].trim_start_matches("1 ")
            ),
        );
        served.says(
            "rollout history sts/web",
            "statefulset.apps/web\nREVISION CHANGE-CAUSE\n1 <none>\n2 <none>",
        );
        served.says("rollout undo sts/web", "statefulset.apps/web rolled back");
        for _ in 0..6 {
            pass(served, 10);
        }
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8");
        let first = kept[0].trim_start_matches("1 ");
        let wanted = [format!("2 {update}"), format!("3 {first}")];
        assert_eq!(revisions(served), wanted);
        // Labels of the template trigger a rollout too.
        patch(
            served,
            r#""template":{"metadata":{"labels":{"tier":"front"}}}"#,
        );
        for _ in 0..6 {
            pass(served, 10);
        }
        let line = "get pods -l tier=front -o name";
        assert_eq!(served.words(line).len(), 3);
        served.says("rollout restart sts/web", "statefulset.apps/web restarted");
        pass(served, 2);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8*");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w80_partition() {
    with_one(STILL, |served| {
        let partition = "  replicas: 3\n  updateStrategy: {rollingUpdate: {partition: 2}}";
        up(served, "ready=5s", partition, 3);
        let to = |partition: u32| {
            patch(
                served,
                &format!(r#""updateStrategy":{{"rollingUpdate":{{"partition":{partition}}}}}"#),
            );
        };
        set_image(served, "0.21");
        served.shows("rollout status sts/web --watch=false", &["Waiting for"]);
        pass(served, 20);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.21");
        served.says(
            "rollout status sts/web --watch=false",
            "partitioned roll out complete: 1 new pods have been updated...",
        );
        served.run("delete pod web-0 --wait=false");
        pass(served, 20);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.21");
        to(1);
        pass(served, 20);
        assert_eq!(pods(served), "0:0.8 1:0.21 2:0.21");
        to(0);
        pass(served, 20);
        assert_eq!(pods(served), "0:0.21 1:0.21 2:0.21");
        to(4);
        set_image(served, "0.22");
        pass(served, 60);
        assert_eq!(pods(served), "0:0.21 1:0.21 2:0.21");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w81_max_unavailable() {
    let rolling = ".spec.updateStrategy.rollingUpdate";
    let with = |replicas: usize, most: &str| {
        format!(
            "  replicas: {replicas}\n  updateStrategy: {{rollingUpdate: {{maxUnavailable: {most}}}}}"
        )
    };
    with_one(STILL, |served| {
        up(served, "ready=5s", &with(3, "2"), 3);
        // The gate is off, so the member is not stored, and pods are replaced one by one.
        assert_eq!(value(served, rolling), r#"{"partition":0}"#);
        set_image(served, "0.21");
        pass(served, 1);
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.21");
    });
    let gate = ["--feature-gates", "MaxUnavailableStatefulSet=true"];
    with_one(&[STILL, &gate].concat(), |served| {
        up(served, "ready=5s", &with(5, "2"), 5);
        set_image(served, "0.21");
        pass(served, 1);
        // The last two are deleted together, and recreated in order.
        assert_eq!(pods(served), "0:0.8 1:0.8 2:0.8 3:0.21");
        pass(served, 60);
        assert_eq!(pods(served), "0:0.21 1:0.21 2:0.21 3:0.21 4:0.21");
        // 30 % of 5 is rounded down to one pod.
        patch(
            served,
            r#""updateStrategy":{"rollingUpdate":{"maxUnavailable":"30%"}}"#,
        );
        set_image(served, "0.22");
        pass(served, 1);
        assert_eq!(pods(served), "0:0.21 1:0.21 2:0.21 3:0.21 4:0.22");
        let none = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}}}}"#;
        served.refuses(&format!("patch sts web -p '{none}'"), &["cannot be 0"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w82_forced_rollback() {
    with_each(STILL, |served| {
        up(served, "", "  replicas: 3", 3);
        let broken = r#""template":{"metadata":{"annotations":{"podstorm/script":"ready=never"}}}"#;
        patch(served, broken);
        pass(served, 60);
        let item = "{.metadata.name} {.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}";
        let ready = &format!("get pods -o jsonpath='{{range .items[*]}}{item}{{end}}'");
        served.says(ready, "web-0 True\nweb-1 True\nweb-2 False");
        served.says("rollout undo sts/web", "statefulset.apps/web rolled back");
        pass(served, 600);
        served.says(ready, "web-0 True\nweb-1 True\nweb-2 False");
        served.run("delete pod web-2 --wait=false");
        pass(served, 10);
        served.says(ready, "web-0 True\nweb-1 True\nweb-2 True");
        assert_eq!(value(served, ".status.updatedReplicas"), "3");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w85_revision_history() {
    with_one(STILL, |served| {
        up(served, "", "  replicas: 1", 1);
        for tag in 1..=14 {
            set_image(served, &format!("1.{tag}"));
            pass(served, 5);
        }
        let kept = revisions(served);
        assert_eq!(kept.len(), 11, "{kept:?}");
        assert!(kept[0].starts_with("5 "), "{kept:?}");
        let live = value(served, ".status.updateRevision");
        assert_eq!(kept[10], format!("15 {live}"));
        // A revision that a pod still has is kept, and does not count.
        patch(
            served,
            r#""updateStrategy":{"type":"OnDelete","rollingUpdate":null},"revisionHistoryLimit":0"#,
        );
        set_image(served, "2.0");
        pass(served, 5);
        set_image(served, "3.0");
        pass(served, 5);
        let kept = revisions(served);
        let newest = value(served, ".status.updateRevision");
        assert_eq!(kept, [format!("15 {live}"), format!("17 {newest}")]);
    });
}
