//! StatefulSets in runs, their scenarios at small sizes, and `loadgen explain --statefulset`.

use podstorm_tests::command::{assert_refused, ended, holds, run, run_with_stdin, told};
use serde_json::{Value, json};

use super::EXAMPLES;

const SETS: &str = "--statefulsets 4 --pods-per-statefulset 5";

/// Returns the result of a run, which must succeed.
#[track_caller]
fn result(flags: &str) -> Value {
    let line = format!("run -q --json - --engine virtual {flags}");
    super::json(&ended(&run(&line), 0))
}

/// Returns a phase's duration in seconds, pods created, pods deleted, and maximum number of
/// unavailable pods of one set.
fn phase(result: &Value, at: usize) -> (f64, [u64; 3]) {
    let phase = &result["phases"][at];
    let number = |name: &str| phase[name].as_u64().unwrap_or(u64::MAX);
    let counts = ["pods_created", "pods_deleted", "pods_down_of_one_peak"];
    (
        phase["seconds"].as_f64().unwrap_or(f64::NAN),
        counts.map(number),
    )
}

#[test]
fn an_upgrade_replaces_pods_one_by_one_to_the_partition() {
    let upgrade = |more: &str| result(&format!("--scenario statefulset-upgrade {SETS} {more}"));
    let usual = upgrade("");
    let (took, counts) = phase(&usual, 2);
    assert_eq!(counts, [20, 20, 1]);
    // Pods that a phase adds do not count as unavailable before they exist.
    assert_eq!(phase(&usual, 1).1, [20, 0, 0]);
    // For each of five pods in sequence: 5 s to end, 10 s to start.
    assert!((75.0..80.0).contains(&took), "{took}");
    let starts = |result: &Value| phase(result, 1).0;
    assert!((50.0..55.0).contains(&starts(&usual)), "{}", starts(&usual));
    holds(usual["answer"].as_str().unwrap(), "20 pods were replaced");
    // Parallel sets start all pods together, but are upgraded like others.
    let parallel = upgrade("--parallel-pod-management");
    assert!(starts(&parallel) < 15.0, "{}", starts(&parallel));
    assert_eq!(phase(&parallel, 2).1, [20, 20, 1]);
    let kept = upgrade("--partition 3");
    let (took, counts) = phase(&kept, 2);
    assert_eq!(counts, [8, 8, 1]);
    assert!((30.0..35.0).contains(&took), "{took}");
    assert_eq!(phase(&upgrade("--partition 9"), 2).1, [0, 0, 0]);
    let gate = "--feature-gates MaxUnavailableStatefulSet=true";
    let more = format!("--parallel-pod-management --statefulset-max-unavailable 2 {gate}");
    let (took, counts) = phase(&upgrade(&more), 2);
    assert_eq!(counts, [20, 20, 2]);
    assert!((40.0..60.0).contains(&took), "{took}");
    // Without the gate, the flag has no effect.
    assert_eq!(
        phase(&upgrade("--statefulset-max-unavailable 2"), 2).1,
        [20, 20, 1]
    );
    let others = usual["alternatives"].as_array().unwrap();
    assert_eq!(others.len(), 3);
    assert_eq!(others[2]["pods_down_peak"], 12);
}

#[test]
fn a_bad_image_stops_at_one_pod_until_it_is_deleted() {
    let stuck = |more: &str| result(&format!("--scenario stuck-upgrade {SETS} {more}"));
    let ordered = stuck("");
    assert_eq!(phase(&ordered, 2).1, [4, 4, 1]);
    // The old image is restored, and nothing happens.
    assert_eq!(phase(&ordered, 3).1, [0, 0, 1]);
    assert_eq!(phase(&ordered, 4).1, [4, 4, 1]);
    holds(
        ordered["answer"].as_str().unwrap(),
        "0 pods were created in half a minute",
    );
    // Parallel sets replace their broken pods by themselves.
    let parallel = stuck("--parallel-pod-management");
    assert_eq!(phase(&parallel, 3).1, [4, 4, 1]);
    assert_eq!(phase(&parallel, 4).1, [0, 0, 0]);
}

#[test]
fn a_stuck_set_is_explained_with_the_pod_to_delete() {
    let example = format!("-f {EXAMPLES}/stuck-set.yaml");
    let explain = |more: &str| run(&format!("explain {example} --statefulset {more}"));
    let text = told(&explain("store"));
    let words = "StatefulSet shop/store is stuck | waits for store-2 | ImagePullBackOff | Reverted but stuck | \
        kubectl rollout status: Waiting for 1 pods to be ready";
    words.split(" | ").for_each(|words| holds(&text, words));
    let document = super::json(&told(&explain("shop/store -o json")));
    assert_eq!(document["delete"], json!(["store-2"]));
    assert_eq!(document["waits"][0]["rule"], "not-ready");
    // Scaling below the broken pod deletes it: all others are healthy.
    let shrunk = super::json(&told(&explain("store --replicas 2 -o json")));
    assert_eq!(
        shrunk["syncs"][0][1]["name"], "store-2",
        "{}",
        shrunk["syncs"]
    );
    assert_eq!(shrunk["waits"][0]["rule"], "terminating");
    for (more, words) in [
        (
            "stare",
            "no StatefulSet \"stare\" | the nearest: shop/store",
        ),
        ("store --prefer app=store", "deletes its pods by ordinal"),
        ("store --replicas -1", "--replicas"),
        ("store --replicas 2147483647", "too many to simulate"),
    ] {
        assert_refused(&explain(more), words);
    }
    let played = result(&example);
    assert_eq!(played["incomplete_rollouts"]["count"], 1);
    assert_eq!(played["pods"]["created"], 0);
}

#[test]
fn stateful_sets_of_files_get_claims_and_are_upgraded() {
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web, namespace: shop}\nspec:\n  replicas: 3\n  \
        serviceName: web\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    \
        spec: {containers: [{name: c, image: i}]}\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: \
        {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    let run = |flags: &str, text: &str| {
        let line = format!("run -q --json - --engine virtual -f - {flags}");
        run_with_stdin(&line, text)
    };
    let settled = super::json(&ended(&run("", set), 0));
    let made = |call: &str| settled["writes"][call].as_u64().unwrap_or(0);
    assert_eq!(
        made("create persistentvolumeclaims"),
        3,
        "{}",
        settled["writes"]
    );
    assert_eq!(made("create pods"), 3);
    let upgraded = super::json(&ended(&run("--scenario statefulset-upgrade", set), 0));
    assert_eq!(phase(&upgraded, 2).1, [3, 3, 1]);
    // The files are complete: nothing else is generated.
    assert_eq!(upgraded["alternatives"].as_array().map_or(0, Vec::len), 0);
    let classless = set.replace("ReadWriteOnce]", "ReadWriteOnce], storageClassName: fast");
    let words = "StatefulSet shop/web | its claim template \"data\" names StorageClass \"fast\"";
    assert_refused(&run("", &classless), words);
}
