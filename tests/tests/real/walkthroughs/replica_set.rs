//! Walkthroughs of ReplicaSets: W2 to W13.

use podstorm_tests::command::cases;

use super::super::manifests::{FRONTEND, bare_pods, owner, pod};
use super::super::served::{Served, with_each, with_one};
use super::{ALL_OWNERS, PHASES, all_run, count, end_container, name_of, names, pass};

pub(super) const ROW: &str = "get rs frontend --no-headers";
pub(super) const EVENTS: &str = "get events --field-selector involvedObject.name=frontend \
                      -o custom-columns=:type,:reason,:source.component,:message --no-headers";
const CREATED: &str = "Normal SuccessfulCreate replicaset-controller Created pod: frontend-";
const DELETED: &str = "Normal SuccessfulDelete replicaset-controller Deleted pod: ";
const OWNERS: &str = "-o jsonpath='{range .items[*]}{.metadata.name} \
                      {.metadata.ownerReferences[*].name}{\"\\n\"}{end}'";

/// Creates a frontend and waits until all its pods are ready.
pub(super) fn frontend(served: &Served, replicas: usize) {
    served.apply(&FRONTEND.replace("replicas: 3", &format!("replicas: {replicas}")));
    has(served, replicas);
}

/// Waits until exactly this number of pods exist, all ready.
pub(super) fn has(served: &Served, replicas: usize) {
    served.tabulates(ROW, &format!("frontend {replicas} {replicas} {replicas}"));
    all_run(served, replicas);
}

/// Waits until the object has this number of such events.
fn told(served: &Served, times: usize, event: &str) {
    served.comes_to(EVENTS, |text| count(text, event) == times);
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w2_create_look_verify_ownership() {
    with_each(&[], |served| {
        served.file("frontend.yaml", FRONTEND);
        served.says("apply -f frontend.yaml", "replicaset.apps/frontend created");
        let watched = served.beside("get rs -w --no-headers", "rows");
        served.says(
            "apply -f frontend.yaml",
            "replicaset.apps/frontend unchanged",
        );
        served.tabulates("get rs", "NAME DESIRED CURRENT READY\nfrontend 3 3 3");
        for row in watched.shows("frontend 3 3 3").lines() {
            let counts: Vec<&str> = row.split(' ').collect();
            assert!(counts[3] <= counts[2], "{row}");
        }
        served.shows(
            "get rs -o wide",
            &[
                "NAME DESIRED CURRENT READY AGE CONTAINERS IMAGES SELECTOR",
                "php-redis gcr.io/google_samples/gb-frontend:v3 tier=frontend",
            ],
        );
        told(served, 3, CREATED);
        assert_eq!(served.run(EVENTS).lines().count(), 3);
        served.shows(
            "describe rs/frontend",
            &[
                "Selector: tier=frontend\nLabels: app=guestbook\ntier=frontend\n",
                "Replicas: 3 current / 3 desired\n",
                "Pods Status: 3 Running / 0 Waiting / 0 Succeeded / 0 Failed\n",
                "Image: gcr.io/google_samples/gb-frontend:v3\nPort: <none>\nHost Port: <none>\n",
                "Node-Selectors: <none>\nTolerations: <none>\n",
                "replicaset-controller Created pod: frontend-",
            ],
        );
        let pods = served.run("get pods");
        assert_eq!(pods.lines().count(), 4, "{pods}");
        assert_eq!(count(&pods, " 1/1 Running 0 "), 3, "{pods}");
        assert!(
            pods.starts_with("NAME READY STATUS RESTARTS AGE\nfrontend-"),
            "{pods}"
        );
        let one = name_of(served, 0);
        assert_eq!(one.len(), "frontend-".len() + 5, "{one}");
        let uid = served.run("get rs frontend -o jsonpath={.metadata.uid}");
        let reference = format!("kind: ReplicaSet\nname: frontend\nuid: {uid}\nresourceVersion");
        served.shows(
            &format!("get pod {one} -o yaml"),
            &[
                "generateName: frontend-\n",
                "labels:\ntier: frontend\nname: ",
                "ownerReferences:\n- apiVersion: apps/v1\nblockOwnerDeletion: true\ncontroller: true\n",
                &reference,
            ],
        );
        served.shows(
            "get rs frontend -o yaml",
            &[
                "generation: 1\n",
                "status:\navailableReplicas: 3\nfullyLabeledReplicas: 3\n\
               observedGeneration: 1\nreadyReplicas: 3\nreplicas: 3\nterminatingReplicas: 0",
            ],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w2_the_first_pod_is_created_alone() {
    // Virtual time stands still during a call, so the second of a pod's creation identifies the
    // call.
    let virtual_time = ["--engine", "virtual", "--api-latency", "3s"];
    with_one(&virtual_time, |served| {
        served.apply(FRONTEND);
        pass(served, 60);
        let mut created =
            served.words("get pods -o jsonpath='{.items[*].metadata.creationTimestamp}'");
        created.sort();
        let [first, second, third] = &created[..] else {
            panic!("three pods: {created:?}");
        };
        assert!(first < second, "{created:?}");
        assert_eq!(second, third);
    });
}

/// A text in the manifest, its replacement, and the error message.
const WRONG: &str = r#"
selector: {matchLabels: {tier: frontend}} =>  => spec.selector: Required value
metadata: {labels: {tier: frontend}} => metadata: {labels: {tier: backend}} => spec.template.metadata.labels: Invalid value:  | `selector` does not match template `labels`
metadata: {labels: {tier: frontend}} => metadata: {} => spec.template.metadata.labels: Invalid value:  | `selector` does not match template `labels`
spec: {containers: => spec: {restartPolicy: OnFailure, containers: => spec.template.spec.restartPolicy: Unsupported value: "OnFailure": supported values: "Always"
spec: {containers: => spec: {restartPolicy: Never, containers: => spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
name: frontend => name: Front_End => metadata.name: Invalid value | RFC 1123 subdomain
selector: {matchLabels: {tier: frontend}} => selector: {} => empty selector is invalid
replicas: 3 => replicas: -1 => must be greater than or equal to 0
[{name: php-redis, image: 'gcr.io/google_samples/gb-frontend:v3'}] => [] => spec.template.spec.containers: Required value
"#;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w3_required_fields_and_rejections() {
    with_one(&[], |served| {
        for [from, to, wanted] in cases(WRONG) {
            assert!(FRONTEND.contains(from), "{from}");
            let wanted: Vec<&str> = wanted.split(" | ").collect();
            served.refuses_manifest(&FRONTEND.replace(from, to), &wanted);
        }
        let (bare, _) = FRONTEND
            .split_once("spec:")
            .expect("a manifest with a spec");
        served.refuses_manifest(bare, &["spec.selector: Required value", "spec.template."]);
        served.says("get rs,pods -o name", "");

        served.apply(&FRONTEND.replace("  replicas: 3\n", ""));
        has(served, 1);
        served.refuses_manifest(
            &FRONTEND.replace("tier: frontend", "tier: other"),
            &["spec.selector: Invalid value", "field is immutable"],
        );
        frontend(served, 0);
        let dotted = FRONTEND.replace("name: frontend", "name: front.end");
        served.apply(&dotted.replace("replicas: 3", "replicas: 1"));
        served.comes_to(PHASES, |text| {
            text.starts_with("front.end-") && text.contains("Running")
        });
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w4_later_pods_are_adopted_and_deleted() {
    let latencies = ["--pod-startup-latency=1s", "--pod-termination-latency=1s"];
    with_one(&latencies, |served| {
        frontend(served, 3);
        let before = names(served);
        let rows = served.beside("get pods -w --no-headers", "rows");
        rows.shows(&before[2]);
        let owned = "get pods -w -o jsonpath='{.metadata.name} {.metadata.ownerReferences[*].name}{\"\\n\"}'";
        let owned = served.beside(owned, "owned");
        owned.shows(&before[2]);
        served.file("pods.yaml", &bare_pods());
        served.says("apply -f pods.yaml", "pod/pod1 created\npod/pod2 created");
        // The ReplicaSet owns them before it deletes them.
        owned.shows("pod1 frontend");
        owned.shows("pod2 frontend");
        rows.shows("pod1 0/1 Terminating 0");
        rows.shows("pod2 0/1 Terminating 0");
        has(served, 3);
        assert_eq!(names(served), before);
        told(served, 1, &format!("{DELETED}pod1"));
        told(served, 1, &format!("{DELETED}pod2"));
        told(served, 3, CREATED);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w5_earlier_pods_are_adopted() {
    with_one(&[], |served| {
        served.apply(&bare_pods());
        served.run("wait --for=condition=Ready pod/pod1 pod/pod2");
        frontend(served, 3);
        let all = names(served);
        assert!(all[0].starts_with("frontend-"), "{all:?}");
        assert_eq!(all[1..], ["pod1", "pod2"]);
        told(served, 1, CREATED);
        assert_eq!(served.run(EVENTS).lines().count(), 1);
        let adopted = "get pod pod1 -o jsonpath='{.spec.containers[0].image} \
                       {.metadata.generateName}{.metadata.ownerReferences[0].name}'";
        served.says(adopted, "gcr.io/google-samples/hello-app:1.0 frontend");
        served.run("delete rs frontend");
        served.becomes("get pods -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w6_which_pods_are_adopted() {
    with_one(&[], |served| {
        served.runs(&["create configmap other", "create namespace elsewhere"]);
        let uid = served.run("get cm other -o jsonpath={.metadata.uid}");
        let controller = owner("v1", "ConfigMap", "other", &uid);
        let plain = controller.replace("controller: true", "controller: false");
        let with = |members: &str| format!("labels: {{tier: frontend}}, {members}");
        let pods = [
            pod("a-free", "labels: {tier: frontend}", ""),
            pod("b-owned", &with(&format!("ownerReferences: [{plain}]")), ""),
            pod(
                "c-controlled",
                &with(&format!("ownerReferences: [{controller}]")),
                "",
            ),
            pod("d-ended", "labels: {tier: frontend}", ""),
            pod("d-leaving", &with("finalizers: [a.example/b]"), ""),
            pod("e-other", "labels: {tier: other}", ""),
            pod("f-far", &with("namespace: elsewhere"), ""),
        ];
        served.apply(&pods.join("---"));
        served.runs(&[
            "wait --for=condition=Ready pods --all",
            "patch pod d-ended --subresource=status -p '{\"status\":{\"phase\":\"Succeeded\"}}'",
            "delete pod d-leaving --wait=false",
        ]);
        served.apply(FRONTEND);
        served.tabulates(ROW, "frontend 3 3 3");
        let owners = served.run(&format!("get pods -A {OWNERS}"));
        let held: Vec<&str> = owners
            .lines()
            .filter(|it| !it.starts_with("frontend-"))
            .collect();
        assert_eq!(
            held,
            [
                "a-free frontend",
                "b-owned frontend other",
                "c-controlled other",
                "d-ended",
                "d-leaving",
                "e-other",
                "f-far",
            ]
        );
        served.run("label pod e-other tier=frontend --overwrite");
        told(served, 1, DELETED);
        served.tabulates(ROW, "frontend 3 3 3");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w7_equal_selectors_ignore_each_others_pods() {
    with_one(&[], |served| {
        let other = FRONTEND
            .replace("name: frontend", "name: frontend-b")
            .replace(
                "labels: {tier: frontend}}\n    spec",
                "labels: {tier: frontend, ver: b}}\n    spec",
            )
            .replace("frontend:v3", "frontend:v4");
        served.apply(&format!("{FRONTEND}---{other}"));
        let both = |a: usize, b: usize| {
            served.tabulates(
                "get rs --no-headers",
                &format!("frontend {a} {a} {a}\nfrontend-b {b} {b} {b}"),
            );
        };
        both(3, 3);
        let owned = |by: &str| {
            let owners = served.run(&format!("get pods {OWNERS}"));
            let ends = |it: &&str| it.ends_with(&format!(" {by}"));
            let pods: Vec<String> = owners.lines().filter(ends).map(str::to_owned).collect();
            pods
        };
        let before = owned("frontend");
        assert_eq!((before.len(), owned("frontend-b").len()), (3, 3));
        let deleted = "get events --field-selector reason=SuccessfulDelete -o name";
        served.says(deleted, "");
        served.run("scale rs/frontend-b --replicas=1");
        both(3, 1);
        served.comes_to("get pods -o name", |text| text.lines().count() == 4);
        assert_eq!(owned("frontend"), before);

        served.apply(&pod("orphan", "labels: {tier: frontend}", ""));
        // One of them adopts the pod, and then has one too many.
        served.comes_to(deleted, |text| text.lines().count() == 3);
        both(3, 1);
        served.comes_to("get pods -o name", |text| text.lines().count() == 4);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w8_delete_with_its_pods() {
    const PATH: &str = "/apis/apps/v1/namespaces/default/replicasets/frontend";
    with_one(&["--pod-termination-latency", "1s"], |served| {
        frontend(served, 3);
        served.says("delete rs frontend", "replicaset.apps \"frontend\" deleted");
        served.says("get rs -o name", "");
        served.becomes("get pods -o name", "");
        told(served, 3, CREATED);

        frontend(served, 3);
        let (status, answer) = served.rest("DELETE", PATH, "");
        assert_eq!(status, 200, "{answer}");
        assert!(
            squeezed(&answer).contains("\"status\":\"Success\""),
            "{answer}"
        );
        served.says("get rs -o name", "");
        served.becomes("get pods -o name", "");
    });
}

/// Removes the spaces from a JSON text.
fn squeezed(text: &str) -> String {
    text.chars().filter(|it| !it.is_whitespace()).collect()
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w9_propagation_policies_by_rest() {
    const PATH: &str = "/apis/apps/v1/namespaces/default/replicasets/frontend";
    let body = |policy: &str| {
        format!(
            "{{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"{policy}\"}}"
        )
    };
    with_each(&["--pod-termination-latency", "3s"], |served| {
        frontend(served, 3);
        let (status, answer) = served.rest("DELETE", PATH, &body("Foreground"));
        assert_eq!(status, 200, "{answer}");
        let answer = squeezed(&answer);
        assert!(
            answer.contains("\"finalizers\":[\"foregroundDeletion\"]"),
            "{answer}"
        );
        assert!(answer.contains("\"deletionTimestamp\":\""), "{answer}");
        served.tabulates(ROW, "frontend 3 0 0");
        let terminating = served.run("get pods --no-headers");
        assert_eq!(count(&terminating, " Terminating "), 3, "{terminating}");
        served.becomes("get rs,pods -o name", "");
        told(served, 3, CREATED);

        frontend(served, 1);
        let (status, answer) = served.rest("DELETE", PATH, &body("Background"));
        assert!(
            status == 200 && squeezed(&answer).contains("\"status\":\"Success\""),
            "{answer}"
        );
        served.says("get rs -o name", "");
        served.becomes("get pods -o name", "");

        frontend(served, 1);
        let (status, answer) = served.rest("DELETE", PATH, &body("Orphan"));
        assert_eq!(status, 200, "{answer}");
        served.becomes("get rs -o name", "");
        served.says(ALL_OWNERS, "");
        served.shows("get pods", &["1/1 Running"]);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w10_a_successor_adopts_the_orphaned_pods() {
    const IMAGES: &str = "get pods -o jsonpath='{.items[*].spec.containers[0].image}'";
    with_one(&[], |served| {
        frontend(served, 3);
        let before = names(served);
        served.says(
            "delete rs frontend --cascade=orphan",
            "replicaset.apps \"frontend\" deleted",
        );
        assert_eq!(names(served), before);
        served.says(ALL_OWNERS, "");
        served.run(&format!("delete pod {}", before[0]));
        assert_eq!(names(served), before[1..]);

        served.apply(&FRONTEND.replace(":v3", ":v5"));
        has(served, 3);
        let images = |old: usize, new: usize| {
            let images = served.run(IMAGES);
            assert_eq!((count(&images, ":v3"), count(&images, ":v5")), (old, new));
        };
        images(2, 1);
        served.run(&format!("delete pod {}", before[1]));
        has(served, 3);
        images(1, 2);
        served.apply(&FRONTEND.replace(":v3", ":v6"));
        served.run("wait rs/frontend --for=jsonpath={.status.observedGeneration}=2");
        images(1, 2);
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w11_isolate_a_pod_by_relabelling() {
    with_one(&[], |served| {
        frontend(served, 3);
        let one = name_of(served, 0);
        served.run(&format!("label pod {one} tier=debug --overwrite"));
        served.comes_to(PHASES, |text| count(text, "Running") == 4);
        let owners =
            format!("get pod {one} -o jsonpath='{{.metadata.ownerReferences}}{{.status.phase}}'");
        served.becomes(&owners, "Running");
        served.comes_to("get pods -l tier=frontend -o name", |text| {
            text.lines().count() == 3
        });
        told(served, 4, CREATED);
        served.tabulates(ROW, "frontend 3 3 3");
        served.run(&format!("label pod {one} tier=frontend --overwrite"));
        told(served, 1, DELETED);
        has(served, 3);

        served.run("scale rs frontend --replicas=2");
        has(served, 2);
        served.run(&format!(
            "label pod {} tier=debug --overwrite",
            name_of(served, 0)
        ));
        served.run("scale rs frontend --replicas=1");
        served.tabulates(ROW, "frontend 1 1 1");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w12_scale() {
    const GENERATIONS: &str =
        "get rs frontend -o jsonpath='{.metadata.generation} {.status.observedGeneration}'";
    with_each(&[], |served| {
        frontend(served, 3);
        served.says(
            "scale rs/frontend --replicas=5",
            "replicaset.apps/frontend scaled",
        );
        has(served, 5);
        told(served, 5, CREATED);
        served.run("scale rs/frontend --replicas=2");
        has(served, 2);
        told(served, 3, DELETED);
        served.becomes(GENERATIONS, "3 3");
        served.run("patch rs frontend -p '{\"spec\":{\"replicas\":4}}'");
        has(served, 4);
        served.file("editor.sh", "sed -i 's/replicas: 4/replicas: 6/' \"$1\"\n");
        served.says("edit rs frontend", "replicaset.apps/frontend edited");
        has(served, 6);
        served.file("frontend.yaml", FRONTEND);
        served.says(
            "apply -f frontend.yaml",
            "replicaset.apps/frontend configured",
        );
        has(served, 3);
        let wrong = "scale --current-replicas=9 --replicas=1 rs/frontend";
        served.refuses(wrong, &["Expected replicas to be 9, was 3"]);
        served.becomes(GENERATIONS, "6 6");
        served.run("scale rs/frontend --replicas=0");
        has(served, 0);
        served.becomes(GENERATIONS, "7 7");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w13_lost_pods_are_replaced_and_containers_restart_in_place() {
    with_each(&["--pod-termination-latency", "3s"], |served| {
        frontend(served, 3);
        let one = name_of(served, 0);
        served.run(&format!("delete pod {one} --wait=false"));
        served.comes_to("get pods --no-headers", |text| {
            count(text, " Running ") == 3 && count(text, " Terminating ") == 1
        });
        has(served, 3);

        let one = name_of(served, 0);
        let events = served.run(EVENTS);
        end_container(served, &one, 1);
        served.comes_to_show(&format!("get pod {one}"), &["1/1 Running 1 ("]);
        served.shows(
            &format!("describe pod {one}"),
            &["Last State: Terminated\nReason: Error"],
        );
        has(served, 3);
        assert_eq!(served.run(EVENTS), events);

        let status = |pod: &str, status: &str| {
            let patch = format!("-p '{{\"status\":{{{status}}}}}'");
            served.run(&format!("patch pod {pod} --subresource=status {patch}"));
        };
        status(&one, "\"phase\":\"Failed\",\"reason\":\"Evicted\"");
        served.comes_to(PHASES, |text| count(text, "Running") == 3);
        served.shows(&format!("get pod {one}"), &[" Evicted "]);
        let two = served.run(PHASES);
        let two = two
            .lines()
            .find(|it| it.ends_with("Running"))
            .expect("three run");
        let two = two.split(' ').next().expect("a name");
        status(two, "\"phase\":\"Succeeded\"");
        served.comes_to(PHASES, |text| {
            count(text, "Running") == 3 && text.lines().count() == 5
        });
        served.tabulates(ROW, "frontend 3 3 3");

        served.run("delete pods --all --wait=false --force --grace-period=0");
        has(served, 3);
        let drain = served.beside("drain node-2 --ignore-daemonsets", "drained");
        let evicted = "get pods --field-selector spec.nodeName=node-2 -o jsonpath=\
                       '{.items[*].status.conditions[?(@.type==\"DisruptionTarget\")].reason}'";
        served.becomes(evicted, "EvictionByEvictionAPI");
        drain.ends();
        has(served, 3);
        served.says("get pods --field-selector spec.nodeName=node-2 -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w13_a_lost_node_loses_its_pods() {
    // 50 s until the node is unreachable, 300 s until its pods are evicted, 40 to 60 s until they
    // are removed.
    let times = ["--time-scale", "60"];
    const ONE: &str = "get pods --field-selector spec.nodeName=node-1";
    const REASON: &str =
        "-o jsonpath='{.items[*].status.conditions[?(@.type==\"DisruptionTarget\")].reason}'";
    with_one(&times, |served| {
        frontend(served, 3);
        let one = served.run(&format!("{ONE} -o name"));
        served.run("annotate node node-1 podstorm/kubelet=silent");
        served.comes_to_show("get node node-1", &["node-1 NotReady "]);
        let taints = "get node node-1 -o jsonpath='{.spec.taints[*].key} {.spec.taints[*].effect}'";
        let key = "node.kubernetes.io/unreachable";
        // Two different loops set the two taints.
        served.comes_to(taints, |text| {
            let has = |effect| text.contains(effect);
            text.starts_with(&format!("{key} {key}")) && has("NoSchedule") && has("NoExecute")
        });
        served.tabulates(ROW, "frontend 3 3 2");
        served.says(&format!("{ONE} -o name"), &one);
        served.becomes(&format!("{ONE} {REASON}"), "DeletionByTaintManager");
        served.tabulates(ROW, "frontend 3 3 3");
        // Nothing ends the pod.
        served.shows(ONE, &[" Terminating "]);
        let watched = served.beside(&format!("{ONE} -w -o jsonpath='{{.status}}'"), "statuses");
        served.run("delete node node-1");
        let last = watched.shows("DeletionByPodGC");
        assert!(last.contains("PodGC: node no longer exists"), "{last}");
        served.becomes(&format!("{ONE} -o name"), "");
        has(served, 3);
    });
}
