//! Which EndpointSlices a sync creates, changes and deletes: as few writes as possible, as full slices as
//! that allows.
//!
//! Source: the reconciler of Kubernetes' `k8s.io/endpointslice`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::cells::items;
use podstorm_objects::{DynamicObject, Kind, Labels, Pod, Str, Time};
use serde_json::{Map, Value, json};

use super::cache::{CachedService, MANAGED_BY, MANAGER, SERVICE_NAME};
use super::selected::{Selected, is_v6};
use super::trigger;

/// The label of what belongs to a Service without an address of its own.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";

/// Most endpoints of a slice: upstream's `--max-endpoints-per-slice`.
const ENDPOINTS_MAX: usize = 100;

/// What a sync writes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<DynamicObject>,
    pub(super) update: Vec<DynamicObject>,
    pub(super) delete: Vec<Arc<DynamicObject>>,
}

/// Endpoints by what tells them apart.
pub(super) type Endpoints = BTreeMap<String, Value>;

/// The address types of a Service.
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

/// What is to be written so that the slices of a Service have these pods; `zone` is that of a pod's node.
/// O((pods + endpoints) × log).
pub(super) fn plan(
    service: &CachedService,
    pods: &[Selected],
    existing: &[Arc<DynamicObject>],
    zone: impl Fn(&Pod) -> Option<Str>,
    trigger: Option<Time>,
) -> Plan {
    let mut plan = Plan::default();
    let families = families(service);
    let family_of = |slice: &DynamicObject| slice.fields.get("addressType").cloned();
    let mut unused: Vec<_> = existing.to_vec();
    for family in families {
        let is_of_it = |it: &Arc<DynamicObject>| family_of(it).is_some_and(|it| it == family);
        let (own, others) = unused.into_iter().partition(is_of_it);
        unused = others;
        let mut of_family = FamilyPlan::new(service, family);
        of_family.fill(wanted(service, pods, family, &zone), own);
        plan.create.append(&mut of_family.plan.create);
        plan.update.append(&mut of_family.plan.update);
        plan.delete.append(&mut of_family.plan.delete);
    }
    plan.delete.append(&mut unused);
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        let annotations = slice.metadata.annotations.without(trigger::ANNOTATION);
        slice.metadata.annotations = match trigger {
            Some(at) => annotations.with(trigger::ANNOTATION, &at.to_string()),
            None => annotations,
        };
    }
    plan
}

/// The endpoints of one address type, by their ports.
fn wanted(
    service: &CachedService,
    pods: &[Selected],
    family: &str,
    zone: impl Fn(&Pod) -> Option<Str>,
) -> BTreeMap<String, (Vec<Value>, Endpoints)> {
    let mut by_ports: BTreeMap<String, (Vec<Value>, Endpoints)> = BTreeMap::new();
    for selected in pods {
        let of_family = |it: &&String| is_v6(it) == (family == "IPv6");
        let addresses: Vec<&String> = selected.addresses.iter().filter(of_family).collect();
        if addresses.is_empty() {
            continue;
        }
        let (pod, meta) = (&selected.pod, &selected.pod.metadata);
        let (serving, terminating) = (pod.is_ready(), meta.is_deleting());
        let ready = service.publishes_unready() || serving && !terminating;
        let mut endpoint = json!({
            "addresses": addresses,
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": target(pod),
        });
        let members = endpoint.as_object_mut().expect("it is written as one");
        let mut set = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                members.insert(name.to_owned(), value.into());
            }
        };
        set("nodeName", pod.node_name.as_deref());
        set("zone", zone(pod).as_deref());
        set("hostname", selected.hostname.as_deref());
        let key = ports_key(&selected.ports);
        let of_ports = by_ports.entry(key).or_insert_with(|| {
            let ports = selected.ports.to_vec();
            (ports, Endpoints::new())
        });
        of_ports.1.insert(endpoint_key(&endpoint), endpoint);
    }
    by_ports
}

/// The reference to a pod that endpoints carry.
pub(super) fn target(pod: &Pod) -> Value {
    let meta = &pod.metadata;
    json!({"kind": "Pod", "namespace": &*meta.namespace, "name": &*meta.name, "uid": meta.uid.to_string()})
}

/// What tells one list of ports from another.
pub(super) fn ports_key(ports: &[Value]) -> String {
    let mut texts: Vec<String> = ports.iter().map(Value::to_string).collect();
    texts.sort();
    texts.join(",")
}

/// What tells one endpoint from another: its addresses, its host name and its pod.
pub(super) fn endpoint_key(endpoint: &Value) -> String {
    let mut addresses: Vec<&str> = items(endpoint, "/addresses")
        .filter_map(Value::as_str)
        .collect();
    addresses.sort_unstable();
    let target = &endpoint["targetRef"];
    let parts = [&target["name"], &target["namespace"], &endpoint["hostname"]];
    let parts = parts.map(|part| part.as_str().unwrap_or(""));
    format!("{} {}", parts.join(" "), addresses.join(" "))
}

/// The endpoints of a slice.
pub(super) fn endpoints_of(slice: &DynamicObject) -> &[Value] {
    let endpoints = slice.fields.get("endpoints").and_then(Value::as_array);
    endpoints.map_or(&[], Vec::as_slice)
}

/// The plan of the slices of one address type.
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

    fn fill(
        &mut self,
        wanted: BTreeMap<String, (Vec<Value>, Endpoints)>,
        existing: Vec<Arc<DynamicObject>>,
    ) {
        let count = existing.len();
        let mut by_ports: BTreeMap<String, Vec<Arc<DynamicObject>>> = BTreeMap::new();
        for slice in existing {
            let ports = slice.fields.get("ports").and_then(Value::as_array);
            let key = ports_key(ports.map_or(&[], Vec::as_slice));
            by_ports.entry(key).or_default().push(slice);
        }
        for (key, (ports, endpoints)) in wanted {
            let slices = by_ports.remove(&key).unwrap_or_default();
            self.fill_ports(&ports, endpoints, slices);
        }
        self.plan.delete.extend(by_ports.into_values().flatten());
        if self.plan.delete.len() == count && self.plan.create.is_empty() {
            self.keep_one_empty();
        }
        self.reuse_deleted();
    }

    /// Puts endpoints with the same ports into slices: first where they are, then into those that change
    /// anyway, then into the fullest one that has room for the rest, then into new ones.
    fn fill_ports(
        &mut self,
        ports: &[Value],
        mut wanted: Endpoints,
        slices: Vec<Arc<DynamicObject>>,
    ) {
        let mut kept: Vec<Arc<DynamicObject>> = Vec::new();
        let mut changed: Vec<(DynamicObject, Vec<Value>)> = Vec::new();
        for slice in slices {
            let mut is_changed = slice.metadata.labels != self.labels;
            let before = endpoints_of(&slice);
            let mut after = Vec::with_capacity(before.len());
            for endpoint in before {
                match wanted.remove(&endpoint_key(endpoint)) {
                    Some(new) => {
                        is_changed |= new != *endpoint;
                        after.push(new);
                    }
                    None => is_changed = true,
                }
            }
            match after.is_empty() {
                true => self.plan.delete.push(slice),
                false if is_changed => changed.push((DynamicObject::clone(&slice), after)),
                false => kept.push(slice),
            }
        }
        changed.sort_by_key(|(_, endpoints)| Reverse(endpoints.len()));
        for (_, endpoints) in &mut changed {
            take(&mut wanted, endpoints);
        }
        while !wanted.is_empty() {
            let fits = |slice: &&Arc<DynamicObject>| {
                endpoints_of(slice).len() + wanted.len() <= ENDPOINTS_MAX
            };
            let fullest = kept
                .iter()
                .filter(fits)
                .max_by_key(|it| endpoints_of(it).len());
            let fullest = fullest.cloned();
            let (slice, mut endpoints) = match fullest {
                Some(slice) => {
                    kept.retain(|it| !Arc::ptr_eq(it, &slice));
                    let endpoints = endpoints_of(&slice).to_vec();
                    (DynamicObject::clone(&slice), endpoints)
                }
                None => (self.new_slice(ports), Vec::new()),
            };
            take(&mut wanted, &mut endpoints);
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

    /// A Service without endpoints has a slice without endpoints.
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

    /// One that would go becomes one that would come: one write where there were two.
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

/// Fills a slice up.
fn take(wanted: &mut Endpoints, endpoints: &mut Vec<Value>) {
    while endpoints.len() < ENDPOINTS_MAX
        && let Some((_, endpoint)) = wanted.pop_first()
    {
        endpoints.push(endpoint);
    }
}
