//! Tests of the order of tasks, and of the times at which they run, on virtual time.

use std::sync::{Arc, Mutex};

use super::super::{Next, Task, TaskId};
use super::*;

/// A task that records when it runs, wakes the task in `wakes` twice, and returns the next of
/// `wishes`.
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

/// An observer that only checks that the clock never moves backward.
struct NoObserver;

impl RunObserver for NoObserver {
    fn step(&mut self, _now: Now) -> bool {
        true
    }

    fn jump(&mut self, now: Now, due_ns: i64) -> bool {
        assert!(now.mono_ns <= due_ns, "the clock never moves backward");
        true
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
    let (end, _) = drive(&tasks, &executor, limit_ns, WALL_START_NS, &mut NoObserver);
    let log = log.lock().unwrap().clone();
    (end, log)
}

#[test]
fn the_clock_jumps_to_the_next_due_task() {
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
fn a_task_woken_twice_before_it_runs_runs_once() {
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
fn the_time_limit_ends_an_endless_run() {
    let (end, log) = run_parts(vec![('a', vec![Next::At(5), Next::At(500)], None)], 100);
    assert_eq!(end, RunEnd::TimeLimit);
    assert_eq!(log, [('a', 0), ('a', 5)]);
}
