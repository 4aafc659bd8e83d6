//! Where a status may be written when the first attempt has failed.

use podstorm_objects::Uid;
use podstorm_runtime::client::{ApiError, Reason};

use super::rig::{Fault, LOST, Rig};
use super::{Outcome, Step};
use crate::policy::Behaviour::{Hardened, Upstream};

/// A sync whose status is about to be written, while the object becomes another.
fn overtaken(rig: &mut Rig, change: impl FnOnce(&mut podstorm_objects::ReplicaSet)) -> Outcome {
    assert_eq!(rig.begin(), Step::Requests);
    assert_eq!(rig.go_on(), Step::Requests, "the status follows the pod");
    rig.change_parent(change);
    let mut step = rig.go_on();
    while step == Step::Requests {
        step = rig.go_on();
    }
    rig.sync.outcome().clone()
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
        let theirs = rig.parent.status.replicas == 77;
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
        assert_eq!(rig.calls("put"), puts, "{behaviour:?}");
    }
}

#[test]
fn a_conflict_about_something_else_is_retried_with_the_same_status() {
    let mut rig = Rig::new(Hardened, 1);
    let before = rig.calls("put");
    let outcome = overtaken(&mut rig, |parent| {
        parent.metadata.labels = podstorm_objects::Labels::from_pairs([("a", "b")]);
    });
    assert_eq!((outcome, rig.calls("put") - before), (Outcome::Ok, 2));
}

#[test]
fn a_status_that_was_written_though_no_answer_came_is_not_written_again() {
    for (behaviour, puts) in [(Upstream, 2), (Hardened, 1)] {
        let mut rig = Rig::new(behaviour, 1);
        rig.fault("put", 0, LOST);
        assert_eq!(rig.sync(), Outcome::Ok);
        assert_eq!(rig.calls("put"), puts, "{behaviour:?}");
        assert_eq!(rig.calls("read"), 0);
    }
}

#[test]
fn an_object_that_cannot_be_read_fails_the_sync() {
    let mut rig = Rig::new(Hardened, 1);
    let refuse = |code, reason| Fault::Refuse(ApiError::status(code, reason, "no"));
    rig.fault("put", 0, refuse(409, Reason::Conflict));
    rig.fault("get", 0, refuse(404, Reason::NotFound));
    assert_ne!(rig.sync(), Outcome::Ok);
    assert_eq!(rig.calls("read"), 0);
}
