//! Plays a schedule of Deployments: build, disturb, heal, and quiet.

use std::sync::Arc;

use podstorm::deployment;
use podstorm_apiserver::ClusterOptions;
use podstorm_objects::Kind;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::executor::seed::seed_for;
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;

use super::super::invariants::Checker;
use super::super::schedule::{self as sets, How};
use super::super::simulation::{Simulation, options};
use super::super::verdict::Verdict;
use super::checker::RolloutChecker;
use super::ending;
use super::schedule::{Schedule, What};
use super::users::{self, Users};

const SECOND: i64 = 1_000_000_000;

/// Creating the cluster may take so long.
const BUILD_LIMIT: i64 = 900 * SECOND;

/// Plays a schedule; answers what came of it, and the log for a person.
pub fn play(schedule: &Schedule, how: How) -> (Verdict, Vec<String>) {
    let cluster = &schedule.cluster;
    let checker = Arc::new(Checker::new(cluster, how));
    let rollout_checker = Arc::new(RolloutChecker::new(Arc::clone(&checker)));
    let server = ClusterOptions {
        seed: seed_for(schedule.seed, "cluster", 0),
        observer: Some(Arc::clone(&rollout_checker) as _),
        ..ClusterOptions::default()
    };
    let mut options = options(cluster, schedule.seed, how.behaviour);
    let kinds = [Kind::REPLICA_SET, Kind::DEPLOYMENT];
    options.services.controllers = Controllers::of_kinds(Rows::installed(), &kinds);
    let mut harness = FaultHarness::new(&options, server, Arc::clone(&rollout_checker) as _);
    harness.observe::<deployment::Controller>(Arc::clone(&rollout_checker) as _);
    let mut simulation = Simulation::new(cluster, harness, Arc::clone(&checker), false);
    let mut users = Users::new(&schedule.deployments);
    for deployment in &schedule.deployments {
        let (cluster, now) = (simulation.harness.cluster(), simulation.harness.now());
        let created = users.create(cluster, &deployment.name, now);
        created.expect("a Deployment of our own making is accepted");
    }
    simulation.start_manager();
    let converged_after_ns = phases(&mut simulation, &mut users, &rollout_checker, schedule, how);
    checker.ends(&simulation.harness);
    let (mut verdict, log) = checker.verdict();
    verdict.converged_after_ns = converged_after_ns;
    verdict.simulated_ns = simulation.harness.now().mono_ns;
    verdict.sometimes.extend(rollout_checker.situations());
    (verdict, log)
}

fn phases(
    simulation: &mut Simulation,
    users: &mut Users<'_>,
    rollout_checker: &RolloutChecker,
    schedule: &Schedule,
    how: How,
) -> Option<i64> {
    let checker = rollout_checker.checker();
    if !ending::converges(simulation, rollout_checker, BUILD_LIMIT) {
        let missing = ending::missing(simulation, rollout_checker).unwrap_or_default();
        let text = format!(
            "the cluster was not ready within {} s: {missing}",
            BUILD_LIMIT / SECOND
        );
        checker.fail("L1", text, simulation.harness.now());
        return None;
    }
    checker.phase("disturb", simulation.harness.now());
    simulation.begin_disturbing();
    for step in &schedule.steps {
        simulation.advance_to(step.at_ms);
        if checker.is_over() {
            return None;
        }
        match &step.what {
            What::User(action) => {
                checker.note(|| format!("-> {}", users::describe(step)));
                users.act(simulation, action);
                simulation.harness.wake_controllers();
            }
            What::Fault(class, action) => simulation.act(&sets::Step {
                at_ms: step.at_ms,
                class: Some(*class),
                action: action.clone(),
            }),
        }
    }
    simulation.advance_to(schedule.disturb_ms);
    if checker.is_over() {
        return None;
    }
    ending::conclude(simulation, users, rollout_checker, how.behaviour)
}
