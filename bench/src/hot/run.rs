//! Whole small runs of the load generator on its virtual engine, on which a seed determines the
//! run.

use std::sync::atomic::AtomicBool;

use podstorm_loadgen::run;
use podstorm_loadgen::settings::Settings;

/// Returns a run of `up-down` on the virtual engine. One call is one run.
pub fn up_down(pods: u64, replicasets: u64) -> impl FnMut() -> u64 + use<> {
    run_of(&format!(
        "--scenario up-down --pods {pods} --replicasets {replicasets}"
    ))
}

/// Returns a run of ten virtual seconds of `churn`, with 100 external deletions per second. One
/// call is one run.
pub fn churn(pods: u64, replicasets: u64) -> impl FnMut() -> u64 + use<> {
    let size = format!("--pods {pods} --replicasets {replicasets}");
    run_of(&format!(
        "--scenario churn --duration 10s --churn-rate 100/s {size}"
    ))
}

fn run_of(flags: &str) -> impl FnMut() -> u64 + use<> {
    let flags = format!("--engine virtual {flags}");
    // The resources of the machine must not change the counts.
    let settings = Settings::of_flags(&flags, 1).expect("the flags are consistent");
    move || {
        let result = run::run(&settings, Vec::new(), &(), &AtomicBool::new(false));
        assert_eq!(result.outcome.exit_code, 0, "the run did not converge");
        result.resource_version
    }
}
