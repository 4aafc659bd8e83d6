//! The definition of a scenario: phases of steps, each phase with an end condition. Built-in
//! scenarios and files share this format and its parser; see `library` and `file`.
//!
//! These types are the file format. Their docs become the descriptions in the schema that
//! `loadgen schema scenario` prints.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use podstorm_objects::Kind;
use podstorm_sim::faults::StreamKind;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amount::{Amount, Which};
use super::load_shape::LoadShape;
use super::nodes::{CreateBudgets, SomeNodes};
use super::settings::ScenarioSettings;
use super::step;
use crate::values::{Limit, Percent, Rate, Size, Time, written};
use crate::workloads::Limits;

/// A scenario of `loadgen run`: what happens to a cluster, and when the run is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// The name, in lower case, with hyphens.
    pub name: String,
    /// The question that a run answers, in one line.
    pub question: String,
    /// The condition on which a run succeeds, in one sentence.
    #[serde(default = "default_success")]
    pub success: String,
    /// The answer, as a template (minijinja) over the members of the result, such as
    /// `{{ phases[1].seconds | seconds }} until all pods were ready`. Filters: seconds, count,
    /// number, percent, rate(seconds) for a count, counted("pod") for a count with its noun,
    /// were("pod") which also adds "was" or "were", total for a map of counts. A run that does not
    /// reach its end condition has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Flags of `loadgen run` by their long names. The command line takes precedence.
    #[serde(default)]
    pub settings: ScenarioSettings,
    /// The capacity of all nodes together, in percent of the pods at 100 %. By default, the nodes
    /// hold these pods, plus `--burst` more if the scenario uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Percent>,
    /// Groups of workloads of equal size. Without groups, all workloads have the same size, as far
    /// as possible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// The pod template of the generated workloads, as in the manifest of a Deployment: metadata
    /// (its labels and annotations are added to the generated ones) and spec. By default a small
    /// web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<serde_json::Map<String, serde_json::Value>>,
    /// The phases, in the order in which they run.
    pub phases: Vec<Phase>,
    /// Alternative settings. Each is run separately on the virtual engine to show its effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// Bounds on metrics, by metric: `pod_ready_latency: ["p99 < 5s"]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, Vec<ThresholdEntry>>,
    /// The path of the file, as the user wrote it; absent for built-in scenarios.
    #[serde(skip)]
    pub path: Option<String>,
}

fn default_success() -> String {
    "Every phase reaches its end condition.".to_owned()
}

/// Alternative settings for the same scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Alternative {
    /// A short description of the settings: `100 QPS`.
    pub with: String,
    /// Flags of `loadgen run` by their long names, which replace those of the scenario. If the
    /// command line sets one of them, this alternative is skipped.
    pub settings: ScenarioSettings,
}

/// A group of workloads of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Number of pods of each workload at 100 %.
    #[serde(alias = "podsPerReplicaSet")]
    pub pods_each: Size,
    /// The share of the cluster's pods that belongs to the group. The shares of all groups add up
    /// to 100 %.
    pub share: Percent,
}

/// A condition on a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ThresholdEntry {
    /// An expression such as `p99 < 5s`, checked at the end of the run.
    Checked(String),
    /// An expression, and whether its failure ends the run.
    Full(FullThreshold),
}

/// A condition on a metric whose failure can end the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FullThreshold {
    /// An expression such as `p99 < 5s`.
    pub threshold: String,
    /// Whether the run ends as soon as the condition fails; it is checked once per second of the
    /// run. Valid for upper bounds (< or <=) on metrics that are known during the run:
    /// convergence_seconds, pod_ready_seconds, excess_pods_created, elapsed_seconds, pods.created
    /// and the other counts of pods, wasted_work.pods_never_ready, writes, resource_version. Other
    /// metrics are refused.
    #[serde(default)]
    pub abort_on_fail: bool,
}

impl ThresholdEntry {
    /// Returns the condition's expression.
    pub fn expression(&self) -> &str {
        match self {
            ThresholdEntry::Checked(expression) => expression,
            ThresholdEntry::Full(full) => &full.threshold,
        }
    }

    /// Reports whether the run ends when the condition fails.
    pub fn aborts(&self) -> bool {
        matches!(self, ThresholdEntry::Full(full) if full.abort_on_fail)
    }
}

/// A phase: steps in sequence, followed by a condition to wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phase {
    /// The name. The value of `--burst` replaces `{burst}`.
    pub name: String,
    /// The steps, in the order in which they are performed.
    #[serde(default)]
    #[schemars(schema_with = "step::schema")]
    pub steps: Vec<ScenarioStep>,
    /// The end condition, which is checked after the steps.
    #[serde(default)]
    pub until: Until,
    /// Whether the phase only sets up the cluster for later phases. Latencies that begin in it are
    /// excluded from the distributions of the whole run, and from thresholds, comparisons and
    /// answers based on them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_up: bool,
    /// Whether the run fails if a pod is created or removed in this phase, except to correct the
    /// number of pods of ReplicaSets from files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_pod_written: bool,
}

impl Phase {
    /// Returns the name as it is shown: `{burst}` is replaced by `burst`.
    pub fn shown_name(&self, burst: u32) -> String {
        self.name.replace("{burst}", &burst.to_string())
    }
}

/// The end condition of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Every ReplicaSet has its pods and an exact status, no pod is terminating, the rollout of
    /// every Deployment is complete, and every Job is complete, failed or suspended. In this and
    /// the following conditions, pods that files brought unready may stay unready if nothing makes
    /// them ready.
    #[default]
    Converged,
    /// Like `converged`, but Jobs need not end: each has as many ready pods as it wants at a time.
    Running,
    /// Like `converged`, but pods may be terminating: pods on lost nodes remain.
    Replaced,
    /// As many pods are ready as the cluster should have.
    PodsReady,
    /// The controllers have synced every ReplicaSet and have no work left.
    Synced,
    /// The rollout of every Deployment is over: complete, or failed because its progress deadline
    /// has passed.
    RolledOut,
    /// No pod has been created for half a minute.
    Quiet,
    /// All steps are done.
    Done,
}

/// A step of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub enum ScenarioStep {
    /// Creates the namespaces of the generated cluster.
    CreateNamespaces,
    /// Creates the nodes of the generated cluster.
    CreateNodes,
    /// Loads the objects of `-f`, and generates nodes if the files contain none. The controllers
    /// start after all objects are loaded.
    LoadInput,
    /// Creates the generated objects of a workload, as in `createReplicaSets`. If the workload's
    /// controller creates other workloads, as many objects are created as there would otherwise be
    /// of those, and steps that select workloads by number, such as scale, select these objects.
    #[serde(skip)]
    Create(Kind, Create),
    /// Gives workloads with rollouts, including those from files, a new image, which starts a
    /// rollout of each. Other workloads are unchanged.
    SetImage(SetImage),
    /// Sets the number of pods of those workloads that have a different number. A workload that
    /// belongs to another one gets its number from that one.
    Scale(Scale),
    /// Creates the desired pods of each workload, with the workload as their owner. Workloads from
    /// files already have their pods.
    CreateOwnedPods,
    /// Creates the same pods without an owner. Their workloads need not exist.
    CreateBarePods,
    /// Writes the status that an earlier controller would have left into every workload. Workloads
    /// from files already have a status.
    WriteStatuses,
    /// Starts the controllers. Without this step, they run from the beginning.
    StartController,
    /// Changes an annotation of workloads, which causes an event that requires no action.
    Touch(SomeWorkloads),
    /// Deletes workloads, whose pods are then garbage-collected, and recreates the workloads under
    /// the same names.
    #[serde(alias = "recreateReplicaSets")]
    Recreate(SomeWorkloads),
    /// Replaces ReplicaSets by successors under the same owner, step by step, as Deployments do. If
    /// there are Deployments, they get a new image and these limits and perform the rollout.
    /// ReplicaSets from files without pods are older revisions and are not replaced, nor are
    /// ReplicationControllers: Deployments do not roll them out. Files whose only workloads are
    /// ReplicationControllers are refused.
    RollOut(RollOut),
    /// Deletes random ready pods at a steady rate.
    Churn(Churn),
    /// Deletes random ready pods.
    DeletePods(SomePods),
    /// Deletes every pod that is not ready, as an operator would if a rollout were stuck.
    DeleteUnreadyPods,
    /// Removes random ready pods from their workloads by changing their labels.
    RelabelPods(SomePods),
    /// Stops the kubelets of nodes. After 50 s, the pods on these nodes are not ready; 300 s later
    /// they are evicted, and remain until the node is back or deleted.
    StopNodes(SomeNodes),
    /// Restores all stopped nodes.
    RestoreNodes,
    /// Deletes nodes permanently. Their pods are removed after a minute.
    DeleteNodes(SomeNodes),
    /// Drains nodes, like `kubectl cordon` of all nodes followed by `kubectl drain` of each: first,
    /// all of the nodes stop accepting pods; then the pods are evicted from one node after the
    /// other. An eviction that a budget refuses is retried every 5 s. A node from which no pod was
    /// evicted for ten minutes is skipped.
    DrainNodes(SomeNodes),
    /// Gives each workload that owns pods a PodDisruptionBudget, unless one already selects its
    /// pods.
    CreateBudgets(CreateBudgets),
    /// Makes the kubelets of nodes reject every pod that they have not started yet.
    RejectPods(SomeNodes),
    /// Makes all kubelets accept pods again.
    AcceptPods,
    /// Limits the pods of every namespace to a share of its pods at 100 %.
    SetPodQuota(PodQuota),
    /// Removes the limit of `setPodQuota`.
    RemovePodQuota,
    /// Deletes namespaces with all their objects.
    DeleteNamespaces(SomeNamespaces),
    /// Waits for this time.
    Wait(Time),
    /// Stalls a watch of the controllers until it is released.
    StallWatch(Stream),
    /// Releases a stalled watch, which then delivers all the events that it has missed.
    ReleaseWatch(Stream),
    /// Ends a watch and makes its version unavailable, which forces a new list.
    RelistWatch(Stream),
    /// Loses the next events of the pod watch. The controllers miss them until something causes a
    /// new list of the pods.
    LosePodEvents(SomeOfThePods),
    /// Executes the next creates, but loses the answers. Each is the first create of its sync.
    LoseAnswers(LoseAnswers),
    /// Repeats a list of steps.
    Repeat(Repeat),
}

/// A selection of the workloads that own pods. Workloads from files are ordered by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeWorkloads {
    /// Which workloads are selected.
    #[serde(default)]
    pub of: Which,
    /// When each action is due; by default as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// The parameters of steps that create the objects of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Create {
    /// The number of pods of each object.
    pub replicas: Amount,
    /// Which objects are created.
    #[serde(default)]
    pub of: Which,
    /// Whether each object belongs to an object of the workload whose controller creates such
    /// objects, as the ReplicaSets of a rollout belong to Deployments.
    #[serde(
        default,
        alias = "underDeployments",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub as_parts: bool,
    /// When each action is due; by default as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// The parameters of a change to a new image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetImage {
    /// The Deployments whose image changes.
    #[serde(default)]
    pub of: Which,
    /// Whether no node can pull the image, so that its pods never become ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpullable: bool,
    /// Whether to restore the image before the last change, as `kubectl rollout undo` does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
    /// When each action is due; by default as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// The parameters of a change of the number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// The new number of pods of each workload.
    pub replicas: Amount,
    /// The workloads to scale.
    #[serde(default)]
    pub of: Which,
    /// When each action is due; by default as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// The parameters of a rolling update of many ReplicaSets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollOut {
    /// The ReplicaSets to replace; never ReplicationControllers.
    #[serde(default)]
    pub of: Which,
    /// The maximum number of pods of each pair above its share, like `maxSurge` of a Deployment.
    #[serde(default)]
    pub max_surge: Limit,
    /// The maximum number of unavailable pods, like `maxUnavailable` of a Deployment.
    #[serde(default)]
    pub max_unavailable: Limit,
    /// When each rollout begins; by default as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

impl RollOut {
    /// Returns the limits for a rolling update.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_surge: self.max_surge,
            max_unavailable: self.max_unavailable,
        }
    }
}

/// The parameters of deletions at a steady rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Churn {
    /// The rate; by default `--churn-rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The duration; by default `--duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// A selection of the pods that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomePods {
    /// How many of the ready pods are selected.
    pub pods: Which,
    /// When each action is due; by default as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// A number of pod events.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeOfThePods {
    /// The number of events, as a share of the pods at 100 % or as a number.
    pub events: Which,
}

/// A selection of the namespaces of the scenario's workloads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeNamespaces {
    /// Which namespaces are selected.
    pub namespaces: Which,
}

/// A limit on the number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodQuota {
    /// The limit, as a share of the namespace's pods at 100 %, rounded down.
    pub per_namespace: Percent,
}

/// The watches of the controllers that a step affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The watches for one kind.
    Of(StreamKind),
    /// All watches.
    All,
}

impl Stream {
    /// Returns the kinds whose watches are selected.
    pub(crate) fn kinds(self) -> Vec<StreamKind> {
        match self {
            Stream::Of(kind) => vec![kind],
            Stream::All => StreamKind::all(),
        }
    }
}

impl FromStr for Stream {
    type Err = String;

    fn from_str(text: &str) -> Result<Stream, String> {
        let mut all: Vec<Stream> = StreamKind::all().into_iter().map(Stream::Of).collect();
        all.push(Stream::All);
        let found = all.iter().find(|stream| stream.to_string() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<String> = all.iter().map(Stream::to_string).collect();
            format!(
                "the controllers have no such watch; there are {}",
                names.join(", ")
            )
        })
    }
}

impl Display for Stream {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Stream::Of(kind) = self else {
            return f.write_str("all");
        };
        let mut name = kind.kind().name().chars();
        let first = name.next().map(|c| c.to_ascii_lowercase());
        let name: String = first.into_iter().chain(name).collect();
        write!(f, "{name}s")
    }
}

written!(
    Stream,
    "Stream",
    "a watch of the controllers: the plural name of a kind, such as pods, or all",
    number: false
);

/// The parameters of lost answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoseAnswers {
    /// The number of creates; by default the number of workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Size>,
}

/// The parameters of a repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeat {
    /// The number of repetitions.
    pub times: Size,
    /// The steps to repeat.
    #[schemars(schema_with = "step::schema")]
    pub steps: Vec<ScenarioStep>,
}

impl Scenario {
    /// Returns all steps of all phases. Steps that are repeated appear once.
    pub fn steps(&self) -> Vec<&ScenarioStep> {
        fn gather<'a>(steps: &'a [ScenarioStep], all: &mut Vec<&'a ScenarioStep>) {
            for step in steps {
                all.push(step);
                if let ScenarioStep::Repeat(repeat) = step {
                    gather(&repeat.steps, all);
                }
            }
        }
        let mut all = Vec::new();
        for phase in &self.phases {
            gather(&phase.steps, &mut all);
        }
        all
    }
}

/// Declares predicates on a scenario: whether any of its steps matches a pattern.
macro_rules! questions {
    ($($(#[$about:meta])* $name:ident: $step:pat,)*) => {
        impl Scenario {
            $(
                $(#[$about])*
                pub fn $name(&self) -> bool {
                    self.steps().into_iter().any(|step| matches!(step, $step))
                }
            )*
        }
    };
}

questions! {
    /// Disturbs the controllers' connection, which requires virtual time.
    is_disturbed: ScenarioStep::StallWatch(_) | ScenarioStep::ReleaseWatch(_) | ScenarioStep::RelistWatch(_)
        | ScenarioStep::LosePodEvents(_) | ScenarioStep::LoseAnswers(_),
    /// Lets nodes fail.
    has_node_faults: ScenarioStep::StopNodes(_) | ScenarioStep::RestoreNodes | ScenarioStep::DeleteNodes(_)
        | ScenarioStep::RejectPods(_) | ScenarioStep::AcceptPods,
    /// Creates budgets.
    creates_budgets: ScenarioStep::CreateBudgets(_),
    /// Evicts pods, so budgets must be counted.
    evicts_pods: ScenarioStep::DrainNodes(_),
    /// Rejects pods. Without a startup latency, this would loop without time passing.
    rejects_pods: ScenarioStep::RejectPods(_),
    /// Starts the controllers in a step, and not at the beginning.
    starts_controllers: ScenarioStep::StartController,
    /// Picks random pods.
    picks_pods: ScenarioStep::Churn(_) | ScenarioStep::DeletePods(_) | ScenarioStep::RelabelPods(_),
    /// Rolls out ReplicaSets.
    rolls_out: ScenarioStep::RollOut(_),
    /// Changes images, which requires Deployments.
    sets_images: ScenarioStep::SetImage(_),
    /// Rolls out images that can't be pulled.
    sets_unpullable_images: ScenarioStep::SetImage(SetImage { unpullable: true, .. }),
    /// Creates workloads that belong to other workloads.
    creates_parts: ScenarioStep::Create(_, Create { as_parts: true, .. }),
    /// Has steps that act on workloads that own pods and have no owner.
    has_free_owners: ScenarioStep::CreateOwnedPods | ScenarioStep::CreateBarePods | ScenarioStep::WriteStatuses
        | ScenarioStep::Recreate(_) | ScenarioStep::Touch(_),
    /// Creates pods and statuses, as a controller would.
    makes_pods: ScenarioStep::CreateOwnedPods | ScenarioStep::CreateBarePods | ScenarioStep::WriteStatuses,
    /// Selects workloads by number, or sets their numbers of pods.
    numbers_workloads: ScenarioStep::Scale(_) | ScenarioStep::RollOut(_) | ScenarioStep::CreateOwnedPods | ScenarioStep::CreateBarePods
        | ScenarioStep::WriteStatuses | ScenarioStep::Recreate(_) | ScenarioStep::Touch(_) | ScenarioStep::SetPodQuota(_)
        | ScenarioStep::DeleteNamespaces(_) | ScenarioStep::LoseAnswers(_) | ScenarioStep::Create(_, Create { as_parts: true, .. }),
    /// Uses `--duration`.
    uses_duration: ScenarioStep::Churn(Churn { time: None, .. }),
    /// Uses `--churn-rate`.
    uses_churn_rate: ScenarioStep::Churn(Churn { rate: None, .. }),
    /// Uses `--burst`.
    uses_burst: ScenarioStep::Scale(Scale { replicas: Amount::Burst, .. })
        | ScenarioStep::Create(_, Create { replicas: Amount::Burst, .. }),
    /// Generates a cluster; otherwise it uses only the objects of `-f`.
    generates_cluster: ScenarioStep::Create(..) | ScenarioStep::CreateBarePods,
    /// Creates the generated nodes by a step.
    creates_nodes: ScenarioStep::CreateNodes,
    /// Loads the objects of `-f`.
    loads_input: ScenarioStep::LoadInput,
}
