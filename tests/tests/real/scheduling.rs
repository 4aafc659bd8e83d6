//! Pods with different priorities on a small node, as `kubectl` shows them.

use super::served::with_each;

/// Two pods that fit on a node of two cores only one at a time.
const PRIORITIES: &str = r"
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: batch}
spec:
  containers:
  - {name: app, image: shop/app:1, resources: {requests: {cpu: 1500m}}}
";

const URGENT: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: urgent}
spec:
  priorityClassName: urgent
  containers:
  - {name: app, image: shop/app:1, resources: {requests: {cpu: 1}}}
";

#[test]
#[ignore = "needs kubectl: cargo real"]
fn a_pod_of_higher_priority_preempts_another() {
    let node = ["--nodes=1", "--node-cpu=2", "--node-memory=4Gi"];
    let arguments = [&node[..], &["--pod-termination-latency=5s"]].concat();
    with_each(&arguments, |served| {
        served.shows("describe node node-1", &["cpu: 2", "memory: 4Gi"]);
        served.apply(PRIORITIES);
        served.run("wait --for=condition=Ready pod/batch --timeout=10s");
        served.apply(URGENT);
        let nominated = "get pod urgent -o jsonpath={.status.nominatedNodeName}";
        served.becomes(nominated, "node-1");
        let disrupted = "get pod batch -o \
            jsonpath='{.status.conditions[?(@.type==\"DisruptionTarget\")].reason}'";
        served.becomes(disrupted, "PreemptionByScheduler");
        let uid = served.run("get pod urgent -o jsonpath={.metadata.uid}");
        let told = format!("Preempted by pod {uid} on node node-1");
        served.comes_to_show("describe pod batch", &["Normal Preempted", &told]);
        let why = "0/1 nodes are available: 1 Insufficient cpu.";
        served.shows("describe pod urgent", &["Warning FailedScheduling", why]);
        served.run("wait --for=condition=Ready pod/urgent --timeout=20s");
        served.says(nominated, "");
        served.becomes("get pods -o name", "pod/urgent");
    });
}
