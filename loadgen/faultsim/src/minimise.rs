//! Takes away from a schedule that fails whatever it does not need to fail in the same way.

use std::ops::Range;

use podstorm::policy::Behaviour;

use super::campaign::{play_deployments, play_seed};
use super::deployments;
use super::schedule::Schedule;
use super::verdict::Verdict;

/// A schedule of which parts can be taken away.
pub trait Reducible: Clone {
    /// How many steps it has.
    fn steps_count(&self) -> usize;
    /// The same without these steps.
    fn without_steps(&self, steps: Range<usize>) -> Self;
    /// How many objects there are at first.
    fn objects_count(&self) -> usize;
    /// The same without that object.
    fn without_object(&self, at: usize) -> Self;
    /// The same without classes of faults that have no step.
    fn without_idle_classes(&self) -> Self;
    /// The same, ending with its last step.
    fn ending_with_last_step(&self) -> Self;
    /// Whether it can be played.
    fn can_be_played(&self) -> bool;
    /// Plays it.
    fn play(&self, behaviour: Behaviour) -> Verdict;
    /// As YAML.
    fn to_yaml(&self) -> String;
}

impl Reducible for Schedule {
    fn steps_count(&self) -> usize {
        self.steps.len()
    }

    fn without_steps(&self, steps: Range<usize>) -> Schedule {
        let mut other = self.clone();
        other.steps.drain(steps);
        other
    }

    fn objects_count(&self) -> usize {
        self.cluster.replica_sets.len()
    }

    fn without_object(&self, at: usize) -> Schedule {
        let mut other = self.clone();
        other.cluster.replica_sets.remove(at);
        other
    }

    fn without_idle_classes(&self) -> Schedule {
        let mut other = self.clone();
        let has_step = |class| self.steps.iter().any(|step| step.class == Some(class));
        other.classes.retain(|class| has_step(*class));
        other
    }

    fn ending_with_last_step(&self) -> Schedule {
        let disturb_ms = self.steps.last().map_or(0, |step| step.at_ms);
        Schedule {
            disturb_ms,
            ..self.clone()
        }
    }

    fn can_be_played(&self) -> bool {
        self.check().is_ok()
    }

    fn play(&self, behaviour: Behaviour) -> Verdict {
        play_seed(self, behaviour)
    }

    fn to_yaml(&self) -> String {
        Schedule::to_yaml(self)
    }
}

impl Reducible for deployments::Schedule {
    fn steps_count(&self) -> usize {
        self.steps.len()
    }

    fn without_steps(&self, steps: Range<usize>) -> deployments::Schedule {
        let mut other = self.clone();
        other.steps.drain(steps);
        other
    }

    fn objects_count(&self) -> usize {
        self.deployments.len()
    }

    fn without_object(&self, at: usize) -> deployments::Schedule {
        let mut other = self.clone();
        other.deployments.remove(at);
        other
    }

    fn without_idle_classes(&self) -> deployments::Schedule {
        let mut other = self.clone();
        let has_step = |class| {
            self.steps
                .iter()
                .any(|step| step.what.class() == Some(class))
        };
        other.classes.retain(|class| has_step(*class));
        other
    }

    fn ending_with_last_step(&self) -> deployments::Schedule {
        let disturb_ms = self.steps.last().map_or(0, |step| step.at_ms);
        deployments::Schedule {
            disturb_ms,
            ..self.clone()
        }
    }

    fn can_be_played(&self) -> bool {
        self.check().is_ok()
    }

    fn play(&self, behaviour: Behaviour) -> Verdict {
        play_deployments(self, behaviour)
    }

    fn to_yaml(&self) -> String {
        deployments::Schedule::to_yaml(self)
    }
}

/// What is left, and how many schedules were played to find out.
#[derive(Clone, Debug)]
pub struct Minimised<S> {
    /// Fails as the first one did.
    pub schedule: S,
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
pub fn minimise<S: Reducible>(
    schedule: &S,
    behaviour: Behaviour,
    invariant: &str,
    enough: &dyn Fn(u32) -> bool,
) -> Minimised<S> {
    let mut search = Search {
        behaviour,
        invariant,
        plays: 0,
        enough,
        cut_short: false,
    };
    let mut best = schedule.clone();
    let mut run = best.steps_count().div_ceil(2).max(1);
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
    let shorter = best.ending_with_last_step();
    search.take_if_it_fails(&mut best, shorter);
    Minimised {
        schedule: best,
        steps_before: schedule.steps_count(),
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

    fn fails<S: Reducible>(&mut self, schedule: &S) -> bool {
        if self.is_over() || !schedule.can_be_played() {
            return false;
        }
        self.plays += 1;
        let violation = schedule.play(self.behaviour).violation;
        violation.is_some_and(|violation| violation.invariant == self.invariant)
    }

    fn take_if_it_fails<S: Reducible>(&mut self, best: &mut S, other: S) -> bool {
        let fails = self.fails(&other);
        if fails {
            *best = other;
        }
        fails
    }

    /// Takes away runs of that many steps, wherever that leaves a failure; whether any was.
    fn remove_runs<S: Reducible>(&mut self, best: &mut S, run: usize) -> bool {
        let mut removed = false;
        let mut at = 0;
        while at < best.steps_count() && !self.is_over() {
            let end = (at + run).min(best.steps_count());
            let other = best.without_steps(at..end);
            if self.take_if_it_fails(best, other) {
                removed = true;
            } else {
                at = end;
            }
        }
        removed
    }

    fn shrink_world<S: Reducible>(&mut self, best: &mut S) {
        let mut at = 0;
        while at < best.objects_count() {
            let other = best.without_object(at);
            if !self.take_if_it_fails(best, other) {
                at += 1;
            }
        }
        *best = best.without_idle_classes();
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::draw::{Wanted, draw};
    use super::super::schedule::Step;
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
