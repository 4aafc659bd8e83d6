//! The virtual driver: one thread, a clock that jumps. Tasks run in the order in which they were
//! woken; when none is left, the clock moves to the next moment at which one is due. Nothing else
//! decides the order, so one seed is one run.

use podstorm_objects::Now;

use super::{Executor, Tasks};

/// 2026-01-01T00:00:00Z, where the wall clock of a virtual run starts unless its files are younger, in
/// ns since the epoch.
pub const WALL_START_NS: i64 = 1_767_225_600_000_000_000;

/// Why the driver returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Somebody stopped the switchboard.
    Stopped,
    /// Nothing is queued and nothing will ever be due.
    Quiet,
    /// The next thing is due after the time limit.
    TimeLimit,
    /// The check said so.
    Cancelled,
}

/// Whoever watches a virtual run. It sees all that happens and changes nothing of it.
pub trait RunObserver {
    /// A part has run. Returns false to cancel the run.
    fn step(&mut self, now: Now) -> bool;

    /// Nothing is left to happen at `now`; the clock is about to jump to `due_ns`, or further.
    fn jump(&mut self, now: Now, due_ns: i64);

    /// Nothing is left to happen at all. Returns whether that has brought something about; the run
    /// ends otherwise.
    fn at_rest(&mut self, _now: Now) -> bool {
        false
    }
}

/// What a [`step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// A part has run.
    Ran,
    /// Nothing is left to happen at this moment; the next thing is due then, ns.
    Due(i64),
    /// Nothing is left to happen, now or later.
    AtRest,
}

/// Lets the part run whose turn it is. This and [`jump`] are all that moves virtual time, in every run.
#[inline]
pub fn step(tasks: &Tasks, executor: &Executor, now: Now) -> StepOutcome {
    if let Some(task) = executor.try_take() {
        tasks.run(task, executor, now);
        return StepOutcome::Ran;
    }
    executor
        .next_due()
        .map_or(StepOutcome::AtRest, StepOutcome::Due)
}

/// Moves the clock on to that moment, ns, unless it is there already, and has the parts run that are due.
#[inline]
pub fn jump(executor: &Executor, now: &mut Now, to_ns: i64) {
    *now = now.plus_ns((to_ns - now.mono_ns).max(0));
    executor.fire_due(*now);
}

/// Runs the parts until the run is stopped, until nothing is left to do, or up to `limit_ns` of
/// virtual time. The wall clock starts at `wall_ns`.
pub fn drive(
    tasks: &Tasks,
    executor: &Executor,
    (limit_ns, wall_ns): (i64, i64),
    observer: &mut impl RunObserver,
) -> (RunEnd, Now) {
    let mut now = Now {
        mono_ns: 0,
        wall_ns,
    };
    tasks.wake_all(executor);
    loop {
        match step(tasks, executor, now) {
            StepOutcome::Ran if executor.is_stopped() => return (RunEnd::Stopped, now),
            StepOutcome::Ran if !observer.step(now) => return (RunEnd::Cancelled, now),
            StepOutcome::Ran => {}
            StepOutcome::AtRest => match observer.at_rest(now) {
                _ if executor.is_stopped() => return (RunEnd::Stopped, now),
                true => {}
                false => return (RunEnd::Quiet, now),
            },
            StepOutcome::Due(due_ns) => {
                observer.jump(now, due_ns);
                if due_ns > limit_ns {
                    let rest_ns = limit_ns.saturating_sub(now.mono_ns).max(0);
                    return (RunEnd::TimeLimit, now.plus_ns(rest_ns));
                }
                jump(executor, &mut now, due_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::{Next, Task, TaskId};
    use super::*;

    /// Writes down when it ran, and asks for the next of its wishes.
    struct RecordingTask {
        name: char,
        wishes: Vec<Next>,
        log: Arc<Mutex<Vec<(char, i64)>>>,
        wakes: Option<(Arc<Executor>, TaskId)>,
    }

    impl Task for RecordingTask {
        fn run(&mut self, now: Now) -> Next {
            self.log.lock().unwrap().push((self.name, now.mono_ns));
            if let Some((executor, other)) = &self.wakes {
                executor.wake(*other);
                executor.wake(*other);
            }
            if self.wishes.is_empty() {
                Next::Idle
            } else {
                self.wishes.remove(0)
            }
        }
    }

    /// Nobody watches.
    struct NoObserver;

    impl RunObserver for NoObserver {
        fn step(&mut self, _now: Now) -> bool {
            true
        }

        fn jump(&mut self, now: Now, due_ns: i64) {
            assert!(now.mono_ns <= due_ns, "the clock never goes back");
        }
    }

    type Script = (char, Vec<Next>, Option<usize>);

    fn run_parts(scripts: Vec<Script>, limit_ns: i64) -> (RunEnd, Vec<(char, i64)>) {
        let executor = Arc::new(Executor::new());
        let ids: Vec<TaskId> = scripts.iter().map(|_| executor.reserve()).collect();
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Tasks::default();
        for (&id, (name, wishes, wakes)) in ids.iter().zip(scripts) {
            let wakes = wakes.map(|at| (Arc::clone(&executor), ids[at]));
            let task_under_test = RecordingTask {
                name,
                wishes,
                log: Arc::clone(&log),
                wakes,
            };
            tasks.install(id, Arc::new(Mutex::new(task_under_test)));
        }
        let (end, _) = drive(
            &tasks,
            &executor,
            (limit_ns, WALL_START_NS),
            &mut NoObserver,
        );
        let log = log.lock().unwrap().clone();
        (end, log)
    }

    #[test]
    fn the_clock_jumps_to_what_is_due_next() {
        let (end, log) = run_parts(
            vec![
                ('a', vec![Next::At(30), Next::At(50)], None),
                ('b', vec![Next::At(20), Next::Again, Next::Idle], None),
            ],
            1_000,
        );
        assert_eq!(end, RunEnd::Quiet);
        assert_eq!(
            log,
            [
                ('a', 0),
                ('b', 0),
                ('b', 20),
                ('b', 20),
                ('a', 30),
                ('a', 50)
            ]
        );
    }

    #[test]
    fn a_part_woken_twice_before_its_turn_runs_once() {
        let (_, log) = run_parts(
            vec![
                ('a', vec![], Some(1)),
                ('b', vec![], None),
                ('c', vec![], Some(1)),
            ],
            9,
        );
        assert_eq!(log, [('a', 0), ('b', 0), ('c', 0), ('b', 0)]);
    }

    #[test]
    fn the_time_limit_ends_a_run_that_would_go_on() {
        let (end, log) = run_parts(vec![('a', vec![Next::At(5), Next::At(500)], None)], 100);
        assert_eq!(end, RunEnd::TimeLimit);
        assert_eq!(log, [('a', 0), ('a', 5)]);
    }
}
