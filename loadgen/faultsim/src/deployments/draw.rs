//! Draws a schedule from a seed, by swarm as schedules of ReplicaSets are: each seed has a few classes of
//! faults, at rates drawn evenly over their orders of magnitude; some have one alone, some none.

use fastrand::Rng;
use podstorm_sim::executor::seed::seed_for;
use podstorm_sim::faults::{ApiFault, FaultClass};

use super::super::action::{Death, Dependents};
use super::super::schedule::{PlannedCluster, SCHEDULE_VERSION};
use super::faults;
use super::schedule::{PlannedDeployment, Schedule, Step, What};
use super::users::{BAD_TEMPLATES, Strategy, UserAction};

/// Of a hundred seeds, those without faults, and those with a single class.
const SEEDS_WITHOUT_FAULTS: u32 = 15;
const SEEDS_OF_ONE_CLASS: u32 = 15;

/// How many classes the other seeds have on average.
const CLASSES: u32 = 4;

/// Faults of a class per simulated minute: least and most.
const RATE: (f64, f64) = (0.1, 12.0);

/// What users do, per simulated minute: least and most.
const USER_RATE: (f64, f64) = (0.5, 12.0);

/// Most steps of one class in one schedule.
const STEPS_MAX: usize = 40;

/// The schedule of a seed; of these classes only, if any are named.
pub fn draw(seed: u64, classes: &[FaultClass]) -> Schedule {
    let mut dice = Dice(Rng::with_seed(seed_for(seed, "deployments", 0)));
    let deployments = dice.deployments();
    let cluster = dice.cluster();
    let (classes, high) = dice.classes(classes);
    let disturb_ms = dice.0.u32(60_000..=600_000);
    let mut steps = Vec::new();
    let rate = dice.rate(USER_RATE);
    for at_ms in dice.times(rate, disturb_ms) {
        let at = dice.0.usize(..deployments.len());
        for (after_ms, action) in dice.user_action(&deployments[at].name) {
            let at_ms = (at_ms + after_ms).min(disturb_ms);
            let what = What::User(action);
            steps.push(Step { at_ms, what });
        }
    }
    for class in &classes {
        let rate = if high { RATE.1 } else { dice.rate(RATE) };
        for at_ms in dice.times(rate, disturb_ms) {
            let what = What::Fault(*class, faults::draw(&mut dice, *class));
            steps.push(Step { at_ms, what });
        }
    }
    // Stable: steps of the same moment stay in the order in which they were drawn.
    steps.sort_by_key(|step| step.at_ms);
    Schedule {
        version: SCHEDULE_VERSION,
        seed,
        deployments,
        cluster,
        disturb_ms,
        classes,
        steps,
    }
}

/// Draws.
pub(super) struct Dice(Rng);

impl Dice {
    pub(super) fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.usize(..of.len())].clone()
    }

    pub(super) fn below(&mut self, end: u32) -> u32 {
        self.0.u32(..end)
    }

    /// Evenly over the orders of magnitude between the two.
    fn rate(&mut self, (low, high): (f64, f64)) -> f64 {
        low * (high / low).powf(self.0.f64())
    }

    /// Evenly over the orders of magnitude between the two, as a whole number.
    pub(super) fn magnitude(&mut self, low: u32, high: u32) -> u32 {
        let drawn = self.rate((f64::from(low.max(1)), f64::from(high)));
        (drawn as u32).clamp(low, high)
    }

    pub(super) fn ambiguous(&mut self) -> ApiFault {
        let all = ApiFault::ALL.into_iter();
        let ambiguous: Vec<ApiFault> = all.filter(|fault| fault.is_ambiguous()).collect();
        self.one(&ambiguous)
    }

    /// Moments at that rate per minute, in order.
    fn times(&mut self, per_minute: f64, end_ms: u32) -> Vec<u32> {
        let count = per_minute * f64::from(end_ms) / 60_000.0;
        // A rate that gives less than one has one in that share of seeds.
        let whole = count as usize + usize::from(self.0.f64() < count.fract());
        let mut times: Vec<u32> = (0..whole.min(STEPS_MAX))
            .map(|_| self.0.u32(0..=end_ms))
            .collect();
        times.sort_unstable();
        times
    }

    fn deployments(&mut self) -> Vec<PlannedDeployment> {
        let count = self.0.usize(1..=3);
        let names = ["web", "api", "db"];
        // Of one seed in six all Deployments have one selector.
        let is_shared = self.below(6) == 0;
        let of_name = |name: &&str| PlannedDeployment {
            name: (*name).to_owned(),
            app: if is_shared { "shop" } else { name }.to_owned(),
            replicas: self.0.i32(0..=12),
            strategy: self.strategy(),
            min_ready_seconds: self.one(&[0, 0, 0, 1, 10]),
            progress_deadline_seconds: self.one(&[20, 60, 600, i32::MAX]),
            revision_history_limit: self.one(&[0, 1, 2, 10, i32::MAX]),
        };
        names[..count].iter().map(of_name).collect()
    }

    fn cluster(&mut self) -> PlannedCluster {
        PlannedCluster {
            replica_sets: Vec::new(),
            nodes: self.0.u32(1..=4),
            workers: self.one(&[1, 2, 5]),
            burst_replicas: 500,
            stale_controller_consistency: self.below(4) > 0,
            watch_list_client: self.below(4) > 0,
            api_ms: self.one(&[1, 10, 100]),
            watch_ms: self.one(&[1, 10, 300]),
            startup_ms: self.one(&[10, 2_000]),
            termination_ms: self.one(&[10, 2_000]),
        }
    }

    fn strategy(&mut self) -> Strategy {
        if self.below(5) == 0 {
            return Strategy::Recreate;
        }
        let amounts = ["0", "1", "2", "5", "1%", "25%", "30%", "50%", "100%"];
        let surge = self.one(&amounts).to_owned();
        let unavailable = match &*surge {
            // Both may not be 0.
            "0" => self.one(&amounts[1..]),
            _ => self.one(&amounts),
        };
        let unavailable = unavailable.to_owned();
        Strategy::Rolling { surge, unavailable }
    }

    /// The classes of the seed, and whether they strike as often as they can.
    fn classes(&mut self, wanted: &[FaultClass]) -> (Vec<FaultClass>, bool) {
        if !wanted.is_empty() {
            return (wanted.to_vec(), false);
        }
        let (all, kind) = (faults::CLASSES, self.below(100));
        if kind < SEEDS_WITHOUT_FAULTS {
            return (Vec::new(), false);
        }
        if kind < SEEDS_WITHOUT_FAULTS + SEEDS_OF_ONE_CLASS {
            return (vec![self.one(&all)], true);
        }
        let of = all.len() as u32;
        let chosen = all.into_iter().filter(|_| self.below(of) < CLASSES);
        (chosen.collect(), false)
    }

    fn dependents(&mut self) -> Dependents {
        self.one(&[
            Dependents::Orphan,
            Dependents::Background,
            Dependents::Foreground,
        ])
    }

    /// What users do at one moment, and what of it how much later, ms.
    fn user_action(&mut self, name: &str) -> Vec<(u32, UserAction)> {
        let deployment = name.to_owned();
        let name = name.to_owned();
        let nth = self.below(8);
        let at_once = |action| vec![(0, action)];
        at_once(match self.below(42) {
            0..12 => UserAction::Template(name, self.below(5)),
            12..14 => UserAction::Template(name, BAD_TEMPLATES + self.below(2)),
            14..22 => UserAction::Scale(name, self.0.i32(0..=12)),
            22..24 => {
                let for_ms = self.magnitude(10, 120_000);
                return vec![
                    (0, UserAction::Pause(name.clone(), true)),
                    (for_ms, UserAction::Pause(name, false)),
                ];
            }
            24 => UserAction::Pause(name, self.below(2) == 0),
            25..27 => UserAction::Strategy(name, self.strategy()),
            27 => UserAction::MinReady(name, self.one(&[0, 1, 10])),
            28 => UserAction::History(name, self.one(&[0, 1, 3])),
            29 => UserAction::Touch(name),
            30 => UserAction::RollBack(name, self.below(4)),
            31 => {
                let gap_ms = self.one(&[0, 1, 10, 1_000, 30_000]);
                return vec![
                    (0, UserAction::Delete(name.clone(), self.dependents())),
                    (gap_ms, UserAction::Create(name)),
                ];
            }
            32 => UserAction::SizeSet {
                deployment,
                nth,
                replicas: self.0.i32(0..=12),
            },
            33 => {
                let back_ms = self.magnitude(1, 120_000);
                let lost = UserAction::RelabelSet {
                    deployment: name,
                    nth: Some(nth),
                };
                let back = UserAction::RelabelSet {
                    deployment,
                    nth: None,
                };
                return vec![(0, lost), (back_ms, back)];
            }
            34 => UserAction::DeleteSet {
                deployment,
                nth,
                propagation: self.dependents(),
            },
            35..38 => UserAction::Kill {
                deployment,
                nth,
                percent: self.one(&[1, 30, 100]),
                how: self.one(&[
                    Death::Deleted,
                    Death::Removed,
                    Death::Failed,
                    Death::Succeeded,
                ]),
            },
            38 | 39 => UserAction::EditSet {
                deployment,
                nth,
                template: self.below(5),
            },
            _ => UserAction::Flap {
                deployment,
                nth,
                percent: self.one(&[1, 30, 100]),
            },
        })
    }
}
