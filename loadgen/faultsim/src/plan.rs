//! What a run begins with, what is done in it and when, and how it is played.

use podstorm::policy::Behaviour;
use podstorm_sim::faults::FaultClass;
use serde::{Deserialize, Serialize};

/// The cluster and its controllers at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedCluster {
    /// How many nodes.
    pub nodes: u32,
    /// How many workers each controller has.
    pub workers: u32,
    /// Most creates or deletes in one sync.
    pub burst_replicas: u32,
    /// The read-your-writes gate of 1.36.
    #[serde(default = "yes")]
    pub stale_controller_consistency: bool,
    /// Whether initial lists come through the watch.
    #[serde(default = "yes")]
    pub watch_list_client: bool,
    /// Feature gates that are on beside those that are on by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<String>,
    /// The longest time of an API call there and back, ms.
    pub api_ms: u32,
    /// The longest time of a watch event, ms.
    pub watch_ms: u32,
    /// The longest time of a pod to become ready, ms.
    pub startup_ms: u32,
    /// The longest time of a pod to end, ms.
    pub termination_ms: u32,
}

/// An action with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Step<A> {
    /// When, ms from the beginning of the disturbed phase.
    pub at_ms: u32,
    /// The class of faults it belongs to; absent for what users do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FaultClass>,
    /// What is done.
    pub action: A,
}

impl<A> Step<A> {
    /// What users do at that time.
    pub fn of_user(at_ms: u32, action: A) -> Step<A> {
        let class = None;
        Step {
            at_ms,
            class,
            action,
        }
    }
}

const fn yes() -> bool {
    true
}

/// How a schedule is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Whose behaviour.
    pub behaviour: Behaviour,
    /// Whether to write down every commit and every sync, for a person.
    pub told: bool,
}

impl How {
    /// With that behaviour, and nothing written down.
    pub fn untold(behaviour: Behaviour) -> How {
        let told = false;
        How { behaviour, told }
    }
}
