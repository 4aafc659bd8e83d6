//! Plays a schedule: build, disturb, heal, and quiet.
//!
//! * **Build**: the world is created and must converge; nothing goes wrong.
//! * **Disturb**: the schedule's steps are carried out at their times.
//! * **Heal**: whatever still goes wrong is put right; everything must be as wanted within the
//!   behaviour's bound. With upstream's behaviour each ReplicaSet is touched once, when expectations
//!   have run out.
//! * **Quiet**: for ten minutes more nothing may be written.

use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm_apiserver::ClusterOptions;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::executor::seed::seed_for;

use super::act::Player;
use super::invariants::Judge;
use super::schedule::{How, Schedule};
use super::verdict::{Verdict, Violation};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

/// Building a world may take so long.
const BUILD_LIMIT: i64 = 600 * SECOND;

/// With upstream's behaviour each ReplicaSet is touched so long after the faults are over, or later where
/// a sync still expects something: one that set expectations while a watch that had failed was not yet
/// tried again waits for them until they run out, and a touch before that is in vain.
const TOUCH_AFTER: i64 = 370 * SECOND;

/// Upstream: the longest delay of a retry, and two expectations that run out.
const BOUND_UPSTREAM: i64 = 1_600 * SECOND;

/// Hardened: two retries of the longest delay.
const BOUND_HARDENED: i64 = 60 * SECOND;

/// Nothing may be written for so long at the end.
const QUIET: i64 = 600 * SECOND;

/// By then every retry has come: the longest delay of upstream's is 1,000 s, and more where the
/// bucket was empty.
const LAST_RETRY: i64 = 2_000 * SECOND;

/// Plays a schedule.
///
/// # Panics
/// When the schedule does not pass [`Schedule::check`].
pub fn play(schedule: &Schedule, how: How) -> (Verdict, Vec<String>) {
    schedule
        .check()
        .expect("a schedule is checked before it is played");
    let judge = Arc::new(Judge::new(schedule, how));
    let options = ClusterOptions {
        seed: seed_for(schedule.seed, "cluster", 0),
        observer: Some(Arc::clone(&judge) as _),
        ..ClusterOptions::default()
    };
    let settings = super::act::sim_options(schedule, how.behaviour);
    let site = FaultHarness::new(&settings, options, Arc::clone(&judge) as _);
    let mut run = Run {
        player: Player::new(schedule, site, Arc::clone(&judge)),
        judge,
        how,
        converged_after_ns: None,
    };
    run.all(schedule);
    run.verdict()
}

/// Whether a live controller still waits for the events of what it asked for.
fn expects(site: &FaultHarness) -> bool {
    let now_ns = site.now().mono_ns;
    let mut controllers = site.controllers();
    controllers.any(|controller| {
        let expectations = controller.expectations();
        let parents = controller.owners().all();
        let mut keys = parents.iter().map(|parent| parent.key);
        keys.any(|key| !expectations.satisfied(key, now_ns))
    })
}

struct Run {
    player: Player,
    judge: Arc<Judge>,
    how: How,
    converged_after_ns: Option<i64>,
}

impl Run {
    fn all(&mut self, schedule: &Schedule) {
        self.player.build();
        self.judge.stepped(&self.player.site);
        if self.until_converged(BUILD_LIMIT, false).is_none() {
            return self.fail("L1", "the world was not built within ten minutes");
        }
        self.judge.phase("disturb", self.player.site.now());
        self.player.begin_disturbing();
        for step in &schedule.steps {
            self.player.advance_to(step.at_ms);
            self.compare();
            if self.judge.is_over() {
                return;
            }
            self.player.act(step);
            self.judge.stepped(&self.player.site);
        }
        self.player.advance_to(schedule.disturb_ms);
        if self.judge.is_over() {
            return;
        }
        self.heal();
        if !self.judge.is_over() {
            self.compare();
        }
    }

    /// Compares what was done with the reference model, where that follows.
    fn compare(&mut self) {
        if self.judge.follows() {
            let rests = self.player.site.rests() && self.player.missing().is_none();
            self.judge.compares(&self.player.site, rests);
        }
    }

    fn heal(&mut self) {
        self.judge.phase("heal", self.player.site.now());
        self.player.heal();
        // What was put right is noticed before anything is judged.
        let moment_ns = self.player.site.now().mono_ns + MS;
        self.player.run_to(moment_ns);
        let upstream = self.how.behaviour == Behaviour::Upstream;
        let bound = if upstream {
            BOUND_UPSTREAM
        } else {
            BOUND_HARDENED
        };
        let now_ns = self.player.site.now().mono_ns;
        // A request that was lost before is a fault until its time has run out.
        let healed_ns = now_ns.max(self.player.site.network().over_ns());
        let limit_ns = healed_ns - now_ns + bound;
        let Some(since_ns) = self.until_converged(limit_ns, upstream) else {
            if !self.judge.is_over() {
                let text = format!(
                    "not converged {} s after the faults were over: {}",
                    bound / SECOND,
                    self.player.what_is_missing()
                );
                self.fail("L1", &text);
            }
            return;
        };
        self.converged_after_ns = Some((since_ns - healed_ns).max(0));
        self.judge.phase("quiet", self.player.site.now());
        let begun_ns = self.player.site.now().mono_ns;
        self.player.run_to(begun_ns + QUIET);
        if self.judge.is_over() {
            return;
        }
        if let Some(missing) = self.player.missing() {
            return self.fail("L1", &format!("converged, and did not stay so: {missing}"));
        }
        if let Some(text) = self.judge.restless(begun_ns) {
            return self.fail("L2", &text);
        }
        self.retries_come();
        self.judge.at_rest(&self.player.site);
    }

    /// Goes on until no retry is to come: upstream's wait for a quarter of an hour and more, and what
    /// is kept for an object that is gone stays until its last one.
    fn retries_come(&mut self) {
        let limit_ns = self.player.site.now().mono_ns + LAST_RETRY;
        loop {
            let now_ns = self.player.site.now().mono_ns;
            let waits = self
                .player
                .site
                .controllers()
                .any(|it| it.queue().delayed() > 0);
            if !waits || now_ns >= limit_ns || self.judge.is_over() {
                return;
            }
            self.player.run_to(now_ns + 60 * SECOND);
        }
    }

    /// Goes on until all is as wanted; the moment since when it is, or nothing when that takes
    /// longer than `limit_ns`.
    fn until_converged(&mut self, limit_ns: i64, touch: bool) -> Option<i64> {
        let begun_ns = self.player.site.now().mono_ns;
        let mut touched = !touch;
        let mut since_ns = None;
        let mut step_ns = 50 * MS;
        loop {
            let now_ns = self.player.site.now().mono_ns;
            if self.judge.is_over() {
                return None;
            }
            match self.player.missing() {
                Some(_) => since_ns = None,
                None => {
                    since_ns.get_or_insert(self.judge.last_write_ns().max(begun_ns));
                }
            }
            if touched && since_ns.is_some() && self.player.site.rests() {
                return since_ns;
            }
            let waited = now_ns - begun_ns;
            if !touched && waited >= TOUCH_AFTER && !expects(&self.player.site) {
                self.player.touch_all();
                touched = true;
                step_ns = 50 * MS;
            }
            if waited >= limit_ns {
                return None;
            }
            let mut end_ns = (now_ns + step_ns).min(begun_ns + limit_ns);
            if waited < TOUCH_AFTER && !touched {
                end_ns = end_ns.min(begun_ns + TOUCH_AFTER);
            }
            self.player.run_to(end_ns);
            step_ns = (step_ns * 5 / 4).min(5 * SECOND);
        }
    }

    fn fail(&mut self, invariant: &'static str, text: &str) {
        let now = self.player.site.now();
        let violation = Violation {
            invariant,
            text: text.to_owned(),
            at_ns: now.mono_ns,
            version: self.player.site.cluster().resource_version(),
        };
        self.judge.violate(violation);
    }

    fn verdict(self) -> (Verdict, Vec<String>) {
        let simulated_ns = self.player.site.now().mono_ns;
        self.judge.ends(&self.player.site);
        let (mut verdict, told) = self.judge.verdict();
        verdict.converged_after_ns = self.converged_after_ns;
        verdict.simulated_ns = simulated_ns;
        (verdict, told)
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Action;
    use super::super::campaign::play_seed;
    use super::super::draw::{Wanted, draw};
    use super::super::schedule::Step;
    use super::super::workloads::WorkloadKind;
    use super::*;
    use podstorm_sim::faults::{FaultClass, StreamKind};

    /// A seed without faults, of whose objects only the first is left, and that is of this kind.
    fn one_of(kind: WorkloadKind) -> Schedule {
        let schedules = (0..).map(|seed| draw(seed, &Wanted::default()));
        let mut schedule = schedules
            .filter(|it| it.classes.is_empty() && it.steps.len() > 5)
            .find(|it| it.world.replica_sets.len() == 1)
            .expect("some seed is so simple");
        schedule.world.replica_sets[0].kind = kind;
        schedule.world.replica_sets[0].replicas = 3;
        schedule.world.replica_sets[0].min_ready_seconds = 0;
        let scale = |at_ms, replicas| Step {
            at_ms,
            class: None,
            action: Action::Scale {
                replica_set: "web".to_owned(),
                replicas,
            },
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
                // After the first step and the second, and of the world itself.
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
                    stream: StreamKind::ReplicationControllers,
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
                let steps = [(1_000, beside), (5_000, orphans)].map(|(at_ms, action)| Step {
                    at_ms,
                    class: None,
                    action,
                });
                schedule.steps.splice(0..0, steps);
                let verdict = play_seed(&schedule, behaviour);
                assert_eq!(verdict.violation, None);
                assert!(verdict.sometimes.contains("a pod is adopted"));
            }
        }
    }

    #[test]
    fn a_seed_leaves_the_same_trace_on_every_thread() {
        for seed in 1..5 {
            let traces = move || {
                Behaviour::ALL.map(|behaviour| {
                    let how = How {
                        behaviour,
                        told: false,
                    };
                    play(&draw(seed, &Wanted::default()), how).0.trace
                })
            };
            let other = std::thread::spawn(traces).join();
            assert_eq!(other.expect("nothing panics"), traces(), "seed {seed}");
        }
    }
}
