//! The Service `kubernetes`, through which pods of a cluster reach its API server, and its
//! endpoints.
//!
//! Source: `pkg/controlplane/controller/kubernetesservice` and `pkg/controlplane/reconcilers` of Kubernetes.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use podstorm_apiserver::{Cluster, kind_named};
use podstorm_objects::Now;
use serde_json::{Value, json};

const NAME: &str = "kubernetes";
/// The first address of the Service range.
const CLUSTER_IP: &str = "10.96.0.1";

/// Creates the Service for a server that listens at `address`, unless the Service exists. Sets its
/// Endpoints and EndpointSlice to this server, replacing existing ones.
///
/// # Errors
/// The API server refuses an object.
pub(super) fn make(cluster: &Cluster, address: SocketAddr, now: Now) -> Result<()> {
    let metadata = |labels: Value| {
        json!({"name": NAME, "namespace": "default",
            "labels": labels})
    };
    let port = address.port();
    let service = json!({
        "metadata": metadata(json!({"component": "apiserver", "provider": "kubernetes"})),
        "spec": {"type": "ClusterIP", "sessionAffinity": "None", "clusterIP": CLUSTER_IP,
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]}});
    put(cluster, "Service", service, false, now)?;
    let ip = address.ip().to_canonical();
    // Other machines can't reach such an address, and it is not valid in an endpoint.
    if ip.is_loopback() || ip.is_unspecified() {
        return Ok(());
    }
    let ports = json!([{"name": "https", "protocol": "TCP", "port": port}]);
    let endpoints = json!({
        "metadata": metadata(json!({"endpointslice.kubernetes.io/skip-mirror": "true"})),
        "subsets": [{"addresses": [{"ip": ip.to_string()}], "ports": ports}]});
    put(cluster, "Endpoints", endpoints, true, now)?;
    let slice = json!({
        "metadata": metadata(json!({"kubernetes.io/service-name": NAME})),
        "addressType": if ip.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip.to_string()], "conditions": {"ready": true}}],
        "ports": ports});
    put(cluster, "EndpointSlice", slice, true, now)
}

/// Creates an object. If it exists, replaces it if `replaces` is set and keeps it otherwise.
fn put(cluster: &Cluster, kind: &str, json: Value, replaces: bool, now: Now) -> Result<()> {
    let api = cluster.api(kind_named(kind).context("the kind is served")?);
    let object = api.read(json)??;
    match api.create(object.clone(), now) {
        Err(error) if error.code == 409 && replaces => api.update(object, now).map(drop),
        // The object exists, or a loaded object such as a quota forbids it.
        Err(error) if [403, 409].contains(&error.code) => Ok(()),
        created => created.map(drop),
    }
    .with_context(|| format!("{kind} default/{NAME}"))
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::ClusterOptions;
    use podstorm_objects::{Namespace, Resource};

    use super::*;

    const NOW: Now = Now {
        mono_ns: 0,
        wall_ns: 0,
    };

    fn get(cluster: &Cluster, kind: &str) -> Option<Value> {
        let kind = kind_named(kind).expect("the kind is served");
        let found = cluster.api(kind).get("default", NAME);
        found.ok().map(|object| object.to_json())
    }

    #[test]
    fn the_service_stays_and_its_endpoints_follow_the_server() {
        let cluster = Cluster::new(ClusterOptions::default());
        let namespace = json!({"metadata": {"name": "default"}});
        let namespace = Namespace::from_json(namespace).unwrap();
        cluster.create(namespace, NOW).unwrap();
        make(&cluster, "127.0.0.1:7001".parse().unwrap(), NOW).unwrap();
        let service = get(&cluster, "Service").unwrap();
        assert_eq!(service["spec"]["clusterIP"], CLUSTER_IP);
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 7001);
        assert_eq!(get(&cluster, "Endpoints"), None);
        for port in [7002, 7003] {
            make(&cluster, SocketAddr::new([192, 0, 2, 1].into(), port), NOW).unwrap();
            assert_eq!(get(&cluster, "Service").as_ref(), Some(&service));
            let endpoints = get(&cluster, "Endpoints").unwrap();
            assert_eq!(endpoints["subsets"][0]["ports"][0]["port"], port);
            let slice = get(&cluster, "EndpointSlice").unwrap();
            assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.1"]));
            assert_eq!(slice["ports"][0]["port"], port);
        }
    }
}
