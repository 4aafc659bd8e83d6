//! What flags ask for, and what is made of it or refused.

use super::*;

const CONSISTENCY_GATE: &str = "StaleControllerConsistencyReplicaSet";

const MACHINE: Machine = Machine {
    cpus: 4,
    memory_bytes: Some(16_000_000_000),
};

fn problem(request: SettingsRequest) -> String {
    resolve(&request, MACHINE).unwrap_err().to_string()
}

#[test]
fn nothing_said_is_up_down_on_every_core_without_limits() {
    let settings = resolve(&SettingsRequest::default(), MACHINE).unwrap();
    assert_eq!(settings.scenario, Scenario::up_down());
    assert_eq!(
        (settings.engine, settings.threads),
        (EngineKind::Threads, 4)
    );
    assert_eq!(settings.size.pods, 100_000);
    assert_eq!(settings.controller.kube_api_qps, None);
    assert_eq!(settings.controller.concurrent_replicaset_syncs, 5);
    assert_eq!(settings.controller.burst_replicas, 500);
    assert!(settings.latency.api.is_zero());
}

#[test]
fn upstream_defaults_are_a_client_limit() {
    let request = SettingsRequest {
        upstream_defaults: true,
        ..Default::default()
    };
    let settings = resolve(&request, MACHINE).unwrap();
    assert_eq!(settings.controller.kube_api_qps, Some(20.0));
    assert_eq!(settings.controller.kube_api_burst, 30);
    let agreeing = SettingsRequest {
        kube_api_qps: Some(20.0),
        ..request.clone()
    };
    assert!(resolve(&agreeing, MACHINE).is_ok());
    let other = SettingsRequest {
        kube_api_qps: Some(50.0),
        ..request
    };
    assert!(problem(other).contains("leave one of them out"));
}

#[test]
fn contradictions_are_refused() {
    let none = SettingsRequest::default;
    let virtual_engine = Some(EngineKind::Virtual);
    for (request, word) in [
        (
            SettingsRequest {
                engine: virtual_engine,
                threads: Some(2),
                ..none()
            },
            "--threads",
        ),
        (
            SettingsRequest {
                threads: Some(0),
                ..none()
            },
            "at least 1",
        ),
        (
            SettingsRequest {
                kube_api_burst: Some(2),
                ..none()
            },
            "--kube-api-qps",
        ),
        (
            SettingsRequest {
                burst_pods: Some(5),
                ..none()
            },
            "--burst",
        ),
        (
            SettingsRequest {
                churn_pods_per_second: Some(5.0),
                ..none()
            },
            "--churn-rate",
        ),
        (
            SettingsRequest {
                duration_ns: Some(5),
                ..none()
            },
            "--duration",
        ),
        (
            SettingsRequest {
                time_limit_ns: Some(0),
                ..none()
            },
            "--time-limit",
        ),
        (
            SettingsRequest {
                api_latency: Some(Latency::Constant(i64::MAX)),
                ..none()
            },
            "--api-latency of",
        ),
        (
            SettingsRequest {
                min_ready_ns: Some(2_147_483_647 * NS_PER_SECOND),
                ..none()
            },
            "raise --time-limit",
        ),
        (
            SettingsRequest {
                min_ready_ns: Some(1_500_000_000),
                ..none()
            },
            "whole seconds",
        ),
        (
            SettingsRequest {
                scenario: Some(Scenario::manifests()),
                ..none()
            },
            "-f FILE",
        ),
        (
            SettingsRequest {
                scenario: Scenario::built_in("adoption"),
                input: Some(InputSize::default()),
                ..none()
            },
            "can't be used with -f",
        ),
        (
            SettingsRequest {
                feature_gates: vec!["X=true".into()],
                ..none()
            },
            "known are",
        ),
        (
            SettingsRequest {
                size: SizeRequest {
                    pods: Some(1_000_000_000),
                    ..SizeRequest::default()
                },
                ..none()
            },
            "of memory",
        ),
    ] {
        let problem = problem(request);
        assert!(problem.contains(word), "{problem}");
    }
}

#[test]
fn rates_that_never_or_always_let_through_are_refused_with_the_range() {
    for qps in [1e-300, 1e-12, 0.0009, 1.1e6, 1e39] {
        let problem = problem(SettingsRequest {
            kube_api_qps: Some(qps),
            ..SettingsRequest::default()
        });
        assert!(problem.contains("from 0.001"), "{problem}");
        assert!(problem.contains("to 1000000"), "{problem}");
    }
    for rate in [1e-13, 1e9] {
        let problem = problem(SettingsRequest {
            scenario: Scenario::built_in("churn"),
            churn_pods_per_second: Some(rate),
            ..SettingsRequest::default()
        });
        assert!(problem.contains("from 1/h to 1000k/s"), "{problem}");
    }
    for (qps, rate) in [(0.001, 1.0 / 3_600.0), (1e6, 1e6)] {
        let request = SettingsRequest {
            scenario: Scenario::built_in("churn"),
            kube_api_qps: Some(qps),
            churn_pods_per_second: Some(rate),
            ..SettingsRequest::default()
        };
        assert!(resolve(&request, MACHINE).is_ok());
    }
}

#[test]
fn a_stale_watch_is_small_virtual_and_without_the_gate_unless_said_otherwise() {
    let request = SettingsRequest {
        scenario: Scenario::built_in("stale-watch"),
        ..SettingsRequest::default()
    };
    let settings = resolve(&request, MACHINE).unwrap();
    assert_eq!(settings.engine, EngineKind::Virtual);
    assert_eq!((settings.size.pods, settings.size.replicasets), (2_000, 40));
    assert!(settings.size.nodes * 110 >= 4_000);
    assert!(!settings.controller.gate(CONSISTENCY_GATE));
    let said = SettingsRequest {
        feature_gates: vec![format!("PodDeletionCost=true,{CONSISTENCY_GATE}=true")],
        size: SizeRequest {
            pods: Some(10),
            replicasets: Some(2),
            ..SizeRequest::default()
        },
        ..request.clone()
    };
    let settings = resolve(&said, MACHINE).unwrap();
    assert!(settings.controller.gate(CONSISTENCY_GATE));
    assert_eq!((settings.size.pods, settings.size.replicasets), (10, 2));
    let threads = SettingsRequest {
        engine: Some(EngineKind::Threads),
        ..request
    };
    assert!(problem(threads).contains("only simulated time"));
}

#[test]
fn the_virtual_engine_has_one_thread_and_a_day() {
    let request = SettingsRequest {
        engine: Some(EngineKind::Virtual),
        ..SettingsRequest::default()
    };
    let settings = resolve(&request, MACHINE).unwrap();
    assert_eq!(settings.threads, 1);
    assert_eq!(settings.time_limit_ns, 86_400 * NS_PER_SECOND);
}
