//! Tests of the threads driver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::super::{Next, Task, TaskId};
use super::*;

/// A task that wakes its neighbour until all tasks together have run `enough` times.
struct RingTask {
    next: TaskId,
    executor: Arc<Executor>,
    runs: Arc<AtomicU64>,
    busy: AtomicBool,
    enough: u64,
}

impl Task for RingTask {
    fn run(&mut self, _now: Now) -> Next {
        assert!(
            !self.busy.swap(true, Ordering::SeqCst),
            "a task runs once at a time"
        );
        if self.runs.fetch_add(1, Ordering::SeqCst) >= self.enough {
            self.executor.stop();
        }
        self.executor.wake(self.next);
        self.busy.store(false, Ordering::SeqCst);
        Next::Idle
    }
}

fn ring_of(count: usize, enough: u64) -> (Arc<Executor>, Tasks, Arc<AtomicU64>) {
    let executor = Arc::new(Executor::new());
    let ids: Vec<TaskId> = (0..count).map(|_| executor.reserve()).collect();
    let runs = Arc::new(AtomicU64::new(0));
    let mut tasks = Tasks::default();
    for at in 0..count {
        let runner = RingTask {
            next: ids[(at + 1) % count],
            executor: Arc::clone(&executor),
            runs: Arc::clone(&runs),
            busy: AtomicBool::new(false),
            enough,
        };
        tasks.install(ids[at], Arc::new(Mutex::new(runner)));
    }
    (executor, tasks, runs)
}

#[test]
fn threads_share_the_tasks_and_stop_together() {
    let (executor, tasks, runs) = ring_of(5, 20_000);
    let clock = RealClock::start();
    let (end, _) = drive(&tasks, &executor, 3, &clock, i64::MAX, |_| true, |_| false);
    assert_eq!(end, RunEnd::Stopped);
    assert!(runs.load(Ordering::SeqCst) >= 20_000);
}

/// A task that asks three times to be woken a little later.
struct Sleeper {
    left: u32,
    executor: Arc<Executor>,
}

impl Task for Sleeper {
    fn run(&mut self, now: Now) -> Next {
        if self.left == 0 {
            self.executor.stop();
            return Next::Idle;
        }
        self.left -= 1;
        Next::At(now.mono_ns + 2_000_000)
    }
}

#[test]
fn delays_pass_in_real_time() {
    let executor = Arc::new(Executor::new());
    let id = executor.reserve();
    let mut tasks = Tasks::default();
    let sleeper = Sleeper {
        left: 3,
        executor: Arc::clone(&executor),
    };
    tasks.install(id, Arc::new(Mutex::new(sleeper)));
    let clock = RealClock::start();
    let (end, now) = drive(&tasks, &executor, 2, &clock, i64::MAX, |_| true, |_| false);
    assert_eq!(end, RunEnd::Stopped);
    assert!(now.mono_ns >= 6_000_000);
}

#[test]
fn a_cancelled_run_and_one_past_its_limit_end() {
    for (goes_on, limit_ns, expected) in [
        (false, i64::MAX, RunEnd::Cancelled),
        (true, 30_000_000, RunEnd::TimeLimit),
    ] {
        let (executor, tasks, _) = ring_of(2, u64::MAX);
        let clock = RealClock::start();
        let check = |_| goes_on;
        let (end, _) = drive(&tasks, &executor, 2, &clock, limit_ns, check, |_| false);
        assert_eq!(end, expected);
    }
}
