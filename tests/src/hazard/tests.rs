//! Tests that the end of a hazard is checked. The fault simulator's own tests show that its checker
//! detects the violation of each invariant.

use podstorm::object::Kind;
use podstorm_sim::faults::StreamKind;

use super::{Harness, idle_set, minutes, seconds};

#[test]
#[should_panic(expected = "L1 at")]
fn a_hazard_that_never_converges_is_detected() {
    let sim = Harness::new();
    sim.create_set(idle_set("web", 2));
    sim.set_pod_quota(Some(1));
    sim.conclude();
}

#[test]
#[should_panic(expected = "S1 at")]
fn a_violated_invariant_ends_the_hazard_immediately() {
    let mut sim = Harness::new();
    // The checker does not know that the controller will not see the pod.
    sim.connection()
        .drop_events(StreamKind::from_kind(Kind::POD), 1);
    sim.create_set(idle_set("web", 3));
    sim.run(minutes(6));
    sim.touch("web");
    sim.run(seconds(1));
}

#[test]
#[should_panic(expected = "every hazard ends with its invariants checked")]
fn a_hazard_without_a_conclusion_is_detected() {
    let _harness = Harness::new();
}
