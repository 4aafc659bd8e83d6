//! An operator that is tested in process, against a cluster of its own that starts in milliseconds.
//!
//! `operator.rs` is the operator, written with kube-rs as any other. `tests.rs` is what this is
//! about: each test has its own API server, controllers and nodes, in the test's process, without a
//! socket. Run it:
//!
//!     cargo test -p podstorm-loadgen --example operator
//!     cargo run -p podstorm-loadgen --example operator

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program tells how long it took"
)]

mod operator;
#[cfg(test)]
mod tests;

use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::runtime::wait::await_condition;
use podstorm_loadgen::serve::{ServeOptions, Served};

/// A cluster of three nodes, and a client of it.
fn cluster() -> (Served, Client) {
    let served = Served::start(ServeOptions::default()).expect("nothing is loaded");
    let client = Client::new(served.api().clone(), "default");
    (served, client)
}

fn site(name: &str, replicas: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": name, "labels": {operator::LABEL: "yes"}},
        "data": {"image": "shop/web:1", "replicas": replicas},
    }))
    .expect("a ConfigMap")
}

/// Whether that many pods of the site are ready.
fn is_ready(replicas: &str) -> impl Fn(Option<&ConfigMap>) -> bool {
    let replicas = replicas.to_owned();
    move |map| {
        let annotations = map.and_then(|map| map.metadata.annotations.as_ref());
        annotations.and_then(|of| of.get("example.com/ready")) == Some(&replicas)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let (_served, client) = cluster();
    tokio::spawn(operator::run(client.clone()));
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &site("shop", "3"))
        .await?;
    await_condition(maps, "shop", is_ready("3")).await?;
    println!("the site shop has its 3 pods after {:.1?}", begin.elapsed());
    Ok(())
}
