//! Tests of the read-your-writes check and the fence that compare the behaviour with upstream's.

use podstorm_objects::Kind;
use podstorm_runtime::client::{ApiError, Reason};
use podstorm_runtime::driver::Progress;
use podstorm_runtime::limits::{
    EXPECTATIONS_TIMEOUT_NS, HARDENED_RETRY_MAX_NS, HARDENED_STALE_RETRY_MAX_NS,
};

use super::super::super::harness::{Fault, Harness, LOST};
use super::super::super::{Outcome, Step, SyncErrorClass};
use super::super::tests::settled;
use crate::policy::Behaviour::{Hardened, Upstream};

fn class(outcome: &Outcome) -> Option<SyncErrorClass> {
    match outcome {
        Outcome::Ok => None,
        Outcome::Failed(error) => Some(error.class),
    }
}

fn is_postponed(outcome: &Outcome) -> bool {
    matches!(class(outcome), Some(SyncErrorClass::Consistency(_)))
}

#[test]
fn a_create_with_a_lost_answer_creates_one_pod() {
    for (behaviour, made) in [(Upstream, 2), (Hardened, 1)] {
        let mut harness = Harness::new(behaviour, 1);
        harness.server.fault("create", 0, LOST);
        assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Create));
        // The pod exists, but its event has not arrived. Upstream counted the create as failed and
        // creates another pod. (The status write must be in the cache, or upstream's own gate would
        // hold the key.)
        harness.deliver_owners();
        let outcome = harness.sync();
        assert_eq!(is_postponed(&outcome), behaviour == Hardened, "{outcome:?}");
        harness.catch_up();
        assert_eq!(harness.server.calls("create"), made, "{behaviour:?}");
    }
}

#[test]
fn an_uncommitted_create_is_retried_behind_the_fence() {
    let mut harness = Harness::new(Hardened, 1);
    let error = ApiError::transport("connection refused");
    harness.server.fault("create", 0, Fault::Refuse(error));
    assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Create));
    assert_eq!(harness.server.log.last().unwrap(), "read pods");
    harness.catch_up();
    assert_eq!(harness.server.pods.len(), 1);
}

#[test]
fn only_a_refusal_after_an_earlier_attempt_needs_a_fence() {
    for resent in [false, true] {
        let mut harness = Harness::new(Hardened, 1);
        let mut error = ApiError::status(403, Reason::Forbidden, "exceeded quota");
        error.resent = resent;
        harness.server.fault("create", 0, Fault::Refuse(error));
        assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Create));
        assert_eq!(harness.server.calls("read"), usize::from(resent));
    }
}

#[test]
fn a_sync_waiting_for_its_caches_is_retried_within_seconds() {
    let mut harness = Harness::new(Hardened, 1);
    assert_eq!(harness.sync(), Outcome::Ok);
    harness.deliver_owners();
    // The event of the pod does not arrive for minutes.
    for _ in 0..60 {
        assert!(is_postponed(&harness.process_next()));
        harness.advance(HARDENED_STALE_RETRY_MAX_NS);
    }
    harness.deliver();
    assert_eq!(harness.process_next(), Outcome::Ok);
}

#[test]
fn a_failed_fence_is_read_again_before_pods_are_counted() {
    let mut harness = Harness::new(Hardened, 1);
    let down = || Fault::Refuse(ApiError::transport("no route"));
    harness.server.fault("create", 0, LOST);
    harness.server.fault("read", 0, down());
    harness.server.fault("read", 1, down());
    assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Create));
    harness.deliver_owners();
    let made = harness.server.calls("create");
    assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Fence));
    // The version is read now, but the cache has not reached it.
    assert!(is_postponed(&harness.sync()));
    assert_eq!(harness.server.calls("create"), made);
    harness.catch_up();
    assert_eq!(harness.server.pods.len(), 1);
    assert_eq!(harness.server.calls("create"), 1);
    // The fence is forgotten once its version has been read.
    let reads = harness.server.calls("read");
    harness.sync();
    assert_eq!(harness.server.calls("read"), reads);
}

#[test]
fn a_delete_must_be_seen_like_a_create() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 3);
        harness.server.set_replicas(2);
        harness.catch_up();
        assert_eq!(harness.server.pods.len(), 2);
        harness.deliver_owners();
        // As if the five minutes had passed: upstream acts on the stale cache.
        harness.advance(EXPECTATIONS_TIMEOUT_NS + 1);
        let outcome = harness.sync();
        let postponed = is_postponed(&outcome);
        assert_eq!(postponed, behaviour == Hardened, "{behaviour:?}");
        let recorded = harness.controller.consistency().record(&harness.key);
        let written = recorded.is_some_and(|record| record.written[0].is_some());
        assert_eq!(written, behaviour == Hardened);
        harness.catch_up();
    }
}

#[test]
fn lost_deletes_and_missing_pods_need_a_fence() {
    for fault in [Some(LOST), None] {
        let mut harness = settled(Hardened, 1);
        harness.server.set_replicas(0);
        harness.deliver();
        match fault {
            Some(fault) => harness.server.fault("delete", 0, fault),
            None => {
                let name = harness.server.pods.keys().next().unwrap().clone();
                harness.server.remove_pod(&name);
            }
        }
        // The key is synced again in both cases, even without an event.
        assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Delete));
        assert_eq!(harness.server.log.last().unwrap(), "read pods");
        harness.deliver_owners();
        assert!(is_postponed(&harness.sync()));
        harness.catch_up();
        assert_eq!(harness.server.calls("delete"), 1);
    }
}

#[test]
fn replication_controllers_also_wait_for_their_own_writes() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::before_first_sync(Kind::REPLICATION_CONTROLLER, behaviour, 1);
        assert_eq!(harness.sync(), Outcome::Ok);
        let record = harness.controller.consistency().record(&harness.key);
        assert_eq!(record.is_some(), behaviour == Hardened);
    }
}

#[test]
fn nothing_is_counted_before_the_caches_reach_the_start() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::before_first_sync(Kind::REPLICA_SET, behaviour, 1);
        // The previous incarnation created the pod, and the first list did not show it.
        harness.server.put_pod(harness.own_pod("web-old"));
        let outcome = harness.sync();
        assert_eq!(is_postponed(&outcome), behaviour == Hardened);
        let made = usize::from(behaviour == Upstream);
        assert_eq!(harness.server.calls("create"), made);
        harness.deliver();
        harness.sync();
        let reads = harness.server.calls("read");
        assert_eq!(reads, 2 * usize::from(behaviour == Hardened));
    }
}

#[test]
fn two_workers_may_read_the_start_concurrently() {
    let mut harness = Harness::before_first_sync(Kind::REPLICA_SET, Hardened, 0);
    let other = harness.controller.owners().intern("ns", "other");
    let mut second = super::super::super::ReplicaSetSync::default();
    assert_eq!(harness.begin(), Progress::Waiting);
    let step = harness.controller.begin(other, &mut second, harness.now);
    assert_eq!(step, Step::Requests);
    // The second sync reads later versions and finishes first.
    for index in 0..2 {
        second.answer(index, podstorm_runtime::client::Answer::Version(20.into()));
    }
    let step = harness.controller.resume(&mut second, harness.now);
    assert_eq!(step, Step::Finished);
    assert!(is_postponed(second.outcome()));
    assert_eq!(harness.answer_and_resume(), Progress::Finished);
    assert!(is_postponed(harness.driver.sync.outcome()));
    harness.cache.bookmark(&20.into());
    harness.owners.bookmark(&20.into());
    assert_eq!(harness.sync(), Outcome::Ok);
    assert_eq!(harness.server.calls("read"), 2);
}

#[test]
fn nothing_is_counted_if_the_start_cannot_be_read() {
    let mut harness = Harness::before_first_sync(Kind::REPLICA_SET, Hardened, 1);
    let error = ApiError::status(503, Reason::Other("ServiceUnavailable".into()), "down");
    harness.server.fault("read", 1, Fault::Refuse(error));
    assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Fence));
    assert_eq!(harness.server.calls("create"), 0);
    assert_eq!(harness.sync(), Outcome::Ok);
    assert_eq!(harness.server.calls("read"), 4);
    assert_eq!(harness.server.calls("create"), 1);
}

#[test]
fn a_sync_waits_for_a_rewound_cache() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        // A list from a lagging server does not have the pod, and is of an earlier version.
        harness.cache.replace(Vec::new(), &10.into());
        let outcome = harness.sync();
        assert_eq!(is_postponed(&outcome), behaviour == Hardened);
        let made = 1 + usize::from(behaviour == Upstream);
        assert_eq!(harness.server.calls("create"), made);
    }
}

#[test]
fn lost_events_do_not_block_a_key() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 1);
        harness.sync();
        // The pod was created and deleted between two lists, so its event never comes.
        let name = harness.server.pods.keys().next().unwrap().clone();
        let version = harness.server.remove_pod(&name);
        harness.server.forget_pod_events();
        harness.cache.bookmark(&version);
        harness.catch_up();
        let made = 1 + usize::from(behaviour == Hardened);
        assert_eq!(harness.server.calls("create"), made, "{behaviour:?}");
        let settled = harness.controller.guard().expectations_settled.value();
        assert_eq!(settled, u64::from(behaviour == Hardened));
    }
}

#[test]
fn a_key_that_expects_something_wakes_by_itself() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 1);
        assert_eq!(harness.process_next(), Outcome::Ok);
        let name = harness.server.pods.keys().next().unwrap().clone();
        let version = harness.server.remove_pod(&name);
        harness.server.forget_pod_events();
        harness.cache.bookmark(&version);
        harness.owners.bookmark(&version);
        harness.advance(HARDENED_RETRY_MAX_NS - 1);
        assert!(!harness.take());
        harness.advance(EXPECTATIONS_TIMEOUT_NS);
        assert_eq!(harness.take(), behaviour == Hardened, "{behaviour:?}");
        if behaviour == Hardened {
            harness.sync();
            assert_eq!(harness.server.pods.len(), 1);
        }
    }
}

#[test]
fn a_status_of_unknown_outcome_must_be_seen() {
    let mut harness = Harness::new(Hardened, 0);
    harness
        .server
        .change_owner(|owner| owner.metadata.generation += 1);
    harness.deliver();
    harness.server.fault("put", 0, LOST);
    let down = Fault::Refuse(ApiError::transport("no route"));
    harness.server.fault("get", 0, down);
    assert_eq!(class(&harness.sync()), Some(SyncErrorClass::Status));
    assert_eq!(harness.server.log.last().unwrap(), "read owners");
    let record = harness
        .controller
        .consistency()
        .record(&harness.key)
        .unwrap();
    assert!(record.written[1].is_some());
    assert!(is_postponed(&harness.sync()));
    harness.catch_up();
}

#[test]
fn a_successor_waits_only_for_its_own_writes() {
    let mut harness = Harness::new(Hardened, 1);
    harness.server.fault("create", 0, LOST);
    assert_eq!(harness.begin(), Progress::Waiting);
    harness.answer();
    // The owner is replaced by another with the same name while the answer is in flight.
    harness
        .server
        .change_owner(|owner| owner.metadata.uid = podstorm_objects::Uid::from_u128(0xb));
    harness.deliver();
    harness.resume_to_end();
    harness.deliver();
    harness.sync();
    harness.catch_up();
    let owner = harness.controller.owners().get(harness.key).unwrap();
    let owned = harness.server.pods.values().filter(|pod| {
        let controller = pod.metadata.controller();
        controller.is_some_and(|reference| reference.uid == owner.controller_ref.uid)
    });
    assert_eq!(owned.count(), 1);
}

#[test]
fn a_postponed_sync_is_retried_within_the_bound_without_spin() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 1);
        harness.server.fault("create", 0, LOST);
        harness.process_next();
        // The watch of pods stalls for half an hour. Something else wakes the key every second.
        let (mut syncs, mut longest_ns, mut since_ns) = (0, 0, harness.now.mono_ns);
        for second in 0..1_800 {
            harness.advance(1_000_000_000);
            harness.deliver_owners();
            if second < 100 {
                harness
                    .controller
                    .queue()
                    .add(harness.key, harness.now.mono_ns);
            }
            while harness.take() {
                longest_ns = longest_ns.max(harness.now.mono_ns - since_ns);
                since_ns = harness.now.mono_ns;
                harness.sync();
                harness.driver.finish(&*harness.controller, harness.now);
                syncs += 1;
            }
        }
        // The key was woken a hundred times, and retries ran every five seconds.
        assert!(syncs < 450, "{behaviour:?}: {syncs} syncs");
        let bounded = longest_ns <= HARDENED_STALE_RETRY_MAX_NS + 2_000_000_000;
        assert_eq!(bounded, behaviour == Hardened, "{longest_ns}");
        let made = harness.server.calls("create");
        assert_eq!(made == 1, behaviour == Hardened);
    }
}

#[test]
fn a_cache_rewound_during_the_sync_is_not_counted() {
    let mut harness = settled(Hardened, 1);
    let controller = &harness.controller;
    harness.driver.sync.reset(harness.key);
    let stopped = controller.stop_at_fence(&mut harness.driver.sync);
    assert_eq!(stopped, None, "all pods exist");
    // A list from a server that does not have the pod yet.
    drop(harness.cache.replace(Vec::new(), &11.into()));
    let step = controller.begin_after_gate(&mut harness.driver.sync, harness.now);
    assert_eq!(step, Step::Finished);
    let outcome = harness.driver.sync.outcome();
    assert!(is_postponed(outcome), "{outcome:?}");
    // The next sync waits for the cache.
    assert!(is_postponed(&harness.sync()));
    assert_eq!(harness.server.calls("create"), 1);
}
