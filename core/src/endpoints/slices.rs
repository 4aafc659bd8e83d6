//! The EndpointSlices that a sync creates, updates and deletes. The first aim is to make as few
//! writes as possible, the second to fill the slices.
//!
//! Source: the reconciler of Kubernetes' `k8s.io/endpointslice`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;
use podstorm_objects::cells::items;
use podstorm_objects::{DynamicObject, Kind, Labels, Time};
use podstorm_runtime::store::Cached as _;
use serde_json::{Map, Value};

use super::cache::{CachedService, CachedSlice, MANAGED_BY, MANAGER, SERVICE_NAME};
use super::endpoint::Endpoint;
use super::selected::{Ports, Selected, is_v6};
use super::trigger;

/// The label that marks objects of a Service without a cluster IP.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// The maximum number of endpoints in a slice: upstream's `--max-endpoints-per-slice`.
const ENDPOINTS_MAX: usize = 100;

/// The writes that a sync makes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<DynamicObject>,
    pub(super) update: Vec<DynamicObject>,
    pub(super) delete: Vec<Arc<DynamicObject>>,
}

/// Returns the address types for which a Service has slices.
pub(super) fn families(service: &CachedService) -> Vec<&'static str> {
    let of = |family: &Value| if family == "IPv6" { "IPv6" } else { "IPv4" };
    let families: Vec<_> = items(service.spec(), "/ipFamilies").map(of).collect();
    match families.is_empty() {
        true => vec![if service.spec()["clusterIP"].as_str().is_some_and(is_v6) {
            "IPv6"
        } else {
            "IPv4"
        }],
        false => families,
    }
}

/// Plans the writes after which the slices of a Service have exactly the endpoints of these pods.
/// O(pods + endpoints), and O(log n) for each of `n` new endpoints. Allocates for each slice, but
/// builds JSON only for the slices that change.
pub(super) fn plan(
    service: &CachedService,
    pods: &[Selected],
    existing: &Index,
    trigger: Option<Time>,
) -> Plan {
    let mut plan = Plan::default();
    let all = existing.slices.iter().map(|slice| &**slice);
    let mut unused: Vec<(usize, &CachedSlice)> = all.enumerate().collect();
    for family in families(service) {
        let is_of_it = |(_, slice): &(usize, &CachedSlice)| slice.family() == Some(family);
        let (own, others) = unused.into_iter().partition(is_of_it);
        unused = others;
        let mut of_family = FamilyPlan::new(service, family);
        of_family.fill(pods, own, existing);
        plan.create.append(&mut of_family.plan.create);
        plan.update.append(&mut of_family.plan.update);
        plan.delete.append(&mut of_family.plan.delete);
    }
    let unused = unused
        .into_iter()
        .map(|(_, slice)| Arc::clone(slice.object()));
    plan.delete.extend(unused);
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        let annotations = slice.metadata.annotations.without(trigger::ANNOTATION);
        slice.metadata.annotations = match trigger {
            Some(at) => annotations.with(trigger::ANNOTATION, &at.to_string()),
            None => annotations,
        };
    }
    plan
}

/// Returns a string that identifies a list of ports.
pub(super) fn ports_key(ports: &[Value]) -> String {
    let mut texts: Vec<String> = ports.iter().map(Value::to_string).collect();
    texts.sort();
    texts.join(",")
}

/// Returns the endpoints of a slice.
pub(super) fn endpoints_of(slice: &DynamicObject) -> &[Value] {
    let endpoints = slice.fields.get("endpoints").and_then(Value::as_array);
    endpoints.map_or(&[], Vec::as_slice)
}

/// The plan for the slices of one address type.
struct FamilyPlan<'s> {
    service: &'s CachedService,
    family: &'static str,
    labels: Labels,
    plan: Plan,
}

impl<'s> FamilyPlan<'s> {
    fn new(service: &'s CachedService, family: &'static str) -> FamilyPlan<'s> {
        let mut labels = service.meta().labels.clone();
        labels = match service.is_headless() {
            true => labels.with(HEADLESS, ""),
            false => labels.without(HEADLESS),
        };
        FamilyPlan {
            labels: labels
                .with(SERVICE_NAME, &service.meta().name)
                .with(MANAGED_BY, MANAGER),
            service,
            family,
            plan: Plan::default(),
        }
    }

    /// Fills `own`, the slices of the address type with their positions in the index.
    fn fill(&mut self, pods: &'s [Selected], own: Vec<(usize, &'s CachedSlice)>, index: &'s Index) {
        let count = own.len();
        // The number of each list of ports. The slices are filled in the order of these numbers.
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut all: Vec<OfPorts<'_>> = Vec::new();
        let mut number_of = |key: &'s str, all: &mut Vec<OfPorts<'_>>| {
            *numbers.entry(key).or_insert_with(|| {
                all.push(OfPorts::default());
                all.len() - 1
            })
        };
        // The place of each slice of the index in `all`, if it has this address type.
        let mut homes: Vec<Option<(usize, usize)>> = vec![None; index.slices.len()];
        for (at, slice) in own {
            let number = number_of(&slice.ports_key, &mut all);
            let slices = &mut all[number].slices;
            homes[at] = Some((number, slices.len()));
            slices.push((slice, vec![None; slice.endpoints.len()]));
        }
        let v6 = self.family == "IPv6";
        let publishes_unready = self.service.publishes_unready();
        // Pods with one spec share their ports.
        let mut last: Option<(&Arc<Ports>, usize)> = None;
        for (pod, selected) in (0..).zip(pods) {
            let Some(endpoint) = selected.endpoint(v6, publishes_unready) else {
                continue;
            };
            let known = last.filter(|(ports, _)| Arc::ptr_eq(ports, &selected.ports));
            let number = match known {
                Some((_, number)) => number,
                None => number_of(&selected.ports.key, &mut all),
            };
            last = Some((&selected.ports, number));
            let of_ports = &mut all[number];
            of_ports.ports = Some(&selected.ports.list);
            let slices = &mut of_ports.slices;
            let same = index.named(selected.hash).filter_map(|(at, place)| {
                let (_, slice) = homes[at].filter(|(home, _)| *home == number)?;
                let stored = &slices[slice].0.endpoints[place];
                let is_right = stored.is_plain && stored.view() == endpoint;
                let is_same = is_right || stored.view().is_same(&endpoint);
                is_same.then_some((slice, place, is_right))
            });
            // Of equal endpoints in several slices, the first one counts.
            match same.min_by_key(|(slice, place, _)| (*slice, *place)) {
                Some((slice, place, is_right)) => {
                    slices[slice].1[place] = Some(Found { pod, is_right });
                }
                None => of_ports.new.push((pod, endpoint)),
            }
        }
        for number in numbers.into_values() {
            let of_ports = std::mem::take(&mut all[number]);
            match of_ports.ports {
                Some(ports) => self.fill_ports(ports, of_ports, |pod| {
                    let endpoint = pods[pod as usize].endpoint(v6, publishes_unready);
                    endpoint.map_or(Value::Null, Endpoint::to_json)
                }),
                None => {
                    let slices = of_ports.slices.iter();
                    let objects = slices.map(|(slice, _)| Arc::clone(slice.object()));
                    self.plan.delete.extend(objects);
                }
            }
        }
        if self.plan.delete.len() == count && self.plan.create.is_empty() {
            self.keep_one_empty();
        }
        self.reuse_deleted();
    }

    /// Puts endpoints with the same ports into slices: first into the slices that have them, then
    /// into slices that change anyway, then into the fullest slice with capacity for the rest, then
    /// into new slices. `json` returns the JSON of a pod's endpoint.
    fn fill_ports(&mut self, ports: &[Value], of_ports: OfPorts<'_>, json: impl Fn(u32) -> Value) {
        let mut kept: Vec<&CachedSlice> = Vec::new();
        let mut changed: Vec<(DynamicObject, Vec<Value>)> = Vec::new();
        for (slice, found) in of_ports.slices {
            let object = slice.object();
            let is_right = |found: &Option<Found>| found.is_some_and(|it| it.is_right);
            if found.iter().all(Option::is_none) {
                self.plan.delete.push(Arc::clone(object));
            } else if object.metadata.labels == self.labels && found.iter().all(is_right) {
                kept.push(slice);
            } else {
                let endpoints = endpoints_of(object).iter().zip(&found);
                let after = endpoints.filter_map(|(endpoint, found)| match (*found)? {
                    Found { is_right: true, .. } => Some(endpoint.clone()),
                    Found { pod, .. } => Some(json(pod)),
                });
                changed.push((DynamicObject::clone(object), after.collect()));
            }
        }
        changed.sort_by_key(|(_, endpoints)| Reverse(endpoints.len()));
        let mut new = of_ports.new;
        new.sort_by_cached_key(|(_, endpoint)| endpoint.order());
        let mut new = new.into_iter().map(|(pod, _)| json(pod));
        for (_, endpoints) in &mut changed {
            take(&mut new, endpoints);
        }
        while new.len() > 0 {
            let count = new.len();
            let fits = |slice: &&&CachedSlice| slice.endpoints.len() + count <= ENDPOINTS_MAX;
            let fullest = kept.iter().filter(fits).max_by_key(|it| it.endpoints.len());
            let (slice, mut endpoints) = match fullest.copied() {
                Some(slice) => {
                    kept.retain(|it| !std::ptr::eq(*it, slice));
                    let object = slice.object();
                    let endpoints = endpoints_of(object).to_vec();
                    (DynamicObject::clone(object), endpoints)
                }
                None => (self.new_slice(ports), Vec::new()),
            };
            take(&mut new, &mut endpoints);
            changed.push((slice, endpoints));
        }
        for (mut slice, endpoints) in changed {
            slice.metadata.labels = self.labels.clone();
            slice
                .fields
                .insert("endpoints".to_owned(), endpoints.into());
            match slice.metadata.name.is_empty() {
                true => self.plan.create.push(slice),
                false => self.plan.update.push(slice),
            }
        }
    }

    /// Keeps or creates one empty slice, for a Service without endpoints.
    fn keep_one_empty(&mut self) {
        let is_it = |slice: &Arc<DynamicObject>| {
            let is_empty = |member: &str| match slice.fields.get(member) {
                Some(Value::Array(list)) => list.is_empty(),
                other => other.is_none_or(Value::is_null),
            };
            is_empty("endpoints") && is_empty("ports") && slice.metadata.labels == self.labels
        };
        match &self.plan.delete[..] {
            [one] if is_it(one) => self.plan.delete.clear(),
            _ => {
                let slice = self.new_slice(&[]);
                self.plan.create.push(slice);
            }
        }
    }

    /// Turns each pair of a deleted and a created slice into an update: one write instead of two.
    fn reuse_deleted(&mut self) {
        let Plan {
            create,
            update,
            delete,
        } = &mut self.plan;
        let mut left = Vec::new();
        for old in delete.drain(..) {
            if old.metadata.is_deleting() || create.is_empty() {
                left.push(old);
                continue;
            }
            let mut new = DynamicObject::clone(&old);
            let created = create.remove(0);
            new.metadata.labels = created.metadata.labels;
            new.fields = created.fields;
            update.push(new);
        }
        *delete = left;
    }

    fn new_slice(&self, ports: &[Value]) -> DynamicObject {
        let service = self.service.meta();
        let mut slice = DynamicObject::new(Kind::ENDPOINT_SLICE);
        let meta = &mut slice.metadata;
        meta.namespace = service.namespace.clone();
        meta.generate_name = Some(format!("{}-", service.name).into());
        meta.labels = self.labels.clone();
        meta.owner_references
            .push(Arc::new(Kind::SERVICE.controller_reference(service)));
        let list = |list: &[Value]| match list {
            [] => Value::Null,
            list => list.into(),
        };
        slice.fields = Map::from_iter([
            ("addressType".to_owned(), self.family.into()),
            ("endpoints".to_owned(), Value::Null),
            ("ports".to_owned(), list(ports)),
        ]);
        slice
    }
}

/// The slices and pods with the same ports.
#[derive(Default)]
struct OfPorts<'s> {
    /// The ports of the pods; `None` if there are no pods.
    ports: Option<&'s [Value]>,
    /// The slices. Each has, for each of its endpoints, the wanted endpoint that it matches, if
    /// any.
    slices: Vec<(&'s CachedSlice, Vec<Option<Found>>)>,
    /// The wanted endpoints that are not in any slice, with the numbers of their pods.
    new: Vec<(u32, Endpoint<'s>)>,
}

/// A wanted endpoint that a slice already has.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// The number of the pod.
    pod: u32,
    /// Whether the endpoint in the slice has the right content.
    is_right: bool,
}

/// The slices of a Service, and an index of their endpoints by pod name. Kept between syncs for as
/// long as the slices stay the same.
#[derive(Debug, Default)]
pub(super) struct Index {
    slices: Vec<Arc<CachedSlice>>,
    /// The positions of slice and endpoint, each with the hash of the pod's name.
    places: HashTable<(u64, u32, u32)>,
}

impl Index {
    /// Replaces the slices. O(endpoints), or O(slices) if they are unchanged.
    pub(super) fn update(&mut self, slices: Vec<Arc<CachedSlice>>, hasher: &RandomState) {
        let (known, new) = (self.slices.iter(), slices.iter());
        if slices.len() == self.slices.len() && known.zip(new).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return;
        }
        self.places.clear();
        let count = slices.iter().map(|slice| slice.endpoints.len()).sum();
        self.places.reserve(count, |place| place.0);
        for (at, slice) in (0..).zip(&slices) {
            for (place, endpoint) in (0..).zip(&slice.endpoints) {
                let hash = hasher.hash_one(endpoint.view().name);
                let place = (hash, at, place);
                self.places.insert_unique(hash, place, |place| place.0);
            }
        }
        self.slices = slices;
    }

    /// Returns the positions, as slice and endpoint, of the endpoints whose pod name has this hash.
    fn named(&self, hash: u64) -> impl Iterator<Item = (usize, usize)> {
        let places = self.places.iter_hash(hash);
        let places = places.filter(move |place| place.0 == hash);
        places.map(|(_, at, place)| (*at as usize, *place as usize))
    }
}

/// Moves new endpoints into a slice until the slice is full.
fn take(new: &mut impl Iterator<Item = Value>, endpoints: &mut Vec<Value>) {
    let room = ENDPOINTS_MAX.saturating_sub(endpoints.len());
    endpoints.extend(new.take(room));
}
