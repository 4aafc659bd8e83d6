//! Whole small runs of the load generator on its virtual engine, where one seed is one run.

use std::sync::atomic::AtomicBool;

use podstorm_loadgen::run;
use podstorm_loadgen::scenario::Scenario;
use podstorm_loadgen::settings::EngineKind;
use podstorm_loadgen::settings::resolve::{Machine, SettingsRequest, resolve};
use podstorm_loadgen::size::SizeRequest;
use podstorm_loadgen::units::NS_PER_SECOND;

/// A run of `up-down` on the virtual engine; one call is one run.
pub fn up_down(pods: u64, replicasets: u64) -> impl FnMut() -> u64 + use<> {
    scenario(SettingsRequest {
        scenario: Scenario::built_in("up-down"),
        size: size(pods, replicasets),
        ..SettingsRequest::default()
    })
}

/// Ten virtual seconds of `churn`, 100 pods deleted from outside in each; one call is one run.
pub fn churn(pods: u64, replicasets: u64) -> impl FnMut() -> u64 + use<> {
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

fn scenario(request: SettingsRequest) -> impl FnMut() -> u64 + use<> {
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
    move || {
        let result = run::run(&settings, Vec::new(), &(), &AtomicBool::new(false))
            .expect("the settings can be run");
        assert_eq!(result.outcome.exit_code, 0, "the run did not converge");
        result.resource_version
    }
}
