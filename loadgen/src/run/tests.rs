//! Tests of whole runs of small clusters on both engines.

use std::sync::atomic::{AtomicBool, Ordering};

use podstorm::policy::Behaviour;
use podstorm_objects::{Now, Pod};
use podstorm_sim::clock::RealClock;
use podstorm_sim::options::WorkerCounts;
use podstorm_sim::rows::Rows;

use super::{Engine, Observer, Progress, run, virtual_time};
use crate::result::{Phase, RunResult, SlowWorkload};
use crate::scenario::Scenario;
use crate::settings::{EngineKind, Latency, LatencySettings, Settings};

const SECOND_NS: i64 = 1_000_000_000;

/// The scenarios that run fast on a small cluster.
pub(super) const SCENARIOS: [&str; 7] = [
    "up-down",
    "scale-up",
    "scale-down",
    "burst",
    "churn",
    "adoption",
    "cold-start",
];

fn settings(scenario: &str, engine: EngineKind) -> Settings {
    let flags = format!(
        "--scenario up-down --engine {} --seed 7 --pods 300 --replicasets 12 --nodes 20 --namespaces 3 --time-limit 1h",
        engine.name()
    );
    Settings {
        scenario: Scenario::built_in(scenario).expect("a built-in scenario"),
        duration_ns: 20 * SECOND_NS,
        churn_pods_per_second: 5.0,
        burst_pods: 50,
        ..Settings::of_flags(&flags, 2).expect("the flags are consistent")
    }
}

/// Returns settings with a value for every latency, and with the limits of a stock
/// controller-manager.
fn slow(scenario: &str) -> Settings {
    let mut settings = settings(scenario, EngineKind::Virtual);
    settings.controller.kube_api_qps = Some(20.0);
    settings.latency = LatencySettings {
        pod_startup: Latency::Lognormal {
            p50: SECOND_NS,
            p99: 5 * SECOND_NS,
        },
        pod_termination: Latency::Uniform(SECOND_NS, 40 * SECOND_NS),
        api: Latency::Lognormal {
            p50: 3_000_000,
            p99: 40_000_000,
        },
        watch: Latency::Uniform(1_000_000, 50_000_000),
        scheduling: Latency::Constant(10_000_000),
    };
    settings
}

fn run_ok(settings: &Settings) -> RunResult {
    let result = run(settings, Vec::new(), &(), &AtomicBool::new(false));
    assert_eq!(result.outcome.exit_code, 0, "{:#?}", result.outcome);
    assert!(result.outcome.converged);
    assert_eq!(result.excess_pods_created, 0);
    result
}

fn json(mut result: RunResult) -> String {
    result.host = None;
    serde_json::to_string_pretty(&result).expect("results can be serialized")
}

#[test]
fn up_down_writes_every_step_of_every_pod_once() {
    for engine in [EngineKind::Virtual, EngineKind::Threads] {
        let result = run_ok(&settings("up-down", engine));
        let pods = &result.pods;
        let counts = [pods.created, pods.bound, pods.ready, pods.deleted];
        assert_eq!((counts, pods.peak), ([300; 4], 300), "{engine:?}");
        assert_eq!(result.api_calls["create pods 201"], 300);
        assert_eq!(result.api_calls["delete pods 200"], 300);
        assert_eq!(
            result.convergence_seconds.count,
            3 * 12,
            "12 sets in the 3 phases after the setup"
        );
        assert_eq!(result.pod_ready_seconds.count, 300);
        let changes = |phase: &Phase| (phase.pods_created, phase.pods_deleted);
        let phases: Vec<(u64, u64)> = result.phases.iter().map(changes).collect();
        assert_eq!(phases, [(0, 0), (300, 0), (0, 156), (0, 144)]);
        assert_eq!(result.wasted_work.pods_never_ready, 0);
        let revisions: u64 = result.writes.values().sum();
        assert_eq!(revisions, result.resource_version);
    }
}

#[test]
fn every_scenario_succeeds_on_both_engines_and_in_both_behaviours() {
    for (engine, scenario) in [EngineKind::Virtual, EngineKind::Threads]
        .into_iter()
        .flat_map(|engine| SCENARIOS.map(|scenario| (engine, scenario)))
    {
        let mut settings = settings(scenario, engine);
        if engine == EngineKind::Threads {
            settings.duration_ns = SECOND_NS / 2;
            settings.churn_pods_per_second = 200.0;
        }
        let result = run_ok(&settings);
        match scenario {
            "adoption" => assert_eq!(result.pods.adopted, 300),
            "cold-start" => assert_eq!(result.pods.created, 300),
            "churn" => assert_eq!(result.pods.created, 400, "one for each deleted pod"),
            _ => {}
        }
        let result = run_ok(&hardened(settings));
        assert_eq!(result.behaviour, "hardened");
        assert_eq!(result.wasted_work.pods_never_ready, 0);
        // The lists at the start, at most one per worker.
        assert!((1..=5).contains(&result.api_calls["list pods 200"]));
        if engine == EngineKind::Virtual {
            run_ok(&hardened(slow(scenario)));
        }
    }
}

/// Selects the hardened behaviour, and disables upstream's gate, which it makes redundant.
fn hardened(mut settings: Settings) -> Settings {
    settings.behaviour = Behaviour::Hardened;
    let gate = "StaleControllerConsistencyReplicaSet".to_owned();
    settings.controller.feature_gates.insert(gate, false);
    settings
}

#[test]
fn latencies_and_limits_take_time_but_change_nothing_else() {
    let result = run_ok(&slow("up-down"));
    let pods = &result.pods;
    let counts = [pods.created, pods.bound, pods.ready, pods.deleted];
    assert_eq!(counts, [300; 4]);
    // 600 writes of pods and at least as many of statuses and Events, at 20 per second.
    assert!(result.elapsed_seconds > 30.0, "{}", result.elapsed_seconds);
    assert!(result.convergence_seconds.p50 > 1.0, "{:?}", result);
    assert!(result.pod_ready_seconds.p50 > 0.9);
}

#[test]
fn a_virtual_run_is_the_same_every_time() {
    for settings in [
        settings("up-down", EngineKind::Virtual),
        slow("up-down"),
        slow("churn"),
    ] {
        let (a, b) = (json(run_ok(&settings)), json(run_ok(&settings)));
        assert!(a == b, "two runs of {:?} differ", settings.scenario);
        let other = Settings {
            seed: 8,
            ..settings
        };
        assert!(json(run_ok(&other)) != a, "another seed gives another run");
    }
}

#[test]
fn a_run_past_its_time_limit_reports_what_is_missing() {
    let mut settings = slow("up-down");
    settings.time_limit_ns = 5 * SECOND_NS;
    let result = run(&settings, Vec::new(), &(), &AtomicBool::new(false));
    assert_eq!(result.outcome.exit_code, 1);
    assert!(!result.outcome.converged);
    let reason = &result.outcome.reason;
    for words in ["time limit of 5 s", "not converged"] {
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(result.elapsed_seconds, 5.0);
}

#[test]
fn metrics_of_churn_exclude_its_setup() {
    let mut settings = settings("churn", EngineKind::Virtual);
    // One pod at a time: the setup takes seconds, and the replacement of a pod milliseconds.
    settings.controller.workers = WorkerCounts::all(Rows::installed(), 1);
    settings.latency.api = Latency::Constant(10_000_000);
    let result = run_ok(&settings);
    let [set_up, churn] = &result.phases[..] else {
        panic!("{:?}", result.phases)
    };
    assert!(set_up.set_up && !churn.set_up);
    assert!(set_up.seconds > 0.1);
    assert_eq!(churn.began_seconds, set_up.seconds);
    assert_eq!(set_up.convergence_seconds.count, 12);
    assert!(set_up.convergence_seconds.p99 > 0.1, "{set_up:#?}");
    let (all, of_churn) = (&result.convergence_seconds, &churn.convergence_seconds);
    assert_eq!(all, of_churn);
    assert!(all.max < 0.1, "{all:?}");
    // For twenty seconds, five pods per second are deleted and then replaced.
    assert!(all.count >= 100, "{all:?}");
    assert_eq!(result.pod_ready_seconds.count, 100);
    assert_eq!(result.queue_duration_seconds, churn.queue_duration_seconds);
    assert!(set_up.queue_duration_seconds.max > 0.1, "{set_up:#?}");
    assert!(churn.queue_duration_seconds.max < 0.1, "{churn:#?}");
    assert_eq!(result.work_duration_seconds, churn.work_duration_seconds);
    let syncs: u64 = result.syncs.values().sum();
    let of_phases = set_up.work_duration_seconds.count + churn.work_duration_seconds.count;
    assert_eq!(of_phases, syncs);
    let idle = set_up.syncs_without_requests + churn.syncs_without_requests;
    assert_eq!(idle, result.wasted_work.syncs_without_requests);
    let slowest = &result.slowest_workloads;
    let fits = |slow: &SlowWorkload| slow.phase == "churn" && slow.seconds < 0.1;
    assert!(slowest.iter().all(fits), "{slowest:?}");
    let answer = result.answer.expect("it converged");
    let deleted = "100 pods were deleted in 19.8";
    assert!(answer.starts_with(deleted), "{answer}");
    let p99 = crate::units::seconds_for_people(all.p99);
    assert!(answer.contains(&format!("{p99} (p99)")), "{answer}");
}

#[test]
fn a_cold_start_converges_after_its_controller_starts() {
    let mut settings = settings("cold-start", EngineKind::Virtual);
    settings.latency.api = Latency::Constant(10_000_000);
    settings.latency.pod_startup = Latency::Constant(30 * SECOND_NS);
    // In the built-in scenario, an earlier controller left everything converged, so there is
    // nothing to do.
    let result = run_ok(&settings);
    let count = |phase: &Phase| phase.convergence_seconds.count;
    let counts: Vec<u64> = result.phases.iter().map(count).collect();
    assert_eq!(counts, [0; 3]);
    assert_eq!(result.convergence_seconds.count, 0);
    assert_eq!(result.work_duration_seconds.count, 12);
    // Without statuses, the controllers must write them, which takes time.
    let mut scenario = Scenario::clone(&settings.scenario);
    scenario.phases.remove(1);
    scenario.answer = None;
    settings.scenario = scenario.into();
    let result = run_ok(&settings);
    let [pods, start] = &result.phases[..] else {
        panic!("{:?}", result.phases)
    };
    assert!(pods.seconds >= 30.0);
    assert_eq!(pods.convergence_seconds.count, 0);
    assert_eq!(result.convergence_seconds, start.convergence_seconds);
    assert_eq!(result.convergence_seconds.count, 12);
    let max = result.convergence_seconds.max;
    assert!(
        0.005 < max && max <= start.seconds * 1.001,
        "{max} {start:#?}"
    );
}

#[test]
fn a_phase_has_its_exact_length_in_the_series() {
    for engine in [EngineKind::Virtual, EngineKind::Threads] {
        let mut settings = settings("churn", engine);
        settings.latency.api = Latency::Constant(1_000_000);
        settings.duration_ns = match engine {
            EngineKind::Virtual => 3_000 * SECOND_NS,
            EngineKind::Threads => SECOND_NS,
        };
        let result = run_ok(&settings);
        let series = &result.series;
        assert!(series.len() <= 1_000);
        assert!(series.seconds.is_sorted());
        let first = series.phase.iter().position(|phase| *phase == 1);
        let first = first.expect("the churn has samples");
        let off = series.seconds[first] - result.phases[1].began_seconds;
        // The virtual engine has one clock; threads read theirs one after another.
        let most = if engine == EngineKind::Virtual {
            0.0
        } else {
            0.02
        };
        assert!((0.0..=most).contains(&off), "{engine:?}: {off}");
        assert_eq!(series.pods_ready[first], 300, "{engine:?}");
        assert_eq!(series.pods_existing[first], 300, "{engine:?}");
        // On threads, the number of checks depends on the machine.
        let least = if engine == EngineKind::Virtual { 8 } else { 2 };
        assert!(first >= least, "{engine:?}: the ramp has {first} samples");
    }
}

/// An observer that records the progress of the run.
#[derive(Default)]
struct Listener(std::sync::Mutex<Vec<(usize, u64, u64)>>);

impl Observer for Listener {
    fn progress(&self, progress: &Progress<'_>) {
        let news = (progress.phase_index, progress.done, progress.total);
        self.0.lock().unwrap().push(news);
    }
}

#[test]
fn churn_reports_its_progress() {
    let mut settings = settings("churn", EngineKind::Threads);
    settings.duration_ns = SECOND_NS;
    settings.churn_pods_per_second = 40.0;
    let listener = Listener::default();
    run(&settings, Vec::new(), &listener, &AtomicBool::new(false));
    let news = listener.0.into_inner().unwrap();
    let of_churn = news.iter().filter(|(phase, ..)| *phase == 1);
    let under_way = of_churn
        .clone()
        .filter(|(_, done, total)| (1..40).contains(done) && *total == 40);
    assert!(under_way.count() >= 2, "{news:?}");
}

#[test]
fn waits_in_the_queue_are_exact() {
    let mut settings = settings("churn", EngineKind::Virtual);
    settings.controller.workers = WorkerCounts::all(Rows::installed(), 1);
    settings.latency.api = Latency::Constant(7_000_000);
    let result = run_ok(&settings);
    let waits = &result.phases[0].queue_duration_seconds;
    // Twelve keys are queued at a time for one worker; the last one waits for some calls of 7 ms
    // each.
    let calls = waits.max / 0.007;
    assert!((calls - calls.round()).abs() < 0.01 * calls, "{waits:?}");
    assert!(waits.p50 < waits.p90 && waits.p90 <= waits.max, "{waits:?}");
    let buckets = &result.histograms.queue_duration_seconds;
    let in_buckets: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    assert_eq!(in_buckets, result.queue_duration_seconds.count);
    for bucket in buckets.iter().filter(|bucket| bucket.above > 0.0) {
        assert!(bucket.up_to / bucket.above < 1.3, "{bucket:?}");
    }
}

#[test]
fn a_failed_run_has_no_answer() {
    for (scenario, end) in [("up-down", 5), ("churn", 5), ("cl2-load", 100)] {
        let mut settings = slow(scenario);
        assert!(run_ok(&settings).answer.is_some(), "{scenario}");
        settings.time_limit_ns = end * SECOND_NS;
        let result = run(&settings, Vec::new(), &(), &AtomicBool::new(false));
        assert_eq!(result.outcome.exit_code, 1);
        assert_eq!(result.answer, None, "{scenario}");
    }
}

/// An observer that cancels the run at the first progress.
struct Impatient(AtomicBool);

impl Observer for Impatient {
    fn progress(&self, progress: &Progress<'_>) {
        assert!(progress.phase_index < progress.phase_count);
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_interrupted_run_reports_on_what_ran() {
    for engine in [EngineKind::Virtual, EngineKind::Threads] {
        let mut settings = settings("churn", engine);
        settings.duration_ns = 100_000 * SECOND_NS;
        settings.time_limit_ns = 200_000 * SECOND_NS;
        let cancel = AtomicBool::new(false);
        let impatient = Impatient(AtomicBool::new(false));
        let result = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(&settings, Vec::new(), &impatient, &cancel));
            while !impatient.0.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            cancel.store(true, Ordering::Relaxed);
            running.join().expect("the run ends")
        });
        assert_eq!(result.outcome.exit_code, 130);
        assert!(result.outcome.reason.starts_with("interrupted"));
    }
}

/// Returns how many of a pod's inline lists have spilled to the heap.
fn spilled_lists(pod: &Pod) -> usize {
    let (metadata, status) = (&pod.metadata, &pod.status);
    let lists = [
        metadata.owner_references.spilled(),
        metadata.labels.spilled(),
        metadata.annotations.spilled(),
        status.conditions.spilled(),
        status.container_statuses.spilled(),
        status
            .init_container_statuses
            .as_ref()
            .is_some_and(|list| list.spilled()),
        pod.spec.containers.spilled(),
    ];
    lists.into_iter().filter(|spilled| *spilled).count()
}

#[test]
fn inline_lists_of_a_standard_pod_never_spill() {
    let settings = settings("up-down", EngineKind::Virtual);
    let engine = Engine::build(&settings, Vec::new(), RealClock::start(), false);
    let mut now = Now {
        mono_ns: 0,
        wall_ns: virtual_time::WALL_START_NS,
    };
    engine.tasks.wake_all(&engine.executor);
    let (mut spilled, mut seen) = (0, 0);
    while !engine.executor.is_stopped() {
        let Some(task) = engine.executor.try_take() else {
            let due_ns = engine.executor.next_due().expect("the scenario ends");
            now = now.plus_ns((due_ns - now.mono_ns).max(0));
            engine.executor.fire_due(now);
            continue;
        };
        engine.tasks.run(task, &engine.executor, now);
        let (pods, _) = engine.metrics.sources.cluster.list::<Pod>(None);
        seen = pods.len().max(seen);
        spilled += pods.iter().map(|pod| spilled_lists(pod)).sum::<usize>();
    }
    assert!(seen >= 100, "only {seen} pods were checked");
    assert_eq!(spilled, 0);
}
