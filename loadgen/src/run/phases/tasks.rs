//! The steps of a phase, performed one write at a time: the code for each step, and when each of
//! its actions is due.

use std::sync::Arc;

use podstorm_objects::{Kind, Now};

use super::driver::Driver;
use crate::scenario::load_shape::{LoadShape, Schedule};
use crate::scenario::{Amount, Phase as PhasePlan, Scale, Scenario, ScenarioStep, Which};

/// The maximum number of writes in one run of the driver's task.
pub(super) const WRITES_PER_RUN: u32 = 100;

/// The outcome of one action of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Wrote,
    Skipped,
    /// Nothing is due before this time, in ns of the monotonic clock.
    Wait(i64),
    /// The step is over.
    Done,
}

/// Returns a scenario's phases, with placeholders in names replaced and repeated steps expanded.
pub(super) fn plan(scenario: &Scenario, burst: u32) -> Arc<[PhasePlan]> {
    fn write_out(steps: &[ScenarioStep], all: &mut Vec<ScenarioStep>) {
        for step in steps {
            match step {
                ScenarioStep::Repeat(repeat) => {
                    for _ in 0..repeat.times.0 {
                        write_out(&repeat.steps, all);
                    }
                }
                step => all.push(step.clone()),
            }
        }
    }
    let phases = scenario.phases.iter().map(|phase| {
        let mut steps = Vec::new();
        write_out(&phase.steps, &mut steps);
        PhasePlan {
            name: phase.shown_name(burst),
            steps,
            ..phase.clone()
        }
    });
    phases.collect()
}

impl Driver {
    /// Performs one action of a step.
    pub(super) fn act(&mut self, step: &ScenarioStep, begun_ns: i64, now: Now) -> Action {
        let size = &self.settings.size;
        if self.shares.is_some()
            && matches!(
                step,
                ScenarioStep::Create(..)
                    | ScenarioStep::CreateNamespaces
                    | ScenarioStep::CreateOwnedPods
                    | ScenarioStep::WriteStatuses
            )
        {
            // The files contain the objects.
            return Action::Done;
        }
        match step {
            ScenarioStep::CreateNamespaces => {
                let count = size.namespaces;
                self.each(count, |driver, number| driver.create_namespace(number, now))
            }
            ScenarioStep::CreateNodes => {
                let count = size.nodes;
                self.each(count, |driver, number| driver.create_node(number, now))
            }
            ScenarioStep::LoadInput => self.load_input(now),
            ScenarioStep::SetImage(set) => {
                let set = *set;
                let count = self.how_many(set.of);
                self.each_due(
                    count,
                    set.load,
                    begun_ns,
                    now,
                    |driver, number| match driver.maker_of(number) {
                        Some(at) => driver.set_image(at, &set, None, now),
                        None => Action::Skipped,
                    },
                )
            }
            ScenarioStep::CreateOwnedPods => self.create_pods(true, now),
            ScenarioStep::CreateBarePods => self.create_pods(false, now),
            ScenarioStep::WriteStatuses => {
                let count = self.generated.len() as u64;
                self.each(count, |driver, number| driver.write_status(number, now))
            }
            ScenarioStep::StartController => self.start_controllers(now),
            ScenarioStep::Scale(scale) => {
                let scale = *scale;
                let count = self.how_many(scale.of);
                self.each_due(count, scale.load, begun_ns, now, |driver, number| {
                    driver.scale(number, count, &scale, now)
                })
            }
            ScenarioStep::Touch(some) => {
                let count = self.how_many(some.of);
                self.each_due(count, some.load, begun_ns, now, |driver, number| {
                    driver.touch(number, now)
                })
            }
            ScenarioStep::Recreate(some) => {
                let count = self.how_many(some.of);
                self.each_due(count, some.load, begun_ns, now, |driver, number| {
                    driver.recreate(number, now)
                })
            }
            ScenarioStep::RollOut(roll_out) => self.roll_out(*roll_out, begun_ns, now),
            ScenarioStep::Churn(churn) => self.churn(*churn, begun_ns, now),
            ScenarioStep::DeletePods(pods) => {
                self.at_random(*pods, begun_ns, now, Driver::delete_one)
            }
            ScenarioStep::DeleteUnreadyPods => self.delete_unready(now),
            ScenarioStep::RelabelPods(pods) => {
                self.at_random(*pods, begun_ns, now, Driver::relabel_one)
            }
            ScenarioStep::StopNodes(some) => self.stop_nodes(*some),
            ScenarioStep::RestoreNodes => self.restore_nodes(),
            ScenarioStep::DeleteNodes(some) => self.delete_nodes(*some, now),
            ScenarioStep::DrainNodes(some) => self.drain_nodes(*some, now),
            ScenarioStep::CreateBudgets(budgets) => {
                let count = self.tracker.owners.len() as u64;
                let most = budgets.max_unavailable;
                self.each(count, |driver, number| {
                    driver.create_budget(number, most, now)
                })
            }
            ScenarioStep::RejectPods(some) => self.reject_pods(*some),
            ScenarioStep::AcceptPods => self.accept_pods(),
            ScenarioStep::SetPodQuota(quota) => self.set_pod_quota(Some(quota.per_namespace), now),
            ScenarioStep::RemovePodQuota => self.set_pod_quota(None, now),
            ScenarioStep::DeleteNamespaces(some) => self.delete_namespaces(some.namespaces, now),
            ScenarioStep::Wait(time) => {
                let end_ns = begun_ns.saturating_add(time.0);
                if now.mono_ns < end_ns {
                    Action::Wait(end_ns)
                } else {
                    Action::Done
                }
            }
            ScenarioStep::StallWatch(stream) => self.stall_watch(*stream),
            ScenarioStep::ReleaseWatch(stream) => self.release_watch(*stream),
            ScenarioStep::RelistWatch(stream) => self.relist_watch(*stream),
            ScenarioStep::LosePodEvents(some) => {
                let events = some.events.of_any(size.pods);
                self.lose_pod_events(events)
            }
            ScenarioStep::LoseAnswers(lose) => self.lose_answers(*lose),
            ScenarioStep::Create(kind, create) => {
                let (first, all) = size.numbers_of(*kind);
                let count = create.of.resolve(all);
                self.each_due(count, create.load, begun_ns, now, |driver, number| {
                    let share = driver.share(first + number);
                    let replicas = driver.amount(create.replicas, share, number, count);
                    driver.create(first + number, replicas, *kind, create, now)
                })
            }
            ScenarioStep::Repeat(_) => unreachable!("repeated steps are expanded in a plan"),
        }
    }

    /// Returns the number of workloads that a step selects.
    fn how_many(&self, of: Which) -> u64 {
        of.resolve(match self.rollouts.generated {
            true => self.rollouts.count() as u64,
            false => self.generated.len() as u64,
        })
    }

    /// Performs the next of `count` actions, or ends the step.
    fn each(&mut self, count: u64, one: impl FnOnce(&mut Driver, u64) -> Action) -> Action {
        if self.at.cursor >= count {
            return Action::Done;
        }
        let number = self.at.cursor;
        self.at.cursor += 1;
        one(self, number)
    }

    /// Performs the next of `count` actions if it is due, or ends the step.
    pub(super) fn each_due(
        &mut self,
        count: u64,
        load: Option<LoadShape>,
        begun_ns: i64,
        now: Now,
        one: impl FnOnce(&mut Driver, u64) -> Action,
    ) -> Action {
        if self.at.cursor >= count {
            return Action::Done;
        }
        if let Some(shape) = load {
            let due_ns = self.due_ns(shape, count, begun_ns, now);
            if due_ns > now.mono_ns {
                return Action::Wait(due_ns);
            }
            self.at.due_ns = None;
        }
        self.each(count, one)
    }

    /// Returns when the next action is due, ns.
    fn due_ns(&mut self, shape: LoadShape, count: u64, begun_ns: i64, now: Now) -> i64 {
        if let Some(due_ns) = self.at.due_ns {
            return due_ns;
        }
        let pods = self.settings.size.pods;
        let schedule = &mut self.at.schedule;
        let schedule = schedule.get_or_insert_with(|| Schedule::new(shape, begun_ns, count, pods));
        let due_ns = schedule.next_ns(now.mono_ns, &mut self.budgets, &mut self.random);
        self.at.due_ns = Some(due_ns);
        due_ns
    }

    /// Returns the value of an action's outcome. Records an error as a failure of the run, and
    /// returns `None`.
    pub(super) fn note<T, E: std::fmt::Display>(
        &mut self,
        doing: &str,
        kind: Kind,
        outcome: Result<T, E>,
    ) -> Option<T> {
        outcome
            .map_err(|error| {
                // The first few errors are enough.
                if self.failures.len() < 10 {
                    let kind = kind.name();
                    self.failures.push(format!("{doing} a {kind}: {error}"));
                }
            })
            .ok()
    }

    /// Returns how many pods a step gives to workload `number` of its `count`, with this share.
    fn amount(&mut self, amount: Amount, share: i32, number: u64, count: u64) -> i32 {
        let burst = self.settings.burst_pods;
        amount.resolve(number, count, share, burst, &mut self.random)
    }

    /// Sets the desired number of pods of a workload; skips a workload that already has this
    /// number.
    fn scale(&mut self, number: u64, count: u64, scale: &Scale, now: Now) -> Action {
        let replicas = self.amount(scale.replicas, self.share(number), number, count);
        if let Some(at) = self.maker_of(number) {
            return self.scale_maker(at, replicas, now);
        }
        let Some(&at) = self.generated.get(number as usize) else {
            return Action::Skipped;
        };
        self.scale_owner(at, replicas, now)
    }

    /// Sets the desired number of pods of a workload, given by its number in the tracker.
    pub(super) fn scale_owner(&mut self, at: usize, replicas: i32, now: Now) -> Action {
        let owner = &self.tracker.owners[at];
        if owner.desired == replicas || owner.gone {
            return Action::Skipped;
        }
        let workload = owner.workload;
        let (namespace, name) = (&owner.namespace, &owner.name);
        let scaled = workload.scale(&self.cluster, namespace, name, replicas, now);
        if let Some(scaled) = self.note("scaling", workload.kind(), scaled) {
            self.tracker.asked(workload, &scaled, replicas, now);
        }
        Action::Wrote
    }
}
