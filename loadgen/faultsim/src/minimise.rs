//! Takes away from a schedule that fails whatever it does not need to fail in the same way.

use podstorm::policy::Behaviour;
use podstorm_sim::faults::FaultClass;

use super::play::caught;
use super::subject::{Schedule, Subject};

/// What is left, and how many schedules were played to find out.
#[derive(Clone, Debug)]
pub struct Minimised<T> {
    /// Fails as the first one did.
    pub schedule: T,
    /// Steps of the first one.
    pub steps_before: usize,
    /// Schedules played.
    pub plays: u32,
    /// Whether the search was stopped before it had tried everything.
    pub cut_short: bool,
}

/// The smallest schedule found that still breaks that invariant. `enough` is asked before each play,
/// with the number of plays so far: when it holds, the search ends with what it has. Steps are taken away
/// in ever smaller runs (delta debugging, Zeller and Hildebrandt 2002), then objects that no step names, then
/// the time after the last step.
pub fn minimise<S: Subject>(
    schedule: &Schedule<S>,
    behaviour: Behaviour,
    invariant: &str,
    enough: &dyn Fn(u32) -> bool,
) -> Minimised<Schedule<S>> {
    let mut search = Search {
        behaviour,
        invariant,
        plays: 0,
        enough,
        cut_short: false,
    };
    let mut best = schedule.clone();
    let steps_before = schedule.steps.len();
    let mut run = steps_before.div_ceil(2).max(1);
    loop {
        let removed = search.remove_runs(&mut best, run);
        if run == 1 && !removed || search.is_over() {
            break;
        }
        run = if removed && run == 1 {
            1
        } else {
            run.div_ceil(2)
        };
    }
    search.shrink_world(&mut best);
    let mut shorter = best.clone();
    shorter.disturb_ms = best.steps.last().map_or(0, |step| step.at_ms);
    search.take_if_it_fails(&mut best, shorter);
    Minimised {
        schedule: best,
        steps_before,
        plays: search.plays,
        cut_short: search.cut_short,
    }
}

struct Search<'a> {
    behaviour: Behaviour,
    invariant: &'a str,
    plays: u32,
    enough: &'a dyn Fn(u32) -> bool,
    cut_short: bool,
}

impl Search<'_> {
    fn is_over(&mut self) -> bool {
        self.cut_short = self.cut_short || (self.enough)(self.plays);
        self.cut_short
    }

    fn fails<S: Subject>(&mut self, schedule: &Schedule<S>) -> bool {
        if self.is_over() || schedule.check().is_err() {
            return false;
        }
        self.plays += 1;
        let violation = caught(schedule, self.behaviour).violation;
        violation.is_some_and(|violation| violation.invariant == self.invariant)
    }

    fn take_if_it_fails<S: Subject>(&mut self, best: &mut Schedule<S>, other: Schedule<S>) -> bool {
        let fails = self.fails(&other);
        if fails {
            *best = other;
        }
        fails
    }

    /// Takes away runs of that many steps, wherever that leaves a failure; whether any was.
    fn remove_runs<S: Subject>(&mut self, best: &mut Schedule<S>, run: usize) -> bool {
        let mut removed = false;
        let mut at = 0;
        while at < best.steps.len() && !self.is_over() {
            let end = (at + run).min(best.steps.len());
            let mut other = best.clone();
            other.steps.drain(at..end);
            if self.take_if_it_fails(best, other) {
                removed = true;
            } else {
                at = end;
            }
        }
        removed
    }

    fn shrink_world<S: Subject>(&mut self, best: &mut Schedule<S>) {
        let mut at = 0;
        while at < best.objects.len() {
            let mut other = best.clone();
            other.objects.remove(at);
            if !self.take_if_it_fails(best, other) {
                at += 1;
            }
        }
        let steps = &best.steps;
        let has_step = |class: &FaultClass| steps.iter().any(|step| step.class == Some(*class));
        best.classes.retain(has_step);
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::draw::draw;
    use super::super::plan::Step;
    use super::*;
    use podstorm::replicaset::ReplicaSets;
    use podstorm_objects::Kind;
    use podstorm_sim::faults::StreamKind;

    /// Upstream, without the gate, creates everything twice when pod events stay away for longer
    /// than expectations last: not a violation, so the search is for one that never converges.
    #[test]
    fn a_failure_that_needs_one_step_is_cut_down_to_it() {
        let mut schedule: Schedule<ReplicaSets> = draw(3, &[]);
        schedule.steps.retain(|step| step.class.is_none());
        let quiet = caught(&schedule, Behaviour::Upstream);
        assert!(quiet.is_good(), "{:?}", quiet.violation);
        // A watch that goes silent for good, which no healing ends.
        let at_ms = schedule.disturb_ms / 2;
        let at = schedule.steps.partition_point(|step| step.at_ms <= at_ms);
        let broken = Action::Break {
            stream: StreamKind::of(Kind::POD),
        };
        schedule.steps.insert(at, Step::of_user(at_ms, broken));
        let broken = caught(&schedule, Behaviour::Upstream);
        let violation = broken.violation.expect("nothing is heard any more");
        let small = minimise(
            &schedule,
            Behaviour::Upstream,
            violation.invariant,
            &|plays| plays >= 500,
        );
        assert!(small.schedule.steps.len() <= 2, "{:?}", small.schedule);
        assert!(small.steps_before > 10 && small.plays <= 500);
        let again = caught(&small.schedule, Behaviour::Upstream);
        assert_eq!(again.violation.unwrap().invariant, violation.invariant);
    }
}
