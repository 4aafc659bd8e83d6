//! Carries a schedule's actions out on a site, and undoes later what lasts for a while.

mod caches;
mod faults;
mod named_pods;
mod objects;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm_apiserver::Cluster;
use podstorm_apiserver::latency::Latency;
use podstorm_objects::{Namespace, Node, ObjectMeta, Pod, Uid};
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::faults::{StreamEnd, StreamKind};
use podstorm_sim::options::{ControllerSettings, EngineKind, LatencySettings, SimOptions};
use serde_json::{Value, json};

use super::action::Action;
use super::invariants::Judge;
use super::model;
use super::names::{NAMESPACE, STUCK, node_name};
use super::schedule::{Schedule, Step, World, WorldReplicaSet};
use super::workloads::WorkloadKind;

const MS: i64 = 1_000_000;

/// What the site is built from on which a schedule is played.
pub(super) fn sim_options(schedule: &Schedule, behaviour: Behaviour) -> SimOptions {
    let world = &schedule.world;
    let gates = [
        ("PodDeletionCost", true),
        ("DeploymentReplicaSetTerminatingReplicas", true),
        (
            "StaleControllerConsistencyReplicaSet",
            world.stale_controller_consistency,
        ),
        ("WatchListClient", world.watch_list_client),
    ];
    let up_to = |ms: u32| Latency::Uniform(i64::from(ms) * MS / 10, i64::from(ms) * MS);
    let options = SimOptions {
        engine: EngineKind::Virtual,
        seed: schedule.seed,
        threads: 1,
        controller: ControllerSettings {
            concurrent_replicaset_syncs: world.workers as usize,
            concurrent_rc_syncs: world.workers as usize,
            burst_replicas: world.burst_replicas,
            kube_api_qps: None,
            kube_api_burst: 30,
            feature_gates: gates
                .map(|(name, on)| (name.to_owned(), on))
                .into_iter()
                .collect(),
        },
        policy: behaviour.policy(),
        latency: LatencySettings {
            pod_startup: up_to(world.startup_ms),
            pod_termination: up_to(world.termination_ms),
            api: up_to(world.api_ms),
            watch: up_to(world.watch_ms),
            scheduling: up_to(world.watch_ms),
        },
        api_errors: 0.0,
        phases: 1,
    };
    #[cfg(test)]
    let options = super::planted_tests::options(options);
    options
}

/// How old a new controller's first lists are, in versions, and how long their servers stay behind.
#[derive(Clone, Copy, Debug, Default)]
struct Stale {
    versions: u32,
    for_ms: u32,
}

/// What is to be undone, or done, later.
#[derive(Clone, Debug)]
enum Later {
    /// A controller is started over lists from the past.
    Start { stale: Stale },
    /// Of two controllers the older one dies.
    KillOldest,
    /// Pods lose the finalizer that kept them.
    Unstick,
    /// The ReplicaSet is created again.
    CreateReplicaSet { name: String },
    /// Pods whose containers restarted are ready again.
    Ready { pods: Vec<(String, Uid)> },
    /// A watch ends and lists anew.
    List { stream: StreamKind },
    /// The wall clock is right again.
    ClockRight,
    /// The quota is lifted.
    LiftQuota,
    /// A node is back, and takes pods.
    RestoreNode { node: u32 },
    /// The namespace is created again, with its ReplicaSets, as soon as it is gone.
    CreateNamespace,
}

/// Carries actions out.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) site: FaultHarness,
    judge: Arc<Judge>,
    world: World,
    /// What each ReplicaSet is made from, by name.
    sets: BTreeMap<String, SetPlan>,
    later: BinaryHeap<Reverse<(i64, u64)>>,
    wishes: Vec<Option<Later>>,
    begun_ns: i64,
    /// For how long a crash that is armed keeps the controller away, ns, and how old its first lists
    /// are then.
    crash: (i64, Stale),
    touches: u64,
    /// Whether the namespace was deleted and is not back.
    away: bool,
}

#[derive(Clone, Debug)]
struct SetPlan {
    kind: WorkloadKind,
    like: String,
    replicas: i32,
    min_ready_seconds: i32,
    /// Whether it was deleted for good.
    deleted: bool,
}

impl Player {
    pub(super) fn new(schedule: &Schedule, mut site: FaultHarness, judge: Arc<Judge>) -> Player {
        // A manager without any would only hear of pods that are none of its business.
        if schedule.has_replication_controllers() {
            site.add_replication_controllers();
        }
        let plan = |set: &WorldReplicaSet| SetPlan {
            kind: set.kind,
            like: set.name.clone(),
            replicas: set.replicas,
            min_ready_seconds: set.min_ready_seconds,
            deleted: false,
        };
        let sets = schedule.world.replica_sets.iter();
        Player {
            site,
            judge,
            world: schedule.world.clone(),
            sets: sets.map(|set| (set.name.clone(), plan(set))).collect(),
            later: BinaryHeap::new(),
            wishes: Vec::new(),
            begun_ns: 0,
            crash: (0, Stale::default()),
            touches: 0,
            away: false,
        }
    }

    fn cluster(&self) -> &Cluster {
        self.site.cluster()
    }

    /// Creates the world and starts the controller.
    pub(super) fn build(&mut self) {
        self.create_namespace();
        let now = self.site.now();
        for number in 0..self.world.nodes {
            let node = Node {
                metadata: named(&node_name(number)),
                pods_allocatable: Some(1_000),
                ..Node::default()
            };
            self.cluster()
                .create(node, now)
                .expect("the name of a node is free");
        }
        let names: Vec<String> = self.sets.keys().cloned().collect();
        for name in names {
            self.create_set(&name);
        }
        self.site.start_manager();
    }

    fn create_namespace(&mut self) {
        let namespace = Namespace {
            metadata: named(NAMESPACE),
            ..Namespace::default()
        };
        let now = self.site.now();
        self.cluster()
            .create(namespace, now)
            .expect("the namespace is new");
    }

    fn create_set(&mut self, name: &str) {
        let Some(plan) = self.sets.get(name) else {
            return;
        };
        let size = (plan.replicas, plan.min_ready_seconds);
        let (cluster, now) = (self.cluster(), self.site.now());
        // Refused where it exists or the namespace is on its way out: then there is nothing to do.
        let _ = plan.kind.create(cluster, name, &plan.like, size, now);
    }

    /// What the object of that name is.
    fn kind_of(&self, name: &str) -> WorkloadKind {
        self.sets
            .get(name)
            .map(|plan| plan.kind)
            .unwrap_or_default()
    }

    /// From now on times of steps count.
    pub(super) fn begin_disturbing(&mut self) {
        self.begun_ns = self.site.now().mono_ns;
    }

    /// Goes on to that time of the disturbed phase.
    pub(super) fn advance_to(&mut self, at_ms: u32) {
        self.run_to(self.begun_ns + i64::from(at_ms) * MS);
    }

    /// Goes on to that moment, ns.
    pub(super) fn run_to(&mut self, end_ns: i64) {
        loop {
            let due_ns = self.later.peek().map(|Reverse((due_ns, _))| *due_ns);
            let target_ns = due_ns.map_or(end_ns, |due_ns| due_ns.min(end_ns));
            let judge = Arc::clone(&self.judge);
            match self.site.advance(target_ns, || judge.is_over()) {
                Stopped::Asked => return,
                Stopped::Livelock => return self.judge.livelock(self.site.now()),
                Stopped::Died => {
                    self.judge.died(&self.site);
                    if self.site.alive().is_empty() {
                        let (away_ns, stale) = self.crash;
                        self.wish(away_ns, Later::Start { stale });
                    }
                }
                Stopped::AtEnd => match due_ns {
                    Some(due_ns) if due_ns <= end_ns => self.do_first(),
                    _ => return,
                },
            }
        }
    }

    fn do_first(&mut self) {
        if let Some(Reverse((_, number))) = self.later.pop()
            && let Some(later) = self.wishes[usize::try_from(number).expect("few wishes")].take()
        {
            self.do_now(later);
        }
    }

    fn wish(&mut self, after_ns: i64, later: Later) {
        let number = self.wishes.len() as u64;
        let due_ns = self.site.now().mono_ns.saturating_add(after_ns);
        self.later.push(Reverse((due_ns, number)));
        self.wishes.push(Some(later));
    }

    fn wish_ms(&mut self, after_ms: u32, later: Later) {
        self.wish(i64::from(after_ms) * MS, later);
    }

    fn do_now(&mut self, later: Later) {
        match later {
            Later::Start { stale } => {
                if self.site.alive().is_empty() {
                    self.start(stale);
                }
            }
            Later::KillOldest => {
                let alive = self.site.alive();
                if alive.len() > 1 {
                    alive[0].die();
                    // The death is noticed, and nothing is started for it: there is another.
                    self.site.wake_controllers();
                }
            }
            Later::Unstick => self.unstick(),
            Later::CreateReplicaSet { name } => self.create_set(&name),
            Later::Ready { pods } => self.ready_again(&pods),
            Later::List { stream } => {
                for connection in self.site.alive() {
                    connection.end(stream, StreamEnd::Expired);
                }
                self.site.wake_controllers();
            }
            Later::ClockRight => {
                for connection in self.site.alive() {
                    connection.set_wall_offset(0);
                }
            }
            Later::LiftQuota => self.cluster().set_pod_quota(NAMESPACE, None),
            Later::RestoreNode { node } => {
                let node = node_name(node);
                self.site.nodes().set_rejecting(&node, false);
                self.site.nodes().restore(&node);
            }
            Later::CreateNamespace => self.namespace_again(),
        }
    }

    fn start(&mut self, stale: Stale) {
        self.site.start_manager();
        if stale.versions > 0 {
            if let Some(connection) = self.site.alive().last() {
                for stream in StreamKind::ALL {
                    let for_ns = i64::from(stale.for_ms) * MS;
                    connection.lag_for(stream, u64::from(stale.versions), for_ns);
                }
            }
            self.judge.stale_start();
        }
    }

    /// Puts everything right.
    pub(super) fn heal(&mut self) {
        self.site.network().heal();
        for connection in self.site.alive() {
            connection.heal();
        }
        let mut away = false;
        while let Some(Reverse((_, number))) = self.later.pop() {
            match self.wishes[usize::try_from(number).expect("few wishes")].take() {
                // It has to be gone first.
                Some(Later::CreateNamespace) => away = true,
                // One is started below, over servers that don't lag any more.
                Some(Later::Start { .. }) => {}
                Some(later) => self.do_now(later),
                None => {}
            }
        }
        if away {
            self.namespace_again();
        }
        self.site.nodes().heal();
        self.unstick();
        if self.site.alive().is_empty() {
            self.start(Stale::default());
        }
        self.site.wake_controllers();
    }

    /// Creates the namespace and its ReplicaSets anew, or waits until it is gone.
    fn namespace_again(&mut self) {
        if self.cluster().get::<Namespace>("", NAMESPACE).is_ok() {
            return self.wish(100 * MS, Later::CreateNamespace);
        }
        self.away = false;
        self.create_namespace();
        let there = self.sets.iter().filter(|(_, plan)| !plan.deleted);
        let names: Vec<String> = there.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.create_set(&name);
        }
    }

    /// Carries one step out.
    pub(super) fn act(&mut self, step: &Step) {
        self.judge.acts(step, &self.site);
        self.do_action(step);
        self.judge.acted(&self.site);
        self.site.wake_controllers();
    }

    fn do_action(&mut self, step: &Step) {
        match &step.action {
            Action::Scale {
                replica_set,
                replicas,
            } => self.scale(replica_set, *replicas),
            Action::Touch { replica_set } => self.touch(replica_set),
            Action::ChangeTemplate { replica_set } => {
                self.touches += 1;
                let revision = format!("r{}", self.touches);
                self.patch_set(
                    replica_set,
                    json!({"spec": {"template": {"metadata": {"labels": {"revision": revision}}}}}),
                );
            }
            Action::CreateOverlapping {
                kind,
                name,
                like,
                replicas,
            } => {
                let plan = SetPlan {
                    kind: *kind,
                    like: like.clone(),
                    replicas: *replicas,
                    min_ready_seconds: 0,
                    deleted: false,
                };
                self.sets.insert(name.clone(), plan);
                self.create_set(name);
            }
            Action::DeleteReplicaSet {
                replica_set,
                propagation,
            } => {
                self.delete_set(replica_set, *propagation);
                if let Some(plan) = self.sets.get_mut(replica_set) {
                    plan.deleted = true;
                }
            }
            Action::Recreate {
                replica_set,
                propagation,
                gap_ms,
            } => {
                self.delete_set(replica_set, *propagation);
                let name = replica_set.clone();
                if let Some(plan) = self.sets.get_mut(&name) {
                    plan.deleted = false;
                }
                match gap_ms {
                    0 => self.create_set(&name),
                    gap_ms => self.wish_ms(*gap_ms, Later::CreateReplicaSet { name }),
                }
            }
            Action::CreateOrphans { replica_set, pods } => self.create_orphans(replica_set, *pods),
            Action::CreatePod {
                name,
                replica_set,
                deletion_cost,
            } => self.create_named(name, replica_set.as_deref(), *deletion_cost),
            Action::RemovePod { name } => self.remove_named(name),
            Action::WriteStatus { replica_set } => {
                let (kind, now) = (self.kind_of(replica_set), self.site.now());
                self.written(kind.miscount(self.cluster(), replica_set, now));
            }
            Action::Kill {
                replica_set,
                percent,
                how,
            } => self.kill(replica_set, *percent, *how),
            Action::Flap {
                replica_set,
                percent,
            } => self.flap(replica_set, *percent),
            Action::Tamper {
                replica_set,
                nth,
                how,
            } => self.tamper(replica_set, *nth, *how),
            Action::Stick {
                replica_set,
                percent,
                for_ms,
            } => {
                let stuck = json!({"metadata": {"finalizers": [STUCK]}});
                for pod in self.some_pods(replica_set, *percent, Pod::is_active) {
                    self.patch_pod(&pod, stuck.clone());
                }
                self.wish_ms(*for_ms, Later::Unstick);
            }
            action => self.disturb(step.class, action),
        }
    }

    /// What is not yet as it should be, if anything.
    pub(super) fn missing(&self) -> Option<String> {
        if self.away {
            return Some("the namespace is on its way out".to_owned());
        }
        model::difference(self.cluster(), self.site.now()).or_else(|| caches::behind(&self.site))
    }

    pub(super) fn what_is_missing(&self) -> String {
        self.missing()
            .unwrap_or_else(|| "a controller has not come to rest".to_owned())
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.into(),
        ..ObjectMeta::default()
    }
}

fn ready(is_ready: bool, site: &FaultHarness) -> Value {
    let time = site.now().wall().to_string();
    let status = if is_ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": time})
}
