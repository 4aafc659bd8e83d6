//! What the Endpoints of a Service say.
//!
//! Source: `syncService` of Kubernetes' `pkg/controller/endpoint`, and `RepackSubsets` of its
//! `pkg/api/v1/endpoints`.

use core::net::IpAddr;
use std::collections::BTreeMap;

use podstorm_objects::{DynamicObject, Kind, Labels, Time};
use serde_json::{Map, Value, json};

use super::cache::CachedService;
use super::endpoint::target;
use super::selected::Selected;
use super::slices::{HEADLESS, families};
use super::trigger;

/// The label that names who writes Endpoints.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// Who writes the Endpoints of this controller.
const MANAGER: &str = "endpoint-controller";

/// The annotation of Endpoints that had to leave addresses out.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// Most addresses.
const ADDRESSES_MAX: usize = 1_000;

/// The Endpoints of a Service with these pods, on top of those that are there; `None` where these are right.
pub(super) fn endpoints(
    service: &CachedService,
    pods: &[Selected],
    existing: Option<&DynamicObject>,
    trigger: Option<Time>,
) -> Option<DynamicObject> {
    let subsets = subsets(service, pods);
    let (subsets, is_cut) = cut(subsets);
    let labels = labels(service);
    let capacity = |annotations: &Labels| annotations.get(OVER_CAPACITY).is_some();
    if let Some(existing) = existing {
        let known = existing.fields.get("subsets").cloned().unwrap_or_default();
        let is_same = match &known {
            Value::Null => subsets.is_empty(),
            known => *known == Value::Array(subsets.clone()),
        };
        let meta = &existing.metadata;
        if is_same && meta.labels == labels && capacity(&meta.annotations) == is_cut {
            return None;
        }
    }
    let mut new = existing.cloned().unwrap_or_else(|| {
        let mut new = DynamicObject::new(Kind::ENDPOINTS);
        new.metadata.name = service.meta().name.clone();
        new.metadata.namespace = service.meta().namespace.clone();
        new
    });
    let mut annotations = new.metadata.annotations.without(trigger::ANNOTATION);
    annotations = annotations.without(OVER_CAPACITY);
    if let Some(at) = trigger {
        annotations = annotations.with(trigger::ANNOTATION, &at.to_string());
    }
    if is_cut {
        annotations = annotations.with(OVER_CAPACITY, "truncated");
    }
    new.metadata.annotations = annotations;
    new.metadata.labels = labels;
    match subsets.is_empty() {
        true => drop(new.fields.remove("subsets")),
        false => drop(new.fields.insert("subsets".to_owned(), subsets.into())),
    }
    Some(new)
}

fn labels(service: &CachedService) -> Labels {
    let labels = service.meta().labels.with(MANAGED_BY, MANAGER);
    match service.is_headless() {
        true => labels.with(HEADLESS, ""),
        false => labels.without(HEADLESS),
    }
}

/// An address in its order: by its number, then by its pod.
type Place = (Option<IpAddr>, String);

/// The ports that addresses share, and those of them that are ready and those that are not.
type OfPorts = (Vec<Value>, [BTreeMap<Place, Value>; 2]);

/// Addresses with the ports that each has, in the form that upstream gives them: those that have the same
/// ports make one subset.
fn subsets(service: &CachedService, pods: &[Selected]) -> Vec<Value> {
    let is_of_v6 = families(service).first() == Some(&"IPv6");
    // Ready addresses and others, by their ports.
    let mut by_ports: BTreeMap<Vec<String>, OfPorts> = BTreeMap::new();
    let has_no_ports = service.spec()["ports"].as_array().is_none_or(Vec::is_empty);
    for selected in pods {
        // Without ports there are endpoints of headless Services alone.
        let ports = &selected.ports.list;
        if ports.is_empty() && !(has_no_ports && service.is_headless()) {
            continue;
        }
        let Some(ip) = selected.addresses(is_of_v6).first() else {
            continue;
        };
        let ip = ip.to_string();
        let (pod, meta) = (&selected.pod, &selected.pod.metadata);
        let mut address =
            json!({"ip": ip, "targetRef": target(&meta.namespace, &meta.name, &meta.uid)});
        if let Some(node) = &pod.node_name {
            address["nodeName"] = (&**node).into();
        }
        if let Some(hostname) = &selected.hostname {
            address["hostname"] = (&**hostname).into();
        }
        let mut key: Vec<String> = ports.iter().map(Value::to_string).collect();
        key.sort();
        key.dedup();
        let of_ports = by_ports.entry(key).or_insert_with_key(|key| {
            let mut ports = ports.clone();
            ports.sort_by_cached_key(Value::to_string);
            ports.truncate(key.len());
            (
                ports.into_iter().map(endpoint_port).collect(),
                Default::default(),
            )
        });
        let is_ready = service.publishes_unready() || pod.is_ready();
        let place = (ip.parse().ok(), meta.uid.to_string());
        of_ports.1[usize::from(!is_ready)].insert(place, address);
    }
    let subsets = by_ports.into_values().map(|(ports, [ready, not_ready])| {
        let mut subset = Map::new();
        let lists = [("addresses", ready), ("notReadyAddresses", not_ready)];
        for (name, list) in lists.map(|(name, list)| (name, Vec::from_iter(list.into_values()))) {
            if !list.is_empty() {
                subset.insert(name.to_owned(), list.into());
            }
        }
        if !ports.is_empty() {
            subset.insert("ports".to_owned(), ports.into());
        }
        Value::Object(subset)
    });
    subsets.collect()
}

/// A port as Endpoints have it: without an empty name.
fn endpoint_port(mut port: Value) -> Value {
    if port["name"] == ""
        && let Some(members) = port.as_object_mut()
    {
        members.remove("name");
    }
    port
}

/// At most as many addresses as Endpoints may have, ready ones first; whether some were left out.
fn cut(mut subsets: Vec<Value>) -> (Vec<Value>, bool) {
    let mut room = ADDRESSES_MAX;
    let mut is_cut = false;
    for name in ["addresses", "notReadyAddresses"] {
        for subset in &mut subsets {
            let Some(list) = subset.get_mut(name).and_then(Value::as_array_mut) else {
                continue;
            };
            is_cut |= list.len() > room;
            list.truncate(room);
            room -= list.len();
        }
    }
    for subset in &mut subsets {
        if let Some(members) = subset.as_object_mut() {
            members.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
        }
    }
    subsets.retain(|subset| {
        ["addresses", "notReadyAddresses"]
            .iter()
            .any(|it| subset.get(it).is_some())
    });
    (subsets, is_cut)
}
