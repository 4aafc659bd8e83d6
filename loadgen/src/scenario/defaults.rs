//! The settings that a scenario brings along, under the names of the flags of `loadgen run`. Flags on
//! the command line win over them.

use std::collections::BTreeMap;

use podstorm_sim::options::{UPSTREAM_BURST, UPSTREAM_QPS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load_shape::Positive;
use super::text::{BehaviourName, EngineName, LatencyText, Percent, Rate, Size, Time};

/// Settings by the long names of their flags; absent where the scenario says nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ScenarioSettings {
    /// threads: real time on every core; virtual: simulated time, the same result for the same seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineName>,
    /// The seed of everything that is drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Machine threads of the threads engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Size>,
    /// Pods at 100 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Size>,
    /// ReplicaSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicasets: Option<Size>,
    /// Pods of each ReplicaSet; of this, pods and replicasets any two decide the third.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_replicaset: Option<Size>,
    /// Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Size>,
    /// Namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Size>,
    /// Pods that fit on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_node: Option<Size>,
    /// Workers for ReplicaSets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_replicaset_syncs: Option<Size>,
    /// Workers for ReplicationControllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrent_rc_syncs: Option<Size>,
    /// Most creates or deletes in one sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_replicas: Option<Size>,
    /// Requests per second of the controller's client, events included. By default there is no limit.
    /// The flag replaces this rate and leaves kube-api-burst as it is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_api_qps: Option<Positive>,
    /// Requests above kube-api-qps that may be saved up: 30 by default. The flag replaces this number
    /// and leaves kube-api-qps as it is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_api_burst: Option<Size>,
    /// The client limit of a stock controller-manager: kube-api-qps 20, kube-api-burst 30. The flag
    /// replaces both, whatever is said here; --kube-api-qps or --kube-api-burst replace one of the two.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub upstream_defaults: bool,
    /// minReadySeconds of the generated ReplicaSets, with its unit: 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ready_seconds: Option<Time>,
    /// Feature gates by upstream's names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Whose behaviour the controller has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<BehaviourName>,
    /// From a pod's being bound to its being ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_startup_latency: Option<LatencyText>,
    /// From a pod's deletion to its being gone, its grace period at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_termination_latency: Option<LatencyText>,
    /// One API call of the controller, there and back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_latency: Option<LatencyText>,
    /// API calls of the controller that are refused with an internal error, by lot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_errors: Option<Percent>,
    /// From a write to the controller's seeing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_latency: Option<LatencyText>,
    /// From a pod's creation to its being bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_latency: Option<LatencyText>,
    /// How long steady parts last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Time>,
    /// Give up after so much time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Time>,
    /// Pods deleted from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub churn_rate: Option<Rate>,
    /// Pods added and removed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Size>,
}

impl ScenarioSettings {
    /// What is wrong with the client limit, if something is: the field and the mend.
    pub(super) fn check_client_limit(&self) -> Result<(), (String, String)> {
        let contradicts = |field: &str, means: String, says: String| {
            let problem = format!(
                "upstream-defaults means {field} {means}, and {field} says {says}: leave one of \
                 them out"
            );
            Err((format!("settings.{field}"), problem))
        };
        if !self.upstream_defaults {
            return Ok(());
        }
        if let Some(qps) = self.kube_api_qps.filter(|qps| qps.0 != UPSTREAM_QPS) {
            return contradicts("kube-api-qps", UPSTREAM_QPS.to_string(), qps.0.to_string());
        }
        let other = |burst: &Size| burst.0 != u64::from(UPSTREAM_BURST);
        if let Some(burst) = self.kube_api_burst.filter(other) {
            let (means, says) = (UPSTREAM_BURST.to_string(), burst.0.to_string());
            return contradicts("kube-api-burst", means, says);
        }
        Ok(())
    }
}
