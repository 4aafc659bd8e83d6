//! The deviations that the faults of a schedule explain, and that therefore don't violate an
//! invariant.

use podstorm::job::Jobs;
use podstorm::policy::Behaviour;
use podstorm_sim::faults::{ApiFault, Effect};

use super::users::JobAction;
use crate::action::Action;
use crate::subject::Schedule;

/// The deviations that the faults of a run explain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circumstances {
    /// Whether caches may go back in time or controllers run concurrently, so that a pod may be
    /// counted twice.
    pub(super) may_recount: bool,
    /// Whether pods may be created beyond the wanted number.
    pub(super) may_exceed: bool,
    /// Whether one sync lists so few pods that other ended pods must wait for the next sync.
    pub(super) lists_few: bool,
    /// Whether a pod that was counted as failed can complete a Job by succeeding.
    pub(super) may_complete_short: bool,
    /// The maximum offset of the controller's clock, ns.
    pub(super) clock_off_ns: i64,
}

impl Circumstances {
    /// Returns the circumstances of a schedule.
    pub(super) fn from_schedule(schedule: &Schedule<Jobs>, behaviour: Behaviour) -> Circumstances {
        let mut found = Circumstances {
            lists_few: schedule.cluster.burst_replicas < 500,
            may_complete_short: !behaviour.policy().keep_first_outcome,
            ..Circumstances::default()
        };
        let waits = schedule.cluster.stale_controller_consistency;
        let counts_once = behaviour.policy().count_gone_pods_once;
        for step in &schedule.steps {
            let JobAction::Cluster(action) = &step.action else {
                let is_strip = matches!(step.action, JobAction::Strip(..));
                found.may_recount |= is_strip && !counts_once;
                continue;
            };
            match action {
                Action::ServeStale { .. } | Action::Overlap { .. } | Action::Replay { .. } => {
                    found.may_recount = true;
                    found.may_exceed = true;
                }
                Action::Crash { stale_versions, .. } => {
                    found.may_recount |= *stale_versions > 0;
                    found.may_exceed = true;
                }
                Action::Requests { effect, .. } => {
                    // As in upstream, a pod that is reported as not found is counted.
                    found.may_recount |= *effect == Effect::Refuse(ApiFault::NotFound);
                    let is_clear = match effect {
                        Effect::Refuse(fault) => !fault.is_ambiguous(),
                        Effect::Slow { .. } => true,
                        _ => false,
                    };
                    found.may_exceed |= !is_clear;
                    found.may_recount |= !is_clear && !counts_once;
                }
                Action::Tamper { .. } => found.may_exceed = true,
                // As in upstream, a deleted pod that is still cached is counted again.
                Action::Drop { .. } => {
                    found.may_exceed = true;
                    found.may_recount |= !counts_once;
                }
                // Without the gate, the expectations of a sync expire after five minutes.
                Action::Hold { .. } | Action::Pause { .. } | Action::RefuseWatch { .. } => {
                    found.may_exceed |= !waits;
                    found.may_recount |= !counts_once;
                }
                Action::WallClock { offset_s, .. } => {
                    let off_ns = i64::from(offset_s.abs()) * super::SECOND;
                    found.clock_off_ns = found.clock_off_ns.max(off_ns);
                }
                _ => {}
            }
        }
        found
    }
}
