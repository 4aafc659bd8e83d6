//! The plan of a run: the initial cluster, the timed actions, and how the schedule is played.

use podstorm::policy::Behaviour;
use podstorm_sim::faults::FaultClass;
use serde::{Deserialize, Serialize};

/// The settings of the initial cluster and its controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PlannedCluster {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of workers of each controller.
    pub workers: u32,
    /// The maximum number of creates or deletes in one sync.
    pub burst_replicas: u32,
    /// Whether the feature gates of 1.36 that make controllers wait for their own writes are on.
    #[serde(default = "yes")]
    pub stale_controller_consistency: bool,
    /// Whether informers get their initial lists through the watch.
    #[serde(default = "yes")]
    pub watch_list_client: bool,
    /// The feature gates that are on in addition to those that are on by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feature_gates: Vec<String>,
    /// The maximum round trip of an API call, ms.
    pub api_ms: u32,
    /// The maximum delay of a watch event, ms.
    pub watch_ms: u32,
    /// The maximum time that a pod takes to become ready, ms.
    pub startup_ms: u32,
    /// The maximum time that a pod takes to end, ms.
    pub termination_ms: u32,
}

/// An action with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TimedAction<A> {
    /// The time of the action, ms from the beginning of the disturbed phase.
    pub at_ms: u32,
    /// The class of the fault; `None` for an action of a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FaultClass>,
    /// The action.
    pub action: A,
}

impl<A> TimedAction<A> {
    /// Returns an action of a user at this time.
    pub fn of_user(at_ms: u32, action: A) -> TimedAction<A> {
        let class = None;
        TimedAction {
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
    /// The behaviour of the controllers.
    pub behaviour: Behaviour,
    /// Whether to log every commit and every sync.
    pub told: bool,
}

impl How {
    /// Returns how to play with this behaviour and without a log.
    pub fn untold(behaviour: Behaviour) -> How {
        let told = false;
        How { behaviour, told }
    }
}
