//! Walkthroughs across kinds: W1, W181, W184 and W185, and logs.

use std::collections::BTreeMap;

use podstorm::object::Time;
use podstorm_tests::command::cases;

use super::super::manifests::{DEPLOYMENT, FRONTEND, owner, pod};
use super::super::served::{Served, with_each, with_one};
use super::{PHASES, count, names, owners_of, pass};

/// Queries about a frontend of three pods, one of which is `ONE`.
const LOOKS: &str = r#"
get events => LAST SEEN TYPE REASON OBJECT MESSAGE\n
get all => NAME DESIRED CURRENT READY AGE\nreplicaset.apps/frontend 3 3 3
get pods -o wide => IP NODE NOMINATED NODE READINESS GATES\n
get pod ONE -o json => "kind": "Pod",
get pod ONE -o yaml => kind: Pod\n
get pod ONE -o name => pod/frontend-
get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName => NAME NODE\n
get pods --show-labels => 1/1 Running 0
get pods -l 'tier in (a, frontend)' => ONE
get pods --field-selector status.phase=Running => ONE
get pods --field-selector spec.nodeName=ITS_NODE => ONE
get pods --sort-by=.metadata.creationTimestamp => ONE
logs ONE => hello
describe pod ONE => Controlled By: ReplicaSet/frontend\n
"#;

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w1_the_real_kubectl_works_with_the_server() {
    with_each(&["--log-line", "hello"], |served| {
        served.shows("version", &["Server Version: v1.36."]);
        let resources = served.run("api-resources --no-headers");
        for short in "po rc ev svc no ns pvc deploy rs sts ds cj hpa".split(' ') {
            let has = |line: &str| {
                line.split(' ')
                    .nth(1)
                    .is_some_and(|it| it.split(',').any(|it| it == short))
            };
            assert!(resources.lines().any(has), "{short}: {resources}");
        }
        for kind in ["Job", "ControllerRevision", "Lease"] {
            assert!(
                resources.lines().any(|line| line.ends_with(kind)),
                "{kind}: {resources}"
            );
        }
        let apps = served.run("get --raw /apis/apps/v1") + &served.run("get --raw /api/v1");
        for plural in [
            "deployments",
            "replicasets",
            "replicationcontrollers",
            "statefulsets",
        ] {
            assert!(
                apps.contains(&format!("\"name\":\"{plural}/scale\"")),
                "{plural}: {apps}"
            );
        }

        served.shows(
            "explain deployment.spec.strategy",
            &["DeploymentStrategy", "rollingUpdate"],
        );
        served.file("deployment.yaml", DEPLOYMENT);
        served.says(
            "apply --dry-run=server -f deployment.yaml",
            "deployment.apps/nginx-deployment created (server dry run)",
        );
        served.refuses_manifest(
            &DEPLOYMENT.replace("spec:\n", "spec:\n  foo: 1\n"),
            &["strict decoding error: unknown field \"spec.foo\""],
        );
        served.says("get deployments -o name", "");

        let nodes = served.run("get nodes");
        assert!(
            nodes.starts_with("NAME STATUS ROLES AGE VERSION\n"),
            "{nodes}"
        );
        assert_eq!(count(&nodes, " Ready <none> "), 3, "{nodes}");
        let watched = served.beside("get pods -w", "rows");
        served.apply(FRONTEND);
        served.comes_to(PHASES, |text| count(text, "Running") == 3);
        let all = names(served);
        watched.shows(&format!("{} 1/1 Running 0 ", all[2]));
        let one = &all[0];
        let node = served.run(&format!("get pod {one} -o jsonpath={{.spec.nodeName}}"));
        for [line, wanted] in cases(LOOKS) {
            let line = line.replace("ONE", one).replace("ITS_NODE", &node);
            served.shows(&line, &[&wanted.replace("ONE", one).replace("\\n", "\n")]);
        }
        served.shows("get pods --show-labels --no-headers", &[" tier=frontend"]);
        served.says("get pods -l 'tier in (a, b)' -o name", "");
        served.says("get pods --field-selector status.phase=Failed -o name", "");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w181_garbage_collection() {
    // A Deployment that owns a ReplicaSet, as its controller, which is off, would create it.
    let chain = |served: &Served| {
        served.apply(DEPLOYMENT);
        let uid = served.run("get deployment nginx-deployment -o jsonpath={.metadata.uid}");
        let reference = owner("apps/v1", "Deployment", "nginx-deployment", &uid);
        served.apply(&FRONTEND.replace(
            "metadata: {name: frontend,",
            &format!("metadata: {{name: frontend, ownerReferences: [{reference}],"),
        ));
        served.tabulates("get rs --no-headers", "frontend 3 3 3");
    };
    let delete = |served: &Served, how: &str| {
        served.says(
            &format!("delete deployment nginx-deployment {how}"),
            "deployment.apps \"nginx-deployment\" deleted",
        );
    };
    with_one(&["--controllers=*,-deployment"], |served| {
        chain(served);
        delete(served, "");
        served.becomes("get rs,pods -o name", "");

        chain(served);
        delete(served, "--cascade=orphan");
        served.says(&owners_of("rs frontend"), "");
        served.says("get rs -o name", "replicaset.apps/frontend");
        served.comes_to(PHASES, |text| count(text, "Running") == 3);
        served.run("delete rs frontend");
        served.becomes("get rs,pods -o name", "");

        // The owner stays while something blocks its deletion: here a pod with a finalizer.
        chain(served);
        let held = names(served).swap_remove(0);
        let finalizers = |list: &str| {
            let patch = format!("'{{\"metadata\":{{\"finalizers\":{list}}}}}'");
            served.run(&format!("patch pod {held} --type=merge -p {patch}"));
        };
        finalizers("[\"a.example/b\"]");
        delete(served, "--cascade=foreground --wait=false");
        served.becomes("get pods -o name", &format!("pod/{held}"));
        let of = "-o jsonpath='{.items[*].metadata.finalizers}'";
        served.becomes(&format!("get rs {of}"), "[\"foregroundDeletion\"]");
        served.says(&format!("get deployments {of}"), "[\"foregroundDeletion\"]");
        finalizers("null");
        served.becomes("get deployments,rs,pods -o name", "");

        // One of two owners is enough, but an owner that was recreated under its name is not.
        served.runs(&[
            "create configmap one",
            "create configmap two",
            "create configmap three",
        ]);
        let of = |name: &str| {
            let uid = served.run(&format!("get cm {name} -o jsonpath={{.metadata.uid}}"));
            format!("{{apiVersion: v1, kind: ConfigMap, name: {name}, uid: {uid}}}")
        };
        let dependent = |name: &str, owners: &[&str]| {
            let owners: Vec<String> = owners.iter().map(|name| of(name)).collect();
            let owners = format!("ownerReferences: [{}]", owners.join(", "));
            pod(name, &owners, "")
        };
        served.apply(&dependent("both", &["one", "two"]));
        let late = dependent("late", &["three"]);
        served.runs(&["delete cm one three", "create configmap three"]);
        let left = "get pod both -o jsonpath='{.metadata.ownerReferences[*].name}'";
        served.becomes(left, "two");
        served.apply(&late);
        served.becomes("get pods -o name", "pod/both");
        served.run("delete cm two");
        served.becomes("get pods -o name", "");
    });
}

/// Creates ReplicaSets of `replicas` pods each: `many-000` and so on.
#[track_caller]
fn create_many(served: &Served, sets: usize, replicas: usize) {
    let one = |number: usize| {
        FRONTEND
            .replace("frontend", &format!("many-{number:03}"))
            .replace("replicas: 3", &format!("replicas: {replicas}"))
    };
    let all: Vec<String> = (0..sets).map(one).collect();
    served.file("many.yaml", &all.join("---"));
    served.run("create -f many.yaml");
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w184_many_at_once() {
    // 200 ReplicaSets of 50 pods, while a tenth of their controller's calls fail.
    let limits = [
        "--nodes=100",
        "--pods-per-node=110",
        "--api-errors=10%",
        // All retries share a limit of ten per second.
        "--time-scale=50",
    ];
    with_one(&limits, |served| {
        create_many(served, 200, 0);
        let counts = "get rs -o jsonpath='{.items[*].status.readyReplicas}'";
        for replicas in [50, 5, 50, 5] {
            // Several sets per command, because kubectl throttles itself after 300 requests.
            let scales: Vec<_> = (0..8)
                .map(|eighth| {
                    let sets = (0..25).map(|one| format!("rs/many-{:03}", 25 * eighth + one));
                    let sets: Vec<String> = sets.collect();
                    let line = format!("scale {} --replicas={replicas}", sets.join(" "));
                    served.beside(&line, &format!("scaled-{eighth}"))
                })
                .collect();
            for scale in scales {
                scale.ends();
            }
            let wanted = format!(" {replicas}").repeat(200);
            served.becomes(counts, wanted.trim());
            let pods = served.run("get pods -o name");
            assert_eq!(pods.lines().count(), 200 * replicas);
        }
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w184_a_batch_at_a_time() {
    // Pods created in the same second belong to one batch, since a call takes three.
    const CALL: i64 = 3;
    const SETS: usize = 5;
    let slow = ["--engine=virtual", "--api-latency=3s", "--api-errors=10%"];
    let per_set = "get pods -o jsonpath='{range .items[*]}{.metadata.ownerReferences[0].name} \
                   {.metadata.creationTimestamp}{\"\\n\"}{end}'";
    with_one(&slow, |served| {
        create_many(served, SETS, 50);
        pass(served, 3600);
        let text = served.run(per_set);
        let mut batches: BTreeMap<&str, BTreeMap<i64, usize>> = BTreeMap::new();
        for line in text.lines() {
            let (set, created) = line.split_once(' ').expect("two words");
            let created: Time = created.parse().expect("a time");
            let created = created.unix_seconds().expect("a set time");
            *batches.entry(set).or_default().entry(created).or_default() += 1;
        }
        assert_eq!(batches.len(), SETS);
        let mut rounds = 0;
        for (set, batches) in batches {
            assert_eq!(batches.values().sum::<usize>(), 50, "{set}: {batches:?}");
            let mut before = None;
            let (mut most, mut last) = (1, 0);
            for (created, pods) in &batches {
                if let Some(before) = before.replace(*created) {
                    assert!(*created - before >= CALL, "{set}: {batches:?}");
                }
                // A batch with a failure is the last of its round.
                rounds += usize::from(last < most);
                most = if last < most { 1 } else { 2 * most };
                last = *pods;
                assert!(*pods <= most, "{set}: {batches:?}");
            }
        }
        assert!(rounds > SETS, "a tenth of the calls fails");
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn w185_kubectl_waits() {
    let flags = ["--pod-termination-latency", "1s", "--pod-run-time", "1s"];
    with_one(&flags, |served| {
        served.apply(&[DEPLOYMENT, &pod("p", "labels: {a: b}", "")].join("---"));
        served.run("create job pi --image=perl");
        let waits = [
            (
                "wait --for=condition=Available deployment/nginx-deployment",
                "deployment",
            ),
            ("wait --for=condition=Complete job/pi", "job"),
            ("wait --for=delete pod/p", "pod"),
            ("wait --for=jsonpath={.status.phase}=Running pod/p", "phase"),
            ("wait --for=condition=Ready pods -l a=b", "ready"),
            ("wait --for=create configmap/later", "created"),
        ]
        .map(|(line, file)| served.beside(&format!("{line} --timeout=30s"), file));
        served.runs(&[
            "wait --for=condition=Ready pod/p",
            "create configmap later",
            "delete pod p",
        ]);
        served.refuses("get pod p", &["NotFound"]);
        for wait in waits {
            wait.ends();
        }
        served.refuses(
            "wait --for=condition=Ready deployment/nginx-deployment --timeout=100ms",
            &["timed out waiting for the condition on deployments/nginx-deployment"],
        );
    });
}

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_log_has_the_requested_lines() {
    let still = ["--engine", "virtual", "--unpullable-image", "bad/*"];
    with_each(&still, |served| {
        let log =
            "annotations: {podstorm/script: run=5s exit=1, podstorm/log: \"one\\ntwo\\nthree\"}";
        served.apply(&pod("p", log, ""));
        served.says("logs p", "one\ntwo\nthree");
        served.says("logs p --tail=1", "three");
        served.says("logs p --limit-bytes=5", "one\nt");
        served.says("logs p --since-time=2100-01-01T00:00:00Z", "");
        let dated = served.run("logs p --tail=1 --timestamps");
        assert!(
            dated.starts_with("20") && dated.ends_with("Z three"),
            "{dated}"
        );
        let none = "previous terminated container \"hello\" in pod \"p\" not found";
        served.refuses("logs p --previous", &[none]);
        served.refuses("logs p --limit-bytes=-1", &["limit-bytes"]);
        let followed = served.beside("logs p --follow", "log");
        followed.shows("three");
        pass(served, 6);
        followed.ends();
        served.says("logs p --previous --tail=1", "three");
        let bad = pod("bad", "", "").replace("gcr.io/google-samples", "bad");
        served.apply(&bad);
        pass(served, 1);
        let waits = "container \"hello\" in pod \"bad\" is waiting to start:";
        served.refuses("logs bad", &[waits, "pull"]);
    });
}
