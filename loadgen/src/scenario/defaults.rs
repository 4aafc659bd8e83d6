//! The settings that a scenario brings along, under the names of the flags of `loadgen run`. Flags on
//! the command line win over them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load_shape::Positive;
use super::text::{BehaviourName, EngineName, LatencyText, Percent, Rate, Size, Time};
use crate::settings::resolve::{SettingsRequest, UPSTREAM_BURST, UPSTREAM_QPS};
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
    /// What was asked for, and these settings where nothing was.
    pub(crate) fn beneath(&self, asked: &SettingsRequest) -> SettingsRequest {
        let size = |size: Option<Size>| size.map(|size| size.0);
        let time = |time: Option<Time>| time.map(|time| time.0);
        let latency = |latency: Option<LatencyText>| latency.map(|latency| latency.0);
        let (kube_api_qps, kube_api_burst) = self.client_limit(asked);
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
            size: self.size(&asked.size, asked.input.is_some()),
            concurrent_replicaset_syncs: asked
                .concurrent_replicaset_syncs
                .or(size(self.concurrent_replicaset_syncs)),
            concurrent_rc_syncs: asked.concurrent_rc_syncs.or(size(self.concurrent_rc_syncs)),
            burst_replicas: asked.burst_replicas.or(size(self.burst_replicas)),
            kube_api_qps,
            kube_api_burst,
            upstream_defaults: asked.upstream_defaults,
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

    /// Rate and burst: each flag replaces what it names, and `--upstream-defaults` names both.
    fn client_limit(&self, asked: &SettingsRequest) -> (Option<f64>, Option<u64>) {
        if asked.upstream_defaults {
            return (asked.kube_api_qps, asked.kube_api_burst);
        }
        let stock = self.upstream_defaults;
        let own_qps = self.kube_api_qps.map(|qps| qps.0);
        let own_burst = self.kube_api_burst.map(|burst| burst.0);
        (
            asked
                .kube_api_qps
                .or(own_qps)
                .or(stock.then_some(UPSTREAM_QPS)),
            asked
                .kube_api_burst
                .or(own_burst)
                .or(stock.then_some(u64::from(UPSTREAM_BURST))),
        )
    }

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

    /// Sizes: of pods, ReplicaSets and pods per ReplicaSet, two that are asked for decide, and the
    /// scenario's third is left aside. Beside input the files say what there is, nodes included.
    fn size(&self, asked: &SizeRequest, has_input: bool) -> SizeRequest {
        let own = |size: Option<Size>| size.map(|size| size.0);
        let pods_per_node = asked.pods_per_node.or(own(self.pods_per_node));
        if has_input {
            return SizeRequest {
                pods_per_node,
                ..*asked
            };
        }
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
            pods_per_node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::settings::resolve::{Machine, resolve};
    use crate::settings::size::InputSize;

    /// QPS and burst of a scenario with such settings under such flags: QPS, burst, upstream's.
    fn limit(
        settings: &str,
        (kube_api_qps, kube_api_burst, upstream_defaults): (Option<f64>, Option<u64>, bool),
    ) -> Result<(Option<f64>, u32), String> {
        let text = format!(
            "name: own\nquestion: Which?\nsettings: {{{settings}}}\nphases:\n\
             - {{name: all, steps: [createReplicaSets: {{replicas: 1}}]}}\n"
        );
        let scenario = Scenario::from_yaml(&text, "own.yaml").map_err(|error| error.to_string())?;
        let request = SettingsRequest {
            scenario: Some(scenario.into()),
            kube_api_qps,
            kube_api_burst,
            upstream_defaults,
            ..SettingsRequest::default()
        };
        let machine = Machine {
            cpus: 1,
            memory_bytes: None,
        };
        let settings = resolve(&request, machine).map_err(|error| error.to_string())?;
        let controller = settings.controller;
        Ok((controller.kube_api_qps, controller.kube_api_burst))
    }

    #[test]
    fn each_flag_of_the_client_limit_replaces_what_it_names() {
        let own = "kube-api-qps: 100, kube-api-burst: 200";
        let (none, qps, burst) = ((None, None, false), Some(50.0), Some(7));
        for (settings, flags, expected) in [
            ("", none, (None, 30)),
            ("", (qps, None, false), (Some(50.0), 30)),
            ("", (qps, burst, false), (Some(50.0), 7)),
            ("", (None, None, true), (Some(20.0), 30)),
            (own, none, (Some(100.0), 200)),
            (own, (qps, None, false), (Some(50.0), 200)),
            (own, (None, burst, false), (Some(100.0), 7)),
            (own, (qps, burst, false), (Some(50.0), 7)),
            (own, (None, None, true), (Some(20.0), 30)),
            (own, (Some(20.0), Some(30), true), (Some(20.0), 30)),
            ("kube-api-qps: 100", none, (Some(100.0), 30)),
            ("kube-api-qps: 100", (None, burst, false), (Some(100.0), 7)),
            ("kube-api-burst: 200", (qps, None, false), (Some(50.0), 200)),
            ("kube-api-burst: 200", (None, None, true), (Some(20.0), 30)),
            ("upstream-defaults: true", none, (Some(20.0), 30)),
            (
                "upstream-defaults: true",
                (qps, None, false),
                (Some(50.0), 30),
            ),
            (
                "upstream-defaults: true",
                (None, burst, false),
                (Some(20.0), 7),
            ),
            (
                "upstream-defaults: true",
                (None, None, true),
                (Some(20.0), 30),
            ),
            (
                "upstream-defaults: true, kube-api-qps: 20, kube-api-burst: 30",
                (None, burst, false),
                (Some(20.0), 7),
            ),
        ] {
            assert_eq!(
                limit(settings, flags),
                Ok(expected),
                "{settings} with {flags:?}"
            );
        }
    }

    #[test]
    fn beside_files_a_scenario_says_nothing_of_the_size_but_the_room_on_a_node() {
        let input = InputSize {
            pods: 10,
            owners: 1,
            nodes: 1,
            places: 20,
            ..InputSize::default()
        };
        let text = "name: own\nquestion: Which?\nsettings: {pods: 300, replicasets: 3, nodes: 40, \
                    namespaces: 7, pods-per-node: 9}\nphases:\n- {name: all, steps: [loadInput]}\n";
        for scenario in [
            Scenario::from_yaml(text, "own.yaml").unwrap().into(),
            Scenario::built_in("flapping").unwrap(),
        ] {
            let request = SettingsRequest {
                scenario: Some(scenario),
                input: Some(input),
                ..SettingsRequest::default()
            };
            let machine = Machine {
                cpus: 1,
                memory_bytes: None,
            };
            let size = resolve(&request, machine).unwrap().size;
            assert_eq!((size.pods, size.replicasets, size.nodes), (10, 1, 0));
            assert!([9, 110].contains(&size.pods_per_node));
        }
    }

    #[test]
    fn client_limits_that_contradict_themselves_are_refused() {
        let none = (None, None, false);
        for (settings, flags, words) in [
            (
                "upstream-defaults: true, kube-api-qps: 50",
                none,
                "settings.kube-api-qps: upstream-defaults means kube-api-qps 20, and kube-api-qps \
                 says 50: leave one of them out",
            ),
            (
                "upstream-defaults: true, kube-api-burst: 50",
                (Some(5.0), Some(5), false),
                "settings.kube-api-burst: upstream-defaults means kube-api-burst 30",
            ),
            ("kube-api-burst: 200", none, "limits nothing without a rate"),
            (
                "kube-api-qps: 100",
                (Some(50.0), None, true),
                "--upstream-defaults means --kube-api-qps 20",
            ),
        ] {
            let problem = limit(settings, flags).expect_err(settings);
            assert!(problem.contains(words), "{settings}: {problem}");
        }
    }
}
