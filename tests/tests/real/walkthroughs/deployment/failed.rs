//! Rollouts that are paused, failed or out of time, and the cleanup of the history.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w53_created_paused() {
    with_one(STILL, |served| {
        served.apply(&manifest(3, "  paused: true\n"));
        condition(served, "Progressing Unknown DeploymentPaused");
        served.tabulates(ROW, "nginx-deployment 0/3 0 0");
        served.says("get rs -o name", "");
        served.run("rollout resume deployment/nginx-deployment");
        complete(served, 3);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w54_the_deadline_is_exceeded() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        let unchanged =
            "patch deployment/nginx-deployment -p '{\"spec\":{\"progressDeadlineSeconds\":600}}'";
        served.says(
            unchanged,
            "deployment.apps/nginx-deployment patched (no change)",
        );
        image(served, BAD);
        pass(served, 598);
        condition(served, "Progressing True ReplicaSetUpdated");
        pass(served, 5);
        condition(served, "Progressing False ProgressDeadlineExceeded");
        condition(served, "Available True MinimumReplicasAvailable");
        served.refuses(
            STATUS,
            &["error: deployment \"nginx-deployment\" exceeded its progress deadline"],
        );
        pass(served, 600);
        sizes(served, "nginx:1.14.2 3\nnginx:bad 1");
        image(served, NEW);
        complete(served, 3);
        condition(served, "Progressing True NewReplicaSetAvailable");
        patch(served, "\"progressDeadlineSeconds\":2147483647");
        image(served, OLD);
        complete(served, 3);
        let conditions = served.run(CONDITIONS);
        assert!(!conditions.contains("Progressing"), "{conditions}");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w54_progress_restarts_the_deadline() {
    let slow = ["--engine", "virtual", "--pod-startup-latency", "50s"];
    with_one(&slow, |served| {
        served.apply(&manifest(3, "  progressDeadlineSeconds: 60\n"));
        pass(served, 55);
        // One pod after the other, 50 s each.
        image(served, NEW);
        for _ in 0..4 {
            pass(served, 45);
            let conditions = served.run(CONDITIONS);
            assert!(conditions.contains("Progressing True"), "{conditions}");
        }
        complete(served, 3);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w55_a_pause_stops_the_deadline() {
    let (pause, resume) = (
        "rollout pause deployment/nginx-deployment",
        "rollout resume deployment/nginx-deployment",
    );
    with_one(STILL, |served| {
        nginx(served, 3, "  progressDeadlineSeconds: 60\n");
        image(served, BAD);
        pass(served, 30);
        served.run(pause);
        pass(served, 600);
        condition(served, "Progressing Unknown DeploymentPaused");
        served.run(resume);
        pass(served, 55);
        let conditions = served.run(CONDITIONS);
        assert!(
            !conditions.contains("ProgressDeadlineExceeded"),
            "{conditions}"
        );
        pass(served, 10);
        condition(served, "Progressing False ProgressDeadlineExceeded");
        served.run(pause);
        pass(served, 10);
        condition(served, "Progressing False ProgressDeadlineExceeded");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w56_failing_for_quota() {
    with_one(STILL, |served| {
        served.run("create quota object-counts --hard=pods=2");
        served.apply(&manifest(3, &strategy("0", "1")));
        served.tabulates(ROW, "nginx-deployment 2/3 2 2");
        condition(served, "Available True MinimumReplicasAvailable");
        condition(served, "Progressing True ReplicaSetUpdated");
        condition(served, "ReplicaFailure True FailedCreate");
        let messages = member(served, ".status.conditions[*].message");
        let exceeded = "is forbidden: exceeded quota: object-counts, requested: pods=1, used: pods=2, limited: pods=2";
        assert!(messages.contains(exceeded), "{messages}");
        assert_eq!(member(served, ".status.unavailableReplicas"), "1");
        pass(served, 700);
        condition(served, "Progressing False ProgressDeadlineExceeded");
        condition(served, "ReplicaFailure True FailedCreate");
        served.run(
            "patch quota object-counts --type=merge -p '{\"spec\":{\"hard\":{\"pods\":\"9\"}}}'",
        );
        pass(served, 1000);
        complete(served, 3);
        condition(served, "Progressing True NewReplicaSetAvailable");
        let conditions = served.run(CONDITIONS);
        assert!(!conditions.contains("ReplicaFailure"), "{conditions}");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w57_failing_early() {
    with_one(STILL, |served| {
        served.run("create quota none --hard=count/replicasets.apps=0");
        served.apply(DEPLOYMENT);
        condition(served, "Progressing False ReplicaSetCreateError");
        let message = member(
            served,
            ".status.conditions[?(@.type==\"Progressing\")].message",
        );
        assert!(
            message.starts_with("Failed to create new replica set \"nginx-deployment-"),
            "{message}"
        );
        served.comes_to_show(
            EVENTS,
            &[&format!("Warning ReplicaSetCreateError {message}")],
        );
        served.run("delete quota none");
        pass(served, 1000);
        complete(served, 3);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w59_old_replica_sets_are_cleaned_up() {
    with_one(STILL, |served| {
        nginx(served, 1, "");
        let updates = |from: usize, to: usize| {
            for number in from..=to {
                image(served, &format!("nginx:{number}"));
                complete(served, 1);
            }
        };
        let sets = |wanted: usize| {
            served.comes_to("get rs -o name", |text| text.lines().count() == wanted);
        };
        updates(1, 12);
        sets(11);
        assert_eq!(served.run(HISTORY).lines().count(), 2 + 11);
        patch(served, "\"revisionHistoryLimit\":2");
        updates(13, 17);
        sets(3);
        served.refuses(
            &format!("{UNDO} --to-revision=3"),
            &["unable to find specified revision 3"],
        );
        image(served, BAD);
        patch(served, "\"revisionHistoryLimit\":0");
        // Not before the rollout is complete.
        sets(4);
        image(served, NEW);
        complete(served, 1);
        sets(1);
        served.refuses(
            UNDO,
            &["no rollout history found for deployment \"nginx-deployment\""],
        );
    });
}
