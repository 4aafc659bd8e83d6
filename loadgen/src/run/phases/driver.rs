//! The scenario driver: performs the tasks of a phase in small portions, waits for the phase's
//! condition, checks the store, records the result of the phase, and continues with the next phase.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm_apiserver::{Cluster, PodTotals};
use podstorm_objects::{Namespace, Now, Pod, Str};
use podstorm_sim::executor::seed::seed_for;
use podstorm_sim::executor::stream::ObjectStream;
use podstorm_sim::executor::{Executor, Next, Task, Waker};
use podstorm_sim::nodes::StuckPods;

use super::aborts::Aborts;
use super::audit::{audit, audit_pods, audits_pods};
use super::drain::Drain;
use super::exchange::{Controllers, Position, Report};
use super::finishing::Finishing;
use super::heard::Heard;
use super::load::Loader;
use super::roll_out::Pair;
use super::rollouts::{Rollouts, Standing};
use super::tasks::{Action, WRITES_PER_RUN, plan};
use super::tracker::Tracker;
use crate::input::InputObject;
use crate::result::{IncompleteRollouts, Phase};
use crate::scenario::load_shape::{Schedule, SharedBudgets};
use crate::scenario::{Phase as PhasePlan, Until};
use crate::settings::Settings;
use crate::units::counted;
use crate::workloads::objects::Objects;

/// Time between two checks whether the controllers are at rest, ns.
const REST_CHECK_NS: i64 = 1_000_000;

/// Performs the phases of a scenario.
pub(crate) struct Driver {
    pub(super) settings: Settings,
    pub(super) cluster: Arc<Cluster>,
    pub(super) executor: Arc<Executor>,
    pub(super) controllers: Controllers,
    pub(super) pods: ObjectStream<Pod>,
    /// The watches of the run's workloads, owners of pods first.
    heard: Vec<Heard>,
    pub(super) tracker: Tracker,
    pub(super) rollouts: Rollouts,
    pub(super) finishing: Finishing,
    pub(super) objects: Objects,
    pub(super) loader: Loader,
    /// The tracker's numbers of the scenario's owners of pods, whether generated or from files.
    pub(super) generated: Vec<usize>,
    /// The number of successors that each of these owners has had.
    pub(super) revisions: Vec<u32>,
    /// For owners from files: the pods of each at 100 %. `None` if the cluster is generated.
    pub(super) shares: Option<Vec<i32>>,
    /// The names of the existing nodes. The next two fields have those of stopped nodes and of
    /// nodes that reject pods.
    pub(super) nodes: Vec<Str>,
    pub(super) silent: Vec<Str>,
    pub(super) rejecting: Vec<Str>,
    pub(super) budgets: SharedBudgets,
    pub(super) aborts: Aborts,
    pub(super) plan: Arc<[PhasePlan]>,
    pub(super) at: PhaseProgress,
    pub(super) position: Arc<Position>,
    pub(super) random: fastrand::Rng,
    pub(super) done: Vec<Phase>,
    pub(super) failures: Vec<String>,
    pub(super) violations: Vec<String>,
    pub(super) finished: bool,
}

/// The current position in the plan, and the state at the beginning of the phase.
#[derive(Debug, Default)]
pub(super) struct PhaseProgress {
    pub(super) phase: usize,
    pub(super) task: usize,
    /// The number of the task's actions that are done.
    pub(super) cursor: u64,
    /// The position within the item that `cursor` points to, such as the next pod of an owner.
    pub(super) inner: i32,
    pub(super) started_ns: i64,
    /// When the task began, ns; `None` before its first action.
    pub(super) task_started_ns: Option<i64>,
    /// When the task's actions are due. The next field is when the next action is, ns.
    pub(super) schedule: Option<Schedule>,
    pub(super) due_ns: Option<i64>,
    /// How many pods the task deletes or removes; `None` if this is not known when it begins.
    pub(super) count: Option<u64>,
    /// The value of `count` for the last task of the phase that had one.
    pub(super) counted: Option<u64>,
    /// The rollouts in progress, each a workload and its successor. The next field is when to check
    /// them again, ns.
    pub(super) pairs: Vec<Pair>,
    pub(super) look_ns: i64,
    /// The names that the task has not processed yet; the next one is the last.
    pub(super) names: Option<Vec<Str>>,
    /// The pods that the task has not processed yet; the next one is the last.
    pub(super) unready: Option<Vec<Arc<Pod>>>,
    pub(super) drain: Drain,
    pub(super) pods: PodTotals,
    pub(super) existing: u64,
    pub(super) ready: u64,
    /// The number of active pods that were not ready but could become ready, at the beginning.
    pub(super) waiting: u64,
    /// The numbers of missing pods and of surplus pods of all owners, at the beginning.
    pub(super) missing_and_spare: (u64, u64),
    /// Whether the phase loads files. The next field says whether all their objects were written
    /// and observed.
    pub(super) loads: bool,
    pub(super) all_written: bool,
    /// The desired pods of all owners; `None` until the tasks are done.
    pub(super) goal: Option<u64>,
    /// The number of excess pods before the phase.
    pub(super) excess: u64,
    /// The number of created pods when it last changed, and the time of this change, ns.
    pub(super) last_create: Option<(u64, i64)>,
    /// Whether an audit has failed and no event has arrived since then.
    pub(super) doubted: bool,
}

impl Driver {
    /// Creates the driver for the settings' scenario. `waker` wakes the task that runs the driver.
    pub(crate) fn new(
        settings: &Settings,
        objects: Vec<InputObject>,
        cluster: Arc<Cluster>,
        executor: Arc<Executor>,
        stuck: Option<Arc<StuckPods>>,
        controllers: Controllers,
        waker: Waker,
    ) -> Driver {
        let mut heard: Vec<Heard> = settings
            .workloads_of(&objects)
            .map(|workload| Heard::new(workload, Arc::clone(&cluster), Arc::clone(&waker)))
            .collect();
        heard.sort_by_key(|heard| heard.workload.pods().is_none());
        let scenario = &settings.scenario;
        let set_up = scenario.phases.iter().map(|phase| phase.set_up).collect();
        let times = Arc::clone(&controllers.times);
        let rollouts = Rollouts::new(Arc::clone(&times));
        let finishing = Finishing::new(Arc::clone(&times));
        let mut tracker = Tracker::new(scenario.picks_pods(), set_up, times, stuck);
        let has_files = !objects.is_empty();
        if has_files {
            tracker.expect_files();
        }
        // Files contain a complete cluster, so its controllers start when all of it is loaded.
        // Otherwise they run from the start.
        tracker.controller_runs = !has_files && !scenario.starts_controllers();
        controllers
            .started
            .store(tracker.controller_runs, Ordering::Release);
        Driver {
            pods: ObjectStream::new(Arc::clone(&cluster), waker),
            heard,
            cluster,
            executor,
            controllers,
            tracker,
            rollouts,
            finishing,
            objects: settings.objects(),
            shares: has_files.then(Vec::new),
            loader: Loader::new(objects),
            generated: Vec::new(),
            revisions: Vec::new(),
            nodes: Vec::new(),
            silent: Vec::new(),
            rejecting: Vec::new(),
            budgets: SharedBudgets::default(),
            aborts: Aborts::new(scenario),
            plan: plan(scenario, settings.burst_pods),
            at: PhaseProgress::default(),
            position: Arc::default(),
            random: fastrand::Rng::with_seed(seed_for(settings.seed, "scenario", 0)),
            done: Vec::new(),
            failures: Vec::new(),
            violations: Vec::new(),
            finished: false,
            settings: settings.clone(),
        }
    }

    /// Returns the names of the phases.
    pub(crate) fn phase_names(&self) -> Vec<String> {
        self.plan.iter().map(|phase| phase.name.clone()).collect()
    }

    /// Sets a function to call whenever a phase other than the first begins.
    pub(crate) fn tell_phases(&mut self, told: Box<dyn Fn(Now) + Send>) {
        self.controllers.phase_begins = Some(told);
    }

    /// Returns the position in the scenario, for readers.
    pub(crate) fn position(&self) -> Arc<Position> {
        Arc::clone(&self.position)
    }

    /// Returns the results up to `now`. An unfinished phase is recorded in its current state.
    pub(crate) fn report(&mut self, now: Now) -> Report {
        if !self.finished && self.at.phase < self.plan.len() {
            self.failures.extend(self.what_is_missing());
            self.write_down(false, now);
        }
        if self.loader.refused_count > 0 {
            self.failures.push(format!(
                "the server refused {}: {}",
                counted(self.loader.refused_count, "object"),
                self.loader.refused.join("; ")
            ));
        }
        let phases = std::mem::take(&mut self.done);
        Report {
            converged: self.finished && self.failures.is_empty() && self.violations.is_empty(),
            failures: std::mem::take(&mut self.failures),
            violations: std::mem::take(&mut self.violations),
            excess: self.tracker.excess,
            surplus: self.tracker.surplus,
            still_not_ready: self.tracker.never_ready,
            incomplete_rollouts: match self.shares {
                Some(_) => self.rollouts.incomplete(&self.tracker),
                None => IncompleteRollouts::default(),
            },
            convergence: self.tracker.convergence.clone(),
            rollouts: self.rollouts.took.clone(),
            finished: self.finishing.finished(),
            finishes: self.finishing.took.clone(),
            pod_ready: self.tracker.pod_ready.clone(),
            slowest: self.tracker.slowest(&phases, now),
            phases,
        }
    }

    /// Processes events. Returns whether there were any, and when to poll again.
    fn listen(&mut self, now: Now) -> Next {
        // Poll the owners first: then no pod event before theirs can be missing once the pods are
        // polled.
        let owners = self
            .heard
            .partition_point(|it| it.workload.pods().is_some());
        let has_finishing = (self.heard.iter()).any(|it| it.workload.finishes().is_some());
        let mut next = self.hear_workloads(0..owners, now);
        let (tracker, doubted) = (&mut self.tracker, &mut self.at.doubted);
        let finishing = &mut self.finishing;
        next = next.or(self.pods.poll(now, |item| {
            *doubted = false;
            if has_finishing {
                finishing.pods_created += u64::from(tracker.is_new_of_finishing(&item));
                finishing.pod_item(&item);
            }
            tracker.pod_item(item, now);
        }));
        if self.pods.is_drained() {
            tracker.all_seen(now);
        }
        next.or(self.hear_workloads(owners..self.heard.len(), now))
    }

    /// Processes the events of some workloads. Returns when to poll again.
    fn hear_workloads(&mut self, which: Range<usize>, now: Now) -> Next {
        let (tracker, rollouts) = (&mut self.tracker, &mut self.rollouts);
        let finishing = &mut self.finishing;
        let mut next = Next::Idle;
        for heard in &mut self.heard[which] {
            let workload = heard.workload;
            next = next.or(heard.poll(now, |object, gone| {
                self.at.doubted = false;
                tracker.owner_item(workload, object, gone);
                finishing.seen(workload, object, gone, tracker.is_loading(), now);
                match workload.rollouts() {
                    Some(_) if gone => rollouts.gone(workload, object.metadata()),
                    Some(_) => rollouts.seen(workload, object, tracker.is_loading(), now),
                    None => {}
                }
            }));
        }
        next
    }

    /// Reports whether the last poll of every stream has taken all its events.
    pub(super) fn watches_drained(&self) -> bool {
        self.pods.is_drained() && self.heard.iter().all(Heard::is_drained)
    }

    /// Performs up to [`WRITES_PER_RUN`] writes of the phase's tasks.
    fn work(&mut self, now: Now) -> Next {
        let plan = Arc::clone(&self.plan);
        let mut left = WRITES_PER_RUN;
        while left > 0 {
            let Some(step) = plan[self.at.phase].steps.get(self.at.task) else {
                break;
            };
            let begun_ns = *self.at.task_started_ns.get_or_insert(now.mono_ns);
            match self.act(step, begun_ns, now) {
                Action::Done => {
                    self.at.task += 1;
                    self.at.cursor = 0;
                    self.at.inner = 0;
                    self.at.task_started_ns = None;
                    self.at.schedule = None;
                    self.at.due_ns = None;
                    self.at.count = None;
                    self.at.look_ns = 0;
                }
                Action::Wait(at_ns) => return Next::At(at_ns),
                Action::Skipped => {}
                Action::Wrote => left -= 1,
            }
        }
        Next::Again
    }

    /// Reports whether the controllers have seen everything and have nothing queued; always true if
    /// the current phase does not depend on it. Call this before polling, so that the poll sees all
    /// writes of the controllers.
    fn rests(&self) -> bool {
        let syncs = match self.plan[self.at.phase].until {
            Until::Synced => self.tracker.owners.len() as u64,
            _ if self.shares.is_some() => 0,
            Until::Converged | Until::Running
                if self.heard.iter().any(|it| audits_pods(it.workload)) =>
            {
                0
            }
            _ => return true,
        };
        let retries = || self.shares.is_some() && (self.controllers.retries)();
        (self.controllers.rests_after)(syncs) && !retries()
    }

    /// Checks whether the phase is over, once its tasks are done. `at_rest` says that nothing will
    /// happen by itself any more, `rests` that [the controllers rest](Driver::rests).
    fn settle(&mut self, at_rest: bool, rests: bool, now: Now) -> Next {
        let until = self.plan[self.at.phase].until;
        let standing = |failed| self.rollouts.standing(failed, &self.tracker);
        let (mut has_stuck, is_replaced) = (false, self.tracker.is_replaced());
        // Rollouts count as stuck only if every owner has its desired pods.
        let mut are_over = |failed| match standing(failed) {
            Standing::Over => true,
            Standing::Stuck => {
                has_stuck = is_replaced;
                is_replaced
            }
            Standing::UnderWay => false,
        };
        let met = match until {
            _ if at_rest && self.cannot_improve(until) => true,
            Until::Converged | Until::Synced => {
                self.tracker.is_converged() && self.finishing.is_over() && are_over(false)
            }
            Until::Running => {
                self.tracker.is_converged() && self.finishing.runs() && are_over(false)
            }
            Until::Replaced => is_replaced && self.finishing.is_over() && are_over(false),
            Until::RolledOut => are_over(true),
            Until::Done => true,
            Until::PodsReady => self.tracker.are_ready(self.settings.size.pods),
            Until::Quiet => match self.quiet_from(now) {
                Some(at_ns) if at_ns > now.mono_ns => return Next::At(at_ns),
                _ => true,
            },
        };
        // Objects from files may look correct before the controllers have seen them.
        let must_rest = match until {
            Until::Synced => true,
            Until::Converged | Until::Running if self.at.loads => self.tracker.controller_runs,
            // The statuses of these workloads describe individual pods.
            Until::Converged | Until::Running => {
                self.heard.iter().any(|it| audits_pods(it.workload))
            }
            // A pending sync may still change the state of the stuck rollouts.
            _ => has_stuck,
        };
        if met && !at_rest && must_rest && !rests {
            return Next::At(now.mono_ns.saturating_add(REST_CHECK_NS));
        }
        let (plan, tracker) = (&self.plan[self.at.phase], &self.tracker);
        if !met || !self.watches_drained() {
            return Next::Idle;
        }
        if matches!(
            plan.until,
            Until::Converged | Until::Synced | Until::Running
        ) && (self.shares.is_none() || tracker.controller_runs)
            && let Err(problem) = audit(&self.cluster, |meta| {
                match at_rest && self.is_closing(&meta.namespace) {
                    true => None,
                    false => Some(tracker.may_be_unready(&meta.uid, at_rest)),
                }
            })
            .and_then(|()| self.rollouts.audit(&self.cluster))
            .and_then(|()| audit_pods(&self.cluster))
            .and_then(|()| self.finishing.audit(&self.cluster))
        {
            // Either something has just changed and the watches will report it, or the store
            // contradicts the watches. Wait once for events to find out.
            if !self.at.doubted {
                self.at.doubted = true;
                return Next::Again;
            }
            self.violations
                .push(format!("phase \"{}\": {problem}", plan.name));
            self.write_down(false, now);
            self.finished = true;
            self.executor.stop();
            return Next::Idle;
        }
        // A controller that has not seen the existing pods yet creates additional ones. That is
        // acceptable if the scenario disturbs the watches, but not if the machine is too slow.
        if self.tracker.controller_runs
            && self.controllers.connection.is_none()
            && let Some(next) = self.plan.get(self.at.phase + 1)
            && next.no_pod_written
            && ((self.controllers.pods_cached)() as u64) < self.tracker.existing()
        {
            return Next::At(now.mono_ns.saturating_add(REST_CHECK_NS));
        }
        self.write_down(true, now);
        self.begin_phase(self.at.phase + 1, now);
        if self.at.phase == self.plan.len() {
            self.finished = true;
            self.executor.stop();
            return Next::Idle;
        }
        Next::Again
    }

    /// Called when nothing changes any more. Returns whether the phase can't come closer to its
    /// condition because of the initial state of pods from files, and of nothing else.
    fn cannot_improve(&self, until: Until) -> bool {
        if self.shares.is_none() {
            return false;
        }
        let tracker = &self.tracker;
        if !tracker.controller_runs {
            return true;
        }
        let no_worse = tracker.waiting_pods() <= self.at.waiting.min(tracker.came_waiting);
        let are_over = |failed| self.rollouts.standing(failed, tracker) != Standing::UnderWay;
        no_worse
            && match until {
                Until::Converged | Until::Synced | Until::Replaced | Until::Running => {
                    let lingering = until == Until::Replaced;
                    are_over(false)
                        && (until == Until::Running || self.finishing.is_over())
                        && tracker
                            .is_exact_but_for_readiness(lingering, |name| self.is_closing(name))
                }
                Until::PodsReady => tracker.ready + tracker.unready >= self.settings.size.pods,
                Until::RolledOut => are_over(true),
                Until::Quiet | Until::Done => false,
            }
    }

    /// Reports whether a namespace is being deleted. It may stay in this state if something holds
    /// one of its pods.
    fn is_closing(&self, namespace: &str) -> bool {
        let found = self.cluster.get::<Namespace>("", namespace);
        found.is_ok_and(|found| found.terminating)
    }

    /// Called when nothing will happen by itself any more. Returns whether this ends the phase, so
    /// that the scenario continues. The driver's task must then be woken.
    pub(crate) fn nothing_left(&mut self, now: Now) -> bool {
        if self.finished || !self.tasks_done() {
            return false;
        }
        let phase = self.at.phase;
        self.settle(true, true, now);
        self.show();
        self.finished || self.at.phase != phase
    }

    fn tasks_done(&self) -> bool {
        self.at.task >= self.plan[self.at.phase].steps.len()
    }

    pub(super) fn show(&mut self) {
        let tracker = &self.tracker;
        let position = &self.position;
        position.pods.store(tracker.existing(), Ordering::Relaxed);
        position.ready.store(tracker.ready, Ordering::Relaxed);
        let desired = tracker.desired + self.finishing.desired;
        position.desired.store(desired, Ordering::Relaxed);
        if let Some(count) = self.at.count {
            self.at.counted = Some(count);
            position.total.store(count, Ordering::Relaxed);
            let done = self.at.cursor.min(count);
            return position.done.store(done, Ordering::Relaxed);
        }
        if tracker.desired == 0
            && let Some((done, total)) = self.finishing.progress()
        {
            position.total.store(total, Ordering::Relaxed);
            return position.done.store(done, Ordering::Relaxed);
        }
        if !self.finished && self.tasks_done() && self.at.goal.is_none() {
            let goal = tracker.desired;
            self.at.goal = Some(goal);
            self.position
                .total
                .store(goal.abs_diff(self.at.existing), Ordering::Relaxed);
        }
        // The desired number of pods is unchanged, so only the deleted pods show progress.
        if let Some(count) = self.at.counted
            && self.at.goal.is_none_or(|goal| goal == self.at.existing)
        {
            self.position.total.store(count, Ordering::Relaxed);
            return self.position.done.store(count, Ordering::Relaxed);
        }
        let done = match self.at.goal {
            Some(goal) if goal < self.at.existing => {
                self.at.existing - tracker.existing().min(self.at.existing)
            }
            _ => tracker.ready.saturating_sub(self.at.ready),
        };
        self.position.done.store(done, Ordering::Relaxed);
    }
}

impl Task for Driver {
    fn run(&mut self, now: Now) -> Next {
        if self.finished {
            return Next::Idle;
        }
        // The driver must have observed its own writes before it judges them, so a phase never ends
        // in the same run as its last write.
        let tasks_done = self.tasks_done();
        let rests = tasks_done && self.rests();
        let heard = self.listen(now);
        if let Some(reason) = self.broken_threshold(now) {
            self.failures.push(reason);
            self.write_down(false, now);
            self.finished = true;
            self.executor.stop();
            return Next::Idle;
        }
        let done = if tasks_done {
            self.settle(false, rests, now)
        } else {
            self.work(now)
        };
        // Also after the last phase, for later readers.
        self.show();
        heard.or(done)
    }
}
