//! Renewals of the nodes' Leases. Every five minutes, a node also reports its status.

use std::sync::Arc;

use podstorm::object::{Namespace, Now, Pod, Resource as _};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_sim::executor::{Next, Task as _};
use podstorm_sim::nodes::{ClientRules, Heartbeats, NodeControl, NodeSize, NodeTimes, register};
use serde_json::json;

use crate::clusters::NOW;

/// The number of nodes, whose Leases are renewed one after the other.
const NODES: usize = 10;

/// Returns a renewal in a cluster of ten nodes on which `pods` pods run.
pub fn renew(pods: usize) -> impl FnMut() -> u64 {
    let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
    for name in ["default", "shop"] {
        let namespace = Namespace::from_json(json!({"metadata": {"name": name}}));
        let namespace = namespace.expect("a readable namespace");
        cluster.create(namespace, NOW).expect("a new namespace");
    }
    for number in 0..NODES {
        let (name, size) = (format!("node-{number}"), NodeSize::default());
        let made = register(&cluster, &name, None, &size, 110, NOW);
        made.expect("a new node");
    }
    for number in 0..pods {
        let pod = Pod::from_json(json!({
            "metadata": {"name": format!("web-{number}"), "namespace": "shop"},
            "spec": {"nodeName": format!("node-{}", number % NODES),
                "containers": [{"name": "c", "image": "web:1"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let pod = pod.expect("a readable pod");
        cluster.import(pod, NOW).expect("a new pod");
    }
    let control = NodeControl::for_clients(NodeTimes::default(), ClientRules::default());
    let control = Arc::new(control.alive());
    let mut heartbeats = Heartbeats::new(cluster, &control, 1, Arc::new(|| {}));
    let mut due_ns = NOW.mono_ns;
    move || {
        let now = Now {
            mono_ns: due_ns,
            wall_ns: NOW.wall_ns + (due_ns - NOW.mono_ns),
        };
        let Next::At(next_ns) = heartbeats.run(now) else {
            panic!("each renewal is followed by another");
        };
        due_ns = next_ns;
        1
    }
}
