//! Draws Deployments and user actions on them.

use podstorm_sim::faults::FaultClass;

use super::PlannedDeployment;
use super::users::{BAD_TEMPLATES, Strategy, UserAction};
use crate::action::{Action, Dependents};
use crate::dice::Dice;

impl Dice {
    pub(super) fn deployments(&mut self) -> Vec<PlannedDeployment> {
        let count = self.random.usize(1..=3);
        let names = ["web", "api", "db"];
        // In one seed of six, all Deployments share one selector.
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
            // At most one of the two amounts may be 0.
            "0" => self.one(&amounts[1..]),
            _ => self.one(&amounts),
        };
        let unavailable = unavailable.to_owned();
        Strategy::Rolling { surge, unavailable }
    }

    /// Draws the user actions at one time, each with its delay, ms.
    pub(super) fn user_action(&mut self, name: &str) -> Vec<(u32, UserAction)> {
        let owner = format!("{name}/{}", self.below(8));
        let name = name.to_owned();
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
                return self.recreated(name, UserAction::Delete, UserAction::Create);
            }
            32 => Action::Scale {
                owner,
                replicas: self.random.i32(0..=12),
            }
            .into(),
            33 => {
                let back_ms = self.magnitude(1, 120_000);
                let back = UserAction::FindSets(name);
                return vec![(0, UserAction::LoseSet(owner)), (back_ms, back)];
            }
            34 => Action::DeleteOwner {
                owner,
                propagation: self.one(&Dependents::DRAWN),
            }
            .into(),
            35..38 => self.kill(owner, &[1, 30, 100]).into(),
            38 | 39 => UserAction::EditSet(owner, self.below(5)),
            _ => Action::Flap {
                owner,
                percent: self.one(&[1, 30, 100]),
            }
            .into(),
        })
    }

    /// Draws a change of a spec, and the later recreation of the Deployment.
    pub(super) fn own_change(
        &mut self,
        class: FaultClass,
        objects: &[PlannedDeployment],
    ) -> Option<Vec<(u32, UserAction)>> {
        if ![FaultClass::SpecChange, FaultClass::Recreate].contains(&class) {
            return None;
        }
        let at = self.random.usize(..objects.len());
        let name = objects[at].name.clone();
        Some(match class {
            FaultClass::SpecChange => vec![(
                0,
                match self.below(3) {
                    0 => UserAction::Template(name, self.below(5)),
                    1 => UserAction::Strategy(name, self.strategy()),
                    _ => UserAction::MinReady(name, self.one(&[0, 1, 10])),
                },
            )],
            _ => self.recreated(name, UserAction::Delete, UserAction::Create),
        })
    }
}
