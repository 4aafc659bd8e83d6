//! The generated cluster: namespaces, nodes, and ReplicaSets whose pods share one spec.

use std::sync::Arc;

use compact_str::format_compact;
use podstorm::object::{
    Kind, LabelSelector, Labels, Map, Namespace, Node, ObjectMeta, OwnerReference, Pod, PodSpec,
    PodTemplate, ReplicaSet, ReplicaSetSpec, Str,
};
use serde_json::{Value, json};

use crate::settings::{ClusterSize, Settings};

/// Makes the objects of a generated cluster.
#[derive(Debug)]
pub(super) struct Objects {
    size: ClusterSize,
    min_ready_seconds: i32,
    namespaces: Vec<Str>,
    /// Shared by every pod of every ReplicaSet, with all defaults filled in, so that the server
    /// has nothing to add and need not copy it.
    pod_spec: Arc<PodSpec>,
}

impl Objects {
    pub(super) fn new(settings: &Settings) -> Objects {
        let size = settings.size.clone();
        let count = size.namespaces.max(1);
        Objects {
            namespaces: (0..count)
                .map(|number| format!("load-{number:03}").into())
                .collect(),
            min_ready_seconds: settings.min_ready_seconds,
            size,
            pod_spec: Arc::new(pod_spec()),
        }
    }

    pub(super) fn namespace(&self, number: u64) -> Namespace {
        let name = &*self.namespaces[number as usize];
        Namespace {
            metadata: ObjectMeta {
                name: name.into(),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
    }

    pub(super) fn node(&self, number: u64) -> Node {
        let name = format_compact!("node-{number:05}");
        let pods = self.size.pods_per_node;
        Node {
            metadata: ObjectMeta {
                name,
                ..ObjectMeta::default()
            },
            // Written as `status.allocatable`, which would take a kilobyte for each node.
            pods_allocatable: Some(pods),
            ..Node::default()
        }
    }

    /// The namespace of a ReplicaSet.
    pub(super) fn namespace_of(&self, number: u64) -> &Str {
        &self.namespaces[(number % self.namespaces.len() as u64) as usize]
    }

    /// How many pods ReplicaSet `number` has at 100 %: as even a share as there is.
    pub(super) fn share(&self, number: u64) -> i32 {
        let sets = self.size.replicasets.max(1);
        let share = self.size.pods / sets + u64::from(number < self.size.pods % sets);
        i32::try_from(share).unwrap_or(i32::MAX)
    }

    pub(super) fn replica_set(&self, number: u64, replicas: i32) -> ReplicaSet {
        let name = format_compact!("rs-{number:05}");
        let labels = Labels::from_pairs([("app", name.as_str())]);
        ReplicaSet {
            metadata: ObjectMeta {
                name,
                namespace: Str::clone(self.namespace_of(number)).into(),
                labels: labels.clone(),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec {
                replicas: Some(replicas),
                min_ready_seconds: self.min_ready_seconds,
                selector: Some(Arc::new(LabelSelector {
                    match_labels: labels.clone(),
                    match_expressions: Arc::default(),
                })),
                template: Arc::new(PodTemplate {
                    metadata: ObjectMeta {
                        labels,
                        ..ObjectMeta::default()
                    },
                    spec: Arc::clone(&self.pod_spec),
                    node_name: None,
                    token_volume: None,
                }),
                rest: None,
            },
            ..ReplicaSet::default()
        }
    }

    /// A pod that ReplicaSet `number` matches: `owner` is the set that has made it, if one has.
    pub(super) fn pod(&self, number: u64, owner: Option<&ReplicaSet>) -> Pod {
        let name = format_compact!("rs-{number:05}");
        let owner = owner.map(|owner| {
            Arc::new(OwnerReference {
                api_version: Kind::ReplicaSet.api_version().into(),
                kind: Kind::ReplicaSet.name().into(),
                name: owner.metadata.name.as_str().into(),
                uid: owner.metadata.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })
        });
        Pod {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-").into()),
                labels: Labels::from_pairs([("app", name.as_str())]),
                owner_references: owner.into_iter().collect(),
                ..ObjectMeta::default()
            },
            spec: Arc::clone(&self.pod_spec),
            ..Pod::default()
        }
    }
}

fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// A small web server's pod, as the API server would have completed it.
fn pod_spec() -> PodSpec {
    let fields = members(json!({
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
    PodSpec {
        fields,
        termination_grace_period_seconds: Some(30),
        containers: ["app".into()].into_iter().collect(),
        ..PodSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(pods: u64, replicasets: u64, namespaces: u64) -> Objects {
        let size = ClusterSize {
            pods,
            replicasets,
            nodes: 3,
            namespaces,
            pods_per_node: 110,
        };
        Objects {
            namespaces: (0..namespaces)
                .map(|number| format!("load-{number:03}").into())
                .collect(),
            size,
            min_ready_seconds: 0,
            pod_spec: Arc::new(pod_spec()),
        }
    }

    #[test]
    fn shares_are_even_and_add_up() {
        let objects = objects(103, 10, 4);
        let shares: Vec<i32> = (0..10).map(|number| objects.share(number)).collect();
        assert_eq!(shares, [11, 11, 11, 10, 10, 10, 10, 10, 10, 10]);
    }

    #[test]
    fn replica_sets_match_their_pods_and_share_one_spec() {
        let objects = objects(4, 2, 2);
        let (a, b) = (objects.replica_set(0, 2), objects.replica_set(1, 2));
        assert_eq!(a.metadata.name, "rs-00000");
        assert_eq!(&*b.metadata.namespace, "load-001");
        let pod = objects.pod(0, Some(&a));
        let selector = a.spec.selector.as_ref().expect("a selector is set");
        assert!(pod.metadata.labels.contains_all(&selector.match_labels));
        assert!(Arc::ptr_eq(&a.spec.template.spec, &b.spec.template.spec));
        assert!(Arc::ptr_eq(&a.spec.template.spec, &pod.spec));
        assert_eq!(
            pod.metadata.controller().map(|owner| &*owner.name),
            Some("rs-00000")
        );
    }
}
