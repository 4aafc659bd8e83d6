//! The barrier, the fence and what comes of them, each beside what upstream does.

use podstorm_objects::Kind;
use podstorm_runtime::client::{ApiError, Reason};
use podstorm_runtime::driver::Progress;
use podstorm_runtime::limits::{
    EXPECTATIONS_TIMEOUT_NS, HARDENED_RETRY_MAX_NS, HARDENED_STALE_RETRY_MAX_NS,
};

use super::super::rig::{Fault, LOST, Rig};
use super::super::{Outcome, Step, SyncErrorClass};
use crate::policy::Behaviour::{Hardened, Upstream};

fn class(outcome: &Outcome) -> Option<SyncErrorClass> {
    match outcome {
        Outcome::Ok => None,
        Outcome::Failed(error) => Some(error.class),
    }
}

fn put_off(outcome: &Outcome) -> bool {
    matches!(class(outcome), Some(SyncErrorClass::Consistency(_)))
}

#[test]
fn a_create_whose_answer_is_lost_is_not_made_twice() {
    for (behaviour, made) in [(Upstream, 2), (Hardened, 1)] {
        let mut rig = Rig::new(behaviour, 1);
        rig.server.fault("create", 0, LOST);
        assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Create));
        // The pod is there, its event is not: upstream, which counted it as failed, makes another.
        // (Its status must have come back, or its own gate would hold the key.)
        rig.deliver_parents();
        let outcome = rig.sync();
        assert_eq!(put_off(&outcome), behaviour == Hardened, "{outcome:?}");
        rig.catch_up();
        assert_eq!(rig.server.calls("create"), made, "{behaviour:?}");
    }
}

#[test]
fn a_create_that_was_never_committed_is_retried_behind_the_fence() {
    let mut rig = Rig::new(Hardened, 1);
    let error = ApiError::transport("connection refused");
    rig.server.fault("create", 0, Fault::Refuse(error));
    assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Create));
    assert_eq!(rig.server.log.last().unwrap(), "read pods");
    rig.catch_up();
    assert_eq!(rig.server.pods.len(), 1);
}

#[test]
fn a_refusal_needs_no_fence_but_after_an_earlier_attempt() {
    for resent in [false, true] {
        let mut rig = Rig::new(Hardened, 1);
        let mut error = ApiError::status(403, Reason::Forbidden, "exceeded quota");
        error.resent = resent;
        rig.server.fault("create", 0, Fault::Refuse(error));
        assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Create));
        assert_eq!(rig.server.calls("read"), usize::from(resent));
    }
}

#[test]
fn a_sync_that_waits_for_its_caches_is_tried_again_within_seconds() {
    let mut rig = Rig::new(Hardened, 1);
    assert_eq!(rig.sync(), Outcome::Ok);
    rig.deliver_parents();
    // The event of its pod stays away for minutes.
    for _ in 0..60 {
        assert!(put_off(&rig.turn()));
        rig.pass(HARDENED_STALE_RETRY_MAX_NS);
    }
    rig.deliver();
    assert_eq!(rig.turn(), Outcome::Ok);
}

#[test]
fn a_fence_that_fails_is_asked_for_again_before_anything_is_counted() {
    let mut rig = Rig::new(Hardened, 1);
    let down = || Fault::Refuse(ApiError::transport("no route"));
    rig.server.fault("create", 0, LOST);
    rig.server.fault("read", 0, down());
    rig.server.fault("read", 1, down());
    assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Create));
    rig.deliver_parents();
    let made = rig.server.calls("create");
    assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Fence));
    // Read at last, and the cache is behind it.
    assert!(put_off(&rig.sync()));
    assert_eq!(rig.server.calls("create"), made);
    rig.catch_up();
    assert_eq!((rig.server.pods.len(), rig.server.calls("create")), (1, 1));
    // Forgotten when it was read.
    let reads = rig.server.calls("read");
    rig.sync();
    assert_eq!(rig.server.calls("read"), reads);
}

#[test]
fn a_delete_is_waited_for_like_a_create() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 3);
        rig.sync();
        rig.deliver();
        rig.sync();
        rig.server.set_replicas(2);
        rig.catch_up();
        assert_eq!(rig.server.pods.len(), 2);
        rig.deliver_parents();
        // As if the five minutes were over: upstream acts on the old cache.
        rig.pass(EXPECTATIONS_TIMEOUT_NS + 1);
        let outcome = rig.sync();
        assert_eq!(put_off(&outcome), behaviour == Hardened, "{behaviour:?}");
        let recorded = rig.controller.consistency().record(&rig.key);
        let written = recorded.is_some_and(|record| record.written[0].is_some());
        assert_eq!(written, behaviour == Hardened);
        rig.catch_up();
    }
}

#[test]
fn a_lost_delete_and_one_that_finds_nothing_ask_for_a_fence() {
    for fault in [Some(LOST), None] {
        let mut rig = Rig::new(Hardened, 1);
        rig.sync();
        rig.deliver();
        rig.sync();
        rig.server.set_replicas(0);
        rig.deliver();
        match fault {
            Some(fault) => rig.server.fault("delete", 0, fault),
            None => {
                let name = rig.server.pods.keys().next().unwrap().clone();
                rig.server.remove_pod(&name);
            }
        }
        // Both are looked at again, also where no event tells that there is something to do.
        assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Delete));
        assert_eq!(rig.server.log.last().unwrap(), "read pods");
        rig.deliver_parents();
        assert!(put_off(&rig.sync()));
        rig.catch_up();
        assert_eq!(rig.server.calls("delete"), 1);
    }
}

#[test]
fn replication_controllers_have_a_barrier_too() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::unstarted(Kind::REPLICATION_CONTROLLER, behaviour, 1);
        assert_eq!(rig.sync(), Outcome::Ok);
        let record = rig.controller.consistency().record(&rig.key);
        assert_eq!(record.is_some(), behaviour == Hardened);
    }
}

#[test]
fn nothing_is_counted_before_the_caches_have_come_to_the_versions_of_the_start() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::unstarted(Kind::REPLICA_SET, behaviour, 1);
        // The incarnation before has made the pod; the first list did not show it.
        rig.server.put_pod(rig.own_pod("web-old"));
        let outcome = rig.sync();
        assert_eq!(put_off(&outcome), behaviour == Hardened);
        let made = usize::from(behaviour == Upstream);
        assert_eq!(rig.server.calls("create"), made);
        rig.deliver();
        rig.sync();
        assert_eq!(
            rig.server.calls("read"),
            2 * usize::from(behaviour == Hardened)
        );
    }
}

#[test]
fn two_workers_may_ask_for_the_start_at_once() {
    let mut rig = Rig::unstarted(Kind::REPLICA_SET, Hardened, 0);
    let other = rig.controller.parents().intern("ns", "other");
    let mut second = super::super::Sync::new();
    assert_eq!(rig.begin(), Progress::Waiting);
    let step = rig.controller.begin(other, &mut second, rig.now);
    assert_eq!(step, Step::Requests);
    // The second reads later versions, and is done first.
    for index in 0..2 {
        second.answer(index, podstorm_runtime::client::Answer::Version(20.into()));
    }
    let step = rig.controller.resume(&mut second, rig.now);
    assert_eq!(step, Step::Finished);
    assert!(put_off(second.outcome()));
    assert_eq!(rig.go_on(), Progress::Finished);
    assert!(put_off(rig.driver.sync.outcome()));
    rig.cache.bookmark(&20.into());
    rig.controller.parent_bookmark(&20.into());
    assert_eq!(rig.sync(), Outcome::Ok);
    assert_eq!(rig.server.calls("read"), 2);
}

#[test]
fn a_start_whose_versions_cannot_be_read_counts_nothing() {
    let mut rig = Rig::unstarted(Kind::REPLICA_SET, Hardened, 1);
    let error = ApiError::status(503, Reason::Other("ServiceUnavailable".into()), "down");
    rig.server.fault("read", 1, Fault::Refuse(error));
    assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Fence));
    assert_eq!(rig.server.calls("create"), 0);
    assert_eq!(rig.sync(), Outcome::Ok);
    assert_eq!(
        (rig.server.calls("read"), rig.server.calls("create")),
        (4, 1)
    );
}

#[test]
fn a_cache_that_goes_back_is_waited_for() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        rig.sync();
        rig.deliver();
        rig.sync();
        rig.deliver();
        // A list from a server that lags: without the pod, at the version before it.
        rig.cache.replace(Vec::new(), &10.into());
        let outcome = rig.sync();
        assert_eq!(put_off(&outcome), behaviour == Hardened);
        let made = 1 + usize::from(behaviour == Upstream);
        assert_eq!(rig.server.calls("create"), made);
    }
}

#[test]
fn what_is_expected_and_will_not_be_seen_holds_nothing_up() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        rig.sync();
        // Made and gone between two lists: no event ever tells of it.
        let name = rig.server.pods.keys().next().unwrap().clone();
        let version = rig.server.remove_pod(&name);
        rig.server.forget_pod_events();
        rig.cache.bookmark(&version);
        rig.catch_up();
        let made = 1 + usize::from(behaviour == Hardened);
        assert_eq!(rig.server.calls("create"), made, "{behaviour:?}");
        let settled = rig.controller.metrics().expectations_settled.value();
        assert_eq!(settled, u64::from(behaviour == Hardened));
    }
}

#[test]
fn a_key_that_expects_something_wakes_by_itself() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        assert_eq!(rig.turn(), Outcome::Ok);
        let name = rig.server.pods.keys().next().unwrap().clone();
        let version = rig.server.remove_pod(&name);
        rig.server.forget_pod_events();
        rig.cache.bookmark(&version);
        rig.controller.parent_bookmark(&version);
        rig.pass(HARDENED_RETRY_MAX_NS - 1);
        assert!(!rig.take());
        rig.pass(EXPECTATIONS_TIMEOUT_NS);
        assert_eq!(rig.take(), behaviour == Hardened, "{behaviour:?}");
        if behaviour == Hardened {
            rig.sync();
            assert_eq!(rig.server.pods.len(), 1);
        }
    }
}

#[test]
fn a_status_whose_fate_is_unknown_is_waited_for() {
    let mut rig = Rig::new(Hardened, 0);
    rig.server
        .change_parent(|parent| parent.metadata.generation += 1);
    rig.deliver();
    rig.server.fault("put", 0, LOST);
    let down = Fault::Refuse(ApiError::transport("no route"));
    rig.server.fault("get", 0, down);
    assert_eq!(class(&rig.sync()), Some(SyncErrorClass::Status));
    assert_eq!(rig.server.log.last().unwrap(), "read parents");
    let record = rig.controller.consistency().record(&rig.key).unwrap();
    assert!(record.written[1].is_some());
    assert!(put_off(&rig.sync()));
    rig.catch_up();
}

#[test]
fn a_successor_waits_for_no_more_than_its_own_writes() {
    let mut rig = Rig::new(Hardened, 1);
    rig.server.fault("create", 0, LOST);
    assert_eq!(rig.begin(), Progress::Waiting);
    rig.answer();
    // Replaced by another of the same name while the answer is on its way.
    rig.server
        .change_parent(|parent| parent.metadata.uid = podstorm_objects::Uid::from_u128(0xb));
    rig.deliver();
    rig.run_on();
    rig.deliver();
    rig.sync();
    rig.catch_up();
    let parent = rig.controller.parents().get(rig.key).unwrap();
    let owned = rig.server.pods.values().filter(|pod| {
        let controller = pod.metadata.controller();
        controller.is_some_and(|owner| owner.uid == parent.owner.uid)
    });
    assert_eq!(owned.count(), 1);
}

#[test]
fn a_sync_that_is_put_off_is_retried_within_the_bound_and_does_not_spin() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        rig.server.fault("create", 0, LOST);
        rig.turn();
        // The watch of pods stands still for half an hour; something else wakes the key every second.
        let (mut syncs, mut longest_ns, mut since_ns) = (0, 0, rig.now.mono_ns);
        for second in 0..1_800 {
            rig.pass(1_000_000_000);
            rig.deliver_parents();
            if second < 100 {
                rig.controller.queue().add(rig.key, rig.now.mono_ns);
            }
            while rig.take() {
                longest_ns = longest_ns.max(rig.now.mono_ns - since_ns);
                since_ns = rig.now.mono_ns;
                rig.sync();
                rig.controller.finish(&mut rig.driver.sync, rig.now);
                syncs += 1;
            }
        }
        // A hundred that were woken, and one in five seconds.
        assert!(syncs < 450, "{behaviour:?}: {syncs} syncs");
        let bounded = longest_ns <= HARDENED_STALE_RETRY_MAX_NS + 2_000_000_000;
        assert_eq!(bounded, behaviour == Hardened, "{longest_ns}");
        let made = rig.server.calls("create");
        assert_eq!(made == 1, behaviour == Hardened);
    }
}

#[test]
fn a_cache_that_goes_back_while_it_is_read_is_not_counted() {
    let mut rig = Rig::new(Hardened, 1);
    assert_eq!(rig.sync(), Outcome::Ok);
    rig.deliver();
    assert_eq!(rig.sync(), Outcome::Ok);
    rig.deliver();
    let controller = &rig.controller;
    rig.driver.sync.reset(rig.key);
    assert_eq!(
        controller.stop_at_fence(&mut rig.driver.sync),
        None,
        "all is there"
    );
    // A list from a server that does not know the pod yet.
    drop(rig.cache.replace(Vec::new(), &11.into()));
    let step = controller.begin_behind_gate(&mut rig.driver.sync, rig.now);
    assert_eq!(step, Step::Finished);
    assert!(
        put_off(rig.driver.sync.outcome()),
        "{:?}",
        rig.driver.sync.outcome()
    );
    // And behind the gate the next one waits for the cache.
    assert!(put_off(&rig.sync()));
    assert_eq!(rig.server.calls("create"), 1);
}
