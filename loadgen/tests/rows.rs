//! Flags, gates, settings, schemas and metrics follow from the rows of controllers, for a process
//! with additional controllers. It is a single test, because a process has one registry.

#[path = "../examples/one_pod_each/workload.rs"]
mod workload;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use podstorm::controller::{ControllerType, Setup};
use podstorm::deployment::Deployments;
use podstorm::informer::Informers;
use podstorm::row::{ControllerRow, Gate, WorkersFlag};
use podstorm::ttl_after_finished::TtlAfterFinished;
use podstorm_loadgen::result::RunResult;
use podstorm_loadgen::run::run;
use podstorm_loadgen::scenario::Scenario;
use podstorm_loadgen::settings::Settings;
use podstorm_sim::clock::RealClock;
use podstorm_sim::engine::assemble;
use podstorm_sim::engine::registry::Registry;
use podstorm_sim::faults::StreamKind;
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::services::Controllers;
use workload::OnePodEach;

const CAREFUL: Gate = Gate::off("CarefulRunners");

/// The example's controller with a flag and a gate.
struct Runners;

impl ControllerType for Runners {
    type Workload = OnePodEach;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "runner-controller",
        alias: "runner",
        workers: Some(WorkersFlag {
            flag: "concurrent-runner-syncs",
            default: 3,
        }),
        gates: &[CAREFUL],
        ..*OnePodEach::ROW
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<OnePodEach> {
        assert!(!CAREFUL.is_on(&setup.feature_gates));
        OnePodEach::make(setup, informers)
    }
}

#[test]
fn all_that_is_said_of_controllers_follows_from_their_rows() {
    let registry = Registry::upstream()
        .without(Deployments::ROW.name)
        .without(TtlAfterFinished::ROW.name)
        .with::<Runners>();
    registry.install().expect("no registry is installed yet");

    // Flags with their defaults, and gates.
    let settings = |flags: &str| Settings::of_flags(flags, 2);
    let workers = |settings: &Settings| settings.controller.workers.get(Runners::ROW);
    assert_eq!(workers(&settings("").unwrap()), 3);
    let set = settings("--concurrent-runner-syncs 8").unwrap();
    assert_eq!(workers(&set), 8);
    for flag in [
        "--concurrent-deployment-syncs",
        "--concurrent-ttl-after-finished-syncs",
    ] {
        let refused = settings(&format!("{flag} 8")).unwrap_err();
        assert!(refused.contains("unexpected argument"), "{refused}");
    }
    assert!(!settings("").unwrap().controller.feature_gates["CarefulRunners"]);
    let on = settings("--feature-gates CarefulRunners=true").unwrap();
    assert!(CAREFUL.is_on(&on.controller.feature_gates));

    // Members of scenario files.
    let file = |flag: &str| {
        let text = format!(
            "name: x\nquestion: What?\nsettings:\n  {flag}: 7\nphases:\n- name: a\n  until: done\n"
        );
        Scenario::from_yaml(&text, "x.yaml").map_err(|error| error.to_string())
    };
    let _read = file("concurrent-runner-syncs");
    for member in [
        "concurrent-deployment-syncs",
        "concurrent-ttl-after-finished-syncs",
    ] {
        let refused = file(member).unwrap_err();
        assert!(refused.contains("x.yaml:4:3: unknown field"), "{refused}");
        assert!(refused.contains("`concurrent-runner-syncs`"), "{refused}");
    }

    // Schemas.
    let schema = schemars::schema_for!(RunResult).to_value().to_string();
    for (name, is_there) in [
        ("concurrent_runner_syncs", true),
        ("concurrent-runner-syncs", true),
        ("concurrent_deployment_syncs", false),
        ("concurrent-deployment-syncs", false),
        ("concurrent_ttl_after_finished_syncs", false),
        ("concurrent-ttl-after-finished-syncs", false),
    ] {
        assert_eq!(schema.contains(name), is_there, "{name}");
    }

    // The names of controllers, and of the watches that faults affect.
    let rows = podstorm_sim::rows::Rows::installed();
    assert!(Controllers::from_words(rows, &["*", "-runner"]).is_ok());
    for name in ["deployment", "ttl-after-finished"] {
        let refused = Controllers::from_words(rows, &[name]).unwrap_err();
        assert!(refused.to_string().contains("runner-controller (runner)"));
    }
    let streams = StreamKind::all()
        .iter()
        .map(StreamKind::to_string)
        .collect::<Vec<_>>();
    assert_eq!(
        streams,
        [
            "pods",
            "replica-sets",
            "replication-controllers",
            "jobs",
            "stateful-sets",
            "persistent-volume-claims",
            "controller-revisions",
            "config-maps"
        ]
    );

    // Metrics of all running controllers.
    let options = SimOptions::new(EngineKind::Virtual, 1);
    let (_, runners) = assemble(options, RealClock::start(), None, None, None);
    let families = runners.iter().flat_map(|runner| runner.families());
    let metrics: Vec<&str> = families.map(|family| family.name).collect();
    let has = |start: &str| metrics.iter().any(|name| name.starts_with(start));
    assert!(has("replicaset_controller_") && !has("ttl_after_finished_controller_"));

    // A run without it, and its result.
    let settings = settings("--engine virtual --scenario up-down --pods 40").unwrap();
    let result = run(&settings, Vec::new(), &(), &AtomicBool::new(false));
    let result = serde_json::to_value(&result).unwrap();
    let controller = &result["settings"]["controller"];
    assert_eq!(controller["concurrent_runner_syncs"], 3);
    for member in [
        "concurrent_deployment_syncs",
        "concurrent_ttl_after_finished_syncs",
    ] {
        assert_eq!(controller.get(member), None);
    }
    assert_eq!(result["outcome"]["converged"], true);
}
