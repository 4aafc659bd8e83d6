//! What can be done to a cluster and its controllers at one moment of a run.

use std::fmt::Debug;

use podstorm_apiserver::Propagation;
use podstorm_objects::Kind;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, Effect, StreamEnd, StreamKind};
use podstorm_sim::rows::Rows;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a schedule does at one moment: something to the workload's objects, or to the cluster.
pub trait SubjectAction:
    Clone + Debug + PartialEq + Eq + Send + Sync + Serialize + DeserializeOwned + From<Action>
{
    /// What it does to the cluster, to pods or to the objects that own them, if it does.
    fn on_cluster(&self) -> Option<&Action>;

    /// The object that it names, if it names one.
    fn target(&self) -> Option<&str>;
}

/// One action. An *owner* is an object of the kinds that [own pods](crate::simulation::PodOwners). It is named, or
/// counted among those that another object owns: `web/2` is the third of the owners that `web` has, oldest
/// first; the count begins again behind the last. Percentages are of its pods, rounded up. Schedules call an owner
/// `replica-set`, as all of them were about ReplicaSets once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Action {
    /// A user sets the number of replicas.
    Scale {
        /// Which.
        #[serde(rename = "replica-set")]
        owner: String,
        /// To how many.
        replicas: i32,
    },
    /// A user changes an annotation of an owner: an event without a meaning.
    Touch {
        /// Which.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// A user changes the template's labels (and not the selector).
    ChangeTemplate {
        /// Which.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// A user creates one more owner with the selector of another.
    CreateOverlapping {
        /// What the new one is; absent: the first kind of [owners](crate::simulation::PodOwners::kinds).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<OwnerKind>,
        /// The name of the new one.
        name: String,
        /// Whose selector and template it has.
        like: String,
        /// How many replicas.
        replicas: i32,
    },
    /// A user deletes an owner.
    #[serde(rename = "delete-replica-set")]
    DeleteOwner {
        /// Which.
        #[serde(rename = "replica-set")]
        owner: String,
        /// What becomes of its pods.
        propagation: Dependents,
    },
    /// A user deletes an owner and creates it again under its name.
    Recreate {
        /// Which.
        #[serde(rename = "replica-set")]
        owner: String,
        /// What becomes of its pods.
        propagation: Dependents,
        /// How long it is away, ms.
        gap_ms: u32,
    },
    /// A user creates pods that belong to none and that an owner's selector matches.
    CreateOrphans {
        /// Whose.
        #[serde(rename = "replica-set")]
        owner: String,
        /// How many.
        pods: u32,
    },
    /// A user creates one pod under a name, which belongs to none. Refused while the name is taken.
    CreatePod {
        /// Its name.
        name: String,
        /// The owner whose selector matches it; absent: none.
        #[serde(
            default,
            rename = "replica-set",
            skip_serializing_if = "Option::is_none"
        )]
        owner: Option<String>,
        /// Its `controller.kubernetes.io/pod-deletion-cost`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deletion_cost: Option<i32>,
    },
    /// A user removes a pod at once, by its name.
    RemovePod {
        /// Its name.
        name: String,
    },
    /// Somebody else writes other counts into an owner's status.
    WriteStatus {
        /// Whose.
        #[serde(rename = "replica-set")]
        owner: String,
    },
    /// Pods go.
    Kill {
        /// Whose.
        #[serde(rename = "replica-set")]
        owner: String,
        /// How many of its active pods, 1 to 100.
        percent: u32,
        /// How.
        how: Death,
    },
    /// The containers of pods restart: not ready for a moment.
    Flap {
        /// Whose.
        #[serde(rename = "replica-set")]
        owner: String,
        /// How many of its ready pods, 1 to 100.
        percent: u32,
    },
    /// Labels or owners of a pod are changed by another client.
    Tamper {
        /// Whose pod.
        #[serde(rename = "replica-set")]
        owner: String,
        /// The pod, counted in order of names among the active ones.
        nth: u32,
        /// What is done.
        how: Tampering,
    },
    /// Pods get a finalizer, and lose it later.
    Stick {
        /// Whose.
        #[serde(rename = "replica-set")]
        owner: String,
        /// How many of its active pods, 1 to 100.
        percent: u32,
        /// For how long, ms.
        for_ms: u32,
    },
    /// A node goes away and comes back.
    LoseNode {
        /// Counted from 0.
        node: u32,
        /// For how long, ms.
        for_ms: u32,
    },
    /// A node refuses every pod that is bound to it: it fails at once.
    RejectPods {
        /// Counted from 0.
        node: u32,
        /// For how long, ms.
        for_ms: u32,
    },
    /// A quota on the pods of the namespace.
    Quota {
        /// How many pods.
        pods: u32,
        /// For how long, ms.
        for_ms: u32,
    },
    /// The namespace is deleted, and created again with its objects later.
    DeleteNamespace {
        /// How long after it is gone, ms.
        gap_ms: u32,
    },
    /// The next requests that fit meet a fault.
    Requests {
        /// Which calls; empty is every pod write and status write.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
        /// Only those of the syncs of an object of this name.
        #[serde(
            default,
            rename = "replica-set",
            skip_serializing_if = "Option::is_none"
        )]
        owner: Option<String>,
        /// Only those of this batch of their sync, from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<u32>,
        /// Only this one of its batch, from 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        /// What happens to them.
        effect: Effect,
        /// How many.
        times: u32,
        /// Within how long, ms.
        within_ms: u32,
    },
    /// A watch is held.
    Hold {
        /// Which.
        stream: StreamKind,
        /// For how long, ms.
        for_ms: u32,
    },
    /// Events are lost until a new list.
    Drop {
        /// Of which watch.
        stream: StreamKind,
        /// How many.
        events: u32,
        /// When the watch ends and lists again, ms from now.
        list_after_ms: u32,
    },
    /// Events come twice.
    Duplicate {
        /// Of which watch.
        stream: StreamKind,
        /// How many.
        events: u32,
    },
    /// The last events come again.
    Replay {
        /// Of which watch.
        stream: StreamKind,
        /// How many, 8 at most.
        events: u32,
    },
    /// A watch ends.
    EndWatch {
        /// Which.
        stream: StreamKind,
        /// How.
        end: StreamEnd,
    },
    /// Lists and watches are refused.
    RefuseWatch {
        /// Which.
        stream: StreamKind,
        /// With what answer.
        fault: ApiFault,
        /// How often.
        times: u32,
    },
    /// A watch goes silent for good, whatever is healed later: no seed draws it, it shows that the
    /// simulator notices.
    Break {
        /// Which.
        stream: StreamKind,
    },
    /// The server forgets its past, and the watch ends.
    Compact {
        /// Of what.
        stream: StreamKind,
    },
    /// The watch ends, and the next list or initial state is served by a server that lags.
    ServeStale {
        /// Which.
        stream: StreamKind,
        /// How many versions it lags.
        versions: u32,
        /// For how long it shows nothing newer, ms.
        #[serde(default)]
        for_ms: u32,
    },
    /// The controller dies and is started again.
    Crash {
        /// Where.
        point: CrashPoint,
        /// How often it passes there before.
        passes: u32,
        /// For how long it is away, ms.
        down_ms: u32,
        /// What the new one lists first is that many versions old.
        #[serde(default)]
        stale_versions: u32,
        /// For how long the servers of these lists stay behind, ms.
        #[serde(default)]
        stale_for_ms: u32,
    },
    /// A second controller is started; later the first one is killed.
    Overlap {
        /// For how long there are two, ms.
        for_ms: u32,
    },
    /// The controller's process stops for a while, and goes on.
    Pause {
        /// For how long, ms.
        for_ms: u32,
    },
    /// The controller's wall clock is off.
    WallClock {
        /// By how many seconds; negative is behind.
        offset_s: i32,
        /// For how long, ms.
        for_ms: u32,
    },
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dependents {
    /// They stay, without an owner.
    Orphan,
    /// They are collected after it is gone.
    Background,
    /// They are collected before it goes.
    Foreground,
}

/// A kind of owners of pods: in a schedule its name with hyphens, `replica-set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerKind(pub Kind);

impl OwnerKind {
    fn name(self) -> String {
        let mut name = String::new();
        for c in self.0.name().chars() {
            if c.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(c.to_lowercase());
        }
        name
    }
}

impl Serialize for OwnerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl<'de> Deserialize<'de> for OwnerKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OwnerKind, D::Error> {
        let text = String::deserialize(deserializer)?;
        let kinds = Rows::installed().iter().filter_map(|row| row.kind);
        let mut kinds = kinds.map(OwnerKind);
        let found = kinds.find(|kind| kind.name() == text);
        let unknown = || format!("{text:?} is not the kind of a controller's objects");
        found.ok_or_else(|| D::Error::custom(unknown()))
    }
}

/// How a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Death {
    /// It is deleted, with its grace period.
    Deleted,
    /// It is removed at once.
    Removed,
    /// It ends with phase `Failed`, and stays.
    Failed,
    /// It ends with phase `Succeeded`, and stays.
    Succeeded,
}

/// What is done to the labels and owners of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tampering {
    /// The label that the selector asks for is changed.
    Relabel,
    /// The owner references are removed.
    Orphan,
    /// The reference no longer says that its owner is the controller.
    NotController,
    /// The reference names a UID that does not exist.
    DanglingUid,
    /// The reference names another kind.
    WrongKind,
    /// Another object is named as the controller.
    ForeignController,
}

impl Death {
    /// Every way.
    pub(crate) const ALL: [Death; 4] = [
        Death::Deleted,
        Death::Removed,
        Death::Failed,
        Death::Succeeded,
    ];
}

impl Dependents {
    /// In the order in which they are drawn.
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

/// The owner that an action names, if it names one.
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
    /// The owner that it names, if it names one.
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
