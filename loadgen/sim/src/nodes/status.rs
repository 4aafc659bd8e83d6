//! The status that a kubelet writes when a pod's containers have started. Pods share the equal
//! parts of their statuses: with 100,000 pods, the members that nothing reads would otherwise need
//! more memory than everything else.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::intern::FIXED_STATE;
use podstorm_apiserver::Cluster;
use podstorm_objects::{
    Address, ConditionStatus, ConditionType, ContainerDetails, ContainerStatus, ContainerStatuses,
    Map, Node, PackedTime, Pod, PodCondition, PodPhase, PodStart, PodStatus, Rest, SpecContainer,
    Str, Time, hash_state,
};
use serde_json::{Value, json};

/// Builds the statuses of running pods. Memory: one entry for each node and each image.
#[derive(Debug)]
pub(super) struct RunningStatus {
    /// For each node, the part that its pods with the last start time share.
    by_node: HashMap<Str, Arc<PodStart>, RandomState>,
    /// For each image, the part that its containers with the last start time share.
    by_image: HashMap<String, Arc<ContainerDetails>, RandomState>,
    /// For each image, the part that its init containers share if they ended at the last start
    /// time.
    ended: HashMap<String, (Time, Arc<ContainerDetails>), RandomState>,
}

impl RunningStatus {
    pub(super) fn new() -> RunningStatus {
        RunningStatus {
            by_node: HashMap::with_hasher(hash_state()),
            by_image: HashMap::with_hasher(hash_state()),
            ended: HashMap::with_hasher(hash_state()),
        }
    }

    /// Reports whether the node's address is known from an earlier pod or from `introduce`.
    pub(super) fn knows(&self, node: &Str) -> bool {
        self.by_node.contains_key(node)
    }

    /// Sets the address that the pods of a node report.
    pub(super) fn introduce(&mut self, node: &Str, host_ip: Address) {
        let start = PodStart {
            pod_ip: Address::clone(&host_ip),
            host_ip,
            time: Time::UNSET,
        };
        self.by_node.insert(Str::clone(node), Arc::new(start));
    }

    /// Returns the status of a bound pod whose containers start now.
    pub(super) fn status(&mut self, pod: &Pod, node: &Str, now: Time) -> PodStatus {
        let holds = |kind, since| PodCondition {
            kind,
            status: ConditionStatus::True,
            last_transition_time: PackedTime::new(since),
            rest: Rest::NONE,
        };
        let scheduled = match pod.status.conditions.first(ConditionType::PodScheduled) {
            Some((ConditionStatus::True, since)) => since.get(),
            _ => now,
        };
        let init = self.init_containers(&pod.spec.init_containers, now);
        let others = pod.status.conditions.iter();
        let conditions = [
            holds(ConditionType::PodReadyToStartContainers, now),
            holds(ConditionType::Initialized, now),
            holds(ConditionType::Ready, now),
            holds(ConditionType::ContainersReady, now),
            holds(ConditionType::PodScheduled, scheduled),
        ]
        .into_iter()
        .chain(others.filter(|condition| condition.kind == ConditionType::Other))
        .collect();
        PodStatus {
            phase: PodPhase::Running,
            conditions,
            container_statuses: self.containers(&pod.spec.containers, now).collect(),
            init_container_statuses: (!init.is_empty()).then(|| init.into()),
            started: Some(self.start(node, now)),
            rest: pod.status.rest.clone(),
        }
    }

    /// Returns the address of a node. A node that is not known gets [the address of its
    /// name](node_address).
    pub(super) fn host_ip(&mut self, node: &Str) -> Address {
        if !self.knows(node) {
            self.introduce(node, node_address(node).as_str().into());
        }
        self.by_node[node].host_ip.clone()
    }

    /// Returns the start time and addresses of a pod. The pod has its node's address, as in the
    /// host network.
    pub(super) fn start(&mut self, node: &Str, now: Time) -> Arc<PodStart> {
        if let Some(known) = self.by_node.get(node).filter(|it| it.time == now) {
            return Arc::clone(known);
        }
        let host_ip = self.host_ip(node);
        let start = PodStart {
            pod_ip: Address::clone(&host_ip),
            host_ip,
            time: now,
        };
        let start = Arc::new(start);
        self.by_node.insert(Str::clone(node), Arc::clone(&start));
        start
    }

    /// Returns the status of a running and ready container for each container in the spec.
    fn containers<'a>(
        &'a mut self,
        spec: &'a [SpecContainer],
        now: Time,
    ) -> impl Iterator<Item = ContainerStatus> + 'a {
        spec.iter().map(move |container| ContainerStatus {
            name: Str::clone(&container.name),
            restart_count: 0,
            ready: true,
            details: Some(self.container_details(&container.image, now)),
        })
    }

    /// Returns the status of each init container of a spec: sidecars run, and the other init
    /// containers have completed successfully.
    fn init_containers(&mut self, spec: &[SpecContainer], now: Time) -> ContainerStatuses {
        let mut statuses: ContainerStatuses = self.containers(spec, now).collect();
        for (status, container) in statuses.iter_mut().zip(spec) {
            if !container.is_sidecar {
                status.details = Some(self.ended_details(&container.image, now));
            }
        }
        statuses
    }

    fn ended_details(&mut self, image: &str, now: Time) -> Arc<ContainerDetails> {
        if let Some((_, known)) = self.ended.get(image).filter(|(time, _)| *time == now) {
            return Arc::clone(known);
        }
        let at = now.to_string();
        let mut rest = container_rest(image);
        rest.insert("started".into(), json!(false));
        let end = json!({"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at});
        rest.insert("state".into(), json!({ "terminated": end }));
        let details = Arc::new(ContainerDetails {
            id: None,
            running_since: PackedTime::new(Time::UNSET),
            rest: rest.into(),
        });
        let shared = Arc::clone(&details);
        self.ended.insert(image.to_owned(), (now, shared));
        details
    }

    fn container_details(&mut self, image: &str, now: Time) -> Arc<ContainerDetails> {
        let now = PackedTime::new(now);
        let rest = match self.by_image.get(image) {
            Some(known) if known.running_since == now => return Arc::clone(known),
            Some(known) => Rest::clone(&known.rest),
            None => container_rest(image).into(),
        };
        let details = ContainerDetails {
            id: None,
            running_since: now,
            rest,
        };
        let details = Arc::new(details);
        self.by_image.insert(image.to_owned(), Arc::clone(&details));
        details
    }
}

/// Returns the members that nothing reads of the status of a running container with this image.
fn container_rest(image: &str) -> Map {
    let mut members = Map::new();
    members.insert("image".into(), json!(image));
    members.insert("imageID".into(), json!(""));
    members.insert("lastState".into(), json!({}));
    members.insert("started".into(), json!(true));
    members
}

/// Returns the internal IP address of a node, from its status; `None` if there is none.
pub(super) fn internal_ip(cluster: &Cluster, node: &str) -> Option<Address> {
    let node = cluster.get::<Node>("", node).ok()?;
    let addresses = node.status.get("addresses").and_then(Value::as_array)?;
    let internal = addresses.iter().find(|it| it["type"] == "InternalIP")?;
    internal["address"].as_str().map(Address::from)
}

/// Returns the address of a node, in 10.0.0.0/8. It is derived from the number at the end of the
/// node's name, or else from the hash of the name.
pub(super) fn node_address(node: &str) -> String {
    let digits = node.len() - node.bytes().rev().take_while(u8::is_ascii_digit).count();
    let number = node[digits..]
        .parse()
        .unwrap_or_else(|_| FIXED_STATE.hash_one(node));
    // The last octet is neither 0 (network) nor 255 (broadcast).
    let (last, rest) = (number % 254 + 1, number / 254);
    format!("10.{}.{}.{last}", (rest >> 8) & 0xff, rest & 0xff)
}

#[cfg(test)]
mod tests {
    use podstorm_objects::PodSpec;

    use super::*;

    fn pod() -> Pod {
        let spec = json!({ "containers": [{ "name": "app", "image": "shop/app:1" }] });
        let spec = PodSpec::from_json(spec.as_object().unwrap().clone());
        Pod {
            spec: Arc::new(spec.unwrap()),
            ..Pod::default()
        }
    }

    #[test]
    fn a_started_pod_is_running_and_ready_now() {
        let now = Time::from_unix_seconds(1_000);
        let mut pod = pod();
        pod.status = RunningStatus::new().status(&pod, &"node-00300".into(), now);
        assert!(pod.is_ready());
        assert_eq!(pod.ready_time(), now);
        assert_eq!(pod.status.phase, PodPhase::Running);
        assert_eq!(pod.status.conditions.len(), 5);
        assert_eq!(&*pod.status.container_statuses[0].name, "app");
        let started = pod.status.started.as_ref().expect("the start is set");
        assert_eq!(started.host_ip.to_string(), "10.0.1.47");
        assert_eq!(started.time, now);
    }

    #[test]
    fn init_containers_have_completed_and_sidecars_run() {
        let spec = json!({"initContainers": [{"name": "i", "image": "x"},
            {"name": "s", "image": "x", "restartPolicy": "Always"}], "containers": []});
        let spec = PodSpec::from_json(spec.as_object().unwrap().clone());
        let pod = Pod {
            spec: Arc::new(spec.unwrap()),
            ..Pod::default()
        };
        let mut statuses = RunningStatus::new();
        let mut at = |seconds| statuses.status(&pod, &"n".into(), Time::from_unix_seconds(seconds));
        let (one, other, later) = (at(5), at(5), at(6));
        let init = |status: &PodStatus, number: usize| {
            let init = status.init_container_statuses.as_ref().unwrap();
            init[number].details.clone().unwrap()
        };
        let state = init(&one, 0).rest.get("state").unwrap();
        assert_eq!(state["terminated"]["reason"], "Completed");
        assert!(!init(&one, 1).running_since.get().is_unset());
        assert!(Arc::ptr_eq(&init(&one, 0), &init(&other, 0)));
        assert_ne!(init(&one, 0), init(&later, 0));
    }

    #[test]
    fn pods_of_one_node_share_equal_parts() {
        let mut statuses = RunningStatus::new();
        let node: Str = "node-1".into();
        let mut at = |seconds| statuses.status(&pod(), &node, Time::from_unix_seconds(seconds));
        let (a, b, later) = (at(5), at(5), at(6));
        let details = |status: &PodStatus| status.container_statuses[0].details.clone().unwrap();
        let start = |status: &PodStatus| status.started.clone().unwrap();
        assert!(Arc::ptr_eq(&start(&a), &start(&b)));
        assert_eq!(start(&a).host_ip, start(&later).host_ip);
        assert!(Arc::ptr_eq(&details(&a), &details(&b)));
        assert!(details(&a).rest.is_same(&details(&later).rest));
        assert_ne!(start(&a), start(&later));
        assert_ne!(details(&a), details(&later));
    }
}
