//! One scenario: what is set up, how time goes on, what goes wrong, and how it ends.

use std::fmt::Write as _;
use std::ops::Deref;
use std::sync::Arc;

use podstorm::object::{Namespace, Now, ObjectMeta, ReplicaSet};
use podstorm::replicaset::Controller;
use podstorm_apiserver::ClusterOptions;
use podstorm_loadgen::settings::{EngineKind, Settings};
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::faults::{
    Armed, Call, Connection, CrashPoint, Effect, FaultClass, StreamEnd, StreamKind,
};

use super::diary::Diary;
use super::view::View;
use crate::harness::{self, NAMESPACE};

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

/// How a scenario begins.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Of the run.
    pub settings: Settings,
    /// Of the API server.
    pub options: ClusterOptions,
    /// How many controller managers are started at the beginning.
    pub managers: usize,
}

impl Setup {
    /// Sets a feature gate.
    pub fn gate(&mut self, name: &str, on: bool) {
        let gates = &mut self.settings.controller.feature_gates;
        gates.insert(name.to_owned(), on);
    }

    /// Sets the gate of reading what was written, `StaleControllerConsistencyReplicaSet`.
    pub fn consistency(&mut self, on: bool) {
        self.gate("StaleControllerConsistencyReplicaSet", on);
    }

    /// Sets whether the initial state comes through the watch, `WatchListClient`.
    pub fn streaming(&mut self, on: bool) {
        self.gate("WatchListClient", on);
    }
}

/// A fault that meets the next `times` requests of these kinds.
pub fn fault(calls: &[Call], effect: Effect, times: u32) -> Armed {
    Armed {
        class: FaultClass::ApiError,
        calls: calls.to_vec(),
        parent: None,
        batch: None,
        index: None,
        effect,
        times,
        until_ns: i64::MAX,
    }
}

/// A scenario.
#[derive(Debug)]
pub struct Scene {
    site: FaultHarness,
    view: View,
    concluded: bool,
}

impl Deref for Scene {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Default for Scene {
    fn default() -> Self {
        Scene::new()
    }
}

impl Scene {
    /// A cluster of 20 nodes in which everything is done without delay, and one controller
    /// manager with every gate on.
    pub fn new() -> Scene {
        Scene::with(|_| {})
    }

    /// The same with the consistency gate on or off.
    pub fn gated(on: bool) -> Scene {
        Scene::with(|setup| setup.consistency(on))
    }

    /// A scenario whose beginning is changed by `change`.
    pub fn with(change: impl FnOnce(&mut Setup)) -> Scene {
        let diary: Arc<Diary> = Arc::default();
        let mut setup = Setup {
            settings: harness::settings(EngineKind::Virtual),
            options: ClusterOptions {
                seed: 7,
                keeps_past: true,
                observer: Some(diary.clone()),
                ..ClusterOptions::default()
            },
            managers: 1,
        };
        change(&mut setup);
        let site = FaultHarness::new(&setup.settings.sim_options(), setup.options, diary.clone());
        let view = View {
            cluster: site.cluster().clone(),
            diary,
        };
        let mut scene = Scene {
            site,
            view,
            concluded: false,
        };
        let metadata = ObjectMeta {
            name: NAMESPACE.into(),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        let now = scene.now();
        let created = scene.cluster.create(namespace, now);
        created.expect("the name is free");
        for number in 1..=setup.settings.size.nodes {
            let node = harness::node(number, setup.settings.size.pods_per_node);
            scene.cluster.create(node, now).expect("the name is free");
        }
        for _ in 0..setup.managers {
            scene.start();
        }
        scene.run(seconds(1));
        scene
    }

    /// The present.
    pub fn now(&self) -> Now {
        self.site.now()
    }

    /// Starts another controller manager; answers its line.
    pub fn start(&mut self) -> Arc<Connection> {
        self.site.start_manager();
        self.line()
    }

    /// The line of the youngest controller manager that is alive.
    ///
    /// # Panics
    /// When none is.
    pub fn line(&self) -> Arc<Connection> {
        self.site
            .alive()
            .pop()
            .expect("a controller manager is alive")
    }

    /// The youngest ReplicaSet controller that is alive.
    ///
    /// # Panics
    /// When none is.
    pub fn controller(&self) -> Arc<Controller> {
        let controllers = self.site.controllers();
        controllers.last().expect("a controller is alive").clone()
    }

    /// How many keys the youngest controller has put off because a cache lagged: of pods, and of
    /// ReplicaSets.
    pub fn stale_skips(&self) -> (u64, u64) {
        let controller = self.controller();
        let metrics = controller.metrics();
        let (pods, sets) = (
            &metrics.stale_sync_skips_pods,
            &metrics.stale_sync_skips_replicasets,
        );
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
    /// When something goes on for ever while no time goes by.
    pub fn run(&mut self, for_ns: i64) {
        let end_ns = self.now().mono_ns + for_ns;
        while self.advance(end_ns, || false) != Stopped::AtEnd {}
    }

    fn advance(&mut self, end_ns: i64, stop: impl FnMut() -> bool) -> Stopped {
        let stopped = self.site.advance(end_ns, stop);
        if stopped == Stopped::Livelock {
            panic!("no end and no time goes by\n{}", self.picture());
        }
        stopped
    }

    /// Lets time go by until `stop` holds, which is asked after every step.
    ///
    /// # Panics
    /// When it does not within `limit_ns`.
    pub fn until(&mut self, what: &str, limit_ns: i64, mut stop: impl FnMut(&View) -> bool) {
        let view = self.view.clone();
        let end_ns = self.now().mono_ns + limit_ns;
        let mut stopped = stop(&view);
        if !stopped {
            while !stopped && self.now().mono_ns < end_ns {
                self.advance(end_ns, || {
                    stopped = stop(&view);
                    stopped
                });
            }
        }
        assert!(stopped, "this never came: {what}\n{}", self.picture());
    }

    /// Nothing is heard on a watch for so long.
    pub fn hold(&self, stream: StreamKind, for_ns: i64) {
        self.line().hold(stream, self.now().mono_ns + for_ns);
    }

    /// What is held is heard.
    pub fn release(&self, stream: StreamKind) {
        self.line().hold(stream, 0);
        self.site.wake_controllers();
    }

    /// A watch ends.
    pub fn end(&self, stream: StreamKind, end: StreamEnd) {
        self.line().end(stream, end);
        self.site.wake_controllers();
    }

    /// Lets a fault wait for its requests.
    pub fn arm(&self, fault: Armed) {
        self.site.network().arm(fault);
    }

    /// The next `times` requests of that kind meet this.
    pub fn fail(&self, call: Call, effect: Effect, times: u32) {
        self.arm(fault(&[call], effect, times));
    }

    /// How many faults have struck since the last call.
    pub fn struck(&self) -> usize {
        self.site.network().take_hits().len()
    }

    /// No requests fail any more.
    pub fn heal_requests(&self) {
        self.site.network().heal();
    }

    /// The youngest controller manager dies, at once or at a point of its work.
    pub fn crash(&mut self, point: CrashPoint) {
        self.line().crash_at(point, 0);
        self.run(0);
    }

    /// Nothing goes wrong any more: the last lists and watches of what is alive are complete.
    pub fn heal(&mut self) {
        self.site.network().heal();
        for connection in self.site.alive() {
            connection.heal();
        }
        self.site.wake_controllers();
    }

    /// Whether every ReplicaSet has what it wants and says so, and why not.
    ///
    /// # Errors
    /// The first that has not.
    pub fn converged(&self) -> Result<(), String> {
        let sets = self.cluster.list::<ReplicaSet>(Some(NAMESPACE)).0;
        for set in sets.iter().filter(|set| !set.metadata.is_deleting()) {
            let owned = harness::owned(&self.pods(), &set.metadata.uid);
            let count = |n: usize| i32::try_from(n).expect("there are few pods");
            let active = count(owned.iter().filter(|pod| pod.is_active()).count());
            let ready = owned.iter().filter(|pod| pod.is_active() && pod.is_ready());
            let (ready, status) = (count(ready.count()), &set.status);
            let found = (active, status.replicas, status.ready_replicas);
            let wanted = (set.replicas(), set.replicas(), ready);
            if found != wanted || status.observed_generation != set.metadata.generation {
                let name = &set.metadata.name;
                return Err(format!("{name}: {found:?} instead of {wanted:?}"));
            }
        }
        Ok(())
    }

    /// Asserts that every ReplicaSet has what it wants and says so.
    ///
    /// # Panics
    /// When one has not.
    pub fn assert_converged(&self) {
        if let Err(why) = self.converged() {
            panic!("not converged: {why}\n{}", self.picture());
        }
    }

    /// The end of every scenario: faults stop, five minutes pass, each ReplicaSet is touched once,
    /// and then all have what they want (I9), half an hour passes without a write (I8), and no
    /// rule was broken on the way (I1 to I7).
    ///
    /// # Panics
    /// When any of that does not hold.
    pub fn conclude(mut self) {
        self.heal();
        self.run(minutes(5) + seconds(1));
        for set in self.cluster.list::<ReplicaSet>(Some(NAMESPACE)).0 {
            self.touch(&set.metadata.name);
        }
        self.run(minutes(1));
        self.assert_converged();
        self.conclude_quiet();
    }

    /// The end of a scenario in which what is wanted can't be had: without I9.
    ///
    /// # Panics
    /// When a rule was broken, or writes don't end.
    pub fn conclude_quiet(mut self) {
        let before = self.written().len();
        self.run(minutes(30));
        let written = self.written();
        let late = &written[before..];
        assert!(late.is_empty(), "I8: {late:?}\n{}", self.picture());
        self.conclude_busy();
    }

    /// The end of a scenario that would go on for ever: without I8 and I9.
    ///
    /// # Panics
    /// When a rule was broken.
    pub fn conclude_busy(mut self) {
        let broken = self.diary.state().broken.clone();
        assert!(
            broken.is_empty(),
            "{}\n{}",
            broken.join("\n"),
            self.picture()
        );
        self.concluded = true;
    }

    /// The scenario as it is now, for a failed test.
    fn picture(&self) -> String {
        let mut out = format!("at {} s\n", self.now().mono_ns / seconds(1));
        for page in self.syncs().iter().rev().take(12).rev() {
            let requests: Vec<String> = page
                .requests
                .iter()
                .take(8)
                .map(|asked| format!("{:?} {:?}", asked.call, asked.answer))
                .collect();
            let _ = writeln!(
                out,
                "sync {} of {} at {} ms: {requests:?} {:?}",
                page.id.number,
                page.parent,
                page.began_ns / ms(1),
                page.ended.as_ref().map(|(_, outcome)| outcome)
            );
        }
        out + &harness::picture(&self.cluster)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        assert!(
            self.concluded || std::thread::panicking(),
            "every scenario ends with its rules checked"
        );
    }
}
