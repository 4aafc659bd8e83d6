//! Actions on a cluster and its controllers at one time of a run.

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
    /// Returns the action on the cluster, on pods or on the objects that own pods, if it is one.
    fn on_cluster(&self) -> Option<&Action>;

    /// Returns the name of the object that it names, if any.
    fn target(&self) -> Option<&str>;
}

/// An action on the cluster. An *owner* is an object of the kinds that [own
/// pods](crate::simulation::PodOwners). Its name is given directly, or as an index into the owners
/// that another object owns: `web/2` is the third owner owned by `web`, oldest first; the index
/// wraps around. Percentages refer to the owner's pods and are rounded up. The member for an owner
/// in schedules is `replica-set`, because all schedules were once about ReplicaSets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Action {
    /// A user sets the number of replicas.
    Scale {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The new number of replicas.
        replicas: i32,
    },
    /// A user changes an annotation of an owner: an event without consequences.
    Touch {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// A user changes the template's labels, but not the selector.
    ChangeTemplate {
        /// Which.
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
        /// The owner whose selector and template it copies.
        like: String,
        /// The number of replicas.
        replicas: i32,
    },
    /// A user deletes an owner.
    #[serde(rename = "delete-replica-set")]
    DeleteOwner {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The handling of its pods.
        propagation: Dependents,
    },
    /// A user deletes an owner and recreates it under the same name.
    Recreate {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The handling of its pods.
        propagation: Dependents,
        /// The time between deletion and recreation, ms.
        gap_ms: u32,
    },
    /// A user creates pods without an owner that an owner's selector matches.
    CreateOrphans {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The number of pods.
        pods: u32,
    },
    /// A user creates one named pod without an owner. Rejected while the name is taken.
    CreatePod {
        /// The name of the pod.
        name: String,
        /// The owner whose selector matches it; none if absent.
        #[serde(
            default,
            rename = "replica-set",
            skip_serializing_if = "Option::is_none"
        )]
        owner: Option<String>,
        /// The value of `controller.kubernetes.io/pod-deletion-cost`.
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
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// Pods end or are deleted.
    Kill {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The percentage of its active pods, 1 to 100.
        percent: u32,
        /// The way in which they end.
        how: Death,
    },
    /// The containers of pods restart: the pods are not ready for a moment.
    Flap {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The percentage of its ready pods, 1 to 100.
        percent: u32,
    },
    /// Another client changes labels or owner references of a pod.
    Tamper {
        /// The owner of the pod.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The index of the pod among the active ones, in name order.
        nth: u32,
        /// The change.
        how: Tampering,
    },
    /// Pods get a finalizer, which is removed later.
    Stick {
        /// The owner.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The percentage of its active pods, 1 to 100.
        percent: u32,
        /// The time until the finalizer is removed, ms.
        for_ms: u32,
    },
    /// A node is lost and comes back.
    LoseNode {
        /// The index of the node, from 0.
        node: u32,
        /// The time until it is back, ms.
        for_ms: u32,
    },
    /// A node rejects every pod that is bound to it: the pod fails immediately.
    RejectPods {
        /// The index of the node, from 0.
        node: u32,
        /// The time until it accepts pods again, ms.
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
        /// The time between its removal and its recreation, ms.
        gap_ms: u32,
    },
    /// A fault hits the next matching requests.
    Requests {
        /// The matching calls; if empty, every pod write and status write.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
        /// The name of the object whose syncs match; any object if absent.
        #[serde(
            default,
            rename = "replica-set",
            skip_serializing_if = "Option::is_none"
        )]
        owner: Option<String>,
        /// The matching batch of a sync, from 0; any batch if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u32>,
        /// The matching index in a batch, from 0; any index if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        /// The effect on the requests.
        effect: Effect,
        /// The number of requests.
        times: u32,
        /// The time limit, ms.
        within_ms: u32,
    },
    /// The events of a watch are held back.
    Hold {
        /// The watch.
        stream: StreamKind,
        /// The time, ms.
        for_ms: u32,
    },
    /// Events of a watch are lost until the next list.
    Drop {
        /// The watch.
        stream: StreamKind,
        /// The number of events.
        events: u32,
        /// The time until the watch ends and lists again, ms.
        list_after_ms: u32,
    },
    /// Events of a watch are delivered twice.
    Duplicate {
        /// The watch.
        stream: StreamKind,
        /// The number of events.
        events: u32,
    },
    /// The last events of a watch are replayed.
    Replay {
        /// The watch.
        stream: StreamKind,
        /// The number of events, at most 8.
        events: u32,
    },
    /// A watch ends.
    EndWatch {
        /// The watch.
        stream: StreamKind,
        /// The way in which it ends.
        end: StreamEnd,
    },
    /// Lists and watches of a kind fail.
    RefuseWatch {
        /// The watch.
        stream: StreamKind,
        /// The answer.
        fault: ApiFault,
        /// The number of attempts that fail.
        times: u32,
    },
    /// A watch goes silent permanently, even after healing. No seed draws this action; it tests
    /// that the simulator detects a failure.
    Break {
        /// The watch.
        stream: StreamKind,
    },
    /// The server discards its history, and the watch ends.
    Compact {
        /// The watch.
        stream: StreamKind,
    },
    /// The watch ends, and a lagging server answers the next list or initial watch.
    ServeStale {
        /// The watch.
        stream: StreamKind,
        /// The lag, in versions.
        versions: u32,
        /// The time for which the server shows no newer state, ms.
        #[serde(default)]
        for_ms: u32,
    },
    /// The controller manager dies and is restarted.
    Crash {
        /// The crash point.
        point: CrashPoint,
        /// The number of times that it passes the point first.
        passes: u32,
        /// The time until the restart, ms.
        down_ms: u32,
        /// The age of the new controller manager's first lists, in versions.
        #[serde(default)]
        stale_versions: u32,
        /// The time for which the servers of these lists lag, ms.
        #[serde(default)]
        stale_for_ms: u32,
    },
    /// A second controller manager starts; later the first one is killed.
    Overlap {
        /// The time for which both run, ms.
        for_ms: u32,
    },
    /// The controller manager's process pauses, and then continues.
    Pause {
        /// The duration of the pause, ms.
        for_ms: u32,
    },
    /// The controller manager's wall clock is wrong.
    WallClock {
        /// The offset, seconds; negative is behind.
        offset_s: i32,
        /// The time until the clock is right again, ms.
        for_ms: u32,
    },
}

/// The handling of a deleted object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dependents {
    /// They stay, without an owner.
    Orphan,
    /// They are collected after its removal.
    Background,
    /// They are collected before its removal.
    Foreground,
}

/// A kind of pod owners: in a schedule, its name with hyphens, `replica-set`.
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

/// The way in which a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Death {
    /// It is deleted, with its grace period.
    Deleted,
    /// It is removed without a grace period.
    Removed,
    /// It ends with phase `Failed`, and the object stays.
    Failed,
    /// It ends with phase `Succeeded`, and the object stays.
    Succeeded,
}

/// A change to the labels or owner references of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tampering {
    /// The label in the selector is changed.
    Relabel,
    /// The owner references are removed.
    Orphan,
    /// The reference no longer marks its owner as the controller.
    NotController,
    /// The reference names a UID that does not exist.
    DanglingUid,
    /// The reference has another kind.
    WrongKind,
    /// The reference names another object as the controller.
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
    /// The variants that are drawn, in order.
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

/// Returns the owner that an action names, if any.
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
    /// Returns the owner that the action names, if any.
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
