//! Draws a schedule from a seed, by swarm as schedules of ReplicaSets are: each seed has a few classes of
//! faults, at rates drawn evenly over their orders of magnitude; some have one alone, some none.

use podstorm_sim::faults::FaultClass;

use super::faults;
use super::schedule::{PlannedDeployment, Schedule, Step, What};
use super::users::{BAD_TEMPLATES, Strategy, UserAction};
use crate::action::{Death, Dependents};
use crate::draw::Dice;
use crate::schedule::SCHEDULE_VERSION;

/// Of a hundred seeds, those without faults, and those with a single class.
const SEEDS_WITHOUT_FAULTS: u32 = 15;
const SEEDS_OF_ONE_CLASS: u32 = 15;

/// How many classes the other seeds have on average.
const CLASSES: u32 = 4;

/// Most steps of one class in one schedule.
const STEPS_MAX: usize = 40;

/// What becomes of the pods of what users delete.
const DEPENDENTS: [Dependents; 3] = [
    Dependents::Orphan,
    Dependents::Background,
    Dependents::Foreground,
];

/// The schedule of a seed; of these classes only, if any are named. Classes that don't strike Deployments have no
/// steps.
pub fn draw(seed: u64, classes: &[FaultClass]) -> Schedule {
    let mut dice = Dice::new(seed, "deployments", STEPS_MAX);
    let deployments = dice.deployments();
    let cluster = dice.cluster(Vec::new(), |_| 500);
    let shares = (SEEDS_WITHOUT_FAULTS, SEEDS_OF_ONE_CLASS);
    let all = FaultClass::ON_DEPLOYMENTS;
    let is_chosen = |dice: &mut Dice| dice.below(all.len() as u32) < CLASSES;
    let (classes, high) = dice.classes(classes, &all, shares, is_chosen);
    let disturb_ms = dice.random.u32(60_000..=600_000);
    let mut steps = Vec::new();
    for at_ms in dice.user_times(disturb_ms) {
        let at = dice.random.usize(..deployments.len());
        for (after_ms, action) in dice.user_action(&deployments[at].name) {
            let at_ms = (at_ms + after_ms).min(disturb_ms);
            let what = What::User(action);
            steps.push(Step { at_ms, what });
        }
    }
    for class in &classes {
        for at_ms in dice.fault_times(high, disturb_ms) {
            if let Some(action) = faults::draw(&mut dice, *class) {
                let what = What::Fault(*class, action);
                steps.push(Step { at_ms, what });
            }
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

impl Dice {
    fn deployments(&mut self) -> Vec<PlannedDeployment> {
        let count = self.random.usize(1..=3);
        let names = ["web", "api", "db"];
        // Of one seed in six all Deployments have one selector.
        let is_shared = self.below(6) == 0;
        let of_name = |name: &&str| PlannedDeployment {
            name: (*name).to_owned(),
            app: if is_shared { "shop" } else { name }.to_owned(),
            replicas: self.random.i32(0..=12),
            strategy: self.strategy(),
            min_ready_seconds: self.one(&[0, 0, 0, 1, 10]),
            progress_deadline_seconds: self.one(&[20, 60, 600, i32::MAX]),
            revision_history_limit: self.one(&[0, 1, 2, 10, i32::MAX]),
        };
        names[..count].iter().map(of_name).collect()
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

    /// What users do at one moment, and what of it how much later, ms.
    fn user_action(&mut self, name: &str) -> Vec<(u32, UserAction)> {
        let deployment = name.to_owned();
        let name = name.to_owned();
        let nth = self.below(8);
        let at_once = |action| vec![(0, action)];
        at_once(match self.below(42) {
            0..12 => UserAction::Template(name, self.below(5)),
            12..14 => UserAction::Template(name, BAD_TEMPLATES + self.below(2)),
            14..22 => UserAction::Scale(name, self.random.i32(0..=12)),
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
                    (0, UserAction::Delete(name.clone(), self.one(&DEPENDENTS))),
                    (gap_ms, UserAction::Create(name)),
                ];
            }
            32 => UserAction::SizeSet {
                deployment,
                nth,
                replicas: self.random.i32(0..=12),
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
                propagation: self.one(&DEPENDENTS),
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
