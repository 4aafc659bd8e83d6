//! What a scenario is: phases of steps, and when each phase is over. The built-in ones and those from
//! files are the same thing, read by the same code; see `library` and `file`.
//!
//! The types are the file format: their documentation is that of its schema, which `loadgen schema
//! scenario` prints.

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

/// A scenario of `loadgen run`: what happens to a cluster, and when it counts as done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Its name, in lower case with hyphens.
    pub name: String,
    /// The question that a run of it answers, in one line.
    pub question: String,
    /// What must be true for a run to succeed, in one sentence.
    #[serde(default = "default_success")]
    pub success: String,
    /// The answer, as a template (minijinja) over the members of the result: e.g. `{{
    /// phases[1].seconds | seconds }} until all pods were ready`. Filters: seconds, count, number,
    /// percent, rate(seconds) for a count, counted("pod") for a count with its noun, were("pod") with "was" or
    /// "were" besides, total for a map of counts. A run that does not come to its condition has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Flags of `loadgen run` by their long names. Flags on the command line win.
    #[serde(default)]
    pub settings: ScenarioSettings,
    /// How many pods fit on the nodes, in percent of the pods at 100 %. By default those pods fit, and
    /// `--burst` more where the scenario uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Percent>,
    /// Groups of equal workloads; without them all workloads are as equal as can be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// The pod template of the generated workloads, as a Deployment's manifest has it: metadata
    /// (labels and annotations are added to those that are generated) and spec. By default a small
    /// web server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<serde_json::Map<String, serde_json::Value>>,
    /// What happens, one phase after the other.
    pub phases: Vec<Phase>,
    /// Other settings under which the same is run besides, on the virtual engine, to say what they would buy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What the metrics must keep to, by metric: `pod_ready_latency: ["p99 < 5s"]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub thresholds: BTreeMap<String, Vec<ThresholdEntry>>,
    /// The file it came from, as it was named; absent for those of the library.
    #[serde(skip)]
    pub path: Option<String>,
}

fn default_success() -> String {
    "Every phase comes to its condition.".to_owned()
}

/// Other settings of the same scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Alternative {
    /// What they are, in a few words: `100 QPS`.
    pub with: String,
    /// Flags of `loadgen run` by their long names, in place of the scenario's. Where the command line gives one of
    /// them, this alternative is left out.
    pub settings: ScenarioSettings,
}

/// Workloads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Group {
    /// Pods of each at 100 %.
    #[serde(alias = "podsPerReplicaSet")]
    pub pods_each: Size,
    /// How much of the cluster's pods they have together. The groups' shares make 100 %.
    pub share: Percent,
}

/// A condition on a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ThresholdEntry {
    /// An expression such as `p99 < 5s`, checked when the run is over.
    Checked(String),
    /// The same with what to do.
    Full(FullThreshold),
}

/// A condition on a metric that may end the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FullThreshold {
    /// An expression such as `p99 < 5s`.
    pub threshold: String,
    /// Ends the run as soon as it is not met, looked at once a second of the run. For upper bounds (<
    /// or <=) on what is known while the run goes on: convergence_seconds, pod_ready_seconds,
    /// excess_pods_created, elapsed_seconds, pods.created and the other counts of pods,
    /// wasted_work.pods_never_ready, writes, resource_version. With any other it is refused.
    #[serde(default)]
    pub abort_on_fail: bool,
}

impl ThresholdEntry {
    /// The expression.
    pub fn expression(&self) -> &str {
        match self {
            ThresholdEntry::Checked(expression) => expression,
            ThresholdEntry::Full(full) => &full.threshold,
        }
    }

    /// Whether the run ends when it is not met.
    pub fn aborts(&self) -> bool {
        matches!(self, ThresholdEntry::Full(full) if full.abort_on_fail)
    }
}

/// Steps, done one after the other, and a condition that is waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phase {
    /// Its name. `{burst}` stands for the number of `--burst`.
    pub name: String,
    /// What is done.
    #[serde(default)]
    #[schemars(schema_with = "step::schema")]
    pub steps: Vec<Step>,
    /// When it is over, the steps being done.
    #[serde(default)]
    pub until: Until,
    /// Whether it only sets the cluster up for the phases behind it: what begins in it is in none of the
    /// distributions of the whole run, nor in the thresholds, comparisons and answers made from them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub set_up: bool,
    /// Whether the run fails when a pod is created or removed in it, beyond those that ReplicaSets of
    /// files lacked or had too many.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_pod_written: bool,
}

impl Phase {
    /// Its name as results and the screen have it.
    pub fn shown_name(&self, burst: u32) -> String {
        self.name.replace("{burst}", &burst.to_string())
    }
}

/// When a phase is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Until {
    /// Every ReplicaSet has its pods and an exact status, no pod is on its way out, and the rollout of
    /// every Deployment is complete; every Job is complete, has failed or is suspended. Here and below, pods that files brought unready may stay so where nothing makes them ready.
    #[default]
    Converged,
    /// The same, but no Job has to end: each has as many ready pods as it wants at once.
    Running,
    /// As `converged`, whatever is on its way out: pods on lost nodes stay there.
    Replaced,
    /// As many pods are ready as the cluster is to have.
    PodsReady,
    /// The controllers have synced every ReplicaSet and have nothing left to do.
    Synced,
    /// The rollout of every Deployment is over, complete or failed: past its progress deadline.
    RolledOut,
    /// For half a minute no pod was created.
    Quiet,
    /// The steps are done.
    Done,
}

/// Something that a scenario does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub enum Step {
    /// Creates the generated namespaces.
    CreateNamespaces,
    /// Creates the generated nodes.
    CreateNodes,
    /// Loads what `-f` brought; nodes are generated when it brought none. The controllers begin when
    /// all of it is there.
    LoadInput,
    /// Creates the generated objects of a workload: `createReplicaSets`, for example. Where their controller makes
    /// other workloads, there are as many as there would be of these, and steps that are about workloads by their
    /// numbers, such as scale, are about them.
    #[serde(skip)]
    Create(Kind, Create),
    /// Gives workloads with rollouts a new image, which begins a rollout of each. Of files, too; what belongs to
    /// none of them stays as it is.
    SetImage(SetImage),
    /// Sets the number of pods of workloads for which that changes anything; those that another workload made get
    /// it from that one.
    Scale(Scale),
    /// Creates as many pods per workload as it is to have, with it as their owner; files have brought theirs.
    CreateOwnedPods,
    /// The same pods without an owner; their workloads need not exist.
    CreateBarePods,
    /// Writes into every workload the status that an earlier controller would have left; files have brought
    /// theirs.
    WriteStatuses,
    /// Starts the controllers; without this step they run from the start.
    StartController,
    /// Changes an annotation of workloads: an event without a meaning.
    Touch(SomeWorkloads),
    /// Deletes workloads, whose pods the garbage collector takes, and creates them again under their names.
    #[serde(alias = "recreateReplicaSets")]
    Recreate(SomeWorkloads),
    /// Replaces ReplicaSets by successors under the same owner, step by step, as Deployments do it. Where
    /// there are Deployments, they get a new image and these limits, and do it themselves. Of
    /// files, ReplicaSets without pods, which are older revisions, stay as they are, and so do
    /// ReplicationControllers: no Deployment rolls them out. Files with nothing but
    /// ReplicationControllers are refused.
    RollOut(RollOut),
    /// Deletes ready pods at random, at a steady rate.
    Churn(Churn),
    /// Deletes ready pods at random.
    DeletePods(SomePods),
    /// Deletes every pod that is not ready, as people do by hand where a rollout is stuck.
    DeleteUnreadyPods,
    /// Takes ready pods at random out of their workloads by changing their labels.
    RelabelPods(SomePods),
    /// The kubelets of nodes fall silent: 50 s later their pods are not ready, 300 s after that they
    /// are evicted, and stay until the node is back or gone.
    StopNodes(SomeNodes),
    /// All silent nodes are back.
    RestoreNodes,
    /// Nodes go away for good; their pods are removed after a minute.
    DeleteNodes(SomeNodes),
    /// Drains nodes, as `kubectl cordon` of all of them and `kubectl drain` of one after the other do: first none of them takes
    /// new pods, then the pods of each node are evicted. An eviction that a budget refuses is tried again every 5 s; a node on
    /// which no pod has gone for ten minutes is left as it is.
    DrainNodes(SomeNodes),
    /// Gives each workload that owns pods a PodDisruptionBudget, unless one selects its pods already.
    CreateBudgets(CreateBudgets),
    /// The kubelets of nodes reject every pod they have not started.
    RejectPods(SomeNodes),
    /// They take pods again.
    AcceptPods,
    /// Limits the pods of every namespace to a share of those it has at 100 %.
    SetPodQuota(PodQuota),
    /// Lifts that limit.
    RemovePodQuota,
    /// Deletes namespaces with all that is in them.
    DeleteNamespaces(SomeNamespaces),
    /// Lets time pass.
    Wait(Time),
    /// The controller hears nothing on a watch until it is released.
    StallWatch(Stream),
    /// It hears again, and of all that happened meanwhile.
    ReleaseWatch(Stream),
    /// A watch ends and its version is gone: everything is listed again.
    RelistWatch(Stream),
    /// The next events of the pod watch are lost, until something has the pods listed again.
    LosePodEvents(SomeOfThePods),
    /// The next creates are carried out and their answers lost, each the first of its sync.
    LoseAnswers(LoseAnswers),
    /// Steps that are done several times over.
    Repeat(Repeat),
}

/// Of a step that is about the workloads that own pods; those of files come kind by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeWorkloads {
    /// Which of them.
    #[serde(default)]
    pub of: Which,
    /// When each is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// Creates objects of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Create {
    /// How many pods each asks for.
    pub replicas: Amount,
    /// Which of them.
    #[serde(default)]
    pub of: Which,
    /// Whether each belongs to an object of the workload whose controller makes such objects, as the
    /// ReplicaSets of a roll-out belong to Deployments.
    #[serde(
        default,
        alias = "underDeployments",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub as_parts: bool,
    /// When each is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// A new image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetImage {
    /// Which Deployments.
    #[serde(default)]
    pub of: Which,
    /// Whether no node can pull it: its pods never become ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unpullable: bool,
    /// Whether it is the image before the last change, as `kubectl rollout undo` puts it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
    /// When each is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// Sets numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// How many pods each is to have.
    pub replicas: Amount,
    /// Which workloads.
    #[serde(default)]
    pub of: Which,
    /// When each is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// A rolling update of many ReplicaSets at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RollOut {
    /// Which ReplicaSets; ReplicationControllers are never among them.
    #[serde(default)]
    pub of: Which,
    /// How many pods more than its share each pair may have, as `maxSurge` of a Deployment.
    #[serde(default)]
    pub max_surge: Limit,
    /// How many fewer may be available, as `maxUnavailable` of a Deployment.
    #[serde(default)]
    pub max_unavailable: Limit,
    /// When each begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

impl RollOut {
    /// Its limits.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            max_surge: self.max_surge,
            max_unavailable: self.max_unavailable,
        }
    }
}

/// Deletes pods at a steady rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Churn {
    /// How many; by default those of `--churn-rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// For how long; by default for `--duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// Some of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomePods {
    /// How many of the ready pods.
    pub pods: Which,
    /// When each is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadShape>,
}

/// Some of the cluster's pods at 100 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeOfThePods {
    /// How many events, as a share of the pods at 100 %, or as a number.
    pub events: Which,
}

/// Some of the namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SomeNamespaces {
    /// Which.
    pub namespaces: Which,
}

/// A limit on pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodQuota {
    /// Of the pods that a namespace has at 100 %, rounded down.
    pub per_namespace: Percent,
}

/// A watch of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// That of one kind.
    Of(StreamKind),
    /// Every one.
    All,
}

impl Stream {
    /// The kinds that it is of.
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
                "no controller has such a watch; there are {}",
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
    "a watch of the controllers: that of a kind by its plural, such as pods, or all",
    number: false
);

/// Answers that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoseAnswers {
    /// To how many creates; by default as many as there are workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Size>,
}

/// Steps over and over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeat {
    /// How often.
    pub times: Size,
    /// What.
    #[schemars(schema_with = "step::schema")]
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Every step of every phase, those that are repeated once.
    pub fn steps(&self) -> Vec<&Step> {
        fn gather<'a>(steps: &'a [Step], all: &mut Vec<&'a Step>) {
            for step in steps {
                all.push(step);
                if let Step::Repeat(repeat) = step {
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

/// Questions to a scenario: whether one of its steps is of such a form.
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
    /// Whether it disturbs the connection of the controller, which takes virtual time.
    is_disturbed: Step::StallWatch(_) | Step::ReleaseWatch(_) | Step::RelistWatch(_)
        | Step::LosePodEvents(_) | Step::LoseAnswers(_),
    /// Whether nodes fail in it.
    has_node_faults: Step::StopNodes(_) | Step::RestoreNodes | Step::DeleteNodes(_)
        | Step::RejectPods(_) | Step::AcceptPods,
    /// Whether it creates budgets.
    creates_budgets: Step::CreateBudgets(_),
    /// Whether it evicts pods, for which budgets are counted.
    evicts_pods: Step::DrainNodes(_),
    /// Whether pods are rejected in it: a loop that takes time only where starting pods does.
    rejects_pods: Step::RejectPods(_),
    /// Whether it starts the controllers itself, later on.
    starts_controllers: Step::StartController,
    /// Whether it picks pods at random.
    picks_pods: Step::Churn(_) | Step::DeletePods(_) | Step::RelabelPods(_),
    /// Whether it rolls ReplicaSets out.
    rolls_out: Step::RollOut(_),
    /// Whether it changes images, which only Deployments have to be changed.
    sets_images: Step::SetImage(_),
    /// Whether it rolls out images that can't be pulled.
    sets_unpullable_images: Step::SetImage(SetImage { unpullable: true, .. }),
    /// Whether it creates workloads as parts of others.
    creates_parts: Step::Create(_, Create { as_parts: true, .. }),
    /// Whether its steps are about owners of pods that are parts of nothing.
    has_free_owners: Step::CreateOwnedPods | Step::CreateBarePods | Step::WriteStatuses
        | Step::Recreate(_) | Step::Touch(_),
    /// Whether it makes pods and statuses as a controller would.
    makes_pods: Step::CreateOwnedPods | Step::CreateBarePods | Step::WriteStatuses,
    /// Whether its steps are about workloads by their numbers, or about their numbers of pods.
    numbers_workloads: Step::Scale(_) | Step::RollOut(_) | Step::CreateOwnedPods | Step::CreateBarePods
        | Step::WriteStatuses | Step::Recreate(_) | Step::Touch(_) | Step::SetPodQuota(_)
        | Step::DeleteNamespaces(_) | Step::LoseAnswers(_) | Step::Create(_, Create { as_parts: true, .. }),
    /// Whether it uses `--duration`.
    uses_duration: Step::Churn(Churn { time: None, .. }),
    /// Whether it uses `--churn-rate`.
    uses_churn_rate: Step::Churn(Churn { rate: None, .. }),
    /// Whether it uses `--burst`.
    uses_burst: Step::Scale(Scale { replicas: Amount::Burst, .. })
        | Step::Create(_, Create { replicas: Amount::Burst, .. }),
    /// Whether it generates a cluster; otherwise it is about what `-f` brings and nothing else.
    generates_cluster: Step::Create(..) | Step::CreateBarePods,
    /// Whether it creates the generated nodes itself.
    creates_nodes: Step::CreateNodes,
    /// Whether it loads what `-f` brings.
    loads_input: Step::LoadInput,
}
