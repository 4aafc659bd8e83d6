//! Clusters for benches: a controller whose caches contain realistic pods, and ReplicaSets like
//! those that Deployments create.
//!
//! Every pod is a variation of `core/fixtures/pod.json`. Its name has the format of generated
//! names. Its UID, node, phase, deletion cost, restarts and times are drawn as in
//! [`pods`](crate::pods). The same plan always gives the same cluster.

use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::intern::KeyId;
use podstorm::object::{
    Address, ContainerDetails, ContainerId, Kind, LabelSelector, Labels, Now, OwnerReference, Pod,
    PodSpec, PodStart, ReplicaSet, Sharer, Str, Time, TokenVolume, Uid,
};
use podstorm::replicaset::reconcile::StatusCounts;
use podstorm::replicaset::{Controller, ControllerOptions};
use podstorm::workqueue::Take;

use crate::hot::cache::realistic_pod;
use crate::pods::{Growth, NOW_NS, drawn_pods};

/// The current time in every cluster.
pub const NOW: Now = Now {
    mono_ns: 3_600_000_000_000,
    wall_ns: NOW_NS,
};

/// The characters that Kubernetes uses in generated names. Without vowels, they do not form words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The seed of all random values.
const SEED: u64 = 36;

/// The composition of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of ReplicaSets with pods. All are in one namespace.
    pub replica_sets: usize,
    /// The number of ReplicaSets without pods for each ReplicaSet with pods. They are the earlier
    /// revisions of its Deployment.
    pub old_revisions: usize,
    /// The number of pods per ReplicaSet. The number of nodes is a tenth of the total number of
    /// pods.
    pub pods_each: usize,
    /// `spec.replicas` of the ReplicaSets with pods; `None` for the number of their active pods, so
    /// that there is nothing to do.
    pub wanted: Option<i32>,
    /// Whether all ReplicaSets belong to one Deployment. Otherwise, each ReplicaSet with pods
    /// belongs to a Deployment of its own, together with its old revisions.
    pub one_deployment: bool,
    /// `spec.minReadySeconds` of every ReplicaSet.
    pub min_ready_seconds: i32,
    /// The parts that the pods of a ReplicaSet share.
    pub sharing: Sharing,
}

/// The parts that the pods of a ReplicaSet share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The spec, the labels, and the kubelet's report on the container: as in the embedded cluster,
    /// or after a driver has stripped pods of the members that no controller reads.
    All,
    /// The spec and the labels. Each pod has its own container id, start time and address.
    Template,
    /// The labels, and the spec except for the name of the service account volume, which is
    /// different in each pod: as in an ordinary cluster.
    Admitted,
    /// Only the labels. The specs also differ in the value of an environment variable.
    Nothing,
}

impl Plan {
    /// Creates a plan of ReplicaSets in one namespace with `pods_each` pods each and nothing to do.
    pub fn new(replica_sets: usize, pods_each: usize) -> Plan {
        Plan {
            replica_sets,
            old_revisions: 0,
            pods_each,
            wanted: None,
            one_deployment: false,
            min_ready_seconds: 0,
            sharing: Sharing::All,
        }
    }

    /// Returns only the objects: each ReplicaSet with its pods, old revisions last. Equal strings
    /// are shared, as in objects that a reader has passed through a [`Sharer`].
    pub fn draw(&self) -> Vec<(Arc<ReplicaSet>, Vec<Arc<Pod>>)> {
        let (mut template, mut sharer) = (Template::new(self.sharing), Sharer::default());
        // Old revisions have no pods, so they add no nodes.
        let mut drawn =
            drawn_pods(self.replica_sets * self.pods_each, Growth::Month, SEED).into_iter();
        (0..self.replica_sets * (1 + self.old_revisions))
            .map(|index| {
                let mut replica_set = self.replica_set(index, &template);
                sharer.share_replica_set(&mut replica_set);
                let owner = owner_of(&replica_set);
                let prefix = Str::from(format!("{}-", replica_set.metadata.name));
                let pods: Vec<Arc<Pod>> = drawn
                    .by_ref()
                    .take(self.pods_each)
                    .enumerate()
                    .map(|(number, pod)| {
                        let mut pod = template.make_pod(pod, &replica_set);
                        pod.metadata.name = format!("{prefix}{}", word(number, 5)).into();
                        pod.metadata.generate_name = Some(prefix.clone());
                        pod.metadata.owner_references.push(owner.clone());
                        Arc::new(pod)
                    })
                    .collect();
                self.settle(&mut replica_set, &pods);
                (Arc::new(replica_set), pods)
            })
            .collect()
    }

    /// Returns the whole cluster: every object is in the caches, the queue is empty, and there are
    /// no expectations.
    pub fn build(&self) -> Cluster {
        let drawn = self.draw();
        let cache = Arc::new(PodCache::new());
        let options = ControllerOptions::new(Kind::REPLICA_SET);
        let (controller, owners) = Controller::alone(options, cache.clone());
        let (mut keys, mut replica_sets, mut pods) = (Vec::new(), Vec::new(), Vec::new());
        for (replica_set, owned) in drawn {
            owners.apply(Delta::Applied(replica_set.clone()), NOW);
            let meta = &replica_set.metadata;
            keys.push(controller.owners().intern(&meta.namespace, &meta.name));
            for pod in &owned {
                cache.apply(Delta::Applied(pod.clone()));
            }
            replica_sets.push(replica_set);
            pods.push(owned);
        }
        let cluster = Cluster {
            controller,
            keys,
            replica_sets,
            pods,
        };
        cluster.drain();
        cluster
    }

    fn replica_set(&self, index: usize, template: &Template) -> ReplicaSet {
        let deployment = if self.one_deployment {
            0
        } else {
            index % self.replica_sets
        };
        let app = format!("web-{deployment}");
        let hash = word(index, 10);
        let labels = Labels::from_pairs([
            ("app.kubernetes.io/name", app.as_str()),
            ("app.kubernetes.io/part-of", "shop"),
            ("pod-template-hash", &hash),
        ]);
        let mut object = ReplicaSet::default();
        let meta = &mut object.metadata;
        meta.name = format!("web-{hash}").into();
        meta.namespace = template.pod.metadata.namespace.clone();
        meta.uid = replica_set_uid(index);
        meta.resource_version = (1_000 + index as u64).into();
        meta.generation = 1;
        meta.creation_timestamp = Time::from_unix_seconds(NOW_NS / 1_000_000_000 - 31 * 86_400);
        meta.labels = labels.clone();
        meta.owner_references.push(Arc::new(OwnerReference {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: app.as_str().into(),
            uid: Uid::from_u128(0x4465_706c_6f79_4000_8000_0000_0000_0000 | deployment as u128),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }));
        object.spec.min_ready_seconds = self.min_ready_seconds;
        object.spec.selector = Some(Arc::new(LabelSelector {
            match_labels: Labels::from_pairs([
                ("app.kubernetes.io/name", app.as_str()),
                ("pod-template-hash", &hash),
            ]),
            match_expressions: Arc::new([]),
        }));
        let pod_template = Arc::make_mut(&mut object.spec.template);
        pod_template.metadata.labels = labels;
        pod_template.spec = template.pod.spec.clone();
        pod_template.token_volume = template.pod.token_volume;
        object
    }

    /// Sets the desired number of pods and a status that matches the pods.
    fn settle(&self, replica_set: &mut ReplicaSet, pods: &[Arc<Pod>]) {
        let active = pods.iter().filter(|pod| pod.is_active());
        let labels = &replica_set.spec.template.metadata.labels;
        let counts = StatusCounts::count(
            active.map(|pod| &**pod),
            labels,
            self.min_ready_seconds,
            NOW_NS,
        );
        let wanted = self
            .wanted
            .filter(|_| !pods.is_empty() || self.pods_each == 0);
        replica_set.spec.replicas = Some(wanted.unwrap_or(counts.replicas));
        let status = &mut replica_set.status;
        status.replicas = counts.replicas;
        status.fully_labeled_replicas = counts.fully_labeled;
        status.ready_replicas = counts.ready;
        status.available_replicas = counts.available;
        status.terminating_replicas = Some(0);
        status.observed_generation = replica_set.metadata.generation;
    }
}

/// A controller whose caches contain a cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The ReplicaSet controller.
    pub controller: Arc<Controller>,
    /// The keys of the ReplicaSets. Here and below, old revisions come last.
    pub keys: Vec<KeyId>,
    /// The ReplicaSets as they are cached.
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    /// The pods of each ReplicaSet, as they are cached initially.
    pub pods: Vec<Vec<Arc<Pod>>>,
}

impl Cluster {
    /// Takes all keys out of the queue.
    pub fn drain(&self) {
        let queue = self.controller.queue();
        while let Take::Key(key) = queue.try_take(NOW.mono_ns) {
            queue.done(key, NOW.mono_ns);
        }
    }

    /// Returns a pod that matches the ReplicaSet but has no controller.
    pub fn orphan(&self, replica_set: usize) -> Pod {
        let mut pod = Pod::clone(&self.pods[replica_set][0]);
        pod.metadata.name = format!("orphan-{}", word(replica_set, 5)).into();
        pod.metadata.uid = Uid::from_u128(0x4f72_7068_616e_4000_8000_0000_0000_0000);
        pod.metadata.owner_references.clear();
        pod
    }
}

/// Returns the UID of a drawn ReplicaSet.
pub(crate) fn replica_set_uid(index: usize) -> Uid {
    Uid::from_u128(0x5265_706c_6963_4000_8000_0000_0000_0000 | index as u128)
}

/// Returns the owner reference of the pods of a ReplicaSet.
pub(crate) fn owner_of(replica_set: &ReplicaSet) -> Arc<OwnerReference> {
    Arc::new(OwnerReference {
        api_version: Kind::REPLICA_SET.api_version().into(),
        kind: Kind::REPLICA_SET.name().into(),
        name: replica_set.metadata.name.as_str().into(),
        uid: replica_set.metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    })
}

/// Returns the next version of a pod.
pub fn next_version(pod: &Pod) -> Arc<Pod> {
    let mut next = Pod::clone(pod);
    let version = pod.metadata.resource_version.number();
    next.metadata.resource_version = version.map_or(1, |version| version + 1).into();
    Arc::new(next)
}

/// Returns a word of this length for a number. Different numbers below 27^length give different
/// words.
fn word(number: usize, length: u32) -> String {
    let size = 27u64.pow(length);
    // The factor is not a multiple of 3, so it is coprime to `size`, and multiplying by it permutes
    // the numbers below `size`.
    let mut rest = (number as u64 + 1) * 7_777_777 % size;
    (0..length)
        .map(|_| {
            let letter = ALPHABET[(rest % 27) as usize];
            rest /= 27;
            char::from(letter)
        })
        .collect()
}

/// The source of new pods: the fixture, and what the pods share.
struct Template {
    /// The fixture, as a cache stores it.
    pod: Pod,
    /// The kubelet's report on a container that was never restarted.
    never_restarted: Arc<ContainerDetails>,
    sharing: Sharing,
    made: u64,
}

impl Template {
    fn new(sharing: Sharing) -> Template {
        let mut pod = realistic_pod();
        pod.metadata.owner_references.clear();
        let container = &pod.status.container_statuses[0];
        let details = container.details.as_deref();
        let mut never_restarted = details.expect("the fixture has an image").clone();
        never_restarted.rest = never_restarted.rest.without("lastState");
        Template {
            never_restarted: Arc::new(never_restarted),
            pod,
            sharing,
            made: 0,
        }
    }

    /// Returns a copy of the fixture with the random parts of `drawn`, as a pod of the ReplicaSet.
    fn make_pod(&mut self, drawn: Pod, replica_set: &ReplicaSet) -> Pod {
        self.made += 1;
        let mut pod = self.pod.clone();
        let meta = &mut pod.metadata;
        meta.namespace = replica_set.metadata.namespace.clone();
        meta.uid = drawn.metadata.uid;
        meta.resource_version = (100_000 + self.made).into();
        meta.creation_timestamp = drawn.metadata.creation_timestamp;
        meta.labels = replica_set.spec.template.metadata.labels.clone();
        meta.annotations = drawn.metadata.annotations;
        pod.spec = replica_set.spec.template.spec.clone();
        pod.token_volume = replica_set.spec.template.token_volume;
        pod.node_name = drawn.node_name;
        pod.status.phase = drawn.status.phase;
        let became = drawn
            .status
            .conditions
            .iter()
            .last()
            .expect("three conditions are drawn");
        pod.status.conditions.update(|condition| {
            condition.status = became.status;
            condition.last_transition_time = became.last_transition_time;
        });
        let (said, container) = (
            &drawn.status.container_statuses[0],
            &mut pod.status.container_statuses[0],
        );
        container.ready = said.ready;
        container.restart_count = said.restart_count;
        if said.restart_count == 0 {
            container.details = Some(self.never_restarted.clone());
        }
        if self.sharing != Sharing::All {
            self.tell_apart(&mut pod);
        }
        pod
    }

    fn tell_apart(&self, pod: &mut Pod) {
        let began = pod.metadata.creation_timestamp;
        let number = self.made;
        let address = |net: u64| -> Address {
            let text = format!("10.{net}.{}.{}", number >> 8 & 255, number & 255);
            text.as_str().into()
        };
        pod.status.started = Some(Arc::new(PodStart {
            host_ip: address(20),
            pod_ip: address(64 + (number >> 16 & 127)),
            time: began,
        }));
        if let Some(details) = &mut pod.status.container_statuses[0].details {
            let details = Arc::make_mut(details);
            let id = format!(
                "containerd://{:064x}",
                u128::from(number) << 90 | 0x91_d7aa_07c3
            );
            details.id = Some(ContainerId::new(&id));
            details.running_since = began.into();
        }
        if matches!(self.sharing, Sharing::Admitted | Sharing::Nothing) {
            let name = format!("kube-api-access-{}", word(self.made as usize, 5));
            pod.token_volume = TokenVolume::new(&name);
        }
        if self.sharing == Sharing::Nothing {
            pod.spec = Arc::new(self.spec_of_its_own());
        }
    }

    /// Returns the template's spec with a value of an environment variable that no other pod has.
    fn spec_of_its_own(&self) -> PodSpec {
        let mut members = self.pod.spec.to_map(None);
        let variable = &mut members["containers"][0]["env"][1];
        assert_eq!(
            variable["name"], "CACHE_SIZE_MB",
            "the fixture has a container"
        );
        variable["value"] = self.made.to_string().into();
        let spec = self.pod.spec.with_members(members);
        spec.expect("the member may be a text")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use podstorm::object::Object as _;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_cluster_is_drawn_as_planned_and_settled() {
        let cluster = Plan::new(3, 200).build();
        assert_eq!(cluster.keys.len(), 3);
        assert_eq!(cluster.controller.pods().len(), 600);
        assert_eq!(cluster.controller.queue().len(), 0);
        for (replica_set, pods) in cluster.replica_sets.iter().zip(&cluster.pods) {
            assert_eq!(replica_set.status.replicas, 200);
            assert_eq!(replica_set.spec.replicas, Some(200));
            let ready = pods.iter().filter(|pod| pod.is_ready()).count();
            assert_eq!(
                usize::try_from(replica_set.status.ready_replicas),
                Ok(ready)
            );
            assert!((170..200).contains(&ready), "{ready}");
            assert!(pods.iter().all(|pod| Arc::ptr_eq(&pod.spec, &pods[0].spec)));
        }
    }

    #[test]
    fn old_revisions_without_pods_accompany_their_successor() {
        let plan = Plan {
            old_revisions: 2,
            wanted: Some(1),
            ..Plan::new(3, 4)
        };
        let drawn = plan.draw();
        assert_eq!(drawn.len(), 9);
        let owner = |index: usize| drawn[index].0.metadata.controller().map(|o| o.uid.clone());
        for (index, (replica_set, pods)) in drawn.iter().enumerate() {
            let is_old = index >= 3;
            assert_eq!(pods.len(), if is_old { 0 } else { 4 });
            assert_eq!(replica_set.spec.replicas, Some(i32::from(!is_old)));
            assert_eq!(owner(index), owner(index % 3));
        }
        let names: BTreeSet<&str> = drawn
            .iter()
            .map(|(rs, _)| rs.metadata.name.as_str())
            .collect();
        assert_eq!(names.len(), 9);
    }

    #[test]
    fn the_same_plan_gives_the_same_pods() {
        let plan = Plan {
            sharing: Sharing::Nothing,
            ..Plan::new(2, 20)
        };
        let json = |plan: &Plan| -> Vec<Value> {
            let drawn = plan.draw();
            let pods = drawn.iter().flat_map(|(_, pods)| pods);
            pods.map(|pod| pod.to_json()).collect()
        };
        assert_eq!(json(&plan), json(&plan));
    }

    #[test]
    fn pods_share_the_parts_that_the_plan_names() {
        let shared = |sharing: Sharing| {
            let drawn = Plan {
                sharing,
                ..Plan::new(1, 2)
            }
            .draw();
            let (a, b) = (&drawn[0].1[0], &drawn[0].1[1]);
            // A container with an id of its own also has details of its own.
            let details = |pod: &Pod| pod.status.container_statuses[0].details.clone();
            let id = |pod: &Pod| details(pod).and_then(|details| details.id.clone());
            assert!(a.metadata.labels.is_same(&b.metadata.labels));
            assert!(a.token_volume.is_some());
            [
                a.spec == b.spec,
                a.token_volume == b.token_volume,
                id(a) == id(b),
            ]
        };
        assert_eq!(shared(Sharing::All), [true, true, true]);
        assert_eq!(shared(Sharing::Template), [true, true, false]);
        assert_eq!(shared(Sharing::Admitted), [true, false, false]);
        assert_eq!(shared(Sharing::Nothing), [false, false, false]);
    }

    #[test]
    fn siblings_share_a_deployment() {
        let plan = Plan {
            one_deployment: true,
            ..Plan::new(4, 1)
        };
        let drawn = plan.draw();
        let owner = |index: usize| drawn[index].0.metadata.controller().cloned();
        assert_eq!(
            owner(0).map(|o| o.uid.clone()),
            owner(3).map(|o| o.uid.clone())
        );
    }
}
