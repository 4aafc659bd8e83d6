//! Load shapes: they determine when the actions of a step are due. The shapes are those of
//! Kubernetes' own load tests, under their names in ClusterLoader2. Without a load shape, actions
//! run as fast as possible.
//!
//! Due times count from the beginning of the step, never from the previous action. Late actions
//! catch up, so a slow controller does not get a lighter load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::NS_PER_SECOND;
use crate::values::{Rate, Size, Time};

/// When the actions of a step are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum LoadShape {
    /// Actions at an even rate, separately for each step.
    QpsLoad {
        /// Actions per second, more than 0.
        qps: Positive,
    },
    /// Like `qpsLoad`, but all steps with the same numbers share a budget: a step may immediately
    /// use up to `burst` actions that earlier steps have not used.
    #[serde(rename = "globalQPSLoad")]
    GlobalQpsLoad {
        /// Actions per second, more than 0.
        qps: Positive,
        /// The maximum number of unused actions that are kept, at least 1.
        burst: Size,
    },
    /// Bursts of actions, with pauses in between.
    #[serde(rename_all = "camelCase")]
    SteppedLoad {
        /// Actions per burst.
        burst_size: Size,
        /// Time from one burst to the next.
        step_delay: Time,
    },
    /// Each action is due at a uniformly random time within a limit.
    RandomizedTimeLimitedLoad(TimeLimit),
    /// A Poisson process: exponentially distributed pauses.
    #[serde(rename_all = "camelCase")]
    PoissonLoad {
        /// Mean actions per second, more than 0.
        expected_actions_per_second: Positive,
    },
}

/// The time within which all actions are due.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum TimeLimit {
    /// A fixed time.
    Time {
        /// The latest time at which the last action is due.
        time_limit: Time,
    },
    /// The time that the cluster's pods at 100 % take at this rate, which is how ClusterLoader2
    /// computes its limit.
    Pods {
        /// Pods per second, more than 0.
        pods_per_second: Positive,
    },
}

impl TimeLimit {
    fn ns(self, pods: u64) -> i64 {
        match self {
            TimeLimit::Time { time_limit } => time_limit.0,
            TimeLimit::Pods { pods_per_second } => {
                (pods as f64 / pods_per_second.0 * NS_PER_SECOND as f64) as i64
            }
        }
    }
}

/// A number greater than zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
#[schemars(extend("exclusiveMinimum" = 0))]
pub struct Positive(pub f64);

impl TryFrom<f64> for Positive {
    type Error = String;
    fn try_from(value: f64) -> Result<Positive, String> {
        if value.is_finite() && value > 0.0 && value <= 1e9 {
            Ok(Positive(value))
        } else {
            Err(format!(
                "{value}: expected a number greater than 0, at most a billion"
            ))
        }
    }
}

impl From<Positive> for f64 {
    fn from(value: Positive) -> f64 {
        value.0
    }
}

impl From<Rate> for LoadShape {
    fn from(rate: Rate) -> LoadShape {
        LoadShape::QpsLoad {
            qps: Positive(rate.0),
        }
    }
}

/// The budgets that the steps of a run share.
#[derive(Debug, Default)]
pub(crate) struct SharedBudgets {
    /// Each budget, and when it would be full again, ns.
    budgets: Vec<(Budget, i64)>,
}

/// A budget, which its numbers identify.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Budget {
    /// Actions per second.
    qps: f64,
    burst: u64,
}

/// The due times of the actions of one step, in sequence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    shape: LoadShape,
    begun_ns: i64,
    /// The number of actions, for shapes that distribute a known number.
    actions: u64,
    /// The number of the cluster's pods at 100 %.
    pods: u64,
    /// The number of due times that were returned so far.
    asked: u64,
    /// The last due time, relative to the beginning of the step, ns.
    last_ns: i64,
}

impl Schedule {
    /// Creates the schedule of a step with this number of actions that begins at `begun_ns`, in a
    /// cluster with this number of pods.
    pub(crate) fn new(shape: LoadShape, begun_ns: i64, actions: u64, pods: u64) -> Schedule {
        Schedule {
            pods,
            shape,
            begun_ns,
            actions,
            asked: 0,
            last_ns: 0,
        }
    }

    /// Returns when the next action is due, in ns of the monotonic clock. Must be called once per
    /// action.
    pub(crate) fn next_ns(
        &mut self,
        now_ns: i64,
        budgets: &mut SharedBudgets,
        random: &mut fastrand::Rng,
    ) -> i64 {
        let number = self.asked;
        self.asked += 1;
        let after = |seconds: f64| (seconds * NS_PER_SECOND as f64) as i64;
        let offset_ns = match self.shape {
            LoadShape::QpsLoad { qps } => after(number as f64 / qps.0),
            LoadShape::GlobalQpsLoad { qps, burst } => {
                let budget = Budget {
                    qps: qps.0,
                    burst: burst.0,
                };
                return budgets.take(budget, now_ns);
            }
            LoadShape::SteppedLoad {
                burst_size,
                step_delay,
            } => {
                let steps = i64::try_from(number / burst_size.0).unwrap_or(i64::MAX);
                steps.saturating_mul(step_delay.0)
            }
            LoadShape::RandomizedTimeLimitedLoad(limit) => {
                // The smallest of `left` uniform draws from the remaining time. The draws come out
                // in order, so none must be stored.
                let left = self.actions.saturating_sub(number).max(1);
                let rest_ns = (limit.ns(self.pods) - self.last_ns).max(0);
                let share = 1.0 - (1.0 - random.f64()).powf(1.0 / left as f64);
                self.last_ns + (rest_ns as f64 * share) as i64
            }
            LoadShape::PoissonLoad {
                expected_actions_per_second,
            } => {
                let pause = -(1.0 - random.f64()).ln() / expected_actions_per_second.0;
                self.last_ns.saturating_add(after(pause))
            }
        };
        self.last_ns = offset_ns;
        self.begun_ns.saturating_add(offset_ns)
    }
}

impl SharedBudgets {
    /// Takes one action from a budget and returns when it is due, ns.
    fn take(&mut self, budget: Budget, now_ns: i64) -> i64 {
        let interval_ns = (NS_PER_SECOND as f64 / budget.qps) as i64;
        let saved = i64::try_from(budget.burst - 1).unwrap_or(i64::MAX);
        let saved_ns = interval_ns.saturating_mul(saved);
        let known = self.budgets.iter().position(|(one, _)| *one == budget);
        let at = known.unwrap_or_else(|| {
            self.budgets.push((budget, now_ns));
            self.budgets.len() - 1
        });
        // The generic cell rate algorithm (ITU-T I.371): a leaky bucket whose state is a single
        // time.
        let full_ns = self.budgets[at].1.max(now_ns);
        self.budgets[at].1 = full_ns.saturating_add(interval_ns);
        full_ns.saturating_sub(saved_ns).max(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = NS_PER_SECOND;

    fn times(shape: LoadShape, actions: u64) -> Vec<i64> {
        let mut schedule = Schedule::new(shape, 0, actions, 0);
        let (mut budgets, mut random) = (SharedBudgets::default(), fastrand::Rng::with_seed(5));
        let mut now_ns = 0;
        (0..actions)
            .map(|_| {
                now_ns = schedule.next_ns(now_ns, &mut budgets, &mut random);
                now_ns
            })
            .collect()
    }

    #[test]
    fn even_and_stepped_loads_are_exact() {
        let even = LoadShape::QpsLoad { qps: Positive(4.0) };
        let quarters = [0, SECOND / 4, SECOND / 2, 3 * SECOND / 4, SECOND];
        assert_eq!(times(even, 5), quarters);
        let stepped = LoadShape::SteppedLoad {
            burst_size: Size(2),
            step_delay: Time(SECOND),
        };
        assert_eq!(times(stepped, 5), [0, 0, SECOND, SECOND, 2 * SECOND]);
    }

    #[test]
    fn a_shared_budget_gives_its_burst_once() {
        let shape = LoadShape::GlobalQpsLoad {
            qps: Positive(1.0),
            burst: Size(3),
        };
        let (mut budgets, mut random) = (SharedBudgets::default(), fastrand::Rng::with_seed(5));
        let mut now_ns = 0;
        let mut all = Vec::new();
        // There are two steps, and the second one begins right after the first.
        for _ in 0..2 {
            let mut schedule = Schedule::new(shape, now_ns, 3, 0);
            for _ in 0..3 {
                now_ns = schedule.next_ns(now_ns, &mut budgets, &mut random);
                all.push(now_ns / SECOND);
            }
        }
        assert_eq!(all, [0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn random_loads_keep_their_limit_and_mean() {
        let limited = LoadShape::RandomizedTimeLimitedLoad(TimeLimit::Time {
            time_limit: Time(100 * SECOND),
        });
        let drawn = times(limited, 10_000);
        assert!(drawn.is_sorted() && *drawn.last().unwrap() <= 100 * SECOND);
        let half = drawn.iter().filter(|at| **at < 50 * SECOND).count();
        assert!((4_800..5_200).contains(&half), "{half}");
        let poisson = LoadShape::PoissonLoad {
            expected_actions_per_second: Positive(100.0),
        };
        let drawn = times(poisson, 10_000);
        let seconds = *drawn.last().unwrap() as f64 / SECOND as f64;
        assert!((97.0..103.0).contains(&seconds), "{seconds}");
        // The standard deviation of the pauses of a Poisson process equals their mean.
        let pauses: Vec<f64> = drawn.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        let variance = pauses.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / pauses.len() as f64;
        assert!((0.95..1.05).contains(&(variance.sqrt() / mean)));
    }

    #[test]
    fn a_rate_of_zero_is_refused() {
        for value in [0.0, -1.0, f64::NAN, 1e10] {
            assert!(Positive::try_from(value).is_err());
        }
    }
}
