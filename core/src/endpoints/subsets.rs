//! The content of the Endpoints for a Service.
//!
//! Source: `syncService` of Kubernetes' `pkg/controller/endpoint`, and `RepackSubsets` of its
//! `pkg/api/v1/endpoints`.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashTable;
use podstorm_objects::cells::items;
use podstorm_objects::{Address, DynamicObject, Kind, Labels, Time, hash_state};
use podstorm_runtime::store::Cached as _;
use serde_json::{Map, Value};

use super::cache::{CachedEndpoints, CachedService};
use super::endpoint::{Conditions, Endpoint, StoredEndpoint};
use super::selected::{Ports, Selected};
use super::slices::{HEADLESS, families};
use super::trigger;

/// The label of Endpoints that holds the name of their writer.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// The name of this controller as a writer of Endpoints.
const MANAGER: &str = "endpoint-controller";

/// The annotation that marks Endpoints from which addresses were left out.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The maximum number of addresses in Endpoints.
const ADDRESSES_MAX: usize = 1_000;

/// Returns the Endpoints for a Service with these pods, based on the existing ones; `None` if the
/// existing ones are already correct.
pub(super) fn endpoints(
    service: &CachedService,
    pods: &[Selected],
    existing: Option<&CachedEndpoints>,
    trigger: Option<Time>,
) -> Option<DynamicObject> {
    let said = Said::from_service(service);
    let labels = labels(service);
    let (existing, stored) = match existing {
        Some(existing) => (Some(&**existing.object()), existing.stored.as_ref()),
        None => (None, None),
    };
    let has_marks = |labels: &Labels, is_cut: bool| {
        existing.is_some_and(|existing| {
            let meta = &existing.metadata;
            meta.labels == *labels && meta.annotations.get(OVER_CAPACITY).is_some() == is_cut
        })
    };
    if has_marks(&labels, false) && stored.is_some_and(|stored| stored.is_of(pods, &said)) {
        return None;
    }
    let (subsets, is_cut) = cut(render(by_ports(pods, &said)));
    if has_marks(&labels, is_cut)
        && subsets_of(existing?).is_some_and(|known| known == subsets.as_slice())
    {
        return None;
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

/// The sort key of an address: the IP address, then the UID of the pod.
type Place = (Option<IpAddr>, String);

/// Ports, the ready addresses with these ports, and the other addresses with these ports.
type OfPorts = (Vec<Value>, [BTreeMap<Place, Value>; 2]);

/// The addresses by the key of their ports.
type ByPorts = BTreeMap<Vec<String>, OfPorts>;

/// The properties of a Service that determine the addresses in its Endpoints.
struct Said {
    v6: bool,
    publishes_unready: bool,
    /// Whether pods without ports have addresses. Only headless Services have endpoints without
    /// ports.
    needs_no_ports: bool,
}

impl Said {
    fn from_service(service: &CachedService) -> Said {
        let has_no_ports = service.spec()["ports"].as_array().is_none_or(Vec::is_empty);
        Said {
            v6: families(service).first() == Some(&"IPv6"),
            publishes_unready: service.publishes_unready(),
            needs_no_ports: has_no_ports && service.is_headless(),
        }
    }

    /// Returns the address of a pod, ready or not; `None` if it has none in these Endpoints.
    fn address<'s>(&self, selected: &'s Selected) -> Option<Endpoint<'s>> {
        if selected.ports.list.is_empty() && !self.needs_no_ports {
            return None;
        }
        let endpoint = selected.endpoint(self.v6, self.publishes_unready)?;
        Some(Endpoint {
            addresses: &endpoint.addresses[..1],
            zone: None,
            conditions: Conditions {
                ready: self.publishes_unready || endpoint.conditions.serving,
                ..Conditions::default()
            },
            ..endpoint
        })
    }
}

/// The subsets of cached Endpoints.
#[derive(Debug)]
pub(super) struct StoredSubsets {
    /// For each subset, the key that identifies its ports.
    ports: Vec<Vec<String>>,
    /// All addresses, each with the index of its subset.
    addresses: Vec<(usize, StoredEndpoint)>,
}

impl StoredSubsets {
    /// Parses the subsets. Returns `None` if this controller would write the same addresses in
    /// another form.
    pub(super) fn read(endpoints: &DynamicObject) -> Option<StoredSubsets> {
        let known = subsets_of(endpoints)?;
        let mut stored = StoredSubsets {
            ports: Vec::with_capacity(known.len()),
            addresses: Vec::new(),
        };
        let mut again = ByPorts::new();
        for (at, subset) in known.iter().enumerate() {
            let ports: Vec<Value> = items(subset, "/ports").map(named_port).collect();
            let key = subset_key(&ports);
            let of_ports = again
                .entry(key.clone())
                .or_insert_with(|| of_ports(&ports, &key));
            stored.ports.push(key);
            let lists = [("/addresses", true), ("/notReadyAddresses", false)];
            for (list, is_ready) in lists {
                for address in items(subset, list) {
                    let read = StoredEndpoint::read_address(address, is_ready);
                    let (place, json) = (place(&read.view()), read.view().to_address());
                    of_ports.1[usize::from(!is_ready)].insert(place, json);
                    stored.addresses.push((at, read));
                }
            }
        }
        (render(again) == known).then_some(stored)
    }

    /// Reports whether these are the addresses of the given pods. Allocates nothing per pod.
    fn is_of(&self, pods: &[Selected], said: &Said) -> bool {
        let hasher = hash_state();
        let mut by_name = HashTable::with_capacity(self.addresses.len());
        for (at, (_, address)) in self.addresses.iter().enumerate() {
            by_name.insert_unique(hasher.hash_one(address.view().name), at, |_| 0);
        }
        let mut count = 0;
        let mut last: Option<(&Arc<Ports>, Option<usize>)> = None;
        for selected in pods {
            let Some(address) = said.address(selected) else {
                continue;
            };
            count += 1;
            let ports = &selected.ports;
            let (_, subset) = match last {
                Some(known) if Arc::ptr_eq(known.0, ports) => known,
                _ => {
                    let key = subset_key(&ports.list);
                    *last.insert((ports, self.ports.iter().position(|known| *known == key)))
                }
            };
            let mut same = by_name.iter_hash(hasher.hash_one(address.name));
            let is_there = same.any(|at| {
                let (of, stored) = &self.addresses[*at];
                Some(*of) == subset && stored.view() == address
            });
            if !is_there {
                return false;
            }
        }
        count == self.addresses.len()
    }
}

/// Returns the subsets of Endpoints; `None` if the member `subsets` is not a list.
fn subsets_of(endpoints: &DynamicObject) -> Option<&[Value]> {
    match endpoints.fields.get("subsets") {
        None | Some(Value::Null) => Some(&[]),
        Some(subsets) => subsets.as_array().map(Vec::as_slice),
    }
}

/// Returns a key that identifies the ports of a subset.
fn subset_key(ports: &[Value]) -> Vec<String> {
    let mut key: Vec<String> = ports.iter().map(Value::to_string).collect();
    key.sort();
    key.dedup();
    key
}

fn place(address: &Endpoint<'_>) -> Place {
    let ip = address.addresses.first().map(Address::to_string);
    (ip.and_then(|ip| ip.parse().ok()), address.uid.to_string())
}

/// Returns an entry without addresses for these ports, whose key is `key`.
fn of_ports(ports: &[Value], key: &[String]) -> OfPorts {
    let mut ports = ports.to_vec();
    ports.sort_by_cached_key(Value::to_string);
    ports.truncate(key.len());
    (
        ports.into_iter().map(endpoint_port).collect(),
        Default::default(),
    )
}

fn by_ports(pods: &[Selected], said: &Said) -> ByPorts {
    let mut by_ports = ByPorts::new();
    for selected in pods {
        let Some(address) = said.address(selected) else {
            continue;
        };
        let ports = &selected.ports.list;
        let of_ports = by_ports
            .entry(subset_key(ports))
            .or_insert_with_key(|key| of_ports(ports, key));
        let is_ready = address.conditions.ready;
        of_ports.1[usize::from(!is_ready)].insert(place(&address), address.to_address());
    }
    by_ports
}

/// Builds the subsets in upstream's form: the addresses with the same ports form one subset, which
/// has ready addresses and other addresses in separate lists.
fn render(by_ports: ByPorts) -> Vec<Value> {
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

/// Converts a port in Endpoints to the form of a Service's port, which always has a name, possibly
/// an empty one.
pub(super) fn named_port(port: &Value) -> Value {
    let mut port = port.clone();
    if port["name"].is_null() {
        port["name"] = "".into();
    }
    port
}

/// Converts a port to the form in Endpoints, which has no empty names.
fn endpoint_port(mut port: Value) -> Value {
    if port["name"] == ""
        && let Some(members) = port.as_object_mut()
    {
        members.remove("name");
    }
    port
}

/// Limits the number of addresses; keeps ready ones first. Returns whether any were left out.
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
