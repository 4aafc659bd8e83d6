//! Cases of `related`: which pods count for co-location, and how many share each pod's node.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::object::Pod;
use podstorm::replicaset::{Controller, ControllerOptions};
use serde_json::Value;

use super::shared::{pod, workload, workload_kind};
use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let kind = workload_kind(&case.text("kind")?)?;
    let workloads = case.list("parents")?;
    let pods: Vec<Arc<Pod>> = case.all("pods", pod)?;
    let cache = Arc::new(PodCache::new());
    let controller = Controller::new(ControllerOptions::new(kind), cache.clone());
    for value in workloads {
        controller
            .owners()
            .apply(Delta::Applied(workload(kind, value)?));
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
        let recorded: Vec<String> = expected
            .list("related")?
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        expect_eq("related", &names, &recorded)?;
        let node = |pod: &Pod| pod.node_name.clone();
        let ranks: BTreeMap<String, i64> = pods
            .iter()
            .map(|pod| {
                let on_node = related
                    .iter()
                    .filter(|other| other.is_active() && node(other) == node(pod));
                (
                    key_of(pod),
                    i64::try_from(on_node.count()).expect("few pods"),
                )
            })
            .collect();
        let recorded: BTreeMap<String, i64> = expected
            .object("rank")?
            .rest()
            .into_iter()
            .map(|(key, rank)| (key, rank.as_i64().unwrap_or(-1)))
            .collect();
        expect_eq("rank", &ranks, &recorded)
    })
}

fn key_of(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}
