//! Tests of small runs of every built-in scenario on virtual time: the metrics must match the
//! scenario's question.

use std::sync::atomic::AtomicBool;

use crate::result::RunResult;
use crate::run;
use crate::settings::Settings;

const PODS: u64 = 400;

fn run_with(name: &str, flags: &str) -> RunResult {
    let flags = format!("--scenario {name} --engine virtual --pods {PODS} --namespaces 4 {flags}");
    let settings = Settings::of_flags(&flags, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
    let result = run::run(&settings, Vec::new(), &(), &AtomicBool::new(false));
    assert_eq!(result.outcome.exit_code, 0, "{name}: {:?}", result.outcome);
    let answer = result.answer.as_deref().unwrap_or("none");
    assert!(
        !answer.contains("template") && answer != "none" && !answer.contains("{{"),
        "{name}: {answer}"
    );
    result
}

fn run(name: &str) -> RunResult {
    run_with(name, "")
}

fn calls(result: &RunResult, call: &str) -> u64 {
    result.api_calls.get(call).copied().unwrap_or(0)
}

#[test]
fn after_a_pod_kill_storm_all_pods_are_replaced_exactly() {
    let result = run("pod-kill-storm");
    assert_eq!(result.phases[1].pods_deleted, 120);
    assert_eq!(result.phases[1].pods_created, 120);
}

#[test]
fn pods_of_lost_nodes_are_evicted_and_replaced_after_delays() {
    let result = run("node-failure");
    let [_, silent, evicted, back] = &result.phases[..] else {
        panic!("{:?}", result.phases);
    };
    // The pods become unready after 50 s and are evicted after another 300 s; then the new ones
    // start.
    let seconds = silent.seconds + evicted.seconds;
    assert!((350.0..390.0).contains(&seconds), "{seconds}");
    assert!(evicted.pods_created > 0 && evicted.pods_deleted == 0);
    assert_eq!(back.pods_deleted, evicted.pods_created);
}

#[test]
fn a_roll_out_keeps_its_surge_and_replaces_every_pod() {
    let result = run("rollout-storm");
    assert_eq!(result.phases[1].pods_created, PODS);
    assert_eq!(result.phases[1].pods_deleted, PODS);
    // Each of the 8 ReplicaSets has 50 pods and may have 13 more.
    assert!(result.pods.peak <= PODS + 8 * 13, "{}", result.pods.peak);
    assert_eq!(result.excess_pods_created, 0);
}

#[test]
fn relabelled_pods_are_released_and_keep_running() {
    let result = run("relabel");
    assert_eq!(result.pods.released, 40);
    assert_eq!(result.phases[1].pods_created, 40);
    assert_eq!(result.pods.deleted, 0);
}

#[test]
fn a_quota_refuses_pods_until_it_is_removed() {
    for behaviour in podstorm::policy::Behaviour::ALL {
        let flags = format!("--behaviour {}", behaviour.as_str());
        let result = run_with("quota-exhausted", &flags);
        assert_eq!(result.phases[1].pods_created, PODS * 4 / 5);
        assert_eq!(result.phases[2].pods_created, PODS / 5);
        assert!(calls(&result, "create pods 403") >= 8);
        let hardened = behaviour == podstorm::policy::Behaviour::Hardened;
        let longest = if hardened { 31.0 } else { 1_000.0 };
        let seconds = result.phases[2].seconds;
        assert!(seconds <= longest, "{seconds}");
    }
}

#[test]
fn deleted_namespaces_are_emptied_without_delaying_others() {
    let result = run("namespace-termination");
    let phase = &result.phases[1];
    // One of four namespaces is deleted, so a quarter of the ReplicaSets lose all their pods.
    assert!(phase.pods_deleted >= PODS / 8, "{phase:?}");
    let left = result.pods.created - result.pods.deleted;
    assert_eq!(left, PODS * 3 / 4, "{phase:?}");
}

#[test]
fn flapping_wastes_work_and_ends_in_the_initial_state() {
    let result = run("flapping");
    assert_eq!(result.pods.created - result.pods.deleted, PODS / 2);
    assert_eq!(result.phases[1].pods_created, 10 * PODS / 2);
    assert!(result.wasted_work.pods_never_ready > 0);
}

#[test]
fn recreated_workloads_adopt_nothing() {
    let result = run("recreate");
    assert_eq!(result.pods.adopted, 0);
    assert_eq!(result.phases[1].pods_created, PODS);
    assert_eq!(result.phases[1].pods_deleted, PODS);
}

#[test]
fn a_slow_server_is_slow_and_refuses_its_share() {
    let result = run("slow-api");
    let all: u64 = result.api_calls.values().sum();
    let calls = result.api_calls.iter();
    let refused = calls.filter(|(call, _)| call.ends_with(" 500"));
    let refused: u64 = refused.map(|(_, count)| count).sum();
    let share = refused as f64 / all as f64;
    assert!((0.005..0.05).contains(&share), "{refused} of {all}");
    assert!(result.phases[1].seconds > 1.0);
}

#[test]
fn only_a_new_list_makes_up_for_lost_events() {
    let result = run("lossy-watch");
    let [_, lost, touched, listed] = &result.phases[..] else {
        panic!("{:?}", result.phases);
    };
    assert_eq!((lost.pods_deleted, lost.pods_created), (80, 0));
    assert_eq!(touched.pods_created, 0);
    assert_eq!(listed.pods_created, 80);
}

#[test]
fn a_resync_syncs_everything_and_writes_nothing() {
    let result = run("resync");
    assert_eq!((result.pods.created, result.pods.deleted), (PODS, 0));
    assert!(result.wasted_work.syncs_without_requests >= 8);
}

#[test]
fn rejected_pods_are_replaced_until_nodes_accept_pods() {
    let result = run("kubelet-reject");
    let [_, rejecting, after] = &result.phases[..] else {
        panic!("{:?}", result.phases);
    };
    assert_eq!(rejecting.pods_deleted, 120);
    assert!(rejecting.pods_created > 300, "{rejecting:?}");
    assert!(after.pods_created < 150, "{after:?}");
    // Without a startup latency, the loop would never end, because no time would pass.
    let flags = "--scenario kubelet-reject --pod-startup-latency=0s";
    let problem = Settings::of_flags(flags, 1).unwrap_err();
    assert!(problem.contains("--pod-startup-latency"), "{problem}");
}

#[test]
fn the_upstream_load_has_its_groups_and_its_rate() {
    let result = run("cl2-load");
    // 100 pods in ReplicaSets of 250, at least one set; 100 pods in sets of 30; 200 pods in sets of
    // 5.
    let size = &result.settings.size;
    assert_eq!((size.workloads(), size.pods), (1 + 3 + 40, 250 + 90 + 200));
    let create = &result.phases[1];
    assert_eq!(create.pods_created, size.pods);
    let seconds = size.pods as f64 / 10.0;
    let expected = seconds * 0.7..seconds + 10.0;
    assert!(expected.contains(&create.seconds), "{create:?}");
    assert_eq!(result.pods.created, result.pods.deleted);
}

#[test]
fn a_whole_day_stays_consistent() {
    for behaviour in podstorm::policy::Behaviour::ALL {
        let flags = format!("--behaviour {}", behaviour.as_str());
        let result = run_with("mixed-day", &flags);
        assert!((23.0 * 3_600.0..24.0 * 3_600.0).contains(&result.elapsed_seconds));
        assert_eq!(result.excess_pods_created, 0);
        assert!(result.phases.iter().all(|phase| phase.converged));
    }
}

#[test]
fn the_older_scenarios_have_answers() {
    for name in run::tests::SCENARIOS.into_iter().chain(["stale-watch"]) {
        run(name);
    }
}
