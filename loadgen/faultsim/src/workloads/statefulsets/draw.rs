//! Draws StatefulSets and user actions on them.

use podstorm_sim::faults::{ApiFault, Call, Effect, FaultClass};

use super::PlannedStatefulSet;
use super::users::{BAD_TEMPLATES, Label, Retention, SetAction, Strategy};
use crate::action::{Action, Dependents, Tampering};
use crate::dice::Dice;

impl Dice {
    pub(super) fn stateful_sets(&mut self) -> Vec<PlannedStatefulSet> {
        let names = ["web", "db", "mq"];
        let count = self.random.usize(1..=names.len());
        names[..count].iter().map(|name| self.set(name)).collect()
    }

    fn set(&mut self, name: &str) -> PlannedStatefulSet {
        let claims: &[&[&str]] = &[&[], &["data"], &["data"], &["data", "log"]];
        let claims = self.one(claims).iter().map(|name| (*name).to_owned());
        PlannedStatefulSet {
            name: name.to_owned(),
            replicas: self.below(6),
            start: self.one(&[0, 0, 0, 1, 5]),
            parallel: self.below(3) == 0,
            template: 0,
            strategy: self.update_strategy(),
            max_unavailable: None,
            min_ready_seconds: self.one(&[0, 0, 1, 10]),
            claims: claims.collect(),
            retention: self.retention(),
            revision_history_limit: self.one(&[0, 1, 3, 10]),
        }
    }

    fn update_strategy(&mut self) -> Strategy {
        match self.below(8) {
            0 => Strategy::OnDelete,
            1 => Strategy::Plain,
            2 | 3 => Strategy::Partition(1 + self.below(5)),
            _ => Strategy::Partition(0),
        }
    }

    fn retention(&mut self) -> Retention {
        Retention {
            with_set: self.random.bool(),
            when_scaled: self.random.bool(),
        }
    }

    /// Draws the user actions at one time, each with its delay, ms.
    pub(super) fn set_action(&mut self, set: &PlannedStatefulSet) -> Vec<(u32, SetAction)> {
        let name = set.name.clone();
        let action = match self.below(48) {
            0..9 => SetAction::Scale(name, self.below(7)),
            9..17 => SetAction::Template(name, self.below(4)),
            17..20 => {
                let for_ms = self.magnitude(10, 120_000);
                let (bad, good) = (BAD_TEMPLATES + self.below(2), self.below(4));
                return vec![
                    (0, SetAction::Template(name.clone(), bad)),
                    (for_ms, SetAction::Template(name, good)),
                ];
            }
            20 => SetAction::Template(name, BAD_TEMPLATES + self.below(2)),
            21..25 => SetAction::Strategy(name, self.update_strategy()),
            25 => SetAction::MinReady(name, self.one(&[0, 1, 10])),
            26..29 => SetAction::Retention(name, self.retention()),
            29 => SetAction::History(name, self.below(3)),
            30 => SetAction::Start(name, self.below(7)),
            31 => SetAction::Touch(name),
            32..35 => SetAction::Remove {
                set: name,
                nth: self.below(20),
                force: self.random.bool(),
            },
            35 => SetAction::Orphan {
                set: name,
                ordinal: self.below(8),
                selected: self.below(3) > 0,
                zero: self.below(6) == 0,
            },
            36 => SetAction::Unlabel(name, self.below(20), self.one(&Label::ALL)),
            37 => SetAction::Claim {
                set: name,
                ordinal: self.below(8),
                foreign: self.random.bool(),
            },
            38 => SetAction::RemoveClaim(name, self.below(8)),
            39 => SetAction::Delete(name, self.one(&Dependents::DRAWN)),
            40 | 41 => SetAction::Create(name),
            42 => return self.recreated(name, SetAction::Delete, SetAction::Create),
            43 => Action::Flap {
                owner: name,
                percent: self.one(&[1, 30, 100]),
            }
            .into(),
            _ => self.kill(name, &[1, 30, 100]).into(),
        };
        vec![(0, action)]
    }

    /// Draws a fault that is specific to StatefulSets.
    pub(super) fn own_fault_of_set(
        &mut self,
        class: FaultClass,
        set: &PlannedStatefulSet,
    ) -> Option<Vec<(u32, SetAction)>> {
        let name = set.name.clone();
        let action = match class {
            FaultClass::SpecChange => match self.below(4) {
                0 => SetAction::Scale(name, self.below(7)),
                1 => SetAction::Strategy(name, self.update_strategy()),
                2 => SetAction::Retention(name, self.retention()),
                _ => SetAction::Template(name, self.below(4)),
            },
            FaultClass::Recreate => {
                return Some(self.recreated(name, SetAction::Delete, SetAction::Create));
            }
            FaultClass::StatusConflict => {
                let call = self.one(&[Call::PutStatus, Call::PutStatus, Call::WriteObject]);
                let conflict = Effect::Refuse(ApiFault::Conflict);
                match self.below(3) {
                    0 => Action::WriteStatus { owner: name }.into(),
                    _ => self.requests(&[call], conflict, 5).into(),
                }
            }
            FaultClass::Tampering => match self.below(3) {
                0 => SetAction::Unlabel(name, self.below(20), self.one(&Label::ALL)),
                _ => Action::Tamper {
                    owner: name,
                    nth: self.below(20),
                    how: self.one(&[
                        Tampering::Relabel,
                        Tampering::Orphan,
                        Tampering::NotController,
                        Tampering::DanglingUid,
                        Tampering::ForeignController,
                    ]),
                }
                .into(),
            },
            _ => return None,
        };
        Some(vec![(0, action)])
    }
}
