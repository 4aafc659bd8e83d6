//! E. Deleting pods, and choosing them.

use podstorm::object::Kind;
use podstorm::object::{Pod, Resource};
use podstorm::ranking::{
    Candidate, DELETION_COST_ANNOTATION, RankFields, RankOptions, Ranker, before, check_admissible,
};
use podstorm::replicaset::SyncErrorClass;
use podstorm_faultsim::Action;
use podstorm_sim::faults::{ApiFault, Armed, Call, Effect, StreamKind};
use podstorm_tests::hazard::{Harness, Write, idle_set, ms, pod, replica_set, seconds, with};
use serde_json::{Value, json};

/// Returns a patch that sets a pod's deletion cost.
fn cost(value: &str) -> Value {
    json!({"metadata": {"annotations": {DELETION_COST_ANNOTATION: value}}})
}

fn ratios(sim: &Harness) -> u64 {
    let controller = sim.controller();
    let metrics = controller.metrics();
    metrics.sorting_deletion_age_ratio.snapshot().count()
}

/// A 404 lowers the expectation, silently.
#[test]
fn hazard_45_pod_to_delete_is_already_gone() {
    let mut sim = Harness::new().holding(idle_set("web", 3));
    let victim = sim.active("web").remove(0);
    sim.patch_pod(&victim, cost("-1"));
    sim.run(seconds(1));
    sim.hold(StreamKind::from_kind(Kind::POD), seconds(10));
    sim.kill_pod(&victim);
    sim.scale("web", 2);
    sim.run(ms(1));
    let mut syncs = sim.syncs().into_iter();
    let sync = syncs.find(|sync| sync.sent(Call::DeletePod) > 0).unwrap();
    assert_eq!(sync.requests[0].answer, Some(Err(404)));
    assert_eq!(sync.failed_at(), None);
    assert_eq!(sim.expected("web"), Some((0, 0)));
    sim.run(seconds(30));
    assert!(sim.events("FailedDelete").is_empty());
    assert!(sim.events("SuccessfulDelete").is_empty());
    assert_eq!(sim.active("web").len(), 2);
    sim.conclude();
}

/// One of five deletes fails: its expectation is lowered, the others stay. There is an Event and
/// the condition, and the retry waits for the four.
#[test]
fn hazard_46_one_delete_of_five_fails() {
    for gate in [true, false] {
        let mut sim = Harness::gated(gate).holding(idle_set("web", 7));
        sim.hold(StreamKind::from_kind(Kind::POD), seconds(20));
        let refused = Effect::Refuse(ApiFault::InternalError);
        sim.arm(Armed {
            index: Some(2),
            ..Armed::new(&[Call::DeletePod], refused, 1)
        });
        sim.scale("web", 2);
        let failed = |view: &podstorm_tests::hazard::View| view.failure("web").is_some();
        sim.until("the condition", ms(3), failed);
        assert_eq!(&*sim.failure("web").unwrap().reason, "FailedDelete");
        sim.run(seconds(1));
        let mut syncs = sim.syncs().into_iter();
        let sync = syncs.find(|sync| sync.sent(Call::DeletePod) > 0).unwrap();
        assert_eq!(sync.failed_at(), Some(SyncErrorClass::Delete));
        assert!(sync.error().starts_with("unable to delete pods: "));
        assert_eq!(sync.sent(Call::DeletePod), 5);
        assert_eq!(sim.expected("web"), Some((0, 4)));
        assert_eq!(sim.events("FailedDelete").len(), 1);
        sim.run(seconds(10));
        assert_eq!(sim.count(Write::Delete), 4, "the retry waits");
        assert!(
            sim.failure("web").is_none(),
            "a sync that may not delete removes the condition"
        );
        sim.run(seconds(20));
        assert_eq!((sim.count(Write::Delete), sim.active("web").len()), (5, 2));
        sim.conclude();
    }
}

/// Pods without a node are marked and removed in one request, and counted once.
#[test]
fn hazard_47_unscheduled_pods_to_delete() {
    let mut sim = Harness::new().holding(idle_set("web", 5));
    sim.hold(StreamKind::from_kind(Kind::POD), seconds(5));
    sim.scale("web", 3);
    sim.run(seconds(1));
    assert_eq!((sim.pods().len(), sim.expected("web")), (3, Some((0, 2))));
    sim.run(seconds(10));
    assert_eq!(sim.count(Write::Delete), 2);
    assert_eq!(sim.expected("web"), Some((0, 0)));
    sim.conclude();
}

/// Pods that became ready in the same second compare in a cycle: no panic, and a choice that some
/// sort could make.
#[test]
fn hazard_48_non_transitive_ranking() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    let now = podstorm::object::Time::from_unix_seconds(1_767_225_600);
    let options = RankOptions {
        now_wall_ns: now.unix_nanos(),
        pod_deletion_cost: true,
        logarithmic_scale_down: true,
    };
    let mut circles = 0;
    for round in 0..200 {
        let fields: Vec<RankFields> = (0..60)
            .map(|number| {
                // Within one bucket of ages: 2.29 to 4.58 min.
                let ready = format!("2025-12-31T23:57:{:02}Z", random(3));
                let object = json!({
                    "metadata": {
                        "name": format!("p-{number}"),
                        "uid": format!("{:016x}", random(u64::MAX)),
                        "creationTimestamp": "2025-12-31T23:57:00Z",
                    },
                    "spec": {"nodeName": "n"},
                    "status": {
                        "phase": "Running",
                        "conditions": [
                            {"type": "Ready", "status": "True", "lastTransitionTime": ready},
                        ],
                        "containerStatuses": [
                            {"name": "c", "restartCount": random(3), "ready": true},
                        ],
                    },
                });
                RankFields::from_pod(&Pod::from_json(object).unwrap(), 1)
            })
            .collect();
        let candidates: Vec<Candidate<'_>> = fields
            .iter()
            .map(|fields| Candidate { fields, rank: 0 })
            .collect();
        let goes = |a: usize, b: usize| before(candidates[a], candidates[b], &options);
        for at in 0..20 {
            let (a, b, c) = (at, at + 20, at + 40);
            circles += usize::from(goes(a, b) && goes(b, c) && goes(c, a));
            circles += usize::from(goes(a, c) && goes(c, b) && goes(b, a));
        }
        let wanted = 1 + round % 59;
        let mut ranker = Ranker::new();
        let mut chosen = [false; 60];
        for at in ranker.choose((0..).zip(&fields), |_| 0, &options, wanted) {
            chosen[*at as usize] = true;
        }
        assert_eq!(chosen.iter().filter(|chosen| **chosen).count(), wanted);
        check_admissible(&candidates, &chosen, &options).unwrap();
    }
    assert!(circles > 0, "some comparisons form a cycle");
}

/// Scales five pods to two: three have been on node-1 for long, and two on node-2 for a moment.
/// Returns how many are left on each node.
fn scaled_down_on_two_nodes(owned: bool) -> (usize, usize) {
    let owner = json!({"metadata": {"ownerReferences": [{
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d-1", "controller": true,
    }]}});
    let set = idle_set("web", 5);
    let mut sim = Harness::new().holding(if owned { with(set, owner) } else { set });
    let names = sim.active("web");
    names[..3].iter().for_each(|name| sim.bind(name, "node-1"));
    sim.run(seconds(600));
    names[3..].iter().for_each(|name| sim.bind(name, "node-2"));
    sim.run(seconds(10));
    assert_eq!(sim.status("web").ready_replicas, 5);
    sim.scale("web", 2);
    sim.run(seconds(10));
    let left = sim.owned("web");
    let on = |node: &str| {
        left.iter()
            .filter(|pod| pod.node_name.as_deref() == Some(node))
            .count()
    };
    let counts = (on("node-1"), on("node-2"));
    sim.conclude();
    counts
}

/// The pods per node are counted once, so all three of the fuller node are deleted.
#[test]
fn hazard_49_colocation_counts_are_not_updated() {
    assert_eq!(scaled_down_on_two_nodes(true), (0, 2));
}

/// Without an owner, pods on the same node do not count, and the youngest are deleted first. The
/// same applies to ReplicationControllers, as the recorded cases of `related` show.
#[test]
fn hazard_50_no_colocation_without_an_owner() {
    assert_eq!(scaled_down_on_two_nodes(false), (2, 0));
}

/// Negative ages are equal, so UIDs decide. The age ratio is not observed if its divisor is zero.
#[test]
fn hazard_51_clock_skew() {
    for skewed in [false, true] {
        let mut sim = Harness::new();
        sim.create_set(idle_set("web", 3));
        sim.run(seconds(10));
        let mut pods = sim.owned("web");
        pods.sort_by_key(|pod| pod.metadata.uid.to_string());
        for (at, pod) in pods.iter().enumerate() {
            sim.bind(&pod.metadata.name, "node-1");
            sim.run(seconds(if at == 1 { 600 } else { 2 }));
        }
        if skewed {
            sim.act(Action::WallClock {
                offset_s: -7_200,
                for_ms: u32::MAX,
            });
        }
        sim.scale("web", 2);
        sim.run(seconds(5));
        // The last pod is the youngest.
        let victim = if skewed { &pods[0] } else { &pods[2] };
        assert!(sim.pod(&victim.metadata.name).is_none());
        assert_eq!(ratios(&sim), 1);
        sim.conclude();
    }
    let mut sim = Harness::new();
    sim.create_set(replica_set("web", 3));
    sim.run(0);
    assert_eq!(sim.status("web").ready_replicas, 3);
    sim.scale("web", 1);
    sim.run(0);
    assert_eq!((sim.active("web").len(), ratios(&sim)), (1, 0));
    sim.conclude();
}

/// A cost that the cache does not show yet has no effect.
#[test]
fn hazard_52_deletion_cost_changes_late() {
    let mut sim = Harness::new().holding(idle_set("web", 3));
    let names = sim.active("web");
    sim.patch_pod(&names[0], cost("-5"));
    sim.run(seconds(1));
    sim.hold(StreamKind::from_kind(Kind::POD), seconds(10));
    sim.patch_pod(&names[1], cost("-10"));
    sim.scale("web", 2);
    sim.run(seconds(1));
    assert_eq!(sim.active("web"), names[1..]);
    sim.conclude();
}

/// Pending pods are deleted first. When scaling to zero, nothing is ranked.
#[test]
fn hazard_53_scaled_down_with_pending_pods() {
    let mut sim = Harness::new().holding(idle_set("web", 3));
    let running = sim.active("web");
    running.iter().for_each(|name| sim.bind(name, "node-1"));
    sim.run(seconds(1));
    // Regardless of their cost.
    running
        .iter()
        .for_each(|name| sim.patch_pod(name, cost("-100")));
    sim.scale("web", 5);
    sim.run(seconds(10));
    sim.scale("web", 3);
    sim.run(seconds(1));
    assert_eq!(sim.active("web"), running);
    assert_eq!(ratios(&sim), 0, "no ready pod is deleted");
    sim.scale("web", 2);
    sim.run(seconds(1));
    assert_eq!(ratios(&sim), 1);
    sim.scale("web", 0);
    sim.run(seconds(1));
    assert!(sim.active("web").is_empty());
    assert_eq!(ratios(&sim), 1);
    sim.conclude();
}

/// A pod that does not end is replaced immediately, and counted as terminating until it has ended
/// or is gone.
#[test]
fn hazard_54_pod_stuck_terminating() {
    let mut sim = Harness::new().holding(idle_set("web", 2));
    let names = sim.active("web");
    for name in &names {
        sim.patch_pod(
            name,
            json!({"metadata": {"finalizers": ["example.com/stuck"]}}),
        );
        sim.delete_pod(name);
    }
    sim.run(ms(1));
    assert_eq!(sim.active("web").len(), 2, "replaced immediately");
    let counts = |sim: &Harness| {
        let status = sim.status("web");
        (status.replicas, status.terminating_replicas)
    };
    sim.run(seconds(600));
    assert_eq!(counts(&sim), (2, Some(2)));
    sim.patch_pod_status(&names[0], json!({"phase": "Failed"}));
    sim.run(seconds(1));
    assert_eq!(counts(&sim), (2, Some(1)));
    sim.patch_pod(&names[1], json!({"metadata": {"finalizers": null}}));
    sim.run(seconds(1));
    assert!(sim.pod(&names[1]).is_none());
    assert_eq!(counts(&sim), (2, Some(0)));
    assert_eq!(sim.count(Write::Create), 4);
    sim.patch_pod(&names[0], json!({"metadata": {"finalizers": null}}));
    sim.conclude();
}

/// A delete names no UID. If the pod is recreated under its name before the request arrives, the
/// new pod is deleted.
#[test]
fn hazard_55_pod_is_recreated_before_the_delete() {
    let mut sim = Harness::new().holding(idle_set("web", 1));
    let name = sim.active("web").remove(0);
    sim.fail(Call::DeletePod, Effect::Slow { by_ms: 1_000 }, 1);
    sim.scale("web", 0);
    sim.run(ms(500));
    assert_eq!(sim.under_way(Call::DeletePod), 1);
    sim.kill_pod(&name);
    // A pod without an owner, and with other labels.
    sim.create_pod(pod(&name, "innocent"));
    sim.run(ms(200));
    assert!(sim.pod(&name).is_some());
    sim.run(seconds(5));
    assert!(sim.pod(&name).is_none());
    assert_eq!(sim.count(Write::Delete), 1);
    sim.conclude();
}
