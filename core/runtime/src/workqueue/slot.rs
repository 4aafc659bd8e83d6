//! The queue's data per key: the key's state in one word, and its share of the metrics.

use crate::limits::QUEUE_DURATION_BOUNDS_NS;
use crate::primitives::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

pub(super) const BUCKETS: usize = QUEUE_DURATION_BOUNDS_NS.len() + 1;

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    /// The key is neither queued nor taken.
    Idle,
    /// The key is in a ring, or about to be pushed to one.
    Queued,
    /// The key is taken and not done.
    Running,
    /// The key is taken, and was added again since then.
    Dirty,
}

/// The state of a key and, if the key is queued or dirty, the time when it was added. Both are in
/// one word, so they change together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(u64);

impl Word {
    /// Packs a state and a time. The time has 62 bits, enough for 73 years in either direction.
    #[inline]
    pub(super) fn new(state: KeyState, added_ns: i64) -> Self {
        Word((added_ns as u64) << 2 | state as u64)
    }

    #[inline]
    pub(super) fn state(self) -> KeyState {
        match self.0 & 3 {
            0 => KeyState::Idle,
            1 => KeyState::Queued,
            2 => KeyState::Running,
            _ => KeyState::Dirty,
        }
    }

    #[inline]
    pub(super) fn added_ns(self) -> i64 {
        self.0 as i64 >> 2
    }
}

/// The data of one key, in one cache line. The line moves between cores when one thread adds the
/// key and another takes it. Only `word` is contended: the thread that has taken the key writes the
/// other fields, so plain loads and stores suffice, and two threads never count in the same place.
#[repr(align(64))]
#[derive(Debug, Default)]
pub(super) struct Slot {
    word: AtomicU64,
    /// When the key was last taken, in ns of the monotonic clock.
    pub(super) started_ns: AtomicI64,
    /// The sum of the times from adding to taking, in nanoseconds.
    pub(super) queued_ns: AtomicU64,
    /// The sum of the times from taking to done, in nanoseconds.
    pub(super) worked_ns: AtomicU64,
    /// The number of times that the key was taken. Changed only while the word marks it as taken.
    pub(super) takes: AtomicU32,
    pub(super) queued: Buckets,
    pub(super) worked: Buckets,
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(size_of::<Slot>() == 64);

/// The number of durations per bucket, up to 255. When a count wraps around, 256 are added to the
/// queue's [`Overflow`].
pub(super) type Buckets = [AtomicU8; BUCKETS];

/// The counts that the buckets of a queue's keys could not hold.
#[derive(Debug, Default)]
pub(super) struct Overflow {
    pub(super) queued: [AtomicU64; BUCKETS],
    pub(super) worked: [AtomicU64; BUCKETS],
}

impl Slot {
    #[inline]
    pub(super) fn word(&self) -> Word {
        // SeqCst: pairs with `start_drain`; see README.md, "Draining". A plain load on x86.
        Word(self.word.load(Ordering::SeqCst))
    }

    /// Replaces `seen` with `next`, even if they are equal: an add that changes nothing must still
    /// be visible to the thread that takes the key. Returns `false` if another thread has changed
    /// the word.
    #[inline]
    pub(super) fn exchange(&self, seen: Word, next: Word) -> bool {
        // SeqCst: everything before an add is visible to the thread that takes the key, and
        // everything before `done` to the thread that takes it next. Also as in `word`.
        self.word
            .compare_exchange(seen.0, next.0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Marks a popped key as taken. Returns how long the key was queued, in nanoseconds. Until this
    /// returns, no other thread changes the state, but adds may write the word.
    #[inline]
    pub(super) fn take(&self, now_ns: i64, overflow: &Overflow) -> u64 {
        // Acquire: makes the time of the add visible. It cannot change while the key is queued.
        let added = Word(self.word.load(Ordering::Acquire));
        debug_assert_eq!(added.state(), KeyState::Queued);
        // Relaxed: published by the swap.
        self.started_ns.store(now_ns, Ordering::Relaxed);
        // SeqCst: a swap instead of a store, so that what happened before adds without an effect is
        // visible from here on. Also as in `word`.
        self.word
            .swap(Word::new(KeyState::Running, 0).0, Ordering::SeqCst);
        // Relaxed, both: as in `bump`.
        let takes = self.takes.load(Ordering::Relaxed).wrapping_add(1);
        self.takes.store(takes, Ordering::Relaxed);
        let duration_ns = now_ns.saturating_sub(added.added_ns());
        observe(&self.queued_ns, &self.queued, &overflow.queued, duration_ns)
    }

    /// Counts the duration of the work that ends now. This thread must have the key.
    #[inline]
    pub(super) fn count_work(&self, now_ns: i64, overflow: &Overflow) {
        // Relaxed: stored by the thread that took the key: this thread, or one that has
        // synchronized with it.
        let started_ns = self.started_ns.load(Ordering::Relaxed);
        let duration_ns = now_ns.saturating_sub(started_ns);
        observe(&self.worked_ns, &self.worked, &overflow.worked, duration_ns);
    }
}

/// Counts a duration, a negative one as 0. Returns the counted duration in nanoseconds.
#[inline]
fn observe(
    sum_ns: &AtomicU64,
    buckets: &Buckets,
    overflow: &[AtomicU64; BUCKETS],
    duration_ns: i64,
) -> u64 {
    let duration_ns = u64::try_from(duration_ns).unwrap_or(0);
    bump(sum_ns, duration_ns);
    let at = bucket(duration_ns);
    // Relaxed, both: as in `bump`.
    let count = buckets[at].load(Ordering::Relaxed).wrapping_add(1);
    buckets[at].store(count, Ordering::Relaxed);
    if count == 0 {
        add_overflow(&overflow[at]);
    }
    duration_ns
}

#[cold]
fn add_overflow(to: &AtomicU64) {
    // Release: a thread that reads this count also sees that the bucket was emptied, so it counts
    // nothing twice.
    to.fetch_add(1 << u8::BITS, Ordering::Release);
}

#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    // Relaxed, both: one writer at a time, and readers only need statistics.
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// Powers of ten, except that the first is 0, so that a duration of 0 has a logarithm, too.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers[0] = 0;
    powers
};

/// Returns the first bucket whose inclusive bound 10^(i+1) is at least the duration. Branch-free:
/// computes the decimal logarithm of the duration minus one from the binary one (1233 / 2^12 is
/// log10 of 2).
#[inline]
fn bucket(duration_ns: u64) -> usize {
    let below = duration_ns.saturating_sub(1);
    let guess = ((((below | 1).ilog2() + 1) * 1233) >> 12) as usize;
    (guess - usize::from(below < POWERS[guess])).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_state_and_time() {
        for state in [
            KeyState::Idle,
            KeyState::Queued,
            KeyState::Running,
            KeyState::Dirty,
        ] {
            for added_ns in [
                0,
                1,
                -1,
                1_790_000_000_000_000_000,
                (1 << 61) - 1,
                -(1 << 61),
            ] {
                let word = Word::new(state, added_ns);
                assert_eq!((word.state(), word.added_ns()), (state, added_ns));
            }
        }
    }

    #[test]
    fn durations_fall_into_the_buckets_of_their_bounds() {
        let plain = |ns: u64| {
            let bound = QUEUE_DURATION_BOUNDS_NS
                .iter()
                .position(|&bound| ns <= bound);
            bound.unwrap_or(QUEUE_DURATION_BOUNDS_NS.len())
        };
        let near = |at: u64| [at.saturating_sub(1), at, at.saturating_add(1)];
        let powers = (0..64)
            .map(|bit| 1 << bit)
            .chain((0..20).map(|i| 10u64.pow(i)));
        for ns in powers.chain([0, u64::MAX]).flat_map(near).chain(0..20_000) {
            assert_eq!(bucket(ns), plain(ns), "{ns} ns");
        }
    }
}
