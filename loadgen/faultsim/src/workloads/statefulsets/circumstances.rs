//! The deviations that the faults of a schedule explain, and that therefore don't violate an
//! invariant.

use podstorm::policy::Behaviour;
use podstorm::statefulset::StatefulSets;
use podstorm_sim::faults::Effect;

use super::users::SetAction;
use crate::action::Action;
use crate::subject::Schedule;

/// The feature gate with which a rolling update makes more than one pod unavailable.
const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";

/// The deviations that the faults of a run explain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Circumstances {
    /// Whether the server may remove labels or owners from new pods.
    pub(super) may_strip: bool,
    /// The maximum offset of the controller's clock, ns.
    pub(super) clock_off_ns: i64,
    /// Whether a rolling update immediately replaces pods that are neither ready nor up to date.
    pub(super) replaces_broken: bool,
    /// Whether a rollout is complete only once all pods are available.
    pub(super) completes_available: bool,
    /// Whether the feature gate [`MAX_UNAVAILABLE`] is on.
    pub(super) uses_max_unavailable: bool,
}

impl Circumstances {
    /// Returns the circumstances of a schedule.
    pub(super) fn from_schedule(
        schedule: &Schedule<StatefulSets>,
        behaviour: Behaviour,
    ) -> Circumstances {
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
