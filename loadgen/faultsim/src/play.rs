//! Plays a schedule: build, disturb, heal, and quiet.
//!
//! * **Build**: the cluster is created and must converge; nothing goes wrong.
//! * **Disturb**: the schedule's steps are carried out at their times.
//! * **Heal** and **quiet**: see [`Ending`].

use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm_apiserver::ClusterOptions;
use podstorm_objects::Kind;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::executor::seed::seed_for;
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;

use super::invariants::Checker;
use super::schedule::{How, Schedule};
use super::simulation::{Ending, Simulation, options};
use super::verdict::Verdict;

const SECOND: i64 = 1_000_000_000;

/// Building the cluster may take so long.
const BUILD_LIMIT: i64 = 600 * SECOND;

/// Upstream: the longest delay of a retry, and two expectations that run out.
const ENDING_UPSTREAM: Ending = Ending {
    converges_within_ns: 1_600 * SECOND,
    touches: true,
    quiet_ns: 600 * SECOND,
};

/// Hardened: two retries of the longest delay.
const ENDING_HARDENED: Ending = Ending {
    converges_within_ns: 60 * SECOND,
    touches: false,
    quiet_ns: 600 * SECOND,
};

/// Plays a schedule; answers what came of it, and the log for a person.
///
/// # Panics
/// When the schedule does not pass [`Schedule::check`].
pub fn play(schedule: &Schedule, how: How) -> (Verdict, Vec<String>) {
    schedule
        .check()
        .expect("a schedule is checked before it is played");
    let checker = Arc::new(Checker::of(schedule, how));
    let server = ClusterOptions {
        seed: seed_for(schedule.seed, "cluster", 0),
        observer: Some(Arc::clone(&checker) as _),
        ..ClusterOptions::default()
    };
    let mut options = options(&schedule.cluster, schedule.seed, how.behaviour);
    // A controller without objects would only hear of pods that are none of its business.
    if schedule.has_replication_controllers() {
        let kinds = [Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER];
        options.services.controllers = Controllers::of_kinds(Rows::installed(), &kinds);
    }
    let harness = FaultHarness::new(&options, server, Arc::clone(&checker) as _);
    let mut simulation = Simulation::new(&schedule.cluster, harness, Arc::clone(&checker), false);
    simulation.start_manager();
    let converged_after_ns = play_phases(&mut simulation, &checker, schedule, how.behaviour);
    checker.ends(&simulation.harness);
    let (mut verdict, log) = checker.verdict();
    verdict.converged_after_ns = converged_after_ns;
    verdict.simulated_ns = simulation.harness.now().mono_ns;
    (verdict, log)
}

/// Plays the phases; answers how long after healing everything was as wanted, ns.
fn play_phases(
    simulation: &mut Simulation,
    checker: &Checker,
    schedule: &Schedule,
    behaviour: Behaviour,
) -> Option<i64> {
    checker.stepped(&simulation.harness);
    let built = simulation.until_converged(BUILD_LIMIT, false, Simulation::missing);
    if built.is_none() {
        let text = "the cluster was not built within ten minutes";
        checker.fail("L1", text, simulation.harness.now());
        return None;
    }
    checker.phase("disturb", simulation.harness.now());
    simulation.begin_disturbing();
    for step in &schedule.steps {
        simulation.advance_to(step.at_ms);
        compare(simulation, checker);
        if checker.is_over() {
            return None;
        }
        simulation.act(step);
        checker.stepped(&simulation.harness);
    }
    simulation.advance_to(schedule.disturb_ms);
    if checker.is_over() {
        return None;
    }
    let converged_after_ns = simulation.conclude(match behaviour {
        Behaviour::Upstream => &ENDING_UPSTREAM,
        Behaviour::Hardened => &ENDING_HARDENED,
    });
    if !checker.is_over() {
        compare(simulation, checker);
    }
    converged_after_ns
}

/// Compares what was done with the reference model, where that follows.
fn compare(simulation: &Simulation, checker: &Checker) {
    if checker.follows() {
        let rests = simulation.harness.rests() && simulation.missing().is_none();
        checker.compares(&simulation.harness, rests);
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::any::play_seed;
    use super::super::draw::draw;
    use super::super::schedule::Step;
    use super::super::workloads::WorkloadKind;
    use super::*;
    use podstorm_sim::faults::{FaultClass, StreamKind};

    /// A seed without faults, of whose objects only the first is left, and that is of this kind.
    fn one_of(kind: WorkloadKind) -> Schedule {
        let schedules = (0..).map(|seed| draw(seed, &[]));
        let mut schedule = schedules
            .filter(|it| it.classes.is_empty() && it.steps.len() > 5)
            .find(|it| it.cluster.replica_sets.len() == 1)
            .expect("some seed is so simple");
        schedule.cluster.replica_sets[0].kind = kind;
        schedule.cluster.replica_sets[0].replicas = 3;
        schedule.cluster.replica_sets[0].min_ready_seconds = 0;
        let scale = |at_ms, replicas| {
            let replica_set = "web".to_owned();
            let scale = Action::Scale {
                replica_set,
                replicas,
            };
            Step::of_user(at_ms, scale)
        };
        schedule.steps = vec![scale(10_000, 8), scale(20_000, 2)];
        schedule
    }

    #[test]
    fn replication_controllers_are_scaled_as_replica_sets_are() {
        for behaviour in Behaviour::ALL {
            let of_kinds = WorkloadKind::ALL.map(|kind| play_seed(&one_of(kind), behaviour));
            for verdict in &of_kinds {
                assert_eq!(verdict.violation, None);
                assert_eq!((verdict.creates, verdict.deletes), (8, 6));
                // After the first step and the second, and of the cluster itself.
                assert_eq!(verdict.compared, [3, 0]);
            }
            assert_ne!(of_kinds[0].trace, of_kinds[1].trace);
        }
    }

    #[test]
    fn a_watch_of_replication_controllers_that_goes_silent_is_noticed_where_there_are_some() {
        for (kind, expected) in [
            (WorkloadKind::ReplicaSet, None),
            (WorkloadKind::ReplicationController, Some("L1")),
        ] {
            let mut schedule = one_of(kind);
            let broken = Step {
                at_ms: 5_000,
                class: Some(FaultClass::Compaction),
                action: Action::Break {
                    stream: StreamKind::of(Kind::REPLICATION_CONTROLLER),
                },
            };
            schedule.steps.insert(0, broken);
            let verdict = play_seed(&schedule, Behaviour::Hardened);
            let violation = verdict.violation.map(|violation| violation.invariant);
            assert_eq!(violation, expected, "{kind:?}");
        }
    }

    #[test]
    fn both_kinds_over_the_same_labels_share_the_orphans_and_come_to_rest() {
        for behaviour in Behaviour::ALL {
            for kind in WorkloadKind::ALL {
                let mut schedule = one_of(kind);
                let other = WorkloadKind::ALL.into_iter().find(|it| *it != kind);
                let beside = Action::CreateOverlapping {
                    kind: other.expect("there are two kinds"),
                    name: "beside".to_owned(),
                    like: "web".to_owned(),
                    replicas: 2,
                };
                let orphans = Action::CreateOrphans {
                    replica_set: "web".to_owned(),
                    pods: 4,
                };
                let steps = [Step::of_user(1_000, beside), Step::of_user(5_000, orphans)];
                schedule.steps.splice(0..0, steps);
                let verdict = play_seed(&schedule, behaviour);
                assert_eq!(verdict.violation, None);
                assert!(verdict.sometimes.contains("a pod is adopted"));
            }
        }
    }
}
