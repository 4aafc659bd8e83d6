//! Whole small runs of the load generator on its virtual engine, where one seed is one run.

use std::sync::atomic::AtomicBool;

use podstorm_loadgen::run;
use podstorm_loadgen::settings::resolve::{Machine, SettingsRequest, resolve};

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
    run_of(&format!(
        "--scenario up-down --pods {pods} --replicasets {replicasets}"
    ))
}

/// Ten virtual seconds of `churn`, 100 pods deleted from outside in each; one call is one run.
pub fn churn(pods: u64, replicasets: u64) -> Operation {
    let size = format!("--pods {pods} --replicasets {replicasets}");
    run_of(&format!(
        "--scenario churn --duration 10s --churn-rate 100/s {size}"
    ))
}

fn run_of(flags: &str) -> Operation {
    let flags = format!("--engine virtual {flags}");
    let request = SettingsRequest::read(flags.split(' ')).expect("they are flags of loadgen run");
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
