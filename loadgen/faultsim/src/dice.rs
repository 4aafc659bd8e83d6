//! The draws that all schedules share. Seeds keep their meaning only as long as the order of the
//! draws and the width of each draw stay the same.

use std::ops::Range;

use fastrand::Rng;
use podstorm_sim::executor::seed::seed_for;
use podstorm_sim::faults::{ApiFault, Call, Effect, FaultClass, StreamEnd, StreamKind};

use crate::action::{Action, Death, Dependents};
use crate::plan::PlannedCluster;

/// The rates of faults of a class, per simulated minute.
const RATES: Range<f64> = 0.1..12.0;

/// The rates of user actions, per simulated minute.
const USER_RATES: Range<f64> = 0.5..12.0;

/// The probabilities with which the schedules of a workload are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Odds {
    /// The name of the workload's random stream.
    pub stream: &'static str,
    /// The percentage of seeds without faults.
    pub without_faults: u32,
    /// The percentage of seeds with a single class of faults.
    pub of_one_class: u32,
    /// The average number of classes in the other seeds.
    pub classes: usize,
    /// The maximum number of steps of one class in a schedule.
    pub steps_max: usize,
    /// The calls that fail or are slow, weighted by repetition. One time in four, all writes are
    /// selected instead.
    pub calls: &'static [Call],
    /// The writes whose outcome may be unknown.
    pub writes: &'static [Call],
    /// The writes that a lower layer may resend.
    pub resent: &'static [Call],
}

/// The random numbers of one schedule.
#[derive(Debug)]
pub struct Dice {
    pub(crate) random: Rng,
    /// The maximum number of steps of one class in the schedule.
    steps_max: usize,
}

impl Dice {
    /// Returns the dice of a seed for the random stream `schedules`, with at most `steps_max` steps
    /// of one class.
    pub(crate) fn new(seed: u64, schedules: &str, steps_max: usize) -> Dice {
        Dice {
            random: Rng::with_seed(seed_for(seed, schedules, 0)),
            steps_max,
        }
    }

    /// Returns one of the values, with equal probability.
    ///
    /// # Panics
    /// Panics if there are no values.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.random.usize(..of.len())].clone()
    }

    /// Returns a number below `end`.
    ///
    /// # Panics
    /// Panics if `end` is 0.
    pub fn below(&mut self, end: u32) -> u32 {
        self.random.u32(..end)
    }

    /// Returns a number in the range with a uniformly distributed logarithm.
    fn rate(&mut self, range: Range<f64>) -> f64 {
        range.start * (range.end / range.start).powf(self.random.f64())
    }

    /// Returns an integer between `low` and `high`, inclusive, with a uniformly distributed
    /// logarithm.
    pub fn magnitude(&mut self, low: u32, high: u32) -> u32 {
        let drawn = self.rate(f64::from(low.max(1))..f64::from(high));
        (drawn as u32).clamp(low, high)
    }

    /// Returns times up to `end_ms` with the given average rate per minute, in order, ms.
    fn times(&mut self, per_minute: f64, end_ms: u32) -> Vec<u32> {
        let count = per_minute * f64::from(end_ms) / 60_000.0;
        // The fraction of an event becomes one event in that fraction of seeds.
        let whole = count as usize + usize::from(self.random.f64() < count.fract());
        let mut times: Vec<u32> = (0..whole.min(self.steps_max))
            .map(|_| self.random.u32(0..=end_ms))
            .collect();
        times.sort_unstable();
        times
    }

    /// Returns the times of user actions, in order, ms.
    pub(crate) fn user_times(&mut self, end_ms: u32) -> Vec<u32> {
        let rate = self.rate(USER_RATES);
        self.times(rate, end_ms)
    }

    /// Returns the times of the faults of a class, in order, ms. With `high`, their rate is the
    /// maximum.
    pub(crate) fn fault_times(&mut self, high: bool, end_ms: u32) -> Vec<u32> {
        let rate = if high { RATES.end } else { self.rate(RATES) };
        self.times(rate, end_ms)
    }

    /// Returns the fault classes of a seed (`wanted` if there are any), and whether their faults
    /// occur at the maximum rate.
    pub(crate) fn classes(
        &mut self,
        wanted: &[FaultClass],
        odds: &Odds,
    ) -> (Vec<FaultClass>, bool) {
        if !wanted.is_empty() {
            return (wanted.to_vec(), false);
        }
        let kind = self.below(100);
        if kind < odds.without_faults {
            return (Vec::new(), false);
        }
        let all = FaultClass::ALL;
        if kind < odds.without_faults + odds.of_one_class {
            return (vec![self.one(&all)], true);
        }
        let is_chosen = |_: &FaultClass| self.random.usize(..all.len()) < odds.classes;
        (all.into_iter().filter(is_chosen).collect(), false)
    }

    /// Draws the initial cluster.
    pub(crate) fn cluster(
        &mut self,
        burst_replicas: impl FnOnce(&mut Dice) -> u32,
    ) -> PlannedCluster {
        PlannedCluster {
            nodes: self.random.u32(1..=4),
            workers: self.one(&[1, 2, 5]),
            burst_replicas: burst_replicas(self),
            stale_controller_consistency: self.below(4) > 0,
            watch_list_client: self.below(4) > 0,
            feature_gates: Vec::new(),
            api_ms: self.one(&[1, 10, 100]),
            watch_ms: self.one(&[1, 10, 300]),
            startup_ms: self.one(&[10, 2_000]),
            termination_ms: self.one(&[10, 2_000]),
        }
    }

    /// Draws the end of some pods of an owner.
    pub(crate) fn kill(&mut self, owner: String, percents: &[u32]) -> Action {
        Action::Kill {
            owner,
            percent: self.one(percents),
            how: self.one(&Death::ALL),
        }
    }

    /// Draws the deletion of an object, and the creation of another under its name.
    pub(crate) fn recreated<A>(
        &mut self,
        name: String,
        delete: fn(String, Dependents) -> A,
        create: fn(String) -> A,
    ) -> Vec<(u32, A)> {
        let propagation = self.one(&Dependents::DRAWN);
        let gap_ms = self.one(&[0, 1, 10, 1_000, 30_000]);
        vec![
            (0, delete(name.clone(), propagation)),
            (gap_ms, create(name)),
        ]
    }

    /// Draws a fault that hits the next requests of these kinds, at most `most_times`.
    pub(crate) fn requests(&mut self, calls: &[Call], effect: Effect, most_times: u32) -> Action {
        Action::Requests {
            calls: calls.to_vec(),
            owner: None,
            batch: None,
            index: None,
            effect,
            times: self.magnitude(1, most_times),
            within_ms: 120_000,
        }
    }

    /// Draws an effect that leaves the outcome of a write unknown.
    pub(crate) fn ambiguous(&mut self) -> Effect {
        let all = ApiFault::ALL.into_iter();
        let ambiguous: Vec<ApiFault> = all.filter(|fault| fault.is_ambiguous()).collect();
        let answer = self.one(&ambiguous);
        match self.below(4) {
            0 => Effect::CommitLate {
                answer,
                after_ms: self.magnitude(1, 20_000),
            },
            1 => Effect::NeverArrives { after_ms: 30_000 },
            _ => Effect::LoseAnswer(answer),
        }
    }

    /// Draws the end of a watch, or the failure of its next attempts with one of these answers.
    pub(crate) fn watch_ends(&mut self, stream: StreamKind, answers: &[ApiFault]) -> Action {
        match self.below(3) {
            0 => Action::Compact { stream },
            1 => Action::EndWatch {
                stream,
                end: self.one(&[
                    StreamEnd::Closed,
                    StreamEnd::Expired,
                    StreamEnd::InternalError,
                    StreamEnd::ClosedAndExpired,
                ]),
            },
            _ => Action::RefuseWatch {
                stream,
                fault: self.one(answers),
                times: 1 + self.below(4),
            },
        }
    }
}
