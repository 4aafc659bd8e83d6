//! Draws Jobs and user actions on them.

use podstorm::job::Jobs;
use podstorm_sim::faults::{ApiFault, Call, Effect, FaultClass};

use super::PlannedJob;
use super::users::JobAction;
use crate::action::{Action, Dependents, Tampering};
use crate::dice::Dice;
use crate::subject::Subject;

/// The exit codes of pods that fail. Failure policies name some of these codes.
const CODES: [u32; 3] = [1, 2, 3];

impl Dice {
    pub(super) fn jobs(&mut self) -> Vec<PlannedJob> {
        let names = ["pi", "etl", "scan"];
        let count = self.random.usize(1..=names.len());
        names[..count].iter().map(|name| self.job(name)).collect()
    }

    fn job(&mut self, name: &str) -> PlannedJob {
        let indexed = self.below(2) == 0;
        let parallelism = self.below(6);
        let completions = match self.below(6) {
            0 if !indexed => None,
            1 | 2 => Some(parallelism),
            _ => Some(self.below(9)),
        };
        let per_index = indexed && self.below(2) == 0;
        let indexes = completions.unwrap_or(0);
        let actions: &[&str] = match per_index {
            true => &["Ignore", "Count", "FailJob", "FailIndex"],
            false => &["Ignore", "Count", "FailJob"],
        };
        let mut rule = |code: &u32| {
            let action = self.one(actions).to_owned();
            (self.below(3) == 0).then_some((*code, action))
        };
        let failure_policy: Vec<_> = match rule(&0) {
            None => Vec::new(),
            Some(_) => CODES.iter().filter_map(&mut rule).collect(),
        };
        // The server accepts policies and per-index limits only for pods that never restart.
        let may_restart = !per_index && failure_policy.is_empty();
        PlannedJob {
            name: name.to_owned(),
            parallelism,
            completions,
            indexed,
            backoff_limit: match per_index {
                true => Some(self.below(3)),
                false => self.one(&[None, Some(0), Some(1), Some(3), Some(20)]),
            },
            per_index,
            max_failed_indexes: (per_index && self.below(3) == 0).then(|| self.below(indexes + 1)),
            replaces_failed: !failure_policy.is_empty() || self.below(3) == 0,
            failure_policy,
            success_count: (indexed && indexes > 0 && self.below(4) == 0)
                .then(|| 1 + self.below(indexes)),
            deadline_s: self.one(&[None, None, None, Some(30), Some(120), Some(600)]),
            restarts: may_restart && self.below(3) == 0,
            suspended: self.below(8) == 0,
        }
    }

    /// Draws the user actions at one time, each with its delay, ms.
    pub(super) fn job_action(&mut self, job: &PlannedJob) -> Vec<(u32, JobAction)> {
        let name = job.name.clone();
        let action = match self.below(40) {
            0..11 => self.end(name, 0),
            11..18 => {
                let code = self.one(&CODES);
                self.end(name, code)
            }
            18..22 => JobAction::Parallelism(name, self.below(7)),
            22 | 23 => JobAction::Resize(name, self.below(9)),
            24..27 => {
                let for_ms = self.magnitude(10, 120_000);
                let suspend = |is_on| JobAction::Suspend(name.clone(), is_on);
                return vec![(0, suspend(true)), (for_ms, suspend(false))];
            }
            27 => JobAction::Suspend(name, self.below(2) == 0),
            28 => JobAction::Deadline(name, self.one(&[None, Some(10), Some(300)])),
            29 => JobAction::BackoffLimit(name, self.below(4)),
            30 => JobAction::Touch(name),
            31 => JobAction::Orphan {
                job: name,
                tracked: self.below(2) == 0,
            },
            32 => match self.random.bool() {
                true => JobAction::Strip(name, self.below(20)),
                false => JobAction::Remove(name, self.below(20)),
            },
            33 => JobAction::Delete(name, self.one(&Dependents::DRAWN)),
            34 | 35 => JobAction::Create(name),
            36 => return self.recreated(name, JobAction::Delete, JobAction::Create),
            _ => self.kill(name, &[1, 30, 100]).into(),
        };
        vec![(0, action)]
    }

    fn end(&mut self, job: String, code: u32) -> JobAction {
        JobAction::End {
            job,
            percent: self.one(&[1, 30, 50, 100]),
            code,
        }
    }

    /// Draws a fault that is specific to Jobs.
    pub(super) fn own_fault_of_job(
        &mut self,
        class: FaultClass,
        job: &PlannedJob,
    ) -> Option<Vec<(u32, JobAction)>> {
        let name = job.name.clone();
        let action = match class {
            FaultClass::StatusConflict => match self.random.bool() {
                true => JobAction::WriteStatus(name),
                false => {
                    let conflict = Effect::Refuse(ApiFault::Conflict);
                    self.requests(&[Call::PutStatus], conflict, 5).into()
                }
            },
            FaultClass::SpecChange => match self.below(4) {
                0 => JobAction::Resize(name, self.below(9)),
                1 => JobAction::Suspend(name, self.random.bool()),
                _ => JobAction::Parallelism(name, self.below(7)),
            },
            // A pod that is wrongly reported as not found keeps its finalizer, with upstream's
            // controller too.
            FaultClass::ApiError => {
                let mut faults = ApiFault::ALL.to_vec();
                faults.retain(|fault| *fault != ApiFault::NotFound);
                let calls = match self.below(4) {
                    0 => Vec::new(),
                    _ => vec![self.one(Jobs::ODDS.calls)],
                };
                let effect = Effect::Refuse(self.one(&faults));
                self.requests(&calls, effect, 20).into()
            }
            FaultClass::PodKill => self.kill(name, &[1, 50, 100]).into(),
            FaultClass::Recreate => {
                return Some(self.recreated(name, JobAction::Delete, JobAction::Create));
            }
            FaultClass::Tampering => match self.below(4) {
                0 => JobAction::Strip(name, self.below(20)),
                1 => JobAction::Lose(name, self.below(20)),
                // A pod whose owner has another kind keeps the finalizer, with upstream's
                // controller too.
                _ => Action::Tamper {
                    owner: name,
                    nth: self.below(20),
                    how: self.one(&[
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
