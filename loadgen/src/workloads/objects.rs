//! Generates a cluster: namespaces, nodes, and the parts that its workloads share. All pods have
//! the same spec.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::format_compact;
use podstorm::client::ApiError;
use podstorm_apiserver::Api;
use podstorm_objects::{
    DynamicObject, Labels, Map, Namespace, Node, Now, ObjectMeta, PodSpec, PodTemplate, Quantity,
    Str,
};
use serde_json::{Value, json};

use super::ClusterSize;
use super::flags::FlagValues;
use crate::input::named_namespace;

/// Generates the objects of a cluster of a given size.
#[derive(Debug)]
pub(crate) struct Objects {
    size: ClusterSize,
    namespaces: Vec<Str>,
    /// The scenario's groups; empty without groups. Each entry contains the number of workloads up
    /// to the end of the group, and the pods of each workload in it.
    groups: Vec<(u64, i32)>,
    /// The labels that the scenario's pod template adds to every pod.
    labels: Labels,
    annotations: Labels,
    /// The spec that all pods of all workloads share. All defaults are set, so that the server has
    /// nothing to add and need not copy the spec.
    pod_spec: Arc<PodSpec>,
    /// Whether nodes have a label with their name, even without zones.
    pub(crate) labels_nodes: bool,
    /// `minReadySeconds` of every workload.
    pub(crate) min_ready_seconds: i32,
    /// The values of the workloads' flags.
    pub(crate) values: FlagValues,
}

impl Objects {
    /// Creates the generator for a cluster of this size. Without a template, pods are small web
    /// servers whose defaults are set.
    pub(crate) fn new(size: ClusterSize, template: Option<Arc<PodTemplate>>) -> Objects {
        let count = size.namespaces.max(1);
        let (labels, annotations, pod_spec) = match template {
            Some(template) => (
                template.metadata.labels.clone(),
                template.metadata.annotations.clone(),
                Arc::clone(&template.spec),
            ),
            None => (
                Labels::default(),
                Labels::default(),
                Arc::new(default_pod_spec()),
            ),
        };
        let mut end = 0;
        let groups = size.groups.iter().map(|&(sets, pods)| {
            end += sets;
            (end, pods)
        });
        let groups: Vec<(u64, i32)> = groups.collect();
        Objects {
            groups,
            labels,
            annotations,
            namespaces: (0..count)
                .map(|number| format!("load-{number:03}").into())
                .collect(),
            size,
            pod_spec,
            labels_nodes: false,
            min_ready_seconds: 0,
            values: FlagValues::default(),
        }
    }

    pub(crate) fn namespace(&self, number: u64) -> Namespace {
        named_namespace(&self.namespaces[number as usize])
    }

    pub(crate) fn node(&self, number: u64) -> Node {
        let name = format_compact!("node-{number:05}");
        let pods = self.size.pods_per_node;
        let (cpu, memory) = (&self.size.node_cpu, &self.size.node_memory);
        let cpu = cpu.as_ref().map(|cores| ("cpu", cores.to_string()));
        let memory = memory.as_ref().map(|bytes| ("memory", bytes.to_string()));
        let has: Map = (cpu.into_iter().chain(memory))
            .map(|(name, amount)| (name.to_owned(), amount.into()))
            .collect();
        let mut status = Map::new();
        if !has.is_empty() {
            status.insert("capacity".to_owned(), has.clone().into());
            status.insert("allocatable".to_owned(), has.into());
        }
        Node {
            status,
            metadata: ObjectMeta {
                labels: self.node_labels(number, &name),
                name,
                ..ObjectMeta::default()
            },
            // Stands in for `status.allocatable`, which would take a kilobyte per node.
            pods_allocatable: Some(pods),
            ..Node::default()
        }
    }

    fn node_labels(&self, number: u64, name: &str) -> Labels {
        let zone = self.size.zones.and_then(|zones| number.checked_rem(zones));
        let zone = zone.map(|rest| format!("zone-{}", rest + 1));
        if zone.is_none() && !self.labels_nodes {
            return Labels::ABSENT;
        }
        let host = ("kubernetes.io/hostname", name.to_owned());
        let zone = zone.map(|zone| ("topology.kubernetes.io/zone", zone));
        Labels::from_pairs([Some(host), zone].into_iter().flatten())
    }

    /// Returns the namespace of a workload.
    pub(crate) fn namespace_of(&self, number: u64) -> &Str {
        &self.namespaces[(number % self.namespaces.len() as u64) as usize]
    }

    /// Returns the number of pods of workload `number` at 100 %: that of its group, or an equal
    /// share of the cluster's pods.
    pub(crate) fn share(&self, number: u64) -> i32 {
        if !self.groups.is_empty() {
            let at = self.groups.partition_point(|(end, _)| *end <= number);
            return self.groups.get(at).map_or(0, |(_, pods)| *pods);
        }
        let count = self.size.workloads().max(1);
        let share = self.size.pods / count + u64::from(number < self.size.pods % count);
        i32::try_from(share).unwrap_or(i32::MAX)
    }

    /// Returns the template for pods with these labels.
    pub(crate) fn template(&self, labels: &Labels) -> Arc<PodTemplate> {
        Arc::new(PodTemplate {
            metadata: ObjectMeta {
                labels: with(&self.labels, labels),
                annotations: self.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: Arc::clone(&self.pod_spec),
            node_name: None,
            token_volume: None,
        })
    }
}

/// Returns the metadata for recreating a stored object.
pub(crate) fn recreated(stored: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: stored.name.clone(),
        namespace: stored.namespace.clone(),
        labels: stored.labels.clone(),
        annotations: stored.annotations.clone(),
        owner_references: stored.owner_references.clone(),
        ..ObjectMeta::default()
    }
}

/// Returns the labels of `template`, overlaid with those of `generated`.
pub(crate) fn with(template: &Labels, generated: &Labels) -> Labels {
    if template.is_empty() {
        return generated.clone();
    }
    let own = |(key, _): &&(Str, Str)| generated.get(key).is_none();
    let all = template.pairs().iter().filter(own).chain(generated.pairs());
    Labels::from_pairs(all.cloned())
}

/// Reads an untyped object, changes its spec, writes it, and returns the metadata after the write.
///
/// # Errors
/// The error of the server.
pub(crate) fn change_spec(
    api: &Api<'_>,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
    now: Now,
) -> Result<ObjectMeta, ApiError> {
    let found = api.get(namespace, name)?;
    let Some(mut object) = found.downcast_ref::<DynamicObject>().cloned() else {
        return Ok(found.metadata().clone());
    };
    if let Some(spec) = object.fields.get_mut("spec") {
        change(spec);
    }
    let changed = api.update(Arc::new(object), now)?;
    Ok(changed.metadata().clone())
}

/// Returns the resource requests of each pod from a template; by default, from the built-in
/// template.
pub(crate) fn pod_requests(template: Option<&PodTemplate>) -> BTreeMap<String, Quantity> {
    match template {
        Some(template) => requests_of(&template.spec),
        None => requests_of(&default_pod_spec()),
    }
}

/// Returns the resource requests of each pod with this spec.
pub(crate) fn requests_of(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let members = ["containers", "initContainers", "resources", "overhead"];
    let needs = members.map(|name| (name.to_owned(), spec.get(name).unwrap_or_default()));
    podstorm_apiserver::pod_requests(&Value::Object(needs.into_iter().collect()))
}

/// Returns the members of a JSON object; empty for any other value.
pub(crate) fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Returns the pod spec of a small web server, with the defaults of the API server.
fn default_pod_spec() -> PodSpec {
    let members = members(json!({
        "containers": [{
            "name": "app",
            "image": "registry.example/load/app:1.0",
            "imagePullPolicy": "IfNotPresent",
            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": true,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }));
    PodSpec::from_json(members).expect("the server's form of the spec is valid")
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Object;

    use super::*;
    use crate::settings::Settings;

    fn objects(pods: u64, replicasets: u64, namespaces: u64) -> Objects {
        let flags = format!("--pods {pods} --replicasets {replicasets} --namespaces {namespaces}");
        Settings::of_flags(&flags, 1).unwrap().objects()
    }

    #[test]
    fn shares_are_even_and_add_up() {
        let objects = objects(103, 10, 4);
        let shares: Vec<i32> = (0..10).map(|number| objects.share(number)).collect();
        assert_eq!(shares, [11, 11, 11, 10, 10, 10, 10, 10, 10, 10]);
    }

    #[test]
    fn nodes_have_the_capacity_of_flags_or_only_of_pods() {
        let status = |flags: &str| {
            let objects = Settings::of_flags(flags, 1).unwrap().objects();
            objects.node(0).to_json()["status"].clone()
        };
        let alone = json!({"allocatable": {"pods": "110"}});
        assert_eq!(status("--pods 10"), alone);
        let both = status("--pods 10 --node-cpu 1500m --node-memory 64Gi");
        let has = json!({"cpu": "1500m", "memory": "64Gi", "pods": "110"});
        assert_eq!(both["allocatable"], has);
        assert_eq!(both["capacity"]["memory"], "64Gi");
        assert_eq!(
            status("--pods 10 --node-cpu 2")["capacity"],
            json!({"cpu": "2"})
        );
    }

    #[test]
    fn nodes_are_spread_over_zones_round_robin() {
        let labels = |flags: &str| -> Vec<Labels> {
            let objects = Settings::of_flags(flags, 1).unwrap().objects();
            let labels = (0..3).map(|number| objects.node(number).metadata.labels);
            labels.collect()
        };
        let of = |number: u64, zone: &str| {
            Labels::from_pairs([
                ("kubernetes.io/hostname", format!("node-{number:05}")),
                ("topology.kubernetes.io/zone", zone.to_owned()),
            ])
        };
        let expected = [of(0, "zone-1"), of(1, "zone-2"), of(2, "zone-1")];
        assert_eq!(labels("--pods 10 --zones 2"), expected);
        // Nothing uses the labels, so nodes cost no more than their names.
        assert_eq!(labels("--pods 10"), [const { Labels::ABSENT }; 3]);
    }
}
