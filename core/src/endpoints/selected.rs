//! The pods that a Service selects, with the content of their endpoints.

use core::net::IpAddr;
use std::sync::Arc;

use ahash::RandomState;
use podstorm_objects::cells::items;
use podstorm_objects::{Address, Pod, PodSpec, Str};
use serde_json::{Map, Value, json};

use super::cache::CachedService;
use super::endpoint::{Addresses, Conditions, Endpoint};
use super::slices::ports_key;

/// A selected pod that has an address.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    pub(super) pod: Arc<Pod>,
    /// The hash of the pod's name.
    pub(super) hash: u64,
    /// The pod's addresses: IPv4 first, then IPv6.
    addresses: Addresses,
    v6_at: usize,
    /// The zone of the pod's node; `None` if it is not needed or not known.
    pub(super) zone: Option<Str>,
    /// The host name that the Service publishes for the pod, if it publishes one.
    pub(super) hostname: Option<Str>,
    /// Those ports of the Service that the pod has.
    pub(super) ports: Arc<Ports>,
}

/// The ports of a Service on the pods of one spec.
#[derive(Debug)]
pub(super) struct Ports {
    /// The ports as EndpointSlices and Endpoints write them, in the order of the Service's ports.
    pub(super) list: Vec<Value>,
    /// A string that identifies the ports.
    pub(super) key: String,
}

impl Selected {
    /// Returns the pod's addresses of one IP version, in their original order.
    pub(super) fn addresses(&self, v6: bool) -> &[Address] {
        let (v4, of_v6) = self.addresses.split_at(self.v6_at);
        if v6 { of_v6 } else { v4 }
    }

    /// Returns the endpoint with the pod's addresses of one IP version; `None` if the pod has none.
    pub(super) fn endpoint(&self, v6: bool, publishes_unready: bool) -> Option<Endpoint<'_>> {
        let addresses = self.addresses(v6);
        let (pod, meta) = (&*self.pod, &self.pod.metadata);
        let (serving, terminating) = (pod.is_ready(), meta.is_deleting());
        (!addresses.is_empty()).then_some(Endpoint {
            addresses,
            namespace: &meta.namespace,
            name: &meta.name,
            uid: &meta.uid,
            node: pod.node_name.as_deref(),
            zone: self.zone.as_deref(),
            hostname: self.hostname.as_deref(),
            conditions: Conditions {
                ready: publishes_unready || serving && !terminating,
                serving,
                terminating,
            },
        })
    }
}

/// The values that a Service derives from a pod's spec. Pods of one template share them.
struct OfSpec {
    spec: Arc<PodSpec>,
    ports: Arc<Ports>,
    /// The host name in the spec, if it has one.
    hostname: Option<Str>,
    /// Whether the Service is the `subdomain` of the pods. If so, it publishes their host names.
    names_hosts: bool,
}

impl OfSpec {
    fn new(service: &CachedService, spec: &Arc<PodSpec>) -> OfSpec {
        let list = ports(service, spec);
        let text = |member: &str| Some(Str::from(spec.get(member)?.as_str()?));
        OfSpec {
            spec: Arc::clone(spec),
            ports: Arc::new(Ports {
                key: ports_key(&list),
                list,
            }),
            hostname: text("hostname").filter(|it| !it.is_empty()),
            names_hosts: text("subdomain").is_some_and(|it| *it == *service.meta().name),
        }
    }
}

/// Returns those pods of a Service that have an address and have not ended. Includes terminating
/// pods only if `also_deleting` is set. O(pods of the Service + bytes of their specs).
pub(super) fn selected(
    service: &CachedService,
    pods: Vec<Arc<Pod>>,
    also_deleting: bool,
    hasher: &RandomState,
) -> Vec<Selected> {
    let mut last: Option<OfSpec> = None;
    let mut found = Vec::with_capacity(pods.len());
    for pod in pods {
        if pod.status.phase.is_terminal() || !also_deleting && pod.metadata.is_deleting() {
            continue;
        }
        let (addresses, v6_at) = addresses(&pod);
        if addresses.is_empty() {
            continue;
        }
        let of_spec = match last.take() {
            // The comparison is cheap if equal specs share one allocation.
            Some(known) if known.spec == pod.spec => known,
            _ => OfSpec::new(service, &pod.spec),
        };
        let of_spec = last.insert(of_spec);
        let own = || pod.own_hostname().map(Str::from);
        let hostname = match of_spec.names_hosts {
            true => of_spec.hostname.clone().or_else(own),
            false => None,
        };
        found.push(Selected {
            hash: hasher.hash_one(pod.metadata.name.as_str()),
            ports: Arc::clone(&of_spec.ports),
            zone: None,
            hostname,
            pod,
            addresses,
            v6_at,
        });
    }
    found
}

/// Reports whether a Service may have different endpoints for two states of a pod with the same
/// labels.
pub(super) fn differ(old: &Pod, new: &Pod) -> bool {
    old.is_ready() != new.is_ready()
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.metadata.uid != new.metadata.uid
        || old.status.phase.is_terminal() != new.status.phase.is_terminal()
        || old.node_name != new.node_name
        || addresses(old) != addresses(new)
        || old.own_hostname() != new.own_hostname()
        || !Arc::ptr_eq(&old.spec, &new.spec)
            && ["hostname", "subdomain"].map(|it| old.spec.get(it))
                != ["hostname", "subdomain"].map(|it| new.spec.get(it))
}

/// Returns the addresses in `status.podIPs` or, if that is empty, in `status.podIP`: IPv4 addresses
/// first. Also returns the number of IPv4 addresses.
fn addresses(pod: &Pod) -> (Addresses, usize) {
    let mut all = Addresses::new();
    if let Some(started) = &pod.status.started {
        all.push(started.pod_ip.clone());
    } else {
        let rest = &pod.status.rest;
        all.extend(ips(rest.raw("podIPs").unwrap_or_default()).map(Address::from));
        if all.iter().all(Address::is_empty)
            && let Some(ip) = rest.raw("podIP")
        {
            all.push(Address::from(ip.trim_matches('"')));
        }
    }
    all.retain(|address| !address.is_empty());
    let v6_at = all.iter().filter(|it| !it.is_v6()).count();
    if all.len() > 1 {
        all.sort_by_key(Address::is_v6);
    }
    (all, v6_at)
}

/// Iterates over the addresses in a list of objects like `{"ip":"10.0.0.1"}` in compact JSON.
/// Addresses have no escaped characters. Stops at an item with other members. Every sync reads such
/// lists, and a general search would be slower.
fn ips(list: &str) -> impl Iterator<Item = &str> {
    let mut left = list.strip_prefix('[').unwrap_or_default();
    std::iter::from_fn(move || {
        let item = left.strip_prefix("{\"ip\":\"")?;
        let end = item.bytes().position(|byte| byte == b'"')?;
        left = item[end..].strip_prefix("\"},").unwrap_or_default();
        Some(&item[..end])
    })
}

/// Reports whether a string is an IPv6 address.
pub(super) fn is_v6(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|it| it.is_ipv6())
}

/// Returns the ports that a Service has on pods with this spec. Leaves out ports that the pods
/// don't have.
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

/// Returns the ports of the containers and sidecars in a spec.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_list_is_parsed() {
        let read = |list| ips(list).collect::<Vec<_>>();
        let both = r#"[{"ip":"10.0.0.1"},{"ip":"fd00::1"}]"#;
        assert_eq!(read(both), ["10.0.0.1", "fd00::1"]);
        assert_eq!(read(r#"[{"ip":""}]"#), [""]);
        for none in ["", "[]", "null", "[null]"] {
            assert_eq!(read(none), [""; 0], "{none}");
        }
    }
}
