//! Plays a schedule: build, disturb, heal, and quiet.
//!
//! * **Build**: the objects are created and must reach the wanted state, without faults.
//! * **Disturb**: the schedule's steps are carried out at their times.
//! * **Heal** and **quiet**: see [`Ending`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm_apiserver::ClusterOptions;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::executor::seed::seed_for;
use podstorm_sim::rows::Rows;

use super::plan::How;
use super::simulation::{Ending, Simulation, Users, Watcher, options};
use super::subject::{Schedule, Subject};
use super::verdict::{Verdict, Violation};

/// The verdict of a run, and its log.
pub type Played = (Verdict, Vec<String>);

/// Plays a schedule.
///
/// # Panics
/// Panics if the schedule does not pass [`Schedule::check`].
pub fn play<S: Subject>(schedule: &Schedule<S>, how: How) -> Played {
    schedule
        .check()
        .expect("a schedule is checked before it is played");
    let (cluster, seed) = (&schedule.cluster, schedule.seed);
    let watcher = S::watcher(schedule, how);
    let checker = Arc::clone(&watcher).checker();
    let mut options = options(cluster, &S::kinds(schedule), seed, how.behaviour);
    let controllers = &mut options.services.controllers;
    *controllers = controllers.clone().with_one(Rows::installed(), S::ROW);
    for row in S::BESIDE {
        *controllers = controllers.clone().with(row);
    }
    let server = ClusterOptions {
        seed: seed_for(seed, "cluster", 0),
        feature_gates: options.controller.feature_gates.clone(),
        observer: Some(Arc::clone(&watcher) as _),
        ..ClusterOptions::default()
    };
    let mut harness = FaultHarness::new(&options, server, Arc::clone(&watcher).of_orphans());
    Arc::clone(&watcher).observe(&mut harness);
    let simulation = Simulation::new(cluster, harness, Arc::clone(&checker), false);
    let mut simulation = simulation.with_owners(S::OWNERS);
    let mut users = S::Users::new(&schedule.objects);
    users.create(&mut simulation);
    simulation.start_manager();
    let ending = S::ending(how.behaviour);
    let converged_after_ns = phases(&mut simulation, &mut users, &*watcher, schedule, &ending);
    checker.ends(&simulation.harness);
    let (mut verdict, log) = checker.verdict();
    verdict.converged_after_ns = converged_after_ns;
    verdict.simulated_ns = simulation.harness.now().mono_ns;
    verdict.sometimes.extend(watcher.situations());
    verdict.figures = watcher.figures();
    (verdict, log)
}

/// Plays the phases. Returns the time from healing to convergence, ns; `None` if the run did not
/// converge.
fn phases<S: Subject>(
    simulation: &mut Simulation,
    users: &mut S::Users,
    watcher: &S::Watcher,
    schedule: &Schedule<S>,
    ending: &Ending,
) -> Option<i64> {
    let checker = simulation.checker();
    watcher.stepped(simulation);
    if !simulation.builds(ending, watcher) {
        return None;
    }
    checker.phase("disturb", simulation.harness.now());
    simulation.begin_disturbing();
    for step in &schedule.steps {
        simulation.advance_to(step.at_ms);
        watcher.compares(simulation);
        if checker.is_over() {
            return None;
        }
        simulation.act(step, users);
        watcher.stepped(simulation);
    }
    simulation.advance_to(schedule.disturb_ms);
    if checker.is_over() {
        return None;
    }
    let converged_after_ns = simulation.conclude(ending, users, watcher);
    if !checker.is_over() {
        watcher.compares(simulation);
    }
    converged_after_ns
}

/// Plays a schedule. A panic of the code under test is a violation of I10.
pub fn caught<S: Subject>(schedule: &Schedule<S>, behaviour: Behaviour) -> Verdict {
    let played = AssertUnwindSafe(|| play(schedule, How::untold(behaviour)));
    catch_unwind(played).map_or_else(
        |panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Verdict {
                violation: Some(Violation {
                    invariant: "I10",
                    text: format!("panicked: {}", text.unwrap_or_default()),
                    at_ns: 0,
                    version: 0,
                }),
                ..Verdict::default()
            }
        },
        |(verdict, _)| verdict,
    )
}
