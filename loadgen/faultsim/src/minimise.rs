//! Takes away from a schedule that fails whatever it does not need to fail in the same way.

use podstorm::policy::Behaviour;

use super::campaign::play_seed;
use super::schedule::{Schedule, Step};

/// What is left, and how many schedules were played to find out.
#[derive(Clone, Debug)]
pub struct Minimised {
    /// Fails as the first one did.
    pub schedule: Schedule,
    /// Steps of the first one.
    pub steps_before: usize,
    /// Schedules played.
    pub plays: u32,
    /// Whether the search was stopped before it had tried everything.
    pub cut_short: bool,
}

/// The smallest schedule found that still breaks that invariant. `enough` is asked before each play,
/// with the number of plays so far: when it holds, the search ends with what it has. Steps are taken away in ever smaller runs (delta debugging, Zeller and Hildebrandt 2002), then
/// ReplicaSets that no step names, then the time after the last step.
pub fn minimise(
    schedule: &Schedule,
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
    let mut run = best.steps.len().div_ceil(2).max(1);
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
    let last_ms = best.steps.last().map_or(0, |step| step.at_ms);
    let shorter = Schedule {
        disturb_ms: last_ms,
        ..best.clone()
    };
    search.take_if_it_fails(&mut best, shorter);
    Minimised {
        schedule: best,
        steps_before: schedule.steps.len(),
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

    fn fails(&mut self, schedule: &Schedule) -> bool {
        if self.is_over() || schedule.check().is_err() {
            return false;
        }
        self.plays += 1;
        let verdict = play_seed(schedule, self.behaviour);
        verdict
            .violation
            .is_some_and(|violation| violation.invariant == self.invariant)
    }

    fn take_if_it_fails(&mut self, best: &mut Schedule, other: Schedule) -> bool {
        let fails = self.fails(&other);
        if fails {
            *best = other;
        }
        fails
    }

    /// Takes away runs of that many steps, wherever that leaves a failure; whether any was.
    fn remove_runs(&mut self, best: &mut Schedule, run: usize) -> bool {
        let mut removed = false;
        let mut at = 0;
        while at < best.steps.len() && !self.is_over() {
            let end = (at + run).min(best.steps.len());
            let without: Vec<Step> = [&best.steps[..at], &best.steps[end..]].concat();
            let other = Schedule {
                steps: without,
                ..best.clone()
            };
            if self.take_if_it_fails(best, other) {
                removed = true;
            } else {
                at = end;
            }
        }
        removed
    }

    fn shrink_world(&mut self, best: &mut Schedule) {
        let mut at = 0;
        while at < best.world.replica_sets.len() {
            let mut other = best.clone();
            other.world.replica_sets.remove(at);
            if !self.take_if_it_fails(best, other) {
                at += 1;
            }
        }
        best.classes
            .retain(|class| best.steps.iter().any(|step| step.class == Some(*class)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::draw::{Wanted, draw};
    use super::*;
    use podstorm_sim::faults::{FaultClass, StreamKind};

    /// Upstream, without the gate, creates everything twice when pod events stay away for longer
    /// than expectations last: not a violation, so the search is for one that never converges.
    #[test]
    fn a_failure_that_needs_one_step_is_cut_down_to_it() {
        let mut schedule = draw(3, &Wanted::default());
        schedule.steps.retain(|step| step.class.is_none());
        let quiet = play_seed(&schedule, Behaviour::Upstream);
        assert!(quiet.is_good(), "{:?}", quiet.violation);
        // A watch that goes silent for good, which no healing ends.
        let at_ms = schedule.disturb_ms / 2;
        let at = schedule.steps.partition_point(|step| step.at_ms <= at_ms);
        schedule.steps.insert(
            at,
            Step {
                at_ms,
                class: Some(FaultClass::Compaction),
                action: Action::Break {
                    stream: StreamKind::Pods,
                },
            },
        );
        let broken = play_seed(&schedule, Behaviour::Upstream);
        let violation = broken.violation.expect("nothing is heard any more");
        let small = minimise(
            &schedule,
            Behaviour::Upstream,
            violation.invariant,
            &|plays| plays >= 500,
        );
        assert!(
            small.schedule.steps.len() <= 2,
            "{:?}",
            small.schedule.steps
        );
        assert!(small.steps_before > 10 && small.plays <= 500);
        let again = play_seed(&small.schedule, Behaviour::Upstream);
        assert_eq!(again.violation.unwrap().invariant, violation.invariant);
    }
}
