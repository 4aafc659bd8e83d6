//! The built-in scenarios as data: phases, each a list of tasks and a condition that ends it.

use super::stall::{EXPIRED, LOST};
use crate::settings::{ScenarioName, Settings};

/// A phase: its tasks are done one after the other, then its condition is waited for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PhasePlan {
    pub(super) name: String,
    pub(super) tasks: Vec<Task>,
    pub(super) until: Until,
    /// What must be true of the pods written during the phase, beside its condition.
    pub(super) bound: Bound,
}

/// Something the scenario does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Task {
    /// Creates the generated namespaces.
    Namespaces,
    /// Creates the generated nodes.
    Nodes,
    /// Loads what `-f` brought; nodes are generated when it brought none.
    Input,
    /// Creates the generated ReplicaSets.
    ReplicaSets(Amount),
    /// Sets the scale of every generated ReplicaSet for which that changes anything.
    Scale(Amount),
    /// Creates as many pods per ReplicaSet as it is to have, with it as their owner.
    OwnedPods,
    /// The same pods without an owner; their ReplicaSets need not exist.
    BarePods,
    /// Writes into every ReplicaSet the status that an earlier controller would have left.
    Statuses,
    /// Starts the controllers.
    StartControllers,
    /// Deletes ready pods by lot at the rate of the settings, for the duration of the settings.
    Churn,
    /// Holds the controller's pod watch.
    StallPodWatch,
    /// Lets it go on.
    ReleasePodWatch,
    /// Lets so many seconds pass.
    Wait(u32),
    /// Changes an annotation of every ReplicaSet: an event without a meaning.
    Touch,
    /// Loses the answer to as many creates as there are ReplicaSets, each the first of its sync.
    LoseAnswers,
}

/// How many pods a ReplicaSet is to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    /// None.
    Zero,
    /// Its share of the cluster's pods.
    Full,
    /// Half its share, rounded down.
    Half,
    /// Its share, and the first one `burst_pods` more.
    BurstOnOne,
    /// Its share and its part of `burst_pods`.
    BurstOnAll,
}

impl Amount {
    /// For ReplicaSet `number` of `count`, whose share is `share`.
    pub(super) fn of(self, number: u64, count: u64, share: i32, burst: u32) -> i32 {
        let burst = i32::try_from(burst).unwrap_or(i32::MAX);
        match self {
            Amount::Zero => 0,
            Amount::Full => share,
            Amount::Half => share / 2,
            Amount::BurstOnOne if number == 0 => share.saturating_add(burst),
            Amount::BurstOnOne => share,
            Amount::BurstOnAll => {
                let count = i32::try_from(count.max(1)).unwrap_or(i32::MAX);
                let extra = i64::from(burst % count) > i64::try_from(number).unwrap_or(i64::MAX);
                share.saturating_add(burst / count + i32::from(extra))
            }
        }
    }
}

/// When a phase is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Every ReplicaSet has its pods and an exact status, and no pod is on its way out.
    Converged,
    /// As many pods are ready as the cluster is to have.
    PodsReady,
    /// The controllers have synced every parent and have nothing left to do.
    Synced,
    /// For half a minute no pod was created.
    Quiet,
}

/// What must be true of the pods written during a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// Anything.
    None,
    /// The controllers create no pod and delete none.
    NoPodWritten,
}

/// The phases of a scenario.
pub(super) fn phases(settings: &Settings) -> Vec<PhasePlan> {
    let phase = |name: &str, tasks: &[Task], until| PhasePlan {
        name: name.to_owned(),
        tasks: tasks.to_vec(),
        until,
        bound: Bound::None,
    };
    let scale = |name: &str, amount| phase(name, &[Task::Scale(amount)], Until::Converged);
    let set_up = |amount| {
        use Task::{Input, Namespaces, Nodes, ReplicaSets};
        phase(
            "set up",
            &[Namespaces, Nodes, Input, ReplicaSets(amount)],
            Until::Converged,
        )
    };
    let burst = settings.burst_pods;
    match settings.scenario {
        ScenarioName::UpDown => vec![
            set_up(Amount::Zero),
            scale("scale to 100 %", Amount::Full),
            scale("scale to 50 %", Amount::Half),
            scale("scale to 0", Amount::Zero),
        ],
        ScenarioName::ScaleUp => {
            vec![set_up(Amount::Zero), scale("scale to 100 %", Amount::Full)]
        }
        ScenarioName::ScaleDown => {
            vec![set_up(Amount::Full), scale("scale to 50 %", Amount::Half)]
        }
        ScenarioName::Burst => vec![
            set_up(Amount::Full),
            scale(&format!("{burst} more on one"), Amount::BurstOnOne),
            scale(&format!("{burst} fewer on one"), Amount::Full),
            scale(&format!("{burst} more on all"), Amount::BurstOnAll),
            scale(&format!("{burst} fewer on all"), Amount::Full),
        ],
        ScenarioName::Churn => {
            vec![
                set_up(Amount::Full),
                phase("churn", &[Task::Churn], Until::Converged),
            ]
        }
        ScenarioName::Adoption => {
            use Task::{BarePods, Input, Namespaces, Nodes, ReplicaSets};
            let mut adopt = phase("adopt", &[ReplicaSets(Amount::Full)], Until::Converged);
            adopt.bound = Bound::NoPodWritten;
            vec![
                phase(
                    "bare pods",
                    &[Namespaces, Nodes, Input, BarePods],
                    Until::PodsReady,
                ),
                adopt,
            ]
        }
        ScenarioName::ColdStart => {
            use Task::{
                Input, Namespaces, Nodes, OwnedPods, ReplicaSets, StartControllers, Statuses,
            };
            let existing = [
                Namespaces,
                Nodes,
                Input,
                ReplicaSets(Amount::Full),
                OwnedPods,
            ];
            let mut start = phase("start the controller", &[StartControllers], Until::Synced);
            start.bound = Bound::NoPodWritten;
            vec![
                phase("existing pods", &existing, Until::PodsReady),
                phase("existing statuses", &[Statuses], Until::Converged),
                start,
            ]
        }
        ScenarioName::StaleWatch => {
            use Task::{
                LoseAnswers, ReleasePodWatch, Scale, StallPodWatch, StartControllers, Touch, Wait,
            };
            // A controller that began before there was anything would compare with version 0, which no
            // real server has.
            let mut begin = set_up(Amount::Zero);
            begin.tasks.push(StartControllers);
            let full = Scale(Amount::Full);
            let back = || phase("the watch is back", &[ReleasePodWatch], Until::Converged);
            vec![
                begin,
                phase(
                    "the pod watch stalls; scale up",
                    &[StallPodWatch, full],
                    Until::PodsReady,
                ),
                phase(EXPIRED, &[Wait(310), Touch], Until::Quiet),
                back(),
                scale("scale to 0", Amount::Zero),
                phase(LOST, &[StallPodWatch, LoseAnswers, full], Until::Quiet),
                back(),
            ]
        }
        ScenarioName::Manifests => vec![phase("settle", &[Task::Input], Until::Converged)],
    }
}

/// Whether the scenario starts the controllers itself, later on.
pub(super) fn starts_controllers(scenario: ScenarioName) -> bool {
    matches!(scenario, ScenarioName::ColdStart | ScenarioName::StaleWatch)
}

/// Whether the scenario picks pods by lot.
pub(super) fn picks_pods(scenario: ScenarioName) -> bool {
    scenario == ScenarioName::Churn
}

/// What must be true for a run of the scenario to succeed, in one sentence.
pub fn success_condition(scenario: ScenarioName) -> &'static str {
    match scenario {
        ScenarioName::UpDown | ScenarioName::ScaleUp | ScenarioName::ScaleDown => {
            "After each step every ReplicaSet has its pods and an exact status, and no pod is on \
             its way out."
        }
        ScenarioName::Burst => {
            "After each burst every ReplicaSet has its pods and an exact status, and no pod is on \
             its way out."
        }
        ScenarioName::Churn => {
            "When the churn ends, every ReplicaSet comes back to its pods and an exact status."
        }
        ScenarioName::Adoption => {
            "Every ReplicaSet has adopted its pods, with an exact status; the controller has \
             created and deleted none."
        }
        ScenarioName::ColdStart => {
            "The controller has synced every ReplicaSet and has created and deleted no pod; \
             every status is exact."
        }
        ScenarioName::StaleWatch => {
            "When the watch is back, every ReplicaSet comes to its pods and an exact status. Pods in \
             excess are counted and are no failure."
        }
        ScenarioName::Manifests => {
            "Every ReplicaSet and ReplicationController of the files has its pods and an exact \
             status, and no pod is on its way out."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_spread_over_all_adds_up() {
        let of = |number| Amount::BurstOnAll.of(number, 7, 10, 500);
        assert_eq!((0..7).map(|number| of(number) - 10).sum::<i32>(), 500);
        assert_eq!(Amount::BurstOnOne.of(0, 7, 10, 500), 510);
        assert_eq!(Amount::BurstOnOne.of(1, 7, 10, 500), 10);
        assert_eq!(Amount::Half.of(0, 7, 11, 0), 5);
    }
}
