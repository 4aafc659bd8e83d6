//! B. ReplicaSets that are deleted and recreated under their name.

use podstorm::object::Kind;
use podstorm::replicaset::SyncErrorClass;
use podstorm_apiserver::Propagation;
use podstorm_sim::faults::{Call, Effect, StreamEnd, StreamKind};
use podstorm_tests::hazard::{Harness, NAMESPACE, Write, idle_set, minutes, ms, seconds};

/// The expectations of the old ReplicaSet are dropped, and the new one creates immediately.
#[test]
fn hazard_14_deleted_and_created_again_before_a_sync() {
    for gate in [true, false] {
        let mut sim = Harness::gated(gate);
        sim.hold(StreamKind::from_kind(Kind::POD), minutes(2));
        sim.create_set(idle_set("web", 3));
        sim.run(seconds(1));
        assert_eq!(sim.expected("web"), Some((3, 0)));
        sim.delete_set("web", Propagation::Background);
        sim.create_set(idle_set("web", 4));
        sim.run(seconds(1));
        assert_eq!(sim.count(Write::Create), 7);
        assert_eq!(sim.active("web").len(), 4);
        sim.run(minutes(3));
        assert_eq!((sim.pods().len(), sim.most_active("web")), (4, 4));
        sim.conclude();
    }
}

/// The list shows one update from the old UID to the new one. Expectations and consistency records
/// of the old one are cleared.
#[test]
fn hazard_15_created_again_while_the_watch_was_broken() {
    for gate in [true, false] {
        let mut sim = Harness::gated(gate);
        sim.hold(StreamKind::from_kind(Kind::POD), minutes(2));
        sim.create_set(idle_set("web", 3));
        sim.run(seconds(1));
        sim.hold(StreamKind::from_kind(Kind::REPLICA_SET), seconds(5));
        sim.delete_set("web", Propagation::Background);
        sim.create_set(idle_set("web", 4));
        sim.run(seconds(1));
        assert_eq!(sim.count(Write::Create), 3);
        sim.end(StreamKind::from_kind(Kind::REPLICA_SET), StreamEnd::Expired);
        sim.run(seconds(10));
        assert_eq!(sim.count(Write::Create), 7);
        assert_eq!(sim.expected("web"), Some((4, 0)));
        sim.run(minutes(3));
        assert_eq!((sim.pods().len(), sim.most_active("web")), (4, 4));
        sim.conclude();
    }
}

/// A status in transit while its ReplicaSet is recreated is written to the successor, which
/// corrects it with its own sync.
#[test]
fn hazard_16_old_status_written_onto_the_successor() {
    let mut sim = Harness::new().holding(idle_set("web", 1));
    sim.scale("web", 3);
    sim.run(seconds(1));
    let old = sim.owned("web");
    sim.fail(Call::PutStatus, Effect::Slow { by_ms: 1_000 }, 1);
    sim.scale("web", 2);
    sim.run(ms(500));
    assert_eq!(sim.under_way(Call::PutStatus), 1);
    sim.delete_set("web", Propagation::Background);
    let new = sim.create_set(idle_set("web", 2)).metadata.clone();
    sim.run(seconds(10));
    let objects = sim.written().into_iter();
    let mut written: Vec<_> = objects.filter_map(|written| written.object).collect();
    written.retain(|object| object.metadata.uid == new.uid);
    let first = &written[0].status;
    let told = (first.replicas, first.observed_generation);
    assert_eq!(told, (3, 3), "the status of the old one");
    let last = &written[written.len() - 1].status;
    assert_eq!((last.replicas, last.observed_generation), (2, 1));
    for pod in old {
        assert!(sim.pod(&pod.metadata.name).is_none(), "collected");
    }
    sim.conclude();
}

/// The old number of replicas is maintained until the new one is seen. The status has the
/// generation that was observed.
#[test]
fn hazard_17_stale_replicas() {
    for gate in [true, false] {
        let mut sim = Harness::gated(gate).holding(idle_set("web", 3));
        sim.hold(StreamKind::from_kind(Kind::REPLICA_SET), seconds(20));
        sim.scale("web", 0);
        let name = sim.active("web").remove(0);
        sim.kill_pod(&name);
        sim.run(seconds(10));
        assert_eq!(sim.active("web").len(), 3, "refilled");
        let set = sim.set("web");
        assert_eq!(set.status.observed_generation, 1);
        assert_eq!(set.metadata.generation, 2);
        sim.run(seconds(20));
        assert!(sim.active("web").is_empty());
        assert_eq!(sim.status("web").observed_generation, 2);
        sim.conclude();
    }
}

/// A pod that is seen before its ReplicaSet wakes no key. The event of the ReplicaSet is enough.
#[test]
fn hazard_18_pod_event_precedes_the_replicaset() {
    let mut sim = Harness::new();
    sim.hold(StreamKind::from_kind(Kind::REPLICA_SET), seconds(5));
    sim.create_set(idle_set("web", 2));
    sim.forge_pod("early", "web");
    sim.run(seconds(2));
    assert!(sim.controller().pods().get(NAMESPACE, "early").is_some());
    assert!(sim.syncs().is_empty());
    sim.run(seconds(5));
    assert_eq!(sim.count(Write::Create), 1);
    assert_eq!((sim.active("web").len(), sim.most_active("web")), (2, 2));
    sim.assert_converged();
    sim.conclude();
}

/// Creates in progress are completed, no status is written, no expectations remain, and the pods
/// are collected.
#[test]
fn hazard_19_deleted_while_creating() {
    let mut sim = Harness::new();
    sim.fail(Call::CreatePod, Effect::Slow { by_ms: 1_000 }, 1);
    sim.create_set(idle_set("web", 4));
    sim.run(ms(500));
    assert_eq!(sim.under_way(Call::CreatePod), 1);
    sim.delete_set("web", Propagation::Background);
    sim.run(seconds(10));
    assert_eq!((sim.count(Write::Create), sim.count(Write::Status)), (4, 0));
    assert!(sim.pods().is_empty());
    assert_eq!(sim.expected("web"), None);
    let controller = sim.controller();
    let key = controller.owners().intern(NAMESPACE, "web");
    assert!(controller.consistency().record(&key).is_none());
    assert_eq!(sim.last_sync("web").failed_at(), None);
    sim.conclude();
}

/// The 404 of the GET is the sync's error. One retry follows, which finds nothing to do.
#[test]
fn hazard_20_status_of_a_deleted_replicaset() {
    let mut sim = Harness::new().holding(idle_set("web", 1));
    sim.fail(Call::PutStatus, Effect::Slow { by_ms: 1_000 }, 1);
    sim.scale("web", 2);
    sim.run(ms(500));
    sim.delete_set("web", Propagation::Background);
    let syncs = sim.syncs().len();
    sim.run(seconds(10));
    let after = sim.syncs_of("web").split_off(syncs - 1);
    assert_eq!(after[0].failed_at(), Some(SyncErrorClass::Status));
    assert_eq!(after[0].sent(Call::PutStatus), 1);
    assert_eq!(after[0].sent(Call::GetOwner), 1);
    let error = after[0].error();
    assert!(error.contains("not found"), "{error}");
    assert!(after.len() >= 2);
    for sync in &after[1..] {
        assert!(sync.failed_at().is_none() && sync.requests.is_empty());
    }
    assert_eq!(sim.failures("web"), 0);
    sim.conclude();
}
