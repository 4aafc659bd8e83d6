//! The threads driver: real time, and N plain threads that take tasks from the executor, and sleep
//! while none is queued. The calling thread checks the time limit and reports progress.

use std::thread;
use std::time::Duration;

use podstorm_objects::Now;

use super::virtual_time::RunEnd;
use super::{Executor, Tasks};
use crate::clock::RealClock;

/// Returns how long the calling thread sleeps between two checks: a 64th of the run so far, at
/// least 0.5 ms so that short runs are observed, too, and at most 10 ms. A hundred checks per
/// second cost a thousandth of a core.
fn check_after(now: Now) -> Duration {
    let run = Duration::from_nanos(u64::try_from(now.mono_ns).unwrap_or(0));
    (run / 64).clamp(Duration::from_micros(500), Duration::from_millis(10))
}

/// The maximum time that a thread sleeps without checking the queue.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// The number of times that a thread finds the queue empty before it goes to sleep. Falling asleep
/// and waking up cost a few microseconds each, and most pauses of a busy run are shorter.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// Runs the tasks on `threads` threads until the run is stopped, no task is running, queued or
/// delayed, or `limit_ns` has passed. The calling thread calls `check` at least about a hundred
/// times per second; false cancels the run. It calls `at_rest` when no task is running, queued or
/// delayed; true means that a task was woken, or may be woken from outside.
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
                // If a task panics, the other threads and the caller must not wait forever.
                let _stop = StopOnPanic(executor);
                work(tasks, executor, clock);
            };
            thread::Builder::new()
                .name(format!("executor-{number}"))
                .spawn_scoped(scope, work)
                .expect("the system can start the threads");
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
                // A run that was stopped since the check above is also at rest.
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

/// Runs tasks on one thread until the run is over.
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
                clock.real(due_ns.saturating_sub(now.mono_ns))
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
mod tests;
