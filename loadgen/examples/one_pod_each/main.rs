//! A custom workload next to ReplicaSets, on a simulated cluster:
//! `cargo run --example one_pod_each`.

#![expect(clippy::print_stdout, reason = "the example prints its result")]

mod workload;

use std::sync::Arc;

use podstorm::object::{DynamicObject, Namespace, Pod, Resource};
use podstorm_apiserver::kind_named;
use podstorm_sim::engine::Harness;
use podstorm_sim::engine::registry::Registry;
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::services::Controllers;
use serde_json::json;
use workload::OnePodEach;

fn main() -> anyhow::Result<()> {
    let kind = kind_named("ConfigMap").expect("every cluster serves the kind");
    let registry = Registry::upstream().with::<OnePodEach>();
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.services.controllers = Controllers::by_default(&registry.rows());
    let mut harness = Harness::with_registry(&options, &registry);
    let (cluster, now) = (Arc::clone(harness.cluster()), harness.now());
    cluster.create(
        Namespace::from_json(json!({"metadata": {"name": "shop"}}))?,
        now,
    )?;
    for name in ["red", "green", "blue"] {
        let map = json!({"metadata": {
            "name": name, "namespace": "shop", "labels": {"class": "runner"},
        }});
        let map = DynamicObject::from_json(kind, map)?;
        cluster.api(kind).create(Arc::new(map), now)?;
    }
    harness.settle(60_000_000_000);
    for pod in cluster.list::<Pod>(None).0 {
        let owner = pod.metadata.controller();
        let owner = owner.map_or("no object".to_owned(), |it| {
            format!("{} {}", it.kind, it.name)
        });
        println!("pod {}, owned by {owner}", pod.metadata.name);
    }
    Ok(())
}
