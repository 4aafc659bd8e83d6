//! Minimization: removes everything from a failing schedule that the failure does not need.

use podstorm::policy::Behaviour;
use podstorm_sim::faults::FaultClass;

use super::play::caught;
use super::subject::{Schedule, Subject};

/// The result of a minimization.
#[derive(Clone, Debug)]
pub struct Minimised<T> {
    /// The reduced schedule, which has the same failure.
    pub schedule: T,
    /// The number of steps of the original schedule.
    pub steps_before: usize,
    /// The number of schedules that were played.
    pub plays: u32,
    /// Whether the search was stopped before it had tried all reductions.
    pub cut_short: bool,
}

/// Returns the smallest schedule that the search finds and that still violates the same invariant.
/// `enough` is called before each play with the number of plays so far; if it returns true, the
/// search ends with its current result. The search removes ever shorter series of steps (delta
/// debugging, Zeller and Hildebrandt 2002), then objects that no step names, then the time after
/// the last step.
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

    /// Removes each series of `run` steps without which the failure remains. Returns whether any
    /// were removed.
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
    use super::super::plan::TimedAction;
    use super::*;
    use podstorm::replicaset::ReplicaSets;
    use podstorm_objects::Kind;
    use podstorm_sim::faults::StreamKind;

    /// Without the gate, upstream creates all pods twice if pod events are delayed until
    /// expectations expire. That is not a violation, so the search is for a schedule that never
    /// converges.
    #[test]
    fn a_failure_is_reduced_to_the_one_step_that_causes_it() {
        let mut schedule: Schedule<ReplicaSets> = draw(3, &[]);
        schedule.steps.retain(|step| step.class.is_none());
        let quiet = caught(&schedule, Behaviour::Upstream);
        assert!(quiet.is_good(), "{:?}", quiet.violation);
        // The watch goes silent permanently, even after healing.
        let at_ms = schedule.disturb_ms / 2;
        let at = schedule.steps.partition_point(|step| step.at_ms <= at_ms);
        let broken = Action::Break {
            stream: StreamKind::from_kind(Kind::POD),
        };
        schedule
            .steps
            .insert(at, TimedAction::of_user(at_ms, broken));
        let broken = caught(&schedule, Behaviour::Upstream);
        let violation = broken.violation.expect("the watch is silent");
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
