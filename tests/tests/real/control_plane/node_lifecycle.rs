//! The real kube-controller-manager's node lifecycle controller on this server's nodes: it finds
//! nodes with live kubelets healthy, and evicts the pods of a silent one.

use std::thread;
use std::time::Duration;

use crate::control_plane::manager::{Bodies, Manager};
use crate::served::with_one;

/// The value of `--controllers`: the server's own ones that the real manager runs are off.
const OURS_OFF: &str = "*,-node-lifecycle-controller,-taint-eviction-controller";

/// Longer than the 40 s after which the real controller declares a silent node unreachable.
const LONG: Duration = Duration::from_secs(70);

/// The status of `Ready` and the keys of the taints of each node.
const NODES: &str = "get nodes -o jsonpath='{range .items[*]}{.metadata.name} \
     {.status.conditions[?(@.type==\"Ready\")].status} {.spec.taints[*].key};{end}'";

#[test]
#[ignore = "needs kubectl and a built kube-controller-manager"]
fn live_nodes_are_ready_and_pods_of_a_silent_one_evicted() {
    let flags = [
        "--controllers",
        OURS_OFF,
        "--default-unreachable-toleration-seconds=1",
    ];
    with_one(&flags, |served| {
        let log = served.path("manager.log");
        let _manager = Manager::with(
            "nodelifecycle",
            &served.path("config"),
            log.clone(),
            Bodies::Protobuf,
            // One node per second instead of one in ten.
            &["--node-eviction-rate=1"],
        );
        served.run("create deployment web --image=nginx --replicas=6");
        served.run("rollout status deployment/web --timeout=60s");
        let all = "node-1 True ;node-2 True ;node-3 True ;";
        thread::sleep(LONG);
        served.says(NODES, all);
        let told = served.run("get events -o jsonpath='{.items[*].reason}'");
        assert!(
            told.contains("RegisteredNode"),
            "the real controller runs: {told}"
        );
        assert!(!told.contains("NodeNotReady"), "{told}");

        served.run("annotate node node-1 podstorm/kubelet=silent");
        let lost = "node.kubernetes.io/unreachable node.kubernetes.io/unreachable";
        let silent = format!("node-1 Unknown {lost};node-2 True ;node-3 True ;");
        let limit = 3;
        for round in 0..=limit {
            // Takes 40 to 55 s, longer than the usual limit.
            if served.run(NODES).trim_matches('\'') == silent {
                break;
            }
            assert!(round < limit, "{}", served.run(NODES));
            thread::sleep(Duration::from_secs(20));
        }
        let on_it = "get pods --field-selector spec.nodeName=node-1 -o \
                     jsonpath='{.items[*].metadata.deletionGracePeriodSeconds}'";
        served.becomes(on_it, "30 30");
        served.run("wait deployment/web --for=jsonpath={.status.readyReplicas}=6 --timeout=60s");
        // The kubelet returns and ends its pods, and the real controller removes the taints.
        served.run("annotate node node-1 podstorm/kubelet-");
        served.becomes(NODES, all);
        served.becomes("get pods --field-selector spec.nodeName=node-1 -o name", "");
    });
}
