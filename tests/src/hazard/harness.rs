//! The harness of a scripted hazard: what is set up, what users do, what goes wrong, and how it ends.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::Arc;

use podstorm::object::{Kind, Now, ReplicaSet, Resource, Str, Uid};
use podstorm::policy::Behaviour;
use podstorm::replicaset::Controller;
use podstorm_apiserver::{ClusterOptions, Patch, Propagation};
use podstorm_faultsim::objects::{self, NAMESPACE, with};
use podstorm_faultsim::simulation::{self, Ending, Simulation, Users as _, Watcher as _};
use podstorm_faultsim::workloads::replicasets::{self, SetChecker, SetOwners, SetUsers};
use podstorm_faultsim::{Action, How, PlannedCluster, Step};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::faults::{
    ApiFault, Armed, Call, Connection, CrashPoint, Effect, StreamEnd, StreamKind,
};
use podstorm_sim::options::{LatencySettings, SimOptions};
use serde_json::{Value, json};

use super::log::EventLog;
use super::view::View;

/// Milliseconds in ns.
pub const fn ms(count: i64) -> i64 {
    count * 1_000_000
}

/// Seconds in ns.
pub const fn seconds(count: i64) -> i64 {
    ms(count * 1_000)
}

/// Minutes in ns.
pub const fn minutes(count: i64) -> i64 {
    seconds(count * 60)
}

/// The end of every hazard: all is as wanted within a minute of the one touch that each ReplicaSet gets
/// when expectations have run out, and half an hour passes without a write.
const ENDING: Ending = Ending {
    converges_within_ns: minutes(7) + seconds(10),
    touches_ns: &[Ending::EXPECTATIONS_RUN_OUT_NS],
    quiet_ns: minutes(30),
    ..Ending::DEFAULT
};

/// How a hazard begins.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster and its controller.
    pub cluster: PlannedCluster,
    /// How long things take.
    pub latency: LatencySettings,
    /// Whether a controller manager is started at the beginning.
    pub starts: bool,
}

impl Setup {
    /// Sets the gate of reading what was written, `StaleControllerConsistencyReplicaSet`.
    pub fn consistency(&mut self, on: bool) {
        self.cluster.stale_controller_consistency = on;
    }

    /// Sets whether the initial state comes through the watch, `WatchListClient`.
    pub fn streaming(&mut self, on: bool) {
        self.cluster.watch_list_client = on;
    }
}

/// A ReplicaSet whose pods are labelled `app: <name>` and come up at once.
pub fn replica_set(name: &str, replicas: i32) -> Value {
    replicasets::replica_set(name, name, replicas)
}

/// A ReplicaSet whose pods stay pending, and are gone as soon as they are deleted: they ask for a
/// scheduler that is not there.
pub fn idle_set(name: &str, replicas: i32) -> Value {
    let unscheduled = json!({"spec": {"template": {"spec": {"schedulerName": "nobody"}}}});
    with(replica_set(name, replicas), unscheduled)
}

/// A pod labelled `app: <app>` that stays pending.
pub fn pod(name: &str, app: &str) -> Value {
    let unscheduled = json!({"spec": {"schedulerName": "nobody"}});
    with(objects::pod(name, app), unscheduled)
}

/// The part of an object that makes a ReplicaSet its controller.
pub fn owners(name: &str, uid: &Uid) -> Value {
    objects::controlled_by(Kind::REPLICA_SET, name, &uid.to_string())
}

/// A hazard.
#[derive(Debug)]
pub struct Harness {
    simulation: Simulation,
    checker: Arc<SetChecker>,
    view: View,
    concluded: bool,
}

impl Deref for Harness {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Default for Harness {
    fn default() -> Self {
        Harness::new()
    }
}

impl Harness {
    /// A cluster of 20 nodes in which everything is done without delay, and one controller
    /// manager with every gate on.
    pub fn new() -> Harness {
        Harness::with(|_| {})
    }

    /// The same with the consistency gate on or off.
    pub fn gated(on: bool) -> Harness {
        Harness::with(|setup| setup.consistency(on))
    }

    /// A hazard whose beginning is changed by `change`.
    pub fn with(change: impl FnOnce(&mut Setup)) -> Harness {
        let cluster = PlannedCluster {
            nodes: 20,
            workers: 5,
            burst_replicas: 500,
            stale_controller_consistency: true,
            watch_list_client: true,
            feature_gates: Vec::new(),
            api_ms: 0,
            watch_ms: 0,
            startup_ms: 0,
            termination_ms: 0,
        };
        let (seed, behaviour) = (7, Behaviour::Upstream);
        let mut setup = Setup {
            latency: simulation::options(&cluster, &[Kind::REPLICA_SET], seed, behaviour).latency,
            cluster,
            starts: true,
        };
        change(&mut setup);
        let how = How {
            behaviour,
            told: true,
        };
        let checker = Arc::new(SetChecker::new(&setup.cluster, how));
        let log = Arc::new(EventLog::new(Arc::clone(&checker)));
        let options = SimOptions {
            latency: setup.latency,
            ..simulation::options(&setup.cluster, &[Kind::REPLICA_SET], seed, behaviour)
        };
        let server = ClusterOptions {
            seed,
            observer: Some(Arc::clone(&log) as _),
            ..ClusterOptions::default()
        };
        let mut harness = FaultHarness::new(&options, server, Arc::clone(&log) as _);
        harness.observe::<Controller>(Arc::clone(&log) as _);
        let view = View {
            cluster: Arc::clone(harness.cluster()),
            log,
        };
        let of_all = Arc::clone(&checker).checker();
        let simulation = Simulation::new(&setup.cluster, harness, of_all, true);
        let mut harness = Harness {
            simulation: simulation.with_owners(&SetOwners),
            checker,
            view,
            concluded: false,
        };
        if setup.starts {
            harness.start();
        }
        harness.run(seconds(1));
        harness
    }

    /// The same where there has been such a ReplicaSet for a second.
    pub fn holding(mut self, set: Value) -> Harness {
        self.create_set(set);
        self.run(seconds(1));
        self
    }

    /// The invariant checker.
    pub fn checker(&self) -> &SetChecker {
        &self.checker
    }

    /// The present.
    pub fn now(&self) -> Now {
        self.simulation.harness.now()
    }

    /// Starts another controller manager.
    pub fn start(&mut self) {
        self.simulation.start_manager();
    }

    /// The connection of the youngest controller manager that is alive.
    ///
    /// # Panics
    /// When none is.
    pub fn connection(&self) -> Arc<Connection> {
        let mut alive = self.simulation.harness.alive();
        alive.pop().expect("a controller manager is alive")
    }

    /// The youngest ReplicaSet controller that is alive.
    ///
    /// # Panics
    /// When none is.
    pub fn controller(&self) -> Arc<Controller> {
        let controllers = self.simulation.harness.controllers();
        controllers.last().expect("a controller is alive")
    }

    /// How many keys the youngest controller has put off because a cache lagged: of pods, and of
    /// ReplicaSets.
    pub fn stale_skips(&self) -> (u64, u64) {
        let controller = self.controller();
        let [pods, sets] = &controller.guard().stale_sync_skips;
        (pods.value(), sets.value())
    }

    /// The expectations of a ReplicaSet: creations and deletions awaited.
    pub fn expected(&self, name: &str) -> Option<(i64, i64)> {
        let controller = self.controller();
        let key = controller.owners().intern(NAMESPACE, name);
        let counts = controller.expectations().counts(key)?;
        Some((counts.add, counts.del))
    }

    /// How often the key of a ReplicaSet has failed since it went well last.
    pub fn failures(&self, name: &str) -> u32 {
        let controller = self.controller();
        let key = controller.owners().intern(NAMESPACE, name);
        controller.queue().num_requeues(key)
    }

    /// Lets time go by.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn run(&mut self, for_ns: i64) {
        let end_ns = self.now().mono_ns + for_ns;
        self.simulation.run_to(end_ns);
        self.check();
    }

    /// Lets time go by until `stop` holds, which is asked after every step.
    ///
    /// # Panics
    /// When it does not within `limit_ns`, or an invariant does not hold.
    pub fn until(&mut self, what: &str, limit_ns: i64, mut stop: impl FnMut(&View) -> bool) {
        let view = self.view.clone();
        let end_ns = self.now().mono_ns + limit_ns;
        let stopped = stop(&view) || self.simulation.run_until(end_ns, || stop(&view));
        self.check();
        assert!(stopped, "this never came: {what}\n{}", self.picture());
    }

    /// Carries an action of the fault simulator out, of which its checker hears.
    pub fn act(&mut self, action: Action) {
        let step = Step::of_user(0, action);
        self.simulation.act(&step, &mut SetUsers::new(&[]));
    }

    /// Nothing is heard on a watch for so long.
    pub fn hold(&self, stream: StreamKind, for_ns: i64) {
        self.connection().hold(stream, self.now().mono_ns + for_ns);
    }

    /// What is held is heard.
    pub fn release(&self, stream: StreamKind) {
        self.connection().hold(stream, 0);
        self.simulation.harness.wake_controllers();
    }

    /// A watch ends.
    pub fn end(&self, stream: StreamKind, end: StreamEnd) {
        self.connection().end(stream, end);
        self.simulation.harness.wake_controllers();
    }

    /// Lets a fault wait for its requests.
    pub fn arm(&self, fault: Armed) {
        self.simulation.harness.network().arm(fault);
    }

    /// The next `times` requests of that kind meet this.
    pub fn fail(&self, call: Call, effect: Effect, times: u32) {
        self.arm(Armed::new(&[call], effect, times));
    }

    /// The next `times` requests of that kind are refused.
    pub fn refuse(&self, call: Call, fault: ApiFault, times: u32) {
        self.fail(call, Effect::Refuse(fault), times);
    }

    /// How many faults have struck since the last call.
    pub fn struck(&self) -> usize {
        self.simulation.harness.network().take_hits().len()
    }

    /// No requests fail any more.
    pub fn heal_requests(&self) {
        self.simulation.harness.network().heal();
    }

    /// The youngest controller manager dies when it passes that point for the `passes`-th time, counted
    /// from 0; no other is started.
    pub fn crash(&mut self, point: CrashPoint, passes: u32) {
        self.act(Action::Crash {
            point,
            passes,
            down_ms: u32::MAX,
            stale_versions: 0,
            stale_for_ms: 0,
        });
        self.run(0);
    }

    /// Creates a ReplicaSet.
    ///
    /// # Panics
    /// When it can't be read or is refused.
    pub fn create_set(&self, object: Value) -> Arc<ReplicaSet> {
        let object = ReplicaSet::from_json(object).expect("a ReplicaSet of our own making");
        let created = self.cluster().create(object, self.now());
        created.expect("the ReplicaSet is accepted")
    }

    /// Creates a pod.
    pub fn create_pod(&self, object: Value) {
        self.simulation.create_pod(object);
    }

    /// A user makes a pod that carries the ReplicaSet as its controller.
    pub fn forge_pod(&self, name: &str, set: &str) {
        self.create_pod(with(
            pod(name, set),
            owners(set, &self.set(set).metadata.uid),
        ));
    }

    /// Merges JSON into a ReplicaSet.
    pub fn patch_set(&self, name: &str, patch: Value) {
        self.simulation.patch_owner(name, patch);
    }

    /// Merges JSON into the status of a ReplicaSet.
    ///
    /// # Panics
    /// When it is refused.
    pub fn patch_set_status(&self, name: &str, status: Value) {
        let patch = merge(json!({"status": status}));
        self.cluster()
            .patch_status::<ReplicaSet>(NAMESPACE, name, &patch, self.now())
            .expect("the patch is accepted");
    }

    /// Lets the namespace hold so many pods and no more, or lifts that.
    pub fn set_pod_quota(&self, pods: Option<u64>) {
        let set = self.cluster().set_pod_quota(NAMESPACE, pods, self.now());
        set.expect("the quota is accepted");
    }

    /// Changes an annotation of a ReplicaSet: its key is woken.
    pub fn touch(&mut self, name: &str) {
        self.simulation.touch(name);
    }

    /// Sets `spec.replicas`.
    pub fn scale(&mut self, name: &str, replicas: i32) {
        self.simulation.scale(name, replicas);
    }

    /// Deletes a ReplicaSet, or begins to.
    pub fn delete_set(&self, name: &str, propagation: Propagation) {
        self.simulation.delete_owner(name, propagation);
    }

    /// Merges JSON into a pod.
    pub fn patch_pod(&self, name: &str, patch: Value) {
        self.simulation.patch_pod(name, patch);
    }

    /// Merges JSON into the status of a pod.
    pub fn patch_pod_status(&self, name: &str, status: Value) {
        self.simulation.patch_pod_status(name, status);
    }

    /// A pod is running and ready, from now on.
    pub fn make_ready(&self, name: &str) {
        let since = self.now().wall().to_string();
        self.ready_since(name, true, Some(&since));
    }

    /// A pod is running, and ready or not since then.
    pub fn ready_since(&self, name: &str, ready: bool, since: Option<&str>) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
        self.patch_pod_status(name, json!({"phase": "Running", "conditions": [condition]}));
    }

    /// Binds a pod to a node.
    ///
    /// # Panics
    /// When it is refused.
    pub fn bind(&self, name: &str, node: &str) {
        self.cluster()
            .bind(NAMESPACE, name, &Str::from(node), self.now())
            .expect("the binding is accepted");
    }

    /// Deletes a pod with the grace that it has.
    pub fn delete_pod(&self, name: &str) {
        self.simulation.delete_pod(name, None);
    }

    /// Deletes a pod at once.
    pub fn kill_pod(&self, name: &str) {
        self.simulation.delete_pod(name, Some(0));
    }

    /// Asserts that every ReplicaSet has what it wants and says so.
    ///
    /// # Panics
    /// When one has not.
    pub fn assert_converged(&self) {
        if let Some(missing) = self.simulation.missing() {
            panic!("not converged: {missing}\n{}", self.picture());
        }
    }

    /// The end of every hazard: everything that goes wrong is put right, and the checker looks whether
    /// all comes to rest as wanted.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn conclude(mut self) {
        let (users, checker) = (&mut SetUsers::new(&[]), Arc::clone(&self.checker));
        self.simulation.conclude(&ENDING, users, &*checker);
        self.check();
        self.concluded = true;
    }

    fn check(&self) {
        if self.checker.is_over() {
            panic!("{}", self.picture());
        }
    }

    /// The end of the checker's log and the cluster as it is, for a failed test.
    fn picture(&self) -> String {
        let mut out = String::new();
        let (_, log) = self.checker.verdict();
        for line in &log[log.len().saturating_sub(80)..] {
            let _ = writeln!(out, "{line}");
        }
        for set in self.cluster.list::<ReplicaSet>(None).0 {
            let _ = writeln!(out, "{}: {:?}", set.metadata.name, set.status);
        }
        out
    }
}

fn merge(patch: Value) -> Patch {
    match patch {
        Value::Object(map) => Patch::Merge(map),
        other => panic!("a patch is an object, not {other}"),
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        assert!(
            self.concluded || std::thread::panicking(),
            "every hazard ends with its invariants checked"
        );
    }
}
