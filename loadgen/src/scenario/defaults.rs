//! The settings that a scenario brings along, under the names of the flags of `loadgen run`. Flags on
//! the command line win over them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load_shape::Positive;
use super::text::{BehaviourName, EngineName, LatencyText, Percent, Rate, Size, Time};
use crate::settings::resolve::SettingsRequest;
use crate::settings::size::SizeRequest;

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
    /// Requests per second of the controller's client, events included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_api_qps: Option<Positive>,
    /// Requests above kube-api-qps that may be saved up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_api_burst: Option<Size>,
    /// The client limit of a stock controller-manager: 20 QPS, burst 30.
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
    /// What was asked for, and these settings where nothing was.
    pub(crate) fn beneath(&self, asked: &SettingsRequest) -> SettingsRequest {
        let size = |size: Option<Size>| size.map(|size| size.0);
        let time = |time: Option<Time>| time.map(|time| time.0);
        let latency = |latency: Option<LatencyText>| latency.map(|latency| latency.0);
        // A limit that is asked for replaces the scenario's whole.
        let limit_asked = asked.upstream_defaults
            || asked.kube_api_qps.is_some()
            || asked.kube_api_burst.is_some();
        let own_limit = !limit_asked;
        let named = |gate: &str| {
            let given = asked.feature_gates.iter().map(String::as_str);
            crate::settings::gates::names(given, gate)
        };
        let gates = self.feature_gates.iter();
        let gates = gates
            .filter(|(gate, _)| !named(gate))
            .map(|(gate, on)| format!("{gate}={on}"));
        SettingsRequest {
            scenario: asked.scenario.clone(),
            engine: asked.engine.or(self.engine.map(|engine| engine.0)),
            seed: asked.seed.or(self.seed),
            threads: asked.threads.or(size(self.threads)),
            size: self.size(&asked.size),
            concurrent_replicaset_syncs: asked
                .concurrent_replicaset_syncs
                .or(size(self.concurrent_replicaset_syncs)),
            concurrent_rc_syncs: asked.concurrent_rc_syncs.or(size(self.concurrent_rc_syncs)),
            burst_replicas: asked.burst_replicas.or(size(self.burst_replicas)),
            kube_api_qps: asked
                .kube_api_qps
                .or(self.kube_api_qps.map(|qps| qps.0).filter(|_| own_limit)),
            kube_api_burst: asked
                .kube_api_burst
                .or(size(self.kube_api_burst).filter(|_| own_limit)),
            upstream_defaults: asked.upstream_defaults || self.upstream_defaults && own_limit,
            // The generated ReplicaSets are what it applies to.
            min_ready_ns: asked
                .min_ready_ns
                .or(time(self.min_ready_seconds).filter(|_| asked.input.is_none())),
            feature_gates: gates.chain(asked.feature_gates.iter().cloned()).collect(),
            behaviour: asked.behaviour.or(self.behaviour.map(|name| name.0)),
            pod_startup_latency: asked
                .pod_startup_latency
                .or(latency(self.pod_startup_latency)),
            pod_termination_latency: asked
                .pod_termination_latency
                .or(latency(self.pod_termination_latency)),
            api_latency: asked.api_latency.or(latency(self.api_latency)),
            api_errors: asked.api_errors.or(self.api_errors.map(|share| share.0)),
            watch_latency: asked.watch_latency.or(latency(self.watch_latency)),
            scheduling_latency: asked
                .scheduling_latency
                .or(latency(self.scheduling_latency)),
            duration_ns: asked.duration_ns.or(time(self.duration)),
            time_limit_ns: asked.time_limit_ns.or(time(self.time_limit)),
            churn_pods_per_second: asked
                .churn_pods_per_second
                .or(self.churn_rate.map(|rate| rate.0)),
            burst_pods: asked.burst_pods.or(size(self.burst)),
            input: asked.input,
        }
    }

    /// Sizes: of pods, ReplicaSets and pods per ReplicaSet, two that are asked for decide, and the
    /// scenario's third is left aside. Beside input the files say what there is.
    fn size(&self, asked: &SizeRequest) -> SizeRequest {
        let own = |size: Option<Size>| size.map(|size| size.0);
        let three = [asked.pods, asked.replicasets, asked.pods_per_replicaset];
        let mut left = 2 - three.iter().flatten().count().min(2);
        let mut third = |asked: Option<u64>, scenarios: Option<Size>| {
            asked.or_else(|| {
                let taken = own(scenarios).filter(|_| left > 0);
                left -= usize::from(taken.is_some());
                taken
            })
        };
        SizeRequest {
            pods: third(asked.pods, self.pods),
            replicasets: third(asked.replicasets, self.replicasets),
            pods_per_replicaset: third(asked.pods_per_replicaset, self.pods_per_replicaset),
            nodes: asked.nodes.or(own(self.nodes)),
            namespaces: asked.namespaces.or(own(self.namespaces)),
            pods_per_node: asked.pods_per_node.or(own(self.pods_per_node)),
        }
    }
}
