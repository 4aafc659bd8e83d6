//! F. Status and availability.

use podstorm::object::Kind;
use podstorm::replicaset::SyncErrorClass;
use podstorm_faultsim::Action;
use podstorm_sim::faults::{ApiFault, Call, Effect, StreamKind};
use podstorm_tests::hazard::{Harness, Write, idle_set, ms, seconds, with};
use serde_json::json;

/// Returns a harness with a ReplicaSet of idle pods with this `minReadySeconds`, and the names of
/// its pods.
fn maturing(pods: i32, min_ready_seconds: i32) -> (Harness, Vec<String>) {
    let slow = json!({"spec": {"minReadySeconds": min_ready_seconds}});
    let sim = Harness::new().holding(with(idle_set("web", pods), slow));
    let names = sim.active("web");
    (sim, names)
}

fn available(sim: &Harness) -> i32 {
    sim.status("web").available_replicas
}

/// A conflict is followed by one GET and one PUT. A second conflict is the sync's error.
#[test]
fn hazard_56_status_conflicts() {
    for conflicts in [1, 2] {
        let mut sim = Harness::new().holding(idle_set("web", 1));
        let syncs = sim.syncs().len();
        sim.refuse(Call::PutStatus, ApiFault::Conflict, conflicts);
        sim.scale("web", 2);
        sim.run(ms(1));
        let sync = &sim.syncs()[syncs];
        assert_eq!(sync.sent(Call::PutStatus), 2);
        assert_eq!(sync.sent(Call::GetOwner), 1);
        let failed = (conflicts == 2).then_some(SyncErrorClass::Status);
        assert_eq!(sync.failed_at(), failed);
        sim.run(seconds(1));
        sim.assert_converged();
        sim.conclude();
    }
}

/// Other clients' writes are overwritten at the next difference. Conditions of other types stay.
#[test]
fn hazard_57_somebody_else_writes_the_status() {
    let mut sim = Harness::new().holding(idle_set("web", 2));
    let custom = json!({"type": "Custom", "status": "True", "reason": "Theirs", "message": "m"});
    let failure =
        json!({"type": "ReplicaFailure", "status": "True", "reason": "Old", "message": "m"});
    sim.patch_set_status(
        "web",
        json!({"replicas": 9, "conditions": [failure, custom]}),
    );
    sim.run(seconds(1));
    let status = sim.status("web");
    assert_eq!(status.replicas, 2);
    let kinds = status.conditions.iter().map(|condition| &*condition.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), ["Custom"]);
    sim.scale("web", 3);
    sim.run(seconds(1));
    assert_eq!(sim.status("web").conditions, status.conditions);
    sim.conclude();
}

/// The spec changes before the PUT: the retry has the old generation, the next sync the new one.
#[test]
fn hazard_58_spec_changes_before_the_put() {
    let mut sim = Harness::new().holding(idle_set("web", 1));
    sim.fail(Call::PutStatus, Effect::Slow { by_ms: 1_000 }, 1);
    sim.scale("web", 2);
    sim.run(ms(500));
    assert_eq!(sim.under_way(Call::PutStatus), 1);
    sim.scale("web", 3);
    let before = sim.written().len();
    sim.run(seconds(5));
    let first = sim.written().split_off(before).remove(0).object.unwrap();
    assert_eq!(first.status.observed_generation, 2);
    assert_eq!(first.metadata.generation, 3);
    assert_eq!(first.status.replicas, 1);
    let status = sim.status("web");
    assert_eq!((status.observed_generation, status.replicas), (3, 3));
    sim.conclude();
}

/// Each pod becomes available at its own time, to the second.
#[test]
fn hazard_59_pods_mature_one_by_one() {
    let (mut sim, names) = maturing(3, 30);
    for name in &names {
        sim.make_ready(name);
        sim.run(seconds(10));
    }
    // The first pod has been ready for 30 s.
    assert_eq!(available(&sim), 1);
    sim.run(ms(9_900));
    assert_eq!(available(&sim), 1);
    sim.run(ms(200));
    assert_eq!(available(&sim), 2);
    sim.run(ms(9_700));
    assert_eq!(available(&sim), 2);
    sim.run(ms(200));
    assert_eq!(available(&sim), 3);
    sim.conclude();
}

/// A pod that is ready, unready and ready again restarts its time, and no state remains.
#[test]
fn hazard_60_readiness_flaps() {
    let (mut sim, names) = maturing(1, 30);
    sim.make_ready(&names[0]);
    sim.run(seconds(20));
    let now = sim.now().wall().to_string();
    sim.ready_since(&names[0], false, Some(&now));
    sim.run(seconds(5));
    assert_eq!(sim.status("web").ready_replicas, 0);
    sim.make_ready(&names[0]);
    sim.run(ms(29_900));
    assert_eq!(available(&sim), 0);
    sim.run(ms(200));
    assert_eq!(available(&sim), 1);
    let now = sim.now().wall().to_string();
    sim.ready_since(&names[0], false, Some(&now));
    sim.run(seconds(1));
    assert_eq!(available(&sim), 0);
    sim.make_ready(&names[0]);
    sim.run(seconds(31));
    assert_eq!(available(&sim), 1);
    sim.conclude();
}

/// A pod that is ready since an unknown time is never available, and checked every
/// `minReadySeconds`.
#[test]
fn hazard_61_ready_without_a_time() {
    let (mut sim, names) = maturing(1, 5);
    sim.ready_since(&names[0], true, None);
    sim.run(seconds(11));
    let syncs = sim.syncs().len();
    sim.run(seconds(60));
    assert_eq!(sim.syncs().len() - syncs, 12);
    assert_eq!((sim.status("web").ready_replicas, available(&sim)), (1, 0));
    sim.make_ready(&names[0]);
    sim.conclude();
}

/// A pod is available at exactly `minReadySeconds`.
#[test]
fn hazard_62_exactly_min_ready_seconds() {
    let (mut sim, names) = maturing(1, 30);
    assert_eq!(sim.now().mono_ns % seconds(1), 0);
    sim.make_ready(&names[0]);
    sim.run(seconds(30) - 1);
    assert_eq!(available(&sim), 0);
    sim.run(1);
    assert_eq!(available(&sim), 1);
    sim.conclude();
}

/// With `minReadySeconds` of 0, all ready pods are available from the sync of that change on.
#[test]
fn hazard_63_min_ready_seconds_is_lowered() {
    let (mut sim, names) = maturing(3, 3_600);
    names.iter().for_each(|name| sim.make_ready(name));
    sim.run(seconds(60));
    assert_eq!((sim.status("web").ready_replicas, available(&sim)), (3, 0));
    let (syncs, writes) = (sim.syncs().len(), sim.count(Write::Status));
    sim.patch_set("web", json!({"spec": {"minReadySeconds": 0}}));
    sim.run(ms(1));
    assert_eq!(available(&sim), 3);
    assert_eq!(sim.syncs()[syncs].sent(Call::PutStatus), 1);
    assert_eq!(sim.count(Write::Status) - writes, 1);
    sim.conclude();
}

/// Equal statuses are not written. An absent number of terminating pods differs from zero.
#[test]
fn hazard_64_unchanged_statuses() {
    let mut sim = Harness::new().holding(idle_set("web", 2));
    let writes = sim.sent(Call::PutStatus);
    let syncs = sim.syncs().len();
    for _ in 0..10 {
        sim.act(Action::Replay {
            stream: StreamKind::from_kind(Kind::REPLICA_SET),
            events: 1,
        });
        sim.touch("web");
        sim.run(seconds(1));
    }
    assert!(sim.syncs().len() - syncs >= 10);
    assert_eq!(sim.sent(Call::PutStatus), writes);
    sim.patch_set_status("web", json!({"terminatingReplicas": null}));
    assert_eq!(sim.status("web").terminating_replicas, None);
    sim.run(seconds(1));
    assert_eq!(sim.status("web").terminating_replicas, Some(0));
    assert_eq!(sim.sent(Call::PutStatus), writes + 1);
    sim.conclude();
}
