//! The run queue of the executor, without locks: tasks that are queued, running or delayed.

use std::collections::{BTreeSet, VecDeque};

use super::TaskId;

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RunState {
    #[default]
    Idle,
    Queued,
    Running,
    /// The task is running, and will be queued again when it finishes.
    RunningAgain,
}

#[derive(Clone, Copy, Debug, Default)]
struct TaskEntry {
    state: RunState,
    /// The time at which a delayed task will be queued, ns, and the number of that wake-up.
    due: Option<(i64, u64)>,
}

/// A queue that contains each task at most once and never hands out a running task. Low-priority
/// tasks come after all others. Every operation is O(1), except those on delayed tasks, which are
/// O(log delayed tasks).
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    entries: Vec<TaskEntry>,
    normal: VecDeque<TaskId>,
    low_priority: VecDeque<TaskId>,
    /// The delayed tasks, ordered by time and then by the number of the wake-up.
    delayed: BTreeSet<(i64, u64, TaskId)>,
    wake_ups: u64,
    /// The number of running tasks.
    running: usize,
}

impl RunQueue {
    /// Reports whether no task is running, queued or delayed.
    pub(super) fn are_at_rest(&self) -> bool {
        self.running == 0 && self.queued() == 0 && self.delayed.is_empty()
    }

    /// Reports whether no task is running or queued, and only tasks in `timers` are delayed.
    /// O(delayed tasks).
    pub(super) fn are_at_rest_but_for(&self, timers: &[TaskId]) -> bool {
        let mut delayed = self.delayed.iter();
        let are_timers = delayed.all(|(_, _, task)| timers.contains(task));
        self.running == 0 && self.queued() == 0 && are_timers
    }

    /// Returns the number of queued tasks.
    pub(super) fn queued(&self) -> usize {
        self.normal.len() + self.low_priority.len()
    }

    fn entry(&mut self, task: TaskId) -> &mut TaskEntry {
        let index = task.index();
        if index >= self.entries.len() {
            self.entries.resize(index + 1, TaskEntry::default());
        }
        &mut self.entries[index]
    }

    /// Queues a task that is not queued yet; a running task is queued again when it finishes.
    pub(super) fn add(&mut self, task: TaskId) {
        let state = &mut self.entry(task).state;
        match *state {
            RunState::Idle => {
                *state = RunState::Queued;
                self.push(task);
            }
            RunState::Running => *state = RunState::RunningAgain,
            RunState::Queued | RunState::RunningAgain => {}
        }
    }

    fn push(&mut self, task: TaskId) {
        let queue = if task.is_low_priority() {
            &mut self.low_priority
        } else {
            &mut self.normal
        };
        queue.push_back(task);
    }

    /// Delays a task until `at_ns`; an earlier wake-up stays. Returns whether the new time took
    /// effect.
    pub(super) fn add_at(&mut self, task: TaskId, at_ns: i64) -> bool {
        let wake_ups = self.wake_ups;
        let due = &mut self.entry(task).due;
        // A wake-up that moves to an earlier time keeps its number.
        let number = match *due {
            Some((known_ns, _)) if known_ns <= at_ns => return false,
            Some((_, number)) => number,
            None => wake_ups,
        };
        if let Some((known_ns, number)) = due.replace((at_ns, number)) {
            self.delayed.remove(&(known_ns, number, task));
        } else {
            self.wake_ups += 1;
        }
        self.delayed.insert((at_ns, number, task))
    }

    /// Returns the time of the earliest delayed task, ns; `None` if no task is delayed.
    pub(super) fn next_due_ns(&self) -> Option<i64> {
        self.delayed.first().map(|&(due_ns, ..)| due_ns)
    }

    /// Queues the delayed tasks that are due.
    pub(super) fn fire_due(&mut self, now_ns: i64) {
        while self.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns)
            && let Some((.., task)) = self.delayed.pop_first()
        {
            self.entry(task).due = None;
            self.add(task);
        }
    }

    /// Takes the task that has been queued the longest; a low-priority task only if no other is
    /// queued. `None` if no task is queued.
    pub(super) fn take(&mut self) -> Option<TaskId> {
        let task = self
            .normal
            .pop_front()
            .or_else(|| self.low_priority.pop_front())?;
        self.entry(task).state = RunState::Running;
        self.running += 1;
        Some(task)
    }

    /// Records that a task from the queue has run.
    pub(super) fn done(&mut self, task: TaskId) {
        let state = &mut self.entry(task).state;
        let again = *state == RunState::RunningAgain;
        *state = if again {
            RunState::Queued
        } else {
            RunState::Idle
        };
        self.running -= 1;
        if again {
            self.push(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Executor;
    use super::*;

    fn tasks() -> (RunQueue, TaskId, TaskId, TaskId) {
        let executor = Executor::new();
        let (a, b) = (executor.reserve(), executor.reserve());
        (RunQueue::default(), a, b, executor.reserve_low_priority())
    }

    #[test]
    fn a_task_is_queued_once_and_again_if_added_while_running() {
        let (mut queue, a, b, _) = tasks();
        queue.add(a);
        queue.add(b);
        queue.add(a);
        assert_eq!(queue.queued(), 2);
        assert_eq!(queue.take(), Some(a));
        queue.add(a);
        assert_eq!(queue.queued(), 1, "a running task is not queued");
        queue.done(a);
        assert_eq!((queue.take(), queue.take()), (Some(b), Some(a)));
        queue.done(a);
        assert_eq!(queue.take(), None);
        assert!(!queue.are_at_rest(), "a task is still running");
        queue.done(b);
        assert!(queue.are_at_rest());
        queue.add_at(a, 7);
        assert!(!queue.are_at_rest(), "a task is due later");
        assert!(queue.are_at_rest_but_for(&[b, a]));
        assert!(!queue.are_at_rest_but_for(&[b]));
    }

    #[test]
    fn low_priority_tasks_wait_for_all_others() {
        let (mut queue, a, b, low_priority) = tasks();
        queue.add(low_priority);
        queue.add(a);
        assert_eq!(queue.take(), Some(a));
        queue.add(b);
        assert_eq!((queue.take(), queue.take()), (Some(b), Some(low_priority)));
    }

    #[test]
    fn the_earlier_wake_up_wins_and_ties_keep_their_order() {
        let (mut queue, a, b, low_priority) = tasks();
        assert!(queue.add_at(low_priority, 5));
        assert!(queue.add_at(b, 9));
        assert!(queue.add_at(a, 5));
        assert!(!queue.add_at(a, 6));
        assert!(queue.add_at(b, 5), "brought forward");
        assert_eq!(queue.next_due_ns(), Some(5));
        queue.fire_due(4);
        assert_eq!(queue.queued(), 0);
        queue.fire_due(5);
        let order: Vec<TaskId> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(order, [b, a, low_priority]);
        assert_eq!(queue.next_due_ns(), None);
    }
}
