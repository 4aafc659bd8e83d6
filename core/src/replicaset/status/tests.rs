//! Tests of the second write of a status after a failed first attempt.

use podstorm_objects::Uid;
use podstorm_runtime::client::{ApiError, Reason};
use podstorm_runtime::driver::Progress;

use super::super::Outcome;
use super::super::harness::{Fault, Harness, LOST};
use crate::policy::Behaviour::{Hardened, Upstream};

/// Runs a sync that is about to write its status while the object changes.
fn overtaken(
    harness: &mut Harness,
    change: impl FnOnce(&mut podstorm_objects::ReplicaSet),
) -> Outcome {
    assert_eq!(harness.begin(), Progress::Waiting);
    let next = harness.answer_and_resume();
    assert_eq!(
        next,
        Progress::Waiting,
        "the sync writes the status after the pod"
    );
    harness.server.change_owner(change);
    harness.answer();
    harness.resume_to_end();
    harness.driver.sync.outcome().clone()
}

#[test]
fn a_status_is_not_written_onto_a_successor() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 1);
        let outcome = overtaken(&mut harness, |owner| {
            owner.metadata.uid = Uid::from_u128(0xb);
            owner.status.replicas = 77;
        });
        // Upstream writes onto the new object that it has no pods and was observed.
        assert_eq!(outcome == Outcome::Ok, behaviour == Upstream);
        let theirs = harness.server.owner.status.replicas == 77;
        assert_eq!(theirs, behaviour == Hardened);
        harness.deliver();
        harness.sync();
        harness.deliver();
        assert_eq!(harness.sync(), Outcome::Ok);
    }
}

#[test]
fn a_status_is_not_written_onto_another_generation() {
    for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
        let mut harness = Harness::new(behaviour, 1);
        overtaken(&mut harness, |owner| owner.metadata.generation += 1);
        assert_eq!(harness.server.calls("put"), puts, "{behaviour:?}");
    }
}

#[test]
fn an_unrelated_conflict_is_retried_with_the_same_status() {
    let mut harness = Harness::new(Hardened, 1);
    let before = harness.server.calls("put");
    let outcome = overtaken(&mut harness, |owner| {
        owner.metadata.labels = podstorm_objects::Labels::from_pairs([("a", "b")]);
    });
    assert_eq!(outcome, Outcome::Ok);
    assert_eq!(harness.server.calls("put") - before, 2);
}

#[test]
fn a_status_with_a_lost_answer_is_not_written_again() {
    for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
        let mut harness = Harness::new(behaviour, 1);
        harness.server.fault("put", 0, LOST);
        assert_eq!(harness.sync(), Outcome::Ok);
        assert_eq!(harness.server.calls("put"), puts, "{behaviour:?}");
        assert_eq!(harness.server.calls("read"), 0);
    }
}

#[test]
fn an_unreadable_object_fails_the_sync() {
    let mut harness = Harness::new(Hardened, 1);
    let refuse = |code, reason| Fault::Refuse(ApiError::status(code, reason, "no"));
    harness
        .server
        .fault("put", 0, refuse(409, Reason::Conflict));
    harness
        .server
        .fault("get", 0, refuse(404, Reason::NotFound));
    assert_ne!(harness.sync(), Outcome::Ok);
    assert_eq!(harness.server.calls("read"), 0);
}
