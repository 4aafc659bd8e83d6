//! The places of a pod that a pattern knows, and which of them hold a value that pods of one
//! ReplicaSet have of their own. Both languages' readers walk these places.

use podstorm_objects::TokenVolume;

/// A value that each pod has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// `metadata.name`.
    Name,
    /// `metadata.uid`.
    Uid,
    /// `metadata.resourceVersion`.
    ResourceVersion,
    /// `metadata.creationTimestamp`.
    Created,
    /// The annotation of that number in [`OWN_ANNOTATIONS`].
    Annotation(u8),
    /// `spec.nodeName`.
    NodeName,
    /// The five letters of the service-account volume's name, wherever it stands.
    TokenVolume,
    /// `lastTransitionTime` of that condition.
    Transition(u8),
    /// `status.hostIP`, and the entry of `hostIPs`.
    HostIp,
    /// `status.podIP`, and the entry of `podIPs`.
    PodIp,
    /// `status.startTime`.
    Started,
    /// `containerID` of a container.
    ContainerId(Container),
    /// `restartCount` of a container.
    RestartCount(Container),
    /// `state.running.startedAt` of a container.
    RunningSince(Container),
    /// A member of `state.terminated` or `lastState.terminated` of a container.
    Ended(Container, State, Ended),
}

impl Slot {
    /// Whether the value is a number, not a text.
    pub(super) fn is_number(self) -> bool {
        matches!(self, Slot::RestartCount(_))
    }
}

/// Annotations whose values are each pod's own and which no rule is about: those of the network.
pub(super) const OWN_ANNOTATIONS: [&str; 3] = [
    "cni.projectcalico.org/containerID",
    "cni.projectcalico.org/podIP",
    "cni.projectcalico.org/podIPs",
];

/// Which container status: of the init containers or of the others, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) is_init: bool,
    pub(super) number: u8,
}

/// Which state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Present,
    Last,
}

impl State {
    pub(super) fn member(self) -> &'static str {
        match self {
            State::Present => "state",
            State::Last => "lastState",
        }
    }
}

/// Which member of `terminated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    ContainerId,
    StartedAt,
    FinishedAt,
}

impl Ended {
    pub(super) fn member(self) -> &'static str {
        match self {
            Ended::ContainerId => "containerID",
            Ended::StartedAt => "startedAt",
            Ended::FinishedAt => "finishedAt",
        }
    }
}

/// A place in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One whose values are alike.
    Other,
    Root,
    Metadata,
    Annotations,
    Spec,
    Containers,
    Container,
    /// `volumes`, `volumeMounts`.
    Named,
    NamedItem,
    Status,
    Conditions,
    Condition(u8),
    /// `hostIPs`, `podIPs`.
    Addresses(Slot),
    Address(Slot),
    Statuses {
        is_init: bool,
    },
    ContainerStatus(Container),
    State(Container, State),
    Running(Container),
    Terminated(Container, State),
    Value(Slot),
}

/// Most items of a list that have places of their own.
const ITEMS_MAX: usize = 32;

impl Place {
    /// The place of a member of the object at this place.
    pub(super) fn member(self, key: &[u8]) -> Place {
        use Place::{
            Addresses, Annotations, Conditions, ContainerStatus, Containers, Metadata, Named,
            Running, Spec, Status, Statuses, Terminated, Value,
        };
        match (self, key) {
            (Place::Root, b"metadata") => Metadata,
            (Place::Root, b"spec") => Spec,
            (Place::Root, b"status") => Status,
            (Metadata, b"name") => Value(Slot::Name),
            (Metadata, b"uid") => Value(Slot::Uid),
            (Metadata, b"resourceVersion") => Value(Slot::ResourceVersion),
            (Metadata, b"creationTimestamp") => Value(Slot::Created),
            (Metadata, b"annotations") => Annotations,
            (Annotations, key) => (0..)
                .zip(OWN_ANNOTATIONS)
                .find(|(_, own)| own.as_bytes() == key)
                .map_or(Place::Other, |(number, _)| Value(Slot::Annotation(number))),
            (Spec, b"nodeName") => Value(Slot::NodeName),
            (Spec, b"containers" | b"initContainers" | b"ephemeralContainers") => Containers,
            (Spec, b"volumes") | (Place::Container, b"volumeMounts") => Named,
            (Place::NamedItem, b"name") => Value(Slot::TokenVolume),
            (Status, b"conditions") => Conditions,
            (Place::Condition(number), b"lastTransitionTime") => Value(Slot::Transition(number)),
            (Status, b"hostIP") => Value(Slot::HostIp),
            (Status, b"hostIPs") => Addresses(Slot::HostIp),
            (Status, b"podIP") => Value(Slot::PodIp),
            (Status, b"podIPs") => Addresses(Slot::PodIp),
            (Place::Address(slot), b"ip") => Value(slot),
            (Status, b"startTime") => Value(Slot::Started),
            (Status, b"containerStatuses") => Statuses { is_init: false },
            (Status, b"initContainerStatuses") => Statuses { is_init: true },
            (ContainerStatus(of), b"containerID") => Value(Slot::ContainerId(of)),
            (ContainerStatus(of), b"restartCount") => Value(Slot::RestartCount(of)),
            (ContainerStatus(of), b"state") => Place::State(of, State::Present),
            (ContainerStatus(of), b"lastState") => Place::State(of, State::Last),
            (Place::State(of, State::Present), b"running") => Running(of),
            (Running(of), b"startedAt") => Value(Slot::RunningSince(of)),
            (Place::State(of, state), b"terminated") => Terminated(of, state),
            (Terminated(of, state), key) => {
                let ended = [Ended::ContainerId, Ended::StartedAt, Ended::FinishedAt];
                ended
                    .into_iter()
                    .find(|ended| ended.member().as_bytes() == key)
                    .map_or(Place::Other, |ended| Value(Slot::Ended(of, state, ended)))
            }
            _ => Place::Other,
        }
    }

    /// The place of an item of the list at this place.
    pub(super) fn item(self, index: usize) -> Place {
        if index >= ITEMS_MAX {
            return Place::Other;
        }
        let number = index as u8;
        match self {
            Place::Containers => Place::Container,
            Place::Named => Place::NamedItem,
            Place::Conditions => Place::Condition(number),
            // A second address is of a form that is kept as it is.
            Place::Addresses(slot) if index == 0 => Place::Address(slot),
            Place::Statuses { is_init } => Place::ContainerStatus(Container { is_init, number }),
            _ => Place::Other,
        }
    }
}

/// How many bytes of a value at that place are alike in all pods; `None` where all of it is.
pub(super) fn prefix_bytes(slot: Slot, value: &[u8]) -> Option<usize> {
    match slot {
        Slot::TokenVolume => {
            let prefix = TokenVolume::PREFIX.as_bytes();
            let letters = value.strip_prefix(prefix)?;
            (letters.len() == 5).then_some(prefix.len())
        }
        _ => (!value.is_empty()).then_some(0),
    }
}
