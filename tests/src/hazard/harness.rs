//! The test harness for a scripted hazard: its setup, the actions of users, the faults, and the
//! final checks.

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
use podstorm_faultsim::{Action, How, PlannedCluster, TimedAction};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::faults::{
    ApiFault, Armed, Call, Connection, CrashPoint, Effect, StreamEnd, StreamKind,
};
use podstorm_sim::options::{LatencySettings, SimOptions};
use serde_json::{Value, json};

use super::log::EventLog;
use super::view::View;

/// Converts milliseconds to nanoseconds.
pub const fn ms(count: i64) -> i64 {
    count * 1_000_000
}

/// Converts seconds to nanoseconds.
pub const fn seconds(count: i64) -> i64 {
    ms(count * 1_000)
}

/// Converts minutes to nanoseconds.
pub const fn minutes(count: i64) -> i64 {
    seconds(count * 60)
}

/// The end of every hazard. Each ReplicaSet is touched once, after its expectations have expired.
/// The cluster must converge within a minute after that, and must then pass half an hour without a
/// write.
const ENDING: Ending = Ending {
    converges_within_ns: minutes(7) + seconds(10),
    touches_ns: &[Ending::EXPECTATIONS_RUN_OUT_NS],
    quiet_ns: minutes(30),
    ..Ending::DEFAULT
};

/// The initial state of a hazard.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The cluster and its controller.
    pub cluster: PlannedCluster,
    /// The latencies in the cluster.
    pub latency: LatencySettings,
    /// Whether to start a controller manager at the beginning.
    pub starts: bool,
}

impl Setup {
    /// Sets the feature gate for the read-your-writes check,
    /// `StaleControllerConsistencyReplicaSet`.
    pub fn consistency(&mut self, on: bool) {
        self.cluster.stale_controller_consistency = on;
    }

    /// Sets whether watches deliver the initial state: the feature gate `WatchListClient`.
    pub fn streaming(&mut self, on: bool) {
        self.cluster.watch_list_client = on;
    }
}

/// Returns a ReplicaSet whose pods have the label `app: <name>` and become ready immediately.
pub fn replica_set(name: &str, replicas: i32) -> Value {
    replicasets::replica_set(name, name, replicas)
}

/// Returns a ReplicaSet whose pods stay pending, because they name a scheduler that does not exist.
/// When its pods are deleted, they disappear immediately.
pub fn idle_set(name: &str, replicas: i32) -> Value {
    let unscheduled = json!({"spec": {"template": {"spec": {"schedulerName": "nobody"}}}});
    with(replica_set(name, replicas), unscheduled)
}

/// Returns a pod that has the label `app: <app>` and stays pending.
pub fn pod(name: &str, app: &str) -> Value {
    let unscheduled = json!({"spec": {"schedulerName": "nobody"}});
    with(objects::pod(name, app), unscheduled)
}

/// Returns metadata that makes a ReplicaSet the controller of an object.
pub fn owners(name: &str, uid: &Uid) -> Value {
    objects::controlled_by(Kind::REPLICA_SET, name, &uid.to_string())
}

/// A scripted hazard.
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
    /// Creates a cluster with 20 nodes, without latencies, and with one controller manager that has
    /// every feature gate on.
    pub fn new() -> Harness {
        Harness::with(|_| {})
    }

    /// Like [`new`](Harness::new), with the consistency gate on or off.
    pub fn gated(on: bool) -> Harness {
        Harness::with(|setup| setup.consistency(on))
    }

    /// Creates a hazard whose setup `change` changes.
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

    /// Creates a ReplicaSet and lets one second pass.
    pub fn holding(mut self, set: Value) -> Harness {
        self.create_set(set);
        self.run(seconds(1));
        self
    }

    /// Returns the invariant checker.
    pub fn checker(&self) -> &SetChecker {
        &self.checker
    }

    /// Returns the current time.
    pub fn now(&self) -> Now {
        self.simulation.harness.now()
    }

    /// Starts another controller manager.
    pub fn start(&mut self) {
        self.simulation.start_manager();
    }

    /// Returns the connection of the newest running controller manager.
    ///
    /// # Panics
    /// Panics if no controller manager is running.
    pub fn connection(&self) -> Arc<Connection> {
        let mut alive = self.simulation.harness.alive();
        alive.pop().expect("a controller manager is running")
    }

    /// Returns the newest running ReplicaSet controller.
    ///
    /// # Panics
    /// Panics if no controller is running.
    pub fn controller(&self) -> Arc<Controller> {
        let controllers = self.simulation.harness.controllers();
        controllers.last().expect("a controller is running")
    }

    /// Returns how many keys the newest controller has postponed because a cache lagged behind its
    /// writes: the pod cache, and the cache of ReplicaSets.
    pub fn stale_skips(&self) -> (u64, u64) {
        let controller = self.controller();
        let [pods, sets] = &controller.guard().stale_sync_skips;
        (pods.value(), sets.value())
    }

    /// Returns the expectations of a ReplicaSet: the numbers of expected creations and deletions.
    /// `None` if it has none.
    pub fn expected(&self, name: &str) -> Option<(i64, i64)> {
        let controller = self.controller();
        let key = controller.owners().intern(NAMESPACE, name);
        let counts = controller.expectations().counts(key)?;
        Some((counts.add, counts.del))
    }

    /// Returns how often a ReplicaSet's key has failed since its last success.
    pub fn failures(&self, name: &str) -> u32 {
        let controller = self.controller();
        let key = controller.owners().intern(NAMESPACE, name);
        controller.queue().num_requeues(key)
    }

    /// Lets time pass.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
    pub fn run(&mut self, for_ns: i64) {
        let end_ns = self.now().mono_ns + for_ns;
        self.simulation.run_to(end_ns);
        self.check();
    }

    /// Lets time pass until `stop`, which is called after every step, returns true.
    ///
    /// # Panics
    /// Panics if `stop` does not return true within `limit_ns`, or if an invariant is violated.
    pub fn until(&mut self, what: &str, limit_ns: i64, mut stop: impl FnMut(&View) -> bool) {
        let view = self.view.clone();
        let end_ns = self.now().mono_ns + limit_ns;
        let stopped = stop(&view) || self.simulation.run_until(end_ns, || stop(&view));
        self.check();
        assert!(stopped, "never happened: {what}\n{}", self.picture());
    }

    /// Executes an action of the fault simulator, so that its checker sees the action.
    pub fn act(&mut self, action: Action) {
        let step = TimedAction::of_user(0, action);
        self.simulation.act(&step, &mut SetUsers::new(&[]));
    }

    /// Delays all events of a watch for some time.
    pub fn hold(&self, stream: StreamKind, for_ns: i64) {
        self.connection().hold(stream, self.now().mono_ns + for_ns);
    }

    /// Delivers the delayed events of a watch.
    pub fn release(&self, stream: StreamKind) {
        self.connection().hold(stream, 0);
        self.simulation.harness.wake_controllers();
    }

    /// Ends a watch.
    pub fn end(&self, stream: StreamKind, end: StreamEnd) {
        self.connection().end(stream, end);
        self.simulation.harness.wake_controllers();
    }

    /// Arms a fault, which strikes matching requests.
    pub fn arm(&self, fault: Armed) {
        self.simulation.harness.network().arm(fault);
    }

    /// Applies an effect to the next `times` requests of one kind.
    pub fn fail(&self, call: Call, effect: Effect, times: u32) {
        self.arm(Armed::new(&[call], effect, times));
    }

    /// Rejects the next `times` requests of one kind.
    pub fn refuse(&self, call: Call, fault: ApiFault, times: u32) {
        self.fail(call, Effect::Refuse(fault), times);
    }

    /// Returns the number of faults that have struck since the last call.
    pub fn struck(&self) -> usize {
        self.simulation.harness.network().take_hits().len()
    }

    /// Disarms all request faults.
    pub fn heal_requests(&self) {
        self.simulation.harness.network().heal();
    }

    /// Crashes the newest controller manager when it passes a point for the `passes`-th time,
    /// counted from 0. Starts no other controller manager.
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
    /// Panics if the ReplicaSet is unreadable or if the server rejects it.
    pub fn create_set(&self, object: Value) -> Arc<ReplicaSet> {
        let object = ReplicaSet::from_json(object).expect("the test's ReplicaSet is readable");
        let created = self.cluster().create(object, self.now());
        created.expect("the ReplicaSet is accepted")
    }

    /// Creates a pod.
    pub fn create_pod(&self, object: Value) {
        self.simulation.create_pod(object);
    }

    /// Creates a pod as a user would. The pod names the ReplicaSet as its controller.
    pub fn forge_pod(&self, name: &str, set: &str) {
        self.create_pod(with(
            pod(name, set),
            owners(set, &self.set(set).metadata.uid),
        ));
    }

    /// Applies a JSON merge patch to a ReplicaSet.
    pub fn patch_set(&self, name: &str, patch: Value) {
        self.simulation.patch_owner(name, patch);
    }

    /// Applies a JSON merge patch to the status of a ReplicaSet.
    ///
    /// # Panics
    /// Panics if the server rejects the patch.
    pub fn patch_set_status(&self, name: &str, status: Value) {
        let patch = merge(json!({"status": status}));
        self.cluster()
            .patch_status::<ReplicaSet>(NAMESPACE, name, &patch, self.now())
            .expect("the patch is accepted");
    }

    /// Limits the number of pods in the namespace, or removes the limit if `None`.
    pub fn set_pod_quota(&self, pods: Option<u64>) {
        let set = self.cluster().set_pod_quota(NAMESPACE, pods, self.now());
        set.expect("the quota is accepted");
    }

    /// Changes an annotation of a ReplicaSet, which queues its key.
    pub fn touch(&mut self, name: &str) {
        self.simulation.touch(name);
    }

    /// Sets the `spec.replicas` of a ReplicaSet.
    pub fn scale(&mut self, name: &str, replicas: i32) {
        self.simulation.scale(name, replicas);
    }

    /// Deletes a ReplicaSet, or begins its deletion.
    pub fn delete_set(&self, name: &str, propagation: Propagation) {
        self.simulation.delete_owner(name, propagation);
    }

    /// Applies a JSON merge patch to a pod.
    pub fn patch_pod(&self, name: &str, patch: Value) {
        self.simulation.patch_pod(name, patch);
    }

    /// Applies a JSON merge patch to the status of a pod.
    pub fn patch_pod_status(&self, name: &str, status: Value) {
        self.simulation.patch_pod_status(name, status);
    }

    /// Makes a pod running, and ready from now on.
    pub fn make_ready(&self, name: &str) {
        let since = self.now().wall().to_string();
        self.ready_since(name, true, Some(&since));
    }

    /// Makes a pod running, and ready or not ready since a given time.
    pub fn ready_since(&self, name: &str, ready: bool, since: Option<&str>) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": since});
        self.patch_pod_status(name, json!({"phase": "Running", "conditions": [condition]}));
    }

    /// Binds a pod to a node.
    ///
    /// # Panics
    /// Panics if the server rejects the binding.
    pub fn bind(&self, name: &str, node: &str) {
        self.cluster()
            .bind(NAMESPACE, name, &Str::from(node), self.now())
            .expect("the binding is accepted");
    }

    /// Deletes a pod with the pod's own grace period.
    pub fn delete_pod(&self, name: &str) {
        self.simulation.delete_pod(name, None);
    }

    /// Deletes a pod without a grace period.
    pub fn kill_pod(&self, name: &str) {
        self.simulation.delete_pod(name, Some(0));
    }

    /// Asserts that every ReplicaSet has the desired pods and a matching status.
    ///
    /// # Panics
    /// Panics if a ReplicaSet does not.
    pub fn assert_converged(&self) {
        if let Some(missing) = self.simulation.missing() {
            panic!("not converged: {missing}\n{}", self.picture());
        }
    }

    /// Ends the hazard: removes all faults, and has the checker verify that the cluster converges
    /// and comes to rest.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
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

    /// Returns the last part of the checker's log and the state of the cluster, for the message of
    /// a failed test.
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
        other => panic!("a patch must be an object, not {other}"),
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
