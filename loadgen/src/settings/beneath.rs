//! What a scenario says, put beneath what was asked for.

use podstorm_sim::options::{UPSTREAM_BURST, UPSTREAM_QPS};

use super::resolve::SettingsRequest;
use crate::scenario::{LatencyText, ScenarioSettings, Size, Time};
use crate::size::SizeRequest;

impl ScenarioSettings {
    /// What was asked for, and these settings where nothing was.
    pub(crate) fn beneath(&self, asked: &SettingsRequest) -> SettingsRequest {
        let size = |size: Option<Size>| size.map(|size| size.0);
        let time = |time: Option<Time>| time.map(|time| time.0);
        let latency = |latency: Option<LatencyText>| latency.map(|latency| latency.0);
        let (kube_api_qps, kube_api_burst) = self.client_limit(asked);
        let named = |gate: &str| {
            let given = asked.feature_gates.iter().map(String::as_str);
            crate::gates::names(given, gate)
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
    use crate::size::InputSize;

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
