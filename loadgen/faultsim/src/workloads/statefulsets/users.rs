//! The actions of users on StatefulSets, their pods and their claims.

use std::sync::Arc;

use podstorm::statefulset::Controller;
use podstorm_apiserver::Cluster;
use podstorm_objects::{DynamicObject, Kind, Pod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PlannedStatefulSet;
use super::read::{POD_INDEX, POD_NAME, REVISION, Read, template};
use crate::action::{Action, Dependents, SubjectAction};
use crate::objects::{NAMESPACE, listed, nth_pod, pods_of, touched};
use crate::simulation::{Simulation, Users, is_idle};

/// The lowest number of a template that can't run. Such templates request a scheduler that does not
/// exist.
pub const BAD_TEMPLATES: u32 = 10;

/// The name of the object that controls foreign claims.
const KEEPER: &str = "keeper";

/// The `spec.updateStrategy` of a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Pods are replaced when a user deletes them.
    OnDelete,
    /// A rolling update without parameters: pods are replaced one after the other.
    #[default]
    Plain,
    /// A rolling update with a partition: as many pods, from the lowest ordinal up, are not
    /// replaced.
    Partition(u32),
}

impl Strategy {
    /// Returns the strategy as JSON, in the form that users write. `max_unavailable` is the number
    /// of pods that a rolling update may make unavailable.
    pub(super) fn to_json(&self, max_unavailable: Option<u32>) -> Value {
        match self {
            Strategy::OnDelete => json!({"type": "OnDelete", "rollingUpdate": null}),
            Strategy::Plain => json!({"type": "RollingUpdate", "rollingUpdate": null}),
            Strategy::Partition(partition) => json!({"type": "RollingUpdate",
                "rollingUpdate": {"partition": partition, "maxUnavailable": max_unavailable}}),
        }
    }
}

/// The `spec.persistentVolumeClaimRetentionPolicy` of a StatefulSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Retention {
    /// Whether claims are deleted with their set.
    #[serde(default)]
    pub with_set: bool,
    /// Whether claims are deleted when the set is scaled down.
    #[serde(default)]
    pub when_scaled: bool,
}

impl Retention {
    pub(super) fn to_json(self) -> Value {
        let policy = |goes| if goes { "Delete" } else { "Retain" };
        json!({"whenDeleted": policy(self.with_set), "whenScaled": policy(self.when_scaled)})
    }
}

/// A label of a pod that users remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Label {
    /// The label by which the set selects the pod.
    Selecting,
    /// The label of a pod with its name.
    Name,
    /// The label of a pod with its ordinal.
    Ordinal,
    /// The label with the pod's revision.
    Revision,
}

impl Label {
    /// All labels.
    pub(super) const ALL: [Label; 4] = [
        Label::Selecting,
        Label::Name,
        Label::Ordinal,
        Label::Revision,
    ];

    fn key(self) -> &'static str {
        match self {
            Label::Selecting => "app",
            Label::Name => POD_NAME,
            Label::Ordinal => POD_INDEX,
            Label::Revision => REVISION,
        }
    }
}

/// An action of a schedule. The first string is the name of the set; the number for a pod is its
/// index among the set's pods, in name order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum SetAction {
    /// An action on the cluster or on pods.
    Cluster(Action),
    /// Sets the number of replicas of a set.
    Scale(String, u32),
    /// Sets the ordinal of the first pod of a set.
    Start(String, u32),
    /// Sets the template of a set, by number.
    Template(String, u32),
    /// Sets the update strategy of a set.
    Strategy(String, Strategy),
    /// Sets `minReadySeconds` of a set.
    MinReady(String, u32),
    /// Sets the retention policy for the claims of a set.
    Retention(String, Retention),
    /// Sets `revisionHistoryLimit` of a set.
    History(String, u32),
    /// Changes an annotation of a set.
    Touch(String),
    /// Deletes a set.
    Delete(String, Dependents),
    /// Creates a set, if it doesn't exist.
    Create(String),
    /// Creates a pod without an owner that has the name of one of the set's pods.
    Orphan {
        /// The name of the set.
        set: String,
        /// The ordinal in the pod's name.
        ordinal: u32,
        /// Whether the set selects the pod.
        selected: bool,
        /// Whether the ordinal in the name has a leading zero.
        #[serde(default)]
        zero: bool,
    },
    /// Deletes a pod of a set.
    Remove {
        /// The name of the set.
        set: String,
        /// The index of the pod, from 0; it wraps around.
        nth: u32,
        /// Whether the pod gets no grace period.
        #[serde(default)]
        force: bool,
    },
    /// Removes a label from a pod of a set.
    Unlabel(String, u32, Label),
    /// Creates the claim of an ordinal for the first claim template.
    Claim {
        /// The name of the set.
        set: String,
        /// The ordinal of the claim's pod.
        ordinal: u32,
        /// Whether another object controls the claim.
        #[serde(default)]
        foreign: bool,
    },
    /// Deletes the claim of an ordinal for the first claim template.
    RemoveClaim(String, u32),
}

impl From<Action> for SetAction {
    fn from(action: Action) -> SetAction {
        SetAction::Cluster(action)
    }
}

impl SubjectAction for SetAction {
    fn on_cluster(&self) -> Option<&Action> {
        match self {
            SetAction::Cluster(action) => Some(action),
            _ => None,
        }
    }

    fn target(&self) -> Option<&str> {
        use SetAction::*;
        match self {
            Cluster(action) => action.owner(),
            Scale(name, _) | Start(name, _) | Template(name, _) | Strategy(name, _) => Some(name),
            MinReady(name, _) | Retention(name, _) | History(name, _) | Touch(name) => Some(name),
            Delete(name, _) | Create(name) | Unlabel(name, ..) | RemoveClaim(name, _) => Some(name),
            Orphan { set, .. } | Remove { set, .. } | Claim { set, .. } => Some(set),
        }
    }
}

/// Returns a template for a merge into another one. It also names the members that the merge must
/// remove.
fn numbered(name: &str, number: u32) -> Value {
    template(name, number, number >= BAD_TEMPLATES)
}

/// Returns a claim, which is also the form of a claim template.
fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Returns a planned StatefulSet as JSON, in the form that users write.
pub(super) fn object(set: &PlannedStatefulSet) -> Value {
    let claims: Vec<Value> = set.claims.iter().map(|name| claim(name)).collect();
    let mut object = json!({
        "metadata": {"name": set.name, "namespace": NAMESPACE},
        "spec": {
            "replicas": set.replicas,
            "serviceName": set.name,
            "ordinals": {"start": set.start},
            "podManagementPolicy": if set.parallel { "Parallel" } else { "OrderedReady" },
            "selector": {"matchLabels": {"app": set.name}},
            "template": numbered(&set.name, set.template),
            "updateStrategy": set.strategy.to_json(set.max_unavailable),
            "minReadySeconds": set.min_ready_seconds,
            "persistentVolumeClaimRetentionPolicy": set.retention.to_json(),
            "revisionHistoryLimit": set.revision_history_limit,
            "volumeClaimTemplates": claims,
        },
    });
    let spec = &mut object["spec"];
    if spec["template"]["spec"]["schedulerName"].is_null() {
        spec["template"] = json!({"metadata": spec["template"]["metadata"],
            "spec": {"containers": spec["template"]["spec"]["containers"]}});
    }
    let strategy = &mut spec["updateStrategy"];
    if strategy["rollingUpdate"].is_null() {
        *strategy = json!({"type": strategy["type"]});
    } else if strategy["rollingUpdate"]["maxUnavailable"].is_null() {
        let partition = strategy["rollingUpdate"]["partition"].take();
        strategy["rollingUpdate"] = json!({"partition": partition});
    }
    object
}

/// The users of StatefulSets, with the StatefulSets that they know.
#[derive(Debug)]
pub struct SetUsers {
    planned: Arc<[PlannedStatefulSet]>,
    touches: u64,
}

impl Users for SetUsers {
    type Planned = PlannedStatefulSet;
    type Action = SetAction;

    fn new(planned: &[PlannedStatefulSet]) -> SetUsers {
        SetUsers {
            planned: planned.into(),
            touches: 0,
        }
    }

    fn create(&mut self, simulation: &mut Simulation) {
        let planned = Arc::clone(&self.planned);
        simulation.create_with(move |simulation| {
            let keeper = json!({"metadata": {"name": KEEPER}});
            simulation.create_object(Kind::CONFIG_MAP, keeper);
            for set in &*planned {
                simulation.create_object(Kind::STATEFUL_SET, object(set));
            }
        });
    }

    fn act(&mut self, simulation: &mut Simulation, action: &SetAction) {
        use SetAction::*;
        let spec = |name: &str, spec: Value| {
            simulation.patch_object(Kind::STATEFUL_SET, name, json!({"spec": spec}));
        };
        match action {
            Scale(name, replicas) => spec(name, json!({"replicas": replicas})),
            Start(name, start) => spec(name, json!({"ordinals": {"start": start}})),
            Template(name, number) => spec(name, json!({"template": numbered(name, *number)})),
            Strategy(name, strategy) => {
                let most = self.planned(name).and_then(|it| it.max_unavailable);
                spec(name, json!({"updateStrategy": strategy.to_json(most)}));
            }
            MinReady(name, seconds) => spec(name, json!({"minReadySeconds": seconds})),
            Retention(name, retention) => {
                let policy = retention.to_json();
                spec(
                    name,
                    json!({"persistentVolumeClaimRetentionPolicy": policy}),
                );
            }
            History(name, limit) => spec(name, json!({"revisionHistoryLimit": limit})),
            Touch(name) => {
                self.touches += 1;
                simulation.patch_object(Kind::STATEFUL_SET, name, touched(self.touches));
            }
            Delete(name, dependents) => {
                simulation.delete_object(Kind::STATEFUL_SET, name, *dependents);
            }
            Create(name) => {
                if let Some(set) = self.planned(name) {
                    simulation.create_object(Kind::STATEFUL_SET, object(set));
                }
            }
            Orphan {
                set,
                ordinal,
                selected,
                zero,
            } => {
                let zero = if *zero { "0" } else { "" };
                let app = if *selected { set } else { "elsewhere" };
                let name = format!("{set}-{zero}{ordinal}");
                simulation.create_pod(crate::objects::pod(&name, app));
            }
            Remove { set, nth, force } => {
                if let Some(pod) =
                    nth_pod(simulation.harness.cluster(), Kind::STATEFUL_SET, set, *nth)
                {
                    simulation.delete_pod(&pod.metadata.name, force.then_some(0));
                }
            }
            Unlabel(set, nth, label) => {
                if let Some(pod) =
                    nth_pod(simulation.harness.cluster(), Kind::STATEFUL_SET, set, *nth)
                {
                    let patch = json!({"metadata": {"labels": {label.key(): null}}});
                    simulation.patch_pod(&pod.metadata.name, patch);
                }
            }
            Claim {
                set,
                ordinal,
                foreign,
            } => self.create_claim(simulation, set, *ordinal, *foreign),
            RemoveClaim(set, ordinal) => {
                if let Some(name) = self.claim_name(set, *ordinal) {
                    let kind = Kind::PERSISTENT_VOLUME_CLAIM;
                    simulation.delete_object(kind, &name, Dependents::Background);
                }
            }
            Cluster(action) => unreachable!("{action:?} is an action on the cluster"),
        }
    }

    /// Users create missing sets, and replace broken templates.
    fn put_right(&mut self, simulation: &mut Simulation) {
        for planned in &*Arc::clone(&self.planned) {
            let name = || planned.name.clone();
            let there = sets(simulation.harness.cluster());
            match there.iter().find(|it| *it.metadata.name == *planned.name) {
                None => self.act(simulation, &SetAction::Create(name())),
                Some(set) if Read::from_object(set).is_bad() => {
                    self.act(simulation, &SetAction::Template(name(), BAD_TEMPLATES - 1));
                }
                Some(_) => {}
            }
        }
    }

    /// Users delete the pods for which upstream's controller waits: pods that are in the way,
    /// broken pods of a replaced template, and pods beyond the ordinals that are not ready. If a
    /// partition keeps pods of a broken template, users remove the partition.
    fn help(&mut self, simulation: &mut Simulation) -> bool {
        let mut has_helped = free_claims(simulation);
        for set in sets(simulation.harness.cluster()) {
            let set = Read::from_object(&set);
            let hindrances = hindrances(&set, simulation);
            let name = set.name().to_owned();
            let is_kept = set.strategy() != Some(Strategy::Partition(0))
                && has_broken(&set, simulation.harness.cluster());
            let change = match set.is_bad() {
                true => Some(SetAction::Template(name, BAD_TEMPLATES - 1)),
                false => is_kept.then_some(SetAction::Strategy(name, Strategy::Partition(0))),
            };
            let change = change.filter(|_| !set.is_deleting());
            has_helped |= change.is_some() || !hindrances.is_empty();
            if let Some(change) = change {
                self.act(simulation, &change);
            }
            for pod in hindrances {
                simulation.delete_pod(&pod, None);
            }
        }
        has_helped
    }

    /// Users touch every set. They also touch terminating claims, because the controller that
    /// protects claims doesn't see pods that were created and removed between its events.
    fn touch(&mut self, simulation: &mut Simulation) {
        self.help(simulation);
        for claim in listed(simulation.harness.cluster(), Kind::PERSISTENT_VOLUME_CLAIM) {
            if claim.metadata.is_deleting() {
                self.touches += 1;
                let (kind, name) = (Kind::PERSISTENT_VOLUME_CLAIM, &claim.metadata.name);
                simulation.patch_object(kind, name, touched(self.touches));
            }
        }
        for set in sets(simulation.harness.cluster()) {
            let name = set.metadata.name.to_string();
            self.act(simulation, &SetAction::Touch(name));
        }
    }
}

impl SetUsers {
    fn planned(&self, name: &str) -> Option<&PlannedStatefulSet> {
        self.planned.iter().find(|it| it.name == name)
    }

    /// Returns the name of the claim of an ordinal for the first claim template; `None` if the set
    /// has no claim templates.
    fn claim_name(&self, set: &str, ordinal: u32) -> Option<String> {
        let template = self.planned(set)?.claims.first()?;
        Some(format!("{template}-{set}-{ordinal}"))
    }

    fn create_claim(&self, simulation: &Simulation, set: &str, ordinal: u32, foreign: bool) {
        let Some(name) = self.claim_name(set, ordinal) else {
            return;
        };
        let mut object = claim(&name);
        let cluster = simulation.harness.cluster();
        let keeper = cluster.api(Kind::CONFIG_MAP).get(NAMESPACE, KEEPER);
        if foreign && let Ok(keeper) = keeper {
            let uid = keeper.metadata().uid.to_string();
            let owner = crate::objects::controlled_by(Kind::CONFIG_MAP, KEEPER, &uid);
            object = crate::objects::with(object, owner);
        }
        simulation.create_object(Kind::PERSISTENT_VOLUME_CLAIM, object);
    }
}

impl Read<'_> {
    /// Returns the strategy of the set, as users set it.
    fn strategy(&self) -> Option<Strategy> {
        let partition = || u32::try_from(self.partition()).ok();
        match self.rolling() {
            Some(_) => partition().map(Strategy::Partition),
            None if self.is_on_delete() => Some(Strategy::OnDelete),
            None => Some(Strategy::Plain),
        }
    }
}

/// Returns every StatefulSet of the namespace, in name order.
pub(super) fn sets(cluster: &Cluster) -> Vec<Arc<DynamicObject>> {
    listed(cluster, Kind::STATEFUL_SET)
}

/// Reports whether a set has unschedulable pods whose template can't run.
fn has_broken(set: &Read<'_>, cluster: &Cluster) -> bool {
    let pods = pods_of(cluster, Kind::STATEFUL_SET, set.name());
    let mut pods = pods.iter().filter(|pod| !pod.metadata.is_deleting());
    pods.any(|pod| is_idle(pod))
}

/// Users remove the finalizers of claims that wait for their pod while the pod waits for the
/// claims. Such a pod is, like its set, deleted after its dependents. Returns whether there were
/// any.
fn free_claims(simulation: &Simulation) -> bool {
    let cluster = simulation.harness.cluster();
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    let waits = |pod: &Pod| pod.metadata.has_finalizer("foregroundDeletion");
    let mut claims = listed(cluster, Kind::PERSISTENT_VOLUME_CLAIM);
    claims.retain(|claim| {
        let owners = &claim.metadata.owner_references;
        let is_owner = |pod: &Pod| owners.iter().any(|it| it.uid == pod.metadata.uid);
        claim.metadata.is_deleting() && pods.iter().any(|pod| waits(pod) && is_owner(pod))
    });
    for claim in &claims {
        let none = json!({"metadata": {"finalizers": null}});
        simulation.patch_object(Kind::PERSISTENT_VOLUME_CLAIM, &claim.metadata.name, none);
    }
    !claims.is_empty()
}

/// Returns the names of the pods that block a set whose controller waits endlessly.
fn hindrances(set: &Read<'_>, simulation: &Simulation) -> Vec<String> {
    let mut controllers = simulation.harness.controllers::<Controller>();
    let replaces_broken = controllers.any(|it| it.options().replace_broken_pods);
    let (pods, _) = simulation.harness.cluster().list::<Pod>(Some(NAMESPACE));
    let hinders = |pod: &&Arc<Pod>| {
        let meta = &pod.metadata;
        let Some(ordinal) = set.ordinal(meta) else {
            return false;
        };
        let is_wanted = set.ordinals().contains(&ordinal);
        if meta.is_deleting() {
            return false;
        }
        if set.is_deleting() {
            // A pod that no longer belongs to the set uses claims that are deleted with the set.
            return !set.owns(meta);
        }
        if !set.owns(meta) {
            // A pod that will not be adopted occupies its name.
            return is_wanted && (meta.controller().is_some() || !set.selects(meta));
        }
        let is_odd = *meta.name != *set.pod(ordinal);
        let is_broken = is_idle(pod) && !replaces_broken && !set.is_bad();
        let is_left = !is_wanted && !pod.is_ready();
        // An adopted pod does not use its claims, and can't be changed to use them.
        let is_odd = is_odd || !set.has_storage(pod);
        is_odd || is_wanted && is_broken || is_left
    };
    let found = pods.iter().filter(hinders);
    found.map(|pod| pod.metadata.name.to_string()).collect()
}
