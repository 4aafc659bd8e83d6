//! Whose turn it is, without the locks: which parts are queued, which run, which come later.

use std::collections::{BTreeSet, VecDeque};

use super::PartId;

/// Where a part stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Queued,
    Running,
    /// Running, and to be queued again when it is done.
    RunningAgain,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    state: State,
    /// When it is to be queued, and its number among all such wishes.
    due: Option<(i64, u64)>,
}

/// A queue in which each part waits at most once and runs at most once at a time; late parts come
/// when no other waits. Everything is O(1), but for delays: O(log delayed).
#[derive(Debug, Default)]
pub(super) struct Turns {
    standings: Vec<Standing>,
    first: VecDeque<PartId>,
    late: VecDeque<PartId>,
    /// By moment, then by number.
    delayed: BTreeSet<(i64, u64, PartId)>,
    wishes: u64,
    /// How many parts run.
    running: usize,
}

impl Turns {
    /// Whether no part runs, waits or will be due: nothing happens any more by itself.
    pub(super) fn are_at_rest(&self) -> bool {
        self.running == 0 && self.queued() == 0 && self.delayed.is_empty()
    }

    /// How many parts are queued.
    pub(super) fn queued(&self) -> usize {
        self.first.len() + self.late.len()
    }

    fn standing(&mut self, part: PartId) -> &mut Standing {
        let index = part.index();
        if index >= self.standings.len() {
            self.standings.resize(index + 1, Standing::default());
        }
        &mut self.standings[index]
    }

    /// Queues a part that doesn't wait yet; one that runs is queued when it is done.
    pub(super) fn add(&mut self, part: PartId) {
        let state = &mut self.standing(part).state;
        match *state {
            State::Idle => {
                *state = State::Queued;
                self.push(part);
            }
            State::Running => *state = State::RunningAgain,
            State::Queued | State::RunningAgain => {}
        }
    }

    fn push(&mut self, part: PartId) {
        let queue = if part.is_late() {
            &mut self.late
        } else {
            &mut self.first
        };
        queue.push_back(part);
    }

    /// Adds a part at that moment; an earlier wish stays. Returns whether the wish took effect.
    pub(super) fn add_at(&mut self, part: PartId, at_ns: i64) -> bool {
        let wishes = self.wishes;
        let due = &mut self.standing(part).due;
        // A wish that is brought forward keeps its number.
        let number = match *due {
            Some((known_ns, _)) if known_ns <= at_ns => return false,
            Some((_, number)) => number,
            None => wishes,
        };
        if let Some((known_ns, number)) = due.replace((at_ns, number)) {
            self.delayed.remove(&(known_ns, number, part));
        } else {
            self.wishes += 1;
        }
        self.delayed.insert((at_ns, number, part))
    }

    /// The moment of the earliest delayed part.
    pub(super) fn next_due_ns(&self) -> Option<i64> {
        self.delayed.first().map(|&(due_ns, ..)| due_ns)
    }

    /// Queues the parts whose moment has come.
    pub(super) fn fire_due(&mut self, now_ns: i64) {
        while self.next_due_ns().is_some_and(|due_ns| due_ns <= now_ns)
            && let Some((.., part)) = self.delayed.pop_first()
        {
            self.standing(part).due = None;
            self.add(part);
        }
    }

    /// Takes the part that has waited longest.
    pub(super) fn take(&mut self) -> Option<PartId> {
        let part = self.first.pop_front().or_else(|| self.late.pop_front())?;
        self.standing(part).state = State::Running;
        self.running += 1;
        Some(part)
    }

    /// A part that was taken has run.
    pub(super) fn done(&mut self, part: PartId) {
        let state = &mut self.standing(part).state;
        let again = *state == State::RunningAgain;
        *state = if again { State::Queued } else { State::Idle };
        self.running -= 1;
        if again {
            self.push(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Switchboard;
    use super::*;

    fn parts() -> (Turns, PartId, PartId, PartId) {
        let switchboard = Switchboard::new();
        let (a, b) = (switchboard.reserve(), switchboard.reserve());
        (Turns::default(), a, b, switchboard.reserve_late())
    }

    #[test]
    fn a_part_waits_once_and_runs_again_when_it_was_added_while_it_ran() {
        let (mut turns, a, b, _) = parts();
        turns.add(a);
        turns.add(b);
        turns.add(a);
        assert_eq!(turns.queued(), 2);
        assert_eq!(turns.take(), Some(a));
        turns.add(a);
        assert_eq!(turns.queued(), 1, "not while it runs");
        turns.done(a);
        assert_eq!((turns.take(), turns.take()), (Some(b), Some(a)));
        turns.done(a);
        assert_eq!(turns.take(), None);
        assert!(!turns.are_at_rest(), "one runs still");
        turns.done(b);
        assert!(turns.are_at_rest());
        turns.add_at(a, 7);
        assert!(!turns.are_at_rest(), "one is due later");
    }

    #[test]
    fn late_parts_wait_for_all_others() {
        let (mut turns, a, b, late) = parts();
        turns.add(late);
        turns.add(a);
        assert_eq!(turns.take(), Some(a));
        turns.add(b);
        assert_eq!((turns.take(), turns.take()), (Some(b), Some(late)));
    }

    #[test]
    fn the_earlier_of_two_moments_stays_and_equal_ones_keep_their_order() {
        let (mut turns, a, b, late) = parts();
        assert!(turns.add_at(late, 5));
        assert!(turns.add_at(b, 9));
        assert!(turns.add_at(a, 5));
        assert!(!turns.add_at(a, 6));
        assert!(turns.add_at(b, 5), "brought forward");
        assert_eq!(turns.next_due_ns(), Some(5));
        turns.fire_due(4);
        assert_eq!(turns.queued(), 0);
        turns.fire_due(5);
        let order: Vec<PartId> = std::iter::from_fn(|| turns.take()).collect();
        assert_eq!(order, [b, a, late]);
        assert_eq!(turns.next_due_ns(), None);
    }
}
