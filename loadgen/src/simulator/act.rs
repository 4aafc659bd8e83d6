//! Carries a schedule's actions out on a site, and undoes later what lasts for a while.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::object::{
    Map, Namespace, Node, ObjectMeta, OwnerReference, Pod, ReplicaSet, Resource, Uid,
};
use podstorm::policy::Behaviour;
use serde_json::{Value, json};

use super::action::{Action, Death, Dependents, Tampering};
use super::invariants::Judge;
use super::model;
use super::schedule::{Schedule, Step, World, WorldReplicaSet};
use crate::cluster::{Cluster, DeleteOptions, Patch, Propagation, ScaleUpdate};
use crate::engine::site::{Site, Stopped};
use crate::faults::{Armed, FaultClass, StreamEnd, StreamKind};
use crate::settings::{
    ClusterSize, ControllerSettings, EngineKind, Latency, LatencySettings, ScenarioName, Settings,
};

/// The namespace of every object of a simulation.
pub(super) const NAMESPACE: &str = "sim";

const MS: i64 = 1_000_000;

/// The settings of the site on which a schedule is played.
pub(super) fn settings(schedule: &Schedule, behaviour: Behaviour) -> Settings {
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
    Settings {
        scenario: ScenarioName::Manifests,
        engine: EngineKind::Virtual,
        seed: schedule.seed,
        threads: 1,
        size: ClusterSize {
            pods: 0,
            replicasets: 0,
            nodes: u64::from(world.nodes),
            namespaces: 1,
            pods_per_node: 110,
        },
        controller: ControllerSettings {
            concurrent_replicaset_syncs: world.workers as usize,
            concurrent_rc_syncs: 1,
            burst_replicas: world.burst_replicas,
            kube_api_qps: None,
            kube_api_burst: 30,
            feature_gates: gates
                .map(|(name, on)| (name.to_owned(), on))
                .into_iter()
                .collect(),
        },
        behaviour,
        latency: LatencySettings {
            pod_startup: up_to(world.startup_ms),
            pod_termination: up_to(world.termination_ms),
            api: up_to(world.api_ms),
            watch: up_to(world.watch_ms),
            scheduling: up_to(world.watch_ms),
        },
        duration_ns: 0,
        time_limit_ns: i64::MAX,
        churn_pods_per_second: 0.0,
        burst_pods: 0,
        min_ready_seconds: 0,
    }
}

/// What is to be undone, or done, later.
#[derive(Clone, Debug)]
enum Later {
    /// A controller is started, its first lists so many versions old.
    Start { stale_versions: u32 },
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
    pub(super) site: Site,
    judge: Arc<Judge>,
    world: World,
    /// What each ReplicaSet is made from, by name.
    sets: BTreeMap<String, SetPlan>,
    later: BinaryHeap<Reverse<(i64, u64)>>,
    wishes: Vec<Option<Later>>,
    begun_ns: i64,
    /// For how long a crash that is armed keeps the controller away, ns, and how old its first lists
    /// are then.
    crash: (i64, u32),
    touches: u64,
    /// Whether the namespace was deleted and is not back.
    away: bool,
}

#[derive(Clone, Debug)]
struct SetPlan {
    like: String,
    replicas: i32,
    min_ready_seconds: i32,
}

impl Player {
    pub(super) fn new(schedule: &Schedule, site: Site, judge: Arc<Judge>) -> Player {
        let plan = |set: &WorldReplicaSet| SetPlan {
            like: set.name.clone(),
            replicas: set.replicas,
            min_ready_seconds: set.min_ready_seconds,
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
            crash: (0, 0),
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
        let set = ReplicaSet::from_json(json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": plan.like}},
            "spec": {
                "replicas": plan.replicas,
                "minReadySeconds": plan.min_ready_seconds,
                "selector": {"matchLabels": {"app": plan.like}},
                "template": {
                    "metadata": {"labels": {"app": plan.like}},
                    "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                },
            },
        }))
        .expect("a ReplicaSet of our own making");
        // Refused where it exists or the namespace is on its way out: then there is nothing to do.
        let _ = self.cluster().create(set, self.site.now());
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
                        let (away_ns, stale_versions) = self.crash;
                        self.wish(away_ns, Later::Start { stale_versions });
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
            Later::Start { stale_versions } => {
                if self.site.alive().is_empty() {
                    self.start(stale_versions);
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
                for line in self.site.alive() {
                    line.end(stream, StreamEnd::Expired);
                }
                self.site.wake_controllers();
            }
            Later::ClockRight => {
                for line in self.site.alive() {
                    line.set_wall_offset(0);
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

    fn start(&mut self, stale_versions: u32) {
        self.site.start_manager();
        if stale_versions > 0 {
            if let Some(line) = self.site.alive().last() {
                for stream in [StreamKind::Pods, StreamKind::Parents] {
                    line.lag(stream, u64::from(stale_versions));
                }
            }
            self.judge.stale_start();
        }
    }

    /// Puts everything right.
    pub(super) fn heal(&mut self) {
        self.site.network().heal();
        for line in self.site.alive() {
            line.heal();
        }
        let mut away = false;
        while let Some(Reverse((_, number))) = self.later.pop() {
            match self.wishes[usize::try_from(number).expect("few wishes")].take() {
                // It has to be gone first.
                Some(Later::CreateNamespace) => away = true,
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
            self.start(0);
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
        let names: Vec<String> = self.sets.keys().cloned().collect();
        for name in names {
            self.create_set(&name);
        }
    }

    /// Carries one step out.
    pub(super) fn act(&mut self, step: &Step) {
        self.judge.acts(step, &self.site);
        self.do_action(step);
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
                name,
                like,
                replicas,
            } => {
                let plan = SetPlan {
                    like: like.clone(),
                    replicas: *replicas,
                    min_ready_seconds: 0,
                };
                self.sets.insert(name.clone(), plan);
                self.create_set(name);
            }
            Action::DeleteReplicaSet {
                replica_set,
                propagation,
            } => self.delete_set(replica_set, *propagation),
            Action::Recreate {
                replica_set,
                propagation,
                gap_ms,
            } => {
                self.delete_set(replica_set, *propagation);
                let name = replica_set.clone();
                match gap_ms {
                    0 => self.create_set(&name),
                    gap_ms => self.wish_ms(*gap_ms, Later::CreateReplicaSet { name }),
                }
            }
            Action::CreateOrphans { replica_set, pods } => self.create_orphans(replica_set, *pods),
            Action::WriteStatus { replica_set } => {
                if let Ok(set) = self.cluster().get::<ReplicaSet>(NAMESPACE, replica_set) {
                    let mut set = ReplicaSet::clone(&set);
                    set.status.replicas += 1;
                    self.written(self.cluster().update_status(set, self.site.now()));
                }
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

    fn disturb(&mut self, class: Option<FaultClass>, action: &Action) {
        let now = self.site.now();
        let alive = self.site.alive();
        let until = |ms: u32| now.mono_ns.saturating_add(i64::from(ms) * MS);
        match action {
            Action::Requests {
                calls,
                replica_set,
                batch,
                index,
                effect,
                times,
                within_ms,
            } => self.site.network().arm(Armed {
                class: class.unwrap_or(FaultClass::ApiError),
                calls: calls.clone(),
                parent: replica_set.clone(),
                batch: *batch,
                index: *index,
                effect: effect.clone(),
                times: *times,
                until_ns: until(*within_ms),
            }),
            Action::Hold { stream, for_ms } => {
                for line in alive {
                    line.hold(*stream, until(*for_ms));
                }
            }
            Action::Break { stream } => {
                for line in alive {
                    line.break_for_good(*stream);
                }
            }
            Action::Drop {
                stream,
                events,
                list_after_ms,
            } => {
                for line in alive {
                    line.drop_events(*stream, *events);
                }
                self.wish_ms(*list_after_ms, Later::List { stream: *stream });
            }
            Action::Duplicate { stream, events } => {
                for line in alive {
                    line.duplicate_events(*stream, *events);
                }
            }
            Action::Replay { stream, events } => {
                for line in alive {
                    line.replay_events(*stream, *events);
                }
            }
            Action::EndWatch { stream, end } => {
                for line in alive {
                    line.end(*stream, *end);
                }
            }
            Action::RefuseWatch {
                stream,
                fault,
                times,
            } => {
                for line in alive {
                    line.refuse_open(*stream, *fault, *times);
                    line.end(*stream, StreamEnd::Closed);
                }
            }
            Action::Compact { stream } => {
                match stream {
                    StreamKind::Pods => self.cluster().compact::<Pod>(),
                    StreamKind::Parents => self.cluster().compact::<ReplicaSet>(),
                }
                for line in alive {
                    line.end(*stream, StreamEnd::Closed);
                }
            }
            Action::ServeStale { stream, versions } => {
                for line in alive {
                    line.lag(*stream, u64::from(*versions));
                    line.end(*stream, StreamEnd::ClosedAndExpired);
                }
            }
            Action::Crash {
                point,
                passes,
                down_ms,
                stale_versions,
            } => {
                self.crash = (i64::from(*down_ms) * MS, *stale_versions);
                if let Some(line) = alive.last() {
                    line.crash_at(*point, *passes);
                }
            }
            Action::Overlap { for_ms } => {
                self.start(0);
                self.wish_ms(*for_ms, Later::KillOldest);
            }
            Action::Pause { for_ms } => {
                for line in alive {
                    line.pause_until(until(*for_ms));
                }
            }
            Action::WallClock { offset_s, for_ms } => {
                for line in alive {
                    line.set_wall_offset(i64::from(*offset_s) * 1_000 * MS);
                }
                self.wish_ms(*for_ms, Later::ClockRight);
            }
            Action::Quota { pods, for_ms } => {
                self.cluster()
                    .set_pod_quota(NAMESPACE, Some(u64::from(*pods)));
                self.wish_ms(*for_ms, Later::LiftQuota);
            }
            Action::LoseNode { node, for_ms } => {
                let node = node % self.world.nodes;
                self.site.nodes().lose(&node_name(node));
                self.wish_ms(*for_ms, Later::RestoreNode { node });
            }
            Action::RejectPods { node, for_ms } => {
                let node = node % self.world.nodes;
                self.site.nodes().set_rejecting(&node_name(node), true);
                self.wish_ms(*for_ms, Later::RestoreNode { node });
            }
            Action::DeleteNamespace { gap_ms } => {
                if !self.away {
                    self.away = true;
                    let options = DeleteOptions::default();
                    self.written(
                        self.cluster()
                            .delete::<Namespace>("", NAMESPACE, &options, now),
                    );
                    self.wish_ms(*gap_ms, Later::CreateNamespace);
                }
            }
            other => unreachable!("{other:?} is carried out elsewhere"),
        }
    }

    fn scale(&mut self, name: &str, replicas: i32) {
        if let Some(plan) = self.sets.get_mut(name) {
            plan.replicas = replicas;
        }
        let update = ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        let now = self.site.now();
        self.written(
            self.cluster()
                .update_scale::<ReplicaSet>(NAMESPACE, name, &update, now),
        );
    }

    fn touch(&mut self, name: &str) {
        self.touches += 1;
        let touched = self.touches.to_string();
        self.patch_set(
            name,
            json!({"metadata": {"annotations": {"podstorm.example/touched": touched}}}),
        );
    }

    /// Touches every ReplicaSet once.
    pub(super) fn touch_all(&mut self) {
        let names: Vec<String> = self.sets.keys().cloned().collect();
        for name in names {
            self.touch(&name);
        }
    }

    fn patch_set(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(members(patch));
        let now = self.site.now();
        self.written(
            self.cluster()
                .patch::<ReplicaSet>(NAMESPACE, name, &patch, now),
        );
    }

    fn patch_pod(&self, pod: &Pod, patch: Value) {
        let patch = Patch::Merge(members(patch));
        let (name, now) = (&pod.metadata.name, self.site.now());
        self.written(self.cluster().patch::<Pod>(NAMESPACE, name, &patch, now));
    }

    fn patch_pod_status(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(members(patch));
        let now = self.site.now();
        self.written(
            self.cluster()
                .patch_status::<Pod>(NAMESPACE, name, &patch, now),
        );
    }

    /// A write by hand: where the object is gone, or another rule forbids it, it does not happen.
    fn written<T>(&self, outcome: Result<T, ApiError>) {
        if let Err(error) = outcome {
            self.judge.note(|| format!("  (refused: {error})"));
        }
    }

    fn delete_set(&mut self, name: &str, propagation: Dependents) {
        let options = DeleteOptions {
            propagation: Some(match propagation {
                Dependents::Orphan => Propagation::Orphan,
                Dependents::Background => Propagation::Background,
                Dependents::Foreground => Propagation::Foreground,
            }),
            ..DeleteOptions::default()
        };
        let now = self.site.now();
        self.written(
            self.cluster()
                .delete::<ReplicaSet>(NAMESPACE, name, &options, now),
        );
    }

    fn create_orphans(&mut self, name: &str, pods: u32) {
        let Some(like) = self.sets.get(name).map(|plan| plan.like.clone()) else {
            return;
        };
        for _ in 0..pods {
            let pod = Pod::from_json(json!({
                "metadata": {
                    "generateName": "bare-",
                    "namespace": NAMESPACE,
                    "labels": {"app": like},
                },
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            }))
            .expect("a pod of our own making");
            self.written(self.cluster().create(pod, self.site.now()));
        }
    }

    /// The pods of a ReplicaSet that pass, so many of a hundred, by name.
    fn some_pods(&self, name: &str, percent: u32, pass: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let Ok(set) = self.cluster().get::<ReplicaSet>(NAMESPACE, name) else {
            return Vec::new();
        };
        let (pods, _) = self.cluster().list::<Pod>(Some(NAMESPACE));
        let mut own: Vec<Arc<Pod>> = super::play::owned_by(&set, &pods)
            .filter(|pod| pass(pod))
            .cloned()
            .collect();
        let count = (own.len() * percent as usize).div_ceil(100);
        own.truncate(count);
        own
    }

    fn kill(&mut self, name: &str, percent: u32, how: Death) {
        for pod in self.some_pods(name, percent, Pod::is_active) {
            let name = &*pod.metadata.name;
            let ended = |phase: &str| {
                let ready = json!([{"type": "Ready", "status": "False"}]);
                json!({"status": {"phase": phase, "conditions": ready}})
            };
            match how {
                Death::Failed => self.patch_pod_status(name, ended("Failed")),
                Death::Succeeded => self.patch_pod_status(name, ended("Succeeded")),
                Death::Deleted | Death::Removed => {
                    let options = DeleteOptions {
                        grace_period_seconds: (how == Death::Removed).then_some(0),
                        ..DeleteOptions::default()
                    };
                    let now = self.site.now();
                    self.written(self.cluster().delete::<Pod>(NAMESPACE, name, &options, now));
                }
            }
        }
    }

    fn flap(&mut self, name: &str, percent: u32) {
        let mut pods = Vec::new();
        for pod in self.some_pods(name, percent, |pod| pod.is_active() && pod.is_ready()) {
            let status = json!({"status": {"conditions": [ready(false, &self.site)]}});
            self.patch_pod_status(&pod.metadata.name, status);
            pods.push((pod.metadata.name.to_string(), pod.metadata.uid.clone()));
        }
        self.wish_ms(self.world.startup_ms, Later::Ready { pods });
    }

    fn ready_again(&mut self, pods: &[(String, Uid)]) {
        for (name, uid) in pods {
            let live = self.cluster().get::<Pod>(NAMESPACE, name);
            if live.is_ok_and(|pod| pod.metadata.uid == *uid && pod.is_active()) {
                let status = json!({"status": {"conditions": [ready(true, &self.site)]}});
                self.patch_pod_status(name, status);
            }
        }
    }

    fn unstick(&mut self) {
        let (pods, _) = self.cluster().list::<Pod>(Some(NAMESPACE));
        for pod in pods {
            if pod
                .metadata
                .finalizers()
                .iter()
                .any(|name| **name == *STUCK)
            {
                self.patch_pod(&pod, json!({"metadata": {"finalizers": null}}));
            }
        }
    }

    fn tamper(&mut self, name: &str, nth: u32, how: Tampering) {
        let pods = self.some_pods(name, 100, Pod::is_active);
        let Some(pod) = pods.get(nth as usize % pods.len().max(1)) else {
            return;
        };
        let mut changed = Pod::clone(pod);
        let owner = pod.metadata.controller().cloned();
        let with = |change: &dyn Fn(&mut OwnerReference)| {
            let mut owner = OwnerReference::clone(owner.as_deref()?);
            change(&mut owner);
            Some(Arc::new(owner))
        };
        let owner = match how {
            Tampering::Relabel => {
                return self.patch_pod(pod, json!({"metadata": {"labels": {"app": "elsewhere"}}}));
            }
            Tampering::Orphan => None,
            Tampering::NotController => with(&|owner| owner.controller = Some(false)),
            Tampering::DanglingUid => with(&|owner| owner.uid = Uid::new("gone")),
            Tampering::WrongKind => with(&|owner| {
                owner.kind = "StatefulSet".into();
                owner.uid = Uid::new("gone");
            }),
            Tampering::ForeignController => with(&|owner| {
                owner.kind = "Job".into();
                owner.api_version = "batch/v1".into();
                owner.name = "foreign".into();
                owner.uid = Uid::new("foreign");
            }),
        };
        changed.metadata.owner_references = owner.into_iter().collect();
        self.written(self.cluster().update(changed, self.site.now()));
    }

    /// What is not yet as it should be, if anything.
    pub(super) fn missing(&self) -> Option<String> {
        if self.away {
            return Some("the namespace is on its way out".to_owned());
        }
        model::difference(self.cluster(), NAMESPACE, self.site.now())
    }

    pub(super) fn what_is_missing(&self) -> String {
        self.missing()
            .unwrap_or_else(|| "a controller has not come to rest".to_owned())
    }
}

/// The finalizer that keeps a pod.
const STUCK: &str = "podstorm.example/stuck";

fn node_name(number: u32) -> String {
    format!("node-{number}")
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.into(),
        ..ObjectMeta::default()
    }
}

fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        other => panic!("a patch is an object, not {other}"),
    }
}

fn ready(is_ready: bool, site: &Site) -> Value {
    let time = site.now().wall().to_string();
    let status = if is_ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": time})
}
