//! A simulated cluster with faults: carries out the actions of a schedule, and later undoes the
//! temporary ones.

mod beside;
mod ending;
mod faults;
mod owners;
mod parts;
mod users;

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm::reflector::WATCH_LIST;
use podstorm_apiserver::Cluster;
use podstorm_apiserver::latency::Latency;
use podstorm_objects::{Kind, Namespace, Node, Pod, Uid};
use podstorm_sim::due_queue::DueQueue;
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::faults::{FaultClass, StreamEnd, StreamKind};
use podstorm_sim::options::{ControllerSettings, EngineKind, LatencySettings, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use serde_json::{Value, json};

use super::action::{Action, SubjectAction};
use super::invariants::Checker;
use super::objects::{NAMESPACE, STUCK, named, node_name};
use super::plan::{PlannedCluster, TimedAction};

const MS: i64 = 1_000_000;

pub use super::invariants::Checked;
pub use beside::{Beside, Judge};
pub use ending::Ending;
pub(crate) use owners::is_idle;
pub use owners::{NoOwners, OwnerPlan, PodOwners};
pub use parts::{Users, Watcher};

/// The prefix of the feature gates with which controllers wait for their own writes.
const STALE_CONSISTENCY: &str = "StaleControllerConsistency";

/// Returns the options for a planned cluster that runs the controllers of these kinds.
pub fn options(
    planned: &PlannedCluster,
    kinds: &[Kind],
    seed: u64,
    behaviour: Behaviour,
) -> SimOptions {
    let gates = Rows::installed().gates().into_keys();
    let consistency = gates.filter(|gate| gate.starts_with(STALE_CONSISTENCY));
    let gates = consistency
        .map(|gate| (gate, planned.stale_controller_consistency))
        .chain([(WATCH_LIST.name, planned.watch_list_client)]);
    let also_on = planned
        .feature_gates
        .iter()
        .map(|gate| (gate.as_str(), true));
    let gates = gates.chain(also_on).map(|(gate, on)| (gate.to_owned(), on));
    let up_to = |ms: u32| Latency::Uniform(i64::from(ms) * MS / 10, i64::from(ms) * MS);
    let mut options = SimOptions::new(EngineKind::Virtual, seed);
    for (_, flag) in Rows::installed().worker_flags() {
        let workers = planned.workers as usize;
        options.controller.workers.set(flag, workers);
    }
    options.services.controllers = Controllers::of_kinds(Rows::installed(), kinds);
    options.controller = ControllerSettings {
        burst_replicas: planned.burst_replicas,
        feature_gates: gates.collect(),
        ..options.controller
    };
    options.policy = behaviour.policy();
    options.latency = LatencySettings {
        pod_startup: up_to(planned.startup_ms),
        pod_termination: up_to(planned.termination_ms),
        api: up_to(planned.api_ms),
        watch: up_to(planned.watch_ms),
        scheduling: up_to(planned.watch_ms),
    };
    #[cfg(test)]
    if let Some(spoil) = SPOIL.get() {
        spoil(&mut options);
    }
    options
}

#[cfg(test)]
thread_local! {
    /// A function with which a test changes the options of all runs on its thread.
    pub(crate) static SPOIL: std::cell::Cell<Option<fn(&mut SimOptions)>> =
        const { std::cell::Cell::new(None) };
}

/// The lag of a new controller manager's first lists, in versions, and the time for which the
/// watches then deliver no events.
#[derive(Clone, Copy, Debug, Default)]
struct Stale {
    versions: u32,
    for_ms: u32,
}

/// An action that is carried out later, often to undo an earlier one.
#[derive(Clone, Debug)]
enum Later {
    /// A controller manager is started, whose first lists may be stale.
    Start { stale: Stale },
    /// The older of two controller managers dies.
    KillOldest,
    /// All pods lose the finalizer that kept them from being removed.
    Unstick,
    /// An owner of pods is created again.
    CreateOwner { name: String },
    /// Pods whose containers restarted are ready again.
    Ready { pods: Vec<(String, Uid)> },
    /// A watch ends and lists again.
    List { stream: StreamKind },
    /// The controllers' wall clock is correct again.
    ClockRight,
    /// The quota is removed.
    LiftQuota,
    /// A node is back and accepts pods.
    RestoreNode { node: u32 },
    /// The namespace is recreated with its objects, as soon as it is removed.
    CreateNamespace,
}

/// The function that creates the objects of a workload whenever the namespace is recreated.
#[derive(Clone)]
struct CreateObjects(Arc<dyn Fn(&mut Simulation) + Send + Sync>);

impl Debug for CreateObjects {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CreateObjects")
    }
}

/// A cluster with controllers and faults, and the checker that observes it.
#[derive(Debug)]
pub struct Simulation {
    /// The cluster with its nodes and controllers.
    pub harness: FaultHarness,
    checker: Arc<Checker>,
    planned: PlannedCluster,
    /// Whether a rejected write of a user is an error, because every write of a script must
    /// succeed.
    is_scripted: bool,
    /// The kinds of objects that own pods and that actions name.
    owners: &'static dyn PodOwners,
    /// The plan of each object that owns pods, by name.
    plans: BTreeMap<String, OwnerPlan>,
    later: DueQueue<Later>,
    begun_ns: i64,
    /// What follows an armed crash: the downtime of the controller manager, ns, and the staleness
    /// of its first lists.
    crash: (i64, Stale),
    touches: u64,
    /// Whether the namespace was deleted and has not been recreated yet.
    away: bool,
    create_objects: Option<CreateObjects>,
}

impl Simulation {
    /// Creates the nodes and the namespace on the cluster, and reports commits and controllers to
    /// `checker`.
    ///
    /// # Panics
    /// Panics if the cluster already has objects.
    pub fn new(
        planned: &PlannedCluster,
        harness: FaultHarness,
        checker: Arc<Checker>,
        is_scripted: bool,
    ) -> Simulation {
        let simulation = Simulation {
            harness,
            checker,
            planned: planned.clone(),
            is_scripted,
            owners: &NoOwners,
            plans: BTreeMap::new(),
            later: DueQueue::default(),
            begun_ns: 0,
            crash: (0, Stale::default()),
            touches: 0,
            away: false,
            create_objects: None,
        };
        let now = simulation.harness.now();
        simulation.create_namespace();
        for number in 0..planned.nodes {
            let node = Node {
                metadata: named(&node_name(number)),
                pods_allocatable: Some(1_000),
                ..Node::default()
            };
            let created = simulation.cluster().create(node, now);
            created.expect("node names are unused");
        }
        simulation
    }

    /// Sets the kinds of pod owners that actions name. Without this call, there are none.
    #[must_use]
    pub fn with_owners(self, owners: &'static dyn PodOwners) -> Simulation {
        Simulation { owners, ..self }
    }

    /// Creates the objects of a workload, now and whenever the namespace is recreated.
    pub fn create_with(&mut self, create: impl Fn(&mut Simulation) + Send + Sync + 'static) {
        create(self);
        self.create_objects = Some(CreateObjects(Arc::new(create)));
    }

    fn cluster(&self) -> &Cluster {
        self.harness.cluster()
    }

    pub(crate) fn checker(&self) -> Arc<Checker> {
        Arc::clone(&self.checker)
    }

    fn create_namespace(&self) {
        let namespace = Namespace {
            metadata: named(NAMESPACE),
            ..Namespace::default()
        };
        let now = self.harness.now();
        self.cluster()
            .create(namespace, now)
            .expect("the namespace is new");
    }

    /// Starts the disturbed phase. The times of steps count from now.
    pub(super) fn begin_disturbing(&mut self) {
        self.begun_ns = self.harness.now().mono_ns;
    }

    /// Runs up to a time of the disturbed phase, ms.
    pub(super) fn advance_to(&mut self, at_ms: u32) {
        self.run_to(self.begun_ns + i64::from(at_ms) * MS);
    }

    /// Runs up to `end_ns`, or until an invariant is violated.
    pub fn run_to(&mut self, end_ns: i64) {
        self.run_until(end_ns, || false);
    }

    /// Runs up to `end_ns`, until an invariant is violated, or until `stop`, which is called after
    /// every task run, returns true. Returns whether `stop` returned true.
    pub fn run_until(&mut self, end_ns: i64, mut stop: impl FnMut() -> bool) -> bool {
        loop {
            let due_ns = self.later.next_due_ns();
            let target_ns = due_ns.map_or(end_ns, |due_ns| due_ns.min(end_ns));
            let checker = Arc::clone(&self.checker);
            let mut asked = false;
            let stopped = self.harness.advance(target_ns, || {
                asked = stop();
                asked || checker.is_over()
            });
            match stopped {
                Stopped::Asked => return asked,
                Stopped::Livelock => {
                    let text = "tasks wake each other endlessly while no time passes";
                    self.checker.fail("I10", text, self.harness.now());
                    return false;
                }
                Stopped::Died => {
                    self.checker.died(&self.harness);
                    if self.harness.alive().is_empty() {
                        let (away_ns, stale) = self.crash;
                        self.after(away_ns, Later::Start { stale });
                    }
                }
                Stopped::AtEnd => match due_ns {
                    Some(due_ns) if due_ns <= end_ns => {
                        if let Some(later) = self.later.pop_due(due_ns) {
                            self.do_now(later);
                        }
                    }
                    _ => return false,
                },
            }
        }
    }

    fn after(&mut self, after_ns: i64, later: Later) {
        let due_ns = self.harness.now().mono_ns.saturating_add(after_ns);
        self.later.push(due_ns, later);
    }

    fn after_ms(&mut self, after_ms: u32, later: Later) {
        self.after(i64::from(after_ms) * MS, later);
    }

    fn do_now(&mut self, later: Later) {
        match later {
            Later::Start { stale } => {
                if self.harness.alive().is_empty() {
                    self.start(stale);
                }
            }
            Later::KillOldest => {
                let alive = self.harness.alive();
                if alive.len() > 1 {
                    alive[0].die();
                    // The manager that died is not replaced, because another one is running.
                    self.harness.wake_controllers();
                }
            }
            Later::Unstick => self.unstick(),
            Later::CreateOwner { name } => self.create_owner(&name),
            Later::Ready { pods } => self.ready_again(&pods),
            Later::List { stream } => {
                self.each_connection(|connection| connection.end(stream, StreamEnd::Expired));
                self.harness.wake_controllers();
            }
            Later::ClockRight => {
                self.each_connection(|connection| connection.set_wall_offset(0));
            }
            Later::LiftQuota => {
                let now = self.harness.now();
                self.written(self.cluster().set_pod_quota(NAMESPACE, None, now));
            }
            Later::RestoreNode { node } => {
                let node = node_name(node);
                self.harness.nodes().set_rejecting(&node, false);
                self.harness.nodes().restore(&node);
            }
            Later::CreateNamespace => self.namespace_again(),
        }
    }

    /// Starts a controller manager whose lists are not stale.
    pub fn start_manager(&mut self) {
        self.start(Stale::default());
    }

    fn start(&mut self, stale: Stale) {
        self.harness.start_manager();
        if stale.versions > 0 {
            if let Some(connection) = self.harness.alive().last() {
                for stream in StreamKind::all() {
                    let for_ns = i64::from(stale.for_ms) * MS;
                    connection.lag(stream, u64::from(stale.versions), for_ns);
                }
            }
            self.checker.stale_start();
        }
    }

    /// Ends all faults, and starts a controller manager if none is alive.
    pub(super) fn heal(&mut self) {
        self.harness.network().heal();
        self.each_connection(|connection| connection.heal());
        let mut away = false;
        while let Some(later) = self.later.pop_due(i64::MAX) {
            match later {
                // The namespace must be removed first.
                Later::CreateNamespace => away = true,
                // A manager is started below, with lists that are not stale.
                Later::Start { .. } => {}
                later => self.do_now(later),
            }
        }
        if away {
            self.namespace_again();
        }
        self.harness.nodes().heal();
        self.unstick();
        if self.harness.alive().is_empty() {
            self.start(Stale::default());
        }
        self.harness.wake_controllers();
    }

    /// Recreates the namespace and its objects. If the old namespace still exists, retries 100 ms
    /// later.
    fn namespace_again(&mut self) {
        if self.cluster().get::<Namespace>("", NAMESPACE).is_ok() {
            return self.after(100 * MS, Later::CreateNamespace);
        }
        self.away = false;
        self.create_namespace();
        let there = self.plans.iter().filter(|(_, plan)| !plan.is_deleted);
        let names: Vec<String> = there.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.create_owner(&name);
        }
        if let Some(CreateObjects(create)) = self.create_objects.clone() {
            create(self);
        }
    }

    /// Carries out one step of a schedule.
    pub fn act<A: SubjectAction>(
        &mut self,
        step: &TimedAction<A>,
        users: &mut impl Users<Action = A>,
    ) {
        self.checker.acts(step, &self.harness);
        match step.action.on_cluster() {
            Some(action) => self.act_on_cluster(step.class, action),
            None => users.act(self, &step.action),
        }
        self.checker.acted(&self.harness);
        self.harness.wake_controllers();
    }

    fn act_on_cluster(&mut self, class: Option<FaultClass>, action: &Action) {
        let mut action = action.clone();
        if let Some(name) = action.owner_mut() {
            let Some(found) = self.counted(name) else {
                return;
            };
            *name = found;
        }
        match &action {
            Action::Scale { owner, replicas } => self.scale(owner, *replicas),
            Action::Touch { owner } => self.touch(owner),
            Action::ChangeTemplate { owner } => {
                self.touches += 1;
                let revision = format!("r{}", self.touches);
                self.patch_owner(
                    owner,
                    json!({"spec": {"template": {"metadata": {"labels": {"revision": revision}}}}}),
                );
            }
            Action::CreateOverlapping {
                kind,
                name,
                like,
                replicas,
            } => {
                let usual = self.owners.kinds().first().copied();
                if let Some(kind) = kind.map(|kind| kind.0).or(usual) {
                    let plan = OwnerPlan::new(kind, like, *replicas);
                    self.plans.insert(name.clone(), plan);
                    self.create_owner(name);
                }
            }
            Action::DeleteOwner { owner, propagation } => {
                self.delete_owner(owner, propagation.policy());
                if let Some(plan) = self.plans.get_mut(owner) {
                    plan.is_deleted = true;
                }
            }
            Action::Recreate {
                owner,
                propagation,
                gap_ms,
            } => {
                self.delete_owner(owner, propagation.policy());
                let name = owner.clone();
                if let Some(plan) = self.plans.get_mut(&name) {
                    plan.is_deleted = false;
                }
                match gap_ms {
                    0 => self.create_owner(&name),
                    gap_ms => self.after_ms(*gap_ms, Later::CreateOwner { name }),
                }
            }
            Action::CreateOrphans { owner, pods } => self.create_orphans(owner, *pods),
            Action::CreatePod {
                name,
                owner,
                deletion_cost,
            } => self.create_named(name, owner.as_deref(), *deletion_cost),
            Action::RemovePod { name } => self.delete_pod(name, Some(0)),
            Action::WriteStatus { owner } => self.miscount(owner),
            Action::Kill {
                owner,
                percent,
                how,
            } => self.kill(owner, *percent, *how),
            Action::Flap { owner, percent } => self.flap(owner, *percent),
            Action::Tamper { owner, nth, how } => self.tamper(owner, *nth, *how),
            Action::Stick {
                owner,
                percent,
                for_ms,
            } => {
                for pod in self.some_pods(owner, *percent, Pod::is_active) {
                    self.stick(&pod, true);
                }
                self.after_ms(*for_ms, Later::Unstick);
            }
            action => self.disturb(class, action),
        }
    }

    /// Returns the first deviation from the wanted state of pods and their owners, if there is any.
    pub fn missing(&self) -> Option<String> {
        if self.away {
            return Some("the namespace is still terminating".to_owned());
        }
        let unsettled = owners::unsettled_pod(self.cluster(), self.owners);
        unsettled.or_else(|| self.owners.missing(&self.harness))
    }
}

fn ready(is_ready: bool, harness: &FaultHarness) -> Value {
    let time = harness.now().wall().to_string();
    let status = if is_ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": time})
}
