//! Drained nodes and lost zones, in runs and in `loadgen explain --drain`.

use podstorm_tests::command::{assert_refused, ended, holds, run, told};
use serde_json::{Value, json};

use super::EXAMPLES;

const SETS: &str = "--statefulsets 6 --pods-per-statefulset 3";

/// Returns the result of a run, which must succeed.
#[track_caller]
fn result(flags: &str) -> Value {
    let line = format!("run -q --json - {flags}");
    super::json(&ended(&run(&line), 0))
}

fn number(phase: &Value, member: &str) -> u64 {
    phase[member].as_u64().unwrap_or(u64::MAX)
}

#[test]
fn a_drain_is_explained_pod_by_pod() {
    let example = format!("-f {EXAMPLES}/drain.yaml");
    let explain = |more: &str| run(&format!("explain {example} {more}"));
    let text = told(&explain("--drain n1"));
    let words = "3 can go immediately | 1 must wait for a budget | 1 can't go until an operator | 1 stays | \
        the budget license never lets one go | --ignore-daemonsets | --force | --delete-emptydir-data";
    words.split(" | ").for_each(|words| holds(&text, words));
    let document = super::json(&told(&explain("--drain n1 -o json")));
    let fates = document["pods"].as_array().unwrap().iter();
    let fates: Vec<String> = fates
        .map(|pod| format!("{} {}", pod["fate"], pod["name"]).replace('"', ""))
        .collect();
    let wanted = [
        "goes shell",
        "goes store-0",
        "goes web-7xk2p",
        "waits store-1",
        "stuck license-p8z4v",
        "stays log-t5w6j",
    ];
    assert_eq!(fates, wanted);
    let store = &document["budgets"][1];
    assert_eq!(store["name"], "store");
    assert_eq!(
        ["expected", "desired", "allowed", "goes", "waits"].map(|it| number(store, it)),
        [3, 2, 1, 1, 1]
    );
    for (more, words) in [
        ("--drain n9", "the input has no Node \"n9\" | n1, n2"),
        ("--drain n1 --image x", "--image asks about a workload"),
        (
            "--drain n1 --replicas 3",
            "--replicas asks about a workload",
        ),
        (
            "--drain n1 --prefer app=x",
            "--prefer asks about a workload",
        ),
        ("--drain n1 --statefulset store", "cannot be used with"),
    ] {
        assert_refused(&explain(more), words);
    }
    let without = run(&format!("explain -f {EXAMPLES}/job.yaml --drain n1"));
    assert_refused(&without, "the input has no Node");
}

#[test]
fn a_third_of_the_nodes_is_drained_pod_by_pod() {
    let sizes = "--replicasets 6 --pods-per-replicaset 3 --batch-jobs 6 --completions 3";
    let drain = |more: &str| {
        result(&format!(
            "--scenario node-drain {SETS} {sizes} --nodes 12 {more}"
        ))
    };
    let drained = drain("");
    let phase = &drained["phases"][2];
    // Four nodes of six pods each. All four are cordoned first, so no pod moves twice.
    assert_eq!(number(phase, "pods_deleted"), 24);
    assert_eq!(number(phase, "pods_created"), 24);
    let kinds = ["Deployment", "Job", "ReplicaSet", "StatefulSet"];
    let of = |kind: &str, member: &str| number(&phase["workloads"][kind], member);
    let evicted = kinds.map(|kind| of(kind, "pods_evicted"));
    assert_eq!(evicted.iter().sum::<u64>(), 24, "{evicted:?}");
    assert!(evicted.iter().all(|it| *it > 0), "{evicted:?}");
    for kind in kinds {
        assert!(of(kind, "pods_down_of_one_peak") >= 1, "{kind}");
    }
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        assert_eq!(of(kind, "pods_down_of_one_peak"), 1, "{kind}");
    }
    let ended = &drained["finished"];
    assert_eq!(number(ended, "open"), 6);
    assert_eq!(number(ended, "pods_failed"), evicted[1]);
    holds(drained["answer"].as_str().unwrap(), "of Jobs");
    // Upstream's controller keeps evicted pods of Jobs that still wait to start.
    let seconds = |result: &Value| result["phases"][2]["seconds"].as_f64().unwrap();
    let hardened = drain("--behaviour hardened");
    assert!(seconds(&hardened) < seconds(&drained));
}

#[test]
fn a_cluster_of_files_is_drained_while_its_jobs_run() {
    let object = |kind: &str, spec: Value| {
        let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": kind.to_lowercase(), "namespace": "n"}, "spec": spec})
    };
    let template = |app: &str, restart: &str| {
        json!({"metadata": {"labels": {"app": app}}, "spec": {"restartPolicy": restart,
            "containers": [{"name": "c", "image": "i"}]}})
    };
    let items = [
        object(
            "Job",
            json!({"parallelism": 4, "completions": 4, "template": template("job", "Never")}),
        ),
        object(
            "ReplicaSet",
            json!({"replicas": 4, "selector": {"matchLabels": {"app": "web"}},
                "template": template("web", "Always")}),
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    std::fs::write(&path, list.to_string()).unwrap();
    let drained = result(&format!(
        "--scenario node-drain -f {} --nodes 6",
        path.display()
    ));
    let workloads = &drained["phases"][2]["workloads"];
    assert!(number(&workloads["Job"], "pods_evicted") > 0, "{workloads}");
    assert!(
        number(&workloads["ReplicaSet"], "pods_evicted") > 0,
        "{workloads}"
    );
    assert_eq!(number(&drained["finished"], "open"), 1);
}

#[test]
fn stateful_sets_lack_pods_until_lost_nodes_are_deleted() {
    let lost = result(&format!("--scenario zone-loss {SETS} --nodes 9"));
    let [away, gone] = [1, 2].map(|at| &lost["phases"][at]);
    let down = number(away, "pods_down_peak");
    assert!((1..=18).contains(&down), "{down}");
    assert_eq!(number(away, "pods_created"), 0);
    assert_eq!(number(gone, "pods_created"), down);
    assert_eq!(number(gone, "pods_deleted"), down);
}

#[test]
fn the_zone_of_a_step_must_be_a_number() {
    let scenario = json!({"name": "x", "question": "?", "phases": [{"name": "a", "steps": [
        "createNamespaces", "createNodes", {"createReplicaSets": {"replicas": "100%"}},
        {"stopNodes": {"nodes": "100%", "zone": "east"}}]}]});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.yaml");
    std::fs::write(&path, scenario.to_string()).unwrap();
    let refused = run(&format!("run --scenario {}", path.display()));
    assert_refused(&refused, "x.yaml:1: | \"east\", expected u64");
}
