//! The part that plays a scenario: does a phase's tasks in small portions, waits for its
//! condition, checks the store, writes down what the phase took, and goes on to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hdrhistogram::Histogram;
use podstorm::object::{Now, Pod, ReplicaSet, ReplicaSetStatus, ReplicationController};

use super::audit::audit;
use super::load::Loader;
use super::objects::Objects;
use super::plan::{Amount, Bound, PhasePlan, Task, Until, phases, picks_pods, starts_controllers};
use super::tracker::Tracker;
use crate::cluster::{Cluster, DeleteOptions, PodTotals, ScaleUpdate};
use crate::engine::executor::{Next, Part, Switchboard, Waker};
use crate::engine::seed::seed_for;
use crate::engine::stream::Stream;
use crate::input::InputObject;
use crate::result::Phase;
use crate::settings::{ScenarioName, Settings};

/// Most writes in one run.
const WRITES_PER_RUN: u32 = 100;

/// Between two looks at whether the controllers have come to rest, ns.
const REST_CHECK_NS: i64 = 1_000_000;

/// The scenario's hold on the controllers.
pub struct Controllers {
    /// Set to let the informers begin; see `wake`.
    pub started: Arc<AtomicBool>,
    /// Wakes the informers after `started` was set.
    pub wake: Vec<Waker>,
    /// Whether at least that many syncs have been finished, none is under way, and no key waits.
    pub rests_after: Box<dyn Fn(u64) -> bool + Send>,
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controllers")
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

/// How far the scenario is, for whoever shows it. Written by the driver, read at any time.
#[derive(Debug, Default)]
pub struct Position {
    /// The current phase.
    pub phase: AtomicUsize,
    /// Pods of the phase's target that are there (or gone).
    pub done: AtomicU64,
    /// Pods of the phase's target.
    pub total: AtomicU64,
    /// Pods that exist.
    pub pods: AtomicU64,
}

/// What the scenario found out.
#[derive(Debug)]
pub struct Report {
    /// The phases, the last of them perhaps cut short.
    pub phases: Vec<Phase>,
    /// Whether all phases are done and their conditions were met.
    pub converged: bool,
    /// What did not go as it should, in words.
    pub failures: Vec<String>,
    /// What can't be: the store contradicts what it told its watchers.
    pub violations: Vec<String>,
    /// See `Tracker::excess`.
    pub excess: u64,
    /// Owned pods that went before they were ever ready.
    pub surplus: u64,
    /// From the moment a parent's spec was written (or its pods were touched from outside) to the
    /// moment it had its pods and an exact status, ns.
    pub convergence: Histogram<u64>,
    /// From a pod's creation to its being ready, ns.
    pub pod_ready: Histogram<u64>,
}

/// The driver.
#[derive(Debug)]
pub struct Driver {
    settings: Settings,
    cluster: Arc<Cluster>,
    switchboard: Arc<Switchboard>,
    controllers: Controllers,
    pods: Stream<Pod>,
    replica_sets: Stream<ReplicaSet>,
    replication_controllers: Option<Stream<ReplicationController>>,
    tracker: Tracker,
    objects: Objects,
    loader: Loader,
    /// Numbers in the tracker of the generated ReplicaSets.
    generated: Vec<usize>,
    plan: Vec<PhasePlan>,
    at: Place,
    position: Arc<Position>,
    random: fastrand::Rng,
    done: Vec<Phase>,
    failures: Vec<String>,
    violations: Vec<String>,
    finished: bool,
}

/// Where in the plan, and what was true when the phase began.
#[derive(Debug, Default)]
struct Place {
    phase: usize,
    task: usize,
    /// How much of the task is done.
    cursor: u64,
    /// Within a number of the cursor.
    inner: i32,
    started_ns: i64,
    /// When the task began; set at its first run.
    task_started_ns: Option<i64>,
    pods: PodTotals,
    existing: u64,
    ready: u64,
    /// Parents' desired pods, once the tasks are done.
    goal: Option<u64>,
    /// An audit failed, and nothing has been heard since.
    doubted: bool,
}

impl Driver {
    /// The driver of the scenario in the settings; `waker` wakes the part that holds it.
    pub fn new(
        settings: &Settings,
        objects: Vec<InputObject>,
        cluster: Arc<Cluster>,
        switchboard: Arc<Switchboard>,
        controllers: Controllers,
        waker: Waker,
    ) -> Driver {
        let with_rcs = Loader::has_replication_controllers(&objects);
        let mut tracker = Tracker::new(picks_pods(settings.scenario));
        tracker.controller_runs = !starts_controllers(settings.scenario);
        // Otherwise the controllers run from the start.
        controllers
            .started
            .store(tracker.controller_runs, Ordering::Release);
        Driver {
            pods: Stream::new(Arc::clone(&cluster), Arc::clone(&waker)),
            replica_sets: Stream::new(Arc::clone(&cluster), Arc::clone(&waker)),
            replication_controllers: with_rcs.then(|| Stream::new(Arc::clone(&cluster), waker)),
            cluster,
            switchboard,
            controllers,
            tracker,
            objects: Objects::new(settings),
            loader: Loader::new(objects),
            generated: Vec::new(),
            plan: phases(settings),
            at: Place::default(),
            position: Arc::default(),
            random: fastrand::Rng::with_seed(seed_for(settings.seed, "scenario", 0)),
            done: Vec::new(),
            failures: Vec::new(),
            violations: Vec::new(),
            finished: false,
            settings: settings.clone(),
        }
    }

    /// The names of the phases.
    pub fn phase_names(&self) -> Vec<String> {
        self.plan.iter().map(|phase| phase.name.clone()).collect()
    }

    /// Where to read how far it is.
    pub fn position(&self) -> Arc<Position> {
        Arc::clone(&self.position)
    }

    /// What was found out up to `now`; a phase that is not over is written down as it stands.
    pub fn report(&mut self, now: Now) -> Report {
        if !self.finished && self.at.phase < self.plan.len() {
            let reason = self.what_is_missing();
            self.failures.push(reason);
            self.write_down(false, now);
        }
        if self.loader.refused_count > 0 {
            self.failures.push(format!(
                "the server refused {} objects: {}",
                self.loader.refused_count,
                self.loader.refused.join("; ")
            ));
        }
        Report {
            phases: std::mem::take(&mut self.done),
            converged: self.finished && self.failures.is_empty() && self.violations.is_empty(),
            failures: std::mem::take(&mut self.failures),
            violations: std::mem::take(&mut self.violations),
            excess: self.tracker.excess(),
            surplus: self.tracker.surplus(),
            convergence: self.tracker.convergence.clone(),
            pod_ready: self.tracker.pod_ready.clone(),
        }
    }

    fn what_is_missing(&self) -> String {
        let name = &self.plan[self.at.phase].name;
        let mut text = format!("phase \"{name}\" was not over");
        if let Some(parent) = self.tracker.first_unconverged() {
            text += &format!(
                ": {} of {} ReplicaSets and ReplicationControllers have not converged, among them \
                 {}/{} with {} of {} pods",
                self.tracker.unconverged(),
                self.tracker.parents.len(),
                parent.namespace,
                parent.name,
                parent.active,
                parent.desired,
            );
        } else if self.tracker.deleting() > 0 {
            text += &format!(": {} pods are still being deleted", self.tracker.deleting());
        }
        text
    }

    /// Hears what has happened; whether anything had, and when to listen again.
    fn listen(&mut self, now: Now) -> Next {
        let (tracker, doubted) = (&mut self.tracker, &mut self.at.doubted);
        // Parents first: then no pod event before theirs can be missing when the pods' are read.
        let mut next = self.replica_sets.poll(now, |item| {
            *doubted = false;
            tracker.parent_item(item, |parent: &ReplicaSet| {
                (parent.replicas(), &parent.status)
            });
        });
        if let Some(stream) = &mut self.replication_controllers {
            next = next.or(stream.poll(now, |item| {
                tracker.parent_item(item, |parent: &ReplicationController| {
                    (parent.replicas.unwrap_or(1), &parent.status)
                });
            }));
        }
        next = next.or(self.pods.poll(now, |item| {
            *doubted = false;
            tracker.pod_item(item, now);
        }));
        if self.pods.is_drained() {
            tracker.all_seen(now);
        }
        next
    }

    /// Does up to [`WRITES_PER_RUN`] writes of the phase's tasks.
    fn work(&mut self, now: Now) -> Next {
        let mut left = WRITES_PER_RUN;
        while left > 0 {
            let Some(&task) = self.plan[self.at.phase].tasks.get(self.at.task) else {
                break;
            };
            let begun_ns = *self.at.task_started_ns.get_or_insert(now.mono_ns);
            match self.step(task, begun_ns, now) {
                Step::Done => {
                    self.at.task += 1;
                    self.at.cursor = 0;
                    self.at.inner = 0;
                    self.at.task_started_ns = None;
                }
                Step::Wait(at_ns) => return Next::At(at_ns),
                Step::Skipped => {}
                Step::Wrote => left -= 1,
            }
        }
        Next::Again
    }

    /// Does one write of a task.
    fn step(&mut self, task: Task, begun_ns: i64, now: Now) -> Step {
        let size = &self.settings.size;
        let number = self.at.cursor;
        match task {
            Task::Namespaces => self.count_up(size.namespaces, |driver| {
                driver.create_namespace(number, now)
            }),
            Task::Nodes => self.count_up(size.nodes, |driver| driver.create_node(number, now)),
            Task::Input => {
                if self.settings.scenario == ScenarioName::Manifests
                    && !self.loader.has_nodes
                    && number < size.nodes
                {
                    return self.count_up(size.nodes, |driver| driver.create_node(number, now));
                }
                let more = self.loader.step(&self.cluster, &mut self.tracker, now);
                if more { Step::Wrote } else { Step::Done }
            }
            Task::ReplicaSets(amount) => self.count_up(size.replicasets, |driver| {
                driver.create_replica_set(number, amount, now)
            }),
            Task::Scale(amount) => {
                self.count_up(size.replicasets, |driver| driver.scale(number, amount, now))
            }
            Task::OwnedPods => self.create_pods(true, now),
            Task::BarePods => self.create_pods(false, now),
            Task::Statuses => {
                self.count_up(size.replicasets, |driver| driver.write_status(number, now))
            }
            Task::StartControllers => {
                self.tracker.controller_runs = true;
                // Release: whoever sees the flag sees everything written before.
                self.controllers.started.store(true, Ordering::Release);
                self.controllers.wake.iter().for_each(|wake| wake());
                Step::Done
            }
            Task::Churn => self.churn(begun_ns, now),
        }
    }

    /// One more of `count`, or the end.
    fn count_up(&mut self, count: u64, one: impl FnOnce(&mut Driver) -> Step) -> Step {
        if self.at.cursor >= count {
            return Step::Done;
        }
        self.at.cursor += 1;
        one(self)
    }

    fn note<T, E: std::fmt::Display>(&mut self, what: &str, outcome: Result<T, E>) -> Option<T> {
        outcome
            .map_err(|error| {
                // The first few say enough.
                if self.failures.len() < 10 {
                    self.failures.push(format!("{what}: {error}"));
                }
            })
            .ok()
    }

    fn create_namespace(&mut self, number: u64, now: Now) -> Step {
        let created = self.cluster.create(self.objects.namespace(number), now);
        self.note("creating a namespace", created);
        Step::Wrote
    }

    fn create_node(&mut self, number: u64, now: Now) -> Step {
        let created = self.cluster.create(self.objects.node(number), now);
        self.note("creating a node", created);
        Step::Wrote
    }

    fn amount(&self, amount: Amount, number: u64) -> i32 {
        let (count, burst) = (self.settings.size.replicasets, self.settings.burst_pods);
        amount.of(number, count, self.objects.share(number), burst)
    }

    fn create_replica_set(&mut self, number: u64, amount: Amount, now: Now) -> Step {
        let replicas = self.amount(amount, number);
        let created = self
            .cluster
            .create(self.objects.replica_set(number, replicas), now);
        if let Some(created) = self.note("creating a ReplicaSet", created) {
            let at = self.tracker.asked(&created.metadata, replicas, now);
            self.generated.push(at);
        }
        Step::Wrote
    }

    fn scale(&mut self, number: u64, amount: Amount, now: Now) -> Step {
        let replicas = self.amount(amount, number);
        let Some(parent) = self
            .generated
            .get(number as usize)
            .map(|&at| &self.tracker.parents[at])
        else {
            return Step::Skipped;
        };
        if parent.desired == replicas {
            return Step::Skipped;
        }
        let update = ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        let scaled =
            self.cluster
                .update_scale::<ReplicaSet>(&parent.namespace, &parent.name, &update, now);
        if let Some(scaled) = self.note("scaling a ReplicaSet", scaled) {
            self.tracker.asked(&scaled.metadata, replicas, now);
        }
        Step::Wrote
    }

    /// One of the pods that exist before their ReplicaSets, or their controller, do.
    fn create_pods(&mut self, owned: bool, now: Now) -> Step {
        let number = self.at.cursor;
        if number >= self.settings.size.replicasets {
            return Step::Done;
        }
        let share = self.objects.share(number);
        if self.at.inner >= share {
            self.at.inner = 0;
            self.at.cursor += 1;
            return Step::Skipped;
        }
        let namespace = self.objects.namespace_of(number).clone();
        let owner = owned
            .then(|| {
                self.generated
                    .get(number as usize)
                    .map(|&at| &self.tracker.parents[at])
            })
            .flatten()
            .map(|parent| {
                self.cluster
                    .get::<ReplicaSet>(&parent.namespace, &parent.name)
            });
        let owner = owner.and_then(Result::ok);
        // One body for all pods of a ReplicaSet, as its controller would send them.
        let body = Arc::new(self.objects.pod(number, owner.as_deref()));
        for _ in 0..WRITES_PER_RUN {
            if self.at.inner >= share {
                break;
            }
            self.at.inner += 1;
            let created = self.cluster.create_pod(&namespace, &body, now);
            self.note("creating a pod", created);
        }
        Step::Wrote
    }

    /// The status that a controller leaves behind when all is well.
    fn write_status(&mut self, number: u64, now: Now) -> Step {
        let Some(parent) = self
            .generated
            .get(number as usize)
            .map(|&at| &self.tracker.parents[at])
        else {
            return Step::Skipped;
        };
        let found = self
            .cluster
            .get::<ReplicaSet>(&parent.namespace, &parent.name);
        let Some(found) = self.note("reading a ReplicaSet", found) else {
            return Step::Wrote;
        };
        let gates = &self.settings.controller.feature_gates;
        let terminating = gates
            .get("DeploymentReplicaSetTerminatingReplicas")
            .copied();
        let replicas = found.replicas();
        let mut written = ReplicaSet::clone(&found);
        written.status = ReplicaSetStatus {
            replicas,
            fully_labeled_replicas: replicas,
            ready_replicas: replicas,
            available_replicas: replicas,
            terminating_replicas: terminating.unwrap_or(true).then_some(0),
            observed_generation: found.metadata.generation,
            ..ReplicaSetStatus::default()
        };
        let outcome = self.cluster.update_status(written, now);
        self.note("writing a status", outcome);
        Step::Wrote
    }

    /// Deletes a ready pod when one is due: the n-th at n times the interval from the start, late
    /// or not, so that a slow run is not a gentle one.
    fn churn(&mut self, begun_ns: i64, now: Now) -> Step {
        let (rate, length_ns) = (
            self.settings.churn_pods_per_second,
            self.settings.duration_ns,
        );
        let offset_ns = self.at.cursor as f64 * 1e9 / rate;
        if rate <= 0.0 || offset_ns >= length_ns as f64 {
            return Step::Done;
        }
        let due_ns = begun_ns.saturating_add(offset_ns as i64);
        if due_ns > now.mono_ns {
            return Step::Wait(due_ns);
        }
        self.at.cursor += 1;
        if let Some(pod) = self.tracker.pick(&mut self.random) {
            let meta = &pod.metadata;
            // Refused only when somebody else has deleted the pod since: churn all the same.
            let _deleted = self.cluster.delete::<Pod>(
                &meta.namespace,
                &meta.name,
                &DeleteOptions::default(),
                now,
            );
        }
        Step::Wrote
    }

    /// Looks whether the phase is over, its tasks being done.
    fn settle(&mut self, now: Now) -> Next {
        let plan = &self.plan[self.at.phase];
        let met = match plan.until {
            Until::Converged => self.tracker.is_converged(),
            Until::PodsReady => self.tracker.ready() >= self.settings.size.pods,
            Until::Synced => {
                let count = self.tracker.parents.len() as u64;
                if !(self.controllers.rests_after)(count) {
                    return Next::At(now.mono_ns.saturating_add(REST_CHECK_NS));
                }
                self.tracker.is_converged()
            }
        };
        if !met || !self.pods.is_drained() || !self.replica_sets.is_drained() {
            return Next::Idle;
        }
        if matches!(plan.until, Until::Converged | Until::Synced)
            && let Err(problem) = audit(&self.cluster)
        {
            // Either something has just changed, and the watches will say so, or the store and
            // the watches contradict each other.
            if !self.at.doubted {
                self.at.doubted = true;
                return Next::Again;
            }
            self.violations
                .push(format!("phase \"{}\": {problem}", plan.name));
            self.write_down(false, now);
            self.finished = true;
            self.switchboard.stop();
            return Next::Idle;
        }
        self.write_down(true, now);
        self.begin_phase(self.at.phase + 1, now);
        if self.at.phase == self.plan.len() {
            self.finished = true;
            self.switchboard.stop();
            return Next::Idle;
        }
        Next::Again
    }

    fn begin_phase(&mut self, phase: usize, now: Now) {
        self.at = Place {
            phase,
            started_ns: now.mono_ns,
            pods: self.cluster.write_counts().pods,
            existing: self.tracker.existing(),
            ready: self.tracker.ready(),
            ..Place::default()
        };
        // Relaxed, here and below: figures to look at, which order nothing.
        self.position.phase.store(phase, Ordering::Relaxed);
        self.position.total.store(0, Ordering::Relaxed);
        self.position.done.store(0, Ordering::Relaxed);
    }

    /// Writes down what the phase took.
    fn write_down(&mut self, converged: bool, now: Now) {
        let plan = &self.plan[self.at.phase];
        let (before, pods) = (self.at.pods, self.cluster.write_counts().pods);
        let (created, deleted) = (pods.created - before.created, pods.deleted - before.deleted);
        let kept = plan.bound == Bound::None || (created, deleted) == (0, 0);
        if !kept {
            self.failures.push(format!(
                "phase \"{}\": {created} pods were created and {deleted} removed, none was to be",
                plan.name
            ));
        }
        self.done.push(Phase {
            name: plan.name.clone(),
            seconds: (now.mono_ns - self.at.started_ns) as f64 / 1e9,
            pods_created: created,
            pods_deleted: deleted,
            converged: converged && kept,
        });
    }

    fn tasks_done(&self) -> bool {
        self.at.task >= self.plan[self.at.phase].tasks.len()
    }

    fn show(&mut self) {
        let tracker = &self.tracker;
        if self.tasks_done() && self.at.goal.is_none() {
            let wanted = tracker
                .parents
                .iter()
                .map(|parent| u64::from(parent.desired.max(0) as u32));
            let goal: u64 = wanted.sum();
            self.at.goal = Some(goal);
            self.position
                .total
                .store(goal.abs_diff(self.at.existing), Ordering::Relaxed);
        }
        let done = match self.at.goal {
            Some(goal) if goal < self.at.existing => {
                self.at.existing - tracker.existing().min(self.at.existing)
            }
            _ => tracker.ready().saturating_sub(self.at.ready),
        };
        self.position.done.store(done, Ordering::Relaxed);
        self.position
            .pods
            .store(tracker.existing(), Ordering::Relaxed);
    }
}

/// What a step of a task did.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Wrote,
    Skipped,
    /// Nothing is due before that moment, ns of the monotonic line.
    Wait(i64),
    Done,
}

impl Part for Driver {
    fn run(&mut self, now: Now) -> Next {
        if self.finished {
            return Next::Idle;
        }
        // What the scenario has written itself it must have heard of before it can be judged: so
        // a phase is never over in the run that did its last write.
        let tasks_done = self.tasks_done();
        let heard = self.listen(now);
        let done = if tasks_done {
            self.settle(now)
        } else {
            self.work(now)
        };
        if !self.finished {
            self.show();
        }
        heard.or(done)
    }
}
