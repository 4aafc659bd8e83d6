//! A bad image and its rollback; scaling, pausing and resuming.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w46_to_w48_a_bad_image_history_and_rollback() {
    with_each(STILL, |served| {
        nginx(served, 3, "");
        image(served, NEW);
        complete(served, 3);
        image(served, BAD);
        let waits = served.beside(STATUS, "status");
        waits.shows("1 out of 3 new replicas have been updated...");
        sizes(served, "nginx:1.14.2 0\nnginx:1.16.1 3\nnginx:bad 1");
        // `ErrImagePull` comes before `ImagePullBackOff`.
        pass(served, 2);
        let pods = served.run("get pods");
        let running = count(&pods, " 1/1 Running 0 ");
        let stuck = count(&pods, " 0/1 ImagePullBackOff 0 ");
        assert_eq!((running, stuck), (3, 1), "{pods}");
        let (good, bad) = (set_of(served, NEW), set_of(served, BAD));
        served.shows(
            "describe deployment nginx-deployment",
            &[
                "Replicas: 3 desired | 1 updated | 4 total | 3 available | 1 unavailable\n",
                "Available True MinimumReplicasAvailable\n",
                "Progressing True ReplicaSetUpdated\n",
                &format!("{good} (3/3 replicas created)"),
                &format!("NewReplicaSet: {bad} (1/1 replicas created)\n"),
            ],
        );
        pass(served, 60);
        scaled(served, &["up nginx:bad 0 1"]);

        served.says(
            HISTORY,
            "deployment.apps/nginx-deployment\nREVISION CHANGE-CAUSE\n1 <none>\n2 <none>\n3 <none>",
        );
        served.says(
            "annotate deployment/nginx-deployment kubernetes.io/change-cause='a bad image'",
            "deployment.apps/nginx-deployment annotated",
        );
        served.comes_to_show(HISTORY, &["\n2 <none>\n3 a bad image"]);
        served.shows(
            &format!("{HISTORY} --revision=2"),
            &[
                "deployment.apps/nginx-deployment with revision #2\nPod Template:\n",
                "Image: nginx:1.16.1\n",
            ],
        );
        served.refuses(
            &format!("{HISTORY} --revision=9"),
            &["unable to find the specified revision"],
        );
        served.refuses(
            &format!("rollout history rs/{good}"),
            &["no history viewer has been implemented for \"ReplicaSet.apps\""],
        );

        let dry = served.run(&format!("{UNDO} --dry-run=client"));
        assert!(dry.contains("Image: nginx:1.16.1"), "{dry}");
        let rolled_back = "deployment.apps/nginx-deployment rolled back";
        served.says(UNDO, rolled_back);
        complete(served, 3);
        waits.ends();
        scaled(served, &["down nginx:bad 1 0"]);
        served.shows(HISTORY, &["\n1 <none>\n3 a bad image\n4 <none>"]);
        let past =
            "jsonpath='{.metadata.annotations.deployment\\.kubernetes\\.io/revision-history}'";
        served.says(&format!("get rs {good} -o {past}"), "2");
        served.says(&format!("{UNDO} --to-revision=1"), rolled_back);
        complete(served, 3);
        sizes(served, "nginx:1.14.2 3\nnginx:1.16.1 0\nnginx:bad 0");
        served.says(
            &format!("{UNDO} --to-revision=5"),
            "deployment.apps/nginx-deployment skipped rollback (current template already matches revision 5)",
        );
        served.refuses(
            &format!("{UNDO} --to-revision=99"),
            &["unable to find specified revision 99 in history"],
        );
        served.run("create deployment one --image=nginx:1");
        served.refuses(
            "rollout undo deployment/one",
            &["no rollout history found for deployment \"one\""],
        );
        served.run("delete deployment one");

        let annotate = |revision: &str| {
            served.run(&format!(
                "annotate deployment/nginx-deployment deprecated.deployment.rollback.to={revision}"
            ));
            let left = ".metadata.annotations.deprecated\\.deployment\\.rollback\\.to";
            assert_eq!(member(served, left), "");
        };
        annotate("4");
        let back =
            "Normal DeploymentRollback Rolled back deployment \"nginx-deployment\" to revision 4";
        served.comes_to_show(EVENTS, &[back]);
        complete(served, 3);
        annotate("77");
        let unknown = "Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to.";
        served.comes_to_show(EVENTS, &[unknown]);
        annotate("6");
        served.comes_to_show(
            EVENTS,
            &["Warning DeploymentRollbackTemplateUnchanged The rollback revision"],
        );
        annotate("0");
        complete(served, 3);
        sizes(served, "nginx:1.14.2 3\nnginx:1.16.1 0\nnginx:bad 0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w49_w148_w177_scale() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        scale(served, 10);
        complete(served, 10);
        scaled(served, &["up nginx:1.14.2 3 10"]);
        let of = "deployment\\.kubernetes\\.io";
        let sizes = format!(
            "{{.items[0].metadata.annotations.{of}/desired-replicas}} {{.items[0].metadata.annotations.{of}/max-replicas}}"
        );
        served.says(&format!("get rs -o jsonpath='{sizes}'"), "10 13");
        served.shows(HISTORY, &["CHANGE-CAUSE\n1 <none>"]);
        scale(served, 4);
        complete(served, 4);
        let deleted = "get events --field-selector reason=SuccessfulDelete -o jsonpath='{.items[*].source.component}'";
        served.becomes(deleted, &["replicaset-controller"; 6].join(" "));
        served.says(
            "autoscale deployment/nginx-deployment --min=10 --max=15 --cpu-percent=80",
            "horizontalpodautoscaler.autoscaling/nginx-deployment autoscaled",
        );
        served.shows(
            "get hpa --no-headers",
            &["nginx-deployment Deployment/nginx-deployment", " 10 15 "],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w50_w51_w58_proportional_scaling_during_a_rollout() {
    with_one(STILL, |served| {
        nginx(served, 10, &strategy("3", "2"));
        image(served, BAD);
        sizes(served, "nginx:1.14.2 8\nnginx:bad 5");
        scaled(
            served,
            &[
                "up nginx:bad 0 3",
                "down nginx:1.14.2 10 8",
                "up nginx:bad 3 5",
            ],
        );
        scale(served, 15);
        sizes(served, "nginx:1.14.2 11\nnginx:bad 7");
        served.tabulates(ROW, "nginx-deployment 11/15 7 11");
        condition(served, "Available False MinimumReplicasUnavailable");
        served.shows(
            "describe deployment nginx-deployment",
            &["Replicas: 15 desired | 7 updated | 18 total | 11 available | 7 unavailable\n"],
        );
        scale(served, 10);
        sizes(served, "nginx:1.14.2 8\nnginx:bad 5");
        // The same while paused, and after the deadline.
        served.run("rollout pause deployment/nginx-deployment");
        scale(served, 15);
        sizes(served, "nginx:1.14.2 11\nnginx:bad 7");
        served.run("rollout resume deployment/nginx-deployment");
        pass(served, 700);
        condition(served, "Progressing False ProgressDeadlineExceeded");
        scale(served, 10);
        sizes(served, "nginx:1.14.2 8\nnginx:bad 5");
        served.run(UNDO);
        pass(served, 60);
        complete(served, 10);
        scale(served, 0);
        complete(served, 0);
        sizes(served, "nginx:1.14.2 0\nnginx:bad 0");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w52_pause_several_fixes_resume() {
    with_each(STILL, |served| {
        nginx(served, 3, "");
        let of = "deployment/nginx-deployment";
        served.says(
            &format!("rollout pause {of}"),
            "deployment.apps/nginx-deployment paused",
        );
        condition(served, "Progressing Unknown DeploymentPaused");
        served.refuses(
            &format!("rollout pause {of}"),
            &["error: deployments.apps \"nginx-deployment\" is already paused"],
        );
        image(served, NEW);
        served.tabulates(ROW, "nginx-deployment 3/3 0 3");
        sizes(served, "nginx:1.14.2 3");
        served.says(
            &format!("set resources {of} -c=nginx --limits=cpu=200m,memory=512Mi"),
            "deployment.apps/nginx-deployment resource requirements updated",
        );
        served.shows(HISTORY, &["CHANGE-CAUSE\n1 <none>"]);
        let waits = served.beside(STATUS, "status");
        waits.shows("0 out of 3 new replicas have been updated...");
        served.run(&format!("delete pod {}", name_of(served, 0)));
        served.tabulates(ROW, "nginx-deployment 3/3 0 3");
        scale(served, 5);
        served.tabulates(ROW, "nginx-deployment 5/5 0 5");
        served.refuses(
            &format!("{UNDO} --to-revision=1"),
            &["error: you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume' and try again"],
        );
        served.refuses(
            &format!("rollout restart {of}"),
            &["can't restart paused deployment (run rollout resume first)"],
        );
        served.says(
            &format!("rollout resume {of}"),
            "deployment.apps/nginx-deployment resumed",
        );
        complete(served, 5);
        waits.ends();
        sizes(served, "nginx:1.14.2 0\nnginx:1.16.1 5");
        served.shows(HISTORY, &["\n1 <none>\n2 <none>"]);
        served.refuses(
            &format!("rollout resume {of}"),
            &["error: deployments.apps \"nginx-deployment\" is not paused"],
        );
    });
}
