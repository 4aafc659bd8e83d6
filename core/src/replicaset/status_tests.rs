//! Where a status may be written when the first attempt has failed.

use podstorm_objects::Uid;
use podstorm_runtime::client::{ApiError, Reason};
use podstorm_runtime::driver::Progress;

use super::Outcome;
use super::rig::{Fault, LOST, Rig};
use crate::policy::Behaviour::{Hardened, Upstream};

/// A sync whose status is about to be written, while the object becomes another.
fn overtaken(rig: &mut Rig, change: impl FnOnce(&mut podstorm_objects::ReplicaSet)) -> Outcome {
    assert_eq!(rig.begin(), Progress::Waiting);
    assert_eq!(rig.go_on(), Progress::Waiting, "the status follows the pod");
    rig.server.change_parent(change);
    rig.answer();
    rig.run_on();
    rig.driver.sync.outcome().clone()
}

#[test]
fn a_status_is_not_written_onto_a_successor() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        let outcome = overtaken(&mut rig, |parent| {
            parent.metadata.uid = Uid::from_u128(0xb);
            parent.status.replicas = 77;
        });
        // Upstream says of the new object that it has no pods and was observed.
        assert_eq!(outcome == Outcome::Ok, behaviour == Upstream);
        let theirs = rig.server.parent.status.replicas == 77;
        assert_eq!(theirs, behaviour == Hardened);
        rig.deliver();
        rig.sync();
        rig.deliver();
        assert_eq!(rig.sync(), Outcome::Ok);
    }
}

#[test]
fn a_status_is_not_written_onto_another_generation() {
    for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
        let mut rig = Rig::new(behaviour, 1);
        overtaken(&mut rig, |parent| parent.metadata.generation += 1);
        assert_eq!(rig.server.calls("put"), puts, "{behaviour:?}");
    }
}

#[test]
fn a_conflict_about_something_else_is_retried_with_the_same_status() {
    let mut rig = Rig::new(Hardened, 1);
    let before = rig.server.calls("put");
    let outcome = overtaken(&mut rig, |parent| {
        parent.metadata.labels = podstorm_objects::Labels::from_pairs([("a", "b")]);
    });
    assert_eq!(
        (outcome, rig.server.calls("put") - before),
        (Outcome::Ok, 2)
    );
}

#[test]
fn a_status_that_was_written_though_no_answer_came_is_not_written_again() {
    for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
        let mut rig = Rig::new(behaviour, 1);
        rig.server.fault("put", 0, LOST);
        assert_eq!(rig.sync(), Outcome::Ok);
        assert_eq!(rig.server.calls("put"), puts, "{behaviour:?}");
        assert_eq!(rig.server.calls("read"), 0);
    }
}

#[test]
fn an_object_that_cannot_be_read_fails_the_sync() {
    let mut rig = Rig::new(Hardened, 1);
    let refuse = |code, reason| Fault::Refuse(ApiError::status(code, reason, "no"));
    rig.server.fault("put", 0, refuse(409, Reason::Conflict));
    rig.server.fault("get", 0, refuse(404, Reason::NotFound));
    assert_ne!(rig.sync(), Outcome::Ok);
    assert_eq!(rig.server.calls("read"), 0);
}
