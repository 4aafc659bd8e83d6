//! Whole small runs of the load generator on its virtual engine, where one seed is one run.

use std::sync::atomic::AtomicBool;

use podstorm_loadgen::run;
use podstorm_loadgen::scenario::Scenario;
use podstorm_loadgen::settings::EngineKind;
use podstorm_loadgen::settings::resolve::{Machine, SettingsRequest, resolve};
use podstorm_loadgen::size::SizeRequest;
use podstorm_loadgen::units::NS_PER_SECOND;

use super::{HotPath, Operation};

pub(super) fn paths() -> Vec<HotPath> {
    vec![
        HotPath {
            id: "run/up-down-virtual/3000",
            what: "a whole run: 60 ReplicaSets from 0 to 3,000 pods, to half, to 0",
            calls: 1,
            allocation_free: false,
            prepare: || up_down(3_000, 60),
        },
        HotPath {
            id: "run/churn-virtual/1000",
            what: "a whole run: 20 ReplicaSets of 50 pods, 100 pods a second deleted for 10 s",
            calls: 1,
            allocation_free: false,
            prepare: || churn(1_000, 20),
        },
    ]
}

/// A run of `up-down` on the virtual engine; one call is one run.
pub fn up_down(pods: u64, replicasets: u64) -> Operation {
    scenario(SettingsRequest {
        scenario: Scenario::built_in("up-down"),
        size: size(pods, replicasets),
        ..SettingsRequest::default()
    })
}

/// Ten virtual seconds of `churn`, 100 pods deleted from outside in each; one call is one run.
pub fn churn(pods: u64, replicasets: u64) -> Operation {
    scenario(SettingsRequest {
        scenario: Scenario::built_in("churn"),
        duration_ns: Some(10 * NS_PER_SECOND),
        churn_pods_per_second: Some(100.0),
        size: size(pods, replicasets),
        ..SettingsRequest::default()
    })
}

fn size(pods: u64, replicasets: u64) -> SizeRequest {
    SizeRequest {
        pods: Some(pods),
        replicasets: Some(replicasets),
        ..SizeRequest::default()
    }
}

fn scenario(request: SettingsRequest) -> Operation {
    let request = SettingsRequest {
        engine: Some(EngineKind::Virtual),
        ..request
    };
    // What the machine offers must not change what is counted.
    let machine = Machine {
        cpus: 1,
        memory_bytes: None,
    };
    let settings = resolve(&request, machine).expect("the settings agree with each other");
    Box::new(move || {
        let result = run::run(&settings, Vec::new(), &(), &AtomicBool::new(false))
            .expect("the settings can be run");
        assert_eq!(result.outcome.exit_code, 0, "the run did not converge");
        result.resource_version
    })
}
