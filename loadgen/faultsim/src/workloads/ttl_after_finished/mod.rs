//! Jobs with a TTL under faults. No controller runs the Jobs: users mark Jobs as finished, as the
//! Job controller would, and create their pods.
//!
//! # Invariants
//!
//! T1 and T2 are about one commit of the controller.
//!
//! * **T1** The controller only deletes Jobs. A sync deletes only the Job that it has read from the
//!   server, with the same UID.
//! * **T2** The Job that was read had finished, and its TTL had passed on the controller's clock.
//!   Unfinished Jobs and Jobs whose TTL was raised before the read are therefore not deleted. A Job
//!   whose TTL is raised between read and deletion is deleted, because upstream's deletion does not
//!   name a version.
//! * **L1** Within a limit after the end of faults, no Job remains whose TTL has passed.
//! * **L2** After that, nothing is written or requested for ten minutes.
//! * **L6** No livelock, as for all workloads.

mod checker;
#[cfg(test)]
mod tests;
mod users;

use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm::ttl_after_finished::TtlAfterFinished;
use podstorm_objects::Kind;
use podstorm_sim::faults::{Call, FaultClass, StreamKind};
use serde::{Deserialize, Serialize};

use crate::action::{Action, Dependents};
use crate::dice::{Dice, Odds};
use crate::invariants::Checker;
use crate::plan::How;
use crate::simulation::{Beside, Ending};
use crate::subject::{Schedule, Subject, check_within};
use checker::JobJudge;
use users::{JobAction, JobUsers};

const SECOND: i64 = 1_000_000_000;

/// The TTLs that are drawn, s; a Job without a TTL stays.
const TTLS: [Option<u32>; 6] = [None, Some(0), Some(1), Some(10), Some(60), Some(600)];

/// The ages of a Job's finish time when it is written, s. A negative age is that of a clock that is
/// ahead.
const AGES: [i32; 6] = [0, 0, 0, 5, 60, -30];

/// A planned Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedJob {
    /// The name of the Job.
    pub name: String,
    /// The Job's `ttlSecondsAfterFinished`; if absent, the Job stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
    /// The number of the Job's initial pods.
    pub pods: u32,
}

impl Subject for TtlAfterFinished {
    type Planned = PlannedJob;
    type Action = JobAction;
    type Drawing = ();
    type Users = JobUsers;
    type Watcher = Beside<JobJudge>;

    const ODDS: Odds = Odds {
        stream: "ttl-after-finished",
        without_faults: 10,
        of_one_class: 15,
        classes: 6,
        steps_max: 40,
        calls: &[Call::GetOwner, Call::WriteObject],
        writes: &[Call::WriteObject],
        resent: &[Call::WriteObject],
    };

    fn name(planned: &PlannedJob) -> &str {
        &planned.name
    }

    fn draw_objects(dice: &mut Dice) -> Vec<PlannedJob> {
        let names = ["pi", "etl", "mail", "scan"];
        let count = dice.random.usize(1..=names.len());
        let of_name = |name: &&str| PlannedJob {
            name: (*name).to_owned(),
            ttl: dice.one(&TTLS),
            pods: dice.below(4),
        };
        names[..count].iter().map(of_name).collect()
    }

    fn drawing(_: &[PlannedJob]) {}

    fn draw_user(dice: &mut Dice, objects: &[PlannedJob], (): &mut ()) -> Vec<(u32, JobAction)> {
        let name = a_name(dice, objects);
        let action = match dice.below(20) {
            0..9 => JobAction::Finish {
                job: name,
                failed: dice.random.bool(),
                ago_s: dice.one(&AGES),
            },
            9..13 => JobAction::Ttl(name, dice.one(&TTLS)),
            13 => JobAction::Touch(name),
            14 => JobAction::Delete(name, dice.one(&Dependents::DRAWN)),
            15 | 16 => JobAction::Create(name),
            17 => JobAction::KillPods(name),
            _ => return dice.recreated(name, JobAction::Delete, JobAction::Create),
        };
        vec![(0, action)]
    }

    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[PlannedJob],
        (): &mut (),
    ) -> Option<Vec<(u32, JobAction)>> {
        use FaultClass::*;
        if ![
            StatusConflict,
            PodKill,
            Tampering,
            SpecChange,
            StuckPod,
            Recreate,
        ]
        .contains(&class)
        {
            return None;
        }
        let name = a_name(dice, objects);
        let action = match class {
            StatusConflict => JobAction::WriteStatus(name),
            PodKill => JobAction::KillPods(name),
            Tampering => JobAction::OrphanPods(name),
            SpecChange => JobAction::Ttl(name, dice.one(&TTLS)),
            StuckPod => {
                let for_ms = dice.magnitude(1_000, 300_000);
                let held = |is_held| JobAction::Hold(name.clone(), is_held);
                return Some(vec![(0, held(true)), (for_ms, held(false))]);
            }
            _ => return Some(dice.recreated(name, JobAction::Delete, JobAction::Create)),
        };
        Some(vec![(0, action)])
    }

    /// Jobs don't own ReplicaSets, so an action with this name has no effect.
    fn draw_target(dice: &mut Dice, objects: &[PlannedJob]) -> String {
        a_name(dice, objects)
    }

    fn draw_stream(dice: &mut Dice, (): &()) -> StreamKind {
        StreamKind::from_kind(dice.one(&[Kind::JOB, Kind::JOB, Kind::POD]))
    }

    fn check_object(planned: &PlannedJob) -> Result<(), String> {
        check_within("ttl", planned.ttl.unwrap_or(0), 0, i32::MAX as u32)?;
        check_within("pods", planned.pods, 0, 100)
    }

    fn check_action(action: &JobAction) -> Result<(), String> {
        match action {
            JobAction::Ttl(_, Some(ttl)) => check_within("ttl", *ttl, 0, i32::MAX as u32),
            _ => Ok(()),
        }
    }

    fn kinds(_: &Schedule<TtlAfterFinished>) -> Vec<Kind> {
        vec![Kind::JOB]
    }

    fn watcher(schedule: &Schedule<TtlAfterFinished>, how: How) -> Arc<Beside<JobJudge>> {
        let steps = schedule.steps.iter();
        let offsets = steps.filter_map(|step| match &step.action {
            JobAction::Cluster(Action::WallClock { offset_s, .. }) => Some(i64::from(*offset_s)),
            _ => None,
        });
        let ahead_ns = offsets.max().unwrap_or(0).max(0) * SECOND;
        let checker = Checker::new(&schedule.cluster, how);
        Beside::new(checker, JobJudge::new(ahead_ns))
    }

    fn ending(_: Behaviour) -> Ending {
        Ending {
            // When the faults end, a retry may be minutes away, but a touch comes sooner.
            converges_within_ns: 400 * SECOND,
            touches_ns: &[90 * SECOND],
            touches_always: false,
            settles_ns: 60 * SECOND,
            ..Ending::DEFAULT
        }
    }
}

fn a_name(dice: &mut Dice, objects: &[PlannedJob]) -> String {
    let at = dice.random.usize(..objects.len());
    objects[at].name.clone()
}
