//! Canaries, apply, overlapping selectors, Recreate, minReadySeconds, and all use cases in
//! sequence.

use super::*;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w60_canary_by_two() {
    let track = |name: &str, track: &str, replicas: usize, image: &str| {
        DEPLOYMENT
            .replace("name: nginx-deployment", &format!("name: {name}"))
            .replace("{app: nginx}", &format!("{{app: web, track: {track}}}"))
            .replace("replicas: 3", &format!("replicas: {replicas}"))
            .replace(OLD, image)
    };
    with_one(STILL, |served| {
        let both = [
            track("web", "stable", 3, OLD),
            track("web-canary", "canary", 1, NEW),
        ];
        served.apply(&both.join("---"));
        let rows = |stable: usize, canary: usize| {
            served.comes_to("get pods -l app=web -L track --no-headers", |text| {
                (count(text, " stable"), count(text, " canary")) == (stable, canary)
            });
        };
        rows(3, 1);
        let stable = "get pods -l track=stable -o name";
        let before = served.run(stable);
        served.runs(&[
            "set image deployment/web-canary nginx=nginx:2",
            "scale deployment/web-canary --replicas=2",
        ]);
        rows(3, 2);
        served.says(stable, &before);
        served.runs(&[
            "set image deployment/web nginx=nginx:2",
            "delete deployment web-canary",
            "rollout status deployment/web",
        ]);
        rows(3, 0);
        let images = "get pods -o jsonpath='{.items[*].spec.containers[0].image}'";
        served.becomes(images, "nginx:2 nginx:2 nginx:2");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w62_apply_overwrites_manual_scaling() {
    with_one(STILL, |served| {
        nginx(served, 3, "");
        scale(served, 7);
        complete(served, 7);
        nginx(served, 3, "");
        // Removed from the manifest, the number gets its default, and is ignored by later applies.
        let without = DEPLOYMENT.replace("  replicas: 3\n", "");
        served.apply(&without);
        complete(served, 1);
        scale(served, 7);
        served.apply(&without);
        complete(served, 7);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w63_overlapping_selectors() {
    with_one(STILL, |served| {
        served.apply(&pod("bare", "labels: {app: nginx}", ""));
        let set = crate::manifests::FRONTEND
            .replace("{tier: frontend}", "{app: nginx, x: z}")
            .replace(
                "labels: {app: guestbook, tier: frontend}",
                "labels: {app: nginx}",
            )
            .replace("replicas: 3", "replicas: 2");
        served.apply(&set);
        served.apply(DEPLOYMENT);
        served.tabulates(ROW, "nginx-deployment 3/3 3 3");
        served.becomes(
            "get rs frontend -o jsonpath='{.spec.replicas} {.metadata.ownerReferences[0].name}'",
            "0 nginx-deployment",
        );
        served.says(&owners_of("pod bare"), "");
        served.comes_to("get pods -o name", |text| text.lines().count() == 4);
        // Another Deployment with the same selector has its own ReplicaSets.
        served.apply(
            &DEPLOYMENT
                .replace("name: nginx-deployment", "name: other")
                .replace(OLD, NEW),
        );
        served.run("rollout status deployment/other");
        served.comes_to("get pods -o name", |text| text.lines().count() == 7);
        pass(served, 600);
        served.tabulates(
            "get deployments --no-headers",
            "nginx-deployment 3/3 3 3\nother 3/3 3 3",
        );
        served.says(
            SIZES,
            "gcr.io/google_samples/gb-frontend:v3 0\nnginx:1.14.2 3\nnginx:1.16.1 3",
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w64_recreate() {
    let slow = ["--engine", "virtual", "--pod-termination-latency", "10s"];
    with_one(&slow, |served| {
        nginx(served, 3, "  strategy: {type: Recreate}\n");
        image(served, NEW);
        pass(served, 5);
        assert_eq!(count(&served.run("get pods"), "Terminating"), 3);
        assert_eq!(names(served).len(), 3);
        served.tabulates(ROW, "nginx-deployment 0/3 0 0");
        let waits = served.beside(STATUS, "status");
        waits.shows("0 out of 3 new replicas have been updated...");
        pass(served, 6);
        complete(served, 3);
        waits.ends();
        scaled(served, &["down nginx:1.14.2 3 0", "up nginx:1.16.1 0 3"]);
        served.run(&format!("delete pod {} --wait=false", name_of(served, 0)));
        served.comes_to("get pods -o name", |text| text.lines().count() == 4);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w65_min_ready_seconds() {
    with_one(STILL, |served| {
        served.apply(&manifest(3, "  minReadySeconds: 10\n"));
        served.tabulates(ROW, "nginx-deployment 3/3 3 0");
        pass(served, 9);
        served.tabulates(ROW, "nginx-deployment 3/3 3 0");
        pass(served, 2);
        complete(served, 3);
        image(served, NEW);
        pass(served, 25);
        let updated: usize = member(served, ".status.updatedReplicas")
            .parse()
            .expect("a number");
        assert!(
            updated < 3 || served.run(SIZES).contains("1.14.2 1"),
            "{updated}"
        );
        pass(served, 15);
        complete(served, 3);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w66_the_use_cases_in_one_go() {
    with_each(STILL, |served| {
        nginx(served, 3, "");
        served.says(STATUS, DONE);
        image(served, NEW);
        complete(served, 3);
        image(served, BAD);
        served.run(UNDO);
        complete(served, 3);
        scale(served, 5);
        complete(served, 5);
        served.run("rollout pause deployment/nginx-deployment");
        image(served, OLD);
        served.run("set env deployment/nginx-deployment A=b");
        served.run("rollout resume deployment/nginx-deployment");
        complete(served, 5);
        image(served, BAD);
        pass(served, 700);
        condition(served, "Progressing False ProgressDeadlineExceeded");
        served.run(UNDO);
        complete(served, 5);
        patch(served, "\"revisionHistoryLimit\":0");
        served.comes_to("get rs -o name", |text| text.lines().count() == 1);
        served.apply(&bare_pods());
        served.run("delete deployment nginx-deployment");
        served.becomes("get pods -o name", "pod/pod1\npod/pod2");
    });
}
