//! Claims, volumes and resource requests of pods from files, in runs.

use podstorm_tests::command::{ended, holds, run_with_stdin, stderr};
use serde_json::{Value, json};

const RUN: &str = "run -q --json - --engine virtual -f -";

/// Returns the result of a run with these objects. The run must exit with `status`.
#[track_caller]
fn result(flags: &str, objects: &[Value], status: i32) -> Value {
    super::json(&ended(
        &run_with_stdin(&format!("{RUN} {flags}"), &list(objects)),
        status,
    ))
}

fn list(objects: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// Returns a ReplicaSet of one pod that uses a claim.
fn user(claim: &str) -> Value {
    let labels = json!({"app": claim});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": claim, "namespace": "shop"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}}}})
}

fn claim(name: &str, class: Option<&str>) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = class.into();
    }
    claim
}

fn class(provisioner: &str, mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks"},
        "provisioner": provisioner, "volumeBindingMode": mode})
}

fn disk(zone: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"storageClassName": "disks", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/disk"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}}}})
}

/// Returns the duration of a run in simulated seconds.
fn took(result: &Value) -> f64 {
    let phases = result["phases"].as_array().expect("a list of phases");
    let seconds = phases.iter().filter_map(|phase| phase["seconds"].as_f64());
    seconds.sum()
}

#[test]
fn pods_wait_for_claims_and_run_near_their_volumes() {
    let plain = result("", &[user("data")], 0);
    assert_eq!(plain["pods"]["created"], 1);
    // Every provisioner is simulated with its latency, and a claim without a class gets the default
    // one.
    for objects in [
        vec![
            class("ebs.example", "Immediate"),
            claim("data", Some("disks")),
            user("data"),
        ],
        vec![
            class("ebs.example", "WaitForFirstConsumer"),
            claim("data", Some("disks")),
            user("data"),
        ],
        vec![claim("data", None), user("data")],
    ] {
        let bound = result("", &objects, 0);
        assert_eq!(bound["pods"]["created"], 1, "{objects:?}");
        assert!(
            took(&bound) > took(&plain) + 0.4,
            "{} {}",
            took(&bound),
            took(&plain)
        );
    }
    let local = class("kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    let near = |zone: &str| {
        [
            local.clone(),
            disk(zone),
            claim("data", Some("disks")),
            user("data"),
        ]
    };
    result("--nodes 3 --zones 3", &near("zone-2"), 0);
    let far = result("--nodes 3 --zones 3 --time-limit 1h", &near("zone-9"), 1);
    assert_eq!(far["pods"]["created"], 1, "no node is near the volume");
}

#[test]
fn claims_that_can_never_bind_are_refused_with_their_place() {
    let mut bound = claim("data", Some("disks"));
    bound["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    bound["spec"]["volumeName"] = "pvc-1".into();
    for (claim, words) in [
        (
            claim("data", Some("gp3")),
            "document 1 (PersistentVolumeClaim shop/data): names StorageClass \"gp3\", which is not in the files",
        ),
        (
            bound,
            "is bound to PersistentVolume \"pvc-1\", which is not in the files: add it",
        ),
    ] {
        let refused = run_with_stdin(RUN, &list(&[user("data"), claim]));
        ended(&refused, 2);
        holds(&stderr(&refused), words);
    }
    let alone = run_with_stdin("run --json - --engine virtual -f -", &list(&[user("data")]));
    ended(&alone, 0);
    holds(
        &stderr(&alone),
        "claims are not simulated: the files contain no PersistentVolumeClaim, but pods of 1 object need one",
    );
    let objects = [user("date"), user("missing"), claim("data", None)];
    let mistyped = run_with_stdin("run --json - --engine virtual -f -", &list(&objects));
    ended(&mistyped, 1);
    holds(
        &stderr(&mistyped),
        "ReplicaSet shop/date: pods wait for PersistentVolumeClaim \"date\", which is not in the files; \
         1 more object like it",
    );
}

#[test]
fn enough_nodes_are_generated_for_the_pods_of_files() {
    let mut workload = user("data");
    workload["spec"]["replicas"] = 30.into();
    workload["spec"]["template"]["spec"] = json!({"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "3"}}}]});
    let sized =
        |flags: &str| result(flags, &[workload.clone()], 0)["settings"]["size"]["nodes"].clone();
    assert_eq!(sized(""), 1);
    assert_eq!(sized("--node-cpu 4"), 30);
    assert_eq!(sized("--node-cpu 8"), 15);
    let line = format!("{RUN} --node-cpu 2");
    let refused = run_with_stdin(&line, &list(&[workload.clone()]));
    ended(&refused, 2);
    holds(
        &stderr(&refused),
        "a pod requests 3 of cpu, more than a node has by --node-cpu",
    );
}
