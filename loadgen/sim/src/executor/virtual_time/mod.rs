//! The virtual driver: one thread and a clock that jumps. Tasks run in the order in which they were
//! woken. When no task is queued, the clock jumps to the time of the next delayed task. Nothing
//! else affects the order, so one seed gives one run.

use podstorm_objects::Now;

use super::{Executor, Tasks};

/// The wall time at which a virtual run starts, unless its files have later times:
/// 2026-01-01T00:00:00Z in ns since the epoch.
pub const WALL_START_NS: i64 = 1_767_225_600_000_000_000;

/// The reason why the driver returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The executor was stopped.
    Stopped,
    /// No task is queued or delayed.
    Quiet,
    /// The next task is due after the time limit.
    TimeLimit,
    /// The observer cancelled the run.
    Cancelled,
}

/// Observes a virtual run, and may end it.
pub trait RunObserver {
    /// Called after a task has run. Returns false to cancel the run.
    fn step(&mut self, now: Now) -> bool;

    /// Called when no task is queued at `now` and the clock is about to jump to `due_ns` or later.
    /// Returns false to prevent the jump because the observer has woken a task.
    fn jump(&mut self, now: Now, due_ns: i64) -> bool;

    /// Called when no task is queued or delayed. Returns whether the observer has woken a task. The
    /// run ends if it has not.
    fn at_rest(&mut self, _now: Now) -> bool {
        false
    }
}

/// The outcome of a [`step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// A task has run.
    Ran,
    /// No task is queued; the next one is due at the given time, ns.
    Due(i64),
    /// No task is queued or delayed.
    AtRest,
}

/// Runs the next queued task, if any. Every virtual run consists of calls to this function and
/// [`jump`].
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

/// Moves the clock forward to `to_ns`, and queues the tasks that are due.
#[inline]
pub fn jump(executor: &Executor, now: &mut Now, to_ns: i64) {
    *now = now.plus_ns((to_ns - now.mono_ns).max(0));
    executor.fire_due(*now);
}

/// Runs the tasks until the run is stopped, the observer cancels it, no task is queued or delayed,
/// or `limit_ns` of virtual time is reached. The wall time starts at `wall_ns`.
pub fn drive(
    tasks: &Tasks,
    executor: &Executor,
    limit_ns: i64,
    wall_ns: i64,
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
                if !observer.jump(now, due_ns) {
                    continue;
                }
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
mod tests;
