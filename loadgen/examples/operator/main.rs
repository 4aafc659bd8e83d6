//! Tests an operator in process, against a cluster of its own that starts in milliseconds.
//!
//! `operator.rs` is an ordinary operator, written with kube-rs, with its own custom resource.
//! `tests.rs` is the point of this example: each test has its own API server, controllers and
//! nodes, in the test's process, without a socket. `faults.rs` adds what can go wrong, exactly when
//! the test requests it: slow startups on virtual time, a lost answer, a conflict and a stale
//! watch. Run it:
//!
//!     cargo test -p podstorm-loadgen --example operator
//!     cargo run -p podstorm-loadgen --example operator

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "the program prints how long it took"
)]

#[cfg(test)]
mod faults;
mod operator;
#[cfg(test)]
mod tests;

use std::time::Instant;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Client, CustomResourceExt};
use podstorm_loadgen::serve::{ServeOptions, Served};

use operator::{Site, SiteSpec};

/// Starts a cluster of three nodes with the definition of sites, and returns it with a client.
async fn cluster() -> (Served, Client) {
    let served =
        Served::start(ServeOptions::default()).expect("without files nothing can be refused");
    let client = Client::new(served.api().clone(), "default");
    define_sites(&client).await;
    (served, client)
}

async fn define_sites(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let defined = definitions
        .create(&PostParams::default(), &Site::crd())
        .await;
    defined.expect("the definition is valid");
    let established = await_condition(definitions, Site::crd_name(), is_crd_established()).await;
    established.expect("no other definition has its names");
}

fn site(name: &str, replicas: i32) -> Site {
    let image = "shop/web:1".to_owned();
    Site::new(name, SiteSpec { image, replicas })
}

/// Returns whether this many pods of the site are ready.
fn is_ready(replicas: i32) -> impl Fn(Option<&Site>) -> bool {
    move |site| {
        let status = site.and_then(|site| site.status.as_ref());
        status.is_some_and(|status| status.ready == replicas)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let (_served, client) = cluster().await;
    tokio::spawn(operator::run(client.clone()));
    let sites: Api<Site> = Api::default_namespaced(client);
    sites
        .create(&PostParams::default(), &site("shop", 3))
        .await?;
    await_condition(sites, "shop", is_ready(3)).await?;
    println!("the site shop has its 3 pods after {:.1?}", begin.elapsed());
    Ok(())
}
