//! The generated cluster: namespaces, nodes, and what its workloads share. Their pods have one spec.

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

/// Makes the objects of a generated cluster.
#[derive(Debug)]
pub(crate) struct Objects {
    size: ClusterSize,
    namespaces: Vec<Str>,
    /// Where the scenario says groups: how many workloads there are up to the end of each, and how many pods they
    /// have.
    groups: Vec<(u64, i32)>,
    /// What the scenario's pod template adds to every pod.
    labels: Labels,
    annotations: Labels,
    /// Shared by every pod of every workload, with all defaults filled in, so that the server
    /// has nothing to add and need not copy it.
    pod_spec: Arc<PodSpec>,
    /// Whether nodes have the label of their name, also where they are in no zone.
    pub(crate) labels_nodes: bool,
    /// `minReadySeconds` of every workload.
    pub(crate) min_ready_seconds: i32,
    /// What the flags of the workloads say.
    pub(crate) values: FlagValues,
}

impl Objects {
    /// Of that size; pods are small web servers where no template is given, whose defaults are filled in.
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
        let name = &*self.namespaces[number as usize];
        Namespace {
            metadata: ObjectMeta {
                name: name.into(),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
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
            // Written as `status.allocatable`, which would take a kilobyte for each node.
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

    /// The namespace of a workload.
    pub(crate) fn namespace_of(&self, number: u64) -> &Str {
        &self.namespaces[(number % self.namespaces.len() as u64) as usize]
    }

    /// How many pods workload `number` has at 100 %: its group's number, or as even a share as
    /// there is.
    pub(crate) fn share(&self, number: u64) -> i32 {
        if !self.groups.is_empty() {
            let at = self.groups.partition_point(|(end, _)| *end <= number);
            return self.groups.get(at).map_or(0, |(_, pods)| *pods);
        }
        let count = self.size.workloads().max(1);
        let share = self.size.pods / count + u64::from(number < self.size.pods % count);
        i32::try_from(share).unwrap_or(i32::MAX)
    }

    /// The template of pods with these labels.
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

/// Metadata of an object that is to be created as a copy of one that is stored.
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

/// The second set of labels over the first.
pub(crate) fn with(template: &Labels, generated: &Labels) -> Labels {
    if template.is_empty() {
        return generated.clone();
    }
    let own = |(key, _): &&(Str, Str)| generated.get(key).is_none();
    let all = template.pairs().iter().filter(own).chain(generated.pairs());
    Labels::from_pairs(all.cloned())
}

/// Reads an object without a type of its own, changes its spec, and writes it; its metadata afterwards.
///
/// # Errors
/// The server's.
pub(crate) fn change_spec(
    api: &Api<'_>,
    (namespace, name): (&str, &str),
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

/// What each pod requests of a template, or of the usual one where none is given.
pub(crate) fn pod_requests(template: Option<&PodTemplate>) -> BTreeMap<String, Quantity> {
    match template {
        Some(template) => requests_of(&template.spec),
        None => requests_of(&default_pod_spec()),
    }
}

/// What each pod of that spec requests.
pub(crate) fn requests_of(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let members = ["containers", "initContainers", "resources", "overhead"];
    let needs = members.map(|name| (name.to_owned(), spec.get(name).unwrap_or_default()));
    podstorm_apiserver::pod_requests(&Value::Object(needs.into_iter().collect()))
}

/// The members of a JSON object; none of any other value.
pub(crate) fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A small web server's pod, as the API server would have completed it.
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
    PodSpec::from_json(members).expect("a spec of the server's own words")
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
    fn nodes_have_what_flags_say_and_otherwise_tell_of_pods_alone() {
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
    fn nodes_are_in_zones_in_turn() {
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
        // Where nothing asks for labels, nodes cost no more than their names.
        assert_eq!(labels("--pods 10"), [const { Labels::ABSENT }; 3]);
    }
}
