//! Tests of the settings or errors that requests from flags and scenarios result in.

use super::*;
use podstorm::controller::ControllerType as _;
use podstorm::replicaset::{ReplicaSets, STALE_CONSISTENCY};

const CONSISTENCY_GATE: &str = "StaleControllerConsistencyReplicaSet";

const MACHINE: Machine = Machine {
    cpus: 4,
    memory_bytes: Some(16_000_000_000),
};

/// Parses flags. The default scenario here has no settings of its own.
fn request(flags: &str) -> SettingsRequest {
    let names_one = flags.contains("--scenario") || flags.contains("-f ");
    let scenario = if names_one { "" } else { "--scenario up-down" };
    let all = format!("{flags} {scenario}");
    SettingsRequest::read(all.split_whitespace()).unwrap_or_else(|error| panic!("{flags}: {error}"))
}

fn resolved(flags: &str) -> Settings {
    resolve(&request(flags), MACHINE).unwrap_or_else(|error| panic!("{flags}: {error}"))
}

fn problem(request: &SettingsRequest) -> String {
    resolve(request, MACHINE).unwrap_err().to_string()
}

/// Returns a scenario with these settings and steps.
fn own(settings: &str, step: &str) -> Result<Arc<Scenario>, String> {
    let text = format!(
        "name: own\nquestion: Which?\nsettings: {{{settings}}}\nphases:\n- {{name: all, steps: [{step}]}}\n"
    );
    let scenario = Scenario::from_yaml(&text, "own.yaml");
    scenario.map(Arc::new).map_err(|error| error.to_string())
}

/// Returns QPS and burst for a scenario with these settings and for these flags.
fn limit(settings: &str, flags: &str) -> Result<(Option<f64>, u32), String> {
    let asked = SettingsRequest {
        scenario: Some(own(settings, "createReplicaSets: {replicas: 1}")?),
        ..request(flags)
    };
    let settings = resolve(&asked, MACHINE).map_err(|error| error.to_string())?;
    let controller = settings.controller;
    Ok((controller.kube_api_qps, controller.kube_api_burst))
}

fn replica_set_workers(settings: &Settings) -> usize {
    settings.controller.workers.get(ReplicaSets::ROW)
}

#[test]
fn the_default_is_a_stock_cluster_with_alternatives() {
    let request = SettingsRequest::default();
    let settings = resolve(&request, MACHINE).unwrap();
    assert_eq!(settings.scenario, Scenario::by_default());
    assert_eq!(settings.engine, EngineKind::Virtual);
    assert_eq!(
        (settings.size.pods, settings.size.workloads()),
        (100_000, 2_000)
    );
    assert_eq!(settings.controller.kube_api_qps, Some(UPSTREAM_QPS));
    assert!(!settings.latency.api.is_zero());
    let others = |flags: &str| {
        let request = SettingsRequest::read(flags.split_whitespace()).unwrap();
        let others = alternatives(&request, MACHINE).unwrap();
        let told = others.into_iter().map(|(with, settings)| {
            assert_eq!(
                settings.latency,
                self::resolved("--scenario scale-out").latency
            );
            (
                with,
                settings.controller.kube_api_qps,
                replica_set_workers(&settings),
            )
        });
        told.collect::<Vec<_>>()
    };
    let quick = ("no client limit, 20 workers".to_owned(), Some(1e6), 20);
    let all = [
        ("100 QPS".to_owned(), Some(100.0), 5),
        ("500 QPS".to_owned(), Some(500.0), 5),
        quick,
    ];
    assert_eq!(others(""), all);
    // A flag disables the alternatives that would change it.
    assert_eq!(others("--concurrent-replicaset-syncs 9").len(), 2);
    assert_eq!(others("--kube-api-qps 50"), []);
    assert_eq!(others("--upstream-defaults"), []);
    // In real time, each alternative would take as long as the run.
    assert_eq!(others("--engine threads"), []);
    assert_eq!(others("--scenario up-down"), []);
}

#[test]
fn up_down_runs_on_every_core_without_limits() {
    let settings = resolved("--scenario up-down");
    assert_eq!(settings.engine, EngineKind::Threads);
    assert_eq!(settings.threads, 4);
    assert_eq!(settings.size.pods, 100_000);
    assert_eq!(settings.controller.kube_api_qps, None);
    assert_eq!(replica_set_workers(&settings), 5);
    assert_eq!(settings.controller.burst_replicas, 500);
    assert!(settings.latency.api.is_zero());
}

#[test]
fn each_client_limit_flag_replaces_one_number() {
    let own = "kube-api-qps: 100, kube-api-burst: 200";
    let (qps, burst) = ("--kube-api-qps 50", "--kube-api-burst 7");
    let both = "--kube-api-qps 50 --kube-api-burst 7";
    let upstream = "--upstream-defaults";
    // Redundant flags that mean the same.
    let and_qps = "--upstream-defaults --kube-api-qps 20";
    let and_both = "--upstream-defaults --kube-api-qps 20 --kube-api-burst 30";
    let own_and_both = "upstream-defaults: true, kube-api-qps: 20, kube-api-burst: 30";
    for (settings, flags, expected) in [
        ("", "", (None, 30)),
        ("", qps, (Some(50.0), 30)),
        ("", both, (Some(50.0), 7)),
        ("", upstream, (Some(20.0), 30)),
        ("", and_qps, (Some(20.0), 30)),
        (own, "", (Some(100.0), 200)),
        (own, qps, (Some(50.0), 200)),
        (own, burst, (Some(100.0), 7)),
        (own, both, (Some(50.0), 7)),
        (own, upstream, (Some(20.0), 30)),
        (own, and_both, (Some(20.0), 30)),
        ("kube-api-qps: 100", "", (Some(100.0), 30)),
        ("kube-api-qps: 100", burst, (Some(100.0), 7)),
        ("kube-api-burst: 200", qps, (Some(50.0), 200)),
        ("kube-api-burst: 200", upstream, (Some(20.0), 30)),
        ("upstream-defaults: true", "", (Some(20.0), 30)),
        ("upstream-defaults: true", qps, (Some(50.0), 30)),
        ("upstream-defaults: true", burst, (Some(20.0), 7)),
        ("upstream-defaults: true", upstream, (Some(20.0), 30)),
        (own_and_both, burst, (Some(20.0), 7)),
    ] {
        let found = limit(settings, flags);
        assert_eq!(found, Ok(expected), "{settings} with {flags}");
    }
}

#[test]
fn contradictory_client_limits_are_refused() {
    for (settings, flags, words) in [
        (
            "upstream-defaults: true, kube-api-qps: 50",
            "",
            "settings.kube-api-qps: upstream-defaults sets kube-api-qps to 20, but kube-api-qps \
             is 50: use only one of them",
        ),
        (
            "upstream-defaults: true, kube-api-burst: 50",
            "--kube-api-qps 5 --kube-api-burst 5",
            "settings.kube-api-burst: upstream-defaults sets kube-api-burst to 30",
        ),
        ("kube-api-burst: 200", "", "limits nothing without a rate"),
        (
            "kube-api-qps: 100",
            "--kube-api-qps 50 --upstream-defaults",
            "--upstream-defaults sets --kube-api-qps to 20, but --kube-api-qps is 50: use only one of \
             them",
        ),
    ] {
        let problem = limit(settings, flags).expect_err(settings);
        assert!(problem.contains(words), "{settings}: {problem}");
    }
}

#[test]
fn with_files_a_scenario_sets_only_pods_per_node() {
    let input = InputSize {
        pods: 10,
        owners: 1,
        nodes: 1,
        places: 20,
        ..InputSize::default()
    };
    let sized = "pods: 300, replicasets: 3, nodes: 40, namespaces: 7, pods-per-node: 9";
    for scenario in [
        own(sized, "loadInput").unwrap(),
        Scenario::built_in("flapping").unwrap(),
    ] {
        let request = SettingsRequest {
            scenario: Some(scenario),
            input: Some(input.clone()),
            ..SettingsRequest::default()
        };
        let size = resolve(&request, MACHINE).unwrap().size;
        assert_eq!((size.pods, size.workloads(), size.nodes), (10, 1, 0));
        assert!([9, 110].contains(&size.pods_per_node));
    }
}

#[test]
fn contradictions_are_refused() {
    for (flags, word) in [
        ("--engine virtual --threads 2", "--threads"),
        ("--threads 5k", "at most 4096"),
        ("--kube-api-burst 2", "--kube-api-qps"),
        ("--burst 5", "--burst"),
        ("--churn-rate 5/s", "--churn-rate"),
        ("--duration 5ns", "--duration"),
        ("--time-limit 0s", "--time-limit"),
        ("--api-latency 9223372036854775807ns", "--api-latency of"),
        ("--min-ready-seconds 2147483647s", "raise --time-limit"),
        ("--min-ready-seconds 1500ms", "whole seconds"),
        ("--scenario manifests", "-f FILE"),
        ("--feature-gates X=true", "known gates:"),
        ("--pods 1000m", "of memory"),
        ("--max-surge 10%", "generates none without --deployments"),
        (
            "--scenario deployment-rollout --progress-deadline 1500ms",
            "whole seconds",
        ),
        (
            "--scenario deployment-rollout --progress-deadline 5s --min-ready-seconds 5s",
            "more than --min-ready-seconds",
        ),
    ] {
        let problem = problem(&request(flags));
        assert!(problem.contains(word), "{flags}: {problem}");
    }
    for flags in [
        "--scenario adoption",
        "--replicasets 5",
        "--max-surge 1",
        "--pods 5",
    ] {
        let beside_files = request(flags).with_input(Some(InputSize::default()));
        assert!(
            problem(&beside_files).contains("can't be used with -f"),
            "{flags}"
        );
    }
}

#[test]
fn rates_out_of_range_are_refused_with_the_range() {
    for qps in ["1e-300", "1e-12", "0.0009", "1.1e6", "1e39"] {
        let problem = problem(&request(&format!("--kube-api-qps {qps}")));
        assert!(problem.contains("from 0.001"), "{problem}");
        assert!(problem.contains("to 1000000"), "{problem}");
    }
    for rate in ["0.0000000000001/s", "1000000k/s"] {
        let problem = problem(&request(&format!("--scenario churn --churn-rate {rate}")));
        assert!(problem.contains("from 1/h to 1000k/s"), "{problem}");
    }
    for (qps, rate) in [("0.001", "1/h"), ("1e6", "1000k/s")] {
        resolved(&format!(
            "--scenario churn --kube-api-qps {qps} --churn-rate {rate}"
        ));
    }
}

#[test]
fn stale_watch_is_small_virtual_and_without_the_gate() {
    let settings = resolved("--scenario stale-watch");
    assert_eq!(settings.engine, EngineKind::Virtual);
    assert_eq!((settings.size.pods, settings.size.workloads()), (2_000, 40));
    assert!(settings.size.nodes * 110 >= 4_000);
    assert!(!STALE_CONSISTENCY.is_on(&settings.controller.feature_gates));
    let gates = format!("PodDeletionCost=true,{CONSISTENCY_GATE}=true");
    let settings = resolved(&format!(
        "--scenario stale-watch --feature-gates {gates} --pods 10 --replicasets 2"
    ));
    assert!(STALE_CONSISTENCY.is_on(&settings.controller.feature_gates));
    assert_eq!((settings.size.pods, settings.size.workloads()), (10, 2));
    let threads = request("--scenario stale-watch --engine threads");
    assert!(problem(&threads).contains("only simulated time"));
}

#[test]
fn the_virtual_engine_defaults_to_one_thread_and_a_day() {
    let settings = resolved("--engine virtual");
    assert_eq!(settings.threads, 1);
    assert_eq!(settings.time_limit_ns, 86_400 * NS_PER_SECOND);
}
