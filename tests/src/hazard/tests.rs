//! The ends of hazards are checked. That the checker notices each invariant is tested beside it, in the
//! fault simulator.

use podstorm::object::Kind;
use podstorm_sim::faults::StreamKind;

use super::{Harness, idle_set, minutes, seconds};

#[test]
#[should_panic(expected = "L1 at")]
fn what_never_converges_is_noticed() {
    let sim = Harness::new();
    sim.create_set(idle_set("web", 2));
    sim.set_pod_quota(Some(1));
    sim.conclude();
}

#[test]
#[should_panic(expected = "S1 at")]
fn what_breaks_an_invariant_ends_the_hazard_at_once() {
    let mut sim = Harness::new();
    // The checker does not know that the controller will miss the pod.
    sim.connection().drop_events(StreamKind::of(Kind::POD), 1);
    sim.create_set(idle_set("web", 3));
    sim.run(minutes(6));
    sim.touch("web");
    sim.run(seconds(1));
}

#[test]
#[should_panic(expected = "every hazard ends with its invariants checked")]
fn a_hazard_without_an_end_is_noticed() {
    let _harness = Harness::new();
}
