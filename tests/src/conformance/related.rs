//! Cases of `related`: the pods that count for co-location, and how many of them are on each pod's
//! node.

use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::object::{Map, Now, Pod};
use podstorm::replicaset::{Controller, ControllerOptions};
use serde_json::json;

use super::Fields;
use super::shared::{pod, workload, workload_kind};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let kind = workload_kind(&case.text("kind")?)?;
    let workloads = case.list("parents")?;
    let pods: Vec<Arc<Pod>> = case.all("pods", pod)?;
    let cache = Arc::new(PodCache::new());
    let (controller, _) = Controller::alone(ControllerOptions::new(kind), cache.clone());
    for value in workloads {
        controller.owners().apply(
            Delta::Applied(workload(kind, value)?),
            controller.queue(),
            Now::default(),
        );
    }
    for pod in &pods {
        cache.apply(Delta::Applied(pod.clone()));
    }
    case.each("out", |expected| {
        let name = expected.text("parent")?;
        let (namespace, short) =
            podstorm::replicaset::parse_key(&name).map_err(|error| error.to_string())?;
        let key = controller.owners().intern(namespace, short);
        let workload = controller
            .owners()
            .get(key)
            .ok_or(format!("{name} is not cached"))?;
        let related = controller.related_pods(&workload);
        let mut names: Vec<String> = related.iter().map(|pod| key_of(pod)).collect();
        names.sort();
        let node = |pod: &Pod| pod.node_name.clone();
        let rank = |pod: &Arc<Pod>| {
            let same = |other: &&Arc<Pod>| other.is_active() && node(other) == node(pod);
            (key_of(pod), related.iter().filter(same).count().into())
        };
        let ranks: Map = pods.iter().map(rank).collect();
        expected.is(json!({"related": names, "rank": ranks}))
    })
}

fn key_of(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}
