//! Pods: a small part for each pod, and a spec that the pods created from a template share.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use smallvec::SmallVec;

use super::{
    Address, ConditionStatus, ConditionType, ContainerStatus, ContainerStatuses, Hostname,
    ObjectMeta, PackedTime, PodConditions, Rest, Str, Time, TokenVolume,
};

/// Most objects are pods, and most pods are held three times: in the store, in the log of changes,
/// and as a version that is about to be freed. Including the 16 bytes of an `Arc`'s counts, a pod
/// takes 304 bytes: metadata 152, spec and node name 8 each, token volume and host name 8 together,
/// status 112 (conditions 48, container 32, phase 8, init containers, start and rest 8 each).
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Pod>() <= 304 - 16);

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// The metadata, such as name, labels and owners.
    pub metadata: ObjectMeta,
    /// The spec without the members that belong to this pod only. All pods of one template share
    /// it.
    pub spec: Arc<PodSpec>,
    /// `spec.nodeName`; absent until the pod is bound.
    pub node_name: Option<Str>,
    /// The name that admission gave the pod's service-account volume. Absent if `spec` contains the
    /// name, or if there is no such volume.
    pub token_volume: Option<TokenVolume>,
    /// The place of `spec.hostname`.
    pub hostname: Hostname,
    /// The status of the pod.
    pub status: PodStatus,
}

/// A pod spec as JSON text. The few members that this program reads also have typed fields, which
/// are set once.
#[derive(Clone, Debug, Default)]
pub struct PodSpec {
    /// Every member except `nodeName`, and except a `hostname` that the pod's names determine. A
    /// placeholder marks each place from which the name of the service-account volume was taken
    /// out.
    pub(super) members: Rest,
    /// The positions of the placeholders' stars in the text.
    pub(super) stars: SmallVec<[u32; 2]>,
    /// Whether there is a `securityContext` and both service-account members are equal. Reading a
    /// ReplicationController ensures this.
    pub(super) is_converted: bool,
    /// `terminationGracePeriodSeconds`.
    pub termination_grace_period_seconds: Option<i64>,
    /// `containers`, in order.
    pub containers: SmallVec<[SpecContainer; 1]>,
    /// `initContainers`, in order.
    pub init_containers: Box<[SpecContainer]>,
    /// `schedulerName`. `None` if it is absent or `default-scheduler`, which mean the same.
    pub scheduler_name: Option<Str>,
    /// Whether there is a `hostname`.
    pub(super) has_hostname: bool,
    /// Whether `schedulingGates` is not empty.
    pub is_gated: bool,
    /// Whether the pod constrains its node beyond its requests: a node selector, required affinity
    /// or anti-affinity, a mandatory topology spread, a host port, or a toleration that not every
    /// pod has.
    pub is_particular: bool,
    /// `priority`; 0 if absent, which means the same.
    pub priority: i32,
    /// `restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// `activeDeadlineSeconds`.
    pub active_deadline_seconds: Option<i64>,
}

/// The keys of the `NoExecute` taints that every new pod tolerates for some time: its node is not
/// ready or is unreachable.
pub const TOLERATED_TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// A PersistentVolumeClaim that a volume of a pod needs.
#[derive(Clone, Debug, PartialEq)]
pub struct PodClaim {
    /// The name of the claim.
    pub name: Str,
    /// If the claim is created for a generic ephemeral volume: the volume's name and claim
    /// template.
    pub template: Option<(Str, Value)>,
}

/// `restartPolicy` of a pod or a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Containers are restarted whenever they end. The default for pods.
    #[default]
    Always,
    /// Containers are restarted if they fail.
    OnFailure,
    /// Containers are not restarted.
    Never,
}

impl RestartPolicy {
    /// Returns the policy with this name; `None` for a name that Kubernetes doesn't define.
    pub fn new(text: &str) -> Option<RestartPolicy> {
        match text {
            "Always" => Some(RestartPolicy::Always),
            "OnFailure" => Some(RestartPolicy::OnFailure),
            "Never" => Some(RestartPolicy::Never),
            _ => None,
        }
    }
}

/// The members of a container in a spec that this program reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecContainer {
    /// `name`.
    pub name: Str,
    /// `image`; empty if absent.
    pub image: Str,
    /// Whether this is an init container that keeps running: its `restartPolicy` is `Always`.
    pub is_sidecar: bool,
}

impl PartialEq for PodSpec {
    fn eq(&self, other: &Self) -> bool {
        // The other fields are derived from the text.
        std::ptr::eq(self, other) || (self.members == other.members && self.stars == other.stars)
    }
}

impl Hash for PodSpec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.members.hash(state);
    }
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodStatus {
    /// The phase: a summary of the pod's state.
    pub phase: PodPhase,
    /// The conditions, in order. A type may occur more than once.
    pub conditions: PodConditions,
    /// One status per container. Most pods have one container.
    pub container_statuses: ContainerStatuses,
    /// One status per init container; absent if there are none.
    pub init_container_statuses: Option<Box<ContainerStatuses>>,
    /// The start time and the addresses; absent until a kubelet has seen the pod, and for a pod
    /// with several addresses of its own or of its host.
    pub started: Option<Arc<PodStart>>,
    /// Members without a typed field; also `phase` if it is `Other`.
    pub rest: Rest,
}

impl PodStatus {
    /// Returns the statuses of the init containers, sidecars included.
    #[inline]
    pub fn init_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        let statuses = self.init_container_statuses.iter();
        statuses.flat_map(|statuses| statuses.iter())
    }

    /// Returns the statuses of all containers: the regular ones, then the init containers.
    #[inline]
    pub fn all_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        self.container_statuses.iter().chain(self.init_statuses())
    }
}

/// The members that a kubelet writes when it starts a pod: `startTime` and `hostIP`, later `podIP`,
/// and the lists of these addresses, with one entry each. Pods with equal values share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// `hostIP`, which is also the only entry of `hostIPs`.
    pub host_ip: Address,
    /// `podIP`, which is also the only entry of `podIPs`; empty if the pod has no address yet.
    pub pod_ip: Address,
    /// `startTime`, never unset.
    pub time: Time,
}

/// `status.phase` of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Empty or absent.
    #[default]
    Unset,
    /// Accepted, but not all containers have started.
    Pending,
    /// Bound and started.
    Running,
    /// All containers have succeeded, permanently.
    Succeeded,
    /// All containers have ended and at least one has failed, permanently.
    Failed,
    /// The node could not be reached.
    Unknown,
    /// A value that Kubernetes doesn't define. It is in `rest["phase"]`.
    Other,
}

impl PodPhase {
    /// Reports whether the pod has ended permanently: `Succeeded` or `Failed`.
    pub fn is_terminal(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}

impl Pod {
    /// Drops `metadata.managedFields`, which the controller never reads and no write needs to send
    /// back. The informer applies this transform once, when a pod enters the cache.
    pub fn strip_for_cache(&mut self) {
        self.metadata.strip_for_cache();
    }

    /// Returns the statuses of the sidecars: init containers that run as long as the pod. O(init
    /// containers squared).
    #[inline]
    pub fn sidecar_statuses(&self) -> impl Iterator<Item = &ContainerStatus> {
        let specs = &self.spec.init_containers;
        let is_sidecar = |name: &str| specs.iter().any(|it| it.is_sidecar && *it.name == *name);
        let statuses = self.status.init_statuses();
        statuses.filter(move |status| is_sidecar(&status.name))
    }

    /// Reports whether the pod counts as a replica: neither ended nor being deleted.
    pub fn is_active(&self) -> bool {
        !self.status.phase.is_terminal() && !self.metadata.is_deleting()
    }

    /// Reports whether the pod is terminating but has not ended: deletion has begun, phase not
    /// terminal.
    pub fn is_terminating(&self) -> bool {
        !self.status.phase.is_terminal() && self.metadata.is_deleting()
    }

    /// Reports whether the pod is ready, regardless of its phase.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.ready_condition()
            .is_some_and(|(status, _)| status == ConditionStatus::True)
    }

    /// Returns when the pod became ready. Unset if the pod is not ready or the time is not
    /// recorded.
    pub fn ready_time(&self) -> Time {
        self.ready_condition()
            .filter(|(status, _)| *status == ConditionStatus::True)
            .map_or(Time::UNSET, |(_, since)| since.get())
    }

    /// Returns the status and the last transition time of the first condition of type `Ready`.
    #[inline]
    fn ready_condition(&self) -> Option<(ConditionStatus, PackedTime)> {
        self.status.conditions.first(ConditionType::Ready)
    }
}
