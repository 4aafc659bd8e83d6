//! What the faults of a schedule explain, so that no rule is broken by it.

use podstorm::policy::Behaviour;
use podstorm::statefulset::StatefulSets;
use podstorm_sim::faults::Effect;

use super::users::SetAction;
use crate::action::Action;
use crate::subject::Schedule;

/// The gate with which a rolling update makes more than one pod unavailable.
const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";

/// What faults of a run explain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circumstances {
    /// A server may take labels or owners from pods that are created.
    pub(super) may_strip: bool,
    /// How far off the controller's clock may be, ns.
    pub(super) clock_off_ns: i64,
    /// Whether a rolling update replaces pods at once that are neither ready nor up to date.
    pub(super) replaces_broken: bool,
    /// Whether a rollout is complete only once all pods are available.
    pub(super) completes_available: bool,
    /// Whether the gate is on with which a rolling update makes more than one pod unavailable.
    pub(super) uses_max_unavailable: bool,
}

impl Circumstances {
    /// Those of a schedule.
    pub(super) fn of(schedule: &Schedule<StatefulSets>, behaviour: Behaviour) -> Circumstances {
        let gates = &schedule.cluster.feature_gates;
        let mut found = Circumstances {
            replaces_broken: behaviour.policy().replace_broken_pods,
            completes_available: behaviour.policy().complete_when_available,
            uses_max_unavailable: gates.iter().any(|gate| gate == MAX_UNAVAILABLE),
            ..Circumstances::default()
        };
        for step in &schedule.steps {
            match &step.action {
                SetAction::Cluster(Action::Requests { effect, .. }) => {
                    found.may_strip |= matches!(effect, Effect::StripLabels | Effect::StripOwner);
                }
                SetAction::Cluster(Action::WallClock { offset_s, .. }) => {
                    let off_ns = i64::from(offset_s.abs()) * super::SECOND;
                    found.clock_off_ns = found.clock_off_ns.max(off_ns);
                }
                _ => {}
            }
        }
        found
    }
}
