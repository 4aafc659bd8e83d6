//! Takes away from a schedule that fails whatever it does not need to fail in the same way.

use podstorm::policy::Behaviour;

use super::any::AnySchedule;

/// What is left, and how many schedules were played to find out.
#[derive(Clone, Debug)]
pub struct Minimised {
    /// Fails as the first one did.
    pub schedule: AnySchedule,
    /// Steps of the first one.
    pub steps_before: usize,
    /// Schedules played.
    pub plays: u32,
    /// Whether the search was stopped before it had tried everything.
    pub cut_short: bool,
}

/// The smallest schedule found that still breaks that invariant. `enough` is asked before each play,
/// with the number of plays so far: when it holds, the search ends with what it has. Steps are taken away
/// in ever smaller runs (delta debugging, Zeller and Hildebrandt 2002), then objects that no step names, then the time after the last step.
pub fn minimise(
    schedule: &AnySchedule,
    behaviour: Behaviour,
    invariant: &str,
    enough: &dyn Fn(u32) -> bool,
) -> Minimised {
    let mut search = Search {
        behaviour,
        invariant,
        plays: 0,
        enough,
        cut_short: false,
    };
    let mut best = schedule.clone();
    let (steps_before, _) = schedule.size();
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
    let shorter = best.clone().ending_with_last_step();
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

    fn fails(&mut self, schedule: &AnySchedule) -> bool {
        if self.is_over() || !schedule.can_be_played() {
            return false;
        }
        self.plays += 1;
        let violation = schedule.play_caught(self.behaviour).violation;
        violation.is_some_and(|violation| violation.invariant == self.invariant)
    }

    fn take_if_it_fails(&mut self, best: &mut AnySchedule, other: AnySchedule) -> bool {
        let fails = self.fails(&other);
        if fails {
            *best = other;
        }
        fails
    }

    /// Takes away runs of that many steps, wherever that leaves a failure; whether any was.
    fn remove_runs(&mut self, best: &mut AnySchedule, run: usize) -> bool {
        let mut removed = false;
        let mut at = 0;
        while at < best.size().0 && !self.is_over() {
            let end = (at + run).min(best.size().0);
            let other = best.clone().without(at..end, 0..0);
            if self.take_if_it_fails(best, other) {
                removed = true;
            } else {
                at = end;
            }
        }
        removed
    }

    fn shrink_world(&mut self, best: &mut AnySchedule) {
        let mut at = 0;
        while at < best.size().1 {
            let other = best.clone().without(0..0, at..at + 1);
            if !self.take_if_it_fails(best, other) {
                at += 1;
            }
        }
        *best = best.clone().without_idle_classes();
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::any::play_seed;
    use super::super::draw::draw;
    use super::super::schedule::Step;
    use super::*;
    use podstorm_objects::Kind;
    use podstorm_sim::faults::StreamKind;

    /// Upstream, without the gate, creates everything twice when pod events stay away for longer
    /// than expectations last: not a violation, so the search is for one that never converges.
    #[test]
    fn a_failure_that_needs_one_step_is_cut_down_to_it() {
        let mut schedule = draw(3, &[]);
        schedule.steps.retain(|step| step.class.is_none());
        let quiet = play_seed(&schedule, Behaviour::Upstream);
        assert!(quiet.is_good(), "{:?}", quiet.violation);
        // A watch that goes silent for good, which no healing ends.
        let at_ms = schedule.disturb_ms / 2;
        let at = schedule.steps.partition_point(|step| step.at_ms <= at_ms);
        let broken = Action::Break {
            stream: StreamKind::of(Kind::POD),
        };
        schedule.steps.insert(at, Step::of_user(at_ms, broken));
        let schedule = AnySchedule::ReplicaSets(schedule);
        let broken = schedule.play_caught(Behaviour::Upstream);
        let violation = broken.violation.expect("nothing is heard any more");
        let small = minimise(
            &schedule,
            Behaviour::Upstream,
            violation.invariant,
            &|plays| plays >= 500,
        );
        assert!(small.schedule.size().0 <= 2, "{:?}", small.schedule);
        assert!(small.steps_before > 10 && small.plays <= 500);
        let again = small.schedule.play_caught(Behaviour::Upstream);
        assert_eq!(again.violation.unwrap().invariant, violation.invariant);
    }
}
