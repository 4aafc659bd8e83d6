//! Deployments in runs: dumps of clusters with Deployments, rollouts, and rollouts that fail.

use podstorm_tests::command::{
    assert_refused, ended, holds, run, run_in, run_with_stdin, stderr, told,
};
use serde_json::{Value, json};

use super::{folder_of, json_in};

const STARTED: &str = "2026-11-01T08:00:00Z";

/// Returns a stable Deployment as a real server shows it, with its pods and the ReplicaSets of its
/// last two templates. Defaults are filled in, and the hash differs from the one that our
/// controller would compute.
fn settled(number: usize, pods: usize) -> Vec<Value> {
    let (name, namespace) = (format!("web-{number}"), format!("team-{}", number % 20));
    let uid = |what: usize| format!("00000000-0000-4000-8000-{:012x}", number * 1_000 + what);
    let labels = json!({"app": name});
    let template = |tag: &str, hash: Option<&str>| {
        let mut labels = labels.clone();
        if let Some(hash) = hash {
            labels["pod-template-hash"] = hash.into();
        }
        json!({
            "metadata": {"creationTimestamp": null, "labels": labels},
            "spec": {
                "containers": [{
                    "name": "web",
                    "image": format!("registry.example/web:{tag}"),
                    "imagePullPolicy": "IfNotPresent",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
            },
        })
    };
    let condition = |kind: &str, reason: &str, message: String| {
        json!({"type": kind, "status": "True", "lastUpdateTime": STARTED,
            "lastTransitionTime": STARTED, "reason": reason, "message": message})
    };
    let mut objects = vec![json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid(0), "generation": 2,
            "creationTimestamp": STARTED, "labels": labels,
            "annotations": {"deployment.kubernetes.io/revision": "2", "team": "shop"},
        },
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": labels},
            "template": template("2", None),
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": {
            "observedGeneration": 2, "replicas": pods, "updatedReplicas": pods,
            "readyReplicas": pods, "availableReplicas": pods, "terminatingReplicas": 0,
            "conditions": [
                condition("Available", "MinimumReplicasAvailable",
                    "Deployment has minimum availability.".to_owned()),
                condition("Progressing", "NewReplicaSetAvailable",
                    format!("ReplicaSet \"{name}-abc123\" has successfully progressed.")),
            ],
        },
    })];
    for (revision, hash, replicas) in [(1, "0ld", 0), (2, "abc123", pods)] {
        let mut selected = labels.clone();
        selected["pod-template-hash"] = hash.into();
        let set = format!("{name}-{hash}");
        let mut status = json!({"replicas": replicas, "observedGeneration": 3,
            "terminatingReplicas": 0});
        if replicas > 0 {
            for count in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
                status[count] = replicas.into();
            }
        }
        objects.push(json!({
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": set, "namespace": namespace, "uid": uid(revision), "generation": 3,
                "creationTimestamp": STARTED, "labels": selected,
                "annotations": {
                    "deployment.kubernetes.io/desired-replicas": pods.to_string(),
                    "deployment.kubernetes.io/max-replicas": (pods + pods.div_ceil(4)).to_string(),
                    "deployment.kubernetes.io/revision": revision.to_string(),
                    "team": "shop",
                },
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name,
                    "uid": uid(0), "controller": true, "blockOwnerDeletion": true}],
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": selected},
                "template": template(&revision.to_string(), Some(hash)),
            },
            "status": status,
        }));
        for pod in 0..replicas {
            let condition =
                |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": STARTED});
            let mut spec = template("2", None)["spec"].clone();
            spec["nodeName"] = format!("node-{}", (number * pods + pod) / 100).into();
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": format!("{set}-{pod:05}"), "namespace": namespace, "uid": uid(10 + pod),
                    "creationTimestamp": STARTED, "labels": selected,
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                        "name": set, "uid": uid(revision), "controller": true,
                        "blockOwnerDeletion": true}],
                },
                "spec": spec,
                "status": {
                    "phase": "Running", "startTime": STARTED,
                    "conditions": [condition("PodScheduled"), condition("ContainersReady"),
                        condition("Ready")],
                    "containerStatuses": [{"name": "web", "image": "registry.example/web:2",
                        "imageID": "", "ready": true, "restartCount": 0,
                        "state": {"running": {"startedAt": STARTED}}}],
                },
            }));
        }
    }
    objects
}

/// Returns a dump of `deployments` stable Deployments with `pods` pods each, and of their nodes.
fn dump(deployments: usize, pods: usize) -> String {
    let mut items: Vec<Value> = (0..deployments)
        .flat_map(|number| settled(number, pods))
        .collect();
    items.extend((0..=deployments * pods / 100).map(|node| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{node}")},
            "status": {"allocatable": {"pods": "200"}}})
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Runs the command with `text` on standard input and returns the result. The run must succeed.
#[track_caller]
fn result(flags: &str, text: &str) -> Value {
    let line = format!("run -q --json - --engine virtual {flags}");
    super::json(&ended(&run_with_stdin(&line, text), 0))
}

#[test]
fn a_dump_of_1_000_stable_deployments_causes_no_requests() {
    let result = result("-f -", &dump(1_000, 4));
    assert_eq!(result["input"]["taken"]["Deployment"], 1_000);
    // No request is sent, although this controller would compute different hashes.
    assert_eq!(result["api_calls"], json!({}), "{}", result["api_calls"]);
    let writes = result["writes"].as_object().expect("a map");
    let made = |write: &&String| !write.starts_with("import ") && !write.contains("namespaces");
    assert_eq!(writes.keys().find(made), None, "{writes:?}");
    // The controllers have synced every Deployment and every ReplicaSet.
    let syncs = result["syncs"].as_object().expect("a map").values();
    let syncs: u64 = syncs.filter_map(Value::as_u64).sum();
    assert!(syncs >= 3_000, "{syncs}");
}

/// Returns the result of a scenario that generates its cluster.
#[track_caller]
fn scenario(line: &str) -> Value {
    result(line, "")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[test]
fn scenarios_scale_and_roll_out_deployments_of_files() {
    let dump = dump(10, 8);
    let scaled = result("--scenario scale-down -f -", &dump);
    // If only the ReplicaSets were scaled, the Deployment controller would scale them back.
    assert_eq!(scaled["pods"]["created"], 0, "{}", scaled["pods"]);
    let deleted = number(&scaled["pods"]["deleted"]);
    assert!(deleted > 0.0, "{}", scaled["pods"]);
    for name in ["deployment-rollout", "rollout-storm"] {
        let rolled = result(&format!("--scenario {name} -f -"), &dump);
        assert_eq!(rolled["rollout_seconds"]["count"], 10, "{name}");
        assert_eq!(rolled["pods"]["created"], 80, "{name}");
        assert_eq!(rolled["api_calls"]["create replicasets 201"], 10, "{name}");
    }
}

#[test]
fn rollout_limits_are_percentages_or_numbers_of_pods() {
    let scenario = |limits: &str| {
        format!(
            "name: one-more\nquestion: Q?\nsuccess: S.\ncapacity: 300%\nphases:\n- name: set up\n  setUp: true\n  \
             steps:\n  - createNamespaces\n  - createNodes\n  - createReplicaSets: {{replicas: 100%, \
             asParts: true}}\n- name: roll out\n  steps:\n  - rollOut: {{{limits}, maxUnavailable: 0}}\n"
        )
    };
    let peak = |limits: &str, flags: &str| {
        let folder = folder_of(&[("mine.yaml", &scenario(limits))]);
        let line = "run --engine virtual --scenario mine.yaml --pods 100 --replicasets 10 --quiet";
        let line = format!("{line} --pod-startup-latency 1s --json r.json {flags}");
        ended(&run_in(&folder, &line), 0);
        number(&json_in(&folder, "r.json")["pods"]["peak"])
    };
    // Ten ReplicaSets of ten pods each.
    assert_eq!(peak("maxSurge: 1", ""), 110.0);
    assert_eq!(peak("maxSurge: 25%", ""), 130.0);
    // With Deployments, the surge is the same, and terminating pods add to the peak.
    assert!((110.0..125.0).contains(&peak("maxSurge: 1", "--deployments")));
    assert!(peak("maxSurge: 25%", "--deployments") >= 130.0);
    let line = "--scenario deployment-rollout --pods 100 --replicasets 10 --max-surge 1 --max-unavailable 0";
    let rolled = self::scenario(line);
    assert_eq!(rolled["settings"]["max_surge"], "1");
    assert_eq!(rolled["settings"]["max_unavailable"], "0");
}

#[test]
fn a_rollout_keeps_its_limits_and_takes_the_expected_time() {
    let run = |more: &str| scenario(&format!("--scenario deployment-rollout --pods 500 {more}"));
    let usual = run("");
    let rollout = &usual["phases"][1];
    let counts = [&rollout["pods_created"], &rollout["pods_deleted"]];
    assert_eq!(counts, [500, 500]);
    assert_eq!(usual["excess_pods_created"], 0);
    assert_eq!(usual["rollout_seconds"]["count"], 10);
    // Ten Deployments of 50 pods with a surge of 13 each, and pods that take one second to
    // terminate.
    assert!(number(&usual["pods"]["peak"]) <= 750.0, "{}", usual["pods"]);
    let took = |result: &Value| number(&result["phases"][1]["seconds"]);
    let faster = "--kube-api-qps 500 --kube-api-burst 500";
    let quick = run(faster);
    let careful = run(&format!("{faster} --max-surge 10% --max-unavailable 0%"));
    let patient = run(&format!("{faster} --min-ready-seconds 30s"));
    let [usual, quick_s, careful_s, patient_s] = [&usual, &quick, &careful, &patient].map(took);
    assert!(quick_s * 4.0 < usual, "{quick_s} {usual}");
    assert!(careful_s > 2.0 * quick_s, "{careful_s} {quick_s}");
    assert!(patient_s > quick_s + 50.0, "{patient_s} {quick_s}");
    assert!(number(&careful["pods"]["peak"]) < number(&quick["pods"]["peak"]) + 50.0);
}

#[test]
fn a_change_during_a_rollout_wastes_the_pods_of_the_first() {
    let result = scenario("--scenario deployment-rollover --pods 500");
    let changes = &result["phases"][1];
    assert!(number(&changes["pods_created"]) > 500.0, "{changes}");
    assert_eq!(result["api_calls"]["create replicasets 201"], 30);
    assert_eq!(result["excess_pods_created"], 0);
}

#[test]
fn a_stuck_rollout_fails_by_its_deadline_and_is_undone() {
    for (deadline, flags) in [(600.0, ""), (60.0, "--progress-deadline 60s")] {
        let result = scenario(&format!("--scenario failed-rollout --pods 500 {flags}"));
        let bad = &result["phases"][1];
        assert_eq!(bad["rollouts_failed"], 10);
        let seconds = number(&bad["seconds"]);
        assert!((deadline..deadline + 5.0).contains(&seconds), "{seconds}");
        // Per Deployment of 50 pods: 13 for the surge, and 12 that replace the old pods that may be
        // unavailable.
        assert_eq!([&bad["pods_created"], &bad["pods_deleted"]], [250, 120]);
        assert_eq!(result["phases"][2]["rollouts_failed"], 0);
        // The rollback reuses the old ReplicaSet instead of creating one.
        assert_eq!(result["api_calls"]["create replicasets 201"], 20);
    }
}

#[test]
fn a_rollout_storm_can_use_deployments() {
    let result =
        scenario("--scenario rollout-storm --deployments --pods 500 --pod-startup-latency 1s");
    assert_eq!(result["phases"][1]["pods_created"], 500);
    assert_eq!(result["rollout_seconds"]["count"], 10);
    assert!(number(&result["api_calls"]["update replicasets 200"]) >= 40.0);
    let set = super::REPLICA_SET.replace("name: web", "name: w");
    for (flags, words) in [
        ("up-down --deployments", "--deployments | asParts"),
        (
            "deployment-rollout -f -",
            "kubectl get replicasets | deployments | rollout-storm",
        ),
        (
            "deployment-rollout --max-surge 0% --max-unavailable 0%",
            "--max-surge | no pod could be replaced",
        ),
    ] {
        let line = format!("run --scenario {flags}");
        assert_refused(&run_with_stdin(&line, &set), words);
    }
}

/// Returns a dump of three Deployments. In the first one, a container waits with `reason`. The
/// ReplicaSet's status already reflects this, but the Deployment's status does not.
fn lagging(reason: &str) -> String {
    let mut dump: Value = serde_json::from_str(&dump(3, 8)).expect("valid JSON");
    for object in dump["items"].as_array_mut().expect("a list") {
        match object["metadata"]["name"].as_str() {
            Some("web-0-abc123") => {
                for count in ["readyReplicas", "availableReplicas"] {
                    object["status"][count] = 7.into();
                }
            }
            Some("web-0-abc123-00000") => {
                object["status"]["conditions"][1]["status"] = "False".into();
                object["status"]["conditions"][2]["status"] = "False".into();
                let container = &mut object["status"]["containerStatuses"][0];
                container["ready"] = false.into();
                container["state"] = json!({"waiting": {"reason": reason}});
            }
            _ => {}
        }
    }
    dump.to_string()
}

#[test]
fn every_command_reports_stale_statuses_and_stuck_rollouts() {
    let dump = lagging("CrashLoopBackOff");
    let summary = told(&run_with_stdin("run --dry-run -f -", &dump));
    let words = "Deployment team-0/web-0 reports 8 pods, 8 ready, and has 8, 7 ready | \
                 Deployment team-0/web-0 is not complete: 1 of 8 pods can't become ready: CrashLoopBackOff";
    holds(&summary, words);
    assert!(!summary.contains("as wanted"), "{summary}");
    for engine in ["threads", "virtual"] {
        let output = run_with_stdin(&format!("run --engine {engine} -f -"), &dump);
        let words = "rollouts not complete: 1 | \
                     team-0/web-0: 1 pod can't become ready: CrashLoopBackOff";
        holds(&ended(&output, 0), words);
    }
    let told_of = |reason: &str, more: &str| {
        let line = format!("explain -f - --deployment web-0 {more}");
        told(&run_with_stdin(&line, &lagging(reason)))
    };
    let text = told_of("CrashLoopBackOff", "");
    holds(
        &text,
        "1 of 8 pods of web-0-abc123 can't become ready: CrashLoopBackOff | \
         7 of 8 updated replicas are",
    );
    let problem = text.find("can't become ready").expect("the problem");
    assert!(
        problem < text.find("No sync").expect("the end of the run"),
        "{text}"
    );
    let image = told_of("ErrImagePull", "");
    holds(&image, "ErrImagePull of registry.example/web:2");
    // A different image can be pulled.
    let mended = told_of("ErrImagePull", "--image registry.example/web:3");
    holds(&mended, "1 of 8 pods | successfully rolled out");
    let document = super::json(&told_of("ErrImagePull", "-o json"));
    assert_eq!(document["problems"].as_array().map(Vec::len), Some(1));
}

#[test]
fn start_stuck_pods_starts_them() {
    let mut dump = lagging("ErrImagePull");
    dump = dump.replacen("\"phase\":\"Running\"", "\"phase\":\"Pending\"", 1);
    let kept = result("-f -", &dump);
    assert_eq!(kept["incomplete_rollouts"]["count"], 1);
    let started = result("--start-stuck-pods -f -", &dump);
    assert_eq!(started["incomplete_rollouts"]["count"], 0);
    assert_eq!(started["settings"]["start_stuck_pods"], true);
    let refused = run("run --start-stuck-pods");
    assert_refused(&refused, "--start-stuck-pods | -f FILE");
}

#[test]
fn a_run_without_changes_reports_once_what_it_waits_for() {
    let line =
        "run --pods 10 --nodes 1 --engine threads --scenario scale-up --pod-startup-latency 7s";
    let output = run(line);
    ended(&output, 0);
    let told = stderr(&output);
    let words = "nothing has changed for a while: phase \"scale to 100 %\" was not over";
    assert_eq!(told.matches(words).count(), 1, "{told}");
}
