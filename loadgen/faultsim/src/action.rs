//! The actions on a cluster and its controllers that a schedule consists of.

use std::fmt::Debug;

use podstorm_apiserver::Propagation;
use podstorm_objects::Kind;
use podstorm_sim::faults::watching::hyphenated;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, StreamEnd, StreamKind};
use podstorm_sim::rows::Rows;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An action of a schedule: on the workload's objects, or on the cluster.
pub trait SubjectAction:
    Clone + Debug + PartialEq + Eq + Send + Sync + Serialize + DeserializeOwned + From<Action>
{
    /// Returns the action if it is one on the cluster, on pods or on the objects that own pods;
    /// `None` if it is one on other objects of the workload.
    fn on_cluster(&self) -> Option<&Action>;

    /// Returns the name of the object that the action is about; `None` if it does not name one.
    fn target(&self) -> Option<&str>;
}

/// An action on the cluster. An *owner* is an object of the kinds that [own
/// pods](crate::simulation::PodOwners). An action gives the owner's name directly, or as an index
/// into the owners that another object owns: `web/2` is the third owner that `web` owns, the oldest
/// first; the index wraps around. Percentages refer to the owner's pods and are rounded up. In
/// schedules, the member for an owner is called `replica-set`, because all schedules were once
/// about ReplicaSets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Action {
    /// A user sets the number of replicas.
    Scale {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The new number of replicas.
        replicas: i32,
    },
    /// A user changes an annotation of an owner, which causes an event without consequences.
    Touch {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// A user changes the template's labels, but not the selector.
    ChangeTemplate {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// A user creates another owner with the selector of an existing one.
    CreateOverlapping {
        /// The kind of the new owner; the first kind of
        /// [owners](crate::simulation::PodOwners::kinds) if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<OwnerKind>,
        /// The name of the new owner.
        name: String,
        /// The name of the owner whose selector and template are copied.
        like: String,
        /// The number of replicas.
        replicas: i32,
    },
    /// A user deletes an owner.
    #[serde(rename = "delete-replica-set")]
    DeleteOwner {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// What happens to the owner's pods.
        propagation: Dependents,
    },
    /// A user deletes an owner and recreates it under the same name.
    Recreate {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// What happens to the owner's pods.
        propagation: Dependents,
        /// The time between deletion and recreation, ms.
        gap_ms: u32,
    },
    /// A user creates pods without an owner that the selector of an owner matches.
    CreateOrphans {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The number of pods.
        pods: u32,
    },
    /// A user creates one named pod without an owner. The request is rejected while the name is in
    /// use.
    CreatePod {
        /// The name of the pod.
        name: String,
        /// The name of the owner whose selector matches the pod; if absent, no selector matches it.
        #[serde(
            default,
            rename = "replica-set",
            skip_serializing_if = "Option::is_none"
        )]
        owner: Option<String>,
        /// The value of the annotation `controller.kubernetes.io/pod-deletion-cost`; none if
        /// absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deletion_cost: Option<i32>,
    },
    /// A user removes a pod by name, without a grace period.
    RemovePod {
        /// The name of the pod.
        name: String,
    },
    /// Another client writes wrong counts into an owner's status.
    WriteStatus {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// Pods end or are deleted.
    Kill {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The percentage of the owner's active pods, 1 to 100.
        percent: u32,
        /// How the pods end.
        how: Death,
    },
    /// The containers of pods restart, so the pods are not ready for a moment.
    Flap {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The percentage of the owner's ready pods, 1 to 100.
        percent: u32,
    },
    /// Another client changes the labels or owner references of a pod.
    Tamper {
        /// The name of the pod's owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The index of the pod among the owner's active pods, in name order.
        nth: u32,
        /// The change.
        how: Tampering,
    },
    /// Pods get a finalizer, which is removed later.
    Stick {
        /// The name of the owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The percentage of the owner's active pods, 1 to 100.
        percent: u32,
        /// The time until the finalizer is removed, ms.
        for_ms: u32,
    },
    /// A node is lost and comes back.
    LoseNode {
        /// The index of the node, from 0.
        node: u32,
        /// The time until the node is back, ms.
        for_ms: u32,
    },
    /// A node rejects every pod that is bound to it: the pod fails immediately.
    RejectPods {
        /// The index of the node, from 0.
        node: u32,
        /// The time until the node accepts pods again, ms.
        for_ms: u32,
    },
    /// A quota limits the pods of the namespace.
    Quota {
        /// The maximum number of pods.
        pods: u32,
        /// The time until the quota is removed, ms.
        for_ms: u32,
    },
    /// The namespace is deleted, and later recreated with its objects.
    DeleteNamespace {
        /// The time between the removal of the namespace and its recreation, ms.
        gap_ms: u32,
    },
    /// A fault hits the next matching requests.
    Requests {
        /// The kinds of calls that match; if empty, all writes except writes of Events.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
        /// The name of the object whose syncs match; any object if absent.
        #[serde(
            default,
            rename = "replica-set",
            skip_serializing_if = "Option::is_none"
        )]
        owner: Option<String>,
        /// The only batch of a sync that matches, counted from 0; any batch if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u32>,
        /// The only index in a batch that matches, counted from 0; any index if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        /// The effect on the requests.
        effect: Effect,
        /// The maximum number of requests that the fault hits.
        times: u32,
        /// The time after which the fault is disarmed, ms.
        within_ms: u32,
    },
    /// The events of a watch are held back.
    Hold {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// The time for which the events are held back, ms.
        for_ms: u32,
    },
    /// Events of a watch are lost until the next list.
    Drop {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// The number of events that are lost.
        events: u32,
        /// The time until the watch ends and lists again, ms.
        list_after_ms: u32,
    },
    /// Events of a watch are delivered twice.
    Duplicate {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// The number of events that are delivered twice.
        events: u32,
    },
    /// The last events of a watch are replayed.
    Replay {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// The number of events that are replayed, at most 8.
        events: u32,
    },
    /// A watch ends.
    EndWatch {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// How the watch ends.
        end: StreamEnd,
    },
    /// Lists and watches of a kind fail.
    RefuseWatch {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// The answer to each attempt.
        fault: ApiFault,
        /// The number of attempts that fail.
        times: u32,
    },
    /// A watch goes silent permanently, even after healing. No seed draws this action: tests use it
    /// to check that the simulator detects a failure.
    Break {
        /// The watch that the fault hits.
        stream: StreamKind,
    },
    /// The server discards its history, and the watch ends.
    Compact {
        /// The watch that the fault hits.
        stream: StreamKind,
    },
    /// The watch ends, and a lagging server answers the next list or initial watch.
    ServeStale {
        /// The watch that the fault hits.
        stream: StreamKind,
        /// The lag of the server, in versions.
        versions: u32,
        /// The time for which the new watch delivers no events, ms.
        #[serde(default)]
        for_ms: u32,
    },
    /// The controller manager dies and is restarted.
    Crash {
        /// The crash point.
        point: CrashPoint,
        /// The number of times that the controller manager passes the point before it dies.
        passes: u32,
        /// The time until the restart, ms.
        down_ms: u32,
        /// The lag of the new controller manager's first lists, in versions.
        #[serde(default)]
        stale_versions: u32,
        /// The time for which the watches deliver no events after these lists, ms.
        #[serde(default)]
        stale_for_ms: u32,
    },
    /// A second controller manager starts; later the first one is killed.
    Overlap {
        /// The time for which both controller managers run, ms.
        for_ms: u32,
    },
    /// The controller manager's process is paused, and then continues.
    Pause {
        /// The duration of the pause, ms.
        for_ms: u32,
    },
    /// The controller manager's wall clock is wrong.
    WallClock {
        /// The offset of the clock, seconds; negative if the clock is behind.
        offset_s: i32,
        /// The time until the clock is right again, ms.
        for_ms: u32,
    },
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dependents {
    /// The dependents stay, without an owner.
    Orphan,
    /// The dependents are collected after the removal of the object.
    Background,
    /// The dependents are collected before the removal of the object.
    Foreground,
}

/// A kind of pod owners. Schedules write its name with hyphens: `replica-set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerKind(pub Kind);

impl Serialize for OwnerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hyphenated(self.0))
    }
}

impl<'de> Deserialize<'de> for OwnerKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OwnerKind, D::Error> {
        let text = String::deserialize(deserializer)?;
        let kinds = Rows::installed().iter().filter_map(|row| row.kind);
        let mut kinds = kinds.map(OwnerKind);
        let found = kinds.find(|kind| hyphenated(kind.0) == text);
        let unknown = || format!("{text:?} is not a kind with a controller");
        found.ok_or_else(|| D::Error::custom(unknown()))
    }
}

/// How a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Death {
    /// The pod is deleted, with its grace period.
    Deleted,
    /// The pod is removed without a grace period.
    Removed,
    /// The pod ends in phase `Failed`, and the object stays.
    Failed,
    /// The pod ends in phase `Succeeded`, and the object stays.
    Succeeded,
}

/// A change to the labels or owner references of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tampering {
    /// The label that the selector names is changed.
    Relabel,
    /// The owner references are removed.
    Orphan,
    /// The reference no longer marks its owner as the controller.
    NotController,
    /// The owner reference names a UID that does not exist.
    DanglingUid,
    /// The owner reference names another kind.
    WrongKind,
    /// The owner reference names another object as the controller.
    ForeignController,
}

impl Death {
    /// All variants.
    pub(crate) const ALL: [Death; 4] = [
        Death::Deleted,
        Death::Removed,
        Death::Failed,
        Death::Succeeded,
    ];
}

impl Dependents {
    /// The variants that schedules draw, in order.
    pub const DRAWN: [Dependents; 3] = [
        Dependents::Background,
        Dependents::Orphan,
        Dependents::Foreground,
    ];

    pub(super) fn policy(self) -> Propagation {
        match self {
            Dependents::Orphan => Propagation::Orphan,
            Dependents::Background => Propagation::Background,
            Dependents::Foreground => Propagation::Foreground,
        }
    }
}

/// Returns the owner's name in an action, if there is one.
macro_rules! named {
    ($action:expr, $of_option:ident) => {{
        use Action::*;
        match $action {
            Scale { owner, .. }
            | Touch { owner }
            | ChangeTemplate { owner }
            | DeleteOwner { owner, .. }
            | Recreate { owner, .. }
            | CreateOrphans { owner, .. }
            | WriteStatus { owner }
            | Kill { owner, .. }
            | Flap { owner, .. }
            | Tamper { owner, .. }
            | Stick { owner, .. }
            | CreateOverlapping { like: owner, .. } => Some(owner),
            Requests { owner, .. } | CreatePod { owner, .. } => owner.$of_option(),
            _ => None,
        }
    }};
}

impl Action {
    /// Returns the name of the owner that the action is about; `None` if it does not name one.
    pub fn owner(&self) -> Option<&str> {
        named!(self, as_ref).map(String::as_str)
    }

    pub(crate) fn owner_mut(&mut self) -> Option<&mut String> {
        named!(self, as_mut)
    }
}

impl SubjectAction for Action {
    fn on_cluster(&self) -> Option<&Action> {
        Some(self)
    }

    fn target(&self) -> Option<&str> {
        self.owner()
    }
}
