//! Draws a schedule from a seed, as in swarm testing: each seed enables a few classes of faults, at
//! rates with uniformly distributed logarithms, so that rare pairs occur. Some seeds have a single
//! class at a high rate, and some have no faults.

mod faults;

use podstorm_sim::faults::FaultClass;

use super::dice::Dice;
use super::plan::TimedAction;
use super::subject::{SCHEDULE_VERSION, Schedule, Subject};
use faults::Faults;

/// Draws the schedule of a seed, limited to these classes of faults if any are given.
pub fn draw<S: Subject>(seed: u64, classes: &[FaultClass]) -> Schedule<S> {
    let odds = S::ODDS;
    let mut dice = Dice::new(seed, odds.stream, odds.steps_max);
    let objects = S::draw_objects(&mut dice);
    let cluster = dice.cluster(S::draw_burst);
    let (classes, high) = dice.classes(classes, &odds);
    let disturb_ms = dice.random.u32(60_000..=600_000);
    let mut drawing = S::drawing(&objects);
    let mut steps = S::draw_first(&mut dice, &objects, &mut drawing);
    let mut add = |at_ms: u32, class, actions: Vec<(u32, S::Action)>| {
        steps.extend(actions.into_iter().map(|(after_ms, action)| TimedAction {
            at_ms: at_ms.saturating_add(after_ms).min(disturb_ms),
            class,
            action,
        }));
    };
    for at_ms in dice.user_times(disturb_ms) {
        add(at_ms, None, S::draw_user(&mut dice, &objects, &mut drawing));
    }
    let mut faults = Faults::<S>::new(&objects, drawing);
    for class in &classes {
        for at_ms in dice.fault_times(high, disturb_ms) {
            add(at_ms, Some(*class), faults.draw(&mut dice, *class));
        }
    }
    // The sort is stable: steps with the same time stay in the order in which they were drawn.
    steps.sort_by_key(|step| step.at_ms);
    Schedule {
        version: SCHEDULE_VERSION,
        workload: S::ROW.alias.to_owned(),
        seed,
        objects,
        cluster,
        disturb_ms,
        classes,
        steps,
    }
}

#[cfg(test)]
mod tests;
