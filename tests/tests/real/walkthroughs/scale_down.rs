//! Walkthroughs of the deletion order of ReplicaSets, and of their alternatives: W14 to W16.

use super::super::manifests::{DEPLOYMENT, FRONTEND, owner, pod};
use super::super::served::{Served, with_one};
use super::replica_set::{EVENTS, ROW, frontend, has};
use super::{count, end_container, name_of, names, not_ready, old_since, place_six};

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w14_scale_down_order() {
    // A Deployment controller would create its own ReplicaSets.
    with_one(&["--controllers=*,-deployment"], |served| {
        // (a) and (b): a pending pod is deleted before any cost is considered.
        let nowhere = "nodeSelector: {disk: none}";
        served.apply(&pod("pending", "labels: {tier: frontend}", nowhere));
        served.comes_to_show(
            "get pod pending -o jsonpath='{.status.conditions[0].reason}'",
            &["Unschedulable"],
        );
        served.apply(&FRONTEND.replace("replicas: 3", "replicas: 6"));
        served.tabulates(ROW, "frontend 6 6 5");
        let cheap = name_of(served, 2);
        served.run(&format!(
            "annotate pod {cheap} controller.kubernetes.io/pod-deletion-cost=-1"
        ));
        served.run("scale rs/frontend --replicas=5");
        has(served, 5);
        served.refuses("get pod pending", &["NotFound"]);
        served.run("scale rs/frontend --replicas=4");
        has(served, 4);
        served.refuses(&format!("get pod {cheap}"), &["NotFound"]);
        // (d): the pod that has been ready for the shortest time.
        let all = names(served);
        for old in &all[1..] {
            old_since(served, old, "2020-01-01T00:00:00Z");
        }
        served.run("scale rs/frontend --replicas=3");
        has(served, 3);
        assert_eq!(names(served), all[1..]);
        // (e): any pod.
        served.run("scale rs/frontend --replicas=2");
        has(served, 2);
        served.run("delete rs frontend");
        served.becomes("get pods -o name", "");

        // (c): four pods on one node and two on another, with and without a Deployment as the
        // owner.
        served.apply(DEPLOYMENT);
        let uid = served.run("get deployment nginx-deployment -o jsonpath={.metadata.uid}");
        let reference = owner("apps/v1", "Deployment", "nginx-deployment", &uid);
        let owned = FRONTEND.replace(
            "metadata: {name: frontend,",
            &format!("metadata: {{name: frontend, ownerReferences: [{reference}],"),
        );
        place_six(served, "tier: frontend");
        served.apply(&owned.replace("replicas: 3", "replicas: 6"));
        has(served, 6);
        served.run("scale rs/frontend --replicas=5");
        has(served, 5);
        let on_two = "get pods --field-selector spec.nodeName=node-2 -o name";
        served.says(on_two, "pod/p4\npod/p5");
        served.run("scale rs/frontend --replicas=4");
        has(served, 4);
        served.says(on_two, "pod/p4\npod/p5");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w15_pod_deletion_cost() {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let cost = |served: &Served, pod: &str, cost: &str| {
        served.run(&format!("annotate pod {pod} --overwrite {COST}={cost}"));
    };
    with_one(&[], |served| {
        frontend(served, 6);
        let all = names(served);
        for (pod, value) in all.iter().zip(["-100", "-5", "", "0", "7", "2147483647"]) {
            if !value.is_empty() {
                cost(served, pod, value);
            }
        }
        for (replicas, left) in [(5, &all[1..]), (4, &all[2..]), (2, &all[4..])] {
            served.run(&format!("scale rs/frontend --replicas={replicas}"));
            has(served, replicas);
            assert_eq!(names(served), left);
        }
        cost(served, &all[4], "-2147483648");
        for bad in ["abc", "2147483648", "1.5", "+5", "", "08"] {
            served.refuses(
                &format!("annotate pod {} --overwrite {COST}={bad}", all[4]),
                &[&format!(
                    "metadata.annotations[{COST}]: Invalid value: \"{bad}\": must be a 32bit integer"
                )],
            );
        }
        // Readiness precedes the cost.
        cost(served, &all[4], "-100");
        not_ready(served, &all[5]);
        served.tabulates(ROW, "frontend 2 2 1");
        served.run("scale rs/frontend --replicas=1");
        has(served, 1);
        assert_eq!(names(served), all[4..5]);

        served.run("scale rs/frontend --replicas=6");
        has(served, 6);
        let all = names(served);
        let events = served.run(EVENTS);
        for (pod, load) in all.iter().zip(["60", "10", "50", "20", "40", "30"]) {
            cost(served, pod, load);
        }
        assert_eq!(names(served), all, "costs alone delete no pod");
        assert_eq!(served.run(EVENTS), events);
        served.run("scale rs/frontend --replicas=3");
        has(served, 3);
        assert_eq!(names(served), [&*all[0], &*all[2], &*all[4]]);
        served.run("delete rs frontend");
        served.becomes("get pods -o name", "");

        // A cost in the template is the same for all pods.
        let annotated =
            format!("metadata: {{annotations: {{{COST}: \"7\"}}, labels: {{tier: frontend}}}}");
        served.apply(&FRONTEND.replace("metadata: {labels: {tier: frontend}}", &annotated));
        has(served, 3);
        let costs = "get pods -o jsonpath='{.items[*].metadata.annotations}'";
        assert_eq!(count(&served.run(costs), "\"7\""), 3);
        let all = names(served);
        not_ready(served, &all[1]);
        served.tabulates(ROW, "frontend 3 3 2");
        served.run("scale rs/frontend --replicas=2");
        has(served, 2);
        assert_eq!(names(served), [&*all[0], &*all[2]]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w16_bare_pods_are_not_replaced_but_restarted() {
    with_one(&[], |served| {
        served.apply(&pod("bare", "labels: {tier: none}", ""));
        served.apply(FRONTEND);
        served.tabulates(ROW, "frontend 3 3 3");
        served.run("delete pod bare");
        let one = name_of(served, 0);
        end_container(served, &one, 0);
        served.comes_to_show(&format!("get pod {one}"), &["1/1 Running 1 ("]);
        has(served, 3);
        // A pod that may end stays ended.
        served.run("run once --image=busybox --restart=Never");
        served.run("wait --for=condition=Ready pod/once");
        end_container(served, "once", 0);
        served.comes_to_show("get pod once", &["0/1 Completed 0"]);
        served.run("run failed --image=busybox --restart=Never");
        served.run("wait --for=condition=Ready pod/failed");
        end_container(served, "failed", 3);
        served.comes_to_show("get pod failed", &["0/1 Error 0"]);
    });
}
