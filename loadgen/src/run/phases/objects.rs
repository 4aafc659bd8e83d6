//! The generated cluster: namespaces, nodes, and ReplicaSets whose pods share one spec.

use std::sync::Arc;

use compact_str::format_compact;
use podstorm_objects::{
    Deployment, DeploymentSpec, DeploymentStrategy, Kind, LabelSelector, Labels, Map, Namespace,
    Node, ObjectMeta, OwnerReference, Pod, PodSpec, PodTemplate, ReplicaSet, ReplicaSetSpec,
    RollingUpdate, Str,
};
use serde_json::{Value, json};

use crate::scenario::pod_template;
use crate::settings::{ClusterSize, Settings};

/// Makes the objects of a generated cluster.
#[derive(Debug)]
pub(super) struct Objects {
    size: ClusterSize,
    min_ready_seconds: i32,
    namespaces: Vec<Str>,
    /// Where the scenario says groups: how many ReplicaSets there are up to the end of each, and how
    /// many pods they have.
    groups: Vec<(u64, i32)>,
    /// What the scenario's pod template adds to every pod.
    labels: Labels,
    annotations: Labels,
    /// Shared by every pod of every ReplicaSet, with all defaults filled in, so that the server
    /// has nothing to add and need not copy it.
    pod_spec: Arc<PodSpec>,
}

impl Objects {
    pub(super) fn new(settings: &Settings) -> Objects {
        let size = settings.size.clone();
        let count = size.namespaces.max(1);
        let scenario = &settings.scenario;
        let template = scenario.pod_template.as_ref();
        let template = template.and_then(|template| pod_template(template).ok());
        let (labels, annotations, spec) = match template {
            Some(template) => (
                template.metadata.labels.clone(),
                template.metadata.annotations.clone(),
                Arc::clone(&template.spec),
            ),
            None => Default::default(),
        };
        let pod_spec = match scenario.pod_template {
            Some(_) => spec,
            None => Arc::new(default_pod_spec()),
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
            min_ready_seconds: settings.min_ready_seconds,
            size,
            pod_spec,
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

    /// How many pods ReplicaSet `number` has at 100 %: its group's number, or as even a share as
    /// there is.
    pub(super) fn share(&self, number: u64) -> i32 {
        if !self.groups.is_empty() {
            let at = self.groups.partition_point(|(end, _)| *end <= number);
            return self.groups.get(at).map_or(0, |(_, pods)| *pods);
        }
        let sets = self.size.replicasets.max(1);
        let share = self.size.pods / sets + u64::from(number < self.size.pods % sets);
        i32::try_from(share).unwrap_or(i32::MAX)
    }

    /// ReplicaSet `number`: `revision` counts its successors, from 0. With a Deployment as its owner
    /// it selects the pods of its revision only.
    pub(super) fn replica_set(
        &self,
        number: u64,
        replicas: i32,
        revision: u32,
        deployment: bool,
    ) -> ReplicaSet {
        let app = format_compact!("rs-{number:05}");
        let hash = format_compact!("r{revision}");
        let name = match revision {
            0 => app.clone(),
            _ => format_compact!("{app}-{hash}"),
        };
        let labels = match deployment {
            false => Labels::from_pairs([("app", app.as_str())]),
            true => {
                let pairs = [("app", app.as_str()), ("pod-template-hash", hash.as_str())];
                Labels::from_pairs(pairs)
            }
        };
        let owner = deployment.then(|| {
            let name = format_compact!("deploy-{number:05}");
            Arc::new(OwnerReference {
                api_version: "apps/v1".into(),
                kind: "Deployment".into(),
                uid: format_compact!("00000000-0000-4000-8000-{number:012x}")
                    .as_str()
                    .into(),
                name: name.as_str().into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })
        });
        ReplicaSet {
            metadata: ObjectMeta {
                name,
                namespace: Str::clone(self.namespace_of(number)),
                labels: labels.clone(),
                owner_references: owner.into_iter().collect(),
                ..ObjectMeta::default()
            },
            spec: ReplicaSetSpec {
                replicas: Some(replicas),
                min_ready_seconds: self.min_ready_seconds,
                selector: Some(Arc::new(LabelSelector {
                    match_labels: labels.clone(),
                    match_expressions: Arc::default(),
                })),
                template: self.template(&labels),
                rest: podstorm_objects::Rest::NONE,
            },
            ..ReplicaSet::default()
        }
    }

    /// Deployment `number`, as a user writes it.
    pub(super) fn deployment(&self, number: u64, replicas: i32, settings: &Settings) -> Deployment {
        let name = format_compact!("deploy-{number:05}");
        let labels = Labels::from_pairs([("app", name.as_str())]);
        Deployment {
            metadata: ObjectMeta {
                name,
                namespace: Str::clone(self.namespace_of(number)),
                labels: labels.clone(),
                ..ObjectMeta::default()
            },
            spec: DeploymentSpec {
                replicas: Some(replicas),
                selector: Some(Arc::new(LabelSelector {
                    match_labels: labels.clone(),
                    match_expressions: Arc::default(),
                })),
                template: self.template(&labels),
                strategy: DeploymentStrategy {
                    kind: "RollingUpdate".into(),
                    rolling_update: Some(RollingUpdate {
                        max_surge: Some(settings.max_surge.int_or_string()),
                        max_unavailable: Some(settings.max_unavailable.int_or_string()),
                        ..RollingUpdate::default()
                    }),
                    ..DeploymentStrategy::default()
                },
                min_ready_seconds: self.min_ready_seconds,
                progress_deadline_seconds: Some(settings.progress_deadline_seconds),
                ..DeploymentSpec::default()
            },
            ..Deployment::default()
        }
    }

    /// The template of pods with these labels.
    fn template(&self, labels: &Labels) -> Arc<PodTemplate> {
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

    /// A pod that ReplicaSet `number` matches: `owner` is the set that has made it, if one has.
    pub(super) fn pod(&self, number: u64, owner: Option<&ReplicaSet>) -> Pod {
        let name = format_compact!("rs-{number:05}");
        let owner = owner.map(|owner| {
            Arc::new(OwnerReference {
                api_version: Kind::REPLICA_SET.api_version().into(),
                kind: Kind::REPLICA_SET.name().into(),
                name: owner.metadata.name.as_str().into(),
                uid: owner.metadata.uid.clone(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            })
        });
        Pod {
            metadata: ObjectMeta {
                generate_name: Some(format!("{name}-").into()),
                labels: with(&self.labels, &Labels::from_pairs([("app", name.as_str())])),
                annotations: self.annotations.clone(),
                owner_references: owner.into_iter().collect(),
                ..ObjectMeta::default()
            },
            spec: Arc::clone(&self.pod_spec),
            ..Pod::default()
        }
    }
}

/// Metadata of an object that is to be created as a copy of one that is stored.
pub(super) fn anew(stored: &ObjectMeta) -> ObjectMeta {
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
pub(super) fn with(template: &Labels, generated: &Labels) -> Labels {
    if template.is_empty() {
        return generated.clone();
    }
    let own = |(key, _): &&(Str, Str)| generated.get(key).is_none();
    let all = template.pairs().iter().filter(own).chain(generated.pairs());
    Labels::from_pairs(all.cloned())
}

pub(super) fn members(value: Value) -> Map {
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
    use super::*;

    fn objects(pods: u64, replicasets: u64, namespaces: u64) -> Objects {
        let flags = format!("--pods {pods} --replicasets {replicasets} --namespaces {namespaces}");
        Objects::new(&Settings::of_flags(&flags, 1).unwrap())
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
        let [a, b] = [0, 1].map(|number| objects.replica_set(number, 2, 0, false));
        assert_eq!(a.metadata.name, "rs-00000");
        assert_eq!(&*b.metadata.namespace, "load-001");
        let pod = objects.pod(0, Some(&a));
        let selector = a.spec.selector.as_ref().expect("a selector is set");
        assert!(pod.metadata.labels.contains_all(&selector.match_labels));
        assert!(Arc::ptr_eq(&a.spec.template.spec, &b.spec.template.spec));
        assert!(Arc::ptr_eq(&a.spec.template.spec, &pod.spec));
        let owner = pod.metadata.controller().map(|owner| &*owner.name);
        assert_eq!(owner, Some("rs-00000"));
    }
}
