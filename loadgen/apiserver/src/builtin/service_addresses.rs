//! Cluster IPs and node ports of Services: assigned, retained, and released if the type changes.
//!
//! Source: `pkg/registry/core/service/strategy.go` and `storage/alloc.go` of Kubernetes.

use std::net::Ipv4Addr;

use podstorm_objects::{DynamicObject, Map};
use serde_json::{Value, json};

use crate::Places;
use crate::defaulting::{Fill, Within};

const CLUSTER_IP: &str = "clusterIP";
const CLUSTER_IPS: &str = "clusterIPs";

/// Reports whether a Service is reachable from outside the cluster.
pub(super) fn is_external(spec: &Map) -> bool {
    let has_addresses = spec
        .get("externalIPs")
        .and_then(Value::as_array)
        .is_some_and(|it| !it.is_empty());
    match spec.text("type") {
        "NodePort" | "LoadBalancer" => true,
        "ClusterIP" => has_addresses,
        _ => false,
    }
}

fn has_cluster_ip(spec: &Map) -> bool {
    spec.text("type") != "ExternalName"
}

fn has_node_ports(spec: &Map) -> bool {
    match spec.text("type") {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Sets the IP families of a Service and, in an update, its addresses. A Service retains its
/// addresses unless its new type has none.
pub(super) fn prepare(new: &mut DynamicObject, old: Option<&DynamicObject>) {
    let before = old.and_then(|old| old.fields.get("spec")?.as_object().cloned());
    let number = number_of(&new.metadata.uid.to_string());
    new.fields.within("spec", |spec| {
        if let Some(old) = &before {
            keep(spec, old);
            drop_of_type(spec, old);
        }
        // Validation needs the families.
        if has_cluster_ip(spec) {
            choose_families(spec);
        }
    });
    if old.is_some() {
        give(new, number);
    }
}

/// Returns a number that depends on the UID, for the addresses that an update assigns.
pub(super) fn number_of(uid: &str) -> u64 {
    uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Sets the IP families. A headless Service without a selector may use any family.
fn choose_families(spec: &mut Map) {
    let has_selector = spec
        .get("selector")
        .and_then(Value::as_object)
        .is_some_and(|it| !it.is_empty());
    let is_open = spec.text(CLUSTER_IP) == "None" && !has_selector;
    let policy = if is_open {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    spec.set_absent("ipFamilyPolicy", policy);
    let families: &[&str] = match spec.text("ipFamilyPolicy") {
        "RequireDualStack" | "PreferDualStack" if is_open => &["IPv4", "IPv6"],
        _ => &["IPv4"],
    };
    spec.set_absent("ipFamilies", families);
}

/// Copies the addresses and ports that an update omits from the stored Service.
fn keep(spec: &mut Map, old: &Map) {
    if has_cluster_ip(spec) && has_cluster_ip(old) {
        for member in [CLUSTER_IP, CLUSTER_IPS] {
            if spec.get(member).is_none_or(Value::is_null)
                && let Some(kept) = old.get(member)
            {
                spec.insert(member.to_owned(), kept.clone());
            }
        }
    }
    if !has_node_ports(spec) || !has_node_ports(old) {
        return;
    }
    let ports = old
        .get("ports")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    spec.each("ports", |port| {
        let is_same = |other: &&Value| {
            port.get("port") == other.get("port") && port.get("protocol") == other.get("protocol")
        };
        let kept = ports
            .iter()
            .find(is_same)
            .and_then(|old| old.get("nodePort"));
        if let Some(kept) = kept
            && port.get("nodePort").is_none_or(Value::is_null)
        {
            port.insert("nodePort".to_owned(), kept.clone());
        }
    });
}

/// Removes the fields of the old type that the new type can't have, unless the client changed them.
fn drop_of_type(spec: &mut Map, old: &Map) {
    let mut gone: Vec<&str> = Vec::new();
    if has_cluster_ip(old) && !has_cluster_ip(spec) {
        gone.extend([
            CLUSTER_IP,
            CLUSTER_IPS,
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ]);
    }
    if is_external(old) && !is_external(spec) {
        gone.push("externalTrafficPolicy");
    }
    if old.text("type") == "LoadBalancer" && spec.text("type") != "LoadBalancer" {
        gone.extend([
            "allocateLoadBalancerNodePorts",
            "loadBalancerClass",
            "healthCheckNodePort",
        ]);
    }
    for member in gone {
        if spec.get(member) == old.get(member) {
            spec.remove(member);
        }
    }
    if has_node_ports(old) && !has_node_ports(spec) {
        let ports = old.get("ports").and_then(Value::as_array);
        let ports = ports.into_iter().flatten();
        let had: Places<&Value> = ports.filter_map(|port| port.get("nodePort")).collect();
        spec.each("ports", |port| {
            if port
                .get("nodePort")
                .is_some_and(|number| had.contains(&number))
            {
                port.remove("nodePort");
            }
        });
    }
}

/// Assigns an address in 10.96.0.0/12 and node ports from 30000 to 32767 to a Service: upstream's
/// default ranges. `number` differs for each created object and determines both.
pub(super) fn give(service: &mut DynamicObject, number: u64) {
    const FIRST: u32 = u32::from_be_bytes([10, 96, 0, 0]);
    const ADDRESSES: u64 = 1 << 20;
    const NODE_PORTS: u64 = 2768;
    service.fields.within("spec", |spec| {
        if !has_cluster_ip(spec) {
            return;
        }
        choose_families(spec);
        if spec.text(CLUSTER_IP).is_empty() {
            // The first few addresses belong to the API server and DNS.
            let offset = (16 + number % (ADDRESSES - 32)) as u32;
            let address = Ipv4Addr::from(FIRST + offset).to_string();
            spec.insert(CLUSTER_IP.to_owned(), address.into());
        }
        if spec.get(CLUSTER_IPS).is_none_or(Value::is_null) {
            let address = spec.text(CLUSTER_IP).to_owned();
            spec.insert(CLUSTER_IPS.to_owned(), json!([address]));
        }
        if has_node_ports(spec) {
            let mut next = number;
            spec.each("ports", |port| {
                port.set("nodePort", (30_000 + next % NODE_PORTS) as i64);
                next = next.wrapping_add(1);
            });
        }
    });
}
