//! The slices that mirror Endpoints: one for each list of ports and address type.
//!
//! Source: `reconciler` in Kubernetes' `pkg/controller/endpointslicemirroring`.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::cells::items;
use podstorm_objects::{DynamicObject, Kind, Labels};
use serde_json::{Map, Value, json};

use crate::endpoints::cache::{MANAGED_BY, MIRRORING_MANAGER, SERVICE_NAME};
use crate::endpoints::slices::{Plan, endpoints_of, ports_key};
use crate::endpoints::subsets::named_port;
use crate::endpoints::trigger;

/// The maximum number of addresses per subset: upstream's default of
/// `--mirroring-max-endpoints-per-subset`.
const ADDRESSES_MAX: usize = 1_000;

/// The annotation that holds the configuration that `kubectl apply` last applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The writes of a sync, and the number of addresses that it skips.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    pub(super) plan: Plan,
    /// The number of addresses that are not IP addresses.
    invalid_count: usize,
    /// The number of all skipped addresses: the invalid ones, and those above the limit of a
    /// subset.
    skipped_count: usize,
}

impl Mirror {
    /// Returns the reasons and messages of the Events about skipped addresses.
    pub(super) fn events(&self) -> Vec<(&'static str, String)> {
        let (invalid, skipped) = (self.invalid_count, self.skipped_count);
        let mut events = Vec::new();
        if invalid > 0 {
            let text =
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            events.push(("InvalidIPAddress", text));
        }
        if skipped > invalid {
            let text = format!(
                "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                 {skipped} addresses were skipped"
            );
            events.push(("TooManyAddressesToMirror", text));
        }
        events
    }
}

/// The endpoints of a slice, each under the key that identifies it.
type Endpoints = BTreeMap<String, Value>;

/// The key of a slice: its address type and its ports.
type Key = (&'static str, String);

/// Plans the writes after which the slices mirror the Endpoints. O(n log n) in the number of
/// addresses and existing endpoints.
pub(super) fn mirror(endpoints: &DynamicObject, existing: &[Arc<DynamicObject>]) -> Mirror {
    let mut mirror = Mirror::default();
    let wanted = mirror.wanted(endpoints);
    let mut by_key: BTreeMap<(String, String), Vec<&Arc<DynamicObject>>> = BTreeMap::new();
    for slice in existing {
        let family = slice.fields.get("addressType").and_then(Value::as_str);
        let ports = slice.fields.get("ports").and_then(Value::as_array);
        let key = ports_key(ports.map_or(&[], Vec::as_slice));
        let key = (family.unwrap_or("").to_owned(), key);
        by_key.entry(key).or_default().push(slice);
    }
    let plan = &mut mirror.plan;
    for ((family, key), (ports, wanted)) in wanted {
        let slices = by_key.remove(&(family.to_owned(), key));
        let mut slices = slices.into_iter().flatten();
        let mut slice = slice(
            endpoints,
            family,
            &ports,
            wanted.values().cloned().collect(),
        );
        let Some(first) = slices.next() else {
            plan.create.push(slice);
            continue;
        };
        plan.delete.extend(slices.map(Arc::clone));
        let has = endpoints_of(first)
            .iter()
            .map(|it| (endpoint_key(it), it.clone()));
        let is_right = has.collect::<Endpoints>() == wanted
            && slice.metadata.labels.pairs() == first.metadata.labels.pairs()
            && slice.metadata.annotations.pairs() == first.metadata.annotations.pairs();
        if !is_right {
            take_place(&mut slice, first);
            plan.update.push(slice);
        }
    }
    plan.delete
        .extend(by_key.into_values().flatten().map(Arc::clone));
    reuse_deleted(plan);
    mirror
}

/// Turns each pair of a deleted and a created slice with the same address type into an update: one
/// write instead of two.
fn reuse_deleted(plan: &mut Plan) {
    let family = |slice: &DynamicObject| slice.fields.get("addressType").cloned();
    let mut create = Vec::new();
    for mut slice in std::mem::take(&mut plan.create) {
        let same = |old: &Arc<DynamicObject>| family(old) == family(&slice);
        match plan.delete.iter().position(same) {
            Some(place) => {
                take_place(&mut slice, &plan.delete.remove(place));
                plan.update.push(slice);
            }
            None => create.push(slice),
        }
    }
    plan.create = create;
}

/// Turns `slice` into the next version of the existing slice `old`.
fn take_place(slice: &mut DynamicObject, old: &DynamicObject) {
    let new = std::mem::replace(&mut slice.metadata, old.metadata.clone());
    slice.metadata.labels = new.labels;
    slice.metadata.annotations = new.annotations;
    slice.metadata.owner_references = new.owner_references;
}

/// Builds a slice for Endpoints. The slice has no name, only `generateName`.
fn slice(
    endpoints: &DynamicObject,
    family: &str,
    ports: &[Value],
    list: Vec<Value>,
) -> DynamicObject {
    let of = &endpoints.metadata;
    let mut slice = DynamicObject::new(Kind::ENDPOINT_SLICE);
    let meta = &mut slice.metadata;
    meta.namespace = of.namespace.clone();
    meta.generate_name = Some(format!("{}-", of.name).into());
    meta.labels = of
        .labels
        .with(SERVICE_NAME, &of.name)
        .with(MANAGED_BY, MIRRORING_MANAGER);
    meta.annotations = annotations(&of.annotations);
    meta.owner_references
        .push(Arc::new(Kind::ENDPOINTS.controller_reference(of)));
    let ports = match ports {
        [] => Value::Null,
        ports => ports.into(),
    };
    slice.fields = Map::from_iter([
        ("addressType".to_owned(), family.into()),
        ("endpoints".to_owned(), list.into()),
        ("ports".to_owned(), ports),
    ]);
    slice
}

/// Returns those annotations of Endpoints that their slices also get.
fn annotations(of: &Labels) -> Labels {
    of.without(trigger::ANNOTATION).without(LAST_APPLIED)
}

impl Mirror {
    /// Returns the ports and the endpoints of each wanted slice. Counts the addresses that it
    /// skips.
    fn wanted(&mut self, endpoints: &DynamicObject) -> BTreeMap<Key, (Vec<Value>, Endpoints)> {
        let mut wanted: BTreeMap<Key, (Vec<Value>, Endpoints)> = BTreeMap::new();
        let all = json!({"subsets": endpoints.fields.get("subsets")});
        for subset in items(&all, "/subsets") {
            let ports: Vec<Value> = items(subset, "/ports").map(named_port).collect();
            let key = ports_key(&ports);
            let ready = items(subset, "/addresses").map(|it| (it, true));
            let others = items(subset, "/notReadyAddresses").map(|it| (it, false));
            let mut added = 0;
            for (address, is_ready) in ready.chain(others) {
                if added == ADDRESSES_MAX {
                    self.skipped_count += 1;
                    continue;
                }
                let Some((family, endpoint)) = endpoint(address, is_ready) else {
                    self.invalid_count += 1;
                    self.skipped_count += 1;
                    continue;
                };
                added += 1;
                let slice = wanted.entry((family, key.clone()));
                let (_, list) = slice.or_insert_with(|| (ports.clone(), Endpoints::new()));
                list.insert(endpoint_key(&endpoint), endpoint);
            }
        }
        wanted
    }
}

/// Returns the address type and the endpoint for an address; `None` if the address is not a valid
/// IP address.
fn endpoint(address: &Value, is_ready: bool) -> Option<(&'static str, Value)> {
    let ip: IpAddr = address["ip"].as_str()?.parse().ok()?;
    let ip = ip.to_canonical();
    let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": is_ready}});
    for member in ["hostname", "nodeName", "targetRef"] {
        let value = &address[member];
        if !value.is_null() && value != "" {
            endpoint[member] = value.clone();
        }
    }
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint))
}

/// Returns a key that identifies an endpoint: its addresses, host name and pod.
fn endpoint_key(endpoint: &Value) -> String {
    let mut addresses: Vec<&str> = items(endpoint, "/addresses")
        .filter_map(Value::as_str)
        .collect();
    addresses.sort_unstable();
    let target = &endpoint["targetRef"];
    let parts = [&target["name"], &target["namespace"], &endpoint["hostname"]];
    let parts = parts.map(|part| part.as_str().unwrap_or(""));
    format!("{} {}", parts.join(" "), addresses.join(" "))
}
