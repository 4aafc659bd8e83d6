//! The pods that a Service selects, with what endpoints say of them.

use core::net::IpAddr;
use std::sync::Arc;

use podstorm_objects::cells::items;
use podstorm_objects::{Pod, PodSpec};
use serde_json::{Map, Value, json};

use super::cache::CachedService;

/// A pod that has an address.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    pub(super) pod: Arc<Pod>,
    /// Its addresses, the first one first.
    pub(super) addresses: Vec<String>,
    /// The host name by which the Service makes it known, if any.
    pub(super) hostname: Option<String>,
    /// The ports of the Service that it has, as both kinds of endpoints write them, in the order of the Service.
    pub(super) ports: Arc<Vec<Value>>,
}

/// The pods of a Service that have an address and have not ended, by name; those that are being deleted
/// only where `also_deleting` says so. O(pods of the Service × their containers).
pub(super) fn selected(
    service: &CachedService,
    mut pods: Vec<Arc<Pod>>,
    also_deleting: bool,
) -> Vec<Selected> {
    pods.retain(|pod| {
        !pod.status.phase.is_terminal() && (also_deleting || !pod.metadata.is_deleting())
    });
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    // Pods of one template share one spec.
    let mut last: Option<(Arc<PodSpec>, Arc<Vec<Value>>)> = None;
    let mut found = Vec::with_capacity(pods.len());
    for pod in pods {
        let addresses = addresses(&pod);
        if addresses.is_empty() {
            continue;
        }
        let ports = match &last {
            Some((spec, ports)) if Arc::ptr_eq(spec, &pod.spec) => Arc::clone(ports),
            _ => Arc::new(ports(service, &pod.spec)),
        };
        last = Some((Arc::clone(&pod.spec), Arc::clone(&ports)));
        found.push(Selected {
            hostname: hostname(service, &pod.spec),
            pod,
            addresses,
            ports,
        });
    }
    found
}

/// Whether two states of a pod with the same labels may differ in what endpoints say.
pub(super) fn differ(old: &Pod, new: &Pod) -> bool {
    old.is_ready() != new.is_ready()
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.metadata.uid != new.metadata.uid
        || old.status.phase.is_terminal() != new.status.phase.is_terminal()
        || old.node_name != new.node_name
        || addresses(old) != addresses(new)
        || !Arc::ptr_eq(&old.spec, &new.spec)
            && ["hostname", "subdomain"].map(|it| old.spec.get(it))
                != ["hostname", "subdomain"].map(|it| new.spec.get(it))
}

/// `status.podIPs`, or `status.podIP` alone.
fn addresses(pod: &Pod) -> Vec<String> {
    if let Some(started) = &pod.status.started {
        let address = &started.pod_ip;
        return (!address.is_empty())
            .then(|| address.to_string())
            .into_iter()
            .collect();
    }
    let text = |value: Value| {
        value
            .as_str()
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
    };
    let all = pod.status.rest.get("podIPs").unwrap_or_default();
    let all: Vec<String> = (items(&all, "").filter_map(|it| text(it["ip"].clone()))).collect();
    match all.is_empty() {
        true => pod
            .status
            .rest
            .get("podIP")
            .and_then(text)
            .into_iter()
            .collect(),
        false => all,
    }
}

/// Whether an address is one of IP version 6.
pub(super) fn is_v6(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6())
}

fn hostname(service: &CachedService, spec: &PodSpec) -> Option<String> {
    let text = |member: &str| spec.get(member)?.as_str().map(str::to_owned);
    let hostname = text("hostname").filter(|it| !it.is_empty())?;
    (text("subdomain")? == *service.meta().name).then_some(hostname)
}

/// The ports of a Service on pods of this spec. A port that the pods don't have is left out.
///
/// Source: `FindPort` of Kubernetes' `pkg/api/v1/pod`.
fn ports(service: &CachedService, spec: &PodSpec) -> Vec<Value> {
    let of_service = items(service.spec(), "/ports");
    let mut containers = None;
    let found = of_service.filter_map(|port| {
        let (target, protocol) = (&port["targetPort"], &port["protocol"]);
        let number = match target.as_str() {
            None => target.as_i64()?,
            Some(name) => {
                let all = containers.get_or_insert_with(|| named_ports(spec));
                let found = all
                    .iter()
                    .find(|it| it["name"] == name && it["protocol"] == *protocol);
                found?["containerPort"].as_i64()?
            }
        };
        let mut found = Map::new();
        let name = port["name"].as_str().unwrap_or("");
        found.insert("name".into(), name.into());
        found.insert("port".into(), number.into());
        found.insert("protocol".into(), protocol.clone());
        if let Some(application) = port.get("appProtocol") {
            found.insert("appProtocol".into(), application.clone());
        }
        Some(Value::Object(found))
    });
    found.collect()
}

/// The ports of the containers and of the sidecars.
fn named_ports(spec: &PodSpec) -> Vec<Value> {
    let of = |list: &str, also: fn(&Value) -> bool| {
        let all = json!({"all": spec.get(list)});
        let containers = items(&all, "/all").filter(|it| also(it));
        let ports = containers.flat_map(|it| items(it, "/ports"));
        ports.cloned().collect::<Vec<_>>()
    };
    let mut all = of("containers", |_| true);
    all.extend(of("initContainers", |it| it["restartPolicy"] == "Always"));
    all
}
