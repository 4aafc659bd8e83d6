//! The threads driver: real time, N plain threads that take parts from the switchboard and sleep
//! when there are none. The calling thread watches the time limit and shows progress.

use std::thread;
use std::time::Duration;

use podstorm_objects::Now;

use super::virtual_time::RunEnd;
use super::{Executor, Tasks};
use crate::clock::RealClock;

/// How long the calling thread sleeps between two looks at the run: often at its beginning, so that
/// a short one is seen too, and then a hundred times a second, which costs a thousandth of a core.
fn check_after(now: Now) -> Duration {
    let run = Duration::from_nanos(u64::try_from(now.mono_ns).unwrap_or(0));
    (run / 64).clamp(Duration::from_micros(500), Duration::from_millis(10))
}

/// The longest a thread sleeps without looking again.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// Empty looks at the queue before a thread goes to sleep: going to sleep and being woken costs a
/// few microseconds each, while most pauses of a busy run are shorter than that.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// Runs the parts on `threads` threads until the run is stopped, until nothing is left to do, or until
/// `limit_ns` has passed. `check` is called by the calling thread a hundred times a second; it returns
/// false to cancel. `at_rest` is called by it when no part runs, waits or will be due; it returns
/// whether that has brought something about, or others than the parts may.
pub fn drive(
    tasks: &Tasks,
    executor: &Executor,
    threads: usize,
    clock: &RealClock,
    limit_ns: i64,
    mut check: impl FnMut(Now) -> bool,
    mut at_rest: impl FnMut(Now) -> bool,
) -> (RunEnd, Now) {
    executor.expect_threads();
    tasks.wake_all(executor);
    let end = thread::scope(|scope| {
        for number in 0..threads.max(1) {
            let work = || {
                // A part that panics must not leave the others, and the caller, waiting for ever.
                let _stop = StopOnPanic(executor);
                work(tasks, executor, clock);
            };
            thread::Builder::new()
                .name(format!("executor-{number}"))
                .spawn_scoped(scope, work)
                .expect("the system has room for a few threads");
        }
        let end = loop {
            if executor.is_stopped() {
                break RunEnd::Stopped;
            }
            let now = clock.now();
            if now.mono_ns > limit_ns {
                break RunEnd::TimeLimit;
            }
            if !check(now) {
                break RunEnd::Cancelled;
            }
            if executor.is_at_rest() && !at_rest(now) {
                // A run that was stopped since the look above is at rest too.
                break match executor.is_stopped() {
                    true => RunEnd::Stopped,
                    false => RunEnd::Quiet,
                };
            }
            executor.wait_stopped(check_after(now));
        };
        executor.stop();
        end
    });
    (end, clock.now())
}

/// One thread: runs parts until the run is over.
fn work(tasks: &Tasks, executor: &Executor, clock: &RealClock) {
    let mut looks = 0;
    while !executor.is_stopped() {
        let now = clock.now();
        if executor
            .next_due()
            .is_some_and(|due_ns| due_ns <= now.mono_ns)
        {
            executor.fire_due(now);
        }
        if let Some(task) = executor.try_take() {
            tasks.run(task, executor, now);
            looks = 0;
        } else if looks < LOOKS_BEFORE_SLEEP {
            looks += 1;
            std::hint::spin_loop();
        } else {
            let until_due = executor.next_due().map_or(LONGEST_SLEEP, |due_ns| {
                Duration::from_nanos(u64::try_from(due_ns - now.mono_ns).unwrap_or(0))
            });
            executor.sleep(until_due.min(LONGEST_SLEEP));
            looks = 0;
        }
    }
}

/// Stops the run when the thread that holds it panics.
struct StopOnPanic<'a>(&'a Executor);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::super::{Next, Task, TaskId};
    use super::*;

    /// Wakes its neighbour until everyone together has run often enough.
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
    fn threads_share_the_parts_and_stop_together() {
        let (executor, tasks, runs) = ring_of(5, 20_000);
        let clock = RealClock::start();
        let (end, _) = drive(&tasks, &executor, 3, &clock, i64::MAX, |_| true, |_| false);
        assert_eq!(end, RunEnd::Stopped);
        assert!(runs.load(Ordering::SeqCst) >= 20_000);
    }

    /// Asks to be woken a little later, three times.
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
        let (executor, tasks, _) = ring_of(2, u64::MAX);
        let clock = RealClock::start();
        assert_eq!(
            drive(&tasks, &executor, 2, &clock, i64::MAX, |_| false, |_| false).0,
            RunEnd::Cancelled
        );
        let (executor, tasks, _) = ring_of(2, u64::MAX);
        assert_eq!(
            drive(
                &tasks,
                &executor,
                2,
                &clock,
                30_000_000,
                |_| true,
                |_| false
            )
            .0,
            RunEnd::TimeLimit
        );
    }
}
